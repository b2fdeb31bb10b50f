"""Tests the report after a run that failed or was stopped."""

import errno
import io
import itertools
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable
from acapella_testing.requirements import require_programs
from acapella_testing.runs.workflow_run import ROOT, workplace
from acapella_testing.waiting import wait_until
from snakemake_interface_logger_plugins.common import LogEvent

from acapella.campaign.storage import TABLES as STORAGE_TABLES
from acapella.cli import entry
from acapella.cli.main import main
from acapella.digest.command import ADVICE, REPAIR
from acapella.snakefile.exit import omit_stopped_jobs
from acapella.snakefile.failures import failure_report, samples_that_failed
from acapella.snakefile.job_records import FailedJob
from acapella.snakefile.snakemake_internals import SHELL_MODULE
from acapella_core.errors import INTERNAL, OUTSIDE, UserError, exit_code_of

REASON = "a.pcap: not a capture"
BROKEN = f"acapella: error: {REASON}"
# Like the profile, with a shorter latency wait.
SLURM = ["--profile", str(ROOT / "profiles" / "slurm"), "--latency-wait", "1"]
SLURM += ["--slurm-init-seconds-before-status-checks", "1"]


def report_of(directory, monkeypatch, *jobs) -> str:
    """Return the report on failed jobs (name, exit code, text of the log). Names are like digest__a or process."""
    monkeypatch.chdir(directory)
    failed = []
    for name, code, text in jobs:
        log = write_file(Path("results", "mine", "logs", *name.split("__")).with_suffix(".log"), text)
        rule, _, sample = name.partition("__")
        failed.append(FailedJob(rule, sample or None, log, code))
    return failure_report(failed, ["b"])


@pytest.mark.parametrize("code", [129, 130, 143])
@pytest.mark.parametrize("stage", ["digest__a", "process", "analyze__a"])
def test_interrupted_job_is_not_a_broken_sample(stage, code, tmp_path, monkeypatch):
    printed = report_of(tmp_path, monkeypatch, (stage, code, f"digest: 10 frames\n{BROKEN}\n")).splitlines()
    assert printed[0] == "acapella: stopped; run snakemake again to continue"
    limit = "acapella: these jobs were stopped, perhaps by a time limit (--set-resources RULE:runtime=MINUTES):"
    assert printed[1:] == ([limit, f"  {stage.replace('__', ' ')}: ended by SIGTERM"] if code == 143 else [])
    assert (
        failure_report([FailedJob("digest", "a", tmp_path / "a.log", code)], [], stopping=True)
        == "acapella: stopped; run snakemake again to continue"
    )


def test_interrupted_run_with_a_failed_sample_reports_both(tmp_path):
    log = write_file(tmp_path / "a.log", BROKEN)
    lines = failure_report([FailedJob("digest", "a", log, 2)], [], stopping=True).splitlines()
    assert lines[0] == "acapella: these samples failed:"
    assert lines[-1] == "acapella: stopped; run snakemake again to continue"


def test_interrupted_collection_starts_over(tmp_path, monkeypatch):
    assert report_of(tmp_path, monkeypatch, ("collect", 130, "alpha-1: 10 frames\n")).startswith(
        "acapella: stopped; run snakemake again to continue; the collection starts over"
    )


def test_full_disk_is_not_a_broken_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        failure_report([FailedJob("digest", "a", tmp_path / "a.log", None, errno=28)], [])
        == f"acapella: the disk is full; free space in {tmp_path}, then run snakemake again"
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param(None, "it was not started, or killed", id="not started"),
        pytest.param(128 + signal.SIGKILL, "killed by signal 9; the memory may be too small", id="out of memory"),
        pytest.param(
            128 + signal.SIGILL,
            "killed by signal 4; the program may be built for a different processor",
            id="other processor",
        ),
        pytest.param(128 + signal.SIGBUS, "killed by signal 7; a disk may be full or fail", id="disk fails"),
        pytest.param(128 + signal.SIGXCPU, "killed by signal 24", id="CPU time limit"),
        pytest.param(
            127, "a program cannot be started (exit code 127): bash: acapella: command not found", id="no such program"
        ),
        pytest.param(
            70,
            "the program failed (exit code 70, a traceback in the log): bash: acapella: command not",
            id="internal error",
        ),
        pytest.param(OUTSIDE, "bash: acapella: command not found", id="disk full"),
    ],
)
@pytest.mark.parametrize("stage", ["collect__a", "digest__a", "analyze__a"])
def test_machine_failure_excludes_no_sample_whatever_the_log_contains(stage, code, why, tmp_path, monkeypatch):
    printed = report_of(tmp_path, monkeypatch, (stage, code, f"{BROKEN}\nbash: acapella: command not found\n"))
    first, second, third, *_ = printed.splitlines()
    assert first == "acapella: no sample caused this failure"
    assert second == (
        "acapella: these jobs failed for reasons outside the samples; fix these causes, then run snakemake again:"
    )
    assert third.startswith(f"  {stage.replace('__', ' ')}: {why}")
    assert "exclude" not in printed


