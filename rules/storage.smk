# storage: measurements on this machine -> storage/study.json (measure_storage) -> tables/storage_*.csv and .parquet
#          (storage_tables) -> figures/storage_latency.* (Patchwork, appendix B, Tables 1 and 2).
#
# Only `snakemake storage` runs these rules, because the study changes the machine's dirty-page thresholds.
# Afterwards, the report contains a section about it (rules/report.smk). Without root, bpftrace or
# acapella-dpdk-capture, the tables are empty and the study contains the reason.

from acapella.figures.registry import STORAGE_FIGURES
from acapella.campaign.storage import TABLES as STORAGE_TABLES

STUDY = config["storage"]


rule measure_storage:
    output:
        study=update("<campaign>/storage/study.json"),
    log:
        "<campaign>/logs/measure_storage.log",
    benchmark:
        "<campaign>/benchmarks/measure_storage.tsv"
    retries: 0
    # All cores, so that no other job of this workflow runs during the measurement.
    threads: workflow.cores or 1
    resources:
        mem_mb=constant_memory_mb(1024),
        runtime=60,
        slurm_extra="--no-requeue",  # see profiles/slurm
    params:
        thresholds=[f"{background}:{limit}" for background, limit in STUDY["thresholds"]],
        memory=[f"--memory-mb={STUDY['memory_mb']}"] if STUDY["memory_mb"] else [],
        disks=[str(mbps or "own") for mbps in STUDY["disks_mbps"]],
        frames=[f"--frame-bytes={STUDY['frame_bytes']}", f"--snaplen={STUDY['snaplen']}"],
        rate=[f"--rate={STUDY['rate']}"] if STUDY["rate"] else [],
        seconds=STUDY["run_s"],
        table_seconds=STUDY["table_run_s"],
        code=digest_of_code("acapella_capture.storage.command"),
    message:
        "measure_storage: sets vm.dirty_* of this machine during the measurement"
    shell:
        "acapella measure storage -o {output.study:q} --thresholds {params.thresholds} --disk-mbps {params.disks}"
        " {params.memory} {params.frames} {params.rate} --seconds {params.seconds}"
        " --table-seconds {params.table_seconds} 2>&1 | tee {log:q}"


rule storage_tables:
    input:
        study=rules.measure_storage.output.study,
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in STORAGE_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=STORAGE_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=STORAGE_TABLES)),
    log:
        "<campaign>/logs/storage_tables.log",
    benchmark:
        "<campaign>/benchmarks/storage_tables.tsv"
    resources:
        mem_mb=constant_memory_mb(768),
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        code=digest_of_code("acapella.campaign.storage"),
    message:
        "storage: tables"
    shell:
        "acapella campaign storage {params.campaign:q} > {log:q} 2>&1"


rule storage:
    input:
        study=rules.measure_storage.output.study,
        tables=rules.storage_tables.output.parquet,
    output:
        [
            report(
                f"<campaign>/figures/{figure}.{format}",
                caption=f"../workflow/report/{figure}.rst",
                category="Figures",
                labels={"figure": figure, "format": format},
            )
            for figure in STORAGE_FIGURES
            for format in config["figures"]["formats"]
        ],
    log:
        "<campaign>/logs/storage.log",
    benchmark:
        "<campaign>/benchmarks/storage.tsv"
    resources:
        mem_mb=constant_memory_mb(1024),
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        figures=STORAGE_FIGURES,
        formats=config["figures"]["formats"],
        code=digest_of_code("acapella.figures"),
    message:
        "storage: figures"
    shell:
        "acapella campaign figures {params.campaign:q} --only {params.figures} --formats {params.formats} > {log:q} 2>&1"
