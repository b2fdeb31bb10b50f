# flowreports: a sample's capture, acap and flows -> flowreports/<sample>/: reports of the P4 program and flows of the
#              collector, both compared with the digest; with batches, one job for the selected samples of a batch
# flowtables: flowreports/ -> tables/flowreport_*.csv and .parquet
# flowstudy: measurements on this machine -> flowstudy/: two iperf3 flows whose rates change, and reports offered to the
#            collector at fixed rates -> tables/flowreport_response, flowreport_offered; only with flowreports.study
# flowreports_published: numbers printed in the P4/RDMA paper, and those of this campaign -> tables/flowreport_published

from acapella.campaign.reported import FILES as FLOW_FILES
from acapella.campaign.reported import PARTS as FLOW_PARTS
from acapella.flowreports.study import TABLES as FLOWSTUDY_TABLES
from acapella.flowreports.tables import TABLES as FLOW_TABLES

REPORT_OPTIONS = [
    f"--size={REPORTED['sketch']}",
    f"--triggers={REPORTED['triggers']}",
    *(f"--{key}={REPORTED[key]}" for key in ("epoch", "window", "interval")),
    *DECOMPRESSION,
    *(["--sketch", *REPORTED["sketches"]] if REPORTED["sketches"] else []),
]
# Rules with this parameter run again if the loader or the names of drop reasons change.
LOADER_DIGEST = digest_of_loader() if REPORTED["samples"] or REPORTED["study"] else ""
CAPTURES_OF_REPORTS = functools.partial(BATCHES.captures_of_job, stage="flowreports")

if BATCHED:

    rule flowreports:
        input:
            digests="<campaign>/batches/digest/{batch}.tsv",
            captures=functools.partial(BATCHES.fetched_of_job, stage="flowreports") if FILES else [],
            program=ROOT / "p4/spec/flowstats.spec",
        output:
            outcomes="<campaign>/batches/flowreports/{batch}.tsv",
        log:
            "<campaign>/logs/batches/flowreports/{batch}.log",
        benchmark:
            "<campaign>/benchmarks/batches/flowreports/{batch}.tsv"
        priority: 3
        resources:
            mem_mb=memory_mb("flowreports", captures=CAPTURES_OF_REPORTS),
            runtime=run_minutes("flowreports", captures=CAPTURES_OF_REPORTS, limit_s=config["digest"]["max_seconds"]),
            max_seconds=config["digest"]["max_seconds"],  # a limit, which changes no result
        params:
            campaign=lambda wildcards: CAMPAIGN,
            members=lambda wildcards: BATCHES.description(wildcards.batch, "flowreports"),
            options=REPORT_OPTIONS,
            sql=digest_of_sql("flowreports", "comparators"),
            code=digest_of_code("acapella.flowreports.command"),
            loader=LOADER_DIGEST,
        message:
            "flowreports batch {wildcards.batch}: progress is in {log}"
        shell:
            "acapella campaign batch {params.campaign:q} flowreports {wildcards.batch} -o {output.outcomes:q}"
            " --code={params.code}.{params.sql}.{params.loader}.$(sha256sum < {input.program:q} | cut -c 1-64)"
            " -- {params.options:q} --max-seconds={resources.max_seconds} > {log:q} 2>&1"

else:

    rule flowreports:
        input:
            capture=lambda wildcards: SAMPLES.capture(wildcards.sample),
            acap="<campaign>/acap/{sample}.parquet",
            flows="<campaign>/flows/{sample}.parquet",
            program=ROOT / "p4/spec/flowstats.spec",
        output:
            [f"<campaign>/flowreports/{{sample}}/{file}" for file in FLOW_FILES],
        log:
            "<campaign>/logs/flowreports/{sample}.log",
        benchmark:
            "<campaign>/benchmarks/flowreports/{sample}.tsv"
        priority: 3
        resources:
            mem_mb=memory_mb("flowreports"),
            runtime=run_minutes("flowreports", limit_s=config["digest"]["max_seconds"]),
            max_seconds=config["digest"]["max_seconds"],  # a limit, which changes no result
        params:
            directory=lambda wildcards: f"{CAMPAIGN}/flowreports/{wildcards.sample}",
            options=REPORT_OPTIONS,
            sql=digest_of_sql("flowreports", "comparators"),
            code=digest_of_code("acapella.flowreports.command"),
            loader=LOADER_DIGEST,
        message:
            "flowreports {wildcards.sample}"
        shell:
            "acapella p4 reports -o {params.directory:q} --sample={wildcards.sample:q} --acap={input.acap:q}"
            " --flows={input.flows:q} {params.options:q} --max-seconds={resources.max_seconds} -- {input.capture:q}"
            " > {log:q} 2>&1"


# With batches, the inputs are lists of samples, so memory and run time are estimated from the captures.
MERGED_REPORTS = (
    {"captures": functools.partial(BATCHES.captures_of_campaign, stage="flowreports"), "share": REPORT_SHARE}
    if BATCHED
    else {}
)


