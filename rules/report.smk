# report: tables/, figures/, provenance/process.json -> report.html, one self-contained page
#
# A section on the storage study is in it once `snakemake storage` has run, and one on the outcomes of all collections once
# `snakemake outcomes` has. Neither is an input: a report must not start a measurement that sets the machine's thresholds,
# nor wait for other campaigns.
#
# As the last rule of a campaign it also makes the catalog's views again, over the tables that all stages have made by now.
# The catalog's own tables and its time stay, so nothing is made again that depends on it.

# Options for sections that are in the report if their tables exist, and when these were made. With pseudonyms a table of
# an earlier run may still have the reasons of sites by name.
PRESENT = {
    flag: path.stat().st_mtime_ns
    for flag, table, wanted in (
        ("--storage", "storage_rates", True),
        ("--outcomes", "outcome_reasons", not config["pseudonyms"]),
    )
    if wanted and (path := Path(CAMPAIGN, "tables", f"{table}.csv")).is_file()
}


rule report:
    input:
        tables=[*rules.process.output.parquet, *rules.process.output.csv],  # the page has links to the latter
        provenance=rules.process.output.provenance,
        catalog=rules.index.output.catalog,
        figures=rules.figures.output,
        trials=rules.trials.output if TRIALS else [],
        flowreports=rules.flowtables.output if REPORTED["samples"] else [],
        flowstudy=rules.flowstudy.output if REPORTED["study"] else [],
        papers=(
            [
                *(rules.conformance.output if TRIALS else []),
                *(rules.flowreports_published.output if REPORTED["samples"] or REPORTED["study"] else []),
            ]
            if config["report"]["papers"]
            else []
        ),
    output:
        page="<campaign>/report.html",
    log:
        "<campaign>/logs/report.log",
    benchmark:
        "<campaign>/benchmarks/report.tsv"
    resources:
        mem_mb=1024,
        runtime=30,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        flags=[*FIGURE_FLAGS, *PRESENT],
        present=list(PRESENT.values()),  # new tables make the report again
        papers="--papers" if config["report"]["papers"] else "",
        excluded=["--excluded", *config["exclude"]] if config["exclude"] else [],
        code=digest_of_code("acapella.report", "acapella.campaign.index"),
    message:
        "report"
    shell:
        "(acapella campaign report {params.campaign:q} {params.flags} {params.papers} {params.excluded:q}"
        " && acapella campaign index {params.campaign:q} --views) > {log:q} 2>&1"
