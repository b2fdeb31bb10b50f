"""Prints the table in the terminal while a monitor runs."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from acapella_core import names

from . import text

UP, CLEAR = "\x1b[{}A", "\x1b[J"  # ECMA-48: cursor up, and erase to the end of the screen


class Live:
    """Replaces the table of the previous event. If the output is not a terminal, no table is printed.

    ``ports``: their names, which are printed instead of those of DPDK devices.
    """

    def __init__(self, ports: Sequence[str], out: TextIO = sys.stdout):
        self._names = ports
        self._out = out
        self._lines = 0
        self._before: list[Mapping[str, Any]] = []

    def show(self, event: Mapping[str, Any], interval_s: float) -> None:
        """Show the counts of an event, ``interval_s`` after the previous one; report that the program is ready."""
        ports = [{**port, "name": name} for port, name in zip(event["ports"], self._names, strict=True)]
        if event["event"] == "listening":
            names.report(f"acapella: listening on {', '.join(self._names)}")
        if event["event"] != "counts" or not self._out.isatty():
            return
        lines = [*port_lines(ports, self._before or ports, interval_s), *flow_lines(ports)]
        self._out.write(UP.format(self._lines) if self._lines else "")
        self._out.write(CLEAR + "\n".join(lines) + "\n")
        self._out.flush()
        self._lines, self._before = len(lines), ports


def port_lines(ports: Sequence[Mapping], before: Sequence[Mapping], interval_s: float) -> list[str]:
    """Return a line for each port, with the rates since the previous event."""
    counts = ("received", "stamped", "duplicates", "reordered", "foreign", "malformed", "dropped")
    rows = [
        [
            port["name"],
            f"{(port['received'] - old['received']) / interval_s:,.0f}",
            f"{(port['bytes'] - old['bytes']) * 8 / interval_s / 1e6:,.1f}",
            *(text.count(port[name]) for name in counts),
        ]
        for port, old in zip(ports, before, strict=True)
    ]
    return text.table(("port", "packets/s", "Mbit/s", *counts), rows)


def flow_lines(ports: Sequence[Mapping]) -> list[str]:
    """Return a line for each flow in an event."""
    rows = [
        [
            f"{number}:{flow['flow']}" if len(ports) > 1 else str(flow["flow"]),
            *(text.count(flow[name]) for name in ("packets", "missing", "duplicates", "reordered")),
            *(text.time(flow[name]) for name in ("latency_ns", "jitter_ns")),
        ]
        for number, port in enumerate(ports)
        for flow in port["flows"]
    ]
    header = ("flow", "packets", "missing", "duplicates", "reordered", "latency", "jitter")
    return ["", *text.table(header, rows)] if rows else []
