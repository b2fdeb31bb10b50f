"""Programs that receive a signal while they read a capture."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from acapella_testing.frames import pcap_files
from acapella_testing.processes import running


def interrupted(number: signal.Signals, fifo: Path, *argv: object) -> tuple[int, str]:
    """Run a program that reads a capture from a FIFO, and send it a signal; return its exit code and its messages."""
    packet = pcap_files.record(10**9, bytes(64))
    os.mkfifo(fifo)
    with running(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        with contextlib.suppress(BrokenPipeError), fifo.open("wb", buffering=0) as capture:
            capture.write(pcap_files.header() + 10_000 * packet)
            process.send_signal(number)
            for _ in range(500):
                capture.write(1000 * packet)
        return process.wait(), process.stderr.read()
