"""Performs the missing runs of a grid on a slice. The result of each run is written before the next run begins."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acapella_core import names
from acapella_core.errors import OUTSIDE, UserError, exit_code_of
from acapella_core.topology import Topology

from ..testbeds.local.processes import wait_until
from . import capture, measurement, routing, tcp_info
from .cleanup import clean_up
from .delay import Counts, Delays, LinkDelays, NetemDelays, flags_of_counts, has_netem
from .emulation import Emulation
from .grid import Cell
from .hosts import UNSENT_BYTES, Hosts
from .measurement import Measurements
from .nodes import Nodes
from .results import MAX_ATTEMPTS, Results
from .settings import TransferSettings
from .transfer import Outcome, Transfer, start_skew

VERSION = 1
IDLE_S = 30  # timeout for the queues to become empty before a transfer
BACKGROUND_S = 0.2
BACKGROUND_SHARE = 0.001  # a run is flagged if other traffic exceeds this share of a link's rate
WARM_UP_BYTES = 1 << 20
MAX_CONSECUTIVE_FAILURES = 10  # then the slice is considered broken
BLOCK_BYTES = 128 << 10  # of iperf3
WMEM_BYTES = 4 << 20  # default maximum of tcp_wmem, which mode published keeps


@dataclass(frozen=True)
class Snapshot:
    """Counts of the emulated links (bytes, packets, drops) and of the delayed directions at one time."""

    links: dict[str, tuple[int, int, int]]
    delays: dict[str, Counts]


class Runner:
    """A slice with its emulated links, ready for transfers.

    As a context manager, it removes the emulation and restores the settings of the hosts at the end.
    """

    def __init__(self, nodes: Nodes, settings: TransferSettings, runs: list[Cell], scratch: Path):
        self._nodes = nodes
        self._settings = settings
        self._runs = runs
        self._scratch = scratch
        self._topology = settings.topology
        # the probe of each path has the ports of a flow
        flows = max(len(self._topology.paths), *(cell.streams for cell in runs))
        routing.configure(nodes, self._topology, flows)
        self._hosts = Hosts(nodes, (self._topology.sender, self._topology.receiver))
        self._delays = delays_of(nodes, settings)
        self._emulation = Emulation(nodes, self._topology, self._delays)
        self._measurements = Measurements(nodes, self._topology, self._emulation.apply, scratch)
        self._environment: dict[str, Any] = {}

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        clean_up([self._emulation.remove, self._hosts.restore, self._delays.close], failed=kind is not None)

    def prepare(self, runs: list[Cell]) -> None:
        """Measure the settings of these runs, and warm up.

        A failed probe does not end the grid: the runs that need it get its error. A failed warm-up causes a warning.
        """
        self._measurements.measure(runs)
        self.set_buffers()
        self._environment = {
            **self._hosts.environment(self._topology),
            **self._nodes.environment(),
            "delay": self._delays.environment(),
        }
        try:
            self._warm_up(runs)
        except UserError as error:
            if exit_code_of(error) == OUTSIDE:
                raise
            names.report(f"transfer: warning: the warm-up failed: {error}")

    def set_buffers(self) -> None:
        """In mode clean, let TCP buffer the bytes that can be in flight in any run of the grid, complete ones too."""
        if self._settings.mode == "clean":
            self._hosts.set_window(max(self._flight_bytes(cell) for cell in self._runs))

    def _flight_bytes(self, cell: Cell) -> int:
        return flight_bytes(cell, self._topology, self._measurements.round_trip_ns(cell))

    def _warm_up(self, runs: list[Cell]) -> None:
        """Run a short transfer. Raises UserError."""
        warm_up = Cell(**{**asdict(runs[0]), "size_bytes": WARM_UP_BYTES, "streams": 1})
        self._emulation.apply(measurement.without_loss(warm_up))
        self._hosts.set_algorithm(warm_up.algorithm)
        transfer = Transfer(self._nodes, self._topology, warm_up, self._settings.interval_s, 0)
        outcome = transfer.run()
        transfer.fetch(outcome, self._scratch)
        if outcome.error:
            raise UserError(outcome.error)

    def is_measured(self, cell: Cell) -> bool:
        """Return whether the probes for the settings of a cell succeeded."""
        return self._measurements.error_of(cell) is None

    def run(self, cell: Cell, results: Results) -> dict[str, Any]:
        """Perform a run, publish its directory, and return its `cell.json`, which contains the error if it failed.

        Raises UserError for an error outside of the slice, such as a full disk.
        """
        error = self._measurements.error_of(cell)
        if error is None:
            try:
                return self._transfer(cell, results)
            except UserError as caught:
                if exit_code_of(caught) == OUTSIDE:
                    raise
                error = f"{caught}"
        with results.part() as part:
            content = self._settings_of(cell, results) | {"flows": [], "wire": None, "error": error}
            results.publish(part, cell, content)
        return content

    def _transfer(self, cell: Cell, results: Results) -> dict[str, Any]:
        """Run a transfer, publish its directory, and return its `cell.json`. Raises UserError."""
        if not wait_until(self._emulation.is_empty, timeout_s=IDLE_S):  # `apply` drops queued packets
            raise UserError(f"an emulated link is not idle after {IDLE_S} s; other traffic uses it")
        self._emulation.apply(cell)
        self._hosts.set_algorithm(cell.algorithm)
        background, load = self._background_bps(), self._nodes.load(self._topology.sender)
        before = self._snapshot()
        with results.part() as part:
            extra = extra_bytes(cell, self._flight_bytes(cell))
            transfer = Transfer(self._nodes, self._topology, cell, self._settings.interval_s, extra)
            with capture.Capture(self._nodes, self._topology, cell) as recording:
                outcome = transfer.run()
                after = self._snapshot()
                captured = recording.stop()
            transfer.fetch(outcome, part)
            recording.fetch(part)
            content = self._settings_of(cell, results) | self._content(cell, outcome, captured, background)
            try:
                content["measured"]["frames_over_mtu"] = self._digest(part)
            except UserError as error:
                if exit_code_of(error) == OUTSIDE:
                    raise
                content |= {"wire": None, "error": outcome.error or f"{error}"}
            content["capture"]["file"] = capture.FILE if self._settings.keep_captures else None
            delayed = add_counts(content, before, after)
            content["measured"]["load"] = load
            content["flags"] = self._flags(cell, content, background, delayed)
            results.publish(part, cell, content)
        return content

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._emulation.counters(), self._delays.counts())

    def _digest(self, part: Path) -> int:
        """Digest the capture, delete it unless it is kept, and return the number of frames above the MTU."""
        try:
            capture.digest(part)
        finally:
            if not self._settings.keep_captures:
                (part / capture.FILE).unlink()
        return capture.frames_over_mtu(part)

    def _background_bps(self) -> dict[str, int]:
        """Return the rate on each emulated link, in its busier direction, while no transfer runs."""
        before, begin = self._sent_bytes(), time.monotonic_ns()
        time.sleep(BACKGROUND_S)
        after, span = self._sent_bytes(), time.monotonic_ns() - begin
        return {
            name: round(max(now - then for now, then in zip(after[name], before[name], strict=True)) * 8e9 / span)
            for name in before
        }

    def _sent_bytes(self) -> dict[str, tuple[int, int]]:
        """Return the bytes sent over each emulated link in both directions."""
        returned = self._emulation.returned_bytes()
        return {name: (sent, returned[name]) for name, (sent, _, _) in self._emulation.counters().items()}

    def _content(self, cell: Cell, outcome: Outcome, captured: dict, background: dict[str, int]) -> dict[str, Any]:
        """Return the part of `cell.json` that depends on the transfer."""
        measured = measurement.measured_values(self._measurements.of(cell))
        return {
            "measured": {**measured, "frames_over_mtu": None, "background_bps": max(background.values())},
            "flows": [asdict(flow) for flow in outcome.flows],
            "start_skew": start_skew(outcome.flows),
            "tcp_info": outcome.samples,
            "capture": captured,
            "wire": capture.FRAMES,
            "error": outcome.error,
        }

    def _settings_of(self, cell: Cell, results: Results) -> dict[str, Any]:
        """Return the part of `cell.json` that does not depend on the transfer."""
        return {
            "version": VERSION,
            "cell_id": cell.cell_id,
            "run": cell.run,
            "mode": cell.mode,
            "topology": cell.topology,
            "settings": cell.settings,
            "attempts": results.attempts(cell) + 1,
            "flags": [],
            "environment": self._environment,
            "links": {
                name: {
                    "between": list(link.between),
                    "emulated": link.emulated,
                    "times_ratio": link.times_ratio,
                    "rate_bps": link.rate_bps(cell.rate_bps, cell.ratio) if link.emulated else None,
                }
                for name, link in self._topology.links.items()
            },
            "paths": {name: list(path) for name, path in self._topology.paths.items()},
        }

    def _flags(
        self, cell: Cell, content: dict[str, Any], background: dict[str, int], delayed: dict[str, Counts]
    ) -> list[str]:
        measured = content["measured"]
        found = measurement.flags_of(cell, self._topology, self._measurements.of(cell))
        found += flags_of_counts(cell, delayed)
        conditions = {
            "background": is_background(cell, self._topology, background),
            "window_limited": tcp_info.is_window_limited(content["tcp_info"]),
            "frames_over_mtu": bool(measured["frames_over_mtu"]),
            "load_high": measured["load"] > self._environment["processors"],
            "capture_loss": content["capture"]["dropped"] != 0,
        }
        return found + [name for name, applies in conditions.items() if applies]


def add_counts(content: dict[str, Any], before: Snapshot, after: Snapshot) -> dict[str, Counts]:
    """Add the counts of links and delayed directions between two times to `cell.json`; return those of directions."""
    for name in after.links:
        sent, _, dropped = (now - then for now, then in zip(after.links[name], before.links[name], strict=True))
        content["links"][name] |= {"sent_bytes": sent, "dropped_packets": dropped}
    delayed = {name: counts.since(before.delays[name]) for name, counts in after.delays.items()}
    late = [counts.late_p99_ns for counts in delayed.values() if counts.late_p99_ns is not None]
    content["measured"]["delay_late_p99_ns"] = max(late, default=None)
    content["measured"]["delayed"] = {name: asdict(counts) for name, counts in delayed.items()}
    return delayed


def flight_bytes(cell: Cell, topology: Topology, round_trip_ns: int) -> int:
    """Return the bytes in flight, on the path and in the queue, if the queue of the fastest link is full.

    ``round_trip_ns``: round-trip time with an empty queue: the emulated delay plus the slice's own delay.
    """
    rate = max(link.rate_bps(cell.rate_bps, cell.ratio) for link in topology.emulated().values())
    return round(rate * round_trip_ns / 8e9) + cell.buffer_bytes


def extra_bytes(cell: Cell, flight: int) -> int:
    """Return the number of bytes that each flow sends in addition to the requested ones.

    iperf3 stops when the last byte is in the send buffer, and its receiver then closes the connection. Bytes that have
    not been sent yet, or were lost and have not been retransmitted yet, never arrive. So the number of extra bytes is
    the maximum content of the send buffer at the end: unsent bytes, two of iperf3's blocks, and twice the flow's share
    of the bytes in flight (``flight``), but at most all of them.
    """
    if cell.mode == "published":
        return WMEM_BYTES
    return UNSENT_BYTES + 2 * BLOCK_BYTES + min(flight, 2 * flight // cell.streams)


def is_background(cell: Cell, topology: Topology, found: dict[str, int]) -> bool:
    """Return whether other traffic on an emulated link (bit/s by link) exceeds a share of the link's rate."""
    rates = {name: link.rate_bps(cell.rate_bps, cell.ratio) for name, link in topology.emulated().items()}
    return any(bps > BACKGROUND_SHARE * rates[name] for name, bps in found.items())


