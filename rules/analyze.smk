# analyze: one sample's acap, flows, manifest -> partial/<sample>/<table>.parquet, its part of each table
#
# With batches, batches/partial/<batch>/<table>.parquet contains the rows of all samples of a batch. If only queries
# have changed, the job recreates only their tables.

ANALYZE_OPTIONS = [
    f"--bin-ns={round(config['analysis']['throughput_bin_s'] * 1_000_000_000)}",
    "--congestion",
    *(f"{key}={value}" for key, value in config["analysis"]["congestion"].items()),
]

if BATCHED:

    rule analyze:
        input:
            digests="<campaign>/batches/digest/{batch}.tsv",
        output:
            outcomes="<campaign>/batches/analyze/{batch}.tsv",
        log:
            "<campaign>/logs/batches/analyze/{batch}.log",
        benchmark:
            "<campaign>/benchmarks/batches/analyze/{batch}.tsv"
        resources:
            mem_mb=memory_mb("analyze", captures=BATCHES.captures_of_job, share=ACAP_SHARE, together_mib=TOGETHER_MIB),
            runtime=run_minutes("analyze", captures=BATCHES.captures_of_job, share=ACAP_SHARE),
        params:
            campaign=lambda wildcards: CAMPAIGN,
            members=lambda wildcards: BATCHES.description(wildcards.batch),
            options=ANALYZE_OPTIONS,
            tables=digests_of_tables(),
            heuristics=digest_of_heuristics(),
            code=digest_of_code("acapella.campaign.analyze"),
        message:
            "analyze batch {wildcards.batch}: progress is in {log}"
        shell:
            "acapella campaign batch {params.campaign:q} analyze {wildcards.batch} -o {output.outcomes:q}"
            " --code={params.code}.{params.heuristics} --tables {params.tables}"
            " -- {params.options:q} > {log:q} 2>&1"

else:

    rule analyze:
        input:
            manifest="<campaign>/raw/{sample}.json" if FILES else lambda wildcards: SAMPLES.manifest(wildcards.sample),
            acap="<campaign>/acap/{sample}.parquet",
            flows="<campaign>/flows/{sample}.parquet",
        output:
            partial=directory("<campaign>/partial/{sample}"),
        log:
            "<campaign>/logs/analyze/{sample}.log",
        benchmark:
            "<campaign>/benchmarks/analyze/{sample}.tsv"
        resources:
            mem_mb=memory_mb("analyze"),
            runtime=run_minutes("analyze"),
        params:
            campaign=lambda wildcards: CAMPAIGN,
            options=ANALYZE_OPTIONS,
            sql=digest_of_sql("analyze", "congestion", "shared"),
            heuristics=digest_of_heuristics(),
            code=digest_of_code("acapella.campaign.analyze"),
        message:
            "analyze {wildcards.sample}"
        shell:
            "acapella campaign analyze {params.campaign:q} --sample {wildcards.sample:q} -o {output.partial:q}"
            " {params.options:q} > {log:q} 2>&1"
