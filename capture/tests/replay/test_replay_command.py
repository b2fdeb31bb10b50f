"""`acapella replay` on the command line: files, agents, actions, invalid options, and cleanup."""

import contextlib
import gzip
import re
import signal
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from acapella_testing.capture import replay_commands
from acapella_testing.capture.process_tree import Tree, processes
from acapella_testing.capture.replay_agents import TIMEOUT_S, secret_file, stand_in_on_path
from acapella_testing.capture.replay_commands import replay, started
from acapella_testing.waiting import wait_until

from acapella_capture.replay import command
from acapella_capture.testbeds.local import replay_capture
from acapella_core.errors import UserError
from acapella_core.files import sha256_of


def message(done: subprocess.CompletedProcess) -> str:
    """Return the one error line of a command that failed."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("acapella-dpdk-replay: memory")]
    assert done.returncode != 0, done
    assert len(lines) == 1, done
    return lines[0]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Provide a directory with a capture of 20 packets, a stand-in as the program, and TMPDIR inside."""
    replay_capture.write(tmp_path / "trace.pcap", "02:aa:aa:aa:aa:01", "02:aa:aa:aa:aa:02", packets=20)
    stand_in_on_path(tmp_path, monkeypatch)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


@contextlib.contextmanager
def agent(workspace, *arguments: object):
    """Run an agent; yield its process, and the options of a controller."""
    secret = secret_file(workspace)
    with replay_commands.agent(*arguments, "--secret", secret) as (process, address):
        yield process, ("--control", address, "--secret", secret)


def replay_of_file(workspace, monkeypatch, **behavior: object) -> subprocess.CompletedProcess:
    """Replay the capture with a stand-in that behaves this way."""
    stand_in_on_path(workspace, monkeypatch, **behavior)
    return replay(workspace / "trace.pcap", "-i", "lo")


@pytest.mark.parametrize("compressed", [False, True])
def test_file_is_replayed_and_its_departures_are_written(workspace, compressed):
    capture = workspace / ("trace.pcap.gz" if compressed else "trace.pcap")
    if compressed:
        capture.write_bytes(gzip.compress((workspace / "trace.pcap").read_bytes()))
    done = replay(capture, "--interface", "lo", "--loops", 2, "--speed", 4, "--departures", workspace / "d.parquet")
    assert done.returncode == 0, done
    assert done.stdout.splitlines() == [
        "40 packets, 40 sent",
        "departure error: median 0 ns, 99th percentile 0 ns, largest 0 ns",
        "0 packets more than 1 us late, 2 preemptions, largest gap of the polling loop 4.321 us",
    ]
    table = pq.read_table(workspace / "d.parquet")
    metadata = [table.schema.metadata[key].decode() for key in (b"recording_sha256", b"speed", b"pacing")]
    assert metadata == [sha256_of(capture), "4", "bursts"]
    assert table.num_rows == 40
    assert list((workspace / "tmp").iterdir()) == []


def test_packets_longer_than_the_mtu_are_explained(workspace, monkeypatch):
    done = replay_of_file(workspace, monkeypatch, too_long=3)
    mtu = Path("/sys/class/net/lo/mtu").read_text().strip()
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == [
        "20 packets, 17 sent (3 too_long)",
        f"too_long: 3 packets are longer than the MTU {mtu} of lo permits",
    ]


def test_truncated_packets_are_a_warning(workspace, monkeypatch):
    assert "truncated" not in replay(workspace / "trace.pcap", "-i", "lo").stderr
    done = replay_of_file(workspace, monkeypatch, truncated=3)
    assert done.returncode == 0
    assert "acapella: warning: 3 of 20 packets were truncated by the capture and are sent truncated" in done.stderr


def test_departures_that_cannot_be_written_are_an_error_before_packets_are_sent(workspace, monkeypatch):
    stand_in_on_path(workspace, monkeypatch, fault="scheduled:die")
    done = replay(workspace / "trace.pcap", "-i", "lo", "--departures", workspace / "none" / "d.parquet")
    assert f"--departures {workspace / 'none' / 'd.parquet'}: no such directory" in message(done)
    assert not (workspace / "none").exists()
    assert "not a regular file" in message(replay(workspace / "trace.pcap", "-i", "lo", "--departures", workspace))


def test_packets_dropped_by_the_kernel_or_missed_by_a_bridge_give_warnings_and_exit_code_1(workspace, monkeypatch):
    done = replay_of_file(workspace, monkeypatch, lost=3, missed=3)
    assert done.returncode == 1
    assert "acapella: warning: the kernel did not send all packets of net_fake0: 3 dropped" in done.stderr
    line = "acapella: warning: net_fake0: packets were not received during the run: 3 missed by the device\n"
    assert done.stderr.endswith(line)
    assert done.stderr.count("warning") == 2


