"""Behaviors of FABRIC that tests switch on: paging, lost responses, late lists, shortened leases, failed services."""

import dataclasses
import re
import time
import uuid
from unittest.mock import Mock

import pytest
from acapella_testing.fabric.behavior import BEHAVIORS, PAGE, PRECAUTIONS, Faults
from acapella_testing.fabric.collection_runs import ONE, PORTS
from acapella_testing.fabric.loopback import SITE, check_release
from acapella_testing.runs.in_process import call_before

from acapella_capture.testbeds.base import NotReleased, ResourceRequest
from acapella_core.errors import UserError

HOUR_NS = 3600 * 10**9
SOURCE = re.compile(  # a file with the function or key in it, a page, a standard, or the run notes
    r"(CF|Authz \w+|AMHandlers \w+|Client|fabrictestbed) [\w/-]+\.(py|yaml|alfa)\b|Run notes of Patchwork: |RFC \d+, "
    r"|learn\.fabric-testbed\.net, "
)


def test_every_behavior_has_a_source_and_an_existing_switch(fabric):
    faults = {field.name for field in dataclasses.fields(Faults)}
    switches = faults | set(vars(fabric.nodes)) | set(vars(fabric.orchestrator))
    rows = (*BEHAVIORS, *PRECAUTIONS)
    assert len({each.name for each in rows}) == len(rows)
    assert [each.name for each in BEHAVIORS if not SOURCE.match(each.source)] == []
    assert [each.name for each in rows if not each.source or each.switch not in (None, *switches)] == []
    assert faults <= {each.switch for each in rows}, "each fault has a row"


def test_slice_on_the_second_page_is_found(fabric):
    """The project has more slices than FABRIC returns in one reply, and FABRIC ignores the search for names."""
    fabric.testbed().allocate(SITE, ResourceRequest(1))
    (ours,) = fabric.orchestrator.alive()
    others = [dataclasses.replace(ours, slice_id=str(uuid.uuid4()), name=f"other-{number}", holds=False)
              for number in range(PAGE)]  # fmt: skip
    fabric.orchestrator.slices = {each.slice_id: each for each in (*others, ours)}
    later = fabric.testbed()
    assert later.leftovers() == (ours.name,)
    check_release(later)
    assert fabric.slices == [each.name for each in others]


@pytest.mark.parametrize("lost", ["/slices/creates", "/slices/modify", "/slices/delete", "/slices", "/slivers"])
def test_request_without_an_answer_has_one_effect(fabric, lost):
    fabric.orchestrator.faults.lost_answers = [lost]
    with fabric.allocated() as (testbed, instance):
        testbed.mirror(instance, instance.receivers[0], PORTS[0], "both")
        assert len(fabric.orchestrator.slices) == 1
    assert not fabric.slices
    assert testbed.leftovers() == ()
    assert not fabric.orchestrator.faults.lost_answers or lost == "/slivers"  # which a successful run does not read


def test_created_slice_that_is_listed_late_is_found(fabric):
    """It is created although the status is an error, and the first lists do not contain it yet."""
    with fabric.faulty(create_status=[503] * 3 + [500], hidden=4), fabric.allocated():
        assert len(fabric.orchestrator.slices) == 1
    assert not fabric.slices


def test_slice_that_is_listed_late_is_released(fabric):
    with fabric.faulty(hidden=1000), fabric.allocated() as (testbed, _):
        assert testbed.slices.list_slices() == []
    assert not fabric.slices


def test_slice_is_named_if_the_token_expires_before_the_release(fabric):
    testbed = fabric.testbed(release_timeout_s=0.3)
    testbed.allocate(SITE, ResourceRequest(1))
    fabric.orchestrator.tokens.clear()
    with pytest.raises(NotReleased, match="still allocated: acapella-c-STAR"):
        testbed.release()
    assert testbed.leftovers() == ("acapella-c-STAR",)


