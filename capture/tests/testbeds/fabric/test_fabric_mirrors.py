"""Sites, ports, mirrors and counters of testbed `fabric`; the functions of FABRIC's client that tests replace."""

import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from acapella_testing.fabric.graphs import OWN, graph
from acapella_testing.fabric.loopback import PATCHES, SITE, Loopback, offline_client
from acapella_testing.fabric.orchestrator import HOST
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from fabrictestbed_extensions.fablib.validator import NodeValidator
from fim.user.topology import AdvertizedTopology

from acapella_capture.testbeds.base import Host, InsufficientResources, MirrorRequest, Port, Rates, ResourceRequest
from acapella_capture.testbeds.fabric import mirrors, resources
from acapella_core.errors import UserError

CORPUS = Path(__file__).resolve().parents[5] / "shared" / "corpus" / "fim" / "advertised_topo.graphml"
PORTS = ("HundredGigE0/0/0/5", "TwentyFiveGigE0/0/0/12/1", "HundredGigE0/0/0/15")
ONE_INSTANCE = ResourceRequest(1)
DRY_RUN = """
import sys
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric import requirements
print(*requirements.describe(parse_settings({}).fabric, 'STAR', 2, ResourceRequest(2)), sep='\\n')
import acapella_capture.collect, acapella_capture.testbeds.local.testbed
large = ('fabrictestbed', 'fim', 'paramiko', 'requests', 'numpy', 'pyarrow')
assert not [name for name in sys.modules if name.startswith(large)]
"""


def services(fabric: Loopback) -> dict[str, tuple[str, str]]:
    """Return port and direction of the mirrors of the only slice, by name."""
    (created,) = fabric.orchestrator.alive()
    found = graph(created.model).network_services
    return {name: (each.mirror_port, str(each.mirror_direction)) for name, each in found.items() if each.mirror_port}


def test_exactly_three_functions_of_fabrics_client_are_replaced(fabric):
    """Checks all classes and functions of the client for members that our code defines."""
    replaced = set()
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(("fabrictestbed", "fim.")):
            continue
        for owner in (module, *(each for _, each in inspect.getmembers(module, inspect.isclass))):
            if getattr(owner, "__module__", owner.__name__).startswith(("fabrictestbed", "fim")):
                replaced |= {
                    (owner.__name__, key) for key, each in vars(owner).items()
                    if getattr(inspect.unwrap(getattr(each, "__func__", each)), "__module__", "") == Loopback.__module__
                }  # fmt: skip
    assert replaced == {
        ("Utils", "is_reachable"), ("FablibManager", "probe_bastion_host"), ("Node", "_get_ssh_connection"),
    }  # fmt: skip
    assert replaced == {(owner.__name__, name) for owner, name in PATCHES}


def test_ports_are_read_from_links_and_counters(fabric):
    star = fabric.testbed().site(SITE)
    assert [port.name for port in star.ports] == [PORTS[0], PORTS[2], OWN, PORTS[1]]
    assert {port.name: (port.kind, port.rate_bps) for port in star.ports if port.name != OWN} == {
        PORTS[0]: ("downlink", 100 * 10**9), PORTS[1]: ("downlink", 25 * 10**9), PORTS[2]: ("uplink", 100 * 10**9),
    }  # fmt: skip
    assert Port("TenGigE0/0/0/22/0", 10 * 10**9, "uplink") in fabric.testbed().site("UTAH").ports
    assert "MAINT" not in {site.name for site in fabric.testbed().sites()}


@pytest.mark.parametrize(
    ("interface", "expected"),
    [
        ("HundredGigE0/0/0/5", True),
        ("TenGigE0/0/0/22/0", True),
        ("FourHundredGigE0/0/0/1", True),
        ("GigabitEthernet0/0/0/1", True),
        ("HundredGigE0/0/0/15.3370", False),
        ("Bundle-Ether1/0", False),
        ("Optics0/0/0/5", False),
        ("CoherentDSP0/0/0/5", False),
        ("PTP0/RP0/CPU0/0", False),
        ("MgmtEth0/RP0/CPU0/0", False),
        ("", False),
    ],
)
def test_only_ethernet_ports_can_be_mirrored(interface, expected):
    assert resources.is_port(interface) is expected


