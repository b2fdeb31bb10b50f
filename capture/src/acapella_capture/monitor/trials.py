"""Trials of a search: generators send a flow to one or several ports, and the monitor counts them at others."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acapella_core.errors import DAMAGED, OUTSIDE, UserError
from acapella_core.files import scratch_directory

from . import expected, program, tables
from .program import Settings
from .search import Trial
from .sender import Sender

HEADERS = [
    {"ethernet": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}},
    {"ipv4": {"src": "198.18.0.1", "dst": "198.19.0.1"}},  # addresses for benchmarks (RFC 2544, appendix C.2.2)
    {"udp": {"src": 1024, "dst": 7}},
]
REACHED_SHARE = 0.95  # minimum share of the requested rate
POLL_S = 0.1
CLOSE_S = 10
START_DELAYS_S = (3, 6, 12, 24)  # time for several generators to start; the next value is used if one was too late
TOO_LATE = "is in the past"  # text in the message of a generator
START_S = 60  # timeout of the generator, in addition to the duration


@dataclass(frozen=True)
class Link:
    """Pairs of ports (sending, receiving) that are used at the same time, and the time to wait for late packets (RFC
    2544, section 23).
    """

    pairs: tuple[tuple[str, str], ...]
    settle_s: float
    snaplen: int | None = None  # packets are also written, truncated, with their hashes; None: they are not


def model(frame_bytes: int, rate_pps: float, packets: int) -> dict[str, Any]:
    """Return the generator's model of one flow."""
    flow = {"name": "search", "headers": HEADERS, "packets": packets, "sizes": frame_bytes}
    return {"flows": [flow | {"gaps": {"packets_per_s": max(1, round(rate_pps))}}]}


class TooLate(UserError):
    """A generator started after the common start of all generators."""


def run(link: Link, frame_bytes: int, rate_pps: float, packets: int) -> Trial:
    """Send packets to each port, at a rate, and count what arrives. Raises UserError if a program fails."""
    for start_delay_s in START_DELAYS_S[:-1]:
        try:
            return attempt(link, frame_bytes, rate_pps, packets, start_delay_s)
        except TooLate:
            continue
    return attempt(link, frame_bytes, rate_pps, packets, START_DELAYS_S[-1])


def attempt(link: Link, frame_bytes: int, rate_pps: float, packets: int, start_delay_s: float) -> Trial:
    """Run a trial; several generators start together after ``start_delay_s``. Raises UserError, TooLate.

    With several pairs, a duplicate is an error, because it may be a packet of a different pair.
    """
    link = replace(link, pairs=tuple(sorted(link.pairs, key=lambda pair: program.sort_key(pair[1]))))
    with scratch_directory() as scratch:
        (scratch / "model.yaml").write_text(json.dumps(model(frame_bytes, rate_pps, packets)))
        sender = Senders(link, scratch, START_S + packets / rate_pps, start_delay_s)
        settings = Settings(interfaces=tuple(port for _, port in link.pairs), max_flows=1, every_s=POLL_S)
        if link.snaplen is not None:
            settings = replace(settings, write=scratch / "packets.pcapng", snaplen=link.snaplen)
        try:
            counted = program.count(settings, scratch, on_event=sender.on_event).complete()
        finally:
            sender.close()
        found = []
        for number, port in enumerate(counted.ports):
            wanted = expected.read(scratch / f"sent-{number}.json")
            (row,) = tables.rows_of([port], wanted, [None], corrected=False)["monitor_flows"]
            if len(link.pairs) > 1 and row["duplicates"]:  # all pairs have identical flows: a copy would hide a loss
                raise UserError(
                    "receives duplicates, or packets of a different pair", where=f"port {port.name}",
                    fix="connect each --send with its --interface only",
                )  # fmt: skip
            found.append((trial_of(wanted, row, rate_pps, packets), row["unique"]))
        return combined_trial(found)


