"""Plans and runs a grid on FABRIC, and deletes a kept slice."""

import contextlib
import importlib.util
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from acapella_core import names

from ..control.coordinator import campaign_lock
from ..testbeds.fabric import credentials, requirements
from ..testbeds.fabric.network_slice import NetworkSlice
from ..testbeds.fabric.networks import NodePlan, plan_slice, required_tags
from ..testbeds.local.sandbox import interrupt
from .cleanup import reported_error
from .estimate import estimate_s
from .fabric_nodes import FabricNodes, resource_request
from .grid import Cell
from .results import Results
from .runner import Runner, run_grid
from .settings import TransferSettings

LOCK = ".transfer.lock"
LEASE_MARGIN_S = 1800
LEASE_CHECK_S = 600


def run_fabric(
    settings: TransferSettings, campaign: str, runs: list[Cell], missing: list[Cell], results: Results
) -> None:
    """Perform the missing runs on a slice on FABRIC. Raises UserError."""
    with ended_by_signals(), results.part() as scratch:
        nodes = FabricNodes(settings, campaign, report)
        try:
            lease = Lease(nodes, estimate_s(settings, missing))
            with Runner(nodes, settings, runs, scratch) as runner:
                runner.prepare(missing)
                run_grid(runner, runs, missing, results, lease.report)
        except BaseException:
            with reported_error(report):
                nodes.close()
            raise
        nodes.close()


def report(line: str) -> None:
    """Print a line of progress."""
    names.report(line, sys.stdout)


class Lease:
    """Extends the lease of a slice while runs are missing."""

    def __init__(self, nodes: FabricNodes, expected_s: float):
        self._nodes = nodes
        self._expected_s = expected_s
        self._begin = time.monotonic()
        self._until = 0.0
        self._check()

    def report(self, line: str) -> None:
        """Print the progress after a run, and check the lease if LEASE_CHECK_S have passed since the last check."""
        report(line)
        if time.monotonic() > self._next:
            self._check()

    def _check(self) -> None:
        """Extend the lease if it ends too early, by more than needed: FABRIC reconfigures a slice at each renewal."""
        now = time.monotonic()
        self._next = now + LEASE_CHECK_S
        left_s = max(0.0, self._expected_s - (now - self._begin))
        if now + left_s + LEASE_MARGIN_S / 2 > self._until:
            seconds = left_s + LEASE_MARGIN_S
            self._until = now + seconds if self._nodes.extend_lease(seconds) else 0.0


def locked(campaign: Path) -> contextlib.AbstractContextManager:
    """Prevent other processes from running transfers of a campaign. Raises UserError if one does already."""
    return campaign_lock(campaign, LOCK, "is running transfers of this campaign")


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP (the terminal was closed) like Ctrl-C."""
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def release(settings: TransferSettings, campaign: Path) -> None:
    """Delete the slice of a campaign that a previous command kept or left. Raises UserError if FABRIC rejects this."""
    kept = NetworkSlice(settings.fabric, campaign.resolve().name)
    with locked(campaign) if campaign.is_dir() else contextlib.nullcontext():
        kept.session.check()
        if not kept.exists():
            print(f"no slice {kept.name}")
            return
        kept.release()
    print(f"slice {kept.name} is deleted")


def describe(settings: TransferSettings, campaign: str) -> list[str]:
    """Return the lines of a dry run: the slice, the permissions that it needs, and what this machine lacks."""
    plan, request, fabric = plan_slice(settings.topology), resource_request(settings), settings.fabric
    found = credentials.find(fabric.fabric_rc)
    tags = ", ".join(" or ".join(tag_names) for tag_names in required_tags(fabric, plan, request))
    pinned = ", pinned to the NUMA node of the NIC" if settings.nodes["pin"] else ""
    end = "kept at the end" if settings.keep else "deleted at the end"
    lines = [
        f"testbed fabric, configured by {found.rc or 'the environment (no fabric_rc found)'}",
        f"slice {NetworkSlice(fabric, campaign).name}, {end}; lease: {fabric.lease_h} h, extended before it ends",
        f"{request.instances} nodes, each with {request.cores} cores, {request.ram_gb} GB of memory, "
        f"{request.disk_gb} GB of disk ({fabric.image}){pinned}",
    ]
    lines += [describe_node(node, fabric.nics) for node in plan.nodes]
    for network in plan.networks:
        ends = " - ".join(f"{node} ({name})" for node, name in network.interfaces.items())
        subnet = f"10.80.{settings.topology.links[network.link].number}.0/24"
        lines.append(f"network {network.name}: {network.kind}, {ends}, {subnet}")
    lines.append(f"project permissions: {tags}")
    missing = [] if importlib.util.find_spec(requirements.CLIENT) else ["FABRIC's client: make setup-fabric"]
    return lines + [f"missing: {line}" for line in (*missing, *found.missing())]


def describe_node(node: NodePlan, nics: list[str]) -> str:
    """Return the line of a dry run that describes a node."""
    return f"node {node.name} at {node.site}: {node.nics} dedicated NIC{'s' * (node.nics > 1)} ({', else '.join(nics)})"
