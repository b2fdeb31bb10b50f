"""Fixtures of the tests of flow reports."""

import pytest
from acapella_testing.requirements import skip_if

from acapella.flowreports import program


@pytest.fixture(scope="session")
def data_plane() -> None:
    """Skip the test with a reason if the program of the data plane cannot run here."""
    skip_if(program.why_unavailable())
