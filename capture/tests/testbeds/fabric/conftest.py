"""Fixtures of the tests of testbed `fabric`."""

import functools
from collections.abc import Callable, Iterator

import pytest

from acapella_capture.testbeds.base import ResourceRequest


@pytest.fixture
def collection(fabric, capsys) -> Callable:
    """Return a function that runs `acapella collect` on the FABRIC on loopback and returns a Collection."""
    from acapella_testing.fabric.collection_runs import ended  # noqa: PLC0415 (FABRIC's client may be missing)

    return functools.partial(ended, fabric, capsys)


@pytest.fixture
def testbed(fabric) -> Iterator:
    """Provide a testbed that has been entered."""
    with fabric.testbed() as created:
        yield created


@pytest.fixture
def instance(testbed):
    """Provide the only instance of site STAR."""
    (created,) = testbed.allocate("STAR", ResourceRequest(1))
    return created
