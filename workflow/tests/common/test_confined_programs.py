"""Programs that process captures, and the commands that run them, have no network access and can write few files."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import (
    ATTEMPT,
    children_of,
    confined_python,
    executable,
    run,
    running,
    status_of,
    until_confined,
)
from acapella_testing.requirements import require, require_success, skip_if
from acapella_testing.waiting import wait_until

from acapella.common import confined
from acapella.flowreports.comparators import meters
from acapella.p4 import run_program
from acapella_capture import collect, scan
from acapella_core import _native, confinement

SUPPORT = _native.confinement_support()
ACAPELLA = str(Path(sys.executable).with_name("acapella"))

needs_seccomp = pytest.mark.skipif(not SUPPORT["seccomp"], reason="this kernel has no seccomp")
needs_landlock = pytest.mark.skipif(SUPPORT["landlock_abi"] == 0, reason="this kernel has no Landlock")

# Writes the results of its attempts to its first argument, and tries to write to its second.
ATTEMPTS = """\
#!/bin/sh
grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status > "$1"
grep -E '^Max (cpu|core|address)' /proc/self/limits >> "$1"
(echo x > "$2") 2> /dev/null && echo outside >> "$1"
python3 -c 'import socket; socket.socket()' 2> /dev/null && echo network >> "$1"
exit 0
"""


@pytest.fixture
def program(tmp_path):
    """Return a program that attempts forbidden actions, a directory that it may write to, and one that it may not."""
    own, other = (new_directory(tmp_path / name) for name in ("own", "other"))
    return executable(tmp_path / "program", ATTEMPTS), own, other


def found(own: Path) -> list[str]:
    """Return the lines that the program wrote, with normalized whitespace."""
    return [" ".join(line.split()) for line in (own / "found").read_text().splitlines()]


@needs_landlock
@needs_seccomp
def test_started_program_has_no_network_and_writes_only_below_its_directory(program):
    path, own, other = program
    before = status_of(os.getpid())["Seccomp"]
    assert confinement.start([str(path), str(own / "found"), str(other / "made")], [own]).wait() == 0
    lines = found(own)
    assert lines[:2] == ["NoNewPrivs: 1", "Seccomp: 2"]
    assert "outside" not in lines
    assert "network" not in lines
    assert not (other / "made").exists()
    assert status_of(os.getpid())["Seccomp"] == before  # this process keeps its privileges
    (other / "ours").write_text("x")


def test_probe_program_detects_allowed_operations(program):
    """Checks the test program: without confinement it can use the network and write the file."""
    path, own, other = program
    subprocess.run([path, own / "found", other / "made"], check=True)
    assert {"outside", "network"} <= set(found(own))


@pytest.mark.parametrize("start", [confinement.start, lambda command: run_program.start_loader([], command)])
def test_started_program_has_resource_limits(start):
    process = start(["/bin/sleep", "600"])
    limits = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE)
    found = [resource.prlimit(process.pid, what) for what in limits]
    process.kill()
    process.wait()
    assert [soft for soft, _ in found[:2]] == [confinement.MEMORY_BYTES, confinement.CPU_S]
    assert found[2] == (0, 0)


@needs_landlock
@needs_seccomp
def test_flow_meters_and_editcap_are_confined(tmp_path, monkeypatch):
    """Checks the programs that ``run_tool`` runs, and editcap."""
    directory, other = new_directory(tmp_path / "own"), tmp_path / "made"
    command = ["/bin/sh", "-c", f"grep Seccomp: /proc/self/status; echo x > {other}; echo done"]
    printed, _ = meters.run_tool(command, directory, "tried", tmp_path)
    assert printed.read_text().split() == ["Seccomp:", "2", "done"]
    assert not other.exists()
    editcap = executable(tmp_path / "editcap", "#!/bin/sh\nexec grep Seccomp: /proc/self/status\n")
    monkeypatch.setattr(meters, "which", lambda _: str(editcap))
    with meters.complete_frames(write_pcap(tmp_path / "port.pcap", busy_port())) as frames:
        assert os.read(frames, 100).split() == [b"Seccomp:", b"2"]


@pytest.mark.parametrize("name", sorted(meters.METERS))
def test_confinement_does_not_change_the_output_of_flow_meters(name, tmp_path, monkeypatch):
    meter = meters.METERS[name]
    skip_if(meter.why_unavailable())
    capture = write_pcap(tmp_path / "port.pcap", busy_port())

    def read(place: str) -> tuple:
        file, own = meter.read(capture, new_directory(tmp_path / place))
        flows = sorted(line for line in file.read_text().splitlines() if "FLOW" in line or "|" in line)
        return own, [line.partition("FLOW")[2] or line for line in flows]

    confined = read("confined")
    assert confined[1]
    monkeypatch.setattr(meters.confinement, "start", lambda words, _=(), **more: subprocess.Popen(words, **more))
    assert read("plain") == confined


@needs_seccomp
@pytest.mark.parametrize("sends", [False, True])
def test_p4_loader_is_confined_unless_it_sends_to_an_interface(program, sends):
    path, own, other = program
    command, more = [str(path), str(own / "found")], [str(other / "made")]
    assert run_program.start_loader(None if sends else [own], command, more).wait() == 0
    assert f"Seccomp: {status_of(os.getpid())['Seccomp'] if sends else 2}" in found(own)


@needs_seccomp
def test_p4_run_confines_its_loader(tmp_path):
    executable(tmp_path / "acapella-p4-run", "#!/bin/sh\nexec sleep 600\n")
    capture = write_pcap(tmp_path / "port.pcap", busy_port())
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [ACAPELLA, "p4", "run", "preprocess", "--in", capture, "--out", "kept.pcap", "--pipeline", "interpreted"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        (child,) = wait_until(lambda: children_of(process.pid))
        assert (status_of(child)["Seccomp"], status_of(child)["NoNewPrivs"]) == ("2", "1")
    finally:
        process.terminate()
        process.wait()


@needs_seccomp
@pytest.mark.parametrize(
    "command",
    [
        ["p4", "reports", "port.pcap", "-o", "reports", "--acap", "read", "--flows", "read"],
        ["p4", "compare", "port.pcap", "--flows", "port.pcap", "-o", "out.json"],
        ["p4", "collect", "read", "--control", "qp.txt", "-o", "reports"],
        ["collect", "campaign", "--config", "config.yaml"],
    ],
    ids=lambda words: words[0],
)
def test_commands_that_run_programs_on_captures_are_confined(tmp_path, command):
    """Each command waits for its input, a pipe without a writer."""
    os.mkfifo(tmp_path / "read")
    prepare(tmp_path)
    with running([ACAPELLA, *command], cwd=tmp_path) as process:
        assert until_confined(process)["NoNewPrivs"] == "1"


def prepare(directory: Path) -> None:
    """Write the other inputs of the commands above."""
    write_pcap(directory / "port.pcap", busy_port())
    pair = {"number": 0x11, "key": 7, "base": 4096, "end": 4096 + 192 * 64, "psn": 0}
    write_file(directory / "qp.txt", "".join(f"register qp_{name} 0 {value}\n" for name, value in pair.items()))
    write_file(directory / "sheet.tsv", "sample\tsite\tport\tfile\na\ts\tp\tport.pcap\n")
    write_file(directory / "config.yaml", "testbed: files\nsamples: sheet.tsv\n")


@needs_landlock
@needs_seccomp
def test_serving_process_listens_on_unix_sockets_and_cannot_connect(tmp_path):
    code = f"""{ATTEMPT}
