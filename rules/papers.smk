# papers: tables of all stages -> tables/paper_numbers.csv and .parquet, the numbers printed in papers next to those of
#         the campaign; only with report.papers, for the papers whose quantities the campaign has
#
# As in rule report, the tables of the storage study and of outcomes, and collect.json, are used if they exist, but are
# not inputs. If collect.json changes, so do the tables of samples, which are inputs.

COMPARED_PAPERS = optional_stages.compared_papers(
    config["report"]["papers"],
    {
        "patchwork": HAS_SAMPLES or INFRASTRUCTURE,
        "choir": bool(ENVIRONMENTS),
        "osnt": HAS_SAMPLES,
        "sliced_wan": TRANSFERS,
        "p4_rdma": bool(REPORTED["samples"] or REPORTED["study"]),
    },
)


rule papers:
    input:
        tables=rules.process.output.parquet if HAS_SAMPLES else [],
        trials=rules.trials.output.parquet if ENVIRONMENTS else [],
        transfers=rules.transfer_tables.output.parquet if TRANSFERS else [],
        infrastructure=rules.infrastructure.output.parquet if INFRASTRUCTURE else [],
        monitor=rules.monitor.output.parquet if GENERATED else [],
        flowreports=rules.flowreports_published.output.parquet if "p4_rdma" in COMPARED_PAPERS else [],
        printed=[
            ROOT / f"workflow/conformance/{'flowreports' if paper == 'p4_rdma' else paper}_printed.csv"
            for paper in COMPARED_PAPERS
        ],
        schema=ROOT / "schemas/tables/paper_numbers.yaml",
    output:
        csv=update("<campaign>/tables/paper_numbers.csv"),
        parquet=update("<campaign>/tables/paper_numbers.parquet"),
        provenance="<campaign>/provenance/papers.json",
    log:
        "<campaign>/logs/papers.log",
    benchmark:
        "<campaign>/benchmarks/papers.tsv"
    resources:
        mem_mb=constant_memory_mb(1024),
        runtime=10,
    params:
        campaign=lambda wildcards: CAMPAIGN,
        papers=COMPARED_PAPERS,
        present=list(optional_stages.report_sections(CAMPAIGN, pseudonyms=config["pseudonyms"]).values()),
        code=digest_of_code("acapella.papers.command"),
    message:
        "papers: numbers printed in papers, and those of the campaign"
    shell:
        "acapella campaign papers {params.campaign:q} --papers {params.papers} > {log:q} 2>&1"
