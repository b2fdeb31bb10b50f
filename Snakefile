# Stages in the order of the data: collect -> digest -> index -> analyze -> process -> figures -> report.
# Checks the configuration and the sample sheet before any job, and includes rules/ in that order.

import atexit
import os
import signal
import sys
from functools import partial
from pathlib import Path

from snakemake.logging import logger
from snakemake.utils import min_version

min_version("9.16")

# By default, Ctrl-C before the first job ends Snakemake with a traceback. Background jobs of a shell ignore SIGINT.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: sys.exit("acapella: stopped"))

# With --quiet all, Snakemake would end without any message.
try:
    import acapella.snakefile
    import acapella_capture
    import acapella_core._native
except ImportError as error:
    sys.exit(f"acapella: error: the installation is not complete ({error}); run make setup")

from acapella.snakefile import config as configuration
from acapella.snakefile.code import digest as digest_of_code
from acapella.snakefile.code import figure_digest as digest_of_figure
from acapella.snakefile.code import heuristics_digest as digest_of_heuristics
from acapella.snakefile.code import installed_versions
from acapella.snakefile.code import loader_digest as digest_of_loader
from acapella.snakefile.code import sql_digest as digest_of_sql
from acapella.snakefile.code import table_digests as digests_of_tables
from acapella.snakefile.engine import with_engine
from acapella.snakefile import quarantine, slurm_plugin
from acapella.snakefile.exit import QuietErrors, exit_on_user_error, omit_stopped_jobs
from acapella.snakefile.job_records import JobRecords
from acapella.snakefile.progress import Progress
from acapella.snakefile.released import (
    check_captures,
    config_file,
    is_without_captures,
    release_files,
    with_release,
    write_analysis_config,
)
from acapella.snakefile.replays import with_replays
from acapella.snakefile.snakemake_internals import (
    config_files,
    hides_errors,
    is_dry_run,
    is_main_process,
    record_signals,
    runs_no_jobs,
)
from acapella.common.links import refusal
from acapella.digest.cache import LOCATION as CACHE
from acapella.digest.installed import DESCRIBED as CACHE_PROGRAM
from acapella_core import beneath
from acapella_core.files import temporary_directory

# With --configfile, config/config.yaml is not read, so the keys of both are never mixed.
CONFIG_FILES = {}
for file in config_files(workflow):
    with exit_on_user_error():
        CONFIG_FILES[file] = configuration.check_file(file)
if not config_files(workflow):
    with exit_on_user_error():
        CONFIG_FILE = config_file(config)
        CONFIG_FILES[CONFIG_FILE] = configuration.check_file(CONFIG_FILE)

    configfile: CONFIG_FILE


# Results contain other people's traffic, so only the owner may access them, including logs, benchmarks and directories.
os.umask(0o077)

# A job's shell finds `acapella` in the directory of the Python that runs Snakemake, even if .venv is not activated.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))

with exit_on_user_error():
    config.update(with_replays(configuration.checked(with_release(config), CONFIG_FILES)))
    config.update(with_engine(config, prints=is_main_process(workflow)))
    temporary_directory()  # Snakemake passes it to every job, and would silently use a different one.

if config["digest"]["cache"]:
    os.environ[CACHE] = os.path.abspath(os.path.expanduser(config["digest"]["cache"]))
if os.environ.get(CACHE):  # jobs do not store digests if the program was changed after this
    os.environ[CACHE_PROGRAM] = installed_versions(config["digest"]["engine"])

with exit_on_user_error():
    slurm_plugin.install()
JOB_RECORDS = JobRecords(lambda: runs_no_jobs(workflow))
omit_stopped_jobs(logger, lambda: JOB_RECORDS.stopping)
logger.addHandler(JOB_RECORDS)
logger.addHandler(QuietErrors(partial(hides_errors, workflow), lambda: JOB_RECORDS.failed or JOB_RECORDS.stopping))
PROGRESS = Progress(logger.info)
logger.addHandler(PROGRESS)


