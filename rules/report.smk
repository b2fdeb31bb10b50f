# report: tables/, figures/, provenance.json -> report.html, one page that needs nothing beside it


rule report:
    input:
        tables=rules.process.output.csv,
        provenance=rules.process.output.provenance,
        figures=rules.figures.output,
        trials=[*rules.trials.output, *rules.conformance.output] if TRIALS else [],
        flowreports=rules.flowreports_published.output if REPORTED["samples"] or REPORTED["study"] else [],
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
        flags=FIGURE_FLAGS,
        excluded=["--excluded", *config["exclude"]] if config["exclude"] else [],
        code=digest_of_code("acapella.report"),
    message:
        "report"
    shell:
        "acapella report {params.campaign:q} {params.flags} {params.excluded:q} > {log:q} 2>&1"
