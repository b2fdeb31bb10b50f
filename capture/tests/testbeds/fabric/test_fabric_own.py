"""Listening nodes and mirrors in the user's own slice, on a FABRIC on loopback: nothing else of the slice changes."""

import os
import re
import signal
import time
from dataclasses import replace

import networkx
import pytest
from acapella_testing.fabric.collection_runs import collected
from acapella_testing.fabric.experiment import NODES, SITES, SLICE, experiment
from acapella_testing.fabric.graphs import SHARED_PORT, graph
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.fabric.orchestrator import TAGS
from acapella_testing.fabric.schedules import SimulatedClock
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.manifest import read
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import NotReleased, ResourceRequest
from acapella_capture.testbeds.fabric import slices
from acapella_capture.testbeds.fabric.own_slice import own
from acapella_capture.testbeds.fabric.own_slice.host import HostTestbed
from acapella_capture.testbeds.fabric.own_slice.own import OwnSliceTestbed
from acapella_capture.testbeds.fabric.own_slice.topology import our_names
from acapella_core.errors import UserError

OWN = {"mode": "slice", "slice": SLICE, "sites": [], "port_selection": "all", "ports": None, "instances": 1}
OWN |= {"disk_gb": 10}
REQUEST = ResourceRequest(1, disk_gb=10)
VLAN = re.compile(re.escape(SHARED_PORT) + r"\.(2\d\d\d)")


@pytest.fixture
def fabric(tmp_path):
    """Provide a FABRIC whose project may use dedicated NICs but not mirror ports of others, with the user's slice."""
    with loopback_fabric(tmp_path, SITES) as created:
        created.orchestrator.tags = ("Component.SmartNIC",)
        created.mine = experiment(created)
        yield created


def own_testbed(fabric, campaign: str = "c", **changes) -> OwnSliceTestbed:
    return OwnSliceTestbed(replace(fabric.settings(**changes), nodes="own"), campaign, own=SLICE)


def everything(fabric) -> tuple[dict, set]:
    """Return all elements of the user's slice with all properties, and all connections."""
    model = networkx.parse_graphml(fabric.mine.stored.model)
    names = {node: properties["NodeID"] for node, properties in model.nodes(data=True)}
    elements = {names[node]: {key: value for key, value in properties.items() if key != "GraphID"}
                for node, properties in model.nodes(data=True)}  # fmt: skip
    return elements, {(frozenset((names[a], names[b])), edge["Class"]) for a, b, edge in model.edges(data=True)}


def mirrors(fabric) -> list[tuple[str, str]]:
    """Return port and VLAN of the mirrors in the user's slice."""
    services = graph(fabric.mine.stored.model).network_services.values()
    return sorted((each.mirror_port, each.mirror_vlan) for each in services if each.mirror_port)


def our_nodes(fabric) -> set[str]:
    return set(graph(fabric.mine.stored.model).nodes) - set(NODES)


def test_slice_is_unchanged_after_a_collection(fabric, capsys):
    before = everything(fabric)
    status, campaign = collected(fabric, collect=OWN, nodes="own")
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "STAR: success" in printed.out and "UTAH: success" in printed.out
    manifests = [read(path) for path in (campaign / "raw").glob("*.json")]
    assert sorted(each["site"] for each in manifests) == ["STAR", "STAR", "UTAH"]
    for each in manifests:
        assert VLAN.fullmatch(each["port"]) and "captured_at" not in each and each["frames_captured"] > 0
        assert each["instance"] == f"acapella-first-{each['site']}-listener1"
    assert everything(fabric) == before
    assert fabric.orchestrator.posts("/slices/creates") == 1, "only the user's slice"
    assert fabric.orchestrator.renewals == []


