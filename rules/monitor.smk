# monitor: generated/<sample>/ of the trials that rule collect generated, or of a release
#          -> tables/monitor_*.csv and .parquet; only with local.generate, or a release that contains them
# search: searches for the highest rate without loss on this machine -> tables/monitor_searches.csv and .parquet
#         (measure_search) -> figures/monitor_rates.* (OSNT, figure 5). Only `snakemake search` runs it; the report then
#         has its figure and table. If a search fails or is interrupted, its trials remain in
#         tables/monitor_searches.trials.json, and the next run does not repeat them. Ctrl-C signals the whole process
#         group, and tee ignores it to write the last line.
#
# The tables of trials are not declared inputs, because rule collect writes them; the manifests contain their checksums.

from acapella.campaign.monitor import TABLES as MONITOR_TABLES
from acapella.figures.registry import SEARCH_FIGURES
from acapella.snakefile.replays import generated_samples

GENERATED = generated_samples(config)
RELEASED_TRIALS = [
    f"{config['reproduce']}/generated/{sample}/{table}.parquet"
    for sample in (GENERATED if config["reproduce"] else [])
    for table in MONITOR_TABLES
]
SEARCH = config["search"]


rule monitor:
    input:
        manifests=lambda wildcards: (
            [] if config["reproduce"] else [SAMPLES.manifest(sample) for sample in SAMPLES.collected(GENERATED)]
        ),
        released=RELEASED_TRIALS,
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in MONITOR_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=MONITOR_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=MONITOR_TABLES)),
        provenance="<campaign>/provenance/monitor.json",
    log:
        "<campaign>/logs/monitor.log",
    benchmark:
        "<campaign>/benchmarks/monitor.tsv"
    resources:
        mem_mb=1024,
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        trials=lambda wildcards: (
            [f"--release={config['reproduce']}"]
            if config["reproduce"]
            else ["--samples", *SAMPLES.collected(GENERATED)]
        ),
        code=digest_of_code("acapella.campaign.monitor"),
    message:
        "monitor: tables of generated traffic"
    shell:
        "acapella campaign monitored {params.campaign:q} {params.trials:q} > {log:q} 2>&1"


rule measure_search:
    input:
        schema=ROOT / "schemas/tables/monitor_searches.yaml",
    output:
        csv=update("<campaign>/tables/monitor_searches.csv"),
        parquet=update("<campaign>/tables/monitor_searches.parquet"),
    log:
        "<campaign>/logs/measure_search.log",
    benchmark:
        "<campaign>/benchmarks/measure_search.tsv"
    retries: 0
    # All cores, so that no other job of this workflow runs during the measurement.
    threads: workflow.cores or 1
    resources:
        mem_mb=2048,
        runtime=24 * 60,
        slurm_extra="--no-requeue",  # see profiles/slurm
    params:
        directory=lambda wildcards: f"{CAMPAIGN}/tables",
        sizes=SEARCH["frame_bytes"],
        rate=[f"--max-rate={SEARCH['max_pps']}"],
        resolution=[f"--resolution={SEARCH['resolution_pps']}"] if SEARCH["resolution_pps"] else [],
        options=[
            f"--virtual={SEARCH['ports']}",
            f"--trial-seconds={SEARCH['trial_s']}",
            f"--snaplen={SEARCH['snaplen']}",
        ],
        code=digest_of_code("acapella_capture.monitor.command"),
    message:
        "search: highest rates without loss"
    shell:
        "acapella monitor --search --with-capture --burst-packets 0 -o {params.directory:q} --frame-bytes {params.sizes}"
        " {params.rate} {params.resolution} {params.options} 2>&1 | (trap '' INT TERM; tee {log:q})"


rule search:
    input:
        table=rules.measure_search.output.parquet,
    output:
        [
            report(
                f"<campaign>/figures/{figure}.{format}",
                caption=f"../workflow/report/{figure}.rst",
                category="Figures",
                labels={"figure": figure, "format": format},
            )
            for figure in SEARCH_FIGURES
            for format in config["figures"]["formats"]
        ],
    log:
        "<campaign>/logs/search.log",
    benchmark:
        "<campaign>/benchmarks/search.tsv"
    resources:
        mem_mb=1024,
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        figures=SEARCH_FIGURES,
        formats=config["figures"]["formats"],
        code=digest_of_code("acapella.figures"),
    message:
        "search: figures"
    shell:
        "acapella campaign figures {params.campaign:q} --only {params.figures} --formats {params.formats} > {log:q} 2>&1"
