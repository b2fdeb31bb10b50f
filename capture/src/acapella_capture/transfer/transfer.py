"""One transfer: an iperf3 client and server per flow, started together, with samples of the senders' TCP state."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.topology import Topology

from ..testbeds.base import Job
from ..testbeds.local.processes import wait_until
from . import routing, tcp_info
from .estimate import ideal_s
from .grid import Cell
from .nodes import Nodes
from .topology import CLIENT_PORT, SERVER_PORT

LISTEN_S = 20
CONNECT_MS = 10_000
POLL_S = 0.02
SAMPLES = 40  # of the TCP state in the time that a transfer needs at the full rate
LEAST_SAMPLE_S, MOST_SAMPLE_S = 0.25, 2.0
SLOWEST = 20  # a transfer may take this many times the time at the full rate, and
SPARE_S = 60
END_S = 5


@dataclass
class Flow:
    """A flow of a transfer, as in `cell.json`; times are ns since 1970."""

    flow: int
    path: str | None
    client_port: int
    server_port: int
    size_bytes: int
    iperf3: str
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None


@dataclass
class Outcome:
    """The result of a transfer; `error` is None if every flow sent everything."""

    flows: list[Flow]
    samples: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None


class Transfer:
    """The transfer of a cell."""

    def __init__(self, nodes: Nodes, topology: Topology, cell: Cell, interval_s: float):
        self._nodes = nodes
        self._topology = topology
        self._cell = cell
        self._interval_s = interval_s
        self._servers: list[Job] = []
        self._clients: list[Job] = []
        least_s = ideal_s(topology, cell) + 10 * cell.delay_ns / 1e9
        self._every_s = min(max(least_s / SAMPLES, LEAST_SAMPLE_S), MOST_SAMPLE_S)
        self.timeout_s = SLOWEST * least_s + SPARE_S

    def run(self) -> Outcome:
        """Send everything and return the outcome. Raises UserError if a server does not listen."""
        flows = [self._flow(number) for number in range(self._cell.streams)]
        try:
            self._listen(flows)
            for flow in flows:
                flow.started_ns = time.time_ns()
            programs = [(self._client(flow), flow.iperf3) for flow in flows]
            self._clients = self._nodes.start_all(self._topology.sender, programs)
            outcome = self._watch(flows)
        finally:
            self._end()
        return outcome

    def fetch(self, outcome: Outcome, directory: Path) -> None:
        """Move iperf3's output to a directory, and set the error of the outcome to that of the first failed flow."""
        for flow in outcome.flows:
            target = directory / flow.iperf3
            self._nodes.fetch(self._topology.sender, flow.iperf3, target)
            outcome.error = outcome.error or fault_of(flow, target, self._cell.algorithm)

    def _flow(self, number: int) -> Flow:
        client, server = CLIENT_PORT + number, SERVER_PORT + number
        path = self._topology.path_of_flow(number) or routing.path_taken(self._nodes, self._topology, client, server)
        return Flow(number, path, client, server, self._cell.share(number), f"iperf3-{number}.json")

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
        """Return the command of a client; -Z as in the paper, because copies take time of a small machine."""
        address = self._topology.address(self._topology.receiver)
        return [
            *("iperf3", "-c", address, "-p", str(flow.server_port), "--cport", str(flow.client_port)),
            *("-n", str(flow.size_bytes), "-C", self._cell.algorithm, "-Z", "-J"),
            *("-i", f"{self._interval_s:g}", "--connect-timeout", str(CONNECT_MS + self._cell.delay_ns // 10**6)),
        ]

    def _watch(self, flows: list[Flow]) -> Outcome:
        """Wait for all clients, sampling their sockets."""
        outcome = Outcome(flows)
        begin = time.monotonic()
        next_sample = begin
        while any(flow.ended_ns is None for flow in flows):
            time.sleep(POLL_S)
            for flow, job in zip(flows, self._clients, strict=True):
                if flow.ended_ns is None and (status := job.poll()) is not None:
                    flow.ended_ns, flow.exit_code = time.time_ns(), status
            now = time.monotonic()
            if now - begin > self.timeout_s:
                outcome.error = f"not finished after {self.timeout_s:.0f} s"
                break
            if now >= next_sample:
                t_ns = round((now - begin) * 1e9)
                outcome.samples += tcp_info.sample(self._nodes, self._topology.sender, len(flows), t_ns)
                next_sample = now + self._every_s
        return outcome

    def _end(self) -> None:
        """Stop what still runs."""
        running = [job for job in (*self._clients, *self._servers) if job.poll() is None]
        for name in ("TERM", "KILL"):
            for job in running:
                job.signal(name)
            end = time.monotonic() + END_S
            running = [job for job in running if job.wait(max(0, end - time.monotonic())) is None]


def fault_of(flow: Flow, output: Path, algorithm: str) -> str | None:
    """Return why a flow failed, in one line; None if it sent everything."""
    try:
        report = json.loads(output.read_bytes())
    except ValueError:
        report = {"error": "its output is not JSON"}
    if not isinstance(report, dict):
        report = {"error": "its output is not an object"}
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