def test_resources_are_read_from_active_hosts_without_cache(fabric):
    fabric.orchestrator.sites["WASH"][0] = {"cores": 4, "ram": 8, "disk": 9, "nics": {}}
    testbed = fabric.testbed()
    assert testbed.resources("WASH") == (Host("wash-w1.fabric-testbed.net", 4, 8, 9, 0),)
    before = testbed.resources(SITE)
    assert before[0] == Host("star-w1.fabric-testbed.net", 32, 128, 1000, 2)
    with fabric.allocated():
        assert testbed.resources(SITE)[0] == Host("star-w1.fabric-testbed.net", 30, 120, 900, 1)
    assert testbed.resources(SITE) == before
    assert fabric.orchestrator.forced and all(fabric.orchestrator.forced)


def test_hosts_of_a_site_in_partial_maintenance_count(fabric):
    """FABRIC reports the state of the site for each of its hosts."""
    fabric.orchestrator.states |= {"UTAH": "PartMaint", "WASH": "Maint"}
    testbed = fabric.testbed()
    assert {site.name: bool(site.limits) for site in testbed.sites()} == {SITE: False, "UTAH": True}
    assert testbed.resources("UTAH") == (Host("utah-w1.fabric-testbed.net", 32, 128, 1000, 2),)
    maintenance = "FABRIC reports state Maint"
    assert testbed.unavailable_sites() == {"MAINT": maintenance, "WASH": maintenance}


def test_host_in_maintenance_does_not_prevent_a_different_nic_model(fabric, testbed):
    """The only free NIC of the preferred model belongs to a host in maintenance."""
    preferred, other = (HOST | {"nics": {f"SmartNIC-ConnectX-{model}": 1}} for model in (6, 5))
    fabric.orchestrator.sites["UTAH"] = [preferred | {"maintenance": True}, other]
    fabric.orchestrator.states["UTAH"] = "PartMaint"
    (instance,) = testbed.allocate("UTAH", ONE_INSTANCE)
    assert testbed.mirror_capacity_bps(instance, instance.receivers[0]) == 25 * 10**9
    with pytest.raises(InsufficientResources):
        testbed.allocate("UTAH", ResourceRequest(2))
    assert testbed.instances("UTAH") == (instance,)


def test_unreadable_resources_are_an_error(fabric, testbed):
    testbed.sites()
    with fabric.faulty(no_summary=True), pytest.raises(UserError, match="cannot read FABRIC's hosts: 500"):
        testbed.resources(SITE)


def test_port_rates_are_computed_from_switch_counters(fabric):
    found = fabric.testbed().telemetry(SITE, 60)
    assert found.source == "FABRIC's metrics" and found.seconds > 50
    assert set(found.ports) == {*PORTS, OWN}
    assert found.ports[PORTS[1]].tx_bps == pytest.approx(8 * 1000, rel=1e-3)
    assert found.ports[PORTS[1]].rx_bps == pytest.approx(8 * 2000, rel=1e-3)


def test_only_uplinks_are_known_without_access_to_counters(fabric):
    fabric.orchestrator.faults.metrics_status = 403
    testbed = fabric.testbed()
    assert {port.kind for site in testbed.sites() for port in site.ports} == {"uplink"}
    assert testbed.telemetry(SITE, 60) is None
    assert any("no telemetry" in note and "403" in note for note in testbed.notes())


def kinds(testbed, site: str) -> dict[str, str]:
    return {port.name: port.kind for port in testbed.site(site).ports}


