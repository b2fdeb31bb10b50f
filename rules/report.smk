# report: tables/, figures/, provenance/process.json -> report.html, one self-contained page
#
# Without samples, the page has no sections on traffic.
#
# After `snakemake storage`, `snakemake search` or `snakemake outcomes` has run, the report has a section about the
# storage study, the searches, or the outcomes of all collections. Their tables are not inputs: a report must neither
# start a measurement of the machine nor wait for other campaigns.
#
# As the last rule of a campaign, it also recreates the views of the catalog over the tables of all stages. The
# modification time of the catalog does not change, so Snakemake does not rerun the rules that depend on it.

PRESENT = optional_stages.report_sections(CAMPAIGN, pseudonyms=config["pseudonyms"], without=FIGURE_FLAGS)


rule report:
    input:
        # the page has links to CSV files
        tables=[*rules.process.output.parquet, *rules.process.output.csv] if HAS_SAMPLES else [],
        provenance=rules.process.output.provenance if HAS_SAMPLES else [],
        catalog=rules.index.output.catalog if HAS_SAMPLES else [],
        figures=rules.figures.output,
        trials=rules.trials.output if ENVIRONMENTS else [],
        flowreports=rules.flowtables.output if REPORTED["samples"] else [],
        flowstudy=rules.flowstudy.output if REPORTED["study"] else [],
        transfers=rules.transfer_tables.output if TRANSFERS else [],
        infrastructure=rules.infrastructure.output if INFRASTRUCTURE else [],
        monitor=rules.monitor.output if GENERATED else [],
        papers=(
            [
                *(rules.conformance.output if ENVIRONMENTS else []),
                *(rules.flowreports_published.output if REPORTED["samples"] or REPORTED["study"] else []),
                *(rules.papers.output if COMPARED_PAPERS else []),
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
        mem_mb=memory_mb("report"),
        runtime=run_minutes("report"),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        flags=[*([] if HAS_SAMPLES else ["--no-samples"]), *FIGURE_FLAGS, *PRESENT],
        present=list(PRESENT.values()),  # a new table causes a new report
        only=["--figures", *config["figures"]["only"]] if config["figures"]["only"] is not None else [],
        views=f"&& acapella campaign index {CAMPAIGN} --views" if HAS_SAMPLES else "",  # without samples, no catalog
        papers="--papers" if config["report"]["papers"] else "",
        excluded=["--excluded", *config["exclude"]] if config["exclude"] else [],
        failed=["--failed", *FAILED] if FAILED else [],
        without_reports=["--failed-reports", *WITHOUT_REPORTS] if WITHOUT_REPORTS else [],
        reasons=quarantine.reasons(CAMPAIGN, [*FAILED, *WITHOUT_REPORTS]),  # a new reason causes a new report
        code=digest_of_code("acapella.report", "acapella.campaign.index"),
    message:
        "report"
    shell:
        "(acapella campaign report {params.campaign:q} {params.flags} {params.papers} {params.only} {params.excluded:q}"
        " {params.failed:q} {params.without_reports:q} {params.views}) > {log:q} 2>&1"
