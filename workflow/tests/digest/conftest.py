"""Fixtures of the tests of acapella digest."""

import pytest
from acapella_testing.runs.digest_run import Digest


@pytest.fixture
def digest(tmp_path) -> Digest:
    """Return an object that runs the command and writes to the temporary directory."""
    return Digest(tmp_path)
