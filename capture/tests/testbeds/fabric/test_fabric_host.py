"""Capture on the nodes of the user's own slice, for a project without permissions, on a FABRIC on loopback."""

import json
import shutil
import time
from pathlib import Path

import pytest
from acapella_testing.fabric.collection_runs import collected
from acapella_testing.fabric.experiment import NODES, SITES, SLICE, experiment
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.waiting import interrupt_when
from fabrictestbed_extensions.fablib.fablib import FablibManager

from acapella_capture.manifest import read
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Host, NotReleased, ResourceRequest
from acapella_capture.testbeds.fabric.own_slice.host import NOTE, HostTestbed, own_nodes
from acapella_capture.testbeds.fabric.own_slice.topology import our_names
from acapella_core.errors import UserError

OWN = {"mode": "slice", "slice": SLICE, "sites": [], "port_selection": "all", "ports": None, "instances": 1}
OFFLOADS = {"gro": True, "lro": None, "rxvlan": True, "tso": None, "gso": None, "tx": None, "txvlan": None}


@pytest.fixture
def fabric(tmp_path):
    """Provide a FABRIC whose project has no permissions, with the user's slice."""
    with loopback_fabric(tmp_path, SITES) as created:
        created.orchestrator.tags = ()
        created.mine = experiment(created)
        yield created


def writes(fabric) -> list[tuple[str, str]]:
    """Return the requests that change slices, after the creation of the user's slice."""
    changes = [(method, path) for method, path in fabric.orchestrator.requests
               if method != "GET" and path.startswith("/slices")]  # fmt: skip
    assert changes[0] == ("POST", "/slices/creates")
    return changes[1:]


def files_of(fabric, node: str) -> list[str]:
    """Return the entries of a node's home that are not those of the fake node itself."""
    return sorted(path.name for path in fabric.nodes.home(node).iterdir() if path.name.startswith((".", "acapella")))


def test_own_nodes_capture_without_any_permission(fabric, capsys):
    before = fabric.mine.stored.model
    status, campaign = collected(fabric, collect=OWN)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "STAR: success" in printed.out and "UTAH: success" in printed.out
    manifests = {each["instance"]: each for each in map(read, (campaign / "raw").glob("*.json"))}
    assert {name: (each["site"], each["port"]) for name, each in manifests.items()} == {
        name: (site, f"{name}-nic-p1") for name, site in NODES.items()
    }
    for each in manifests.values():
        assert each["captured_at"] == "host" and each["receiver"] == "enp8s0" and NOTE in each["notes"]
        assert each["frames_captured"] > 0 and each["port_rate_bps"] == 100 * 10**9
        assert each["nic"]["offloads"] == OFFLOADS
        assert "congestion" not in each, "there is no mirror"
    assert "note: enp8s0 of n1: offloads are on: gro, rxvlan" in printed.out
    assert fabric.mine.stored.model == before and writes(fabric) == []


def test_nodes_are_left_unchanged(fabric):
    """No setting is changed, no package installed, no file or program left."""
    status, _ = collected(fabric, collect=OWN)
    assert status == 0
    for node in NODES:
        commands = (fabric.nodes.home(node) / "commands.log").read_text().splitlines()
        assert {words.split()[0] for words in commands} == {"ip", "ethtool"}
        assert not [
            line for line in commands if line.startswith(("ethtool -K", "ethtool -G", "ip link set", "install"))
        ]
        assert files_of(fabric, node) == []


def test_plan_names_the_level_and_the_requirements_of_the_next_one(fabric, capsys):
    status, campaign = collected(fabric, "--dry-run", collect=OWN)
    printed = capsys.readouterr().out
    assert status == 0 and not campaign.exists()
    assert "sampling level host, chosen from the project's permissions: captures on the data interfaces" in printed
    assert "level site needs the permission Net.PortMirroring, Component.SmartNIC_ConnectX_6 or " in printed
    assert "  captures on 2 nodes of your slice; allocates nothing" in printed
    assert "  2 ports at once, direction both" in printed
    assert "cycle 1: n1-nic-p1, n2-nic-p1" in printed
    assert "per slice" not in printed and "lease: " not in printed
    assert not any(files_of(fabric, node) for node in NODES)


def test_site_is_sampled_with_all_permissions(fabric, capsys):
    fabric.orchestrator.tags = ("Net.PortMirroring", "Component.SmartNIC", "VM.NoLimit")
    status, _ = collected(fabric, "--dry-run", collect={"sites": ["UTAH"], "ports": {"UTAH": ["HundredGigE0/0/0/2"]}})
    printed = capsys.readouterr().out
    assert status == 0
    assert "sampling level site, chosen from the project's permissions: mirrors of switch ports" in printed
    assert "needs 1 listening node, each 2 cores" in printed


