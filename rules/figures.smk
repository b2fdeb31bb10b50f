# figures: tables/ -> figures/<figure>.svg, .pdf, .png, .html
#
# One job: starting Altair takes longer than most figures. Captions for `snakemake --report` are in
# workflow/report/<figure>.rst.

from acapella.figures.registry import FLOWREPORT_FIGURES as OF_FLOWREPORTS
from acapella.figures.registry import FLOWSTUDY_FIGURES as OF_FLOWSTUDY
from acapella.figures.registry import TRAFFIC_FIGURES
from acapella.figures.registry import TRIAL_FIGURES as OF_TRIALS

# Figures that a campaign has only where its config asks for what they show, each kind with its option.
ASKED_FOR = {
    "--trials": (OF_TRIALS, TRIALS),
    "--flowreports": (OF_FLOWREPORTS, REPORTED["samples"]),
    "--flowstudy": (OF_FLOWSTUDY, REPORTED["study"]),
}
FIGURE_FLAGS = [flag for flag, (_, wanted) in ASKED_FOR.items() if wanted]
FIGURES = [*TRAFFIC_FIGURES, *(name for names, wanted in ASKED_FOR.values() if wanted for name in names)]

FORMATS = config["figures"]["formats"]


rule figures:
    input:
        tables=rules.process.output.parquet,
        trials=rules.trials.output.parquet if TRIALS else [],
        flowreports=rules.flowtables.output.parquet if REPORTED["samples"] else [],
        flowstudy=rules.flowstudy.output.parquet if REPORTED["study"] else [],
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
        flags=FIGURE_FLAGS,
        code=digest_of_code("acapella.figures"),
    message:
        "figures"
    shell:
        "acapella campaign figures {params.campaign:q} {params.flags} --formats {params.formats} > {log:q} 2>&1"
