"""Fixtures of the tests of flow reports."""

import pytest

from acapella.flowreports import program


@pytest.fixture(scope="session")
def data_plane() -> None:
    """Skip the test with a reason if the program of the data plane cannot run here."""
    if (why := program.why_unavailable()) is not None:
        pytest.skip(f"no flow reports here: {why}")
