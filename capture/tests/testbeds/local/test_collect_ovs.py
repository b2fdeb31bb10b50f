"""`acapella collect` on the local testbed with Open vSwitch: killed as root, stopped as a user."""

import signal

import pytest
from acapella_testing.capture.interrupted_runs import ends_without_leftovers
from acapella_testing.capture.local_testbed import open_vswitch_or_skip

pytestmark = pytest.mark.soak

# A signal arrives in the middle of the collection, because it has more rounds than the test waits for.
CONFIG = """
campaign: test
testbed: local
local: {switch: ovs, traffic: [{kind: ping}, {kind: http}]}
capture: {sample_s: 1, samples_per_port: 50}
"""


def test_interrupted_collection_with_open_vswitch_leaves_nothing(caller, open_directory):
    open_vswitch_or_skip()
    number, status = (signal.SIGTERM, 130) if caller.prefix else (signal.SIGKILL, -signal.SIGKILL)
    assert ends_without_leftovers(caller, open_directory / "ovs", CONFIG, number) == status
