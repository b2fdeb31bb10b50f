"""Fails each write, sync, rename or allocation: the command prints one line, exits with a code other than 0, and
damages no file.

The method is that of SQLite (sqlite.org/testing.html): the n-th call fails, for n = 1, 2, 3, ... These tests fail a
seeded selection of calls; `make soak` fails all of them (ALLOCATIONS of the allocations). There, commands with DuckDB
may hang after a failed allocation; a warning contains their stacks. Writes inside libc (stdio) and io_uring,
and processes started by the command, are not covered. Other tests kill commands (kill -9) while their files are
incomplete.
"""

import compileall
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest
from acapella_testing import processes
from acapella_testing.collector_input import CONTROL, reports
from acapella_testing.frames.report_frames import pcap
from acapella_testing.frames.traces import write_pcap
from acapella_testing.generated.files_campaign import collected
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.release_records import write_key
from acapella_testing.requirements import skip_if
from acapella_testing.runs.warm_acapella import FAULTS, LIBRARY, PROGRAM
from acapella_testing.runs.warm_python import WarmPython
from acapella_testing.runs.workflow_run import CAPTURES
from acapella_testing.soak import SOAK

import acapella
import acapella_capture
import acapella_core
from acapella.cli.main import main
from acapella.flowreports import program
from acapella_core.errors import OUTSIDE
from acapella_core.files import sha256_of

SOURCE = Path(__file__).parents[1].joinpath("support", "fail_nth_call.c")
ALLOCATIONS = 200
CHOSEN = {"write": 2, "sync": 1, "rename": 1, "malloc": 1}  # calls of each kind in `make test`
WITH_DUCKDB = ("index", "analyze", "process", "release")  # DuckDB crashes or hangs after some failed allocations
TIME_LIMIT_S = 60  # of a command, which takes 2 s
MAX_HUNG = 4  # of ALLOCATIONS; one in about 2,500 is expected
HUNG = -256  # exit code of a command that exceeds it: not the number of a signal
COMMAND = Path(sys.executable).with_name("acapella")
SAMPLES = ("alpha-p2", "beta-p1")


class Stage(NamedTuple):
    """A command to run in the campaign's directory. Calls are counted from the first open of a path that matches
    `armed_by`.
    """

    words: tuple[str, ...]
    armed_by: str


STAGES = {
    "digest": Stage(("digest", "alpha-p2.pcap.gz", "-o", "x.parquet", "--flows", "flows.parquet"), "alpha-p2.pcap"),
    "index": Stage(("campaign", "index", "."), "acap/"),
    "analyze": Stage(("campaign", "analyze", ".", "--sample", SAMPLES[0]), "acap/"),
    "process": Stage(("campaign", "process", "."), "catalog"),
    "release": Stage(("release", ".", "-o", "public", "--key", "key"), "catalog"),
    "collector": Stage(("p4", "collect", "reports.pcap", "--control", "control", "-o", "collected"), "reports.pcap"),
}


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """Compile the library to preload and return its path."""
    if (compiler := shutil.which("gcc") or shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("preload") / "fail.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"], check=True)
    return path


@pytest.fixture(scope="session")
def command(library, tmp_path_factory):
    """Return the command line of `acapella` and variables, with which the library is loaded.

    In `make test`, commands are forks of an interpreter that has imported their modules. In `make soak`, they are the
    installed program, so that calls during its imports and at exit fail, too.
    """
    if SOAK:
        for package in (acapella, acapella_capture, acapella_core):
            # An allocation that fails while CPython compiles a module may cause a SyntaxError.
            compileall.compile_dir(Path(package.__file__).parent, quiet=1)
        yield [COMMAND], {"LD_PRELOAD": str(library)}
        return
    directory = tmp_path_factory.mktemp("warm")
    # Without cached bytecode, the number of calls does not depend on earlier runs.
    warm = WarmPython(directory, FAULTS, LD_PRELOAD=str(library), PYTHONDONTWRITEBYTECODE="1")
    yield [directory / "python3", "-IS", "-c", PROGRAM.format(FAULTS)], warm.environment | {LIBRARY: str(library)}
    warm.close()