def test_only_failed_samples_are_excluded_if_the_machine_also_fails(tmp_path, monkeypatch):
    jobs = [("digest__a", 2, BROKEN), ("digest__c", 143, ""), ("digest__e", None, ""), ("analyze__d", 134, "")]
    printed = report_of(tmp_path, monkeypatch, *jobs, ("collect__f", OUTSIDE, "f: No space left on device"))
    assert printed.splitlines()[1:3] == [f"  a: {REASON}", "  d: its log is empty"]
    assert "\n  exclude: [a, b, d]\n" in printed
    assert printed.splitlines()[-4:-2] == [
        "  collect f: f: No space left on device",
        "  digest e: it was not started, or killed before it ended; Snakemake's message above gives the reason",
    ]


@pytest.mark.parametrize("code", [1, 2])
@pytest.mark.parametrize("log", ["missing", "empty", "a directory"])
def test_job_without_a_log_excludes_no_sample(code, log, tmp_path):
    path = tmp_path / "a.log"
    if log == "a directory":
        path.mkdir()
    elif log != "missing":
        write_file(path, "\n")
    first, _, *lines = failure_report([FailedJob("digest", "a", path, code)], []).splitlines()
    assert first == "acapella: no sample caused this failure"
    assert lines == [f"  digest a: exit code {code}, and its log {path} is missing or empty"]


@pytest.mark.parametrize("code", [128 + signal.SIGSEGV, 128 + signal.SIGABRT])
def test_capture_that_crashes_its_digest_is_a_failed_sample(code, tmp_path, monkeypatch):
    assert "\n  exclude: [a, b]" in report_of(tmp_path, monkeypatch, ("digest__a", code, ""))


def test_only_the_exit_code_for_damage_suggests_keeping_the_frames_before_it(tmp_path, monkeypatch):
    offer = "or, to keep the frames before the damage in a, with this line:\n  digest: {damaged: keep}"
    assert report_of(tmp_path, monkeypatch, ("digest__a", 1, BROKEN)).endswith(offer)
    assert offer not in report_of(tmp_path, monkeypatch, ("digest__a", 2, "--damaged keep"))


def test_report_on_a_sample_has_no_advice_for_the_command_line(tmp_path, monkeypatch):
    text = f"{BROKEN}; 3 complete frames before it{ADVICE}{REPAIR}"
    printed = report_of(tmp_path, monkeypatch, ("digest__a", 1, text))
    assert f"  a: {REASON}; 3 complete frames before it\n" in printed
    ((_, reason),) = samples_that_failed(
        [FailedJob("digest", "a", Path("results/mine/logs/digest/a.log"), 1)], stopping=False
    )
    assert "--damaged" not in printed + reason


def test_failed_campaign_stage_names_no_sample(tmp_path, monkeypatch):
    assert report_of(tmp_path, monkeypatch, ("process", 2, BROKEN), ("index", 130, "")).splitlines() == [
        "acapella: these jobs failed:",
        f"  process: {REASON}",
    ]
    assert report_of(tmp_path, monkeypatch) == "acapella: no job failed; the message above gives the reason"


def test_headline_does_not_contradict_a_stage_that_names_a_sample(tmp_path, monkeypatch):
    jobs = (("index", 2, "acapella: error: sample a: bad time"), ("digest__c", OUTSIDE, ""))
    printed = report_of(tmp_path, monkeypatch, *jobs)
    assert "  index: sample a: bad time" in printed.splitlines()
    assert "no sample caused this failure" not in printed


@pytest.mark.parametrize(
    ("code", "text", "what"),
    [(2, BROKEN, "samples (s0, s1, s2, ...)"), (None, "", "jobs (digest s0, digest s1, digest s2, ...)")],
)
def test_equal_reasons_are_one_line(code, text, what, tmp_path, monkeypatch):
    equal = [(f"digest__s{at}", code, text) for at in range(9)]
    printed = report_of(tmp_path, monkeypatch, *equal, ("digest__x", 2, "odd"))
    assert printed.count(f"\n  9 {what}: ") == printed.count("\n  9 ") == 1
    assert "  x: odd" in printed.splitlines()
    assert printed.endswith("\n  exclude: [b, s0, s1, s2, s3, s4, s5, s6, s7, s8, x]") == bool(code)


