# monitor: generated/<sample>/ of the trials that rule collect generated -> tables/monitor_*.csv and .parquet;
#          only with local.generate
#
# The tables of trials are not declared inputs, because rule collect writes them; the manifests have their checksums.

from acapella.campaign.monitor import TABLES as MONITOR_TABLES
from acapella.snakefile.replays import generated_samples

GENERATED = generated_samples(config)


def monitored_samples(wildcards):
    """Return the samples of generated traffic that were collected, in the order of their trials."""
    known = SAMPLES.known()
    return [sample for sample in SAMPLES.selected(GENERATED) if sample in known]


rule monitor:
    input:
        manifests=lambda wildcards: [SAMPLES.manifest(sample) for sample in monitored_samples(wildcards)],
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in MONITOR_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=MONITOR_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=MONITOR_TABLES)),
        provenance="<campaign>/provenance/monitor.json",
    log:
        "<campaign>/logs/monitor.log",
    benchmark:
        "<campaign>/benchmarks/monitor.tsv"
    resources:
        mem_mb=1024,
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        samples=monitored_samples,
        code=digest_of_code("acapella.campaign.monitor"),
    message:
        "monitor: tables of generated traffic"
    shell:
        "acapella campaign monitored {params.campaign:q} --samples {params.samples:q} > {log:q} 2>&1"
