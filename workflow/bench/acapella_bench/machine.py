"""Describes the machine for which the results are valid."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from acapella.common import tshark
from acapella_core.errors import UserError


def first_match(path: str, pattern: str) -> str | None:
    """Return the first match of ``pattern`` in a file of /proc."""
    found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].strip() if found else None


def commit() -> str | None:
    """Return the commit of the checkout, with the suffix -dirty if files differ from it; None without git."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def facts() -> dict:
    """Return processor, cores, memory, load at the start, commit, and versions."""
    try:
        reference = tshark.find().version
    except UserError:
        reference = None
    memory_kib = first_match("/proc/meminfo", r"^MemTotal:\s+(\d+)")
    return {
        "processor": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": os.cpu_count(),
        "memory_mib": int(memory_kib) // 1024 if memory_kib else None,
        "load_1_min": os.getloadavg()[0],
        "kernel": platform.release(),
        "acapella": version("acapella"),
        "commit": commit(),
        "tshark": reference,
        "pyarrow": version("pyarrow"),
        "duckdb": version("duckdb"),
    }