def raised(cause: BaseException) -> BaseException:
    """Return a UserError raised from another error."""
    error = UserError("cannot write")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((raised(OSError(number, "machine")), OUTSIDE) for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO)),
        (raised(MemoryError()), OUTSIDE),
        (raised(OSError("ZSTD compression failed: Allocation error : not enough memory")), OUTSIDE),
        (raised(OSError("Couldn't serialize thrift: std::bad_alloc")), OUTSIDE),
        *((raised(OSError(number, "input")), 2) for number in (errno.ENOENT, errno.EACCES)),
        (raised(ValueError()), 2),
        (UserError("no tshark", outside=True), OUTSIDE),
        *(  # errors of a file server
            (OSError(number, "gone"), OUTSIDE)
            for number in (errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENXIO, errno.ESTALE)
        ),
    ],
    ids=itertools.count(),
)
def test_exit_codes_distinguish_the_machine_from_the_input(error, code):
    assert OUTSIDE == 75
    assert exit_code_of(error) == code


@pytest.mark.parametrize("kind", [duckdb.IOException, duckdb.FatalException, duckdb.TransactionException])
def test_exit_codes_of_duckdb_distinguish_a_full_disk_from_the_input(kind):
    assert exit_code_of(raised(kind("Could not write file: No space left on device"))) == OUTSIDE
    assert exit_code_of(raised(kind("Could not read file: no magic bytes"))) == 2


@pytest.mark.parametrize("module", ["acapella.cli.main", "acapella_core.errors"])
def test_failed_import_does_not_have_the_exit_code_for_damage(module, monkeypatch, capsys):
    monkeypatch.setattr(entry, "exit_on_interrupt", lambda: None)
    monkeypatch.delitem(sys.modules, "acapella.cli.main")
    monkeypatch.setitem(sys.modules, module, None)
    assert entry.main() == INTERNAL == entry.INTERNAL
    assert "ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["native", "hybrid"])
@pytest.mark.parametrize("fault", ["open", "read"])
def test_capture_that_the_system_cannot_read_is_a_machine_failure(fault, engine, tmp_path, capsys):
    require_programs(*(["tshark"] if engine == "hybrid" else []))
    source, why = "/proc/self/mem", "Input/output error"  # its first page is not mapped
    if fault == "open":
        source, why = str(tmp_path / "gone.pcap"), "No such device or address"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(source)
    assert main(["digest", source, "-o", str(tmp_path / "x.parquet"), "--engine", engine]) == OUTSIDE
    assert capsys.readouterr().err == f"acapella: error: {source}: {why}\n"
    assert not list(tmp_path.glob("*.parquet"))


DELETED = "acapella: Snakemake deleted earlier results of these jobs; the next run recreates them:\n"


def test_results_deleted_after_the_failure_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acap, log = (write_file(tmp_path / name, BROKEN) for name in ("a.parquet", "a.log"))
    failed = [FailedJob("digest", "a", log, 1, None, (acap,))]
    assert DELETED not in failure_report(failed, [])
    acap.unlink()
    assert failure_report(failed, []).endswith(f"{DELETED}  digest a")


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """Return a campaign of valid captures and a text file named letter.pcap after stage digest, and the output."""
    place = workplace(tmp_path_factory.mktemp("letters"), digest={"engine": "native"})
    place.add_letter()
    return place, place.fail("--keep-going", "--until", "digest")


@pytest.fixture
def letter(letters, tmp_path):
    """Return a copy of that campaign."""
    return letters[0].copy(tmp_path)


@pytest.mark.parametrize("cause", ["damaged", "slurm"])
def test_failed_rerun_names_deleted_results(letter, tmp_path, cause):
    """The digest of a damaged capture writes its output and then fails. A job that Slurm refuses never starts."""
    letter.configure(digest={"engine": "native"}, exclude=["letter"])
    failed, options = ["alpha-p1"], []
    if cause == "damaged":
        capture = tmp_path / "captures" / "alpha-p1.pcap.gz"
        capture.write_bytes(capture.read_bytes()[:-60] + bytes(40) + capture.read_bytes()[-20:])
    else:
        refuse_slurm(letter)
        failed, options = ["alpha-p1", "alpha-p2", "beta-p1"], SLURM
    printed = letter.fail("--forcerun", "digest", "-q", "--keep-going", "--until", "digest", *options)
    gone = [name for name in failed if not (letter.campaign / "acap" / f"{name}.parquet").exists()]
    assert gone, printed
    assert set(re.findall(r"^  digest (\S+)$", printed.partition(DELETED)[2], re.M)) == set(gone), printed


@pytest.mark.soak
def test_sigterm_to_snakemake_alone_is_not_a_failure(tmp_path):
    """Snakemake lets the running digest finish and starts no other job."""
    place = workplace(tmp_path, digest={"engine": "native"})
    running = place.start("--cores", "1", "-q", "--until", "digest", output=subprocess.PIPE)
    wait_until(lambda: list(place.campaign.glob("logs/digest/*.log")), running=running)
    running.terminate()
    printed, _ = running.communicate(timeout=120)
    assert running.returncode != 0, printed
    assert printed.splitlines()[-1] == "acapella: stopped; run snakemake again to continue", printed
    assert "no job failed" not in printed