@pytest.mark.parametrize(
    ("event", "kind", "why"),
    [
        ("ready", "die", "ended: link of net_fake0 is down"),
        ("loaded", "error", "load failed: injected"),
        ("scheduled", "garbage", "its output is not an event in JSON"),
        ("done", "die", "ended: link of net_fake0 is down"),
        ("saved", "error", "departures failed: injected"),
    ],
)
def test_failed_program_is_a_one_line_error(workspace, monkeypatch, event, kind, why):
    stand_in_on_path(workspace, monkeypatch, fault=f"{event}:{kind}")
    done = replay(workspace / "trace.pcap", "-i", "lo", "--departures", workspace / "d.parquet")
    lines = [line for line in done.stderr.splitlines() if line.startswith("acapella: error:")]
    assert done.returncode == 2
    assert lines == [f"acapella: error: acapella-dpdk-replay: {why}"]
    assert done.stderr.count("is down") == why.count("is down"), "not printed twice"
    assert not (workspace / "d.parquet").exists()
    assert list((workspace / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "expected FILE --interface PORT, --bridge PORT PORT --listen ADDRESS:PORT, or --control HOST:PORT ACTION"),
        (("FILE",), "expected FILE --interface PORT"),
        (("--interface", "lo"), "expected FILE --interface PORT"),
        (("FILE", "--bridge", "lo", "lo"), "expected FILE --interface PORT"),
        (("--bridge", "lo", "lo"), "--bridge requires --listen"),
        (("--bridge", "lo", "lo", "--measure-lead", "tx"), "--measure-lead applies to --interface, not to --bridge"),
        (("FILE", "-i", "lo", "--in-band"), "--in-band requires --bridge PORT PORT --listen"),
        (("--control", "h:1", "status", "--in-band"), "--in-band has no effect with --control status"),
        (("--control", "eth1/02", "status"), "'eth1/02' is not INTERFACE/MAC"),
        (("FILE", "-i", "lo", "--secret", "s"), "--secret has no effect with FILE --interface"),
        (("FILE", "-i", "lo", "--rolling", "3"), "--rolling has no effect with FILE --interface"),
        (("FILE", "-i", "lo", "--from", "+3"), "--from has no effect with FILE --interface"),
        (("FILE", "-i", "lo", "--listen", "127.0.0.1:0"), "--secret FILE is required"),
        (("FILE", "-i", "lo", "--listen", "127.0.0.1:0", "--secret", "none"), "--secret none: cannot read: No such"),
        (("FILE", "-i", "lo", "--listen", "127.0.0.1", "--secret", "SECRET"), "'127.0.0.1' is not HOST:PORT"),
        (("FILE", "-i", "lo", "--listen", "127.0.0.1:0", "--secret", "OPEN"), "other users can access"),
        (("FILE", "-i", "lo", "--listen", "127.0.0.1:0", "--secret", "SECRET", "--at", "+1"), "--at has no effect"),
        (("FILE", "-i", "lo", "--listen", "h:1", "--secret", "SECRET", "-o", "none"), "--output none: no such dir"),
        (("FILE", "-i", "no-such-if"), "no interface 'no-such-if': No such device; ip link lists them"),
        (("FILE", "-i", "x" * 40), "no interface"),
        (("none.pcap", "-i", "lo"), "none.pcap: cannot read: No such file"),
        (("SECRET", "-i", "lo"), "replay.secret: "),
        (("FILE", "-i", "lo", "--loops", "0"), "--loops: '0' is not a whole number from 1 to"),
        (("FILE", "-i", "lo", "--speed", "-1"), "--speed"),
        (("FILE", "-i", "lo", "--at", "noon"), "'noon' is not a time; write 2026-01-31T12:00:00Z"),
        (("FILE", "-i", "lo", "--at", "2020-01-01T00:00:00Z"), "--at 2020-01-01T00:00:00Z: is in the past"),
        (("FILE", "-i", "lo", "--pace", "fast"), "'fast' is unknown; choose from bursts, single"),
        (("status",), "status requires --control HOST:PORT"),
        (("--control", "h:1"), "choose an action: record, stop"),
        (("--control", "h:1", "halt"), "--control halt: choose an action"),
        (("--control", "h:1", "status"), "--secret FILE is required"),
        (("--control", "h", "status"), "'h' is not HOST:PORT"),
        (("--control", "h:1,h:1", "status"), "a replayer is named twice"),
        (("--control", "h:1", "status", "--at", "+1"), "--at has no effect with --control status"),
        (("--control", "h:1", "record", "--rolling", "9", "--until", "+1"), "--rolling cannot be combined with --from"),
        (("--control", "127.0.0.1:1", "status", "--secret", "SECRET"), "connection failed: Connection refused"),
    ],
)  # fmt: skip
def test_usage_error_is_one_line(workspace, arguments, why):
    """Words in capitals are files: a capture, a secret, and a secret that others can read."""
    (workspace / "open").write_text("0" * 64)
    (workspace / "open").chmod(0o644)
    files = {"FILE": workspace / "trace.pcap", "SECRET": secret_file(workspace), "OPEN": workspace / "open"}
    done = replay(*(files.get(argument, argument) for argument in arguments))
    assert done.returncode in (2, 75)
    assert why in message(done)
    assert done.stdout == ""


def test_new_secret_is_private_and_not_printed(workspace):
    done = replay("--new-secret", workspace / "s")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert re.fullmatch(r"[0-9a-f]{64}\n", (workspace / "s").read_text())
    assert (workspace / "s").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "0" * 64 + "\n"])
