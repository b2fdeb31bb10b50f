"""Monitors a listening node: disk, heartbeat, clock, growth of the capture; logs its interface counters.

A shell loop on the node writes a line of JSON every few seconds (disk, memory, load, interface counters) and renews a
heartbeat file. The coordinator probes the node while a sample is taken. The loop needs a POSIX shell and awk.
"""

import contextlib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ..settings import CollectSettings
from ..testbeds.base import Instance, Job, Testbed

MB = 10**6  # as in collect.disk_reserve_mb
RECORD_BYTES = 16 + 60  # minimum bytes of a frame in a capture
SILENT_S = 60  # without a heartbeat for this time, the node hangs, or its loop was killed
BLOCK_BYTES = 256 << 10  # maximum buffer of a capture program and its C library
LOOP = r"""
every=$1 directory=$2 beat=$3
while :; do
  now=$(date +%s)
  line=$(
    df -Pk "$directory" | awk -v now="$now" 'NR == 2 { printf "{\"time_s\": %s, \"disk_free_kib\": %s, ", now, $4 }'
    awk '/^MemAvailable/ { printf "\"memory_available_kib\": %s, ", $2 }' /proc/meminfo
    awk '{ printf "\"load\": %s, \"interfaces\": {", $1 }' /proc/loadavg
    awk 'NR > 2 { sub(":", " "); printf "%s\"%s\": {\"rx_bytes\": %s, \"rx_packets\": %s, \"rx_errors\": %s, " \
         "\"rx_dropped\": %s, \"tx_bytes\": %s, \"tx_packets\": %s}", (NR > 3 ? ", " : ""), $1, $2, $3, $4, $5, $10,
         $11 }
         END { print "}}" }' /proc/net/dev
  )
  printf '%s\n' "$line"  # in one write: the loop may be killed at any moment
  echo "$now" > "$beat.new" && mv "$beat.new" "$beat"
  sleep "$every"
done
"""
# Prints free KiB, bytes of the capture, seconds since the heartbeat, frames received by the interface; - if unknown.
PROBE = r"""
free=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
size=-; for f in "$2" "$2.part"; do [ -f "$f" ] && size=$(wc -c < "$f"); done
age=-; [ -f "$3" ] && age=$(( $(date +%s) - $(cat "$3") ))
frames=$(awk -v dev="$4" 'NR > 2 { sub(":", " "); if ($1 == dev) print $3 }' /proc/net/dev)
echo "${free:--} $size $age ${frames:--}"
"""
CLOCK = r"""
if s=$(chronyc -c tracking 2> /dev/null); then echo "chrony $s"; exit; fi
if s=$(pmc -u -b 0 'GET TIME_STATUS_NP' 2> /dev/null | awk '
    $1 == "master_offset" { offset = $2 } $1 == "gmPresent" { print offset, $2 }') && [ -n "$s" ]
then echo "ptp $s"; exit; fi
if s=$(timedatectl show -p NTPSynchronized --value 2> /dev/null); then echo "system $s"; fi
"""

NUMBER = re.compile(r"-|-?[0-9]{1,15}")  # a number in the output of PROBE
MAX_OFFSET_NS = 1 << 62  # largest offset between clocks
SYNCHRONIZED = ("Normal", "Insert second", "Delete second")  # leap status of chronyc, if there is a reference


@dataclass(frozen=True)
class NodeStatus:
    """The result of one probe; unknown values are None."""

    free_bytes: int | None
    size_bytes: int | None
    heartbeat_s: int | None
    frames: int | None


def parse_status(printed: str) -> NodeStatus:
    """Parse the output of the probe. Raises ValueError if it is malformed."""
    fields = printed.split()
    if not all(NUMBER.fullmatch(field) for field in fields):
        raise ValueError(printed)
    free, size, age, frames = (None if field == "-" else int(field) for field in fields)
    return NodeStatus(None if free is None else free * 1024, size, age, frames)


def parse_clock(printed: str) -> dict[str, Any]:
    """Return manifest key `clock` from the output of the node's clock program; without one, all values are unknown.

    The offset is the node's clock minus the reference. Field 5 of chronyc is the time by which the system clock
    is behind, in seconds; its last field is the leap status (chronyc(1), tracking). Field master_offset of ptp4l is the
    time by which the clock is ahead, 0 if the node itself is the only grandmaster.
    """
    source, _, printed = printed.strip().partition(" ")
    fields = printed.split(",")
    with contextlib.suppress(ValueError, IndexError, OverflowError):
        if source == "chrony":
            offset = in_range(-round(float(fields[4]) * 1e9))
            return {"source": source, "offset_ns": offset, "synchronized": fields[-1] in SYNCHRONIZED}
        if source == "ptp":
            offset, present = printed.split()
            synchronized = present == "true"
            offset_ns = in_range(int(offset)) if synchronized else None
            return {"source": source, "offset_ns": offset_ns, "synchronized": synchronized}
        if source == "system" and printed in ("yes", "no"):
            return {"source": source, "offset_ns": None, "synchronized": printed == "yes"}
    return {"source": None, "offset_ns": None, "synchronized": None}