@pytest.fixture(scope="session")
def run(command):
    """Return a function that runs an acapella command in a directory. With `armed_by`, the library counts calls from
    the first open of a matching path, and the call `fail` fails. A command that does not end is killed.
    """
    program, variables = command

    def run_command(directory, words, armed_by=None, fail="", **environment) -> subprocess.CompletedProcess:
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"} | (variables if armed_by or not SOAK else {})
        if armed_by:
            environment |= {"ACAPELLA_FAIL_FROM": armed_by, "ACAPELLA_FAIL": fail}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with processes.running([*program, *words], cwd=directory, env=os.environ | environment, **pipes) as process:
            try:
                printed = process.communicate(timeout=TIME_LIMIT_S)
            except subprocess.TimeoutExpired:
                return subprocess.CompletedProcess(words, HUNG, "", f"did not end\n{stack_of(process.pid)}")
        return subprocess.CompletedProcess(words, process.returncode, *printed)

    return run_command


def stack_of(pid: int) -> str:
    """Return the stack of a process's main thread, or why there is none."""
    if shutil.which("gdb") is None:
        return "no stack: gdb is missing"
    printed = processes.run("gdb", "-batch", "-p", pid, "-ex", "backtrace 16").stdout
    return "\n".join(line for line in printed.splitlines() if line.startswith("#"))


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("write", "os.ftruncate(file, 1)"),
        ("write", "os.posix_fallocate(file, 0, 1)"),
        ("write", "os.pwritev(file, [b'x'], 0)"),
        ("write", "os.pwritev(file, [b'x'], 0, os.RWF_DSYNC)"),
        ("write", "check(libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(1)))"),
        ("rename", "os.link('armed', 'other')"),
        ("rename", "os.link('armed', 'other', src_dir_fd=os.open('.', os.O_RDONLY))"),
        ("rename", "check(libc.renameat2(-100, b'armed', -100, b'other', 0))"),
    ],
)
def test_each_call_that_writes_a_file_can_fail(kind, call, library, tmp_path):
    """The first call fails and the second, identical one succeeds."""
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "")
file = os.open("armed", os.O_RDWR | os.O_CREAT)
for _ in range(2):
    try:
        {call}
        print("done")
    except OSError as error:
        print(error.errno in (5, 28))
"""
    fault = {"LD_PRELOAD": str(library), "ACAPELLA_FAIL_FROM": "armed", "ACAPELLA_FAIL": f"{kind}:1"}
    ended = processes.run(sys.executable, "-I", "-S", "-c", code, cwd=tmp_path, env=fault, check=True)
    assert ended.stdout.split() == ["True", "done"], ended.stderr


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> dict[str, Path]:
    """Return, for each stage, the campaign's directory before that stage runs."""
    captures = shutil.copytree(CAPTURES, tmp_path_factory.mktemp("captures"), dirs_exist_ok=True)
    rows = [(name, "alpha", name, captures / f"{name}.pcap.gz") for name in SAMPLES]
    campaign = shutil.copytree(captures, collected(tmp_path_factory.mktemp("faults"), rows), dirs_exist_ok=True)
    write_key(campaign / "key")
    write_file(campaign / "control", CONTROL)
    write_file(campaign / "reports.pcap", pcap(reports(30)))
    made = {}
    for name, stage in STAGES.items():
        made[name] = shutil.copytree(campaign, campaign.parent / name)
        if name == "analyze":
            succeed(campaign, ("campaign", "analyze", ".", "--sample", SAMPLES[1]))
        if name in ("index", "analyze", "process"):
            succeed(campaign, stage.words)
    return made


def succeed(directory: Path, words: tuple[str, ...]) -> None:
    """Run a command in this process; it must succeed."""
    with contextlib.chdir(directory):
        assert main(list(words)) == 0, words


