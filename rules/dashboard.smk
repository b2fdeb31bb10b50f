# dashboard: provenance and tables of all campaigns, outcomes.csv -> results/dashboard/index.html, sites/*.html,
#            campaigns.csv, ports.csv, summaries.json.gz
#
# Only `snakemake dashboard` runs this rule. It declares no input files: for the campaign of the config, they are
# outputs of other rules, which a dashboard must not start. Instead, a parameter contains a checksum of their states.
# Only the first page is a declared output. Snakemake does not delete it, so the job rereads only changed campaigns.

from acapella.dashboard import campaigns as dashboard_campaigns


rule dashboard:
    output:
        page=update("results/dashboard/index.html"),
    log:
        "results/dashboard/logs/dashboard.log",
    benchmark:
        "results/dashboard/logs/dashboard.tsv"
    resources:
        mem_mb=2048,
        runtime=60,
    params:
        campaigns=["--campaigns", *config["dashboard"]["campaigns"]] if config["dashboard"]["campaigns"] else [],
        state=lambda wildcards: dashboard_campaigns.state_of_results(Path("results"), config["dashboard"]["campaigns"]),
        code=digest_of_code("acapella.dashboard"),
    message:
        "dashboard of all campaigns"
    shell:
        "acapella campaign dashboard results {params.campaigns:q} > {log:q} 2>&1"
