"""Samples the state of the senders' sockets (the kernel's TCP_INFO) with ss."""

import re
from typing import Any

from .nodes import Nodes
from .topology import CLIENT_PORT, SERVER_PORT

NS_PER_MS = 1_000_000
FIELDS = {  # key of `cell.json`: name in the output of ss, and its unit
    "min_rtt_ns": ("minrtt", NS_PER_MS),
    "rtt_ns": ("rtt", NS_PER_MS),
    "cwnd_segments": ("cwnd", 1),
    "snd_wnd_bytes": ("snd_wnd", 1),  # the window that the receiver advertises
    "busy_ns": ("busy", NS_PER_MS),
    "rwnd_limited_ns": ("rwnd_limited", NS_PER_MS),
    "sndbuf_limited_ns": ("sndbuf_limited", NS_PER_MS),
    "bytes_acked": ("bytes_acked", 1),
    "bytes_retrans": ("bytes_retrans", 1),
}
ZERO_IF_ABSENT = ("rwnd_limited_ns", "sndbuf_limited_ns", "bytes_retrans")  # ss omits these if they are 0
LIMITED_SHARE = 0.05  # of the busy time; senders that wait for the window only at the start do not exceed it


def sample(nodes: Nodes, sender: str, flows: int, t_ns: int) -> list[dict[str, Any]]:
    """Return a sample of each data connection that exists. Raises UserError if ss fails."""
    ports = f"( dport >= :{SERVER_PORT} and dport < :{SERVER_PORT + flows} )"
    shown = nodes.checked(sender, ["ss", "-tinHO", *ports.split()])
    found = [parse(line, flows, t_ns) for line in shown.splitlines()]
    return sorted((entry for entry in found if entry), key=lambda entry: entry["flow"])


def parse(line: str, flows: int, t_ns: int) -> dict[str, Any] | None:
    """Return the sample of a line of ss; None for iperf3's control connection, and for a line without two addresses."""
    ports = re.findall(r"\S+:(\d+)\s", line)
    if len(ports) < 2:
        return None
    flow = int(ports[0]) - CLIENT_PORT
    if not 0 <= flow < flows:  # the control connection has a port that the kernel selected
        return None
    values: dict[str, Any] = {"flow": flow, "t_ns": t_ns}
    for key, (name, unit) in FIELDS.items():
        value = re.search(rf"\s{name}:(\d+(?:\.\d+)?)", line)
        values[key] = round(float(value[1]) * unit) if value else 0 if key in ZERO_IF_ABSENT else None
    return values


def is_window_limited(samples: list[dict[str, Any]]) -> bool:
    """Return whether a sender waited for the receiver's window or its own buffer for a share of its busy time."""
    last = {entry["flow"]: entry for entry in samples}
    return any(
        entry["busy_ns"] and entry["rwnd_limited_ns"] + entry["sndbuf_limited_ns"] > LIMITED_SHARE * entry["busy_ns"]
        for entry in last.values()
    )