def test_new_secret_does_not_replace_a_file(workspace, content):
    path = workspace / "s"
    path.write_text(content)
    done = replay("--new-secret", path)
    assert done.returncode == 2
    assert done.stdout == ""
    why = "already exists and may be in use; choose another file name, or remove it first"
    assert message(done) == f"acapella: error: --new-secret {path}: {why}"
    assert path.read_text() == content


def test_new_secret_that_cannot_be_written_leaves_no_file(workspace, monkeypatch):
    monkeypatch.setattr(command, "make_secret", Mock(side_effect=UserError("cannot write: No space left on device")))
    assert "No space left" in message(replay("--new-secret", workspace / "s"))
    assert not (workspace / "s").exists()
    why = f"--new-secret {workspace}/trace.pcap/s: cannot write: Not a directory"
    assert why in message(replay("--new-secret", workspace / "trace.pcap" / "s"))


@pytest.mark.soak
def test_actions_control_an_agent_from_the_command_line(workspace):
    (workspace / "out").mkdir()
    with agent(workspace, "--bridge", "lo", "lo", "--output", workspace / "out") as (process, options):
        assert "record: from_ns" in replay(*options, "record", "--until", "+500").stdout
        assert "busy" not in (stopped := replay(*options, "stop")).stderr
        assert stopped.returncode == 0
        assert "packets 2" in stopped.stdout
        assert "file recording-1.pcapng" in replay(*options, "save").stdout
        for number in (1, 2):
            done = replay(*options, "run", "--loops", number, "--departures", workspace / f"{number}.parquet")
            assert done.returncode == 0, done
            assert f"{2 * number} packets, {2 * number} sent" in done.stdout
            table = pq.read_table(workspace / f"{number}.parquet")
            assert table.num_rows == 2 * number
            recording = workspace / "out" / "recording-1.pcapng"
            assert table.schema.metadata[b"recording_sha256"].decode() == sha256_of(recording)
        assert "clear: done" in replay(*options, "clear").stdout
        assert "nothing to replay" in message(replay(*options, "run"))
        assert "idle, bridge lo lo" in replay(*options, "status").stdout
        assert "quit: done" in replay(*options, "quit").stdout
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr.read().splitlines()[-1].startswith("replay: ended; connections 9, sessions 9, ")
    assert list((workspace / "tmp").iterdir()) == []


def test_agent_whose_program_dies_ends_with_one_line(workspace, monkeypatch):
    stand_in_on_path(workspace, monkeypatch, fault="status:die")
    with agent(workspace, workspace / "trace.pcap", "-i", "lo") as (process, options):
        assert "ended: link of net_fake0 is down" in message(replay(*options, "status"))
        assert process.wait(TIMEOUT_S) == 2
        errors = [line for line in process.stderr.read().splitlines() if "error" in line]
        assert errors[-1] == "acapella: error: acapella-dpdk-replay: ended: link of net_fake0 is down"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mode", "number"), [("file", signal.SIGTERM), ("agent", signal.SIGINT), ("run", signal.SIGINT)]
)
def test_interrupted_command_leaves_nothing(workspace, mode, number):
    """The run starts in 2100, so that the signal arrives before it."""
    later = ("--at", "2100-01-01T00:00:00Z")
    with contextlib.ExitStack() as parts:
        if mode == "file":
            process = parts.enter_context(started(workspace / "trace.pcap", "-i", "lo", *later))
            wait_until(lambda: process.pid in (parent for parent, _ in processes().values()), "program")
        else:
            process, options = parts.enter_context(agent(workspace, workspace / "trace.pcap", "-i", "lo"))
        if mode == "run":
            process = parts.enter_context(started(*options, "run", *later))
            assert process.stdout.readline().startswith("start: ")
        tree = parts.enter_context(Tree.below(process.pid))
        process.send_signal(number)
        process.wait(TIMEOUT_S)
        assert process.returncode == {"agent": 0}.get(mode, 128 + number)
        assert tree.gone_within(60) == []
        if mode == "run":
            assert "idle, lo" in replay(*options, "status").stdout
            replay(*options, "quit")
    assert list((workspace / "tmp").iterdir()) == []


def test_agent_that_receives_another_signal_while_it_ends_leaves_nothing(workspace, monkeypatch):
    stand_in_on_path(workspace, monkeypatch, fault="quit:sigterm")
    with agent(workspace, workspace / "trace.pcap", "-i", "lo") as (process, options):
        assert "quit: done" in replay(*options, "quit").stdout
        assert process.wait(TIMEOUT_S) == 0
    assert list((workspace / "tmp").iterdir()) == []


def test_killed_agent_leaves_no_program_and_the_next_command_removes_its_files(workspace):
    with agent(workspace, workspace / "trace.pcap", "-i", "lo") as (process, _), Tree.below(process.pid) as tree:
        process.kill()
        process.wait(TIMEOUT_S)
        assert tree.gone_within(60) == []
    assert replay(workspace / "trace.pcap", "-i", "lo").returncode == 0
    assert list((workspace / "tmp").iterdir()) == []