rule flowtables:
    input:
        parts=lambda wildcards: (
            BATCHES.outputs("flowreports")
            if BATCHED
            else expand(
                "<campaign>/flowreports/{sample}/{part}.parquet",
                sample=SAMPLES.selected(REPORTED["samples"], without=WITHOUT_REPORTS),
                part=[*FLOW_PARTS, "memory"],
            )
        ),
        names=rules.process.output.provenance,
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in FLOW_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=FLOW_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=FLOW_TABLES)),
        provenance="<campaign>/provenance/flowtables.json",
    log:
        "<campaign>/logs/flowtables.log",
    benchmark:
        "<campaign>/benchmarks/flowtables.tsv"
    resources:
        mem_mb=memory_mb("flowtables", together_mib=float("inf"), **MERGED_REPORTS),
        runtime=run_minutes("flowtables", **MERGED_REPORTS),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        pseudonyms="--pseudonyms" if config["pseudonyms"] else "",
        sql=digest_of_sql("flowreports"),
        code=digest_of_code("acapella.flowreports.tables"),
    message:
        "flowtables"
    # The command reads the names of the samples from config.json, because they may exceed the length of a command.
    shell:
        "acapella p4 tables {params.campaign:q} {params.pseudonyms} > {log:q} 2>&1"


rule measure_response:
    output:
        json="<campaign>/flowstudy/response.json",
        capture="<campaign>/flowstudy/response.pcap",
    log:
        "<campaign>/logs/measure_response.log",
    benchmark:
        "<campaign>/benchmarks/measure_response.tsv"
    retries: 0
    # All cores, so that no other job of this workflow runs during the measurement.
    threads: workflow.cores or 1
    resources:
        mem_mb=constant_memory_mb(768),
        runtime=10,
        slurm_extra="--no-requeue",  # see profiles/slurm
    params:
        code=digest_of_code("acapella_capture.response"),
    message:
        "measure_response: two iperf3 flows whose rates change, over background traffic"
    shell:
        "acapella measure response -o {output.json:q} > {log:q} 2>&1"


rule response_flows:
    input:
        capture=rules.measure_response.output.capture,
        program=ROOT / "p4/spec/flowstats.spec",
    output:
        parts=[f"<campaign>/flowstudy/response/{part}.parquet" for part in FLOW_PARTS],
    log:
        "<campaign>/logs/response_flows.log",
    benchmark:
        "<campaign>/benchmarks/response_flows.tsv"
    resources:
        mem_mb=memory_mb("flowreports"),
        runtime=run_minutes("flowreports"),
    params:
        directory=lambda wildcards: f"{CAMPAIGN}/flowstudy/response",
        sql=digest_of_sql("flowreports", "comparators"),
        code=digest_of_code("acapella.flowreports.command"),
        loader=LOADER_DIGEST,
    message:
        "flowreports of the flows whose rates change"
    shell:
        "acapella p4 reports -o {params.directory:q} --sample=response --window=100ms --epoch=100ms --interval=20ms -- {input.capture:q}"
        " > {log:q} 2>&1"


rule measure_collector:
    input:
        program=ROOT / "p4/spec/flowstats.spec",
        load=ROOT / "p4/model/generated_load.py",
    output:
        json="<campaign>/flowstudy/offered.json",
    log:
        "<campaign>/logs/measure_collector.log",
    benchmark:
        "<campaign>/benchmarks/measure_collector.tsv"
    retries: 0
    threads: workflow.cores or 1
    resources:
        mem_mb=constant_memory_mb(1024),
        runtime=10,
        slurm_extra="--no-requeue",  # see profiles/slurm
    params:
        rates=REPORTED["offered_mrps"],
        threads=REPORTED["threads"],
        code=digest_of_code("acapella.flowreports.offered"),
    message:
        "measure_collector: reports offered at fixed rates, and reports of two traces"
    shell:
        "acapella measure collector -o {output.json:q} --threads {params.threads} --rates {params.rates} > {log:q} 2>&1"


rule flowstudy:
    input:
        response=rules.measure_response.output.json,
        flows=rules.response_flows.output.parts,
        offered=rules.measure_collector.output.json,
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in FLOWSTUDY_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=FLOWSTUDY_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=FLOWSTUDY_TABLES)),
        provenance="<campaign>/provenance/flowstudy.json",
    log:
        "<campaign>/logs/flowstudy.log",
    benchmark:
        "<campaign>/benchmarks/flowstudy.tsv"
    resources:
        mem_mb=constant_memory_mb(1024),
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        sql=digest_of_sql("flowreports"),
        code=digest_of_code("acapella.flowreports.study"),
    message:
        "flowstudy"
    shell:
        "acapella p4 study {params.campaign:q} > {log:q} 2>&1"


rule flowreports_published:
    input:
        printed=ROOT / "workflow/conformance/flowreports_printed.csv",
        tables=[
            *(rules.flowtables.output.parquet if REPORTED["samples"] else []),
            *(rules.flowstudy.output.parquet if REPORTED["study"] else []),
        ],
        schema=ROOT / "schemas/tables/flowreport_published.yaml",
    output:
        csv=update("<campaign>/tables/flowreport_published.csv"),
        parquet=update("<campaign>/tables/flowreport_published.parquet"),
        provenance="<campaign>/provenance/flowpublished.json",
    log:
        "<campaign>/logs/flowreports_published.log",
    benchmark:
        "<campaign>/benchmarks/flowreports_published.tsv"
    resources:
        mem_mb=constant_memory_mb(768),
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        flags=["--flowreports"] * bool(REPORTED["samples"]) + ["--flowstudy"] * REPORTED["study"],
        code=digest_of_code("acapella.flowreports.published"),
    message:
        "flowreports_published: numbers printed in the P4/RDMA paper, and those of the campaign"
    shell:
        "acapella p4 published {params.campaign:q} {params.flags} --printed {input.printed:q} > {log:q} 2>&1"