def test_configured_ports_are_accepted_without_counters(fabric):
    fixed = {SITE: [PORTS[0], "Bundle-Ether1/0"], "UTAH": ["HundredGigE0/0/0/2"]}
    assert "HundredGigE0/0/0/99" not in kinds(fabric.testbed(fixed={SITE: ["HundredGigE0/0/0/99"]}), SITE)
    with fabric.faulty(metrics_status=403), fabric.allocated(fixed=fixed) as (testbed, instance):
        assert kinds(testbed, SITE) == {PORTS[0]: "downlink", PORTS[2]: "uplink"}
        assert kinds(testbed, "UTAH") == {"HundredGigE0/0/0/2": "downlink", "TenGigE0/0/0/22/0": "uplink"}
        testbed.mirror(instance, instance.receivers[0], PORTS[0], "both")


def test_ports_of_a_followed_slice_are_found_also_without_counters(fabric):
    with fabric.allocated(campaign="other") as (other, instance):
        other.mirror(instance, instance.receivers[0], PORTS[0], "both")
        sites = fabric.testbed(follow="acapella-other-STAR").sites()
        assert {(site.name, port.name) for site in sites for port in site.ports if port.slices} == {(SITE, OWN)}
        with pytest.raises(UserError, match="no slice 'acapella-other'"):
            fabric.testbed(follow="acapella-other").sites()
        fabric.orchestrator.faults.metrics_status = 403
        ports = fabric.testbed(follow="acapella-other-STAR").site(SITE).ports
    assert [(port.name, port.kind) for port in ports if port.slices] == [(OWN, "downlink")]


def test_downlinks_without_counters_are_read_from_the_information_model(fabric, tmp_path):
    """They are labels of a JSON graph, or quoted within GraphML. A sub-interface counts as its port; bundles and optics
    do not count.
    """
    labels = ["HundredGigE0/0/0/15.3370", "HundredGigE0/0/0/5", "Bundle-Ether1/0", "Optics0/0/0/5"]
    graph_model = {"nodes": [{"Class": "ConnectionPoint", "Labels": {"local_name": label}} for label in labels]}
    write_file(tmp_path / "models" / "STAR.json", json.dumps(graph_model))
    quoted = "<data>{&quot;local_name&quot;: &quot;TenGigE0/0/0/22/1.3000&quot;}</data>"
    write_file(tmp_path / "models" / "Utah.graphml", f"<graphml>{quoted}</graphml>")
    fabric.orchestrator.faults.metrics_status = 403
    testbed = fabric.testbed(site_models=str(tmp_path / "models"))
    assert kinds(testbed, SITE) == {PORTS[0]: "downlink", PORTS[2]: "uplink"}
    assert kinds(testbed, "UTAH") == {"TenGigE0/0/0/22/0": "uplink", "TenGigE0/0/0/22/1": "downlink"}
    write_file(tmp_path / "models" / "WASH.json", "{}")
    with pytest.raises(UserError, match=r"^fabric\.site_models: .*WASH\.json contains no switch port$"):
        fabric.testbed(site_models=str(tmp_path / "models")).sites()
    with pytest.raises(UserError, match=r"^fabric\.site_models: cannot read .*/none: No such file"):
        fabric.testbed(site_models=str(tmp_path / "none")).sites()


@pytest.mark.soak
def test_moved_mirror_gets_a_new_name(fabric, testbed, instance):
    first, second = instance.receivers
    testbed.mirror(instance, first, PORTS[0], "both")
    (before,) = services(fabric)
    testbed.mirror(instance, second, PORTS[1], "rx")
    testbed.mirror(instance, first, PORTS[2], "tx")
    assert sorted(services(fabric).values()) == [(PORTS[2], "TX_Only"), (PORTS[1], "RX_Only")]
    assert before not in services(fabric)
    requested = fabric.orchestrator.modifications()
    testbed.mirror(instance, first, PORTS[2], "tx")  # already there
    assert fabric.orchestrator.modifications() == requested == 4  # the move takes two
    assert testbed.mirror_capacity_bps(instance, first) == 100 * 10**9


