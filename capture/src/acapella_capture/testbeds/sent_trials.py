"""Records trials that `acapella replay`'s program has sent: captures in raw/, departures, and causes of delays."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core import shards
from acapella_core.files import atomic_path, sha256_of

from ..replay.departures import lost_in_kernel


@dataclass(frozen=True)
class Part:
    """The part that one process sends: its capture, the capture's name in raw/, and the time of its first packet
    after the first packet of all parts."""

    capture: Path
    name: str
    offset_ns: int = 0


def keep_recording(part: Part, raw: Path) -> str:
    """Write a capture to raw/ unless it is already there, and return its SHA-256."""
    recording = raw / part.name
    checksum = sha256_of(part.capture)
    if not recording.is_file() or sha256_of(recording) != checksum:
        with atomic_path(recording) as temporary:
            shutil.copyfile(part.capture, temporary)  # in blocks
    return checksum


def departures_file(sample: str, raw: Path, number: int, total: int) -> Path:
    """Return the file for the departures of a process, numbered from 1 if there are several.

    Unlike the recording, which belongs to several samples, it is next to the manifest of its sample.
    """
    directory = shards.directory_of(raw.parent, "raw", sample)
    return directory / f"{sample if total == 1 else f'{sample}.{number}'}.departures.parquet"


def delays(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the causes of delays of a trial's processes, from their events `done`: sums, and the largest gap.

    None: unknown.
    """
    polling = [done.get("polling", {}) for done in reports]
    gaps = [counts.get("largest_gap_ns") for counts in polling]
    return {
        "sent_late": total([done.get("sent_late") for done in reports]),
        "late_ns": reports[0].get("late_ns"),
        "preemptions": total([counts.get("preemptions") for counts in polling]),
        "largest_gap_ns": None if None in gaps else max(gaps),
    }


def total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts; None if one is unknown."""
    return None if None in counts else sum(counts)


def unsent(done: Mapping[str, Any]) -> str | None:
    """Return why the program or the kernel did not send all packets, from an event `done`; None if all were sent."""
    dropped = {name: count for name, count in done.get("dropped", {}).items() if count}
    if not dropped:
        return "; ".join(lost_in_kernel(done)) or None
    reasons = ", ".join(f"{count} {name}" for name, count in dropped.items())
    return f"sent {done['sent']} packets and failed to send others: {reasons}"
