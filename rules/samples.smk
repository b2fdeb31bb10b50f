# Names, places and captures of the samples, and other functions that rules share. No rules.
#
# files: the sheet is read now. local: their names are known now, their outcome after the checkpoint collect.

import _thread
import atexit
import functools
import re
import signal

from snakemake import __version__ as snakemake_version
from snakemake.exceptions import WorkflowError

from acapella.campaign.layout import Campaign, provenance_names
from acapella.campaign.stale import Stage, remove_samples, remove_stages, remove_stale
from acapella_capture.testbeds import files as captures_that_exist
from acapella_core import names, sheets

TRIALS = config["trials"] or {}
REPORTED = config["flowreports"]
if REPORTED["samples"] or REPORTED["study"]:
    from acapella.flowreports.program import why_unavailable as missing_program

    # A machine without DPDK makes the rest; the plan lists what is omitted.
    if missing_program() is not None:
        print(f"flow reports are omitted: {missing_program()}", file=sys.stderr)
        REPORTED = REPORTED | {"samples": None, "study": False}
WARNINGS = []


def warn():
    """Print the warnings about the sheet."""
    for line in WARNINGS:
        names.report(line)


def unknown_sample(named, known, place):
    """Of (sample, key) the first whose sample is not among the known ones of a place, in words; None where all are."""
    for sample, key in named:
        if sample not in known:
            return f"config error: {key}: {sample!r} is not a sample {place}{configuration.did_you_mean(sample, known)}"
    return None


def check_names(known, place):
    """End with one line where the config names a sample that is not among the known ones of a place."""
    excluded = [(name, "exclude") for name in config["exclude"]]
    reported = [(name, "flowreports.samples") for name in REPORTED["samples"] or [] if REPORTED["samples"] != "all"]
    trials = (configuration.trial_samples(TRIALS, environment) for environment in TRIALS)
    for fault in filter(None, (unknown_sample(named, known, place) for named in (excluded, reported, *trials))):
        sys.exit(fault)


def check_planned_names():
    """As `check_names`, of the samples that the local testbed is going to take, where these are known before."""
    from acapella_capture import collect
    from acapella_capture.plan.samples import NotKnownInAdvance

    try:
        known = [line["sample"] for line in collect.planned(COLLECTED_BY)]
    except NotKnownInAdvance:
        return
    check_names(known, f"of testbed {config['testbed']}")


def told_plan():
    """What the testbed would be asked for and would sample. Raises UserError where the config asks for more."""
    from acapella_capture.plan import dry_run

    return dry_run.dry_run(COLLECTED_BY, config["campaign"])