def test_port_of_a_listening_node_is_neither_busy_nor_mirrored(fabric, testbed, instance):
    """It carries our own copies: by its rate it would be the busiest port."""
    assert testbed.telemetry(SITE, 60).ports[OWN].rx_bps > 0
    testbed.mirror(instance, instance.receivers[0], PORTS[0], "both")
    assert testbed.telemetry(SITE, 60).ports[OWN] == Rates(0, 0)
    assert OWN in testbed.listener_ports(SITE) and not testbed.listener_ports(SITE) & set(PORTS)
    with pytest.raises(UserError, match="leads to one of our listening nodes"):
        testbed.mirror(instance, instance.receivers[1], OWN, "both")


@pytest.mark.soak
def test_swapped_mirrors_move_together_in_two_modifications(fabric, testbed, instance):
    """FABRIC mirrors a port only once, so they cannot move one after the other. It refuses a new mirror on a receiver
    that still has one, so all mirrors are removed before the first is added.
    """
    first, second = instance.receivers
    for ports, steps in (((PORTS[0], PORTS[1]), 1), ((PORTS[1], PORTS[0]), 2)):
        requests = [MirrorRequest(instance, first, ports[0], "both"), MirrorRequest(instance, second, ports[1], "rx")]
        requested = fabric.orchestrator.modifications()
        testbed.prepare_mirrors(requests)
        for request in requests:
            testbed.mirror(instance, request.receiver, request.port, request.direction)
        assert fabric.orchestrator.modifications() - requested == steps
        assert sorted(services(fabric).values()) == sorted([(ports[0], "Both"), (ports[1], "RX_Only")])
    testbed.mirror(instance, first, PORTS[0], "both")  # also removes the mirror of this port to `second`
    assert list(services(fabric).values()) == [(PORTS[0], "Both")]
    fabric.orchestrator.faults.modify_fails = True
    testbed.prepare_mirrors([MirrorRequest(instance, second, PORTS[2], "both")])  # reports nothing
    with pytest.raises(UserError, match="ModifyError"):
        testbed.mirror(instance, second, PORTS[2], "both")


def test_fixed_mirrors_stay_after_a_crash(fabric):
    crashed = fabric.testbed(move_mirrors=False)
    (instance,) = crashed.allocate(SITE, ONE_INSTANCE)
    crashed.mirror(instance, instance.receivers[0], PORTS[0], "both")
    with fabric.allocated(move_mirrors=False) as (testbed, _):
        testbed.mirror(instance, instance.receivers[0], PORTS[0], "both")
        with pytest.raises(UserError, match=r"stays on HundredGigE0/0/0/5 \(both\): fabric\.move_mirrors is false"):
            testbed.mirror(instance, instance.receivers[0], PORTS[1], "both")
        assert fabric.orchestrator.modifications() == 1


def test_failed_mirror_is_reported_and_the_next_one_created(fabric, testbed, instance):
    error = "port is mirrored already"
    with fabric.faulty(modify_fails=True, notice=error), pytest.raises(UserError, match=f"ModifyError: {error}"):
        testbed.mirror(instance, instance.receivers[0], PORTS[0], "both")
    impatient = fabric.testbed(mirror_timeout_s=0.3)
    assert impatient.instances(SITE) == (instance,)  # even after a failed modification
    error = r"Modifying after 0\.3 s.*fabric\.move_mirrors: false"
    with fabric.faulty(stuck=True), pytest.raises(UserError, match=error):
        impatient.mirror(instance, instance.receivers[0], PORTS[0], "both")
    testbed.mirror(instance, instance.receivers[0], PORTS[1], "both")
    assert list(services(fabric).values()) == [(PORTS[1], "Both")]


