"""The slice of a grid on a FABRIC on loopback: placement of nodes, rejected settings, and what remains afterwards."""

import signal
from pathlib import Path

import pytest
from acapella_testing.fabric.loopback import interrupt_creation
from acapella_testing.fabric.orchestrator import TAGS
from acapella_testing.fabric.transfers import DUMBBELL, SLICE
from acapella_testing.waiting import interrupt_when, wait_until

from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric.network_slice import NetworkSlice
from acapella_capture.testbeds.fabric.networks import SlicePlan, plan_slice
from acapella_capture.testbeds.fabric.nodes.tuning import cpu_list
from acapella_capture.transfer import fabric as fabric_grid
from acapella_capture.transfer.settings import parse_transfer_settings
from acapella_core import topology
from acapella_core.errors import UserError

CREATE = "/slices/creates"
PLACED = {"pin": True}
NODES = ["h1", "r1", "h2"]


def test_plan_lists_slice_nodes_networks_and_time_without_a_request(fabric):
    status, out, _ = fabric.transfer("--dry-run", topology="multipath", nodes=PLACED)
    assert status == 0 and not fabric.campaign.exists()
    lines = out.splitlines()
    assert f"slice {SLICE}, deleted at the end; lease: 24 h, extended before it ends" in lines
    assert "node r1 at LOSA: 2 dedicated NICs (NIC_ConnectX_6, else NIC_ConnectX_5)" in lines
    assert "network link-l1: L2STS, r3 (r3-nic2-p1) - r4 (r4-nic1-p1), 10.80.4.0/24" in lines
    assert any(line.startswith("7 nodes, each with 2 cores, 8 GB of memory, 10 GB of disk") for line in lines)
    assert any("Slice.Multisite" in line for line in lines if line.startswith("project permissions"))
    assert any(line.startswith("1 runs, 1 missing; about 21 min") for line in lines)
    assert not any(line.startswith("missing:") for line in lines)
    assert fabric.orchestrator.requests == []


def check_placement(fabric) -> None:
    """Check that the only run had nodes whose CPUs and memory were placed before their reboot and checked after it."""
    (cell,) = fabric.cells()
    for node in NODES:
        operations = [operation for operation, each in fabric.orchestrator.operations if each == node]
        reboot = operations.index("reboot")
        assert operations.index("cpupin") < reboot and operations.index("numatune") < reboot
        assert "cpuinfo" in operations[reboot:] and "numainfo" in operations[reboot:]
        found = cell["environment"]["placement"][node]
        assert (found["numa_node"], found["pinned"]) == ("1", True)
        assert set(found["cpus"]) <= set(range(8, 16)) and len(found["cpus"]) == 2
        assert found["memory_share"] > 0.99


@pytest.fixture
def short_lease(monkeypatch) -> dict:
    """Have the lease checked before and after each run; return the settings of a lease that is too short."""
    monkeypatch.setattr(fabric_grid, "LEASE_CHECK_S", 0)
    monkeypatch.setattr(fabric_grid, "LEASE_MARGIN_S", 2 * 3600)
    return {"lease_h": 1}


