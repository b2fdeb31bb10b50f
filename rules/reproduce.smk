# reproduce: a release (config key `reproduce`), and the results computed from its captures or digests
#            -> reproduced.tsv, .json, .txt
# released_digests: acaps, flow tables and manifests of a release without captures -> the campaign
# record: the same results -> results/ in the release, with which others compare their results
#
# Only `snakemake reproduce` and `snakemake record` run reproduce and record. If results differ, reproduce fails.
# reproduced.* are not declared as output, because Snakemake deletes the output of a failed job.

if is_without_captures(config):

    rule released_digests:
        input:
            manifest=f"{config['reproduce']}/results/raw/{{sample}}.json",
            acap=f"{config['reproduce']}/acap/{{sample}}.parquet",
            flows=f"{config['reproduce']}/flows/{{sample}}.parquet",
        output:
            manifest="<campaign>/raw/{sample}.json",
            acap="<campaign>/acap/{sample}.parquet",
            flows="<campaign>/flows/{sample}.parquet",
        log:
            "<campaign>/logs/released_digests/{sample}.log",
        benchmark:
            "<campaign>/benchmarks/released_digests/{sample}.tsv"
        resources:
            mem_mb=constant_memory_mb(768),
            runtime=60,
        params:
            campaign=lambda wildcards: CAMPAIGN,
            release=config["reproduce"],
            code=digest_of_code("acapella.release.compare"),
        message:
            "copy the digest of {wildcards.sample} from the release"
        shell:
            "acapella campaign compare {params.campaign:q} {params.release:q} --copy-digest {wildcards.sample:q} > {log:q} 2>&1"

    ruleorder: released_digests > collect
    ruleorder: released_digests > digest


if config["reproduce"]:
    REPRODUCED_RESULTS = [
        *([*rules.process.output.csv, *rules.process.output.parquet] if HAS_SAMPLES else []),
        *([*rules.transfer_tables.output.csv, *rules.transfer_tables.output.parquet] if TRANSFERS else []),
        *([*rules.monitor.output.csv, *rules.monitor.output.parquet] if GENERATED else []),
        *([*rules.infrastructure.output.csv, *rules.infrastructure.output.parquet] if INFRASTRUCTURE else []),
        *rules.figures.output.figures,
        *(rules.trials.output if ENVIRONMENTS else []),
        *([*rules.flowtables.output.csv, *rules.flowtables.output.parquet] if REPORTED["samples"] else []),
    ]

    rule reproduce:
        input:
            results=REPRODUCED_RESULTS,
            acaps=SAMPLES.files("<campaign>/acap/{sample}.parquet") if HAS_SAMPLES else [],
            flows=SAMPLES.files("<campaign>/flows/{sample}.parquet") if HAS_SAMPLES else [],
            release=release_files(config),
        output:
            done=touch("<campaign>/logs/reproduce.done"),
        log:
            "<campaign>/logs/reproduce.log",
        benchmark:
            "<campaign>/benchmarks/reproduce.tsv"
        resources:
            mem_mb=constant_memory_mb(2048),
            runtime=120,
        params:
            campaign=lambda wildcards: CAMPAIGN,
            release=config["reproduce"],
            code=digest_of_code("acapella.release.compare"),
        message:
            "reproduce: compare with the release"
        shell:
            "acapella campaign compare {params.campaign:q} {params.release:q} > {log:q} 2>&1"

    rule record:
        input:
            results=REPRODUCED_RESULTS,
            workflow=[ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))],
        output:
            done=touch("<campaign>/logs/record.done"),
        log:
            "<campaign>/logs/record.log",
        benchmark:
            "<campaign>/benchmarks/record.tsv"
        resources:
            mem_mb=constant_memory_mb(1024),
            runtime=60,
        params:
            campaign=lambda wildcards: CAMPAIGN,
            release=config["reproduce"],
            workflow=ROOT,
            code=digest_of_code("acapella.release.compare"),
        message:
            "record: add the results to the release"
        shell:
            "acapella campaign compare {params.campaign:q} {params.release:q} --record --workflow {params.workflow:q} > {log:q} 2>&1"
