"""Grids on a FABRIC on loopback: real transfers over SSH, through the networks that a slice describes."""

import time

import pytest
from acapella_testing.fabric.graphs import graph
from acapella_testing.fabric.transfers import SLICE, FabricTransfers
from acapella_testing.generated.transfer_cells import HASHED, at_sites, validate_written

from acapella_capture.transfer.fabric_nodes import FabricNodes

HASH = at_sites(HASHED, h1="SEAT", r1="SEAT", r2="SALT", r3="STAR", r4="MASS", h2="MASS")


def networks_of(fabric: FabricTransfers) -> tuple[dict, dict]:
    """Return site and number of NICs of each node, and the type of each network of the only slice."""
    (stored,) = fabric.orchestrator.slices.values()
    topology = graph(stored.model)
    nodes = {str(name): (node.site, len(node.components)) for name, node in topology.nodes.items()}
    kinds = {str(name): str(service.type) for name, service in topology.network_services.items()}
    return nodes, {name.removeprefix("link-"): kind for name, kind in kinds.items() if kind in ("L2Bridge", "L2STS")}


def test_grid_runs_over_the_linear_slice(fabric):
    status, out, err = fabric.transfer(topology="linear", keep_captures=True)
    assert status == 0, err + out
    nodes, networks = networks_of(fabric)
    assert nodes == {"h1": ("SEAT", 1), "r1": ("SALT", 1), "r2": ("STAR", 1), "r3": ("NEWY", 1), "h2": ("MASS", 1)}
    assert networks == dict.fromkeys(("access", "bottleneck", "backbone", "exit"), "L2STS")
    (cell,) = fabric.cells()
    validate_written(cell)
    assert (cell["error"], cell["flows"][0]["exit_code"]) == (None, 0)
    assert cell["environment"]["offloads"] == {"tso": False, "gso": False, "gro": False}
    assert cell["environment"]["sites"]["r2"] == "STAR"
    directory, report = fabric.directory(cell), fabric.report(cell, 0)
    assert report["end"]["sum_sent"]["bytes"] >= 300 * 1024
    assert report["start"]["connected"][0]["remote_host"] == "10.80.3.2"
    assert 0 < cell["measured"]["rate_bps"] <= 21_000_000  # a link is never faster than requested
    assert cell["measured"]["frames_over_mtu"] == 0
    assert cell["capture"]["snaplen"] == 100 and (directory / "wire.pcap").stat().st_size > 0
    assert (directory / "wire.parquet").stat().st_size > 0
    assert fabric.slices == [] and f"slice {SLICE} is deleted" in out


@pytest.mark.soak
def test_flows_take_the_paths_of_the_multipath_slice_in_turn(fabric):
    grid = {"streams": [3], "ratio": [2], "rate_mbps": [10], "size_bytes": ["200K"]}
    status, out, err = fabric.transfer(topology="multipath", grid=grid)
    assert status == 0, err + out
    nodes, networks = networks_of(fabric)
    assert {name: nics for name, (_, nics) in nodes.items()} == {
        "h1": 1, "r1": 2, "r2": 1, "r3": 2, "r4": 2, "r5": 1, "h2": 1,
    }  # fmt: skip
    assert len(networks) == 8
    (cell,) = fabric.cells()
    assert [flow["path"] for flow in cell["flows"]] == ["red", "green", "blue"]
    assert [flow["exit_code"] for flow in cell["flows"]] == [0, 0, 0]
    assert cell["links"]["l1"]["sent_bytes"] >= fabric.received(cell, "red", "green")
    assert cell["links"]["l2"]["sent_bytes"] >= fabric.received(cell, "blue")
    rates = {each["path"]: each["rate_bps"] for each in cell["measured"]["paths"]}
    assert rates["blue"] <= 10_500_000 and 11_000_000 < rates["red"] <= 21_000_000


@pytest.mark.soak
def test_hash_selects_the_recorded_paths_and_starts_are_measured_at_the_sender_even_if_ssh_is_slow(fabric, monkeypatch):
    """The connections in the capture show the real starts."""

    def start_slowly(nodes, node, programs):
        jobs = []
        for argv, output in programs:
            time.sleep(0.5 * bool(jobs))
            jobs.append(nodes.start(node, argv, output=output))
        return jobs

    monkeypatch.setattr(FabricNodes, "start_all", start_slowly)
    grid = {"streams": [4], "size_bytes": ["100K"]}
    status, out, err = fabric.transfer(topology=fabric.topology(HASH, "hash"), grid=grid)
    assert status == 0, err + out
    _, networks = networks_of(fabric)
    assert (networks["a"], networks["d"], networks["up"]) == ("L2Bridge", "L2Bridge", "L2STS")
    (cell,) = fabric.cells()
    # each link carried at least the data of its flows
    assert all(cell["links"][name]["sent_bytes"] >= fabric.received(cell, name) for name in ("up", "down"))
    assert {flow["path"] for flow in cell["flows"]} <= {"up", "down"}
    assert [flow["exit_code"] for flow in cell["flows"]] == [0] * 4
    assert cell["start_skew"]["reason"] is None
    first = fabric.begins(cell)
    pairs = zip(cell["flows"], first, strict=True)
    assert all(0 <= begins_ns - flow["started_ns"] <= flow["start_error_ns"] for flow, begins_ns in pairs)
    assert cell["start_skew"]["skew_ns"] >= 3 * 500_000_000
    assert abs(max(first) - min(first) - cell["start_skew"]["skew_ns"]) <= cell["start_skew"]["error_ns"]


@pytest.mark.soak
def test_grid_continues_after_lost_connections(fabric):
    """Connections that are lost during the second run are opened again. The first run is not repeated."""
    assert fabric.transfer()[0] == 0
    (first,) = fabric.campaign.glob("transfers/*/cell.json")
    written = first.stat().st_mtime_ns
    fabric.loopback.nodes.drop_every, commands = 40, len(fabric.loopback.nodes.commands)
    status, out, err = fabric.transfer(grid={"algorithm": ["reno", "cubic"]})
    assert status == 0, err + out
    assert "2 of 2: cubic" in out and len(fabric.loopback.nodes.commands) > commands + 2 * 40
    assert sorted(cell["settings"]["algorithm"] for cell in fabric.cells()) == ["cubic", "reno"]
    assert [cell["error"] for cell in fabric.cells()] == [None, None]
    assert first.stat().st_mtime_ns == written
    assert fabric.slices == []


@pytest.mark.soak
def test_packets_are_delayed_on_the_routers(fabric):
    """Without netem, as here, acapella-link is uploaded to the routers."""
    status, out, err = fabric.transfer(grid={"delay_ms": [20]}, delay_on="both")
    assert status == 0, err + out
    (cell,) = fabric.cells()
    assert cell["measured"]["rtt_ns"] >= 20_000_000 - 2 * 50_000, "acapella-link sends packets at most 50 us early"
    assert cell["environment"]["delay"]["by"] == "acapella-link"
    assert cell["environment"]["delay"]["reserved"] is False
    assert cell["measured"]["rtt_base_ns"] < cell["measured"]["rtt_ns"]
    times_ns = [sample["min_rtt_ns"] for sample in cell["tcp_info"] if (sample["bytes_acked"] or 0) > 1000]
    assert min(times_ns, default=20_000_000) >= 19_000_000
    assert fabric.slices == []
