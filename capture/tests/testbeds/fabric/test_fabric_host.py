"""Capture on the nodes of the user's own slice, for a project without permissions, on a FABRIC on loopback."""

import json
import shutil
import time

import pytest
from acapella_testing.capture.process_tree import stat_of
from acapella_testing.fabric.collection_runs import OWN
from acapella_testing.fabric.experiment import NODES, SLICE, fabric_with_experiment, mine
from acapella_testing.fabric.loopback import offline_client
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.waiting import interrupt_when

from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Host, NotReleased, ResourceRequest
from acapella_capture.testbeds.fabric.own_slice.host import NOTE, HostTestbed, own_nodes
from acapella_capture.testbeds.fabric.own_slice.topology import our_names
from acapella_core.errors import UserError

OFFLOADS = {"gro": True, "lro": None, "rxvlan": True, "tso": None, "gso": None, "tx": None, "txvlan": None}


@pytest.fixture
def fabric(tmp_path):
    """Provide a FABRIC whose project has no permissions, with the user's slice."""
    with fabric_with_experiment(tmp_path, ()) as created:
        yield created


def writes(fabric) -> list[tuple[str, str]]:
    """Return the requests that change slices, after the creation of the user's slice."""
    changes = [(method, path) for method, path in fabric.orchestrator.requests
               if method != "GET" and path.startswith("/slices")]  # fmt: skip
    assert changes[0] == ("POST", "/slices/creates")
    return changes[1:]


def host_testbed(fabric, *sites: str) -> HostTestbed:
    """Return a testbed of campaign `first` with the nodes of some sites. It is not released, as after a crash."""
    testbed = HostTestbed(fabric.settings(), "first", own=SLICE)
    for site in sites:
        testbed.allocate(site, ResourceRequest(1))
    return testbed


def files_of(fabric, node: str) -> list[str]:
    """Return the entries of a node's home that are not those of the fake node itself."""
    return sorted(path.name for path in fabric.nodes.home(node).iterdir() if path.name.startswith((".", "acapella")))


@pytest.mark.soak
def test_own_nodes_capture_without_any_permission_and_are_left_unchanged(fabric, collection):
    """No setting is changed, no package installed, no file or program left."""
    before = mine(fabric).model
    done = collection(collect=OWN)
    assert done.status == 0, done.err
    assert "STAR: success" in done.out and "UTAH: success" in done.out
    assert {each["instance"]: (each["site"], each["port"]) for each in done.manifests()} == {
        name: (site, f"{name}-nic-p1") for name, site in NODES.items()
    }
    for each in done.manifests():
        assert each["captured_at"] == "host" and each["receiver"] == "enp8s0" and NOTE in each["notes"]
        assert each["frames_captured"] > 0 and each["port_rate_bps"] == 100 * 10**9
        assert each["nic"]["offloads"] == OFFLOADS
        assert "congestion" not in each, "there is no mirror"
    assert "note: enp8s0 of n1: offloads are on: gro, rxvlan" in done.out
    assert mine(fabric).model == before and writes(fabric) == []
    for node in NODES:
        commands = fabric.nodes.commands_of(node)
        assert {words.split()[0] for words in commands} == {"ip", "ethtool"}
        assert not [line for line in commands if line.startswith(("ethtool -K", "ethtool -G", "ip link set"))]
        assert files_of(fabric, node) == []


def test_plan_names_the_level_and_the_requirements_of_the_next_one(fabric, collection):
    plan = collection("--dry-run", collect=OWN)
    assert plan.status == 0 and not plan.campaign.exists()
    assert "sampling level host, chosen from the project's permissions: captures on the data interfaces" in plan.out
    assert "level site needs the permission Net.PortMirroring, Component.SmartNIC_ConnectX_6 or " in plan.out
    assert "  captures on 2 nodes of your slice; allocates nothing" in plan.out
    assert "  2 ports at once, direction both" in plan.out
    assert "cycle 1: n1-nic-p1, n2-nic-p1" in plan.out
    assert "per slice" not in plan.out and "lease: " not in plan.out
    assert not any(files_of(fabric, node) for node in NODES)


