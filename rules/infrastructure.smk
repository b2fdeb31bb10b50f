# infrastructure: FABRIC's information model, slice records and exports of port counters
#                 -> tables/infrastructure_*.csv and .parquet; only with files in config key infrastructure

from glob import glob

from acapella.infrastructure.inputs import has_infrastructure
from acapella.infrastructure.tables import TABLES as INFRASTRUCTURE_TABLES

INFRASTRUCTURE = has_infrastructure(config)
STUDIED = config["infrastructure"]
STUDIED_OPTIONS = {"advertisements": "--advertisement", "slices": "--slices", "telemetry": "--telemetry"}


rule infrastructure:
    input:
        files=sorted(
            {path for key in STUDIED_OPTIONS for pattern in STUDIED[key] for path in glob(pattern, recursive=True)}
        ),
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in INFRASTRUCTURE_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=INFRASTRUCTURE_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=INFRASTRUCTURE_TABLES)),
        provenance="<campaign>/provenance/infrastructure.json",
    log:
        "<campaign>/logs/infrastructure.log",
    benchmark:
        "<campaign>/benchmarks/infrastructure.tsv"
    resources:
        mem_mb=memory_mb("infrastructure"),
        runtime=run_minutes("infrastructure"),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        files=[f"{option}={pattern}" for key, option in STUDIED_OPTIONS.items() for pattern in STUDIED[key]],
        bin_s=STUDIED["bin_s"],
        line_rate=STUDIED["line_rate_share"],
        sql=digest_of_sql("infrastructure"),
        code=digest_of_code("acapella.infrastructure.tables"),
    message:
        "infrastructure"
    shell:
        "acapella campaign infrastructure {params.campaign:q} {params.files:q} --bin {params.bin_s}"
        " --line-rate {params.line_rate} > {log:q} 2>&1"
