# transfer: a grid of transfers over a slice with emulated links -> transfers/<cell_id>/ (a directory per run) and
#           transfers/complete.json (the list of all runs); only with transfer.grid.
#
# One job per slice, as in rule collect: the runs share the emulated links and must not overlap. Directories of runs are
# not outputs of the rule, so Snakemake keeps the directories of an interrupted job; the next job performs the missing
# runs. After a complete job, `snakemake --forcerun transfer` repeats failed runs. The rule has no digest of its code,
# so that editing the code does not discard runs. Ctrl-C signals the whole process group, and tee ignores it to write
# the last line.

if config["transfer"]["grid"] is not None:
    from acapella.snakefile.transfer import transfer_config
    from acapella_capture.transfer.settings import parse_transfer_settings

    with exit_on_user_error("config error: "):
        parse_transfer_settings({key: config[key] for key in ("transfer", "fabric")}, where=None)

    rule transfer:
        output:
            complete="<campaign>/transfers/complete.json",
            config="<campaign>/transfers/config.json",
        log:
            "<campaign>/logs/transfer.log",
        benchmark:
            "<campaign>/benchmarks/transfer.tsv"
        retries: 0
        # All cores: another job would disturb the transfers.
        threads: workflow.cores or 1
        resources:
            mem_mb=1024,
            runtime=24 * 60,
            slurm_extra="--no-requeue",  # see profiles/slurm
        params:
            campaign=lambda wildcards: CAMPAIGN,
            config=transfer_config(config),
        message:
            "transfer: {config[transfer][topology]} slice on testbed {config[transfer][testbed]}"
        shell:
            "printf '%s\\n' {params.config:q} > {output.config:q};"
            " acapella transfer {params.campaign:q} --config {output.config:q} 2>&1 | (trap '' INT TERM; tee {log:q})"
