# digest: one capture -> acap/<sample>.parquet (a row a frame), flows/<sample>.parquet (a row a directed flow)
#
# Both are a function of the capture's bytes and the params below and of nothing else, so they can be taken from a
# cache between campaigns (`--cache`). That is why the capture is an input and its manifest, which names the campaign,
# is not. `damaged` is no param but a resource, whose changes run nothing again: it decides what the end of a job means,
# not what it writes.

from acapella.snakefile.code import tshark_version, vendors_sha256
from acapella.digest.command import ENGINES

DEEP_FRAMES = config["digest"]["deep_frames"]
DECOMPRESSION = [f"--max-{key}={config['digest'][f'max_{key}']}" for key in ("decompressed", "ratio")]


rule digest:
    input:
        capture=capture_of_digest,
    output:
        acap="<campaign>/acap/{sample}.parquet",
        flows="<campaign>/flows/{sample}.parquet",
    log:
        "<campaign>/logs/digest/{sample}.log",
    benchmark:
        "<campaign>/benchmarks/digest/{sample}.tsv"
    cache: workflow.enable_cache
    threads: config["digest"]["threads"]
    resources:
        mem_mb=config["digest"]["memory_mb"] + 1536,  # the tables, and the rest: 256 for us, 1280 for tshark
        runtime=24 * 60,
        damaged=config["digest"]["damaged"],
        memory=f"{config['digest']['memory_mb']}M",  # a limit, which changes no result
    params:
        limits=DECOMPRESSION,
        site=lambda wildcards: sheet()[wildcards.sample][0],
        port=lambda wildcards: sheet()[wildcards.sample][1],
        engine=config["digest"]["engine"],
        deep_frames=["--deep-frames", *DEEP_FRAMES] if DEEP_FRAMES else [],
        tshark=tshark_version(config["digest"]["engine"]),
        vendors=vendors_sha256(),
        code=digest_of_code("acapella.digest.command", ENGINES[config["digest"]["engine"]]),
    message:
        "digest {wildcards.sample}: progress is in {log}"
    shell:
        "acapella digest -o {output.acap:q} --flows {output.flows:q}"
        " --site={params.site:q} --port={params.port:q} --engine {params.engine} {params.deep_frames}"
        " {params.limits} --memory {resources.memory} --threads {threads} --damaged {resources.damaged} --progress -- {input.capture:q} > {log:q} 2>&1"


if workflow.enable_cache:
    use_checked_cache()
    # Snakemake refuses a benchmark beside a cache: a result that is taken from there has no running time. It has no
    # public way to leave a directive out ("" and [] are mistakes to it), and `use rule` cannot take one away.
    without_benchmark(workflow.get_rule("digest"))
