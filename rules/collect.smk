# collect: a testbed's or the user's captures -> raw/<sample>.json (manifest), raw/<file> (capture), raw/samples.tsv
#
# files: one job per capture, so that an unreadable capture does not affect the others.
# Other testbeds: a checkpoint, because the samples are known only afterwards. It has no digest of its code, so that
# editing the code does not discard captures; changing settings of the capture does. Ctrl-C signals the whole process
# group, and tee ignores it to write the last line.

if FILES and BATCHED:

    rule collect:
        input:
            captures=BATCHES.fetched_of_job,
        output:
            outcomes="<campaign>/batches/collect/{batch}.tsv",
            config="<campaign>/batches/collect/{batch}.json",
        log:
            "<campaign>/logs/batches/collect/{batch}.log",
        benchmark:
            "<campaign>/benchmarks/batches/collect/{batch}.tsv"
        priority: 1
        resources:
            mem_mb=memory_mb("collect", captures=BATCHES.captures_of_job),
            runtime=run_minutes("collect", captures=BATCHES.captures_of_job),
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=collection_config(config),
            members=lambda wildcards: BATCHES.description(wildcards.batch),
            code=digest_of_code("acapella_capture.collect"),
        message:
            "collect batch {wildcards.batch}"
        shell:
            "printf '%s\\n' {params.config:q} > {output.config:q};"
            " acapella campaign batch {params.campaign:q} collect {wildcards.batch} -o {output.outcomes:q}"
            " --code={params.code}.$(sha256sum < {output.config:q} | cut -c 1-64) -- --config {output.config:q} > {log:q} 2>&1"

elif FILES:

    rule collect:
        input:
            capture=REPLACED_CAPTURES.checked(lambda wildcards: SAMPLES.readable_capture(wildcards.sample)),
        output:
            manifest="<campaign>/raw/{sample}.json",
        log:
            "<campaign>/logs/collect/{sample}.log",
        benchmark:
            "<campaign>/benchmarks/collect/{sample}.tsv"
        priority: 1
        resources:
            mem_mb=memory_mb("collect"),
            runtime=run_minutes("collect"),
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=collection_config(config),
            row=lambda wildcards: SHEET.manifest_values(wildcards.sample),
            stored=lambda wildcards: SHEET.stored_option(wildcards.sample),
            code=digest_of_code("acapella_capture.collect"),
        message:
            "collect {wildcards.sample}"
        shell:
            "acapella collect {params.campaign:q} --config <(printf %s {params.config:q})"
            " --only {wildcards.sample:q} {params.stored:q} > {log:q} 2>&1"

else:

    checkpoint collect:
        input:
            COLLECTION.plan_of_dry_run(workflow),
        output:
            sheet="<campaign>/raw/samples.tsv",
            config="<campaign>/collect.json",
        log:
            "<campaign>/logs/collect.log",
        benchmark:
            "<campaign>/benchmarks/collect.tsv"
        retries: 0
        threads: workflow.cores or 1
        resources:
            mem_mb=1024,
            runtime=24 * 60,
            slurm_extra="--no-requeue",  # see profiles/slurm
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=collection_config(config),
        message:
            "collect: testbed {config[testbed]}"
        shell:
            "printf '%s\\n' {params.config:q} > {output.config:q};"
            " acapella collect {params.campaign:q} --config {output.config:q} 2>&1 | (trap '' INT TERM; tee {log:q})"


if FILES:

    rule samples:
        output:
            sheet="<campaign>/raw/samples.tsv",
        log:
            "<campaign>/logs/samples.log",
        benchmark:
            "<campaign>/benchmarks/samples.tsv"
        resources:
            mem_mb=memory_mb("samples"),
            runtime=run_minutes("samples"),
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=collection_config(config),
            rows=SHEET.list_values(),
            code=digest_of_code("acapella_capture.collect"),
        message:
            "collect: sample sheet"
        shell:
            "acapella collect {params.campaign:q} --config <(printf %s {params.config:q})"
            " --list -o {output.sheet:q} > {log:q} 2>&1"
