"""Signals end a monitor: counts of an interface until then are the result, but those of a part of a capture are not."""

import argparse
import contextlib
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.capture.process_tree import processes, stat_of
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import Flow, Schedule
from acapella_testing.processes import executable, running
from acapella_testing.waiting import wait_until

from acapella_capture.monitor import command, live, program
from acapella_core.errors import UserError

COMMAND = (Path(sys.executable).parent / "acapella", "monitor")
SIGNALS = ("INT", "TERM", "HUP")
# Prints an event, and ends with a message if it gets a signal.
WAITING = """#!/bin/sh
trap 'echo "acapella-monitor: got a signal" >&2; exit 3' INT TERM HUP
echo '{"event": "listening", "ports": []}'
while :; do sleep 0.05; done
"""


class Ended(Exception):
    """The exception of the signal handler of this process."""


def end(*_: object) -> None:
    """Handle a signal."""
    raise Ended


@pytest.fixture(params=SIGNALS)
def signaling(request, tmp_path, monkeypatch):
    """Replace acapella-monitor with a script at whose event this process gets a signal, which raises Ended."""
    script = executable(tmp_path / "waiting", WAITING)
    number = signal.Signals[f"SIG{request.param}"]
    monkeypatch.setattr(program, "executable", lambda: str(script))
    monkeypatch.setattr(live.Live, "show", lambda *_: os.kill(os.getpid(), number))
    previous = signal.signal(number, end)
    yield
    signal.signal(number, previous)


def run(*words: object) -> None:
    """Run `acapella monitor`."""
    parser = command.register_parser(argparse.ArgumentParser().add_subparsers())
    command.run(parser.parse_args([str(word) for word in words]))


@pytest.mark.usefixtures("signaling")
def test_signal_while_a_capture_is_read_ends_the_command(tmp_path):
    with pytest.raises(Ended):
        run(tmp_path / "a.pcap")


@pytest.mark.usefixtures("signaling")
def test_signal_is_passed_to_the_monitor_of_an_interface():
    with pytest.raises(UserError, match="got a signal"):
        run("--interface", "net_null0")


@pytest.mark.parametrize("name", SIGNALS)
def test_partially_read_capture_gives_no_result(monitor_program, tmp_path, name):
    path, packet = tmp_path / "fifo", struct.pack("<IIII", 1, 0, 64, 64) + bytes(64)
    os.mkfifo(path)
    argv = [monitor_program, "--read", path, "--result", tmp_path / "result"]
    with running(argv, stderr=subprocess.PIPE, text=True) as process:
        with contextlib.suppress(BrokenPipeError), path.open("wb", buffering=0) as capture:
            capture.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1) + 10_000 * packet)
            process.send_signal(signal.Signals[f"SIG{name}"])
            for _ in range(500):
                capture.write(1000 * packet)
        assert process.wait() == 1
        assert f"interrupted by SIG{name}" in process.stderr.read()
    assert not (tmp_path / "result").exists()


@pytest.mark.usefixtures("monitor_on_path")
def test_monitor_ends_if_its_command_is_killed(tmp_path):
    arrived, _ = traffic.write(tmp_path, [Flow(20)], Schedule())
    argv = [*COMMAND, "--interface", f"net_pcap0,rx_pcap={arrived}"]
    with running(argv, stderr=subprocess.PIPE, text=True) as process:
        assert "listening" in process.stderr.readline()
        (monitor,) = [pid for pid, (parent, _) in processes().items() if parent == process.pid]
        process.kill()
        try:
            wait_until(lambda: stat_of(monitor) is None)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(monitor, signal.SIGKILL)