class Senders(Sender):
    """The generators of all ports. The first failure ends the trial."""

    def __init__(self, link: Link, scratch: Path, limit_s: float, start_delay_s: float = 0):
        super().__init__(link.settle_s)
        command = (Path(sys.executable).with_name("acapella"), "generate", scratch / "model.yaml")
        self._argvs = [
            [*map(str, (*command, "--interface", port, "--expected", scratch / f"sent-{number}.json"))]
            for number, (port, _) in enumerate(link.pairs)
        ]
        self._limit_s = limit_s
        self._start_delay_ns = round(start_delay_s * 1e9)
        self._processes: list[subprocess.Popen] = []
        self._started_s = 0.0

    def start(self) -> None:
        # Several generators start at the same time.
        at = ["--at", departure(time.time_ns() + self._start_delay_ns)] if len(self._argvs) > 1 else []
        for argv in self._argvs:
            process = subprocess.Popen([*argv, *at], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self._processes.append(process)
        self._started_s = time.monotonic()

    def ended(self) -> bool:
        statuses = [process.poll() for process in self._processes]
        for process, status in zip(self._processes, statuses, strict=True):
            if status not in (None, 0, DAMAGED):
                lines = process.stderr.read().decode(errors="replace").strip().splitlines() or [f"exit status {status}"]
                message = lines[-1].removeprefix("acapella: error: ")
                kind = TooLate if TOO_LATE in message else UserError
                outside = status == OUTSIDE
                raise kind(message, where="acapella generate", outside=outside)
        if None in statuses and time.monotonic() - self._started_s > self._limit_s:
            raise UserError("the generator did not end in time")
        return None not in statuses

    def close(self) -> None:
        """End the generators, which remove their temporary files."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.communicate(timeout=CLOSE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def departure(at_ns: int) -> str:
    """Return a time as `acapella generate --at` accepts it."""
    seconds, rest_ns = divmod(at_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"


def combined_trial(trials: Sequence[tuple[Trial, int]]) -> Trial:
    """Return one trial for ports that were used at the same time, from the trial of each port and its arrived packets.

    Packets and rates are summed. The loss is unknown if it is unknown for one port. The jitter is the maximum.
    """
    lost = [trial.lost for trial, _ in trials]
    arrived = [(trial, packets) for trial, packets in trials if packets]
    count = sum(packets for _, packets in arrived)

    def combined(select: Callable, name: str) -> Any:
        return select((getattr(trial, name) for trial, _ in arrived if getattr(trial, name) is not None), default=None)

    return Trial(
        offered=sum(trial.offered for trial, _ in trials),
        lost=None if None in lost else sum(lost),
        rate_pps=sum(trial.rate_pps for trial, _ in trials),
        reached=all(trial.reached for trial, _ in trials),
        latency_min_ns=combined(min, "latency_min_ns"),
        latency_mean_ns=sum(trial.latency_mean_ns * packets for trial, packets in arrived) / count if count else None,
        latency_max_ns=combined(max, "latency_max_ns"),
        jitter_ns=combined(max, "jitter_ns"),
    )


def trial_of(wanted: expected.ExpectedFlows, row: dict[str, Any], rate_pps: float, requested: int) -> Trial:
    """Return the trial from the generator's flow and its row of monitor_flows. ``requested``: number of packets.

    The generator sends fewer packets if the clock is set or a link is down. Packets that stay in the queue of its
    device also do not arrive, so that the loss is unknown.
    """
    (sent,) = wanted.flows
    packets = sent["packets"]
    duration_ns = (sent["last_ns"] or 0) - (sent["first_ns"] or 0)
    rate = (packets - 1) * 1e9 / duration_ns if packets > 1 and duration_ns > 0 else rate_pps
    return Trial(
        offered=packets,
        lost=row["lost"] if wanted.drained else None,
        rate_pps=rate,
        reached=wanted.drained and packets == requested and rate >= REACHED_SHARE * rate_pps,
        **{name: row[name] for name in ("latency_min_ns", "latency_mean_ns", "latency_max_ns", "jitter_ns")},
    )
