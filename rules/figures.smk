# figures: tables/ -> figures/<figure>.svg, .pdf, .png, .html
#
# One job, because starting Altair takes longer than drawing most figures. It draws only figures whose code, tables or
# options have changed, and sets the modification time of the others. Therefore, Snakemake does not delete the figures
# before the job (update()). logs/figures.done is deleted, so that the job reruns after a failure. Captions for
# `snakemake --report` are in workflow/report/<figure>.rst.

FIGURE_FLAGS = optional_stages.figure_flags(OPTIONAL_STAGES)
FIGURES = optional_stages.figures(OPTIONAL_STAGES, config["figures"]["only"], with_samples=HAS_SAMPLES)
FORMATS = config["figures"]["formats"]


rule figures:
    input:
        tables=rules.process.output.parquet if HAS_SAMPLES else [],
        trials=rules.trials.output.parquet if ENVIRONMENTS else [],
        flowreports=rules.flowtables.output.parquet if REPORTED["samples"] else [],
        flowstudy=rules.flowstudy.output.parquet if REPORTED["study"] else [],
        transfers=rules.transfer_tables.output.parquet if TRANSFERS else [],
        infrastructure=rules.infrastructure.output.parquet if INFRASTRUCTURE else [],
        monitor=rules.monitor.output.parquet if GENERATED else [],
        printed=ROOT / "workflow/conformance/patchwork_printed.csv" if INFRASTRUCTURE else [],
    output:
        figures=[
            report(
                update(f"<campaign>/figures/{figure}.{format}"),
                caption=f"../workflow/report/{figure}.rst",
                category="Figures",
                labels={"figure": figure, "format": format},
            )
            for figure in FIGURES
            for format in FORMATS
        ],
        done=touch("<campaign>/logs/figures.done"),
    log:
        "<campaign>/logs/figures.log",
    benchmark:
        "<campaign>/benchmarks/figures.tsv"
    resources:
        mem_mb=memory_mb("figures"),
        runtime=run_minutes("figures"),
    params:
        campaign=lambda wildcards: CAMPAIGN,
        formats=FORMATS,
        figures=FIGURES,
        missing=[f"--missing={len(FAILED)}"] * bool(FAILED)
        + [f"--missing-reports={len(WITHOUT_REPORTS)}"] * bool(WITHOUT_REPORTS),
        code=lambda wildcards: [f"{figure}={digest_of_figure(figure)}" for figure in FIGURES],
    message:
        "figures"
    shell:
        "acapella campaign figures {params.campaign:q} --only {params.figures} --formats {params.formats}"
        " {params.missing} --code {params.code} > {log:q} 2>&1"
