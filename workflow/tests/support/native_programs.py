"""The C++ programs that tests run; `make test` builds them with sanitizers before it starts pytest."""

import os
from pathlib import Path

import pytest
from acapella_testing.source_tree import ROOT


def native_program(name: str) -> Path:
    """Return the path of a program of workflow/native/tests or bench; skip the test if it is not built."""
    directory = Path(os.environ.get("ACAPELLA_NATIVE_TESTS", ROOT / "build" / "native-tests" / "tests"))
    for program in (directory / name, directory / "bench" / name):
        if program.is_file():
            return program
    pytest.skip(f"{name} is not built in {directory}: run make test, or set ACAPELLA_NATIVE_TESTS")
