# transfer_tables: transfers/*/cell.json with iperf3's JSON and digests, and imported iperf3 JSON files
#                  -> tables/transfer_*.csv and .parquet; only with transfer.data, .sheet, .grid or .runs
#
# The directories of cells are not declared inputs, because rule transfer writes them (rules/transfer_run.smk):
# transfers/complete.json is its output.

from glob import glob

from acapella.transfer.tables import TABLES as TRANSFER_TABLES

TRANSFER = config["transfer"]
TRANSFERS = optional_stages.has_transfers(config)


rule transfer_tables:
    input:
        data=sorted({path for pattern in TRANSFER["data"] for path in glob(pattern, recursive=True)}),
        sheet=[TRANSFER["sheet"]] if TRANSFER["sheet"] else [],
        cells="<campaign>/transfers/complete.json" if TRANSFER.get("grid") else [],
        runs=sorted(glob(f"{TRANSFER['runs']}/transfers/[!.]*/*")) if TRANSFER["runs"] else [],
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in TRANSFER_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=TRANSFER_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=TRANSFER_TABLES)),
        provenance="<campaign>/provenance/transfer.json",
    log:
        "<campaign>/logs/transfer_tables.log",
    benchmark:
        "<campaign>/benchmarks/transfer_tables.tsv"
    resources:
        mem_mb=memory_mb("transfer_tables"),
        runtime=run_minutes("transfer_tables"),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        data=[f"--data={pattern}" for pattern in TRANSFER["data"]],
        sheet=[f"--sheet={TRANSFER['sheet']}"] if TRANSFER["sheet"] else [],
        pattern=[f"--name-pattern={TRANSFER['name_pattern']}"] if TRANSFER["name_pattern"] else [],
        runs=[f"--runs={TRANSFER['runs']}"] if TRANSFER["runs"] else [],
        sql=digest_of_sql("transfer"),
        code=digest_of_code("acapella.transfer.tables"),
    message:
        "transfer_tables"
    shell:
        "acapella campaign transfers {params.campaign:q} {params.data:q} {params.sheet:q} {params.pattern:q} {params.runs:q} > {log:q} 2>&1"
