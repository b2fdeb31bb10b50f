"""A disk of a given speed: a file as a loop device, throttled by the kernel (cgroup v1, blkio.throttle)."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from acapella_core.files import scratch_directory

from . import NotMeasurable

THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
MB = 1_000_000


def run(*command: object) -> str:
    """Return a command's output. Raises NotMeasurable with the first line of its message if it fails."""
    try:
        result = subprocess.run([str(argument) for argument in command], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotMeasurable(f"{command[0]} is missing") from error
    if result.returncode:
        message = (result.stderr or result.stdout).strip().splitlines() or ["no message"]
        raise NotMeasurable(message[0] if message[0].startswith(f"{command[0]}:") else f"{command[0]}: {message[0]}")
    return result.stdout.strip()


@contextlib.contextmanager
def directory(parent: Path, size: int, mbps: int | None) -> Iterator[Path]:
    """Yield an empty directory for `size` bytes on the disk of `parent`, or on a disk of `mbps` MB/s.

    The directory is removed at the end. Raises NotMeasurable if such a disk cannot be created.
    """
    with scratch_directory(parent) as scratch:
        if mbps is None:
            yield scratch
            return
        with throttled_disk(scratch, size, mbps) as mounted:
            yield mounted


@contextlib.contextmanager
def throttled_disk(scratch: Path, size: int, mbps: int) -> Iterator[Path]:
    """Yield the mount point of ext4 on a throttled loop device with direct I/O; both are removed at the end."""
    if not THROTTLE.exists():
        raise NotMeasurable(f"a disk of {mbps} MB/s cannot be created: no {THROTTLE} (cgroup v1)")
    image, mounted = scratch / "image", scratch / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    device = run("losetup", "--find", "--show", "--direct-io=on", image)
    try:
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", "-O", "^has_journal", device)
        run("mount", device, mounted)
    finally:
        run("losetup", "--detach", device)  # takes effect immediately, or after the unmount
    number = Path(device).stat().st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    try:
        THROTTLE.write_text(f"{name} {mbps * MB}\n", encoding="ascii")
        yield mounted
    finally:
        THROTTLE.write_text(f"{name} 0\n", encoding="ascii")
        run("umount", mounted)