AFTER_FAILURE = lambda: quarantine.after_failure(
    CAMPAIGN, config, JOB_RECORDS, recorded_capture, recorded_values, writes=is_main_process(workflow)
)
DIRECTORY = os.getcwd()  # that of --directory, which Snakemake leaves before it ends
# Snakemake does not run onerror if it fails outside a job, for example if it cannot create a log. After Ctrl-C, the
# report is printed here, so that it follows Snakemake's last messages.
atexit.register(
    lambda: (JOB_RECORDS.failed or JOB_RECORDS.stopping) and (os.chdir(DIRECTORY), AFTER_FAILURE(), NEXT_RUN())
)

ROOT = Path(os.path.relpath(workflow.basedir))
CAMPAIGN = f"results/{config['campaign']}"
NEXT_RUN = partial(quarantine.start_next_run, workflow, os.path.abspath(CAMPAIGN), config, JOB_RECORDS)

# Logs and benchmarks are written by shells and by Snakemake, which follow links.
if message := refusal(Path(CAMPAIGN)):
    sys.exit(f"acapella: error: {message}")
os.environ[beneath.VARIABLE] = os.path.abspath(CAMPAIGN)


pathvars:
    campaign=CAMPAIGN,


wildcard_constraints:
    sample=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    batch=r"b[0-9]+",


# Used only with `--software-deployment-method apptainer`: the image that workflow/setup/container.def describes,
# built by `apptainer build acapella.sif workflow/setup/container.def`. `make setup` needs no container.
container: "acapella.sif"


include: "rules/samples.smk"


# The digests are also inputs: Snakemake does not create a missing intermediate file if the final files exist, and a
# failed rerun has deleted its earlier outputs.
rule all:
    default_target: True
    input:
        "<campaign>/report.html",
        acaps=BATCHES.results("digest", "<campaign>/acap/{sample}.parquet") if HAS_SAMPLES else [],
        flows=BATCHES.results("digest", "<campaign>/flows/{sample}.parquet") if HAS_SAMPLES else [],
        partials=BATCHES.results("analyze", "<campaign>/partial/{sample}") if HAS_SAMPLES else [],
        catalog="<campaign>/catalog.duckdb" if HAS_SAMPLES else [],


include: "rules/collect.smk"
include: "rules/digest.smk"
include: "rules/index.smk"
include: "rules/analyze.smk"
include: "rules/process.smk"
include: "rules/consistency.smk"
include: "rules/storage.smk"
include: "rules/flowreports.smk"
include: "rules/transfer_run.smk"
include: "rules/transfer.smk"
include: "rules/infrastructure.smk"
include: "rules/monitor.smk"
include: "rules/papers.smk"
include: "rules/figures.smk"
include: "rules/outcomes.smk"
include: "rules/report.smk"
include: "rules/dashboard.smk"
include: "rules/reproduce.smk"


onstart:
    record_signals(JOB_RECORDS.record_stop)
    PROGRESS.start()
    CACHED_DIGESTS.record_verified()
    REPLACED_CAPTURES.record()
    cleanup.arrange(CAMPAIGN, sharded_stages(CAMPAIGN, config, BATCHES.stages))
    if BATCHED:
        BATCHES.start()
    else:
        cleanup.remove_batched(CAMPAIGN)
    if config["testbed"] == "files":
        cleanup.remove_unlisted(CAMPAIGN, SHEET.rows)
    cleanup.remove_unconfigured(CAMPAIGN, OPTIONAL_STAGES)
    write_analysis_config(CAMPAIGN, config, WITHOUT_REPORTS)


onsuccess:
    PROGRESS.stop()
    JOB_RECORDS.record_success()
    quarantine.remove_completed(CAMPAIGN)
    quarantine.print_omitted(CAMPAIGN, FAILED, WITHOUT_REPORTS)


onerror:
    PROGRESS.stop()
    if not JOB_RECORDS.stopping:
        AFTER_FAILURE()
