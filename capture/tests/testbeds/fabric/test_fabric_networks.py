"""The slice of a topology on FABRIC and the hosts of its nodes, without FABRIC's client."""

from dataclasses import replace

import pytest

from acapella_capture.testbeds.base import InsufficientResources, ResourceRequest
from acapella_capture.testbeds.fabric.networks import choose_models, plan_slice
from acapella_capture.transfer.topology import read_topology
from acapella_core.errors import UserError
from acapella_core.topology import Topology

NICS = ["NIC_ConnectX_6", "NIC_ConnectX_5"]
REQUEST = ResourceRequest(3, cores=2, ram_gb=8, disk_gb=10)


def topology_at(name: str = "linear", **sites: str) -> Topology:
    """Return a topology whose nodes are at site A, except those in ``sites``."""
    topology = read_topology(name)
    nodes = {name: replace(node, site=sites.get(name, "A")) for name, node in topology.nodes.items()}
    return replace(topology, nodes=nodes)


def host(site: str = "A", cores: int = 64, state: str = "Active", **nics: int) -> dict:
    components = {f"SmartNIC-ConnectX-{name[-1]}": {"capacity": n, "allocated": 0} for name, n in nics.items()}
    free = {"cores_available": cores, "ram_available": 512, "disk_available": 1000}
    return {"name": "w1", "site": site, "state": state, "components": components, **free}


def test_every_port_is_used_once_and_kinds_depend_on_the_sites():
    plan = plan_slice(topology_at(h2="B"))
    interfaces = [name for network in plan.networks for name in network.interfaces.values()]
    assert len(set(interfaces)) == len(interfaces) == 8
    assert {network.link: network.kind for network in plan.networks} == {
        "access": "L2Bridge", "bottleneck": "L2Bridge", "backbone": "L2Bridge", "exit": "L2STS",
    }  # fmt: skip
    assert {node.name: node.nics for node in plan.nodes} == {"h1": 1, "r1": 1, "r2": 1, "r3": 1, "h2": 1}


def test_nodes_fill_hosts_and_prefer_the_first_model():
    models = choose_models(plan_slice(topology_at()), [host(cx5=2), host(cx6=3)], NICS, REQUEST)
    assert sorted(models.values()) == ["NIC_ConnectX_5"] * 2 + ["NIC_ConnectX_6"] * 3


def test_both_nics_of_a_node_are_in_one_host():
    plan, hosts = plan_slice(topology_at("multipath")), [host(cx6=2), host(cx6=2), host(cx6=2), host(cx6=4)]
    assert set(choose_models(plan, hosts, NICS, REQUEST).values()) == {"NIC_ConnectX_6"}
    with pytest.raises(InsufficientResources, match="no host for node r4 with 2 free NICs"):
        choose_models(plan, [host(cx6=1) for _ in range(6)] + [host(cx6=5)], NICS, REQUEST)


@pytest.mark.parametrize("poor", [host(cx6=9, cores=2), host(cx6=9, state="Maint"), host(site="B", cx6=9)])
def test_hosts_without_cores_in_maintenance_or_at_other_sites_are_not_used(poor):
    with pytest.raises(InsufficientResources, match="site A: no host for node"):
        choose_models(plan_slice(topology_at()), [poor], NICS, REQUEST)


def test_nodes_need_a_site_and_a_name_of_two_characters():
    linear = read_topology("linear")
    with pytest.raises(UserError, match=r"nodes\.r2\.site: missing"):
        plan_slice(replace(linear, nodes=linear.nodes | {"r2": replace(linear.nodes["r2"], site=None)}))
    with pytest.raises(UserError, match=r"nodes\.r: FABRIC rejects"):
        plan_slice(replace(linear, nodes=linear.nodes | {"r": replace(linear.nodes["r2"])}, links={}))