def test_level_is_chosen_from_the_permissions_for_mirrors(fabric, collection):
    fabric.orchestrator.tags = ("Net.PortMirroring", "Component.SmartNIC", "VM.NoLimit")
    plan = collection("--dry-run", collect={"sites": ["UTAH"], "ports": {"UTAH": ["HundredGigE0/0/0/2"]}})
    assert plan.status == 0
    assert "sampling level site, chosen from the project's permissions: mirrors of switch ports" in plan.out
    assert "needs 1 listening node, each 2 cores" in plan.out
    for tag, lacking in (("Net.PortMirroring", "Component.SmartNIC"), ("Component.SmartNIC", "Net.PortMirroring")):
        fabric.orchestrator.tags = (tag,)
        plan = collection("--dry-run", collect=OWN)
        assert plan.status == 0 and "sampling level host" in plan.out
        assert [line for line in plan.out.splitlines() if line.startswith("level site needs") and lacking in line]


def test_project_without_permissions_needs_a_slice(fabric, collection):
    done = collection(collect={"mode": "all", "sites": []})
    assert done.status == 2 and "the project lacks the permission Net.PortMirroring" in done.error
    assert done.error.startswith("acapella: error: ")
    assert done.error.endswith("set collect.mode: slice and collect.slice to capture on the nodes of your own slice")
    assert writes(fabric) == []


def test_capture_of_one_direction_is_rejected(fabric):
    with pytest.raises(UserError, match="capture at the host records both directions"):
        host_testbed(fabric).adapt(parse_settings({"testbed": "fabric", "capture": {"directions": ["rx"]}}))


@pytest.mark.soak
def test_node_that_cannot_capture_does_not_affect_the_others(fabric, collection):
    (fabric.nodes.home("n2") / "links.json").write_text('[{"ifname": "lo", "address": "00:00:00:00:00:00"}]')
    done = collection(collect=OWN)
    assert done.status == 0, done.err
    assert "STAR: degraded" in done.out and "UTAH: success" in done.out
    assert {each["instance"] for each in done.manifests()} == {"n1", "n3"}
    assert "note: n2 cannot capture: no interface for n2-nic-p1" in done.out
    assert files_of(fabric, "n2") == []


def test_p4_switches_of_a_slice_do_not_capture(tmp_path):
    """FABRIC's client lists them among the nodes, and their interfaces belong to no NIC."""
    created = offline_client(tmp_path).new_slice(name="s")
    node, switch = created.add_node(name="node", site="STAR"), created.add_switch(name="switch", site="STAR")
    node.add_component(model="NIC_Basic", name="nic")
    ends = [node.get_interfaces()[0], switch.get_interfaces()[0]]
    created.add_l2network(name="net", interfaces=ends, type="L2Bridge")
    assert [(name, list(own.rates)) for name, own in own_nodes(created, lambda each: each, our_names("c"))] == [
        ("node", ["node-nic-p1"])
    ]


@pytest.mark.parametrize("above", ["enp8s0.100", "bridge0", None])
def test_data_interface_is_captured_by_its_own_address(fabric, above):
    """A VLAN interface, as FABRIC's client creates for a tagged network, and a bridge above it have the same address.

    None: the data interface is a member of a bond, whose address it has.
    """
    file = fabric.nodes.home("n1") / "links.json"
    links = {link["ifname"]: link for link in json.loads(file.read_text())}
    data = links["enp8s0"]
    changed = {"permaddr": data["address"], "address": "02:00:00:00:00:99"} if above is None else {"ifname": above}
    links[above or "enp8s0"] = data | changed
    file.write_text(json.dumps([*links.values()]))
    with host_testbed(fabric, "STAR") as testbed:
        assert [each.receivers for each in testbed.instances("STAR") if each.name == "n1"] == [("enp8s0",)]


def test_missing_tcpdump_is_named(fabric, tmp_path, collection):
    fabric.nodes.program("tcpdump").unlink()
    for name in ("sh", "cat"):
        (new_directory(tmp_path / "few") / name).symlink_to(shutil.which(name))
    path = f"PATH={fabric.nodes.program('x').parent}:{tmp_path / 'few'}"
    fabric.nodes.prefixes |= dict.fromkeys(NODES, (shutil.which("env"), path))
    done = collection(collect=OWN)
    assert done.status == 2 and "tcpdump is not installed" in done.printed
    assert done.error.startswith("acapella: error: ")


def test_lease_of_the_users_slice_is_not_renewed(fabric):
    with host_testbed(fabric, "UTAH") as testbed:
        testbed.extend("UTAH", time.time_ns() + 3600 * 10**9)
        with pytest.raises(UserError, match=f"the lease of your slice {SLICE} ends at "):
            testbed.extend("UTAH", time.time_ns() + 48 * 3600 * 10**9)
    assert fabric.orchestrator.renewals == [] and writes(fabric) == []


