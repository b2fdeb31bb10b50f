# figures: tables/ -> figures/<figure>.svg, .pdf, .png, .html
#
# One job: starting Altair takes longer than most figures. Captions for `snakemake --report` are in
# workflow/report/<figure>.rst.

from acapella.figures.registry import NAMES, TRIALS as OF_TRIALS

FIGURES = [*NAMES, *(OF_TRIALS if TRIALS else ())]

FORMATS = config["figures"]["formats"]


rule figures:
    input:
        tables=rules.process.output.csv,
        trials=rules.trials.output.csv if TRIALS else [],
    output:
        [
            report(
                f"<campaign>/figures/{figure}.{format}",
                caption=f"../workflow/report/{figure}.rst",
                category="Figures",
                labels={"figure": figure, "format": format},
            )
            for figure in FIGURES
            for format in FORMATS
        ],
    log:
        "<campaign>/logs/figures.log",
    benchmark:
        "<campaign>/benchmarks/figures.tsv"
    resources:
        mem_mb=1024,
        runtime=30,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        formats=FORMATS,
        trials="--trials" if TRIALS else "",
        code=digest_of_code("acapella.figures"),
    message:
        "figures"
    shell:
        "acapella figures {params.campaign:q} {params.trials} --formats {params.formats} > {log:q} 2>&1"