def test_only_the_vlan_of_the_users_interface_is_mirrored(fabric):
    with own_testbed(fabric) as testbed:
        (site,) = [site for site in testbed.sites() if site.name == "STAR"]
        assert [VLAN.fullmatch(port.name) is not None for port in site.ports] == [True, True]
        (instance,) = testbed.allocate("STAR", REQUEST)
        testbed.mirror(instance, instance.receivers[0], site.ports[0].name, "both")
        assert mirrors(fabric) == [(SHARED_PORT, VLAN.fullmatch(site.ports[0].name)[1])]
        testbed.mirror(instance, instance.receivers[0], site.ports[1].name, "both")
        assert mirrors(fabric) == [(SHARED_PORT, VLAN.fullmatch(site.ports[1].name)[1])]
        assert site.ports[0].name != site.ports[1].name


def test_shared_port_without_a_known_vlan_is_not_mirrored(fabric):
    stored = fabric.mine.stored
    stored.model = re.sub(r", &quot;vlan&quot;: &quot;\d+&quot;|, \"vlan\": \"\d+\"", "", stored.model)
    testbed = own_testbed(fabric)
    assert testbed.sites() == ()
    assert "n1-nic-p1 is not mirrored: its NIC is shared, and FABRIC reports no VLAN" in testbed.notes()


def test_plan_names_the_level(fabric, capsys):
    before = everything(fabric)
    status, _ = collected(fabric, "--dry-run", collect=OWN, nodes="own")
    printed = capsys.readouterr().out
    assert status == 0
    assert "sampling level slice, chosen from the project's permissions: mirrors of your slice's ports" in printed
    assert "level site needs the permission Net.PortMirroring" in printed
    assert "nodes are added to your slice (fabric.nodes: own) and removed at the end" in printed
    assert "project permissions: Component.SmartNIC_ConnectX_6 or Component.SmartNIC_ConnectX_5 or " in printed
    assert everything(fabric) == before


def test_slice_is_not_modified_unless_requested(fabric, capsys):
    status, _ = collected(fabric, "--dry-run", collect=OWN)
    printed = capsys.readouterr().out
    assert status == 0 and "sampling level host" in printed and "level slice needs fabric.nodes: own" in printed


def test_own_nodes_need_the_name_of_the_slice():
    with pytest.raises(UserError, match=r"fabric\.nodes: own requires collect\.mode: slice"):
        parse_settings({"testbed": "fabric", "fabric": {"nodes": "own"}})


def test_release_removes_only_nodes_and_mirrors_of_the_campaign(fabric):
    other = own_testbed(fabric, "c-more")
    other.allocate("STAR", REQUEST)
    before = everything(fabric)
    with own_testbed(fabric) as testbed:
        (instance,) = testbed.allocate("STAR", REQUEST)
        testbed.mirror(instance, instance.receivers[0], testbed.site("STAR").ports[0].name, "both")
        assert our_nodes(fabric) == {"acapella-c-STAR-listener1", "acapella-c-more-STAR-listener1"}
    assert everything(fabric) == before
    other.release()
    assert our_nodes(fabric) == set()


def test_release_all_removes_nodes_and_mirrors_left_by_a_crash(fabric, capsys):
    before = everything(fabric)
    crashed = own_testbed(fabric, "first")
    (instance,) = crashed.allocate("UTAH", REQUEST)
    crashed.mirror(instance, instance.receivers[0], crashed.site("UTAH").ports[0].name, "both")
    status, _ = collected(fabric, "--release-all", collect=OWN, nodes="own")
    printed = capsys.readouterr().out
    assert status == 0 and f"left: {SLICE}/acapella-first-UTAH-listener1" in printed and "released" in printed
    assert everything(fabric) == before


def test_nodes_left_by_a_crash_are_reused(fabric):
    (first,) = own_testbed(fabric).allocate("UTAH", REQUEST)
    with own_testbed(fabric) as testbed:
        assert testbed.instances("UTAH") == (first,) == testbed.allocate("UTAH", REQUEST)
        assert our_nodes(fabric) == {first.name}
    assert our_nodes(fabric) == set()


