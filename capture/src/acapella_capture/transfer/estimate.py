"""Estimates the duration of a grid if all transfers reach the full rate."""

from acapella_core.topology import Topology

from . import measurement
from .grid import Cell
from .settings import TransferSettings

# Measured on two shared CPUs: a run without its transfer (settings, capture, digest), and the probe of a path.
RUN_S = 2.5
PROBE_S = 0.5
# Assumed for FABRIC: a run or a probe needs about 100 commands, each with a round trip over SSH; a new slice is created
# and set up (SET_UP_S), and its nodes are rebooted after CPUs and memory were placed (PLACEMENT_S).
SSH_S = 20
SET_UP_S, PLACEMENT_S = 600, 600


def estimate_s(settings: TransferSettings, missing: list[Cell]) -> float:
    """Return the expected duration of the missing runs and their measurements, if transfers reach the full rate."""
    queues = {measurement.queue_key(cell): cell for cell in missing}
    paths = len(settings.topology.paths)
    probes = sum(paths * (PROBE_S + cell.buffer_bytes * 8 / cell.rate_bps) for cell in queues.values())
    seconds = probes + sum(ideal_s(settings.topology, cell) + RUN_S for cell in missing)
    if missing and settings.testbed == "fabric":
        seconds += SET_UP_S + PLACEMENT_S * settings.nodes["pin"] + SSH_S * (len(missing) + paths * len(queues))
    return seconds


def ideal_s(topology: Topology, cell: Cell) -> float:
    """Return the duration of a run's transfer if its slowest emulated link is always busy.

    If a hash distributes the flows, their paths are unknown: all bytes are assumed to be on the first path.
    """
    loads: dict[str, int] = {}
    for flow in range(cell.streams):
        path = topology.path_of_flow(flow) or next(iter(topology.paths))
        for name, link in topology.emulated().items():
            if topology.is_on_path(link, path):
                loads[name] = loads.get(name, 0) + cell.share(flow)
    links = topology.emulated()
    return max(8 * size / links[name].rate_bps(cell.rate_bps, cell.ratio) for name, size in loads.items())