@pytest.mark.soak
def test_kept_slice_is_reused_with_its_topology_and_deleted_on_request(fabric, short_lease):
    status, out, err = fabric.transfer("--keep", nodes=PLACED, fabric=short_lease)
    assert status == 0, err + out
    assert len(fabric.orchestrator.renewals) == 1, "the renewed lease suffices for the check after the run"
    check_placement(fabric)
    assert fabric.slices == [SLICE]
    assert f"slice {SLICE} is kept; delete it with the same command and --release" in out
    reboots = [node for operation, node in fabric.orchestrator.operations if operation == "reboot"]
    assert sorted(reboots) == sorted(NODES)
    status, out, err = fabric.transfer(grid={"algorithm": ["cubic"]}, nodes=PLACED, keep=True)
    assert status == 0, err + out
    assert f"slice {SLICE} is reused" in out
    assert fabric.orchestrator.posts(CREATE) == 1 and fabric.slices == [SLICE]
    assert [node for operation, node in fabric.orchestrator.operations if operation == "reboot"] == reboots
    assert sorted(cell["settings"]["algorithm"] for cell in fabric.cells()) == ["cubic", "reno"]
    error = fabric.failure(topology=fabric.topology(DUMBBELL.replace("SALT", "MASS"), "other"))
    assert "its nodes or networks differ from the topology" in error and "--release" in error
    assert fabric.orchestrator.posts(CREATE) == 1 and fabric.slices == [SLICE]
    status, out, _ = fabric.transfer("--release")
    assert status == 0 and f"slice {SLICE} is deleted" in out
    assert fabric.slices == []
    status, out, _ = fabric.transfer("--release")
    assert status == 0 and f"no slice {SLICE}" in out


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ({"fail": {"cpupin"}}, "cannot pin node h1: POA"),
        ({"ignore": {"cpupin"}}, "node h1: CPUs are not pinned to NUMA node 1"),
        ({"ignore": {"numatune"}}, "node h1: 0 % of the memory is on NUMA node 1"),
        ({"taken": 7}, "node h1: CPUs are not pinned to NUMA node 1"),
    ],
)
def test_placement_that_fails_is_an_error_and_the_slice_is_deleted(fabric, faults, why):
    for name, value in faults.items():
        setattr(fabric.orchestrator.placement_faults, name, value)
    assert why in fabric.failure(nodes=PLACED)
    assert fabric.orchestrator.slices
    assert fabric.slices == []
    assert fabric.cells() == []


@pytest.mark.soak
def test_node_that_does_not_boot_is_an_error_and_the_slice_is_deleted(fabric):
    fabric.networks.down.add("r1")
    assert "node r1: did not reboot" in fabric.failure(nodes=PLACED, fabric={"wait_timeout_s": 3})
    assert fabric.slices == []
    assert fabric.cells() == []


def network_slice(fabric) -> tuple[NetworkSlice, SlicePlan, ResourceRequest]:
    """Return the slice of a campaign that is not created yet, its plan, and the request for its nodes."""
    plan = plan_slice(topology.read(Path(fabric.topology())))
    return NetworkSlice(fabric.loopback.settings(), "one"), plan, ResourceRequest(len(plan.nodes), disk_gb=10)


def test_slice_created_although_the_status_is_an_error_is_used(fabric):
    """FABRIC also lists the slice late."""
    fabric.orchestrator.faults.create_status = [503] * 3 + [500]
    fabric.orchestrator.faults.hidden = 4
    created, plan, request = network_slice(fabric)
    created.open(plan, request)
    assert fabric.slices == [SLICE] and len(fabric.orchestrator.slices) == 1
    created.release()
    assert fabric.slices == []


