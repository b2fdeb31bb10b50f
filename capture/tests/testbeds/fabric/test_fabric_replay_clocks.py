"""Offsets of the clocks of nodes that replay together, from one reference."""

import pytest

from acapella_capture.replay.clocks import Offset
from acapella_capture.testbeds.fabric.replay_clocks import NodeClock, common_reference

BY_SSH = Offset(7_000, 30_000_000)
UNKNOWN = {"source": None, "offset_ns": None, "synchronized": None, "error_ns": None}


def chrony(offset_ns: int, error_ns: int | None = 500) -> dict:
    return {"source": "chrony", "offset_ns": offset_ns, "synchronized": error_ns is not None, "error_ns": error_ns}


def test_chrony_of_all_nodes_is_the_reference():
    before = [NodeClock("a", chrony(100), BY_SSH), NodeClock("b", chrony(-40), BY_SSH)]
    after = [NodeClock("a", chrony(300), BY_SSH), NodeClock("b", chrony(-40), BY_SSH)]
    assert common_reference(before, after) == ("chrony", [Offset(200, 600), Offset(-40, 500)])


@pytest.mark.parametrize(
    "state", [UNKNOWN, UNKNOWN | {"source": "ptp", "offset_ns": 90, "synchronized": True}, chrony(100, None)]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_round_trips_are_the_reference_if_chrony_of_one_node_is_unknown(state, when):
    known = [NodeClock("a", chrony(100), BY_SSH), NodeClock("b", chrony(0), Offset(-9_000, 20_000_000))]
    other = [known[0], NodeClock("b", state, Offset(-9_000, 20_000_000))]
    found = common_reference(other, known) if when == "before" else common_reference(known, other)
    assert found == ("round trips", [BY_SSH, Offset(-9_000, 20_000_000)])


def test_replayers_on_one_node_have_no_offset():
    clocks = [NodeClock("a", UNKNOWN, BY_SSH), NodeClock("a", UNKNOWN, Offset(0, 90_000_000))]
    assert common_reference(clocks, clocks) == ("system", [Offset(0, 0), Offset(0, 0)])
