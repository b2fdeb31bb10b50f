"""Tests the undocumented parts of Snakemake that the workflow uses, with the installed version."""

import ast
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_programs
from acapella_testing.runs.workflow_run import ROOT, run_snakemake
from snakemake.exceptions import IncompleteCheckpointException

from acapella.snakefile import cached_digests, snakemake_internals
from acapella.snakefile.cached_digests import CachedDigests, ReplacedCaptures
from acapella_core.files import sha256_of

TIMEOUT_S = 120  # reached only if something hangs
HERE = Path(__file__).parent


@pytest.fixture
def run(tmp_path):
    """Return a function that runs states.smk and returns the printed states by phase, and the output of Snakemake."""
    write_file(tmp_path / "config.yaml", "{}")

    def run(*arguments, **environment):
        ended = run_snakemake([*words(tmp_path, "states.smk"), *arguments], tmp_path, environment)
        assert ended.returncode == 0, ended.stdout
        states = re.findall(r"^state (\w+) (.*)$", ended.stdout, re.M)
        return {at: dict(pair.split("=") for pair in values.split()) for at, values in states}, ended.stdout

    return run


def words(directory, snakefile: str) -> list[str]:
    """Return the arguments of Snakemake for a file of snakefiles/."""
    return ["--cores", "1", "--directory", str(directory), "--snakefile", str(HERE / "snakefiles" / snakefile)]


def true_at(states, at):
    """Return the names of the functions that returned True in a phase: read, planned or started."""
    return {name for name, value in states[at].items() if value == "True"}


def test_state_of_a_run_is_known_when_jobs_are_planned(run):
    states, _ = run()
    assert [true_at(states, at) for at in ("read", "planned", "started")] == [{"is_main_process"}] * 3
    states, _ = run("--dry-run")
    assert true_at(states, "read") == {"is_main_process"}, "not known yet, so the Snakefile asks later"
    assert true_at(states, "planned") == {"is_main_process", "is_dry_run", "runs_no_jobs"}
    assert "started" not in states
    states, _ = run("--touch", "--configfile", "config.yaml")
    assert true_at(states, "planned") == {"is_main_process", "runs_no_jobs", "config_files"}


@pytest.mark.parametrize("options", [["--forceall"], ["--force"], ["--forcerun", "copy"]])
def test_forced_jobs_are_known_when_jobs_are_planned(run, options):
    states, _ = run("--dry-run", *options)
    assert "forces_jobs" in true_at(states, "planned")


@pytest.mark.soak
def test_directory_in_which_snakemake_was_started_is_known(tmp_path):
    command = [sys.executable, "-m", "snakemake", *words(tmp_path / "work", "states.smk"), "--dry-run"]
    assert f"started in {tmp_path}\n" in subprocess.check_output(
        command, cwd=tmp_path, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S
    )


def test_outputs_can_be_forced_while_jobs_are_planned(run):
    run()
    assert "Nothing to be done" in run()[1]
    assert re.search(r"^copy +1$", run("--dry-run", FORCE="yes")[1], re.M)


