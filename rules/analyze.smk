# analyze: one sample's acap, flows, manifest -> partial/<sample>/<table>.parquet, its part of each table


rule analyze:
    input:
        manifest="<campaign>/raw/{sample}.json",
        acap="<campaign>/acap/{sample}.parquet",
        flows="<campaign>/flows/{sample}.parquet",
        sql=[
            *sorted((ROOT / "workflow/sql/analyze").glob("*.sql")),
            *sorted((ROOT / "workflow/sql/congestion").glob("*.sql")),
            *sorted((ROOT / "workflow/sql/shared").glob("*.sql")),
        ],
        heuristics=ROOT / "schemas/heuristics.tsv",
    output:
        partial=directory("<campaign>/partial/{sample}"),
    log:
        "<campaign>/logs/analyze/{sample}.log",
    benchmark:
        "<campaign>/benchmarks/analyze/{sample}.tsv"
    resources:
        mem_mb=2048,
        runtime=120,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        bin_ns=round(config["analysis"]["throughput_bin_s"] * 1_000_000_000),
        congestion=[f"{key}={value}" for key, value in config["analysis"]["congestion"].items()],
        code=digest_of_code("acapella.campaign.analyze"),
    message:
        "analyze {wildcards.sample}"
    shell:
        "acapella campaign analyze {params.campaign:q} --sample {wildcards.sample:q} -o {output.partial:q}"
        " --bin-ns {params.bin_ns} --congestion {params.congestion:q} > {log:q} 2>&1"
