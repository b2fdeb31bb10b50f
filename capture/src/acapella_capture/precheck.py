"""Checks of a config that are possible on this machine, before resources are requested from a testbed."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

from acapella_core import p4_control
from acapella_core.errors import UserError

from .control import node_digest, preprocess
from .plan.port_selection import find_selection
from .settings import CaptureSettings, Settings, methods_by_name
from .testbeds.fabric.nodes.source_archive import source_archive

COMPILE_S = 30
PREFIX = "tcpdump: "
LOADER = "acapella-p4-run"
LOAD_S = 30
USER_ERROR = 2  # the loader's exit code for invalid input
NO_FRAMES = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)  # an Ethernet pcap without frames


def check(settings: Settings) -> None:
    """Check the filter, the files and the programs that a config requires. Raises UserError naming the invalid key."""
    find_selection(settings.collect.port_selection)
    if settings.capture.filter is not None:
        check_filter(settings.capture.filter)
    preprocess.check(settings.testbed, settings.preprocess)
    if settings.collect.digest_on == "node":
        node_digest.check()
    methods = set(methods_by_name(settings.capture.method).values())
    if settings.testbed == "fabric":
        from .testbeds.fabric import replay  # noqa: PLC0415 - imports numpy and pyarrow

        replay.check(settings.fabric.replay)
        if methods - {"tcpdump"}:
            source_archive()
    if "fpga" in methods:
        check_program(settings.capture)
        check_registers(settings.capture)
    if settings.testbed != "local":  # the files are on nodes, except those checked above
        return
    if settings.preprocess.anonymize:
        check_readable(settings.preprocess.key_file, "preprocess.key_file")
    if settings.local.replay is not None and settings.local.replay.capture is not None:
        check_readable(settings.local.replay.capture, "local.replay.capture")


def check_filter(expression: str) -> None:
    """Raise UserError if the local tcpdump, if any, cannot compile a filter for Ethernet."""
    argv = ["tcpdump", "-d", "-y", "EN10MB", "--", expression]
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):  # nodes have their own tcpdump
        return
    message = [line.removeprefix(PREFIX) for line in result.stderr.splitlines() if line.startswith(PREFIX)]
    if (
        result.returncode != 0 and message and not message[-1].startswith("unknown host")
    ):  # a node may resolve other host names
        raise UserError(f"{expression!r}: {message[-1]}", where="capture.filter", fix="see pcap-filter(7)")


def check_program(capture: CaptureSettings) -> None:
    """Raise UserError if the local loader, if any, rejects the P4 program or its control file."""
    loader = shutil.which(LOADER) or shutil.which(LOADER, path=str(Path(sys.executable).parent))
    if loader is None:
        return
    control = ["--control", capture.p4_control] if capture.p4_control is not None else []
    argv = [loader, "--spec", capture.p4_program, "--in", "-", *control]
    try:
        result = subprocess.run(argv, input=NO_FRAMES, capture_output=True, timeout=LOAD_S, check=False)
    except subprocess.TimeoutExpired:  # a busy machine is not an error of the config
        return
    if result.returncode == USER_ERROR:
        message = " ".join(result.stderr.decode(errors="replace").split()).removeprefix(f"{LOADER}: ")
        in_control_file = capture.p4_control is not None and message.startswith(
            capture.p4_control[:200]
        )  # the loader truncates names
        raise UserError(message, where="capture.p4_control" if in_control_file else "capture.p4_program")


def check_registers(capture: CaptureSettings) -> None:
    """Raise UserError if the control file of P4 program `preprocess` sets a register to an invalid value."""
    if Path(capture.p4_program).stem != "preprocess" or capture.p4_control is None:
        return
    try:
        p4_control.check_preprocess([Path(capture.p4_control)])
    except UserError as error:
        raise UserError(str(error), where="capture.p4_control") from error


def check_readable(path: str, key: str) -> None:
    """Raise UserError if a file cannot be opened."""
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", where=key) from error
