"""Listening nodes and mirrors in the user's own slice, on a FABRIC on loopback: nothing else of the slice changes."""

import re
from dataclasses import replace
from unittest.mock import Mock

import networkx
import pytest
from acapella_testing.fabric.collection_runs import OWN as OWN_SLICE
from acapella_testing.fabric.experiment import NODES, SLICE, fabric_with_experiment, mine
from acapella_testing.fabric.graphs import SHARED_PORT, graph
from acapella_testing.fabric.loopback import check_release
from acapella_testing.fabric.orchestrator import TAGS
from acapella_testing.fabric.schedules import SimulatedClock

from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import NotReleased, ResourceRequest
from acapella_capture.testbeds.fabric import slices
from acapella_capture.testbeds.fabric.own_slice import own
from acapella_capture.testbeds.fabric.own_slice.host import HostTestbed
from acapella_capture.testbeds.fabric.own_slice.own import OwnSliceTestbed
from acapella_capture.testbeds.fabric.own_slice.topology import our_names
from acapella_core.errors import UserError

REQUEST = ResourceRequest(1, disk_gb=10)
OWN = OWN_SLICE | {"disk_gb": 10}
VLAN = re.compile(re.escape(SHARED_PORT) + r"\.(2\d\d\d)")


@pytest.fixture
def fabric(tmp_path):
    """Provide a FABRIC whose project may use dedicated NICs but not mirror ports of others, with the user's slice."""
    with fabric_with_experiment(tmp_path, ("Component.SmartNIC",)) as created:
        yield created


def own_testbed(fabric, campaign: str = "c", **changes) -> OwnSliceTestbed:
    return OwnSliceTestbed(replace(fabric.settings(**changes), nodes="own"), campaign, own=SLICE)


def allocated(fabric, campaign: str = "c", site: str = "UTAH", **changes) -> OwnSliceTestbed:
    """Return a testbed with a node, which remains, as after a crash, unless a test releases it."""
    testbed = own_testbed(fabric, campaign, **changes)
    testbed.allocate(site, REQUEST)
    return testbed


def mirror_first_port(testbed: OwnSliceTestbed, site: str = "UTAH") -> None:
    (instance,) = testbed.instances(site)
    testbed.mirror(instance, instance.receivers[0], testbed.site(site).ports[0].name, "both")


def elements_and_connections(fabric) -> tuple[dict, set]:
    """Return all elements of the user's slice with all properties except GraphID, and all connections."""
    model = networkx.parse_graphml(mine(fabric).model)
    names = {node: properties["NodeID"] for node, properties in model.nodes(data=True)}
    elements = {names[node]: {key: value for key, value in properties.items() if key != "GraphID"}
                for node, properties in model.nodes(data=True)}  # fmt: skip
    return elements, {(frozenset((names[a], names[b])), edge["Class"]) for a, b, edge in model.edges(data=True)}


@pytest.fixture
def before(fabric) -> tuple[dict, set]:
    """Return the elements of the user's slice at the beginning of the test."""
    return elements_and_connections(fabric)


def mirrors(fabric) -> list[tuple[str, str]]:
    """Return port and VLAN of the mirrors in the user's slice."""
    services = graph(mine(fabric).model).network_services.values()
    return sorted((each.mirror_port, each.mirror_vlan) for each in services if each.mirror_port)


def our_nodes(fabric) -> set[str]:
    return set(graph(mine(fabric).model).nodes) - set(NODES)


@pytest.mark.soak
def test_slice_is_unchanged_after_a_collection(fabric, before, collection):
    done = collection(collect=OWN, nodes="own")
    assert done.status == 0, done.err
    assert "STAR: success" in done.out and "UTAH: success" in done.out
    assert sorted(each["site"] for each in done.manifests()) == ["STAR", "STAR", "UTAH"]
    for each in done.manifests():
        assert VLAN.fullmatch(each["port"]) and "captured_at" not in each and each["frames_captured"] > 0
        assert each["instance"] == f"acapella-first-{each['site']}-listener1"
    assert elements_and_connections(fabric) == before
    assert fabric.orchestrator.posts("/slices/creates") == 1, "only the user's slice"
    assert fabric.orchestrator.renewals == []


def test_only_the_vlan_of_the_users_interface_is_mirrored(fabric):
    with own_testbed(fabric) as testbed:
        first, second = (port.name for port in testbed.site("STAR").ports)
        assert first != second
        assert VLAN.fullmatch(first) and VLAN.fullmatch(second)
        (instance,) = testbed.allocate("STAR", REQUEST)
        testbed.mirror(instance, instance.receivers[0], first, "both")
        assert mirrors(fabric) == [(SHARED_PORT, VLAN.fullmatch(first)[1])]
        testbed.mirror(instance, instance.receivers[0], second, "both")
        assert mirrors(fabric) == [(SHARED_PORT, VLAN.fullmatch(second)[1])]


