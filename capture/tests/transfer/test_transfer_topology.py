"""Topologies of slices: the built-in ones, errors in files, addresses and routes."""

from types import SimpleNamespace

import pytest
import yaml
from acapella_testing.new_files import write_file

from acapella_capture.transfer import routing
from acapella_capture.transfer.topology import BUILT_IN, read_topology
from acapella_core import topology as core_topology
from acapella_core.errors import UserError


def test_linear_slice_has_five_nodes_and_one_bottleneck():
    topology = read_topology("linear")
    assert (len(topology.nodes), topology.sender, topology.receiver) == (5, "h1", "h2")
    assert [topology.upstream(link) for link in topology.emulated().values()] == [("r1", "r2")]
    assert topology.path_of_flow(7) == "main"


def test_multipath_slice_has_three_paths_over_two_emulated_links():
    topology = read_topology("multipath")
    assert len(topology.nodes) == 7
    assert [topology.path_of_flow(flow) for flow in range(6)] == ["red", "green", "blue"] * 2
    assert {name: topology.rate_of_path(name, 100, 2) for name in topology.paths} == {
        "red": 200, "green": 200, "blue": 100,
    }  # fmt: skip
    assert topology.rate_of_path("red", 100, None) == 100


def test_topology_file_is_read_by_path(tmp_path):
    assert read_topology(str(write_file(tmp_path / "mine.yaml", (BUILT_IN / "linear.yaml").read_text()))).name == "mine"
    with pytest.raises(UserError, match="cannot read"):
        read_topology(str(tmp_path / "missing.yaml"))


def changed(change) -> dict:
    values = yaml.safe_load((BUILT_IN / "multipath.yaml").read_text())
    change(values)
    return values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["paths"]["red"].pop(1), "paths.red: no link between h1 and r2"),
        (lambda v: v["paths"].update(red=["h1", "r1", "h2"]), "paths.red: no link between r1 and h2"),
        (lambda v: v["paths"].update(red=["h1", "r9", "h2"]), "paths.red: no node 'r9'"),
        (lambda v: v["paths"].update(red=["r1", "r2", "r3"]), "paths.red: a path must connect two hosts"),
        (
            lambda v: v["paths"].update(blue=["h2", "r4", "r5", "r1", "h1"]),
            "paths.blue: all paths must have the same ends",
        ),
        (lambda v: v["links"]["l2"].update(emulated=False), "paths.blue: no link of the path is emulated"),
        (lambda v: v["links"]["l2"].update(between=["r1", "r1"]), "links.l2.between"),
        (lambda v: v["links"].update(more={"between": ["r5", "r1"]}), "links.more.between"),
        (
            lambda v: v["links"].update(more={"between": ["h1", "r5"]}),
            "nodes.h1: a host must have one link, this one has 2",
        ),
        (lambda v: v["nodes"]["r1"].update(role="switch"), "nodes.r1.role: expected host or router, found 'switch'"),
        (lambda v: v["links"]["l1"].update(rate_mpbs=5), "links.l1.rate_mpbs: unknown key; did you mean rate_mbps?"),
        (lambda v: v.update(flows=6), "flows: unknown key"),
    ],
)
def test_wrong_topology_is_an_error_that_names_the_key(change, message):
    with pytest.raises(UserError) as caught:
        core_topology.parse(changed(change), name="x", where="x.yaml")
    assert message in str(caught.value)


def test_each_flow_has_rules_for_its_ports_at_the_routers_of_its_path():
    topology = read_topology("multipath")
    blue = [line for line in routing.rules(topology, "r5", 6) if "ipproto tcp" in line]
    assert len(blue) == 4  # flows 2 and 5, both directions
    assert {line.split("port ")[1].split()[0] for line in blue} == {"5203", "5206"}
    assert {line.split("lookup ")[1] for line in blue} == {"102"}
    assert routing.rules(topology, "h1", 6) == []


def test_main_table_has_routes_over_all_paths_for_the_hash():
    topology = core_topology.parse(changed(lambda v: v.update(assignment="hash")), name="x", where="x")
    assert topology.path_of_flow(0) is None
    assert routing.rules(topology, "r1", 6) == []
    nodes = SimpleNamespace(device=lambda node, peer: f"{node}-{peer}")
    forward = [line for line in routing.routes(nodes, topology, "r1") if "table" not in line]
    assert len(forward) == 1  # the sender's network is directly connected
    assert [hop in forward[0] for hop in ("r1-r2", "r1-r3", "r1-r5")] == [True] * 3