@pytest.mark.parametrize("moment", ["close", "list"])
def test_slice_is_named_if_ctrl_c_ends_the_release(fabric, testbed, instance, monkeypatch, moment):
    """Ctrl-C arrives while connections are closed, or while FABRIC lists leftovers."""
    nodes = testbed._site_slices[SITE].nodes
    owner, name = (nodes[instance.name], "close_ssh") if moment == "close" else (testbed.slices, "list_slices")
    monkeypatch.setattr(owner, name, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        testbed.release()
    assert testbed.leftovers() == ("acapella-c-STAR",)
    monkeypatch.undo()
    check_release(testbed)
    assert not fabric.slices


def test_slice_that_may_exist_is_named(fabric, monkeypatch):
    """The answer to the creation is lost, and the token expires before the slice is looked up."""
    fabric.orchestrator.faults.create_status = [500] * 4
    testbed = fabric.testbed()

    def expire_token() -> None:
        if fabric.slices:
            fabric.orchestrator.tokens.clear()

    call_before(monkeypatch, testbed.slices, "list_slices", expire_token)
    with pytest.raises(UserError, match="the token has expired"):
        testbed.allocate(SITE, ResourceRequest(1))
    with pytest.raises(NotReleased, match="still allocated: acapella-c-STAR"):
        testbed.release()


def test_slice_that_exists_and_is_not_listed_is_named(fabric, testbed):
    """The response to the creation is lost, its retry is refused, and no list contains the slice for a long time."""
    with fabric.faulty(lost_answers=["/slices/creates"], hidden=1000):
        with pytest.raises(UserError, match="already exists"):
            testbed.allocate(SITE, ResourceRequest(1))
        for _ in range(2):
            with pytest.raises(NotReleased, match=r"still allocated: acapella-c-STAR \(FABRIC reports that it exists"):
                testbed.release()
            assert testbed.leftovers() == ("acapella-c-STAR",)
    check_release(testbed)
    assert not fabric.slices


def test_shortened_lease_is_reported_and_not_renewed_at_once(fabric):
    """FABRIC grants less without an error, and reconfigures the slice with each renewal."""
    with fabric.faulty(lease_limit_h=3), fabric.allocated(lease_h=2) as (testbed, _):
        for _ in range(2):
            with pytest.raises(UserError, match=r"FABRIC shortened the lease: it ends at \d{4}-"):
                testbed.extend(SITE, time.time_ns() + 48 * HOUR_NS)
        assert len(fabric.orchestrator.renewals) == 1
        testbed.extend(SITE, time.time_ns() + 2 * HOUR_NS)  # within the granted time


def test_mirrors_move_although_an_earlier_service_has_failed(fabric, testbed, instance):
    """FABRIC may report each later modification of the slice as failed."""
    error = "port is mirrored already"
    faults = fabric.faulty(modify_fails=True, failed_service_stays=True, notice=error)
    with faults, pytest.raises(UserError, match=error):
        testbed.mirror(instance, instance.receivers[0], PORTS[0], "both")
    testbed.mirror(instance, instance.receivers[0], PORTS[1], "both")
    testbed.mirror(instance, instance.receivers[0], PORTS[2], "rx")
    assert any(re.search("failed modification, but all mirrors were active", note) for note in testbed.notes())


@pytest.mark.soak
@pytest.mark.parametrize(
    "switches",
    [
        {"latency_s": 0.05, "ipv6_management": True, "booting": 5},
        {"too_many": 15},  # more than one request and its repetitions by the client
        {"lease_limit_h": 0.5, "expire_after": 12},
        {"drop_every": 5},  # affects the login during the plan, too
    ],
)
def test_collection_succeeds_with_each_behavior(fabric, collection, switches):
    fabric.give_token(refresh_token="refresh-1")
    for switch, value in switches.items():
        setattr(fabric.nodes if hasattr(fabric.nodes, switch) else fabric.orchestrator.faults, switch, value)
    done = collection(collect=ONE)
    assert done.status == 0, done.printed
    assert "UTAH: success" in done.out and not fabric.slices
    assert len(done.manifests()) == 1
    assert fabric.orchestrator.refreshes == ["refresh-1"] * ("expire_after" in switches)
    assert ("no SSH connection to FABRIC's bastion host" in done.printed) == ("drop_every" in switches)
    assert fabric.nodes.booting == 0