def test_private_names_of_snakemake_are_used_in_one_module():
    package = ROOT / "workflow/src/acapella/snakefile"
    sources = [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk"), *package.rglob("*.py")]
    private = re.compile(r"(?:\b|_)workflow\.(?!basedir\b|cores\b|sql\b)\w+|\b_thread\b|\b_benchmark\b|\bos\._exit\b")
    users = {path.name: len(found) for path in sources if (found := private.findall(path.read_text()))}
    assert users.keys() == {"snakemake_internals.py"}
    assert users["snakemake_internals.py"] > 5


DOCUMENTED = {  # imports that Snakemake documents for workflows, and its interface for loggers
    *("snakemake.exceptions.WorkflowError", "snakemake.io.expand", "snakemake.logging.logger"),
    *("snakemake.utils.min_version", "snakemake_interface_logger_plugins.common.LogEvent"),
}


def imported_from_snakemake(source):
    """Return the names that a module imports from Snakemake, including its imports in functions."""
    nodes = [*ast.walk(ast.parse(source))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = [node for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    names |= {f"{node.module}.{alias.name}" for node in parts for alias in node.names}
    return {name for name in names if name.startswith("snakemake")}


def test_no_other_module_imports_undocumented_parts_of_snakemake():
    assert imported_from_snakemake("import snakemake.caching.local") - DOCUMENTED
    packages = ("workflow/src", "capture/src", "workflow/native/python")
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert [path for path in sources if imported_from_snakemake(path.read_text()) - DOCUMENTED] == [
        Path(snakemake_internals.__file__)
    ]
    imports = "".join(re.findall(r"^(?:from|import) snakemake.*\n", (ROOT / "Snakefile").read_text(), re.M))
    assert imports
    assert imported_from_snakemake(imports) <= DOCUMENTED
    assert not any("import snakemake" in path.read_text() for path in (ROOT / "rules").glob("*.smk"))


def test_incomplete_checkpoint_is_recognized():
    assert snakemake_internals.is_incomplete_checkpoint(IncompleteCheckpointException("collect", "raw/samples.tsv"))
    assert not snakemake_internals.is_incomplete_checkpoint(ValueError("snakemake.exceptions"))


@pytest.mark.parametrize(("command", "code"), [("exit 1", 1), ("exit 75", 75), ("kill -TERM $$", 143)])
def test_exit_code_of_a_job_is_found_in_the_exceptions_of_snakemake(tmp_path, command, code):
    ended = run_snakemake([*words(tmp_path, "failing.smk"), "--config", f"command={command}"], tmp_path, {})
    assert ended.returncode != 0
    assert f"failed ('fail', {code}, None)" in ended.stdout


SIGNAL_WHILE_LOCKED = """
import os, signal, threading
from snakemake.scheduling.job_scheduler import JobScheduler
from acapella.snakefile.snakemake_internals import record_signals
scheduler = JobScheduler.__new__(JobScheduler)
scheduler._lock, scheduler._open_jobs, scheduler._user_kill = threading.Lock(), threading.Semaphore(0), None
signal.signal(signal.SIGTERM, scheduler.exit_gracefully)
recorded = []
record_signals(lambda: recorded.append(1))
with scheduler._lock:  # as the main thread holds it after a job
    os.kill(os.getpid(), signal.SIGTERM)
    assert recorded == [1]
    assert scheduler._user_kill is None
scheduler._open_jobs.acquire()
assert scheduler._user_kill == "graceful"
"""


def test_sigterm_does_not_wait_for_the_code_that_it_interrupts():
    subprocess.run([sys.executable, "-c", SIGNAL_WHILE_LOCKED], check=True, timeout=TIMEOUT_S)
    assert re.search(r"^onstart:\n(    .*\n)*    record_signals\(", (ROOT / "Snakefile").read_text(), re.M)


@pytest.fixture
def keep_handlers():
    """Restore the handlers of SIGTERM and SIGINT after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("keep_handlers")
def test_signals_are_recorded_and_passed_to_the_earlier_handlers():
    recorded, called, done, main = [], [], threading.Event(), threading.main_thread()
    in_main = lambda: threading.current_thread() is main  # noqa: E731
    signal.signal(signal.SIGTERM, lambda number, _: called.append((number, in_main())) or done.set())
    signal.signal(signal.SIGINT, lambda number, _: called.append((number, None)))
    snakemake_internals.record_signals(lambda: recorded.append(len(called)))
    os.kill(os.getpid(), signal.SIGTERM)
    assert done.wait(TIMEOUT_S)
    os.kill(os.getpid(), signal.SIGINT)
    assert called == [(signal.SIGTERM, False), (signal.SIGINT, None)]
    assert len(recorded) == 2


@pytest.mark.usefixtures("keep_handlers")
def test_ignored_signals_remain_ignored():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    snakemake_internals.record_signals(lambda: pytest.fail("the signal is ignored"))
    assert {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} == {signal.SIG_IGN}


def test_copies_of_read_only_files_are_writable(tmp_path):
    require_programs("rsync")
    plugin = pytest.importorskip("snakemake_storage_plugin_fs")
    file = write_file(tmp_path / "share" / "-a b:1.pcap", "bytes")
    file.chmod(0o444)
    provider = plugin.StorageProvider(local_prefix=tmp_path / "copies", logger=None)
    snakemake_internals.make_copies_writable(provider)
    asyncio.run(provider.object(str(file)).managed_retrieve())
    (copy,) = (path for path in (tmp_path / "copies").rglob("*") if path.is_file())
    assert (copy.name, copy.read_text()) == (file.name, "bytes")
    assert [path.stat().st_mode & 0o777 for path in (copy, file)] == [0o600, 0o444]
    assert copy.stat().st_mtime_ns == file.stat().st_mtime_ns


@pytest.mark.parametrize(("main", "damaged"), [(True, True), (True, False), (False, True)])
def test_damaged_cache_entries_are_checked_once_and_recreated(monkeypatch, main, damaged):
    checked = []
    monkeypatch.setattr("acapella.digest.cache.report_damaged", lambda *sample: checked.append(sample) or damaged)
    workflow = SimpleNamespace(is_main_process=main, dag=SimpleNamespace(forcefiles=set()))
    digests = CachedDigests(workflow, "results/x")
    for _ in range(2):
        digests.check("a")
    assert len(checked) == int(main)
    assert workflow.dag.forcefiles == (
        {f"results/x/{kind}/a.parquet" for kind in cached_digests.KINDS} if main and damaged else set()
    )


def test_verified_cache_entries_are_recorded(monkeypatch):
    calls = []
    monkeypatch.setattr("acapella.digest.cache.record_verified", lambda: calls.append(1))
    CachedDigests(None, "results/x").record_verified()
    assert calls == [1]


@pytest.mark.parametrize(
    ("recorded", "size", "replaced"), [(True, 3, False), (True, 4, True), (False, 3, False), (False, 4, True)]
)
def test_outputs_of_replaced_captures_are_outdated_until_they_are_written_again(tmp_path, recorded, size, replaced):
    """Without captures.json, as in campaigns of earlier versions, the manifest contains the size."""
    capture = write_file(tmp_path / "a.pcap", "abc")
    outputs = ["raw/a.json", "acap/a.parquet", "flows/a.parquet"]
    for name in outputs:
        write_file(tmp_path / "x" / name, json.dumps({"bytes": 3, "sha256": sha256_of(capture)}))

    def forced() -> tuple[ReplacedCaptures, set[str]]:
        workflow = SimpleNamespace(is_main_process=True, dag=SimpleNamespace(forcefiles=set()))
        captures = ReplacedCaptures(workflow, str(tmp_path / "x"), {"a": str(capture)}.get, lambda sample: outputs)
        for sample in "ab":
            captures.check(sample)
        return captures, {str(Path(path).relative_to(tmp_path / "x")) for path in workflow.dag.forcefiles}

    if recorded:
        forced()[0].record()
    write_file(capture, "abcd"[:size])
    os.utime(capture, (1, 1))
    captures, found = forced()
    assert found == ({*outputs} if replaced else set())
    assert (tmp_path / "x" / "captures.json").exists() == recorded, "a dry run writes nothing"
    captures.record()
    os.utime(tmp_path / "x" / outputs[0], (2, 2))
    assert forced()[1] == ({*outputs[1:]} if replaced else set())
    write_file(capture, "newer")
    os.utime(capture)
    assert forced()[1] == set(), "Snakemake itself notices a newer input"


def test_invalid_states_of_captures_end_snakemake_with_one_line(tmp_path):
    write_file(tmp_path / "captures.json", "{")
    with pytest.raises(SystemExit, match=r"captures\.json.*delete it$"):
        ReplacedCaptures(SimpleNamespace(is_main_process=True), str(tmp_path), lambda _: __file__, list).check("a")
