"""Sends the trials of a testbed with `acapella replay`'s program, and keeps their departures.

Several replayers get the same absolute start time for the capture. Each is a process that sends its part of the
packets, or one process with one polling thread sends all parts to their interfaces.
"""

import contextlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from ...replay import departures, skew
from ...replay.clocks import Offset, max_clock_error_ns
from ...replay.departures import NO_TIME, Origin
from ...replay.ports import ProgramSettings
from ...replay.program import ReplayProgram, executable
from ...scan import scan_in_subprocess
from ..sent_trials import Part, delays, departures_file, keep_recording, unsent
from .processes import PRIORITY, SCRATCH, SPOOL, environment, in_namespace, priority_allowed
from .replay_path import Endpoint

PACING = "bursts"
AHEAD_NS = 1_000_000_000  # from the first command to the start; all replayers must get their command within this time
SAME_CLOCK = "system"  # all replayers and the receiver read the clock of this machine
PPM = 1_000_000
WAKE_NS = 100_000  # a thread with real-time priority wakes up this long before each departure


@dataclass
class Process:
    """A running process: its part, interfaces, and the report of its last run."""

    part: Part
    endpoints: tuple[Endpoint, ...]
    program: ReplayProgram
    done: dict[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """Return the node on which it runs."""
        return self.endpoints[0].node


class AcapellaSender:
    """The program on one or several nodes, which has the capture in memory between `open` and `close`.

    ``parts`` are one file per endpoint, or a single pcapng with an interface for each endpoint. ``mean_gap_ns``:
    mean gap between requested departures.
    """

    name = "acapella replay"

    def __init__(
        self, endpoints: Sequence[Endpoint], parts: Sequence[Part], mtu: int, speed: float, mean_gap_ns: float
    ):
        one_process = len(parts) == 1
        self._endpoints = [tuple(endpoints)] if one_process else [(endpoint,) for endpoint in endpoints]
        self._parts = parts
        self._mtu = mtu
        self._speed_ppm = round(speed * PPM)
        self._mean_gap_ns = mean_gap_ns
        self._stack = ExitStack()
        self._processes: list[Process] = []

    @staticmethod
    def require() -> None:
        """Raise UserError if the program was not built."""
        executable()

    def open(self) -> None:
        """Start the processes and load their captures. Raises UserError if that fails."""
        for part, endpoints in zip(self._parts, self._endpoints, strict=True):
            frames = scan_in_subprocess(part.capture).frames or 1
            interfaces = tuple(endpoint.interface for endpoint in endpoints)
            node = endpoints[0].node
            settings = ProgramSettings(
                interfaces, packets=frames, departures=frames, pace=PACING, mtu=self._mtu, **self._scheduling(node)
            )
            argv = in_namespace(node, settings.argv())
            where = f"node {node}"
            program = ReplayProgram(argv, report=lambda line: None, where=where, env=environment(), cwd=SCRATCH)
            self._processes.append(Process(part, endpoints, self._stack.enter_context(program)))
            program.command("load", part.capture)

    def _scheduling(self, node: str) -> dict[str, int]:
        """Return the options of the polling thread: real-time priority if it is permitted and the thread can sleep.

        The kernel stops a real-time thread that never sleeps for 50 ms of each second (sched_rt_runtime_us).
        """
        if self._mean_gap_ns < 2 * WAKE_NS or not priority_allowed(node):
            return {}
        return {"priority": PRIORITY, "wake_ns": WAKE_NS}

    def close(self) -> None:
        """End the processes."""
        self._stack.close()
        self._processes = []

    def send(self) -> int:
        """Send the capture once and return the number of packets. Raises UserError if some were not sent."""
        self._run()
        for process in self._processes:
            if fault := unsent(process.done):
                raise UserError(f"{self.name} {fault}", where=f"node {process.node}")
        return sum(process.done["sent"] for process in self._processes)

    def _run(self) -> None:
        """Start several processes at one absolute time, a single one at once; if one cannot start, stop the others."""
        start_ns = time.time_ns() + AHEAD_NS
        before = [process.program.received for process in self._processes]
        try:
            for process in self._processes:
                offset_ns = process.part.offset_ns * PPM // self._speed_ppm
                at_ns = 0 if len(self._processes) == 1 else start_ns + offset_ns
                process.program.command("run", at_ns, 1, self._speed_ppm)
            for process, after in zip(self._processes, before, strict=True):
                process.done = process.program.wait("done", after=after)
        except UserError:
            for process in self._processes:
                with contextlib.suppress(UserError):
                    process.program.command("stop")
            raise

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Write recordings and departures of the last trial to raw/. Raises UserError.

        Return the keys of manifest key `replay` that depend on the sender.
        """
        recordings, written, records, deviations = [], [], [], []
        for number, process in enumerate(self._processes, 1):
            checksum = keep_recording(process.part, raw)
            clock_ns = max_clock_error_ns(process.done) or 0
            target = departures_file(sample, raw, number, len(self._processes))
            binary = SPOOL / f"departures{number}"
            binary.unlink(missing_ok=True)
            process.program.command("departures", binary)
            origin = Origin(
                **{"clock_offset_ns": 0, "clock_error_ns": clock_ns, "receiver_clock_error_ns": clock_ns},
                **{"clock_source": SAME_CLOCK, "recording_sha256": checksum},
                **{"speed_ppm": self._speed_ppm, "pacing": PACING},
            )
            departures.convert(binary, target, origin)
            recordings.append({"file": process.part.name, "sha256": checksum})
            written.append({"file": target.name, "sha256": sha256_of(target)})
            records.append(departures.read(binary))
            deviations += deviations_of(records[-1], process.endpoints, clock_ns)
        largest = skew.largest(deviations)
        return {
            "priority": self._processes[0].done.get("priority"),
            "polling": "shared" if len(self._parts) < sum(map(len, self._endpoints)) else "separate",
            "recordings": recordings,
            "departures": written,
            **delays([process.done for process in self._processes]),
            "median_gap_ns": departures.median_gap_ns(np.concatenate([rows["requested_ns"] for rows in records])),
            "skew_ns": largest and largest.skew_ns,
            "skew_error_ns": largest and largest.error_ns,
        }


def deviations_of(records: np.ndarray, endpoints: Sequence[Endpoint], clock_ns: int) -> list[skew.Deviation]:
    """Return the deviation of the replayer of each endpoint; ``clock_ns``: error of the process's clock."""
    found = []
    for port, endpoint in enumerate(endpoints):
        sent = records[(records["port"] == port) & (records["departed_ns"] != NO_TIME)]
        errors_ns = np.asarray(sent["departed_ns"] - sent["requested_ns"], np.int64)
        found.append(skew.deviation(f"{endpoint.node}:{endpoint.interface}", errors_ns, Offset(0, clock_ns)))
    return [deviation for deviation in found if deviation]
