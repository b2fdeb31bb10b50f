"""Run acapella-dpdk-generate (capture/generate), which executes a compiled model."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from acapella_core.errors import OUTSIDE, UserError
from acapella_core.files import scratch_directory

from ..programs.dpdk import failure, start_with_retries
from ..programs.executables import find_executable
from ..replay.ports import port_options
from .compiled import CompiledModel

PROGRAM = "acapella-dpdk-generate"


def executable() -> str:
    """Return the program's path. Raises UserError if it was not built."""
    return find_executable(PROGRAM, fix="apt-get install libdpdk-dev libpcap-dev, then make setup")


def port_arguments(interface: str, mtu: int | None = None) -> list[str]:
    """Return the arguments for a port; ``mtu``: MTU of an interface in a different network namespace."""
    devices, port, frame = port_options(interface, 0, mtu)
    return [*devices, "--tx", port, *(["--max-frame", str(frame)] if frame else [])]


def run(model: CompiledModel, arguments: list[str]) -> dict[str, Any]:
    """Generate the packets of a model; return the program's report. Raises UserError with its last message."""
    with scratch_directory() as scratch:
        compiled = scratch / "model"
        compiled.write_text(model.text(), encoding="ascii")
        return json.loads(start_with_retries(lambda: output_of(["--model", str(compiled), *arguments])))


def output_of(arguments: list[str]) -> bytes:
    """Return the standard output of the program.

    Ctrl-C also reaches the program. A program that sends packets then reports what it has sent. A program that writes a
    file leaves no file, and KeyboardInterrupt is raised.
    """
    process = subprocess.Popen([executable(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    interrupt = None
    try:
        output, messages = process.communicate()
    except KeyboardInterrupt as error:
        interrupt = error
        output, messages = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode and interrupt:
        raise interrupt
    if process.returncode:
        text = messages.decode("utf-8", "replace") or f"exit status {process.returncode}"
        outside = process.returncode < 0 or process.returncode == OUTSIDE
        raise failure(PROGRAM, text, where=PROGRAM, outside=outside)
    return output


def read_trace(path: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the gaps after the frames of a capture, in ns, and the frame lengths. The last gap is the mean gap."""
    pairs = np.frombuffer(output_of(["--trace", str(path)]), np.int64).reshape(-1, 2)
    if len(pairs) < 2:
        raise UserError("has fewer than two frames with a timestamp", where=path)
    gaps = np.maximum(np.diff(pairs[:, 0]), 0)
    return (*gaps.tolist(), int(gaps.mean())), tuple(pairs[:, 1].tolist())