def test_slice_whose_creation_is_interrupted_is_deleted_although_it_is_listed_late(fabric, monkeypatch):
    created, plan, request = network_slice(fabric)
    interrupt_creation(fabric, created.session, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        created.open(plan, request)
    assert fabric.slices == [SLICE]
    created.release()
    assert fabric.slices == []


@pytest.mark.parametrize("keep", [(), ("--keep",)])
def test_interrupt_during_creation_leaves_no_slice(fabric, keep):
    """FABRIC does not delete a slice that is being created, so the command waits until the slice is stable."""
    with fabric.loopback.interrupted_while_stuck(lambda: fabric.slices):
        assert fabric.transfer(*keep)[0] == 130
    assert fabric.orchestrator.slices and fabric.slices == []


@pytest.mark.soak
@pytest.mark.parametrize(("number", "keep"), [(signal.SIGTERM, ()), (signal.SIGHUP, ()), (signal.SIGINT, ("--keep",))])
def test_interrupt_during_a_transfer_deletes_the_slice_unless_it_is_kept(fabric, number, keep):
    nodes = fabric.loopback.nodes
    with interrupt_when(lambda: list(nodes.home("h1").rglob("iperf3-0.json")), number):
        status, _, err = fabric.transfer(*keep, grid={"size_bytes": ["500M"]})
    assert status == 130, err
    assert fabric.slices == ([SLICE] if keep else [])
    assert fabric.cells() == []
    assert list((fabric.campaign / "transfers").glob(".cell-*")) == []
    if keep:
        wait_until(lambda: not nodes.running(), "a program still runs")
        assert nodes.started()


def test_second_process_of_a_campaign_is_refused(fabric):
    fabric.campaign.mkdir(parents=True)
    with fabric_grid.locked(fabric.campaign):
        assert "another process is running transfers of this campaign" in fabric.failure()
        assert "another process is running transfers of this campaign" in fabric.failure("--release")
    assert fabric.slices == []
    assert fabric.orchestrator.posts(CREATE) == 0


@pytest.mark.soak
def test_slice_that_cannot_be_deleted_is_named_with_the_command_that_deletes_it(fabric, short_lease):
    """FABRIC also shortens the lease, which is a warning while runs are missing."""
    fabric.orchestrator.faults.kept, fabric.orchestrator.faults.lease_limit_h = SLICE, 1
    status, out, err = fabric.transfer(fabric=short_lease | {"release_timeout_s": 1})
    assert "warning: testbed fabric: FABRIC shortened the lease" in out
    assert status == 2 and f"slice {SLICE} may still exist" in err and "--release" in err, err + out
    assert len(fabric.cells()) == 1, "the finished run is kept"
    status, out, err = fabric.transfer(grid={"algorithm": ["nosuch"]}, fabric={"release_timeout_s": 1})
    assert status == 2 and "no congestion control nosuch" in err and f"slice {SLICE} may still exist" in out
    fabric.orchestrator.faults.kept = None
    assert fabric.transfer("--release")[0] == 0
    assert fabric.slices == []


def test_slice_without_resources_is_deleted(fabric):
    fabric.orchestrator.faults.refuse = True
    assert "Insufficient resources" in fabric.failure()
    assert fabric.cells() == []
    assert fabric.orchestrator.slices and fabric.slices == []


def test_missing_resources_and_permissions_are_errors_before_a_slice_is_requested(fabric):
    fabric.orchestrator.sites["SALT"][0]["nics"] = {"SmartNIC-ConnectX-6": 0}
    assert "site SALT: no host for node h2 with 1 free NIC" in fabric.failure()
    fabric.orchestrator.tags = TAGS
    assert "the project lacks the permission Slice.Multisite" in fabric.failure()
    fabric.orchestrator.tags = (*TAGS, "Slice.Multisite")
    assert "no site 'NONE' that is in use" in fabric.failure(
        topology=fabric.topology(DUMBBELL.replace("SALT", "NONE"), "unknown")
    )
    assert fabric.slices == []
    assert fabric.cells() == []
    assert fabric.orchestrator.posts(CREATE) == 0


def test_missing_token_is_a_one_line_error_and_the_output_mentions_no_slice(fabric):
    fabric.loopback.tokens.unlink()
    status, out, err = fabric.transfer()
    assert status == 2 and "cannot read the token file" in err and len(err.strip().splitlines()) == 1
    assert "slice" not in out
    assert fabric.orchestrator.requests == []


def test_topology_that_is_unusable_on_fabric_is_an_error(fabric):
    assert "nodes.z: FABRIC rejects names of one character" in fabric.failure(
        topology=fabric.topology(DUMBBELL.replace("h2", "z"), "short")
    )
    assert "nodes.h2.site: missing" in fabric.failure(
        topology=fabric.topology(DUMBBELL.replace(", site: SALT", ""), "without")
    )
    assert fabric.cells() == []
    assert fabric.orchestrator.requests == []


def test_local_slice_cannot_be_kept(fabric):
    with pytest.raises(UserError, match=r"transfer\.keep: a slice on testbed local is always removed"):
        parse_transfer_settings({"transfer": {"testbed": "local", "keep": True, "grid": {}}})
    assert "a local slice is always removed" in fabric.failure("--keep", testbed="local")
    assert "a local slice is always removed" in fabric.failure("--release", testbed="local")
    assert fabric.orchestrator.requests == []


def test_cpu_list_reads_ranges_and_numbers():
    assert cpu_list("0-2,5,64-65") == {0, 1, 2, 5, 64, 65}
    assert cpu_list("") == set()
