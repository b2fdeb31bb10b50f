"""Programs that read untrusted input have few privileges and a timeout for every reply."""

import contextlib
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from acapella_testing import processes
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import ATTEMPT, PYTHON, confined_python, executable, running, until_confined, with_umask
from acapella_testing.release_records import write_key
from acapella_testing.requirements import require_success
from acapella_testing.runs.workflow_run import CAPTURES

from acapella.cli.commands import CAMPAIGN
from acapella.cli.doctor import confinement
from acapella.cli.main import main
from acapella.common import confined, tshark
from acapella.digest.command import ANSWER_S
from acapella.kappa import selection
from acapella_core import _native
from acapella_core.errors import MISTAKE, UserError

FIELDS = ("frame.number", "frame.protocols")
ACAPELLA = str(Path(sys.executable).with_name("acapella"))
SUPPORT = _native.confinement_support()

needs_landlock = pytest.mark.skipif(SUPPORT["landlock_abi"] == 0, reason="this kernel has no Landlock")
needs_seccomp = pytest.mark.skipif(not SUPPORT["seccomp"], reason="this kernel has no seccomp")

# Prints the results of its attempts on the first line of standard error.
ATTEMPTS = f"""{ATTEMPT}
import json, os, resource, socket, sys
secret, made, inner = {{secret!r}}, {{made!r}}, {{inner!r}}
found = dict(
    read=refused(lambda: open(secret).read()),
    lists=refused(lambda: os.listdir(os.path.dirname(secret))),
    write=refused(lambda: open(made, "w")),
    unix=refused(lambda: socket.socket(socket.AF_UNIX)),
    tcp=refused(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)),
    system=refused(lambda: open("/usr/bin/env", "rb").read(1)),
    inherited=refused(lambda: os.read(inner, 1)),
    uid=os.getuid(), groups=os.getgroups(),
    limits=[resource.getrlimit(what)[0] for what in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE)],
)
print(json.dumps(found), file=sys.stderr)
sys.exit(3)
"""


def fake_tshark(directory: Path, script: str, monkeypatch, interpreter: str = "/bin/sh") -> tshark.Tshark:
    """Put a tshark on the PATH that runs the script; return it. dumpcap in the same directory prints the version."""
    asked = '[ "$1" = -G ] && exit\n' if interpreter == "/bin/sh" else ""  # when asked for its directories
    executable(directory / "tshark", f"#!{interpreter}\n{asked}{script}\n")
    executable(directory / "dumpcap", "#!/bin/sh\necho 'Dumpcap (Wireshark) 4.0.17'\n")
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return tshark.find()


@needs_landlock
@needs_seccomp
def test_confined_program_has_no_access_to_files_network_or_users(tmp_path, monkeypatch):
    with with_umask(0):
        secret = write_file(tmp_path / "outside" / "secret", "secret")
    made = secret.with_name("made")
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    os.write(writing, b"x")
    script = ATTEMPTS.format(secret=str(secret), made=str(made), inner=reading)
    program = fake_tshark(tmp_path / "bin", script, monkeypatch, f"{PYTHON} -I")
    with pytest.raises(UserError) as caught, program.start("-", FIELDS) as run:
        run.stdin.close()
        run.finish()
    found, _ = json.JSONDecoder().raw_decode(str(caught.value).partition("(exit code 3): ")[2])
    assert [found[attempt] for attempt in ("read", "lists", "write")] == [errno.EACCES] * 3
    assert [found[attempt] for attempt in ("unix", "tcp")] == [errno.EPERM] * 2
    assert found["system"] == 0
    assert found["inherited"] == errno.EBADF
    assert found["limits"] == [confined.MEMORY_BYTES, confined.CPU_S, 0]
    assert not made.exists()
    if os.geteuid() == 0:
        assert found["uid"] not in (0, os.getuid())
        assert found["groups"] == []


def test_tshark_reads_a_private_capture(capture):
    capture.chmod(0o600)
    with tshark.find().start(capture, FIELDS) as run:
        assert len(b"\n".join(run.lines()).splitlines()) == len(busy_port())
        run.finish()


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap.gz"))[:2], ids=lambda path: path.name)
def test_confinement_does_not_change_the_output_of_tshark(path):
    program = tshark.find()
    command = [str(path) if word == "-" else word for word in program.command(FIELDS)]
    plain = subprocess.run(command, capture_output=True, check=True, env=tshark.environment()).stdout
    with program.start(path, FIELDS) as run:
        assert b"\n".join(run.lines()).splitlines() == plain.splitlines()
        run.finish()
    assert plain.count(b"\n") > 0


@pytest.fixture
def hung(request, tmp_path, monkeypatch) -> tshark.Tshark:
    """Put a tshark on the PATH that runs the script given as parameter."""
    return fake_tshark(tmp_path / "bin", request.param, monkeypatch)


