"""What of a config can be known to be wrong on this machine, before a testbed is asked for anything."""

import subprocess
from pathlib import Path

from acapella_core.errors import UserError

from . import preprocess
from .selection import selection_of
from .settings import Settings

COMPILE_S = 30
PREFIX = "tcpdump: "


def check(settings: Settings) -> None:
    """Look whether what the config names is there. Raises UserError naming the key that is wrong."""
    selection_of(settings.collect.port_selection)
    if settings.capture.filter is not None:
        check_filter(settings.capture.filter)
    preprocess.check(settings.testbed, settings.preprocess)
    if settings.testbed != "local":  # elsewhere files are on nodes, which nobody has yet
        return
    if settings.preprocess.anonymise:
        check_readable(settings.preprocess.key_file, "preprocess.key_file")
    if settings.local.replay is not None and settings.local.replay.capture is not None:
        check_readable(settings.local.replay.capture, "local.replay.capture")


def check_filter(expression: str) -> None:
    """Raises UserError where tcpdump, if it is here, cannot compile a filter for Ethernet."""
    argv = ["tcpdump", "-d", "-y", "EN10MB", "--", expression]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):  # nodes have their own
        return
    said = [line.removeprefix(PREFIX) for line in done.stderr.splitlines() if line.startswith(PREFIX)]
    if done.returncode != 0 and said and not said[-1].startswith("unknown host"):  # a node may know other names
        raise UserError(f"{expression!r}: {said[-1]}", where="capture.filter", fix="see pcap-filter(7)")


def check_readable(path: str, key: str) -> None:
    """Raises UserError where a file cannot be opened."""
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", where=key) from error
