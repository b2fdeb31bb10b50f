"""Fixtures of the tests of the C programs."""

from pathlib import Path

import pytest
from acapella_testing.c_programs import ROOT
from acapella_testing.capture import replayer
from acapella_testing.processes import run

FAIL_NTH_CALL = ROOT / "workflow" / "tests" / "support" / "fail_nth_call.c"


@pytest.fixture(scope="module")
def preload(tmp_path_factory) -> Path:
    """Return the library that makes the n-th call fail."""
    path = tmp_path_factory.mktemp("preload") / "fail.so"
    run("cc", "-O2", "-shared", "-fPIC", "-o", path, FAIL_NTH_CALL, "-ldl", check=True)
    return path


@pytest.fixture(scope="session")
def replay_program() -> None:
    """Build acapella-dpdk-replay; skip the test with a reason if that is impossible."""
    replayer.built_or_skip()
