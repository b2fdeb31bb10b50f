"""Loss of the DPDK writer at several rates, in the layout of Patchwork's Tables 1 and 2."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..programs.dpdk import executable
from . import NotMeasurable

SNAPLENS = (200, 64)  # bytes kept per frame: Table 1, Table 2
SIZES = (1514, 1024, 512, 128)  # bytes without FCS
WRITERS = ("buffered", "direct")
THRESHOLDS = (60, 80)  # vm.dirty_background_ratio and vm.dirty_ratio, percent, for both tables
FRACTIONS = (0.9, 0.7, 0.5, 0.25)  # of the rate achieved without a limit, until a run loses nothing
CORES = 1  # cores that write
END_S = 120  # timeout for flushing the page cache after a run


def measured(directory: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row per run of `seconds` each. Raises NotMeasurable if the writer fails."""
    for writer in WRITERS:
        for snaplen in SNAPLENS:
            for size in SIZES:
                yield from sweep(directory, writer, snaplen, size, seconds)


def sweep(directory: Path, writer: str, snaplen: int, size: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield runs of one size: without a rate limit, then at fractions of the achieved rate until a run loses
    nothing."""
    first = run(directory, writer, snaplen, size, seconds, None)
    yield first
    max_fps = first["written"] / first["whole_ns"] * 1e9 if first["whole_ns"] else 0
    lost = first["lost"]
    for fraction in FRACTIONS if max_fps else ():
        if not lost:
            return
        row = run(directory, writer, snaplen, size, seconds, max_fps * fraction)
        lost = row["lost"]
        yield row


def run(  # noqa: PLR0913, PLR0917 (the parameters of a run)
    directory: Path, writer: str, snaplen: int, size: int, seconds: float, rate: float | None
) -> dict[str, Any]:
    """Return frames and times of one run at `rate` frames per second; None: no limit.

    Raises NotMeasurable if the writer fails, ValueError if its counts are inconsistent.
    """
    capture = directory / "r.pcap"
    command = [executable(), "--generate", size, "--snaplen", snaplen, "--writer", writer, "--write", capture]
    command += ["--duration", seconds, *cpus(), *(["--rate", f"{rate:.0f}"] if rate else [])]
    try:
        result = subprocess.run(
            [str(argument) for argument in command],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + END_S,
        )
        if result.returncode:
            raise NotMeasurable(f"the writer failed: {(result.stderr.strip().splitlines() or ['no message'])[-1]}")
        accounts = json.loads(capture.with_suffix(".json").read_text(encoding="utf-8"))
    except subprocess.TimeoutExpired as error:
        raise NotMeasurable(f"the writer did not end within {END_S} s") from error
    finally:
        for path in directory.glob("r.*"):
            path.unlink()
    return {
        **{"writer": writer, "snaplen": snaplen, "frame_bytes": size, "cores": CORES, "wanted_fps": rate},
        **{name: value for name, value in counted(accounts).items() if name != "written_bytes"},
        "whole_ns": accounts["end_ns"] - accounts["begin_ns"],
    }


def cpus() -> list[str]:
    """Return options that pin writer and generator to a core each, if there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return ["--cpus", f"{cores[0]},{cores[1]}", "--spin"] if len(cores) > 1 else []


def counted(accounts: dict[str, Any]) -> dict[str, Any]:
    """Return the frames of a run: offered = written + lost. Raises ValueError if that does not hold."""
    frames, generator = accounts["frames"], accounts["generator"]
    lost = generator["refused"] + generator["left"] + sum(frames["dropped"].values())
    if generator["offered"] != frames["written"] + lost:
        raise ValueError(
            f"offered {generator['offered']} frames differ from {frames['written']} written plus {lost} lost"
        )
    return {
        **{"offered": generator["offered"], "written": frames["written"], "lost": lost},
        **{"written_bytes": frames["written_bytes"], "offered_ns": round(generator["seconds"] * 1e9)},
    }