@pytest.mark.parametrize("lacking", ["Net.PortMirroring", "Component.SmartNIC"])
def test_level_host_is_chosen_if_a_permission_for_mirrors_is_missing(fabric, capsys, lacking):
    fabric.orchestrator.tags = tuple({"Net.PortMirroring", "Component.SmartNIC"} - {lacking})
    status, _ = collected(fabric, "--dry-run", collect=OWN)
    printed = capsys.readouterr().out
    assert status == 0 and "sampling level host" in printed
    assert [line for line in printed.splitlines() if line.startswith("level site needs") and lacking in line]


def test_project_without_permissions_needs_a_slice(fabric, capsys):
    status, _ = collected(fabric, collect={"mode": "all", "sites": []})
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert status == 2 and "the project lacks the permission Net.PortMirroring" in line
    assert line.endswith("set collect.mode: slice and collect.slice to capture on the nodes of your own slice")
    assert writes(fabric) == []


def test_one_direction_is_rejected(fabric):
    testbed = HostTestbed(fabric.settings(), "c", own=SLICE)
    asked = parse_settings({"testbed": "fabric", "capture": {"directions": ["rx"]}})
    with pytest.raises(UserError, match="capture at the host records both directions"):
        testbed.adapt(asked)


def test_node_that_cannot_capture_does_not_affect_the_others(fabric, capsys):
    (fabric.nodes.home("n2") / "links.json").write_text('[{"ifname": "lo", "address": "00:00:00:00:00:00"}]')
    status, campaign = collected(fabric, collect=OWN)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "STAR: degraded" in printed.out and "UTAH: success" in printed.out
    assert {read(path)["instance"] for path in (campaign / "raw").glob("*.json")} == {"n1", "n3"}
    assert "note: n2 cannot capture: no interface for n2-nic-p1" in printed.out
    assert files_of(fabric, "n2") == []


def test_p4_switches_of_a_slice_do_not_capture(tmp_path):
    """FABRIC's client lists them among the nodes, and their interfaces belong to no NIC."""
    fablib = FablibManager(
        offline=True, no_ssh=True, project_id="x", bastion_username="x", log_file=str(tmp_path / "l")
    )
    created = fablib.new_slice(name="s")
    node, switch = created.add_node(name="node", site="STAR"), created.add_switch(name="switch", site="STAR")
    node.add_component(model="NIC_Basic", name="nic")
    created.add_l2network(
        name="net", interfaces=[node.get_interfaces()[0], switch.get_interfaces()[0]], type="L2Bridge"
    )
    assert [(name, list(own.rates)) for name, own in own_nodes(created, lambda each: each, our_names("c"))] == [
        ("node", ["node-nic-p1"])
    ]


@pytest.mark.parametrize("above", ["enp8s0.100", "bridge0"])
def test_interfaces_above_a_data_interface_are_not_captured(fabric, above):
    """A VLAN interface, as FABRIC's client creates for a tagged network, and a bridge have the same MAC address."""
    file = fabric.nodes.home("n1") / "links.json"
    links = json.loads(file.read_text())
    (below,) = [link for link in links if link["ifname"] == "enp8s0"]
    file.write_text(json.dumps([*links, below | {"ifname": above}]))
    with HostTestbed(fabric.settings(), "first", own=SLICE) as testbed:
        (instance,) = [each for each in testbed.allocate("STAR", ResourceRequest(1)) if each.name == "n1"]
        assert instance.receivers == ("enp8s0",)
        testbed.release()


def test_member_of_a_bond_is_found_by_its_own_address(fabric):
    file = fabric.nodes.home("n1") / "links.json"
    links = json.loads(file.read_text())
    for link in links:
        if link["ifname"] == "enp8s0":
            link |= {"permaddr": link["address"], "address": "02:00:00:00:00:99"}
    file.write_text(json.dumps(links))
    with HostTestbed(fabric.settings(), "first", own=SLICE) as testbed:
        (instance,) = [each for each in testbed.allocate("STAR", ResourceRequest(1)) if each.name == "n1"]
        assert instance.receivers == ("enp8s0",)
        testbed.release()


def test_missing_tcpdump_is_named(fabric, tmp_path, capsys):
    fabric.nodes.program("tcpdump").unlink()
    (tmp_path / "few").mkdir()
    for name in ("sh", "cat"):
        (tmp_path / "few" / name).symlink_to(shutil.which(name))
    path = f"PATH={fabric.nodes.program('x').parent}:{tmp_path / 'few'}"
    fabric.nodes.prefixes |= dict.fromkeys(NODES, (shutil.which("env"), path))
    status, _ = collected(fabric, collect=OWN)
    printed = capsys.readouterr()
    assert status == 2 and "tcpdump is not installed" in printed.out + printed.err


def test_lease_of_the_users_slice_is_not_renewed(fabric):
    with HostTestbed(fabric.settings(), "c", own=SLICE) as testbed:
        testbed.allocate("UTAH", ResourceRequest(1))
        testbed.extend("UTAH", time.time_ns() + 3600 * 10**9)
        with pytest.raises(UserError, match=f"the lease of your slice {SLICE} ends at "):
            testbed.extend("UTAH", time.time_ns() + 48 * 3600 * 10**9)
    assert fabric.orchestrator.renewals == [] and writes(fabric) == []


