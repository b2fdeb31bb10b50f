"""Compares Acapella with tshark, nfstream, nfpcapd and argus on one sample: speed, and the flows that each finds.

The same connections are generated without encapsulation and in FABRIC's encapsulations. The flows of the capture
without encapsulation are the reference: directions with addresses, protocol and ports.
"""

from pathlib import Path

from ..programs import Bench
from .tools import TOOLS, Flow, Tool

PLAIN, NO_ENCAPSULATION = "plain", "no encapsulation"
ENCAPSULATIONS = {
    "vlan": "VLAN tag",
    "mpls": "VLAN, MPLS label",
    "pw": "VLAN, MPLS label, pseudowire",
    "fabric": "VLAN, two MPLS labels, pseudowire",
}
FRAMES_DIVISOR = 10  # captures whose flows are compared contain a tenth of the frames


def run(bench: Bench) -> list[dict]:
    """Return the speed of each tool on one core, and the share of flows that it sees in each encapsulation."""
    frames = bench.scale["comparators"]
    samples = {name: bench.generate(frames, name) for name in ("fabric", PLAIN)}
    captures = {name: bench.generate(frames // FRAMES_DIVISOR, name) for name in (PLAIN, *ENCAPSULATIONS)}
    reference = TOOLS[0].flows(bench, captures[PLAIN])
    rows = [
        {"measured": "frames", "value": frames, "unit": "frames", "note": "one core"},
        {
            "measured": "flows",
            "value": len(reference),
            "unit": "flows",
            "note": f"directed flows, in {frames // FRAMES_DIVISOR:,} frames of each encapsulation",
        },
    ]
    for tool in TOOLS:
        if reason := tool.missing():
            rows.append({"measured": tool.name, "value": "skipped", "note": reason})
            continue
        rows.append({"measured": tool.name, "value": tool.version(), "note": tool.about})
        rows += [rate_row(bench, tool, name, path, frames) for name, path in samples.items()]
        rows += [share_row(tool, name, reference, tool.flows(bench, path)) for name, path in captures.items()]
    return rows


def rate_row(bench: Bench, tool: Tool, name: str, sample: Path, frames: int) -> dict:
    """Return the row on the speed of a tool, including its startup."""
    runs = [bench.measure(words) for words in tool.commands(sample, bench.directory)]
    wall_s, cpu_s = sum(run.wall_s for run in runs), sum(run.cpu_s for run in runs)
    note = f"{wall_s:.1f} s including startup, CPU time {cpu_s:.1f} s"
    measured = f"  {ENCAPSULATIONS.get(name, NO_ENCAPSULATION)}"
    return {"measured": measured, "value": round(frames / wall_s), "unit": "frames/s", "note": note}


def share_row(tool: Tool, name: str, reference: set[Flow], found: set[Flow]) -> dict:
    """Return the row on the share of the flows of the reference that a tool found."""
    extra = len(found - reference)
    return {
        "measured": f"  flows seen, {ENCAPSULATIONS.get(name, NO_ENCAPSULATION)}",
        "value": 100 * len(found & reference) / len(reference),
        "unit": "%",
        "note": f"{extra} others" if extra else "",
    }