def test_other_changes_of_the_slice_are_reported(fabric):
    testbed = own_testbed(fabric)
    testbed.allocate("UTAH", REQUEST)
    stored = fabric.mine.stored
    topology = graph(stored.model)
    topology.remove_node(name="n2")
    stored.model = topology.serialize()
    with pytest.raises(UserError, match=f"slice {SLICE} differs from before: .*NetworkNode n2 is missing"):
        testbed.release("UTAH")
    assert our_nodes(fabric) == set()


def test_refused_removal_is_repeated_and_then_named(fabric):
    testbed = own_testbed(fabric, release_timeout_s=0.3)
    testbed.allocate("UTAH", REQUEST)
    fabric.orchestrator.faults.modify_fails = True
    with pytest.raises(UserError, match=f"still allocated: {SLICE}/acapella-c-UTAH-listener1"):
        testbed.release("UTAH")
    fabric.orchestrator.faults.modify_fails = False
    testbed.release()
    assert our_nodes(fabric) == set()


def test_nodes_are_named_if_the_slice_does_not_become_stable(fabric):
    testbed = own_testbed(fabric, wait_timeout_s=0.3, release_timeout_s=0.3)
    fabric.orchestrator.faults.stuck = True
    with pytest.raises(UserError, match="Modifying"):
        testbed.allocate("UTAH", REQUEST)
    with pytest.raises(NotReleased, match=f"still allocated: {SLICE}/acapella-c-UTAH-listener1 .the slice is Modif"):
        testbed.release("UTAH")
    fabric.orchestrator.faults.stuck = False
    later = own_testbed(fabric)
    assert later.leftovers() == (f"{SLICE}/acapella-c-UTAH-listener1",) == testbed.leftovers()
    later.release()
    assert our_nodes(fabric) == set() and later.leftovers() == ()


def test_nodes_are_named_if_the_token_expires(fabric):
    testbed = own_testbed(fabric, release_timeout_s=0.3)
    testbed.allocate("UTAH", REQUEST)
    fabric.orchestrator.tokens.clear()
    with pytest.raises(NotReleased) as raised:
        testbed.release()
    assert raised.value.names == (f"{SLICE}/acapella-c-UTAH-listener1",) == testbed.leftovers()


def test_sites_share_the_time_limit_of_the_release(fabric, monkeypatch):
    testbed = own_testbed(fabric, release_timeout_s=300, poll_s=5)
    for site in ("STAR", "UTAH"):
        testbed.allocate(site, REQUEST)
    clock = SimulatedClock()
    for module in (own, slices):
        monkeypatch.setattr(module, "time", clock)
    fabric.orchestrator.faults.stuck, fabric.mine.stored.state = True, "Modifying"
    for site in ("STAR", "UTAH", None):
        with pytest.raises(NotReleased):
            testbed.release(site)
    assert 300 <= clock.passed_s < 400


def test_refused_nodes_leave_the_slice_unchanged(fabric):
    before = everything(fabric)
    fabric.orchestrator.faults.modify_fails = True
    testbed = own_testbed(fabric)
    with pytest.raises(UserError, match="Insufficient resources"):
        testbed.allocate("UTAH", REQUEST)
    fabric.orchestrator.faults.modify_fails = False
    testbed.release()
    assert everything(fabric) == before


def test_ctrl_c_while_a_node_is_added_leaves_the_slice_unchanged(fabric, capsys):
    before = everything(fabric)
    fabric.orchestrator.faults.stuck = True

    def interrupt() -> None:
        wait_until(lambda: fabric.mine.stored.state == "Modifying")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        fabric.orchestrator.faults.stuck = False

    with in_background(interrupt):
        status, _ = collected(fabric, collect=OWN, nodes="own")
    assert status == 130, capsys.readouterr()
    assert everything(fabric) == before


