# digest: one capture -> acap/<sample>.parquet (one row per frame), flows/<sample>.parquet (one row per directed flow)
#
# Both depend only on the bytes of the capture and on the params below, so campaigns can share a cache (digest.cache).
# Therefore, the manifest, which names the campaign, is an input only with batches and for captures in storage.
# `damaged` is a resource instead of a param, because Snakemake does not rerun a job if a resource changes: `damaged`
# determines the exit code, not the output.
#
# Waiting jobs of flowreports start first, then those of digest and index, then those of collect, then other stages
# (priority). Therefore few fetched captures exist at a time, because their last job runs before others are fetched, and
# jobs of analyze remain for the other cores while index uses one.

from acapella import __version__
from acapella.snakefile.code import tshark_version, vendors_sha256
from acapella.digest.command import ENGINES

DEEP_FRAMES = config["digest"]["deep_frames"]
DECOMPRESSION = [f"--max-{key}={config['digest'][f'max_{key}']}" for key in ("decompressed", "ratio")]
DIGEST_MB = config["digest"]["memory_mb"] + 1280  # maximum memory that depends on the capture; 1280 for tshark
DIGEST_OPTIONS = [
    f"--engine={config['digest']['engine']}",
    *(["--deep-frames", *map(str, DEEP_FRAMES)] if DEEP_FRAMES else []),
    *DECOMPRESSION,
]

if BATCHED:

    rule digest:
        input:
            manifests="<campaign>/batches/collect/{batch}.tsv" if FILES else COLLECTED_SHEET,
            captures=BATCHES.fetched_of_job if FILES else [],
        output:
            outcomes="<campaign>/batches/digest/{batch}.tsv",
        log:
            "<campaign>/logs/batches/digest/{batch}.log",
        benchmark:
            "<campaign>/benchmarks/batches/digest/{batch}.tsv"
        priority: 2
        threads: config["digest"]["threads"]
        resources:
            mem_mb=memory_mb("digest", at_most=DIGEST_MB, captures=BATCHES.captures_of_job),
            runtime=run_minutes(
                "digest",
                captures=BATCHES.captures_of_job,
                engine=config["digest"]["engine"],
                limit_s=config["digest"]["max_seconds"],
            ),
            damaged=config["digest"]["damaged"],
            memory=memory_limit(config["digest"]["memory_mb"]),  # limits, which change no result
            max_seconds=config["digest"]["max_seconds"],
        params:
            campaign=lambda wildcards: CAMPAIGN,
            members=lambda wildcards: BATCHES.description(wildcards.batch),
            options=DIGEST_OPTIONS,
            tshark=tshark_version(config["digest"]["engine"]),
            vendors=vendors_sha256(),
            version=__version__,
            code=digest_of_code("acapella.digest.command", ENGINES[config["digest"]["engine"]]),
        message:
            "digest batch {wildcards.batch}: progress is in {log}"
        shell:
            "acapella campaign batch {params.campaign:q} digest {wildcards.batch} -o {output.outcomes:q}"
            " --code={params.code}.{params.version:q}.{params.tshark:q}.{params.vendors:q} -- {params.options:q}"
            " --cache-key={params.code}.{params.tshark:q}.{params.vendors:q}"
            " --memory={resources.memory} --max-seconds={resources.max_seconds} --threads={threads} --damaged={resources.damaged} --progress > {log:q} 2>&1"

else:

    rule digest:
        input:
            capture=REPLACED_CAPTURES.checked(CACHED_DIGESTS.checked_capture(SAMPLES)),
            manifest=SHEET.manifest_of_stored(SAMPLES) if FILES else [],
        output:
            acap="<campaign>/acap/{sample}.parquet",
            flows="<campaign>/flows/{sample}.parquet",
        log:
            "<campaign>/logs/digest/{sample}.log",
        benchmark:
            "<campaign>/benchmarks/digest/{sample}.tsv"
        priority: 2
        threads: config["digest"]["threads"]
        resources:
            mem_mb=memory_mb("digest", at_most=DIGEST_MB),
            runtime=run_minutes("digest", engine=config["digest"]["engine"], limit_s=config["digest"]["max_seconds"]),
            damaged=config["digest"]["damaged"],
            memory=memory_limit(config["digest"]["memory_mb"]),  # limits, which change no result
            max_seconds=config["digest"]["max_seconds"],
        params:
            site=lambda wildcards: SAMPLES[wildcards.sample].site,
            port=lambda wildcards: SAMPLES[wildcards.sample].port,
            options=DIGEST_OPTIONS,
            stored=lambda wildcards: SHEET.version(wildcards.sample) if FILES else "",
            checksum=lambda wildcards: SHEET.checksum_option(wildcards.sample) if FILES else [],
            tshark=tshark_version(config["digest"]["engine"]),
            vendors=vendors_sha256(),
            version=__version__,
            code=digest_of_code("acapella.digest.command", ENGINES[config["digest"]["engine"]]),
        message:
            "digest {wildcards.sample}: progress is in {log}"
        shell:
            "acapella digest -o {output.acap:q} --flows {output.flows:q}"
            " --site={params.site:q} --port={params.port:q} {params.options:q} {params.checksum:q}"
            " --cache-key={params.code}.{params.tshark:q}.{params.vendors:q}"
            " --memory {resources.memory} --max-seconds {resources.max_seconds} --threads {threads} --damaged {resources.damaged} --progress -- {input.capture:q} > {log:q} 2>&1"
