"""The kernel's dirty-page thresholds: set temporarily, then restored."""

import contextlib
import fcntl
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import NotMeasurable

VM = Path("/proc/sys/vm")
VMSTAT = Path("/proc/vmstat")
MB = 1_000_000
NAMES = ("dirty_background", "dirty")


@dataclass(frozen=True)
class Dirty:
    """Bytes of the whole machine; the thresholds are those in effect."""

    dirty: int
    writeback: int
    background: int
    limit: int


def now() -> Dirty:
    """Return the current values of /proc/vmstat."""
    pages = dict(line.split() for line in VMSTAT.read_text(encoding="ascii").splitlines())
    names = ("nr_dirty", "nr_writeback", "nr_dirty_background_threshold", "nr_dirty_threshold")
    return Dirty(*(int(pages[name]) * mmap.PAGESIZE for name in names))


def put(name: str, value: int) -> None:
    """Write a setting. Raises NotMeasurable if that is not permitted."""
    try:
        (VM / name).write_text(f"{value}\n", encoding="ascii")
    except OSError as error:
        raise NotMeasurable(f"/proc/sys/vm/{name} cannot be set: {error.strerror}") from error


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Wait for other runs of this command, and prevent new ones: at their end, they would restore our thresholds."""
    with (VM / "dirty_ratio").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def set_thresholds(background_percent: int, limit_percent: int, memory_mb: int | None) -> Iterator[int]:
    """Set vm.dirty_background_ratio and vm.dirty_ratio, or, for `memory_mb`, bytes as on a machine with less memory.

    Yields the memory that the percentages refer to, in bytes: free and cached memory as the kernel counts it, or
    `memory_mb`.
    """
    with exclusive():
        yield from set_locked(background_percent, limit_percent, memory_mb)


def set_locked(background_percent: int, limit_percent: int, memory_mb: int | None) -> Iterator[int]:
    """Do the work of `set_thresholds` while holding the lock."""
    previous = {f"{name}_{kind}": value_of(f"{name}_{kind}") for name in NAMES for kind in ("ratio", "bytes")}
    try:
        for name, percent in zip(NAMES, (background_percent, limit_percent), strict=True):
            if memory_mb:
                put(f"{name}_bytes", memory_mb * MB * percent // 100)
            else:
                put(f"{name}_ratio", percent)
        yield memory_mb * MB if memory_mb else now().limit * 100 // limit_percent
    finally:
        for name in NAMES:  # of each pair, the nonzero setting is in effect
            kind = "bytes" if previous[f"{name}_bytes"] else "ratio"
            put(f"{name}_{kind}", previous[f"{name}_{kind}"])


def value_of(name: str) -> int:
    """Return the current value of a setting."""
    return int((VM / name).read_text(encoding="ascii"))