def in_range(value_ns: int) -> int:
    """Return a time in the range that a table can contain. Raises ValueError outside of it."""
    if abs(value_ns) > MAX_OFFSET_NS:
        raise ValueError(f"{value_ns} ns")
    return value_ns


def clock_error_ns(printed: str) -> int | None:
    """Return the maximum error of chrony's offset: half of the root delay plus the root dispersion (RFC 5905, section
    11.2), from the output of the node's clock program; None if unknown: ptp4l and timedatectl report no bound.
    """
    source, _, printed = printed.strip().partition(" ")
    fields = printed.split(",")
    if source != "chrony" or fields[-1] not in SYNCHRONIZED:
        return None
    with contextlib.suppress(ValueError, IndexError, OverflowError):
        return in_range(math.ceil((float(fields[10]) / 2 + float(fields[11])) * 1e9))
    return None


def disk_shortage(status: NodeStatus, reserve_bytes: int) -> str | None:
    """Return the reason why a sample has to end if disk space is short; None if there is enough."""
    if status.free_bytes is None or status.free_bytes >= reserve_bytes:
        return None
    return f"disk full: {status.free_bytes // MB} MB free, the reserve is {reserve_bytes // MB} MB"


@dataclass
class NodeHistory:
    """The first and the last probe during one sample."""

    first: NodeStatus | None = None
    last: NodeStatus | None = None
    probe_error: str | None = None  # why the last probe failed
    notes: list[str] = field(default_factory=list)

    def add(self, status: NodeStatus) -> None:
        """Keep the first and the last status."""
        self.first, self.last, self.probe_error = self.first or status, status, None

    def silent_s(self) -> int | None:
        """Return the seconds since the last heartbeat if the node is silent; None if it is alive or unknown."""
        age = self.last.heartbeat_s if self.last else None
        return age if age is not None and age > SILENT_S else None

    def as_manifest(self) -> dict[str, Any]:
        """Return manifest key `watchdog`."""
        return {
            "disk_free_bytes": self.last.free_bytes if self.last else None,
            "heartbeat_s": self.last.heartbeat_s if self.last else None,
            "growing": self.growing(),
        }

    def growing(self) -> bool | None:
        """Return whether the capture grew while frames were received; None if unknown, or for too few frames."""
        if self.first is None or self.last is self.first:
            return None
        if None in (self.first.frames, self.last.frames, self.last.size_bytes):
            return None
        if self.last.size_bytes > (self.first.size_bytes or 0):
            return True
        # writes are in blocks, so few frames prove nothing
        return None if (self.last.frames - self.first.frames) * RECORD_BYTES < BLOCK_BYTES else False


class Watchdog:
    """The watchdog of one listening node."""

    def __init__(self, testbed: Testbed, instance: Instance, settings: CollectSettings):
        self._testbed = testbed
        self._node = instance.name
        self._every_s = settings.watch_s
        self.reserve_bytes = settings.disk_reserve_mb * MB
        self.log = f"watchdog-{instance.name}.jsonl"
        self._job: Job | None = None
        self.clock = parse_clock("")

    def start(self) -> None:
        """Start the loop on the node and read the state of its clock. Raises UserError if programs cannot be run."""
        self.clock = parse_clock(self._testbed.run(self._node, ["sh", "-c", CLOCK]).stdout)
        argv = ["sh", "-c", LOOP, "watchdog", str(self._every_s), self._directory(), self._heartbeat()]
        self._job = self._testbed.start(self._node, argv, output=self.log)

    def probe(self, file: str, interface: str) -> NodeStatus:
        """Probe the node while it writes a file. Raises UserError if it does not reply."""
        path = self._testbed.path_on_node(self._node, file)
        argv = ["sh", "-c", PROBE, "probe", self._directory(), path, self._heartbeat(), interface]
        printed = self._testbed.run(self._node, argv, timeout_s=10).stdout
        try:
            return parse_status(printed)
        except ValueError as error:
            raise UserError(
                f"unexpected output of the watchdog: {printed.strip()!r}", where=f"node {self._node}"
            ) from error

    def stop(self, target: Path) -> None:
        """Stop the loop and fetch its log."""
        if self._job is None:
            return
        self._job.signal("TERM")
        if self._job.wait(5) is None:
            self._job.signal("KILL")
        self._testbed.fetch(self._node, self.log, target)

    def _heartbeat(self) -> str:
        return self._testbed.path_on_node(self._node, f"heartbeat-{self._node}")

    def _directory(self) -> str:
        return str(Path(self._heartbeat()).parent)
