"""Runs one transfer: an iperf3 client and server per flow, started together; samples the TCP state of the clients."""

import json
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.topology import Topology

from ..testbeds.base import Job
from ..testbeds.local.processes import wait_until
from . import routing, tcp_info
from .cleanup import clean_up
from .estimate import ideal_s
from .grid import Cell
from .nodes import Nodes
from .topology import CLIENT_PORT, SERVER_PORT

NS_PER_S = 10**9
LISTEN_S = 20
CONNECT_MS = 10_000
POLL_S = 0.02
SAMPLES = 40  # samples of the TCP state during a transfer at the full rate
MIN_SAMPLE_S, MAX_SAMPLE_S = 0.25, 2.0
TIMEOUT_FACTOR = 20  # timeout of a transfer, relative to its duration at the full rate
SPARE_S = 60  # added to the timeout
END_S = 5
# Print the time of the node before and after a program, to standard error.
TIMED = 'date +%s%N >&2; "$@"; status=$?; date +%s%N >&2; exit "$status"'


@dataclass
class Flow:
    """A flow of a transfer, as in `cell.json`; times are ns since 1970 on the clock of the sender.

    All clients run on the sender, so the difference of two starts contains no clock error. A flow begins to send at
    most `start_error_ns` after `started_ns`; if this is unknown, `start_unknown` is the reason.
    """

    flow: int
    path: str | None
    client_port: int
    server_port: int
    size_bytes: int
    extra_bytes: int  # sent after the requested bytes, so that these arrive before iperf3 stops
    iperf3: str  # file of the client's output
    started_ns: int | None = None
    ended_ns: int | None = None
    start_error_ns: int | None = None
    start_unknown: str | None = None
    exit_code: int | None = None


@dataclass
class Outcome:
    """The result of a transfer. ``error`` is None if every flow sent all bytes."""

    flows: list[Flow]
    samples: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None