def digest_error(capture, capsys, *words: str) -> tuple[int, str]:
    out = new_directory(capture.parent / "out")
    begin = time.monotonic()
    code = main(["digest", str(capture), "-o", str(out / "a.parquet"), "--tshark-timeout", "0.4", *words])
    assert time.monotonic() - begin < 30
    assert list(out.iterdir()) == []
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return code, error


# tshark reads all input and prints nothing, prints one frame, reads nothing (of more than a pipe holds), does not exit.
@pytest.mark.usefixtures("hung")
@pytest.mark.parametrize(
    ("hung", "copies", "message"),
    [
        ("cat > /dev/null; sleep 5 & exec sleep 600", 1, "waiting for frames 1 to "),
        (r"printf '1\teth\n'; exec sleep 600", 1, "waiting for frames 2 to "),
        ("exec sleep 600", 400, "waiting for frames 1 to "),
        (r"exec > /dev/null; exec sleep 600", 1, "tshark did not end within 0.4 s"),
    ],
    indirect=["hung"],
)
def test_hanging_tshark_is_reported_in_one_line_with_the_frames(copies, message, tmp_path, capsys):
    capture = write_pcap(tmp_path / "port.pcap", busy_port() * copies, snaplen=1500)
    assert copies == 1 or capture.stat().st_size > 4 << 20
    code, error = digest_error(capture, capsys, "--engine", "tshark")
    assert code == MISTAKE
    assert message in error
    if "did not end" not in message:
        assert f"{capture}: tshark printed nothing for 0.4 s" in error
        assert "use --engine native" in error


def test_interrupted_tshark_is_reported_in_one_line_and_terminated(capture, monkeypatch, capsys):
    started = []

    class Stopped(confined.Process):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            os.kill(self.pid, signal.SIGSTOP)
            started.append(self.pid)

    monkeypatch.setattr(tshark, "Process", Stopped)
    code, error = digest_error(capture, capsys)
    assert code == MISTAKE
    assert f"{capture}: tshark printed nothing for 0.4 s; waiting for frames 1 to " in error
    assert started
    assert not Path(f"/proc/{started[0]}").exists()


def test_display_filter_and_reference_have_time_limits(capture, monkeypatch, tmp_path):
    fake_tshark(tmp_path / "bin", "exec sleep 600", monkeypatch)
    monkeypatch.setattr(tshark.Run.lines, "__defaults__", (0.3,))
    with pytest.raises(UserError, match=r"port\.pcap: tshark printed nothing for 0\.3 s"):
        selection.matching_frames("udp", [str(capture)])
    monkeypatch.setattr(tshark, "ANSWER_S", 0.3)
    from acapella.verify import tables  # noqa: PLC0415

    with pytest.raises(UserError, match=r"port\.pcap: tshark printed nothing after frame 0"):
        tables.write_tshark_digest(capture, tmp_path)


def test_program_that_fills_the_disk_with_errors_is_terminated(monkeypatch, tmp_path):
    monkeypatch.setattr(confined, "FILE_BYTES", 1 << 20)
    with fake_tshark(tmp_path / "bin", "yes complaint >&2", monkeypatch).start("-", FIELDS) as run:
        with pytest.raises(UserError, match="tshark failed"):
            run.finish()
        assert os.fstat(run.error_output.fileno()).st_size == 1 << 20


def test_program_that_cannot_run_is_reported_in_one_line(tmp_path):
    program = tshark.Tshark(str(executable(tmp_path / "tshark", "no program")), "4.0.17")
    with pytest.raises(UserError, match="tshark cannot start: Exec format error"), program.start("-", FIELDS):
        pass


@needs_landlock
@needs_seccomp
def test_process_that_confines_itself_writes_only_below_its_outputs(tmp_path):
    inside, outside = new_directory(tmp_path / "in"), write_file(tmp_path / "out" / "there", "kept")
    code = f"""{ATTEMPT}
import ctypes, os, platform, signal, socket, subprocess
from acapella_core import _native
libc = ctypes.CDLL(None, use_errno=True)
SYS_CLONE, SYS_CLONE3, CLONE_NEWUSER = {{"x86_64": 56}}.get(platform.machine(), 220), 435, 0x10000000
def called(result):
    if result == 0:
        os._exit(0)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
_native.confine_self([{str(inside)!r}, "/nonexistent"])
outside = {str(outside)!r}
print([refused(attempt) for attempt in (
    lambda: open({str(inside / "a")!r}, "w").write("x"),
    lambda: os.rename({str(inside / "a")!r}, {str(inside / "b")!r}),
    lambda: open(outside).read(),
    lambda: open(outside, "w"),
    lambda: os.unlink(outside),
    lambda: os.rename({str(inside / "b")!r}, outside),
    lambda: socket.socket(),
    lambda: subprocess.run(["true"], check=True),
    lambda: called(libc.syscall(SYS_CLONE, CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)),
    lambda: called(libc.syscall(SYS_CLONE3, 0, 0)),
)])
"""
    found = json.loads(processes.run(sys.executable, "-c", code, check=True).stdout)
    assert found.pop(5) in (errno.EACCES, errno.EXDEV)  # EXDEV: without the right to move files between directories
    assert found == [0, 0, 0, errno.EACCES, errno.EACCES, errno.EPERM, 0, errno.EPERM, errno.ENOSYS]
    assert outside.read_text() == "kept"