def delays_of(nodes: Nodes, settings: TransferSettings) -> Delays:
    """Return the delayed directions. Raises UserError if neither netem nor acapella-link is available."""
    topology = settings.topology
    if set(settings.grid["delay_ns"]) == {0} and not (settings.loss_percent or settings.reorder_percent):
        return Delays(nodes, topology, settings.delay_on)
    if has_netem(nodes, topology.paths[next(iter(topology.paths))][1]):
        return NetemDelays(nodes, topology, settings.delay_on)
    return LinkDelays(nodes, topology, settings.delay_on, settings.seed)


def run_grid(
    runner: Runner, runs: list[Cell], missing: list[Cell], results: Results, report: Callable[[str], None]
) -> None:
    """Perform the missing runs in order. Raises UserError if many consecutive runs fail."""
    failures = 0
    begin = time.monotonic()
    for number, cell in enumerate(missing, 1):
        started = time.monotonic()
        content = runner.run(cell, results)
        took = time.monotonic() - started
        left = (time.monotonic() - begin) / number * (len(missing) - number)
        progress = f"{len(runs) - len(missing) + number} of {len(runs)}"
        flags = f" ({', '.join(content['flags'])})" if content["flags"] else ""
        result = f"error: {content['error']}" if content["error"] else f"{took:.1f} s"
        report(f"transfer: {progress}: {cell.summary}: {result}{flags}; {duration(left)} left")
        if runner.is_measured(cell):  # otherwise, no transfer was attempted
            failures = failures + 1 if content["error"] else 0
        if failures == MAX_CONSECUTIVE_FAILURES and number < len(missing):
            reason = f"{failures} consecutive runs failed; the last: {content['error']}"
            raise UserError(reason, where="transfers", fix="run it again when the slice works")


def duration(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def check_failed(failed: list[str], number: int) -> None:
    """Print a warning if runs failed. ``number``: all runs of the grid. Raises UserError if all of them failed."""
    if not failed:
        return
    repeat = f"run it again to repeat runs that failed fewer than {MAX_ATTEMPTS} times; --retry-failed repeats all"
    if len(failed) == number:
        raise UserError(f"{len(failed)} of {number} runs failed: {failed[0]}", where="transfers", fix=repeat)
    names.report(f"transfer: warning: {len(failed)} of {number} runs failed; the first: {failed[0]}; {repeat}")
