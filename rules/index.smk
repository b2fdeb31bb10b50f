# index: all acaps, flows, manifests -> catalog.duckdb
#
# The earlier catalog is kept if the job fails (rules/process.smk); logs/index.done is deleted, so that the job reruns.

# With batches, the inputs are lists of samples, so memory and run time are estimated from the captures.
INDEXED = (
    {"captures": BATCHES.captures_of_campaign, "share": ACAP_SHARE} if BATCHED else {"samples": SAMPLES.number_for_job}
)


rule index:
    input:
        sheet="<campaign>/raw/samples.tsv",
        manifests=BATCHES.results("collect", "<campaign>/raw/{sample}.json") if FILES else SAMPLES.manifests,
        acaps=BATCHES.results("digest", "<campaign>/acap/{sample}.parquet"),
        flows=BATCHES.results("digest", "<campaign>/flows/{sample}.parquet"),
    output:
        catalog=update("<campaign>/catalog.duckdb"),
        done=touch("<campaign>/logs/index.done"),
    log:
        "<campaign>/logs/index.log",
    benchmark:
        "<campaign>/benchmarks/index.tsv"
    priority: 2
    resources:
        mem_mb=memory_mb("index", together_mib=float("inf"), **INDEXED),
        runtime=run_minutes("index", **INDEXED),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        exclude=["--exclude", *sorted(config["exclude"])] if config["exclude"] else [],
        failed=["--failed", *FAILED] if FAILED else [],
        traffic=config["analysis"]["traffic"],
        trials=["--trials", *TRIALS.samples()] if ENVIRONMENTS else [],
        sql=digest_of_sql("index"),
        code=digest_of_code("acapella.campaign.index"),
    message:
        "index"
    shell:
        "acapella campaign index {params.campaign:q} {params.exclude:q} {params.failed:q} {params.trials:q} --traffic {params.traffic}"
        " --memory {resources.mem_mb}M > {log:q} 2>&1"
