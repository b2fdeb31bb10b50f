# flowreports: a sample's capture, acap and flows -> flowreports/<sample>/: reports of the P4 program and flows of the
#              collector, both compared with the digest
# flowtables: flowreports/ -> tables/flowreport_*.csv and .parquet
# flowstudy: measurements on this machine -> flowstudy/: two iperf3 flows whose rates change, and reports offered to the
#            collector at fixed rates -> tables/flowreport_response, flowreport_offered; only with flowreports.study
# flowreports_published: numbers printed in the P4/RDMA paper, and those of this campaign -> tables/flowreport_published

from acapella.flowreports.sample import PARTS as FLOW_PARTS
from acapella.flowreports.study import TABLES as FLOWSTUDY_TABLES
from acapella.flowreports.tables import TABLES as FLOW_TABLES

REPORTS_OF_SAMPLE = BATCHES.pattern("flowreports", "{sample}")  # with batches, in a shard


rule flowreports:
    input:
        capture=lambda wildcards: SAMPLES.capture(wildcards.sample),
        acap=BATCHES.result_of_sample("digest", "<campaign>/acap/{sample}.parquet"),
        flows=BATCHES.result_of_sample("digest", "<campaign>/flows/{sample}.parquet"),
        program=ROOT / "p4/spec/flowstats.spec",
    output:
        parts=[f"{REPORTS_OF_SAMPLE}/{part}.parquet" for part in (*FLOW_PARTS, "memory", "flows", "series")],
        reports=f"{REPORTS_OF_SAMPLE}/reports.pcap",
        counters=[f"{REPORTS_OF_SAMPLE}/{name}.json" for name in ("program", "collector")],
    log:
        BATCHES.pattern("logs/flowreports", "{sample}.log"),
    benchmark:
        BATCHES.pattern("benchmarks/flowreports", "{sample}.tsv")
    resources:
        mem_mb=memory_mb("flowreports"),
        runtime=run_minutes("flowreports"),
    params:
        directory=lambda wildcards: BATCHES.directory("flowreports", wildcards.sample),
        acap=lambda wildcards: BATCHES.digest("acap", wildcards.sample),
        flows=lambda wildcards: BATCHES.digest("flows", wildcards.sample),
        size=REPORTED["sketch"],
        triggers=REPORTED["triggers"],
        limits=DECOMPRESSION,
        sketches=["--sketch", *REPORTED["sketches"]] if REPORTED["sketches"] else [],
        times=[f"--epoch={REPORTED['epoch']}", f"--window={REPORTED['window']}", f"--interval={REPORTED['interval']}"],
        sql=digest_of_sql("flowreports", "comparators"),
        code=digest_of_code("acapella.flowreports.command"),
    message:
        "flowreports {wildcards.sample}"
    shell:
        "acapella p4 reports -o {params.directory:q} --sample={wildcards.sample:q} --acap={params.acap:q}"
        " --flows={params.flows:q} --size {params.size} --triggers={params.triggers} {params.times} {params.limits}"
        " {params.sketches} -- {input.capture:q} > {log:q} 2>&1"


rule flowtables:
    input:
        parts=lambda wildcards: BATCHES.files(
            "flowreports",
            SAMPLES.selected(REPORTED["samples"]),
            "{sample}/{part}.parquet",
            part=[*FLOW_PARTS, "memory"],
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
        mem_mb=memory_mb("flowtables"),
        runtime=run_minutes("flowtables"),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        samples=lambda wildcards: SAMPLES.selected(REPORTED["samples"]),
        pseudonyms="--pseudonyms" if config["pseudonyms"] else "",
        sql=digest_of_sql("flowreports"),
        code=digest_of_code("acapella.flowreports.tables"),
    message:
        "flowtables"
    shell:
        "acapella p4 tables {params.campaign:q} {params.pseudonyms} --samples {params.samples:q} > {log:q} 2>&1"


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