def test_shared_port_without_a_known_vlan_is_not_mirrored(fabric):
    stored = mine(fabric)
    stored.model = re.sub(r", &quot;vlan&quot;: &quot;\d+&quot;|, \"vlan\": \"\d+\"", "", stored.model)
    testbed = own_testbed(fabric)
    assert testbed.sites() == ()
    assert "n1-nic-p1 is not mirrored: its NIC is shared, and FABRIC reports no VLAN" in testbed.notes()


def test_plan_names_the_level(fabric, before, collection):
    plan = collection("--dry-run", collect=OWN, nodes="own")
    assert plan.status == 0
    assert "sampling level slice, chosen from the project's permissions: mirrors of your slice's ports" in plan.out
    assert "level site needs the permission Net.PortMirroring" in plan.out
    assert "nodes are added to your slice (fabric.nodes: own) and removed at the end" in plan.out
    assert "project permissions: Component.SmartNIC_ConnectX_6 or Component.SmartNIC_ConnectX_5 or " in plan.out
    assert elements_and_connections(fabric) == before
    plan = collection("--dry-run", collect=OWN)
    assert plan.status == 0 and "sampling level host" in plan.out and "level slice needs fabric.nodes: own" in plan.out


def test_own_nodes_need_the_slice_name():
    with pytest.raises(UserError, match=r"fabric\.nodes: own requires collect\.mode: slice"):
        parse_settings({"testbed": "fabric", "fabric": {"nodes": "own"}})


def test_release_removes_only_nodes_and_mirrors_of_the_campaign(fabric):
    other = allocated(fabric, "c-more", "STAR")
    before = elements_and_connections(fabric)
    testbed = allocated(fabric, site="STAR")
    mirror_first_port(testbed, "STAR")
    assert our_nodes(fabric) == {"acapella-c-STAR-listener1", "acapella-c-more-STAR-listener1"}
    check_release(testbed)
    assert elements_and_connections(fabric) == before
    check_release(other)
    assert our_nodes(fabric) == set()


@pytest.mark.soak
def test_nodes_left_by_a_crash_are_reused(fabric):
    (first,) = allocated(fabric).instances("UTAH")
    with own_testbed(fabric) as testbed:
        assert testbed.instances("UTAH") == (first,) == testbed.allocate("UTAH", REQUEST)
        assert our_nodes(fabric) == {first.name}
    assert our_nodes(fabric) == set()


def test_other_slice_changes_are_reported(fabric):
    testbed, stored = allocated(fabric), mine(fabric)
    topology = graph(stored.model)
    topology.remove_node(name="n2")
    stored.model = topology.serialize()
    with pytest.raises(UserError, match=f"slice {SLICE} differs from before: .*NetworkNode n2 is missing"):
        testbed.release("UTAH")
    assert our_nodes(fabric) == set()


@pytest.mark.soak
def test_nodes_whose_removal_is_refused_are_named(fabric):
    testbed, error = allocated(fabric, release_timeout_s=0.3), f"still allocated: {SLICE}/acapella-c-UTAH-listener1"
    with fabric.faulty(modify_fails=True), pytest.raises(UserError, match=error):
        testbed.release("UTAH")
    check_release(testbed)
    assert our_nodes(fabric) == set()


def test_nodes_are_named_if_the_slice_does_not_become_stable(fabric):
    testbed = own_testbed(fabric, wait_timeout_s=0.3, release_timeout_s=0.3)
    error = f"still allocated: {SLICE}/acapella-c-UTAH-listener1 .the slice is Modif"
    with fabric.faulty(stuck=True):
        with pytest.raises(UserError, match="Modifying"):
            testbed.allocate("UTAH", REQUEST)
        with pytest.raises(NotReleased, match=error):
            testbed.release("UTAH")
    later = own_testbed(fabric)
    assert later.leftovers() == (f"{SLICE}/acapella-c-UTAH-listener1",) == testbed.leftovers()
    check_release(later)
    assert our_nodes(fabric) == set()


def test_nodes_are_named_if_the_token_expires(fabric):
    testbed = allocated(fabric, release_timeout_s=0.3)
    fabric.orchestrator.tokens.clear()
    with pytest.raises(NotReleased) as raised:
        testbed.release()
    assert raised.value.names == (f"{SLICE}/acapella-c-UTAH-listener1",) == testbed.leftovers()