def test_ports_and_nodes_are_known_without_ssh(fabric):
    fabric.nodes.refusing = True
    testbed = HostTestbed(fabric.settings(), "c", own=SLICE)
    assert {site.name: [port.name for port in site.ports] for site in testbed.sites()} == {
        "STAR": ["n1-nic-p1", "n2-nic-p1"], "UTAH": ["n3-nic-p1"],
    }  # fmt: skip
    assert testbed.ports_by_node("STAR") == {"n1": ("n1-nic-p1",), "n2": ("n2-nic-p1",)}
    assert testbed.resources("UTAH") == (Host("n3", 0, 0, 0, 1),)


def test_release_all_ends_programs_and_deletes_files_of_a_crash(fabric, capsys):
    crashed = HostTestbed(fabric.settings(), "first", own=SLICE)
    (instance,) = crashed.allocate("UTAH", ResourceRequest(1))
    job = crashed.start("n3", ["tcpdump", "-i", instance.receivers[0]], output="left.pcap")
    other = crashed.start("n3", ["sleep", "600"])
    assert job.poll() is None and files_of(fabric, "n3") == ["acapella-first"]
    (pid,) = [int(file.read_text()) for file in fabric.nodes.home("n3").glob("*/jobs/*/pid")
              if not file.with_name("status").exists() and file.parent.name == other._name]  # fmt: skip
    status, _ = collected(fabric, "--release-all", collect=OWN)
    printed = capsys.readouterr().out
    assert status == 0 and f"left: {SLICE}/n3" in printed and "released" in printed
    assert files_of(fabric, "n3") == [] and not running(pid)
    assert fabric.mine.stored.state == "StableOK" and writes(fabric) == []


def test_release_all_cleans_the_other_nodes_if_one_does_not_answer(fabric, capsys):
    HostTestbed(fabric.settings(), "first", own=SLICE).allocate("UTAH", ResourceRequest(1))
    assert files_of(fabric, "n3") == ["acapella-first"]
    fabric.nodes.prefixes["n1"] = (shutil.which("false"),)
    status, _ = collected(fabric, "--release-all", collect=OWN)
    printed = capsys.readouterr()
    assert status == 2 and f"left: {SLICE}/n1\nleft: {SLICE}/n3\n" in printed.out
    last = printed.err.strip().splitlines()[-1]
    assert f"still allocated: {SLICE}/n1 (node n1: no reply after " in last and last.endswith(" --release-all")
    assert files_of(fabric, "n3") == []


def test_directory_of_the_user_is_neither_used_nor_deleted(fabric, capsys):
    """Its name is that of the campaign by coincidence."""
    theirs = fabric.nodes.home("n2") / "acapella-first" / "results.csv"
    theirs.parent.mkdir()
    theirs.write_text("1\n")
    status, _ = collected(fabric, collect=OWN)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    text = f"note: n2 cannot capture: {theirs.parent} is not a directory of this program: rename or remove it"
    assert text in printed.out
    status, _ = collected(fabric, "--release-all", collect=OWN)
    assert status == 0 and "nothing to release" in capsys.readouterr().out
    assert theirs.read_text() == "1\n" and files_of(fabric, "n1") == []


def running(pid: int) -> bool:
    """Return whether a process runs; one that ended may still be a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_interrupted_collection_leaves_nothing_on_nodes(fabric, capsys):
    log = fabric.directory / "signals"
    signals = {"start": f"echo start >> {log}", "stop": f"echo stop >> {log}"}
    with interrupt_when(log.exists):
        status, _ = collected(fabric, collect=OWN | {"cycles": 50, "signal": signals})
    assert status == 130, capsys.readouterr()
    assert log.read_text().split()[-1:] == ["stop"], "the experiment is stopped, too"
    assert not any(files_of(fabric, node) for node in NODES) and writes(fabric) == []


def test_node_that_cannot_be_cleaned_is_named(fabric):
    testbed = HostTestbed(fabric.settings(), "c", own=SLICE)
    testbed.allocate("UTAH", ResourceRequest(1))
    fabric.nodes.refusing = True
    fabric.nodes.lose_connections()
    with pytest.raises(UserError, match=f"still allocated: {SLICE}/n3"):
        testbed.release("UTAH")
    fabric.nodes.refusing = False
    testbed.release()
    assert files_of(fabric, "n3") == []


def test_nodes_with_files_are_named_if_fabric_does_not_answer(fabric, monkeypatch):
    testbed = HostTestbed(fabric.settings(), "first", own=SLICE)
    testbed.allocate("UTAH", ResourceRequest(1))
    fabric.nodes.refusing = True
    fabric.nodes.lose_connections()
    with pytest.raises(NotReleased, match=f"still allocated: {SLICE}/n3 "):
        testbed.release("UTAH")
    fabric.orchestrator.tokens.clear()
    assert testbed.leftovers() == (f"{SLICE}/n3",)