def test_ports_and_nodes_are_known_without_ssh(fabric):
    fabric.nodes.refusing = True
    testbed = host_testbed(fabric)
    assert {site.name: [port.name for port in site.ports] for site in testbed.sites()} == {
        "STAR": ["n1-nic-p1", "n2-nic-p1"], "UTAH": ["n3-nic-p1"],
    }  # fmt: skip
    assert testbed.ports_by_node("STAR") == {"n1": ("n1-nic-p1",), "n2": ("n2-nic-p1",)}
    assert testbed.resources("UTAH") == (Host("n3", 0, 0, 0, 1),)


def test_release_all_ends_programs_and_deletes_files_of_a_crash(fabric, collection):
    crashed = host_testbed(fabric, "UTAH")
    (instance,) = crashed.instances("UTAH")
    job = crashed.start("n3", ["tcpdump", "-i", instance.receivers[0]], output="left.pcap")
    other = crashed.start("n3", ["sleep", "600"])
    assert job.poll() is None and files_of(fabric, "n3") == ["acapella-first"]
    (pid,) = [int(file.read_text()) for file in fabric.nodes.running("n3") if file.parent.name == other._name]
    done = collection("--release-all", collect=OWN)
    assert done.status == 0 and f"still allocated: {SLICE}/n3" in done.out and "released" in done.out
    assert files_of(fabric, "n3") == [] and stat_of(pid) is None
    assert mine(fabric).state == "StableOK" and writes(fabric) == []


def test_release_all_cleans_the_other_nodes_if_one_does_not_answer(fabric, collection):
    host_testbed(fabric, "UTAH")
    assert files_of(fabric, "n3") == ["acapella-first"]
    fabric.nodes.prefixes["n1"] = (shutil.which("false"),)
    done = collection("--release-all", collect=OWN)
    assert done.status == 2 and f"still allocated: {SLICE}/n1\nstill allocated: {SLICE}/n3\n" in done.out
    assert done.error.startswith("acapella: error: ")
    assert f"still allocated: {SLICE}/n1 (node n1: no reply after " in done.error
    assert done.error.endswith(" --release-all")
    assert files_of(fabric, "n3") == []


@pytest.mark.soak
def test_user_directory_is_neither_used_nor_deleted(fabric, collection):
    """The directory of the user happens to have the name of the campaign's directory."""
    theirs = write_file(fabric.nodes.home("n2") / "acapella-first" / "results.csv", "1\n")
    done = collection(collect=OWN)
    assert done.status == 0, done.err
    text = f"note: n2 cannot capture: {theirs.parent} is not a directory of this program: rename or remove it"
    assert text in done.out
    released = collection("--release-all", collect=OWN)
    assert released.status == 0 and "nothing to release" in released.out
    assert theirs.read_text() == "1\n" and files_of(fabric, "n1") == []


@pytest.mark.soak
def test_interrupted_collection_leaves_nothing_on_nodes(fabric, collection):
    log = fabric.directory / "signals"
    signals = {"start": f"echo start >> {log}", "stop": f"echo stop >> {log}"}
    with interrupt_when(log.exists):
        done = collection(collect=OWN | {"cycles": 50, "signal": signals})
    assert done.status == 130, done.printed
    assert log.read_text().split()[-1:] == ["stop"], "the experiment is stopped, too"
    assert not any(files_of(fabric, node) for node in NODES) and writes(fabric) == []


def test_node_that_cannot_be_cleaned_is_named(fabric):
    testbed = host_testbed(fabric, "UTAH")
    fabric.nodes.stop_answering()
    with pytest.raises(UserError, match=f"still allocated: {SLICE}/n3"):
        testbed.release("UTAH")
    fabric.nodes.refusing = False
    testbed.release()
    assert files_of(fabric, "n3") == []


def test_nodes_with_files_are_named_if_fabric_does_not_answer(fabric, monkeypatch):
    testbed = host_testbed(fabric, "UTAH")
    fabric.nodes.stop_answering()
    with pytest.raises(NotReleased, match=f"still allocated: {SLICE}/n3 "):
        testbed.release("UTAH")
    fabric.orchestrator.tokens.clear()
    assert testbed.leftovers() == (f"{SLICE}/n3",)
