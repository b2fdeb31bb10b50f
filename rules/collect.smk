# collect: a testbed's or the user's captures -> raw/<sample>.json (manifest), raw/<file> (capture), raw/samples.tsv
#
# files: a job for each capture, so that one that cannot be read fails alone.
# local: a checkpoint, because what was sampled is known only afterwards. It carries no digest of its code: an edit
#        must not throw captures away. Other settings of the capture do take other samples. Ctrl-C goes to the whole
#        process group; tee lives on for the last line.

import json

COLLECT_KEYS = {
    "files": ("testbed", "samples"),
    "local": ("testbed", "runs", "capture", "collect", "local"),
    "fabric": ("testbed", "runs", "capture", "collect", "fabric"),
}[config["testbed"]]
if config["testbed"] != "files" and config["preprocess"]["anonymize"]:
    COLLECT_KEYS = (*COLLECT_KEYS, "preprocess")
COLLECTED = {key: config[key] for key in COLLECT_KEYS}
if config["testbed"] == "files":
    COLLECTED["digest"] = {key: config["digest"][key] for key in ("max_decompressed", "max_ratio")}
COLLECT_CONFIG = json.dumps(COLLECTED, sort_keys=True)

if config["testbed"] == "files":

    rule collect:
        input:
            capture=capture_if_readable,
        output:
            manifest="<campaign>/raw/{sample}.json",
        log:
            "<campaign>/logs/collect/{sample}.log",
        benchmark:
            "<campaign>/benchmarks/collect/{sample}.tsv"
        resources:
            mem_mb=256,
            runtime=60,
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=COLLECT_CONFIG,
            row=lambda wildcards: [
                ROWS[wildcards.sample].site,
                ROWS[wildcards.sample].port,
                ROWS[wildcards.sample].start_ns,
                *ROWS[wildcards.sample].restriction,
            ],
            code=digest_of_code("acapella_capture.collect"),
        message:
            "collect {wildcards.sample}"
        shell:
            "acapella collect {params.campaign:q} --config <(printf %s {params.config:q})"
            " --only {wildcards.sample:q} > {log:q} 2>&1"

    rule samples:
        output:
            sheet="<campaign>/raw/samples.tsv",
        log:
            "<campaign>/logs/samples.log",
        benchmark:
            "<campaign>/benchmarks/samples.tsv"
        resources:
            mem_mb=256,
            runtime=10,
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=COLLECT_CONFIG,
            rows=[[row.sample, row.site, row.port, row.link] for row in ROWS.values()],
            code=digest_of_code("acapella_capture.collect"),
        message:
            "collect: the sheet of samples"
        shell:
            "acapella collect {params.campaign:q} --config <(printf %s {params.config:q})"
            " --list -o {output.sheet:q} > {log:q} 2>&1"

else:

    checkpoint collect:
        output:
            sheet="<campaign>/raw/samples.tsv",
            config="<campaign>/collect.json",
        log:
            "<campaign>/logs/collect.log",
        benchmark:
            "<campaign>/benchmarks/collect.tsv"
        threads: workflow.cores or 1
        resources:
            mem_mb=1024,
            runtime=24 * 60,
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=COLLECT_CONFIG,
        message:
            "collect: testbed {config[testbed]}"
        shell:
            "printf '%s\\n' {params.config:q} > {output.config:q};"
            " acapella collect {params.campaign:q} --config {output.config:q} 2>&1 | (trap '' INT TERM; tee {log:q})"
