# kappa: captures (and departures, if replayed) of an environment's trials
#        -> kappa/<environment>.json, with original names
# trials: kappa/ -> tables/consistency*.csv and .parquet, consistency/<environment>.json, provenance/consistency.json
# conformance: numbers printed in the CHOIR paper -> tables/kappa_published.csv and .parquet; needs no capture

from acapella.common.pseudonyms import environment_pseudonyms
from acapella.campaign.trial_tables import JOINED
from acapella.campaign.trial_tables import TABLES as TRIAL_TABLES

COMPARED = config["consistency"]
TSHARK_MB = 1280 if COMPARED["filter"] else 0  # beyond the limit of kappa
SHOWN_ENVIRONMENTS = environment_pseudonyms(ENVIRONMENTS) if config["pseudonyms"] else ENVIRONMENTS


rule kappa:
    input:
        captures=REPLACED_CAPTURES.checked(
            lambda wildcards: TRIALS.captures(wildcards.environment, SAMPLES, COLLECTED_SHEET),
            lambda wildcards: TRIALS.samples(wildcards.environment),
        ),
        replays=lambda wildcards: TRIALS.replay_files(wildcards.environment, SAMPLES, COMPARED).paths(),
    output:
        json="<campaign>/kappa/{environment}.json",
    log:
        "<campaign>/logs/kappa/{environment}.log",
    benchmark:
        "<campaign>/benchmarks/kappa/{environment}.tsv"
    wildcard_constraints:
        environment=TRIALS.wildcard_constraint(),
    resources:
        mem_mb=memory_mb("kappa", at_most=COMPARED["memory_mb"] + TSHARK_MB),
        runtime=run_minutes("kappa", engine="tshark" if COMPARED["filter"] else None),
        damaged=config["digest"]["damaged"],  # not a param, as in rule digest
    params:
        trials=lambda wildcards: [",".join(map(SAMPLES.capture, trial)) for trial in TRIALS.of(wildcards.environment)],
        names=lambda wildcards: [f"--name={JOINED.join(trial)}" for trial in TRIALS.of(wildcards.environment)],
        identity=[
            f"--identity={COMPARED['identity']}",
            *([] if COMPARED["l4_checksum"] else ["--no-l4-checksum"]),
            *(f"--region={region}" for region in COMPARED["regions"]),
        ],
        selection=[f"--{key}={COMPARED[key]}" for key in ("filter", "flow", "from", "to") if COMPARED[key]],
        within=COMPARED["within_ns"],
        windows=f"--window={COMPARED['window']}" if COMPARED["window"] else f"--windows={COMPARED['windows']}",
        replays=lambda wildcards: TRIALS.replay_files(wildcards.environment, SAMPLES, COMPARED).options(),
        memory=f"{COMPARED['memory_mb']}M",
        limits=DECOMPRESSION,
        pairs="--all-pairs" if COMPARED["all_pairs"] else "",
        code=digest_of_code("acapella.kappa.command"),
    message:
        "kappa {wildcards.environment}"
    shell:
        "acapella kappa -o {output.json:q} --sha256 {params.names:q} {params.identity:q} {params.selection:q} {params.pairs}"
        " {params.replays:q} --within {params.within} {params.windows:q} --memory {params.memory} {params.limits} --damaged {resources.damaged}"
        " -- {params.trials:q}"
        " > {log:q} 2>&1"


rule trials:
    input:
        results=expand("<campaign>/kappa/{environment}.json", environment=ENVIRONMENTS),
        manifests=lambda wildcards: TRIALS.manifests(SAMPLES),
        names=rules.process.output.provenance,
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in TRIAL_TABLES],
    output:
        csv=update(expand("<campaign>/tables/{table}.csv", table=TRIAL_TABLES)),
        parquet=update(expand("<campaign>/tables/{table}.parquet", table=TRIAL_TABLES)),
        results=update(expand("<campaign>/consistency/{environment}.json", environment=SHOWN_ENVIRONMENTS)),
        provenance="<campaign>/provenance/consistency.json",
    log:
        "<campaign>/logs/trials.log",
    benchmark:
        "<campaign>/benchmarks/trials.tsv"
    resources:
        mem_mb=constant_memory_mb(1024),
        runtime=30,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        environments=ENVIRONMENTS,
        pseudonyms="--pseudonyms" if config["pseudonyms"] else "",
        code=digest_of_code("acapella.campaign.trials"),
    message:
        "trials"
    shell:
        "acapella campaign trials {params.campaign:q} --environments {params.environments:q} {params.pseudonyms} > {log:q} 2>&1"


rule conformance:
    input:
        printed=ROOT / "workflow/conformance/kappa_printed.csv",
        errata=ROOT / "workflow/conformance/kappa_errata.yaml",
        schema=ROOT / "schemas/tables/kappa_published.yaml",
    output:
        csv=update("<campaign>/tables/kappa_published.csv"),
        parquet=update("<campaign>/tables/kappa_published.parquet"),
    log:
        "<campaign>/logs/conformance.log",
    benchmark:
        "<campaign>/benchmarks/conformance.tsv"
    resources:
        mem_mb=constant_memory_mb(768),
        runtime=10,
    params:
        directory=lambda wildcards: f"{CAMPAIGN}/tables",
        code=digest_of_code("acapella.kappa.conformance"),
    message:
        "conformance: recompute every kappa printed in the CHOIR paper"
    shell:
        "acapella campaign conformance -o {params.directory:q} --printed {input.printed:q} --errata {input.errata:q}"
        " > {log:q} 2>&1"
