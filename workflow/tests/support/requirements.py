"""Requirements of tests. If the machine does not meet a requirement, the test is skipped with the reason."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from acapella.cli import doctor
from acapella_core.errors import UserError

Found = TypeVar("Found")


def require(met: object, reason: str) -> None:
    """Skip the test with the reason unless the requirement is met."""
    if not met:
        pytest.skip(reason)


def require_programs(*names: str, path: str | None = None) -> None:
    """Skip the test if a program is not installed. ``path`` replaces PATH."""
    for name in names:
        require(shutil.which(name, path=path), f"{name} is not installed")


def skip_if(reason: str | None) -> None:
    """Skip the test if there is a reason."""
    require(not reason, str(reason))


def required(find: Callable[[], Found]) -> Found:
    """Return what a function finds; skip the test with the message of its UserError."""
    try:
        return find()
    except UserError as error:
        pytest.skip(str(error))


def require_root(purpose: str) -> None:
    """Skip the test unless root runs it. ``purpose``: what needs root."""
    require(os.geteuid() == 0, f"not root: {purpose}")


def require_built(name: str, reason: str = "make setup builds it if libdpdk-dev is installed") -> None:
    """Skip the test if a program of ours is not in the virtual environment."""
    require(Path(sys.executable).with_name(name).exists(), f"no {name} here: {reason}")


def require_success(argv: Iterable[object], lacking: str) -> None:
    """Skip the test if a command fails. ``lacking``: what is missing on the machine in this case."""
    tried = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False)
    require(tried.returncode == 0, f"no {lacking} here: {tried.stderr.strip()}")


def require_namespaces(*command: str) -> None:
    """Skip the test if a command, by default `true`, fails in its own namespaces."""
    problem = doctor.isolated([*(command or ("true",))])
    require(problem is None, f"no namespaces on this machine: {problem}")
