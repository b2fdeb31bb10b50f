"""Copies of the project's files, for tests that build them in another directory."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
BUILT_FROM = ("workflow/", "capture/", "schemas/", "p4/loader/")


def working_tree() -> list[str]:
    """Return the files of the working tree, with new ones, except those that git ignores."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if (ROOT / name).is_file()]


def copy_sources(directory: Path, *, age_s: int = 0) -> None:
    """Copy the sources of `make dist` from the working tree, with modification times ``age_s`` earlier."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        required = name in ("Makefile", "meson.build") or name.startswith(BUILT_FROM)
        if required and "/tests/" not in name and (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name, follow_symlinks=False)
            found = (ROOT / name).lstat().st_mtime
            os.utime(directory / name, (found - age_s, found - age_s), follow_symlinks=False)


def build_wheels(directory: Path, prefix: Sequence = ()) -> list[Path]:
    """Run `make dist` in a copy of the sources, with the virtual environment of this tree; return the wheels.

    ``prefix`` is a command line that runs the rest of its arguments.
    """
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [*prefix, "make", "dist", f"VENV={ROOT / '.venv'}"]
    built = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return sorted((directory / "build" / "dist").iterdir())


def script(path: Path) -> ModuleType:
    """Return a script of this tree as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
