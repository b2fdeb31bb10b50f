# conformance: the numbers that the CHOIR paper printed -> tables/kappa_published.csv and .parquet; needs no capture


rule conformance:
    input:
        printed=ROOT / "workflow/conformance/kappa_printed.csv",
        errata=ROOT / "workflow/conformance/kappa_errata.yaml",
        schema=ROOT / "schemas/tables/kappa_published.yaml",
    output:
        csv="<campaign>/tables/kappa_published.csv",
        parquet="<campaign>/tables/kappa_published.parquet",
    log:
        "<campaign>/logs/conformance.log",
    benchmark:
        "<campaign>/benchmarks/conformance.tsv"
    resources:
        mem_mb=512,
        runtime=10,
    params:
        folder=lambda wildcards: f"{CAMPAIGN}/tables",
        code=digest_of_code("acapella.conformance"),
    message:
        "conformance: kappa as printed, recomputed"
    shell:
        "acapella conformance -o {params.folder:q} --printed {input.printed:q} --errata {input.errata:q}"
        " > {log:q} 2>&1"
