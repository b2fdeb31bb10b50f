"""Paths of the programs in C that `make setup` builds."""

import shutil
import sys
from pathlib import Path

from acapella_core.errors import UserError


def find_executable(program: str, *, fix: str, where: str | None = None) -> str:
    """Return the path of a program in PATH or in the directory of Python. Raises UserError if it was not built."""
    path = shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))
    if path is None:
        raise UserError(f"{program} is missing", where=where, fix=fix)
    return path
