#!/usr/bin/env python3
"""A stand-in for acapella-dpdk-replay that sends nothing, for tests with injected faults or wrong clocks.

Reads commands and prints events as the program does. Options (all optional), separated by commas, in
ACAPELLA_STAND_IN: `clock=NS` (its clock is NS ahead of this machine's), `late=NS` (every packet departs NS late),
`fault=EVENT:KIND` (instead of EVENT: `die`, `garbage`, `silence`, `error`, `long`; before EVENT: `sigterm`, sent to the
parent), `refuse=N` (the first N packets of a run are ring_full), `too_long=N` (the first N packets are too_long),
`lost=N` (the kernel drops N packets of a run), `missed=N` (the device misses N received packets), `truncated=N` (a
loaded file has N truncated packets), `error=NS` (error of its clock).
"""

import collections
import json
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path

RECORD = struct.Struct("<IHBBQqqIHH")
NEVER = -(1 << 63)
RING_FULL = 1
TOO_LONG = 3
LATE_NS = 1000
PATH_COMMANDS = ("load", "save", "departures")


class StandIn:
    """The state of the program."""

    def __init__(self, options: dict[str, str]):
        self.fault_event, _, self.fault_kind = options.pop("fault", "").partition(":")
        self.number = collections.Counter({name: int(value) for name, value in options.items()})
        self.offsets_ns: list[int] = []  # times of the packets since the first
        self.activity = "idle"
        self.stopped = threading.Event()
        self.writing = threading.Lock()
        self.run: tuple[int, int, int] | None = None

    def now(self) -> int:
        return time.time_ns() + self.number["clock"]

    def event(self, name: str, **values: object) -> None:
        """Print an event, or inject the fault of this event."""
        kind = self.fault_kind if name == self.fault_event else ""
        if kind == "die":
            print("acapella-dpdk-replay: error: link of net_fake0 is down", file=sys.stderr, flush=True)
            os._exit(1)
        if kind == "silence":
            return
        if kind == "sigterm":
            os.kill(os.getppid(), signal.SIGTERM)
        line = {"garbage": "{no json", "long": '{"event": "' + "x" * (2 << 20) + '"}'}.get(kind)
        if kind == "error":
            name, values = "error", {"message": "injected"}
        with self.writing:
            print(line or json.dumps({"event": name, **values}), flush=True)

    def command(self, name: str, *words: str) -> bool:
        """Execute a command; return whether the program continues."""
        try:
            handler = getattr(self, f"on_{name}", None)
            if handler is None:
                self.event("error", message=f"unknown command {name}")
            else:
                handler(*words)
        except (OSError, ValueError) as error:
            self.event("error", message=str(error))
        return name != "quit"

    def on_quit(self) -> None:
        """Do nothing."""

    def on_load(self, file: str) -> None:
        data = Path(file).read_bytes()
        at, stamps = 24, []
        while at + 16 <= len(data):
            seconds, rest, size, _ = struct.unpack_from("<IIII", data, at)
            stamps.append(seconds * 10**9 + rest * (1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000))
            at += 16 + size
        self.offsets_ns = [stamp - stamps[0] for stamp in stamps]
        self.event("loaded", file=file, packets=len(stamps), truncated_packets=self.number["truncated"])

    def on_record(self, start: str, until: str) -> None:
        self.begin("recording", max(int(start), self.now()), int(until))

    def on_rolling(self, _seconds: str) -> None:
        self.begin("recording", self.now(), 0)

    def begin(self, activity: str, start: int, until: int) -> None:
        """Start a thread that ends the activity."""
        self.expect_idle()
        self.activity = activity
        self.stopped.clear()
        if activity == "recording":
            self.event("recording", from_ns=start, until_ns=until)
        threading.Thread(target=self.proceed, args=(activity, start, until), daemon=True).start()

    def proceed(self, activity: str, start: int, until: int) -> None:
        """Wait for the end of a recording or a run, and report it."""
        if activity == "running" and not self.stopped.wait(max(0, start - self.now()) / 1e9):
            self.event("running", run=1)
        ended = self.stopped.wait(max(0, until - self.now()) / 1e9 if until else None)
        reason = "stop" if ended else "complete"
        self.activity = "idle"
        if activity == "recording":
            self.offsets_ns = self.offsets_ns or [0, 1000]
            ports = [{"name": "net_fake0", "reception": self.reception()}]
            self.event("recorded", stopped_by=reason, packets=len(self.offsets_ns), ports=ports)
            return
        total = 0 if ended else len(self.offsets_ns) * self.run[1]
        sent, lost = max(0, total - self.number["refuse"]), self.number["lost"]
        kernel = {"tx_packets": sent - lost, "tx_errors": 0, "tx_dropped": lost}
        self.event(
            "done", stopped_by=reason, requested=len(self.offsets_ns) * self.run[1], sent=sent,
            sent_late=sent if self.number["late"] > LATE_NS else 0, late_ns=LATE_NS,
            polling={"polls": 9, "preemptions": 2, "largest_gap_ns": 4321},
            ports=[{"name": "net_fake0", "queues": [sent], "interface": kernel, "reception": self.reception()}],
            clock={"error_ns": self.number["error"]},
        )  # fmt: skip

    def reception(self) -> dict[str, int]:
        return {"missed": self.number["missed"], "no_mbuf": 0, "interface_dropped": 0}

    def on_stop(self) -> None:
        if self.activity == "idle":
            self.event("stopped", run=None)
            return
        self.stopped.set()

    def expect_idle(self) -> None:
        if self.activity != "idle":
            raise ValueError(f"a {self.activity} is active; stop it first")

    def on_clear(self) -> None:
        self.expect_idle()
        self.offsets_ns = []
        self.event("cleared")

    def on_run(self, at: str, loops: str, speed_ppm: str) -> None:
        if not self.offsets_ns:
            raise ValueError("nothing to replay; load a file or record first")
        start = int(at) or self.now() + 10_000_000
        if start < self.now():
            raise ValueError("the start is in the past")
        period = self.offsets_ns[-1] * 1_000_000 // int(speed_ppm)
        self.run = start, int(loops), period
        self.event("scheduled", run=1, at_ns=start, loops=int(loops), period_ns=period, packets=len(self.offsets_ns))
        self.begin("running", start, start + period * int(loops))

    def on_status(self) -> None:
        self.event(
            "status", state=self.activity, packets=len(self.offsets_ns), ports=[{"name": "net_fake0", "received": 7}]
        )

    def on_save(self, file: str) -> None:
        Path(file).write_bytes(b"recording of %d packets" % len(self.offsets_ns))
        self.event("saved", command="save", file=file, packets=len(self.offsets_ns))

    def on_departures(self, file: str) -> None:
        start, loops, period = self.run
        with Path(file).open("xb") as out:
            out.write(b"ACDEPv1\0")
            for number in range(len(self.offsets_ns) * loops):
                loop, packet = divmod(number, len(self.offsets_ns))
                at = start + loop * period + self.offsets_ns[packet]
                refused = number < self.number["refuse"]
                departed, outcome = (NEVER, RING_FULL) if refused else (at + self.number["late"], 0)
                if number < self.number["too_long"]:
                    departed, outcome = NEVER, TOO_LONG
                out.write(RECORD.pack(loop, 0, outcome, 3, packet, at, departed, 5 if refused else 0, 0, 0))
        self.event("saved", command="departures", file=file, packets=len(self.offsets_ns) * loops)


def main() -> None:
    """Execute the commands of standard input."""
    program = StandIn(dict(word.split("=", 1) for word in os.environ.get("ACAPELLA_STAND_IN", "").split(",") if word))
    print("acapella-dpdk-replay: memory for 65536 packets", file=sys.stderr, flush=True)
    program.event("ready", program="stand-in")
    for line in sys.stdin:
        name, _, rest = line.rstrip("\n").partition(" ")
        if not program.command(name, *([rest] if name in PATH_COMMANDS else rest.split())):
            break
    program.event("quit", reason="quit")


if __name__ == "__main__":
    main()
