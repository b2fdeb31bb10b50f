"""Fixtures of the tests of transfers."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def fabric(tmp_path, capsys) -> Iterator:
    """Provide a FABRIC on this machine, whose nodes have networks, and a user's campaign on it."""
    from acapella_testing.fabric.transfers import fabric_with_networks  # noqa: PLC0415 (the client may be missing)

    with fabric_with_networks(tmp_path, capsys) as created:
        yield created
