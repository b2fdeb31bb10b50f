# process: catalog and all partials -> tables/<table>.csv and .parquet, described in schemas/tables/<table>.yaml;
# provenance/process.json
#
# Before a job starts, Snakemake deletes its output except files marked with update(). So the previous tables are kept
# if the job fails. provenance/process.json is deleted, so that the job reruns.

PUBLISHED = sorted(path.stem for path in (ROOT / "workflow/sql/process").glob("*.sql"))


rule process:
    input:
        catalog="<campaign>/catalog.duckdb",
        indexed="<campaign>/logs/index.done",  # missing if the last index failed and left an earlier catalog
        partials=BATCHES.results("analyze", "<campaign>/partial/{sample}"),
        schemas=sorted((ROOT / "schemas/tables").glob("*.yaml")),
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=PUBLISHED)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=PUBLISHED)),
        provenance="<campaign>/provenance/process.json",
    log:
        "<campaign>/logs/process.log",
    benchmark:
        "<campaign>/benchmarks/process.tsv"
    threads: 2
    resources:
        mem_mb=memory_mb("process", samples=SAMPLES.number_for_job),
        runtime=run_minutes("process", samples=SAMPLES.number_for_job),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        top=config["analysis"]["top_flows"],
        pseudonyms="--pseudonyms" if config["pseudonyms"] else "",
        sql=digest_of_sql("shared", "merge", "process"),
        code=digest_of_code("acapella.campaign.process"),
    message:
        "process"
    shell:
        "acapella campaign process {params.campaign:q} --top {params.top} {params.pseudonyms} --threads {threads}"
        " --memory {resources.mem_mb}M > {log:q} 2>&1"
