"""Signals end a monitor. Counts of an interface until then are a result; counts of a part of a capture are not."""

import contextlib
import os
import signal
import subprocess
from unittest.mock import Mock

import pytest
from acapella_testing.capture.commands import ACAPELLA, run_command
from acapella_testing.capture.interrupted_reading import interrupted
from acapella_testing.capture.process_tree import processes, stat_of
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import Flow, Schedule
from acapella_testing.processes import executable, running
from acapella_testing.waiting import wait_until

from acapella_capture.monitor import command, live, program
from acapella_core.errors import UserError

SIGNALS = ("INT", "TERM", "HUP")
# Prints an event, and ends with a message if it gets a signal.
WAITING = """#!/bin/sh
trap 'echo "acapella-monitor: got a signal" >&2; exit 3' INT TERM HUP
echo '{"event": "listening", "ports": []}'
while :; do sleep 0.05; done
"""


class Ended(Exception):
    """The exception of the signal handler of this process."""


@pytest.fixture(params=SIGNALS)
def signaling(request, tmp_path, monkeypatch):
    """Replace acapella-monitor with a script; at its event, this process gets a signal, whose handler raises Ended."""
    script = executable(tmp_path / "waiting", WAITING)
    number = signal.Signals[f"SIG{request.param}"]
    monkeypatch.setattr(program, "executable", lambda: str(script))
    monkeypatch.setattr(live.Live, "show", lambda *_: os.kill(os.getpid(), number))
    previous = signal.signal(number, Mock(side_effect=Ended))
    yield
    signal.signal(number, previous)


@pytest.mark.usefixtures("signaling")
def test_signal_while_a_capture_is_read_ends_the_command(tmp_path):
    with pytest.raises(Ended):
        run_command(command, tmp_path / "a.pcap")


@pytest.mark.usefixtures("signaling")
def test_signal_is_passed_to_the_monitor_of_an_interface():
    with pytest.raises(UserError, match="got a signal"):
        run_command(command, "--interface", "net_null0")


@pytest.mark.parametrize("name", SIGNALS)
def test_partially_read_capture_gives_no_result(monitor_program, tmp_path, name):
    argv = [monitor_program, "--read", tmp_path / "fifo", "--result", tmp_path / "result"]
    code, errors = interrupted(signal.Signals[f"SIG{name}"], tmp_path / "fifo", *argv)
    assert code == 1
    assert f"interrupted by SIG{name}" in errors
    assert not (tmp_path / "result").exists()


@pytest.mark.usefixtures("monitor_on_path")
def test_monitor_ends_if_its_command_is_killed(tmp_path):
    arrived, _ = traffic.write(tmp_path, [Flow(20)], Schedule())
    argv = [ACAPELLA, "monitor", "--interface", f"net_pcap0,rx_pcap={arrived}"]
    with running(argv, stderr=subprocess.PIPE, text=True) as process:
        assert "listening" in process.stderr.readline()
        (monitor,) = [pid for pid, (parent, _) in processes().items() if parent == process.pid]
        process.kill()
        try:
            wait_until(lambda: stat_of(monitor) is None)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(monitor, signal.SIGKILL)