def test_shared_nic_cannot_receive_a_mirror(tmp_path):
    """FABRIC's client accepts it, but then no frame arrives."""
    node = offline_client(tmp_path).new_slice(name="s").add_node(name="node", site=SITE)
    node.add_component(model="NIC_Basic", name="shared")
    node.add_component(model="NIC_ConnectX_6", name="nic")
    found = {each.get_name(): each for each in node.get_interfaces()}
    mirrors.check_receiver(found["node-nic-p1"])
    with pytest.raises(UserError, match="belongs to a SharedNIC: a mirror needs a dedicated NIC"):
        mirrors.check_receiver(found["node-shared-p1"])


def advertised() -> list[dict]:
    """Return the hosts of sites in FABRIC's advertisement, with capacities split evenly and NICs assigned in turn."""
    topology, hosts = AdvertizedTopology(), []
    topology.load(file_name=str(CORPUS))
    for name, site in topology.sites.items():
        count = site.capacities.unit if site.capacities else 0
        created = [
            {"name": f"{name}-w{n}", "site": name, "state": "Active", "cores_available": site.capacities.core // count,
             "ram_available": site.capacities.ram // count, "disk_available": site.capacities.disk // count,
             "components": {}}
            for n in range(count)
        ]  # fmt: skip
        for component, each in site.components.items() if created else ():
            for number in range(each.capacities.unit if component.startswith("SmartNIC") else 0):
                there = created[number % count]["components"].setdefault(component, {"capacity": 0, "allocated": 0})
                there["capacity"] += 1
        hosts += created
    return hosts


@pytest.mark.soak
@pytest.mark.skipif(not CORPUS.exists(), reason="no ../shared/corpus/fim next to the project")
def test_placement_agrees_with_fabrics_validator(tmp_path):
    hosts, nics = advertised(), ["NIC_ConnectX_6", "NIC_ConnectX_5"]
    sites = {host["site"] for host in hosts}
    assert len(sites) >= 9
    fablib = offline_client(tmp_path)
    known = SimpleNamespace(
        get_site=lambda site_name: {"name": site_name, "state": "Active"},
        get_hosts_by_site=lambda site_name: {host["name"]: host for host in hosts if host["site"] == site_name},
    )

    def valid(site: str, models: list[str]) -> bool:
        created = fablib.new_slice(name=f"{site}{len(models)}")
        for number, model in enumerate(models):
            node = created.add_node(
                name=f"n{number}",
                site=site,
                cores=ONE_INSTANCE.cores,
                ram=ONE_INSTANCE.ram_gb,
                disk=ONE_INSTANCE.disk_gb,
            )
            node.add_component(model=model, name="nic")
        return NodeValidator.validate_nodes(created.get_nodes(), known, None)[0]

    free_at = {site: sum(resources.free_nics(host, model) for host in hosts for model in nics if host["site"] == site)
            for site in sites}  # fmt: skip
    for site in sorted(sites, key=lambda each: (free_at[each], each))[:3]:  # the client's graphs are slow
        chosen = resources.choose_nics(hosts, site, nics, ResourceRequest(free_at[site]))
        assert chosen is not None and valid(site, chosen)
        assert resources.choose_nics(hosts, site, nics, ResourceRequest(free_at[site] + 1)) is None
        assert not valid(site, [*chosen, nics[0]]) and not valid(site, [*chosen, nics[1]])
        assert resources.choose_nics(hosts, site, nics, ResourceRequest(1, cores=10**4)) is None


def test_dry_run_needs_no_client_network_token_or_large_modules(tmp_path):
    done = run(sys.executable, "-c", DRY_RUN, env={"HOME": str(tmp_path), "PATH": ""})
    assert done.returncode == 0, done.stderr
    expected = ("sites: STAR", "at most 2 nodes, each with 2 cores", "of 2 ports", "Net.PortMirroring",
                "Component.SmartNIC_ConnectX_6", "VM.NoLimitDisk", "no project_id", "tokens.json")  # fmt: skip
    assert [text for text in expected if text not in done.stdout] == []