@pytest.mark.soak
def test_sites_share_the_release_time_limit(fabric, monkeypatch):
    testbed = allocated(fabric, release_timeout_s=300, poll_s=5)
    testbed.allocate("STAR", REQUEST)
    clock = SimulatedClock()
    for module in (own, slices):
        monkeypatch.setattr(module, "time", clock)
    fabric.orchestrator.faults.stuck, mine(fabric).state = True, "Modifying"
    for site in ("STAR", "UTAH", None):
        with pytest.raises(NotReleased):
            testbed.release(site)
    assert 300 <= clock.passed_s < 400


def test_refused_nodes_leave_the_slice_unchanged(fabric, before):
    testbed = own_testbed(fabric)
    with fabric.faulty(modify_fails=True), pytest.raises(UserError, match="Insufficient resources"):
        testbed.allocate("UTAH", REQUEST)
    check_release(testbed)
    assert elements_and_connections(fabric) == before


def test_ctrl_c_while_a_node_is_added_leaves_the_slice_unchanged(fabric, before, collection):
    with fabric.interrupted_while_stuck(lambda: mine(fabric).state == "Modifying", held_s=0.5):
        done = collection(collect=OWN, nodes="own")
    assert done.status == 130, done.printed
    assert elements_and_connections(fabric) == before


def test_failed_mirror_leaves_the_slice_unchanged(fabric, before):
    """FABRIC reports every later modification as failed, too."""
    testbed, faults = allocated(fabric), fabric.faulty(modify_fails=True, failed_service_stays=True)
    with faults, pytest.raises(UserError, match="the slice is ModifyError"):
        mirror_first_port(testbed)
    check_release(testbed, "UTAH")
    assert elements_and_connections(fabric) == before


def test_refused_second_mirror_of_a_port_leaves_the_first_one(fabric, before):
    """Shared NICs of two nodes can be at the same switch port, with different VLANs."""
    with fabric.faulty(one_mirror_per_port=True), own_testbed(fabric) as testbed:
        (instance,) = testbed.allocate("STAR", REQUEST)
        first, second = testbed.site("STAR").ports
        testbed.mirror(instance, instance.receivers[0], first.name, "both")
        with pytest.raises(UserError, match=f"port {SHARED_PORT} is mirrored already"):
            testbed.mirror(instance, instance.receivers[1], second.name, "both")
        assert mirrors(fabric) == [(SHARED_PORT, VLAN.fullmatch(first.name)[1])]
    assert elements_and_connections(fabric) == before


@pytest.mark.parametrize(
    ("tags", "nodes"),
    [(("Component.SmartNIC",), "own"), ((), "own"), (TAGS, "separate")],
    ids=str,
)
def test_release_all_removes_nodes_and_mirrors_left_by_a_crash_at_every_level(fabric, before, collection, tags, nodes):
    """The project has lost or gained permissions since the crash, or the config has been changed."""
    mirror_first_port(allocated(fabric, "first"))
    fabric.orchestrator.tags = tags
    done = collection("--release-all", collect=OWN, nodes=nodes)
    assert done.status == 0, done.err
    assert f"still allocated: {SLICE}/acapella-first-UTAH-listener1\n" in done.out and "released" in done.out
    assert elements_and_connections(fabric) == before
    assert not [*fabric.nodes.directory.glob("n*/acapella-*")], "the user's nodes are not touched"


def test_release_all_at_level_slice_finds_the_slices_of_level_site(fabric, collection):
    fabric.orchestrator.tags = TAGS
    fabric.testbed("first").allocate("UTAH", REQUEST)
    fabric.orchestrator.tags = ("Component.SmartNIC",)
    done = collection("--release-all", collect=OWN, nodes="own")
    assert done.status == 0 and "still allocated: acapella-first-UTAH\n" in done.out, done.err
    assert fabric.slices == [SLICE]


def test_nodes_of_level_slice_are_not_captured_at_level_host(fabric):
    mirror_first_port(allocated(fabric))
    assert set(HostTestbed(fabric.settings(), "c", own=SLICE).ports_by_node("UTAH")) == {"n3"}


@pytest.mark.parametrize(
    "name", ["acapella-c-my-listener1", "acapella-c-STAR-UTAH-listener1", "acapella-c-STAR-listener"]
)
def test_other_user_node_names_do_not_match(name):
    assert our_names("c").fullmatch(name) is None
    assert our_names("c").fullmatch("acapella-c-STAR-listener1")


def test_nodes_are_named_if_ctrl_c_interrupts_the_release(fabric, monkeypatch):
    testbed = allocated(fabric)
    for name in ("open_when_stable", "open"):
        monkeypatch.setattr(testbed.slices, name, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        testbed.release()
    assert testbed.leftovers() == (f"{SLICE}/acapella-c-UTAH-listener1",)
