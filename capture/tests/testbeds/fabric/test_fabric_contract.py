"""Testbed `fabric` passes the contract of all testbeds, with FABRIC's own client and a FABRIC on loopback."""

import pytest
from acapella_testing.capture.testbed_contract import *  # noqa: F403 - the tests that each testbed passes
from acapella_testing.fabric.loopback import loopback_fabric


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    with loopback_fabric(tmp_path_factory.mktemp("fabric")) as fabric:
        created = fabric.testbed()
        before = created.sites()
        with created:
            assert created.sites() == before
            yield created
        assert fabric.orchestrator.alive() == []
