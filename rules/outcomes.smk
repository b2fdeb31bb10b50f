# outcomes: what became of the sites of all collections -> tables/outcomes.csv and .parquet, figures/outcomes.*
#
# Asked for by name (`snakemake outcomes`): it is about all campaigns, so no campaign's report waits for it. `collect`
# writes the table that it reads.


rule outcomes:
    input:
        collections="results/outcomes.csv",
        schema=ROOT / "schemas/tables/outcomes.yaml",
    output:
        table=expand("<campaign>/tables/outcomes.{suffix}", suffix=("csv", "parquet")),
        figure=expand("<campaign>/figures/outcomes.{format}", format=FORMATS),
    log:
        "<campaign>/logs/outcomes.log",
    benchmark:
        "<campaign>/benchmarks/outcomes.tsv"
    resources:
        mem_mb=1024,
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        folder=lambda wildcards: f"{CAMPAIGN}/tables",
        formats=FORMATS,
        pseudonyms="--pseudonyms" if config["pseudonyms"] else "",
        code=digest_of_code("acapella.outcomes", "acapella.figures"),
    message:
        "outcomes of all collections"
    shell:
        "(acapella outcomes {input.collections:q} -o {params.folder:q} {params.pseudonyms}"
        " && acapella figures {params.campaign:q} --only outcomes --formats {params.formats}) > {log:q} 2>&1"
