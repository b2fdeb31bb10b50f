"""Running acapella-dpdk-replay: commands, events, and a program that fails or violates the protocol."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.capture.replay_agents import TIMEOUT_S, stand_in_argv
from acapella_testing.waiting import wait_until

from acapella_capture.replay import program as programs
from acapella_capture.replay.ports import ProgramSettings
from acapella_capture.replay.program import ReplayProgram, drops_to_note, losses
from acapella_capture.testbeds.local import replay_capture
from acapella_core.errors import UserError


@pytest.fixture
def program():
    """Provide a stand-in."""
    with ReplayProgram(stand_in_argv()) as running:
        yield running


def test_commands_are_acknowledged_and_the_state_follows(tmp_path):
    capture = tmp_path / "a b.pcap"  # a path may have spaces
    replay_capture.write(capture, "02:aa:aa:aa:aa:01", "02:aa:aa:aa:aa:02", packets=20)
    with ReplayProgram(stand_in_argv()) as program:
        assert program.state == "idle"
        assert program.command("load", capture)["packets"] == 20
        before = program.received
        assert program.command("run", 0, 2, 1_000_000)["event"] == "scheduled"
        assert program.wait("done", TIMEOUT_S, after=before)["sent"] == 40
        assert (program.state, program.latest("done", before)["stopped_by"]) == ("idle", "complete")
        program.command("departures", tmp_path / "departures")
        assert (tmp_path / "departures").stat().st_size == 8 + 40 * 40
        assert program.latest("done", program.received) is None
    assert program.fault is not None


def test_recording_is_stopped_on_request(program):
    program.command("record", 0, 0)
    assert program.state == "recording"
    assert program.command("stop")["stopped_by"] == "stop"
    assert program.command("status")["packets"] == 2
    program.command("clear")
    assert program.command("status")["packets"] == 0


@pytest.mark.parametrize("lost", [0, 3])
def test_packets_lost_before_the_program_received_them_are_a_warning(lost):
    messages = []
    with ReplayProgram(stand_in_argv(missed=lost), report=messages.append) as program:
        program.command("record", 0, 0)
        program.command("stop")
    assert [line for line in messages if "warning" in line] == (
        ["acapella: warning: net_fake0: the recording lacks packets: 3 missed by the device"] if lost else []
    )
    assert "acapella-dpdk-replay: memory for 65536 packets" in messages


def test_every_kind_of_loss_is_named_and_other_values_are_not_counted():
    """Drops of the interface may be of frames that the bridge received."""
    kinds = ("missed", "no_mbuf", "interface_dropped", "kernel_dropped", "not_received", "received")
    reception = {kind: number for number, kind in enumerate(kinds, 1)}
    (line,) = losses({"event": "done", "ports": [{"name": "eth1", "reception": reception}]})
    assert line == (
        "eth1: packets were not received during the run: 1 missed by the device, 2 without memory, "
        "4 dropped by the kernel because the ring of the driver was full, 5 counted by the interface and not received"
    )
    event = {"event": "done", "ports": [{"name": "eth1", "reception": {"interface_dropped": 3}}]}
    assert losses(event) == []
    assert drops_to_note(event) == [
        "eth1: frames were counted as 3 dropped by the interface or after the bridge received them"
    ]
    assert losses({"ports": [{"name": "\n", "reception": {"missed": 1}}]})[0].startswith("unknown: ")


@pytest.mark.parametrize("value", [0, -1, True, "7", None, [1]])
def test_impossible_number_of_lost_packets_is_not_reported(value):
    assert losses({"ports": [{"name": "eth1", "reception": {"missed": value}}]}) == []


@pytest.mark.parametrize("ports", [None, 7, [7], [{"reception": 7}], [{}]], ids=str)
def test_malformed_list_of_ports_reports_no_loss(ports):
    assert losses({"ports": ports}) == []


def test_late_stop_is_not_the_reply_to_the_next_command(program):
    program._process.stdin.write(b"stop\n")  # its sender does not wait for the reply
    assert program.command("status")["state"] == "idle"
    assert program.latest("stopped") == {"event": "stopped", "run": None}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("stop",), "stop failed: nothing to stop"),
        (("run", 0, 1, 1_000_000), "run failed: nothing to replay"),
        (("load", "a\nquit"), "control character"),
    ],
)
def test_rejected_command_is_an_error_and_the_program_continues(program, command, why):
    with pytest.raises(UserError, match=why):
        program.command(*command)
    assert program.command("status")["state"] == "idle"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("die", "ended: link of net_fake0 is down"),
        ("garbage", "its output is not an event in JSON"),
        ("long", "its output is not an event in JSON"),
        ("silence", "no reply for 0.2 s"),
        ("error", "status failed: injected"),
    ],
)
def test_faulty_program_is_a_one_line_error(kind, why):
    with ReplayProgram(stand_in_argv(fault=f"status:{kind}"), report=str) as program:
        with pytest.raises(UserError, match=why) as raised:
            program.command("status", timeout_s=0.2 if kind == "silence" else TIMEOUT_S)
        assert "\n" not in str(raised.value)
        if kind in ("die", "garbage", "long"):
            wait_until(lambda: program.fault is not None, kind)
            with pytest.raises(UserError, match=why):
                program.command("status")


@pytest.mark.parametrize(("kind", "why"), [("die", "link of net_fake0 is down"), ("garbage", "not an event")])
def test_program_that_does_not_start_is_an_error(kind, why):
    with pytest.raises(UserError, match=why):
        ReplayProgram(stand_in_argv(fault=f"ready:{kind}"), report=str).start()


def test_missing_program_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="cannot start: No such file"):
        ReplayProgram([str(tmp_path / "none")]).start()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match=r"acapella-dpdk-replay is missing; apt-get install .*make setup"):
        programs.executable()


PARENT = """\
import sys, time
from acapella_capture.replay.program import ReplayProgram
with ReplayProgram(sys.argv[1:]) as program:
    print(program._process.pid, flush=True)
    program.command("record", 0, 0)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_program_ends_with_its_parent(number):
    argv = [sys.executable, "-c", PARENT, *stand_in_argv()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        child = int(parent.stdout.readline())
        os.kill(parent.pid, number)
        parent.wait(TIMEOUT_S)
    wait_until(lambda: not Path(f"/proc/{child}").exists(), f"{child} is still running")


def test_interfaces_get_a_ring_for_each_queue():
    default, double = (ProgramSettings(ports=("lo",), queues=queues).argv("program") for queues in (None, 2))
    rings = [int(argv[2].split("framecnt=")[1].split(",")[0]) for argv in (default, double)]
    assert rings[1] * 2 <= rings[0]
    assert "qpairs" not in default[2] and "--queues" not in default
    assert double[2].endswith(",qpairs=2") and double[double.index("--queues") + 1] == "2"
