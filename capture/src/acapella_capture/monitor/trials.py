"""Trials of a search: the generator sends a flow to one port, and the monitor counts it at another one."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acapella_core.errors import DAMAGED, UserError
from acapella_core.files import scratch_directory

from . import expected, program, tables
from .program import Event, Settings
from .search import Trial

HEADERS = [
    {"ethernet": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}},
    {"ipv4": {"src": "198.18.0.1", "dst": "198.19.0.1"}},  # addresses for benchmarks (RFC 2544, appendix C.2.2)
    {"udp": {"src": 1024, "dst": 7}},
]
REACHED_SHARE = 0.95  # of the requested rate
POLL_S = 0.1
CLOSE_S = 10
START_S = 60  # until the generator has sent everything, in addition to the duration


@dataclass(frozen=True)
class Link:
    """The ports between which packets are sent, and the time to wait for late packets (RFC 2544, section 23)."""

    send: str
    receive: str
    settle_s: float
    snaplen: int | None = None  # packets are also written, truncated, with their hashes; None: they are not


def model(frame_bytes: int, rate_pps: float, packets: int) -> dict[str, Any]:
    """Return the generator's model of one flow."""
    flow = {"name": "search", "headers": HEADERS, "packets": packets, "sizes": frame_bytes}
    return {"flows": [flow | {"gaps": {"packets_per_s": max(1, round(rate_pps))}}]}


def run(link: Link, frame_bytes: int, rate_pps: float, packets: int) -> Trial:
    """Send packets at a rate and count what arrives. Raises UserError if a program fails."""
    with scratch_directory() as scratch:
        (scratch / "model.yaml").write_text(json.dumps(model(frame_bytes, rate_pps, packets)))
        sender = Sender(link, scratch, START_S + packets / rate_pps)
        settings = Settings(interfaces=(link.receive,), max_flows=1, every_s=POLL_S)
        if link.snaplen is not None:
            settings = replace(settings, write=scratch / "packets.pcapng", snaplen=link.snaplen)
        try:
            counted = program.count(settings, scratch, on_event=sender.on_event).complete()
        finally:
            sender.close()
        wanted = expected.read(scratch / "sent.json")
        (row,) = tables.rows_of(counted.ports, wanted, [None], corrected=False)["monitor_flows"]
        return trial_of(wanted.flows[0], row, rate_pps, packets)


class Sender:
    """The generator, which starts when the monitor listens. The monitor ends after it, and after late packets."""

    def __init__(self, link: Link, scratch: Path, limit_s: float):
        command = (Path(sys.executable).with_name("acapella"), "generate", scratch / "model.yaml")
        self._argv = [*map(str, (*command, "--interface", link.send, "--expected", scratch / "sent.json"))]
        self._settle_s = link.settle_s
        self._limit_s = limit_s
        self._process: subprocess.Popen | None = None
        self._started_s = self._ended_s = 0.0

    def on_event(self, _: Event) -> bool:
        """Start the generator at the first event; return whether the monitor can end."""
        now = time.monotonic()
        if self._process is None:
            self._process = subprocess.Popen(self._argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self._started_s = now
        elif self._process.poll() is None:
            if now - self._started_s > self._limit_s:
                raise UserError("the generator does not end in time")
        elif self._process.returncode not in (0, DAMAGED):
            message = program.last_line(self._process.stderr.read().decode(errors="replace"))
            raise UserError(message.removeprefix("acapella: error: "), where="acapella generate")
        else:
            self._ended_s = self._ended_s or now
            return now - self._ended_s >= self._settle_s
        return False

    def close(self) -> None:
        """End the generator, which removes its temporary files."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def trial_of(sent: dict[str, Any], row: dict[str, Any], rate_pps: float, requested: int) -> Trial:
    """Return the trial from a flow of the generator and its row of monitor_flows. ``requested``: number of packets.

    The generator sends fewer packets if the clock is set or a link is down.
    """
    packets = sent["packets"]
    duration_ns = (sent["last_ns"] or 0) - (sent["first_ns"] or 0)
    rate = (packets - 1) * 1e9 / duration_ns if packets > 1 and duration_ns > 0 else rate_pps
    return Trial(
        offered=packets,
        lost=row["lost"],
        rate_pps=rate,
        reached=packets == requested and rate >= REACHED_SHARE * rate_pps,
        **{name: row[name] for name in ("latency_min_ns", "latency_mean_ns", "latency_max_ns", "jitter_ns")},
    )
