"""Small file systems for tests of full disks, which commands mount in a separate mount namespace."""

from pathlib import Path

from acapella_testing.new_files import new_directory
from acapella_testing.requirements import require_root, require_success


def mount_command(kind: str, directory: Path, size: str) -> str:
    """Return a shell command that mounts a new tmpfs or ext4 at a directory, which is created; the test needs root."""
    require_root("no private file systems")
    new_directory(directory)
    if kind == "tmpfs":
        return f"mount -t tmpfs -o size={size} none {directory}"
    image = directory.parent / "image"
    return f"truncate -s {size} {image} && mkfs.ext4 -q -m 0 -N 64 {image} && mount -o loop {image} {directory}"


def small_disk_or_skip(directory: Path, size: str, kind: str = "tmpfs") -> tuple[str, ...]:
    """Return a command prefix that provides a small file system at ``directory``.

    The files left on it are copied to ``directory``/../left. Then it is unmounted, which detaches its loop device.
    """
    mount = mount_command(kind, directory, size)
    require_success(["unshare", "-m", "sh", "-c", mount], f"private {kind} mount")
    copy = f"cp -a {directory}/. {new_directory(directory.parent / 'left')}"
    script = f'{mount} && {{ "$@"; status=$?; {copy}; umount {directory}; exit $status; }}'
    return ("unshare", "-m", "sh", "-c", script, "sh")
