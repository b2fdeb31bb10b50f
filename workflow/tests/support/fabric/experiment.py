"""The slice of a user's own experiment on a FABRIC on loopback: nodes with shared NICs, one network per site."""

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path

from acapella_testing.fabric.loopback import Loopback, loopback_fabric
from acapella_testing.fabric.orchestrator import HOST, LEASE, StoredSlice
from acapella_testing.waiting import wait_until

from acapella_capture.testbeds.fabric.session import GRAPH_LOCK

SLICE = "experiment"
HOSTS = HOST | {"nics": HOST["nics"] | {"SharedNIC-ConnectX-6": 4}}
SITES = {"STAR": [HOSTS, HOSTS], "UTAH": [HOSTS], "WASH": [HOSTS]}
NODES = {"n1": "STAR", "n2": "STAR", "n3": "UTAH"}


def mine(fabric: Loopback) -> StoredSlice:
    """Return the user's slice."""
    return next(each for each in fabric.orchestrator.alive() if each.name == SLICE)


@contextlib.contextmanager
def fabric_with_experiment(directory: Path, tags: tuple[str, ...], nodes: dict[str, str] = NODES) -> Iterator[Loopback]:
    """Run a FABRIC whose project has these permissions, with the user's slice."""
    with loopback_fabric(directory, SITES) as fabric:
        fabric.orchestrator.tags = tags
        experiment(fabric, nodes)
        yield fabric


def experiment(fabric: Loopback, nodes: dict[str, str] = NODES) -> None:
    """Create the user's slice with FABRIC's client. `nodes` has the site of each node."""
    session = fabric.testbed("unused").session
    with GRAPH_LOCK:
        created = session.fablib().new_slice(name=SLICE)
        for site in dict.fromkeys(nodes.values()):
            ends = []
            for name in [name for name, place in nodes.items() if place == site]:
                node = created.add_node(name=name, site=site, cores=2, ram=8, disk=10)
                node.add_component(model="NIC_Basic", name="nic")
                ends.append(node.get_interface(name=f"{name}-nic-p1"))
            created.add_l2network(name=f"net-{site}", interfaces=ends, type="L2Bridge")
        graph, key = created.get_fim_topology().serialize(), created.get_slice_public_key().strip()
        session.fablib().remove_slice_from_cache(created)
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=24)
    session.call_manager("cannot create", lambda manager: manager.create_slice(
        name=SLICE, graph_model=graph, ssh_keys=[key], lifetime=24, lease_end_time=end.strftime(LEASE)))  # fmt: skip
    slices = fabric.testbed("unused").slices
    wait_until(lambda: bool(slices.list_project()) and mine(fabric).state == "StableOK")
