# outcomes: outcomes of the sites of all collections, and their reasons -> tables/outcomes.csv and .parquet,
#           tables/outcome_reasons.csv and .parquet, figures/outcomes.*, figures/outcome_reasons.*
#
# Only `snakemake outcomes` runs this rule: it covers all campaigns, so the report of a campaign does not depend on it.
# `acapella collect` writes the input.

from acapella.figures.registry import COLLECTION_FIGURES
from acapella.campaign.outcomes import TABLES as OUTCOME_TABLES


rule outcomes:
    input:
        collections="results/outcomes.csv",
        schemas=[ROOT / f"schemas/tables/{table}.yaml" for table in OUTCOME_TABLES],
    output:
        tables=update(expand("<campaign>/tables/{table}.{suffix}", table=OUTCOME_TABLES, suffix=("csv", "parquet"))),
        figures=expand("<campaign>/figures/{figure}.{format}", figure=COLLECTION_FIGURES, format=FORMATS),
    log:
        "<campaign>/logs/outcomes.log",
    benchmark:
        "<campaign>/benchmarks/outcomes.tsv"
    resources:
        mem_mb=1024,
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        directory=lambda wildcards: f"{CAMPAIGN}/tables",
        figures=COLLECTION_FIGURES,
        formats=FORMATS,
        pseudonyms="--pseudonyms" if config["pseudonyms"] else "",
        code=digest_of_code("acapella.campaign.outcomes", "acapella.figures"),
    message:
        "outcomes of all collections"
    shell:
        "(acapella campaign outcomes {input.collections:q} -o {params.directory:q} {params.pseudonyms}"
        " && acapella campaign figures {params.campaign:q} --only {params.figures} --formats {params.formats}) > {log:q} 2>&1"
