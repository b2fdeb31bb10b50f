"""Fixtures of the tests of the C programs."""

from pathlib import Path

import pytest
from acapella_testing.c_programs import ROOT
from acapella_testing.processes import run


@pytest.fixture(scope="module")
def preload(tmp_path_factory) -> Path:
    """Return the library that makes the n-th call fail."""
    path = tmp_path_factory.mktemp("preload") / "fail.so"
    source = ROOT / "workflow" / "tests" / "support" / "fail_nth_call.c"
    run("cc", "-O2", "-shared", "-fPIC", "-o", path, source, "-ldl", check=True)
    return path
