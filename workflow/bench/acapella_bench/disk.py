"""Measures the sequential write speed of the disk with fio and O_DIRECT."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

DEEP_QUEUE, ONE_WRITE = ("1M", 16), ("16M", 1)  # block size and queue depth; the DPDK writer uses ONE_WRITE
LONGEST_S = 60


@dataclass(frozen=True)
class Speed:
    """Result of fio. bytes_per_s is 0 if it could not be measured; ``note`` describes the measurement or the error."""

    bytes_per_s: float
    note: str


def speed(directory: Path, seconds: float, sizes: tuple[str, int] = DEEP_QUEUE) -> Speed:
    """Return the write speed of the disk that contains ``directory``; ``sizes``: block size and queue depth."""
    if shutil.which("fio") is None:
        return Speed(0, "not measured: fio is not installed; apt-get install fio")
    path, (block, depth) = directory / "fio.tmp", sizes
    words = ["fio", "--name=disk", f"--filename={path}", "--rw=write", "--direct=1", "--ioengine=io_uring"]
    words += [f"--bs={block}", f"--iodepth={depth}", "--size=4G", "--time_based", f"--runtime={max(seconds, 1):.0f}"]
    words += ["--output-format=json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return Speed(0, f"not measured: fio did not end within {LONGEST_S} s")
    finally:
        path.unlink(missing_ok=True)
    if done.returncode:
        note = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        return Speed(0, f"not measured: fio: {note[0]}")
    write_result = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["write"]
    return Speed(write_result["bw_bytes"], f"fio, O_DIRECT, block size {block}, queue depth {depth}")