def contents(directory: Path) -> dict[str, str]:
    """Return the content of each file by path."""
    return {
        str(path.relative_to(directory)): content(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and ".part" not in (path.suffix, *(parent.suffix for parent in path.parents))
    }


def content(path: Path) -> str:
    """Return the rows of a DuckDB file, whose bytes may differ, a list of checksums without that of such a file, or
    the checksum of any other file.
    """
    if path.suffix == ".duckdb":
        return rows(path)
    if path.name == "SHA256SUMS":
        return "\n".join(line for line in path.read_text().splitlines() if not line.endswith(".duckdb"))
    return sha256_of(path)


def rows(path: Path) -> str:
    """Return the rows of all tables of a DuckDB file as text, except the times and inodes in schema `indexed`."""
    query = "select schema_name || '.' || table_name from duckdb_tables() where schema_name <> 'indexed' order by all"
    with duckdb.connect(str(path), read_only=True) as client:
        names = [name for (name,) in client.sql(query).fetchall()]
        return repr({name: client.sql(f"from {name} order by all").fetchall() for name in names})


def chosen(kind: str, total: int, seed: str) -> list[int]:
    """Return the numbers of the calls to fail, from 1."""
    max_calls = CHOSEN[kind] if not SOAK else ALLOCATIONS if kind == "malloc" else total
    return sorted(random.Random(seed).sample(range(1, total + 1), min(total, max_calls)))


@pytest.fixture(scope="module", params=STAGES)
def counted(request, before, run, tmp_path_factory) -> tuple[str, dict[str, int], dict[str, str], Path]:
    """Return a stage, its calls of each kind without a failure, the files before it, and the directory after it."""
    name, directory = request.param, tmp_path_factory.mktemp("whole")
    count_file, succeeded = directory / "count", shutil.copytree(before[name], directory / "campaign")
    ended = run(succeeded, *STAGES[name], ACAPELLA_FAIL_COUNT=str(count_file))
    assert ended.returncode == 0, ended.stderr
    calls = {kind: int(number) for kind, number in map(str.split, count_file.read_text().splitlines())}
    return name, calls, contents(before[name]), succeeded


@pytest.mark.parametrize("kind", CHOSEN)
def test_failed_call_leaves_files_either_old_or_new(counted, kind, before, run, tmp_path):
    name, calls, start, succeeded = counted
    stage, total, new = STAGES[name], calls[kind], contents(succeeded)
    assert total > 0
    assert new != start
    hung = []
    for number in chosen(kind, total, f"{name} {kind}"):
        directory = shutil.copytree(before[name], tmp_path / "failing")
        ended = run(directory, *stage, f"{kind}:{number}")
        what = f"{kind} {number} of {total}: exit code {ended.returncode}, {ended.stderr}"
        found = contents(directory)
        if name == "collector" and incomplete_tables(directory / "collected"):
            del found["collected/counters.json"]  # counters.json lists the missing tables; the other tables are kept
        damaged = [path for path, held in found.items() if held not in (start.get(path), new.get(path))]
        if kind == "malloc" and (ended.returncode == HUNG or list(directory.rglob("*.part*"))):
            # A library without memory crashed or did not end: files remain, as after kill -9.
            damaged = [path for path in damaged if ".part" not in path]
            check_next_run(run, stage.words, directory, new, what)
        assert not damaged, (damaged, what)
        if ended.returncode == 0:  # a call that may fail, such as removing a file that is no longer needed
            assert found == new, what
        elif ended.returncode == HUNG and may_hang(name, kind):
            hung.append(what)
        else:
            assert ended.returncode > 0, what
            assert "Traceback" not in ended.stderr, what
            assert len([line for line in ended.stderr.splitlines() if "error: " in line]) == 1, what
            assert name in WITH_DUCKDB or "(SIG" not in ended.stderr, what
        shutil.rmtree(directory)
    assert len(hung) <= MAX_HUNG, hung
    if hung:  # a warning, because the log of `make soak` has the warnings of successful tests
        warnings.warn("\n".join([f"{name}: {len(hung)} commands did not end:", *hung]), stacklevel=1)


def may_hang(stage: str, kind: str) -> bool:
    """Return whether a command may hang after a failed call.

    If an allocation fails while DuckDB 2.0 schedules a query, it destroys a task, whose destructor waits for a lock
    that the same thread holds (`Executor::InitializeInternal` and `Executor::UnregisterTask`). In `make test`, the
    command is not a child of this process, so it would not be killed.
    """
    return SOAK and kind == "malloc" and stage in WITH_DUCKDB


def check_next_run(run, words: tuple[str, ...], directory: Path, new: dict[str, str], what: str) -> None:
    """Check that the next run of a command that was killed makes all files and removes incomplete ones.

    A collector that has written a table fails instead: it never replaces collected results.
    """
    collected = list((directory / "collected").glob("*.parquet"))
    repeated = run(directory, words)
    if collected:
        assert "already contains results" in repeated.stderr, what
    else:
        assert repeated.returncode == 0, what
        assert contents(directory) == new, what
        assert not list(directory.rglob("*.part*")), what


def incomplete_tables(directory: Path) -> list[str]:
    """Return the tables that the counters of a collector list as not written. Checks that they are missing."""
    counters = directory / "counters.json"
    names = list(json.loads(counters.read_text())["not_written"]) if counters.exists() else []
    assert not [name for name in names if (directory / f"{name}.parquet").exists()]
    return names


@pytest.mark.parametrize(
    "words",
    [
        ("digest", "large.pcap", "-o", "x.parquet", "--engine", "native", "--damaged", "keep"),
        ("digest", "alpha-p2.pcap.gz", "large.pcap", "-o", "x.parquet", "--engine", "native"),
        ("kappa", "large.pcap", "large.pcap", "--json"),
        ("anonymize", "large.pcap", "-o", "out.pcap", "--key-file", "key"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_read_error_within_a_capture_is_not_damage_of_the_capture(words, before, run, tmp_path):
    """The second read of 256 KiB fails."""
    write_pcap(tmp_path / "large.pcap", [(k, bytes(1400)) for k in range(400)], snaplen=1400)
    for needed in ("alpha-p2.pcap.gz", "key"):
        shutil.copy(before["digest"] / needed, tmp_path)
    there = sorted(path.name for path in tmp_path.iterdir())
    ended = run(tmp_path, words, "large.pcap", "read:2")
    assert (ended.returncode, ended.stdout) == (OUTSIDE, ""), ended.stderr
    assert ended.stderr.splitlines()[-1] == "acapella: error: large.pcap: Input/output error"
    assert sorted(path.name for path in tmp_path.iterdir()) == there


def incomplete(directory: Path, temporary: Path) -> list[str]:
    """Return the names of the incomplete files and directories that a command left."""
    return [path.name for path in directory.rglob("*.part*")] + [path.name for path in temporary.iterdir()]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("words", "armed_by", "kind"),  # commands that write packets or data derived from packets; when they are killed
    [
        *((*stage, "rename") for stage in STAGES.values()),
        (("anonymize", "alpha-p2.pcap.gz", "-o", "out.pcap", "--key-file", "key"), "alpha-p2.pcap", "rename"),
        (("anonymize", "--new-key", "other-key"), "other-key", "sync"),
        (("verify", "alpha-p2.pcap.gz"), "acapella-scratch", "write"),
        (("p4", "reports", "alpha-p2.pcap.gz", "-o", "reports"), "acapella-scratch", "write"),
    ],
    ids=[*STAGES, "anonymize", "make key", "verify", "flowreports"],
)
def test_next_run_removes_incomplete_files_of_a_killed_command(words, armed_by, kind, before, run, tmp_path):  # noqa: PLR0913, PLR0917
    skip_if(words[:2] == ("p4", "reports") and program.why_unavailable())
    stages = [name for name, stage in STAGES.items() if stage.words == words] or ["digest"]
    directory = shutil.copytree(before[stages[0]], tmp_path / "killed")
    temporary = new_directory(tmp_path / "tmp")
    ended = run(directory, words, armed_by, f"{kind}:1", ACAPELLA_FAIL_BY="kill", TMPDIR=str(temporary))
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert incomplete(directory, temporary)
    again = run(directory, words, TMPDIR=str(temporary))
    assert again.returncode == 0, again.stderr
    assert incomplete(directory, temporary) == []