class Transfer:
    """The transfer of a run: servers at the receiver, clients at the sender."""

    def __init__(self, nodes: Nodes, topology: Topology, cell: Cell, interval_s: float, extra_bytes: int):
        self._nodes = nodes
        self._topology = topology
        self._cell = cell
        self._interval_s = interval_s
        self._extra_bytes = extra_bytes  # of each flow
        self._servers: list[Job] = []
        self._clients: list[Job] = []
        ideal_time_s = ideal_s(topology, cell) + 10 * cell.delay_ns / 1e9
        self._every_s = min(max(ideal_time_s / SAMPLES, MIN_SAMPLE_S), MAX_SAMPLE_S)
        self.timeout_s = TIMEOUT_FACTOR * ideal_time_s + SPARE_S

    def run(self) -> Outcome:
        """Run the transfer and return the outcome. Raises UserError if a server does not listen."""
        flows = [self._flow(number) for number in range(self._cell.streams)]
        try:
            self._listen(flows)
            programs = [(self._client(flow), flow.iperf3) for flow in flows]
            self._clients = self._nodes.start_all(self._topology.sender, programs)
            outcome = self._watch(flows)
        except BaseException:
            self._end(failed=True)
            raise
        self._end(failed=False)
        return outcome

    def fetch(self, outcome: Outcome, directory: Path) -> None:
        """Move iperf3's output to a directory. An outcome without an error gets that of the first failed flow."""
        for flow in outcome.flows:
            target = directory / flow.iperf3
            self._nodes.fetch(self._topology.sender, flow.iperf3, target)
            report = read_report(target)
            outcome.error = outcome.error or fault_of(flow, report, self._cell.algorithm)
            flow.start_error_ns, flow.start_unknown = start_error(flow, report)

    def _flow(self, number: int) -> Flow:
        client, server = CLIENT_PORT + number, SERVER_PORT + number
        path = self._topology.path_of_flow(number) or routing.path_taken(self._nodes, self._topology, client, server)
        size = self._cell.share(number)
        return Flow(number, path, client, server, size, self._extra_bytes, f"iperf3-{number}.json")

    def _listen(self, flows: list[Flow]) -> None:
        receiver = self._topology.receiver
        for flow in flows:
            argv = ["iperf3", "-s", "-1", "-p", str(flow.server_port), "--forceflush"]
            self._servers.append(self._nodes.start(receiver, argv))

        def settled() -> bool:
            return all("Server listening" in job.log() or job.poll() is not None for job in self._servers)

        wait_until(settled, timeout_s=LISTEN_S)
        for job in self._servers:
            if "Server listening" not in job.log() or job.poll() is not None:
                lines = job.log().strip().splitlines()
                raise UserError(f"iperf3 does not listen: {lines[-1] if lines else ''}", where=f"node {receiver}")

    def _client(self, flow: Flow) -> list[str]:
        """Return the command of a client. Like the paper, it uses -Z: copying data would take much CPU time."""
        address = self._topology.address(self._topology.receiver)
        return [
            *("sh", "-c", TIMED, "sh"),
            *("iperf3", "-c", address, "-p", str(flow.server_port), "--cport", str(flow.client_port)),
            *("-n", str(flow.size_bytes + flow.extra_bytes), "-C", self._cell.algorithm, "-Z", "-J"),
            *("-i", f"{self._interval_s:g}", "--connect-timeout", str(CONNECT_MS + self._cell.delay_ns // 10**6)),
        ]

    def _watch(self, flows: list[Flow]) -> Outcome:
        """Wait for all clients, sampling their sockets."""
        outcome = Outcome(flows)
        begin = time.monotonic()
        next_sample = begin
        while any(flow.exit_code is None for flow in flows):
            time.sleep(POLL_S)
            for flow, job in zip(flows, self._clients, strict=True):
                if flow.exit_code is None:
                    flow.exit_code = job.poll()
            now = time.monotonic()
            if now - begin > self.timeout_s:
                outcome.error = f"not finished after {self.timeout_s:.0f} s"
                break
            if now >= next_sample:
                t_ns = round((now - begin) * 1e9)
                outcome.samples += tcp_info.sample(self._nodes, self._topology.sender, len(flows), t_ns)
                next_sample = now + self._every_s
        for flow, job in zip(flows, self._clients, strict=True):
            flow.started_ns, flow.ended_ns = times_of(job.log())
        return outcome

    def _end(self, *, failed: bool) -> None:
        """Stop all running programs, even if one of them cannot be stopped."""
        jobs = [*self._clients, *self._servers]
        end = time.monotonic() + END_S
        steps = [partial(terminate, job) for job in jobs] + [partial(kill_after, job, end) for job in jobs]
        clean_up(steps, failed=failed)


def terminate(job: Job) -> None:
    """Send SIGTERM to a program, if it runs. Raises UserError."""
    if job.poll() is None:
        job.signal("TERM")


def kill_after(job: Job, end: float) -> None:
    """Kill a program unless it exits before ``end`` (monotonic clock). Raises UserError."""
    if job.wait(max(0, end - time.monotonic())) is None:
        job.signal("KILL")
        job.wait(END_S)


def times_of(log: str) -> tuple[int | None, int | None]:
    """Return the times before and after a program that TIMED printed; None for a missing time."""
    times = [int(line) for line in log.splitlines() if line.isascii() and line.isdigit()]
    return times[0] if times else None, times[1] if len(times) > 1 else None


def read_report(output: Path) -> dict[str, Any]:
    """Return iperf3's output, or an object with the key `error`."""
    try:
        report = json.loads(output.read_bytes())
    except ValueError:
        return {"error": "its output is not JSON"}
    return report if isinstance(report, dict) else {"error": "its output is not an object"}


def start_error(flow: Flow, report: dict[str, Any]) -> tuple[int | None, str | None]:
    """Return the maximum time from the start of the client to the start of its data; or None, and the reason.

    The client's running time is the time that iperf3 measured for the data, plus the time before and after that, in
    which it opens and closes its connections. iperf3 also reports the second in which it connected, which shows whether
    the clock was set meanwhile.
    """
    if flow.started_ns is None or flow.ended_ns is None:
        return None, "the sender did not print the times of the client"
    try:
        connected_s = int(report["start"]["timestamp"]["timesecs"])
        data_ns = round(report["end"]["sum_sent"]["seconds"] * NS_PER_S)
    except (KeyError, TypeError, ValueError):
        return None, "iperf3 reports no time"
    error_ns = flow.ended_ns - flow.started_ns - data_ns
    if error_ns < 0 or not flow.started_ns // NS_PER_S <= connected_s <= flow.ended_ns // NS_PER_S:
        return None, "the clock of the sender was set during the transfer"
    return error_ns, None


def start_skew(flows: list[Flow]) -> dict[str, Any]:
    """Return the time between the first and the last start of flows, as in `cell.json`, or the reason why it is null.

    The data of each flow begins within `start_error_ns` after its start, so the error of a difference is at most the
    largest of these times.
    """
    for flow in flows:
        if flow.start_error_ns is None:
            return {"skew_ns": None, "error_ns": None, "reason": f"flow {flow.flow}: {flow.start_unknown}"}
    starts = [flow.started_ns for flow in flows]
    errors = [flow.start_error_ns for flow in flows]
    return {"skew_ns": max(starts) - min(starts), "error_ns": max(errors), "reason": None}


def fault_of(flow: Flow, report: dict[str, Any], algorithm: str) -> str | None:
    """Return the reason why a flow failed, on one line; None if it sent all bytes."""
    if "error" in report:
        return f"flow {flow.flow}: iperf3: {' '.join(str(report['error']).split())}"
    if flow.exit_code != 0:
        return f"flow {flow.flow}: iperf3 ended with exit code {flow.exit_code}"
    used = report.get("end", {}).get("sender_tcp_congestion")
    if used != algorithm:
        return f"flow {flow.flow}: iperf3 used congestion control {used}, not {algorithm}"
    sent = report.get("end", {}).get("sum_sent", {}).get("bytes", 0)
    if sent < flow.size_bytes:
        return f"flow {flow.flow}: iperf3 sent {sent} of {flow.size_bytes} bytes"
    return None