import json, socket
from acapella_core.confinement import confine_self
confine_self({str(tmp_path / "a")!r}, serves=True)
unix = socket.socket(socket.AF_UNIX)
def listen():
    unix.bind({str(tmp_path / "socket")!r})
    unix.listen()
print(json.dumps([refused(attempt) for attempt in (
    socket.socketpair,
    listen,
    lambda: socket.socket(socket.AF_UNIX).connect({str(tmp_path / "socket")!r}),
    socket.socket,
    lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
)]))
"""
    assert json.loads(run(sys.executable, "-c", code, check=True).stdout) == [0, 0, 1, 1, 1, 1]


def test_scan_in_a_separate_process_gives_the_same_result(tmp_path):
    capture, cut = write_pcap(tmp_path / "port.pcap", busy_port()), tmp_path / "cut.pcap"
    cut.write_bytes(capture.read_bytes()[:-3])
    complete, truncated, _ = found = [scan.scan_in_subprocess(path) for path in (capture, cut, tmp_path / "none.pcap")]
    assert complete.frames == len(busy_port())
    assert truncated.fault
    assert found == [scan.scan(path) for path in (capture, cut, tmp_path / "none.pcap")]


@needs_seccomp
def test_scan_in_a_separate_process_is_confined(tmp_path):
    os.mkfifo(tmp_path / "read")
    with running([sys.executable, "-m", "acapella_capture.scan", tmp_path / "read"]) as process:
        assert until_confined(process)["NoNewPrivs"] == "1"


def test_collect_started_directly_creates_private_files(tmp_path):
    """Runs `python -m acapella_capture.collect`, as in the sandbox, with umask 0."""
    prepare(tmp_path)
    command = [sys.executable, "-m", collect.__name__, "campaign", "--config", "config.yaml"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, umask=0)
    created = [path for path in (tmp_path / "campaign").rglob("*") if not path.is_symlink()]
    assert created
    assert [path for path in created if path.stat().st_mode & 0o077] == []


def test_root_of_a_user_namespace_is_not_reported_as_limited():
    """The kernel does not limit processes of the real root, and a namespace does not show which user its root is."""
    require_success(["unshare", "-r", "true"], "user namespaces")
    code = "from acapella.common import confined as c; print(c.status_of_test_program()[c.PROCESSES] == str(c.TASKS))"
    assert run("unshare", "-r", sys.executable, "-c", code, check=True).stdout == "False\n"


def test_confined_program_has_a_limit_of_processes(tmp_path):
    """Processes are counted for the program only: by its user ID if started by root, else by its user namespace."""
    require(
        confined.status_of_test_program()[confined.PROCESSES] == str(confined.TASKS), "this user gets no user namespace"
    )
    script = (
        "import os, sys, time\nmade = 0\ntry:\n while made < 1000:\n  if os.fork() == 0: time.sleep(600)\n  made += 1\n"
        "except OSError as error: pass\nprint(made, flush=True)"
    )
    with confined_python(script) as (process, printed):
        assert int(printed.readline()) == confined.TASKS - 1
        assert process.wait(60) == 0
        assert printed.read() == ""