def test_failed_mirror_leaves_the_slice_unchanged(fabric):
    """FABRIC reports every later modification as failed, too."""
    before = everything(fabric)
    testbed = own_testbed(fabric)
    (instance,) = testbed.allocate("UTAH", REQUEST)
    faults = fabric.orchestrator.faults
    faults.modify_fails, faults.failed_service_stays = True, True
    with pytest.raises(UserError, match="the slice is ModifyError"):
        testbed.mirror(instance, instance.receivers[0], testbed.site("UTAH").ports[0].name, "both")
    faults.modify_fails = False
    testbed.release("UTAH")
    assert everything(fabric) == before


def test_refused_second_mirror_of_a_port_leaves_the_first_one(fabric):
    """Shared NICs of two nodes can be at the same switch port, with different VLANs."""
    before = everything(fabric)
    fabric.orchestrator.faults.one_mirror_per_port = True
    with own_testbed(fabric) as testbed:
        (instance,) = testbed.allocate("STAR", REQUEST)
        first, second = testbed.site("STAR").ports
        testbed.mirror(instance, instance.receivers[0], first.name, "both")
        with pytest.raises(UserError, match=f"port {SHARED_PORT} is mirrored already"):
            testbed.mirror(instance, instance.receivers[1], second.name, "both")
        assert mirrors(fabric) == [(SHARED_PORT, VLAN.fullmatch(first.name)[1])]
    assert everything(fabric) == before


@pytest.mark.parametrize(
    ("tags", "nodes"), [((), "own"), (("Component.SmartNIC",), "separate"), (TAGS, "separate")], ids=str
)
def test_release_all_finds_nodes_of_level_slice_at_every_other_level(fabric, capsys, tags, nodes):
    """The project has lost or got permissions since, or the config has been changed."""
    before = everything(fabric)
    crashed = own_testbed(fabric, "first")
    (instance,) = crashed.allocate("UTAH", REQUEST)
    crashed.mirror(instance, instance.receivers[0], crashed.site("UTAH").ports[0].name, "both")
    fabric.orchestrator.tags = tags
    status, _ = collected(fabric, "--release-all", collect=OWN, nodes=nodes)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert f"left: {SLICE}/acapella-first-UTAH-listener1\n" in printed.out and "released" in printed.out
    assert everything(fabric) == before
    assert not [*fabric.nodes.directory.glob("n*/acapella-*")], "the user's nodes are not touched"


def test_release_all_at_level_slice_finds_the_slices_of_level_site(fabric, capsys):
    fabric.orchestrator.tags = TAGS
    fabric.testbed("first").allocate("UTAH", REQUEST)
    fabric.orchestrator.tags = ("Component.SmartNIC",)
    status, _ = collected(fabric, "--release-all", collect=OWN, nodes="own")
    printed = capsys.readouterr()
    assert status == 0 and "left: acapella-first-UTAH\n" in printed.out, printed.err
    assert [each.name for each in fabric.orchestrator.alive()] == [SLICE]


def test_nodes_of_level_slice_are_not_captured_at_level_host(fabric):
    left = own_testbed(fabric)
    (instance,) = left.allocate("UTAH", REQUEST)
    left.mirror(instance, instance.receivers[0], left.site("UTAH").ports[0].name, "both")
    assert set(HostTestbed(fabric.settings(), "c", own=SLICE).ports_by_node("UTAH")) == {"n3"}


@pytest.mark.parametrize(
    "name", ["acapella-c-my-listener1", "acapella-c-STAR-UTAH-listener1", "acapella-c-STAR-listener"]
)
def test_other_node_names_of_the_user_do_not_match(name):
    assert our_names("c").fullmatch(name) is None
    assert our_names("c").fullmatch("acapella-c-STAR-listener1")


def test_nodes_are_named_if_ctrl_c_ends_the_request_for_them(fabric, monkeypatch):
    testbed = own_testbed(fabric)
    testbed.allocate("UTAH", REQUEST)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(testbed.slices, "open_when_stable", interrupted)
    monkeypatch.setattr(testbed.slices, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        testbed.release()
    assert testbed.leftovers() == (f"{SLICE}/acapella-c-UTAH-listener1",)