def tell_plan():
    """Say it, below Snakemake's own plan; where the config is wrong one line, and exit code 1."""
    try:
        print("What collect would do:", told_plan(), sep="\n", end="", flush=True)
    except UserError as error:
        print(f"config error: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # what is raised as Python ends does not change its exit code


if config["testbed"] == "files":
    try:
        # An empty sheet stops only what needs samples: `snakemake --lint` and `snakemake conformance` do not.
        ROWS = {row.sample: row for row in captures_that_exist.read_sheet(Path(config["samples"]), may_be_empty=True)}
    except UserError as error:
        sys.exit(f"config error: {error}")
    check_names(ROWS, f"of {config['samples']}")
    for row in ROWS.values():
        fault = captures_that_exist.unreadable(row.file)
        if fault and row.sample not in config["exclude"]:
            place = f"{config['samples']} line {row.line}"
            WARNINGS.append(f"warning: {place}: {row.file}: {fault}; sample {row.sample} will fail")
    if WARNINGS:
        warn()
        # Once more below the long plan of a dry run, which Snakemake knows only after it has read the rules.
        atexit.register(lambda: workflow.dryrun and warn())
else:
    from acapella_capture import precheck, settings

    try:
        COLLECTED_BY = settings.parse_settings({key: config[key] for key in settings.KEYS}, where=None)
        if not Path(f"{CAMPAIGN}/raw/samples.tsv").exists():  # else it is there, whatever became of keys and programs
            precheck.check(COLLECTED_BY)
        if config["testbed"] == "local":  # needs no request to a testbed
            told_plan()
            if TRIALS or REPORTED["samples"] or config["exclude"]:
                check_planned_names()
    except UserError as error:
        sys.exit(f"config error: {error}")
    # Whether this is a dry run Snakemake knows only after it has read the rules.
    atexit.register(lambda: workflow.dryrun and tell_plan())


@functools.cache
def collected(path):
    """What a testbed's raw/samples.tsv says; read once, when the checkpoint is through."""
    try:
        rows = sheets.read(Path(path))
    except UserError as error:
        # Not an exception of Snakemake's, which draws a frame of lines around it.
        sys.exit(f"error: {error}")
    return {row["sample"]: (row["site"], row["port"], f"{CAMPAIGN}/raw/{row['file']}") for row in rows}


@functools.cache
def listed():
    """What the user's sheet says, in the form of `collected`."""
    if not ROWS:
        # Not an exception of Snakemake's, which draws a frame of lines around it.
        sys.exit(f"config error: {captures_that_exist.no_samples(config['samples'])}")
    return {name: (row.site, row.port, str(row.file)) for name, row in ROWS.items()}


def sheet():
    """Site, port and capture of each sample: {name: (site, port, file)}."""
    if config["testbed"] == "files":
        return listed()
    return collected(str(checkpoints.collect.get().output.sheet))


def samples():
    """Return the names of the campaign's samples."""
    return [name for name in sheet() if name not in config["exclude"]]


def of_all_samples(pattern, **more):
    """Return an input function: the files of a pattern with {sample}, for all samples and the values of ``more``."""
    return lambda wildcards: expand(pattern, sample=samples(), **more)


def reported_samples():
    """The samples whose flows are reported by the P4 program, in the order in which they were asked for."""
    asked = REPORTED["samples"] or []
    return samples() if asked == "all" else [name for name in asked if name not in config["exclude"]]


def of_reported_samples(pattern, parts):
    """An input function: the files of a pattern with {sample} and {part}, for these samples."""
    return lambda wildcards: expand(pattern, sample=reported_samples(), part=parts)


def sample_capture(sample):
    """Return a sample's capture; if it is unreadable, its manifest, whose job then fails with the reason."""
    file = sheet()[sample][2]
    readable = config["testbed"] != "files" or not captures_that_exist.unreadable(Path(file))
    return file if readable else f"{CAMPAIGN}/raw/{sample}.json"


def capture(wildcards):
    """As `sample_capture`, of a job."""
    return sample_capture(wildcards.sample)


@functools.cache
def check_cached(sample):
    """Report outputs of a sample that are links to damaged entries of a cache, and have Snakemake make them again.

    Nothing is deleted here, because this is also called in a dry run and before Snakemake has its lock. The job itself
    replaces its outputs, and with --cache the damaged entries.
    """
    from acapella.digest.cache import report_damaged

    if workflow.is_main_process and report_damaged(Path(CAMPAIGN), sample):
        workflow.dag.forcefiles.update(f"{CAMPAIGN}/{kind}/{sample}.parquet" for kind in ("acap", "flows"))


def record_verified_entries():
    """Record which entries of a cache `check_cached` has verified; not in a dry run, which changes no file."""
    from acapella.digest.cache import record_verified

    record_verified()


def capture_of_digest(wildcards):
    """As `capture`, after a look at earlier outputs."""
    check_cached(wildcards.sample)
    return capture(wildcards)


def capture_if_readable(wildcards):
    """As `capture`, but nothing if it is unreadable."""
    file = capture(wildcards)
    return [] if file == f"{CAMPAIGN}/raw/{wildcards.sample}.json" else file


def without_benchmark(stage):
    """Take the benchmark of a rule away; ends with one line where this version of Snakemake keeps it somewhere else."""
    had = getattr(stage, "benchmark", None)
    stage._benchmark = None
    if not had or stage.benchmark:
        sys.exit(f"--cache does not work with Snakemake {snakemake_version}: rule {stage.name} keeps its benchmark")


def remove_stale_samples():
    """Remove what samples that left the user's sheet have in the campaign's directory; `acapella campaign index` does so, too, but
    does not run if a sample fails.
    """
    if config["testbed"] != "files":
        return
    campaign = Campaign(Path(CAMPAIGN))
    lines = remove_stale(campaign, ROWS, [row.file for row in ROWS.values()])
    if lines:
        print(*lines, sep="\n", file=sys.stderr)
        try:
            remove_samples(campaign, ROWS)
        except UserError as error:  # index makes the catalog again
            print(f"acapella: {error}", file=sys.stderr)


def remove_stages_not_asked_for():
    """Remove tables and figures of stages that the config does not ask for; not those that lack a program here."""
    asked, papers = config["flowreports"], config["report"]["papers"]
    stages = [
        (TRIALS, Stage(TRIAL_TABLES, OF_TRIALS, ["consistency/*.json", *provenance_names("consistency")])),
        (asked["samples"], Stage(FLOW_TABLES, OF_FLOWREPORTS, provenance_names("flowtables"))),
        (asked["study"], Stage(FLOWSTUDY_TABLES, OF_FLOWSTUDY, provenance_names("flowstudy"))),
        (
            papers and (asked["samples"] or asked["study"]),
            Stage(["flowreport_published"], (), provenance_names("flowpublished")),
        ),
    ]
    for line in remove_stages(Campaign(Path(CAMPAIGN)), [stage for wanted, stage in stages if not wanted]):
        print(line, file=sys.stderr)


def use_checked_cache():
    """Have Snakemake use the cache of acapella.digest.cache; ends with one line if this version names its own differently."""
    from snakemake import workflow as of_snakemake

    from acapella.digest.cache import CheckedCache

    if getattr(of_snakemake, "LocalOutputFileCache", None) is None:
        sys.exit(f"--cache does not work with Snakemake {snakemake_version}: its cache cannot be replaced")
    of_snakemake.LocalOutputFileCache = CheckedCache


def trials_of(wildcards):
    """The samples of an environment's trials, trial by trial."""
    return [[trial] if isinstance(trial, str) else trial for trial in TRIALS[wildcards.environment]]


def named_trials():
    """The samples that the config names as trials, sorted."""
    return sorted({sample for name in TRIALS for sample, _ in configuration.trial_samples(TRIALS, name)})


def captures_of_trials(wildcards):
    """The captures of an environment's trials. A testbed's samples are known only when they were taken."""
    place = f"that was taken; {CAMPAIGN}/raw/samples.tsv has those that were"
    fault = unknown_sample(configuration.trial_samples(TRIALS, wildcards.environment), sheet(), place)
    if fault:
        raise WorkflowError(fault)
    return [sample_capture(sample) for trial in trials_of(wildcards) for sample in trial]


def stop_without_deadlock():
    """Handle SIGTERM outside the main thread, and record SIGTERM and SIGINT.

    Snakemake's handler takes locks that its scheduler, the main thread, may hold when the signal comes: with `kill` to
    a whole process group that is likely, for jobs end at the same time and make passes the signal on once more. A
    SIGINT that reaches Snakemake alone ends no job, so that only this record shows why the run ended.
    """
    terminate, interrupt = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def stop(*received):
        JOB_RECORDS.stopping = True
        _thread.start_new_thread(terminate, received)

    def stop_at_once(*received):
        JOB_RECORDS.stopping = True
        interrupt(*received)

    if callable(terminate):
        signal.signal(signal.SIGTERM, stop)
    if callable(interrupt):  # a shell's background job ignores SIGINT
        signal.signal(signal.SIGINT, stop_at_once)
