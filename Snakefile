# The way of the data: collect -> digest -> index -> analyze -> process -> figures -> report.
# Checks the configuration and the sample sheet before anything runs, includes rules/ in that order, asks for it all.

import atexit
import os
import sys
from pathlib import Path

from snakemake.logging import logger
from snakemake.utils import min_version

min_version("9.16")

from acapella.snakefile import config as configuration
from acapella.snakefile.code import digest as digest_of_code
from acapella.snakefile.failures import report_failures
from acapella.snakefile.job_records import JobRecords
from acapella.common.links import refusal
from acapella_core import beneath
from acapella_core.errors import UserError
from acapella_core.files import temporary_directory

# With --configfile, config/config.yaml is not read, so the keys of both are never mixed.
if not workflow.overwrite_configfiles:
    try:
        configuration.check_file(Path("config/config.yaml"))
    except UserError as error:
        sys.exit(str(error))

    configfile: "config/config.yaml"


# Results contain other people's traffic, so only the owner may access them, including logs, benchmarks and directories.
os.umask(0o077)

# A job's shell finds `acapella` in the directory of the Python that runs Snakemake, even if .venv is not activated.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))

try:
    config.update(configuration.checked(config))
    temporary_directory()  # Snakemake passes it to every job, and would silently use another one.
except UserError as error:
    sys.exit(str(error))

JOB_RECORDS = JobRecords(lambda: workflow.dryrun or workflow.touch)
logger.addHandler(JOB_RECORDS)


# If Snakemake fails around a job, as at a log that it cannot make, it does not run onerror.
atexit.register(lambda: JOB_RECORDS.failed and report_failures(JOB_RECORDS, config["exclude"]))

ROOT = Path(os.path.relpath(workflow.basedir))
CAMPAIGN = f"results/{config['campaign']}"

# Logs and benchmarks are written by shells and by Snakemake, which follow links.
if found := refusal(Path(CAMPAIGN)):
    sys.exit(f"acapella: error: {found}")
os.environ[beneath.VARIABLE] = os.path.abspath(CAMPAIGN)


pathvars:
    campaign=CAMPAIGN,


wildcard_constraints:
    sample=r"[A-Za-z0-9][A-Za-z0-9._-]*",


# Used with `--software-deployment-method apptainer` alone: the image that workflow/setup/container.def describes,
# built by `apptainer build acapella.sif workflow/setup/container.def`. `make setup` needs no container.
container: "acapella.sif"


include: "rules/samples.smk"


# The digests are named too: Snakemake does not make a file again that is only missing between others. A rerun that
# failed has deleted its earlier outputs.
rule all:
    default_target: True
    input:
        "<campaign>/report.html",
        digests=of_all_samples("<campaign>/{kind}/{sample}.parquet", kind=("acap", "flows")),
        partials=of_all_samples("<campaign>/partial/{sample}"),
        catalog="<campaign>/catalog.duckdb",


include: "rules/collect.smk"
include: "rules/digest.smk"
include: "rules/index.smk"
include: "rules/analyze.smk"
include: "rules/process.smk"
include: "rules/consistency.smk"
include: "rules/storage.smk"
include: "rules/flowreports.smk"
include: "rules/figures.smk"
include: "rules/outcomes.smk"
include: "rules/report.smk"


onstart:
    # Only now has Snakemake set its own.
    stop_without_deadlock()
    record_verified_entries()
    remove_stale_samples()
    remove_stages_not_asked_for()


onerror:
    report_failures(JOB_RECORDS, config["exclude"])
