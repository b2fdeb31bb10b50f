"""Predicts rates and completion times of the iperf3 processes of a run, from the links and paths of its cell.json."""

from collections.abc import Sequence
from fractions import Fraction

from . import maxmin
from .cells import Fault, Process, Run
from .network import of_cell

HEADERS = 66  # bytes of a frame with TCP payload that are not payload: Ethernet, IPv4, TCP with timestamps
MSS = 1448  # usual payload of a full segment, if iperf3 does not report it
ADJUSTED = 2  # number of links whose best ratio is computed


def predict(run: Run, faults: list[Fault], on_wire: Sequence[dict] = ()) -> list[dict]:
    """Return a row for each process of a complete run with links and paths; [] for other runs.

    ``on_wire``: rows of wire.measure. If the receiver acknowledged all requested bytes of each process, ends are
    predicted for these bytes, otherwise for those that iperf3 transferred.
    """
    cell = run.cell
    if run.error is not None or not cell.get("links") or not cell.get("paths"):
        return []
    try:
        network = of_cell(cell["links"], cell["paths"])
        paths = [network.paths[process.entry.get("path") or ""] for process in run.processes]
    except (ValueError, KeyError) as error:
        where = f"{run.directory.parent.name}/{run.directory.name}/cell.json" if run.directory else "cell.json"
        reason = f"no prediction: {error}" if isinstance(error, ValueError) else f"no prediction: unknown path {error}"
        faults.append(Fault(run.cell_id, run.run, where, 1, reason))
        return []
    share = Fraction(1, 1) * min(process.test.mss or MSS for process in run.processes)
    share /= share + HEADERS
    capacity = {hop: rate * share for hop, rate in network.capacity().items()}
    requested = [maxmin.Flow(path, size_requested(each)) for path, each in zip(paths, run.processes, strict=True)]
    all_acknowledged = len(on_wire) == len(run.processes) and all(row["done_ns"] is not None for row in on_wire)
    transferred = [maxmin.Flow(path, size_of(each.test)) for path, each in zip(paths, run.processes, strict=True)]
    flows = requested if all_acknowledged else transferred
    best = best_ratio(requested, capacity, emulated_links(cell["links"]))
    shares, ends = maxmin.fair_shares(flows, capacity), maxmin.completions(flows, capacity)
    return [
        {
            **{"cell_id": run.cell_id, "run": run.run, "flow": process.flow, "path": process.entry["path"]},
            "size_bytes": flow.size_bytes,
            "rate_bps": None if rate.rate_bps is None else float(rate.rate_bps),
            "bottleneck": rate.bottleneck[0] if rate.bottleneck else None,
            "predicted_ns": None if end is None else round(end.time_s * 10**9),
            "best_ratio": None if best is None else float(best[0]),
            "together": None if best is None else best[1],
        }
        for process, flow, rate, end in zip(run.processes, flows, shares, ends, strict=True)
    ]


def size_of(test) -> int:
    """Return the bytes that a process transferred."""
    return sum(stream.sent_bytes if stream.received_bytes is None else stream.received_bytes for stream in test.streams)


def size_requested(process: Process) -> int:
    """Return the bytes that a process was asked to send; the transferred bytes if it sent for a fixed time."""
    return process.entry.get("size_bytes") or process.test.requested_bytes or size_of(process.test)


def emulated_links(links: dict) -> list[str]:
    """Return the names of emulated links: first those whose rate is multiplied by the ratio, then by name.

    cell.json of earlier versions does not identify links whose rate is multiplied.
    """
    emulated = [name for name, link in links.items() if link.get("emulated")]
    return sorted(emulated, key=lambda name: (not links[name].get("times_ratio"), name))


def best_ratio(flows: list[maxmin.Flow], capacity: dict, emulated: list[str]) -> tuple[Fraction, bool] | None:
    """Return the best ratio of the two emulated links that flows cross, and whether all flows end together with it.

    It is the rate of the link named first in ``emulated`` over the rate of the other, in the proportional design.
    None if there are fewer or more than two such links with a rate, flows cross one in both directions, or a flow has
    no bytes.
    """
    crossed = {hop for flow in flows for hop in flow.links}
    hops = [hop for name in emulated for hop in capacity if hop[0] == name and hop in crossed]
    if len(hops) != ADJUSTED or hops[0][0] == hops[1][0] or not all(flow.size_bytes for flow in flows):
        return None
    design = maxmin.proportional(flows, capacity, hops)
    return design.ratio(*hops), design.together