def test_digest_confines_itself_and_writes_both_tables(capture, tmp_path):
    (tmp_path / "out").mkdir()
    subprocess.run([ACAPELLA, "digest", str(capture), "-o", "out/a.parquet"], check=True, cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.flows.parquet", "a.parquet"]


@needs_seccomp
@pytest.mark.parametrize(
    "command",
    [
        ["digest", "read", "-o", "out.parquet"],
        ["kappa", "read", "read", "-o", "out.json"],
        ["anonymize", "read", "-o", "out.pcap", "--key-file", "key"],
        ["show", "read"],
        ["verify", "read"],
    ],
    ids=lambda words: words[0],
)
def test_commands_that_read_files_of_others_are_confined(tmp_path, command):
    """Each command waits for its input, a pipe without a writer."""
    os.mkfifo(tmp_path / "read")
    write_key(tmp_path / "key")
    with running([ACAPELLA, *command], cwd=tmp_path) as process:
        assert until_confined(process)["NoNewPrivs"] == "1"


def test_directory_that_cannot_be_confined_is_an_error_of_one_line():
    ended = subprocess.run([ACAPELLA, "campaign", "index", "x" * 300], capture_output=True, text=True, check=False)
    assert ended.returncode == MISTAKE
    assert re.fullmatch(r"acapella: error: \S*/x+: File name too long\n", ended.stderr), ended.stderr


@needs_landlock
@needs_seccomp
@pytest.mark.parametrize(
    ("command", "writes"),
    [
        (["campaign", "check", "campaign"], False),
        (["campaign", "index", "campaign"], True),
        (["campaign", "analyze", "campaign", "--sample", "a"], True),
        (["campaign", "analyze", "campaign", "--sample", "a", "-o", "other/out"], False),
        (["campaign", "process", "campaign"], True),
        (["campaign", "compare", "campaign", "other"], True),
        (["campaign", "compare", "campaign", "other", "--record"], False),
        (["campaign", "figures", "campaign"], True),
        (["campaign", "report", "campaign"], True),
        (["campaign", "dashboard", "campaign"], False),
        (["campaign", "dashboard", "other", "-o", "campaign"], True),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else None,
)
def test_commands_on_a_campaign_write_only_to_their_output(tmp_path, command, writes):
    for name in ("campaign", "other", "tmp"):
        (tmp_path / name).mkdir()
    code = f"""{ATTEMPT}
import os, signal
import acapella.{CAMPAIGN.modules[command[1]]} as module
from acapella.cli import main as cli
def run(args):
    for attempt in (lambda: open("campaign/a", "w"), lambda: open("a", "w"), lambda: os.kill(os.getppid(), 0)):
        print(refused(attempt))
module.run = run
cli.main()
"""
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    done = processes.run(sys.executable, "-c", code, *command, cwd=tmp_path, env=environment, check=True)
    inside, outside, signaled = map(int, done.stdout.split())
    assert inside == (0 if writes else errno.EACCES), done.stderr
    assert outside == errno.EACCES, done.stderr
    assert signaled == errno.EPERM, done.stderr


# System calls on another process, on itself and on the kernel, without Landlock. Prints their errors; 0 if allowed.
SIGNALS = """
import ctypes, json, os, platform, resource, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NUMBERS = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "prlimit64": (302, 261), "msgget": (68, 186),
    "shmget": (29, 194), "semget": (64, 190), "fanotify_init": (300, 262), "open_by_handle_at": (304, 265),
    "pidfd_send_signal": (424, 424), "open_tree": (428, 428), "fsopen": (430, 430), "mount_setattr": (442, 442),
}
def call(name, *arguments):
    return 0 if libc.syscall(NUMBERS[name][not X86], *arguments) >= 0 else ctypes.get_errno()
own, other, limits = os.getpid(), int(sys.argv[1]), ctypes.create_string_buffer(16)
handle = os.pidfd_open(other)
found = {
    "others": [
        call("kill", other, 0), call("kill", 0, 0), call("kill", -1, 0), call("tkill", other, 0),
        call("tgkill", other, other, 0), call("pidfd_send_signal", handle, 0, None, 0),
        call("prlimit64", other, 7, None, limits),
    ],
    "own": [
        call("kill", own, 0), call("tkill", own, 0), call("tgkill", own, own, 0),
        call("prlimit64", 0, 7, None, limits), call("prlimit64", own, 7, None, limits),
    ],
    "kernel": [
        call("open_tree", -100, b"/", 0), call("fsopen", b"tmpfs", 0), call("mount_setattr", -1, b"", 0, None, 0),
        call("msgget", 0, 0o600), call("shmget", 0, 4096, 0o600), call("semget", 0, 1, 0o600),
        call("fanotify_init", 0, 0), call("open_by_handle_at", -1, None, 0),
    ],
}
print(json.dumps(found), flush=True)
"""


@needs_seccomp
@pytest.mark.parametrize("how", ["spawned", "confined_self"])
def test_confined_process_can_only_signal_itself(how):
    """The processes have the same user, so the seccomp filter must reject the calls. Landlock ABI 6 also blocks
    signals to unconfined processes, but not the other calls.
    """
    if how == "spawned":
        with confined_python(SIGNALS, str(os.getpid())) as (process, printed):
            text = printed.read()
            process.wait(60)
    else:
        script = "from acapella_core.confinement import confine_self; confine_self()\n" + SIGNALS
        text = processes.run(sys.executable, "-c", script, os.getpid(), check=True).stdout
    found = json.loads(text)
    assert set(found["others"]) == {errno.EPERM}, text
    assert set(found["own"]) == {0}, text
    assert set(found["kernel"]) == {errno.EPERM}, text


def test_doctor_reports_active_confinement():
    found = {finding.piece: finding for finding in confinement()}
    assert found["Landlock"].available == (SUPPORT["landlock_abi"] > 0)
    assert str(SUPPORT["landlock_abi"]) in found["Landlock"].state or not found["Landlock"].available
    assert found["seccomp"].available == SUPPORT["seccomp"]
    assert set(found) == {"Landlock", "seccomp", "signals", "user of tshark", "processes of tshark"}


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [((), "a separate user" if os.geteuid() == 0 else "current user"), (("unshare", "-r"), "current user, 0")],
    ids=["this user", "root in a user namespace"],
)
def test_doctor_reports_the_user_of_tshark(prefix, expected):
    """Root in a user namespace has no other user to switch to."""
    require_success([*prefix, "true"], "user namespaces")
    command = "from acapella.cli import doctor; print([f.state for f in doctor.confinement() if 'user' in f.piece])"
    assert expected in processes.run(*prefix, sys.executable, "-c", command, check=True).stdout


def test_home_directory_next_to_a_program_is_not_readable(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(home := tmp_path / "user"))
    assert confined.program_paths(home / "tshark") == [str(home / "tshark")]
    assert confined.program_paths(tmp_path / "tshark") == [str(tmp_path / "tshark")]
    assert confined.program_paths(home / "wireshark" / "bin" / "tshark") == [
        str(home / "wireshark" / name) for name in ("bin", "lib", "share")
    ]


@needs_seccomp
def test_children_end_with_the_confined_program():
    """The child cannot leave the process group, which is killed when the program exits."""
    script = f"""{ATTEMPT}
import os, time
if os.fork() == 0:
    print(refused(os.setsid), refused(lambda: os.setpgid(0, 0)), os.getpid(), flush=True)
    time.sleep(600)
os._exit(0)
"""
    with confined_python(script) as (process, printed):
        assert printed.readline().split()[:2] == [str(errno.EPERM)] * 2
        assert process.wait(60) == 0
        assert printed.read() == ""  # its end of the pipe is closed, so the child has exited


def test_program_is_killed_if_a_signal_arrives_before_its_process_is_returned(monkeypatch):
    pids, spawn = [], _native.spawn_confined

    def spawn_and_signal(*arguments):
        process = spawn(*arguments)
        pids.append(process.pid)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(_native, "spawn_confined", spawn_and_signal)
    with contextlib.suppress(KeyboardInterrupt):  # pytest.raises would keep the traceback, and so the process
        confined.Process(["/bin/sleep", "3600"], {}, (0, 1, 2))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_exit_code_is_unknown_if_the_kernel_discards_it():
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = confined.Process(["/bin/true"], {}, (0, 1, 2))
        with pytest.raises(ChildProcessError):
            process.wait(60)
    finally:
        signal.signal(signal.SIGCHLD, previous)


def test_digest_and_runner_have_the_same_time_limit():
    assert ANSWER_S == tshark.ANSWER_S


def test_limits_of_tshark_do_not_change_those_of_this_process(capture):
    limits = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
    before = [resource.getrlimit(what) for what in limits]
    with tshark.find().start(capture, FIELDS) as run:
        list(run.lines())
    assert [resource.getrlimit(what) for what in limits] == before