def test_storage_tables_are_kept_if_a_rerun_fails(tmp_path):
    """The study cannot be read. Snakemake deletes outputs before a job starts, except those marked with update()."""
    place, names = workplace(tmp_path), [f"results/tiny/tables/{table}.csv" for table in STORAGE_TABLES]
    for name in (*names, "results/tiny/storage/study.json"):
        write_file(tmp_path / name, "before\n")
    printed = place.fail("--forcerun", "storage_tables", "--allowed-rules", "storage_tables", "--", *names)
    assert re.search(r"^  storage_tables: (?!acapella: error)", printed, re.M), printed
    assert [name for name in names if not (tmp_path / name).exists()] == []
    assert {(tmp_path / name).read_text() for name in names} == {"before\n"}


def test_outputs_of_campaign_stages_are_updated_in_place():
    """Snakemake restores the previous outputs if the job fails."""
    text = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    outputs = "".join(re.findall(r"^    output:\n((?: {8}.*\n)+)", text, re.M))
    lines = re.findall(r".*<campaign>/(?:tables|storage|consistency)/.*", outputs)
    assert lines
    assert [line for line in lines if "update(" not in line] == []


@pytest.mark.parametrize("quiet", [["-q"], ["-q", "all"], []], ids=["quiet", "quiet all", "usual"])
def test_broken_sample_is_named_if_snakemake_is_quiet(letters, letter, quiet):
    printed = letter.fail("--keep-going", "--until", "digest", *quiet) if quiet else letters[1]
    assert re.search(r"^acapella: these samples failed:\n  letter: (?!acapella).*letter\.pcap: ", printed, re.M), (
        printed
    )
    assert "\n  exclude: [letter]\n" in printed
    assert "no sample caused this failure" not in printed


def refuse_slurm(place) -> None:
    """Make Slurm's commands fail as they do without a controller, but without a delay."""
    for name in ("sbatch", "squeue", "sacct", "sinfo", "scontrol", "scancel"):
        text = "#!/bin/sh\necho 'error: Unable to contact slurm controller' >&2\nexit 1\n"
        executable(place.directory / "commands" / name, text)
    place.environment["PATH"] = f"{place.directory / 'commands'}:{os.environ['PATH']}"


def test_slurm_without_a_cluster_excludes_no_sample(letter):
    refuse_slurm(letter)
    write_file(letter.campaign / "logs" / "digest" / "alpha-p1.exit", "2\n")  # from an earlier run
    printed = letter.fail("--forcerun", "digest", "--until", "digest", *SLURM)
    assert "acapella: no sample caused this failure" in printed, printed
    assert "exclude:" not in printed
    assert "these samples failed" not in printed


def test_broken_tshark_excludes_no_sample_and_the_next_run_restores_results(again, tmp_path):
    before = again.sha256("acap/*", "flows/*", "tables/*")
    again.replace_tshark(tmp_path, "echo 'tshark: symbol lookup error: undefined symbol: x' >&2; exit 1")
    printed = again.fail("--forcerun", "digest", "--keep-going", "-q")
    assert "acapella: no sample caused this failure" in printed, printed
    jobs = r"3 jobs \(digest alpha-p1, digest alpha-p2, digest beta-p1\)"
    assert re.search(rf"^  {jobs}: .*symbol lookup error: .* on every capture; ", printed, re.M), printed
    assert f"{DELETED}  digest " in printed
    assert "exclude:" not in printed
    assert not list((again.campaign / "acap").glob("*.parquet"))
    del again.environment["PATH"]
    again.succeed("--until", "process")
    assert again.sha256("acap/*", "flows/*", "tables/*") == before


@pytest.mark.parametrize(("code", "stopping", "printed"), [(130, True, False), (130, False, True), (1, True, True)])
def test_only_messages_about_stopped_jobs_are_omitted(code, stopping, printed):
    logger, stream = logging.Logger("snakemake"), io.StringIO()
    logger.addHandler(logging.StreamHandler(stream))
    omit_stopped_jobs(logger, lambda: stopping)
    try:
        exec("raise error", {"__name__": SHELL_MODULE, "error": subprocess.CalledProcessError(code, "digest")})
    except subprocess.CalledProcessError:  # the filter finds the exit code in the exception that is being handled
        logger.error("Error in rule digest", extra={"event": LogEvent.JOB_ERROR})
    logger.info("Elapsed time", extra={"event": None})
    assert stream.getvalue() == "Error in rule digest\n" * printed + "Elapsed time\n"
