# Runs one job with the command of --config command=..., and prints its exit code as JobRecords finds it.
from snakemake.logging import logger

from acapella.snakefile.job_records import JobRecords

records = JobRecords()
logger.addHandler(records)


rule fail:
    output:
        "out.txt",
    log:
        "fail.log",
    shell:
        config["command"]


onerror:
    print("failed", *((job.rule, job.exit_code, job.errno) for job in records.failed))
