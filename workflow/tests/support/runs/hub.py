"""An environment such as FABRIC's JupyterHub: Debian with Python, git, make, g++ and tcpdump only, an unprivileged
user, and limits on memory and on the home directory. Needs root and a Debian mirror."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from acapella_testing.new_files import new_directory, write_file
from acapella_testing.source_tree import ROOT, working_tree

MIB = 1024 * 1024
PACKAGES = "ca-certificates,g++,git,make,python3-dev,python3-venv,tcpdump"
FROM_THIS_MACHINE = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CERT", "SSL_CERT_FILE")
USER = "1000"
NEEDED = ("debootstrap", "apt-get", "mkfs.ext4", "losetup", "unshare", "setpriv")

# Arguments: the root, the user, the control group, and the command. Mounts of this namespace end with it.
# /sys/fs/cgroup contains the limits, as in a container.
ENTER = """
set -eu
root=$1 user=$2 group=$3
shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/sys"
mkdir -p "$root/sys/fs/cgroup/memory"
mount --bind "$group" "$root/sys/fs/cgroup${GROUP_PLACE}"
exec env -u GROUP_PLACE chroot "$root" \
    setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --inh-caps=-all -- \
    sh -c 'cd && exec "$@"' sh "$@"
"""

# Arguments: the root, a directory that has the same name there, and the command. The home directory is hidden.
ENTER_NODE = """
set -eu
root=$1 directory=$2
shift 2
mkdir -p "$root$directory"
mount --bind "$directory" "$root$directory"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/home"
exec chroot "$root" "$@"
"""


class Ended(NamedTuple):
    """Result of a command: its output, exit status, peak of its memory without the page cache, processes killed."""

    output: str
    status: int
    peak_bytes: int
    killed: int


def why_not() -> str | None:
    """Return why the environment cannot be created, or None."""
    if os.geteuid() != 0:
        return "creating a root file system needs root privileges"
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"missing programs: {', '.join(missing)}"
    if not Path("/dev/loop-control").exists():
        return "no loop devices"
    if memory_groups() is None:
        return "no control groups for memory"
    return None


def mirror() -> str:
    """Return the Debian mirror that apt uses."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def memory_groups() -> Path | None:
    """Return the directory in which control groups with a memory limit can be created: of version 1, else version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory") / path.lstrip("/")
    root = Path("/sys/fs/cgroup")
    controllers = root / "cgroup.subtree_control"
    return root if controllers.exists() and "memory" in controllers.read_text().split() else None


class MemoryGroup:
    """A control group that limits the memory of the processes started in it."""

    def __init__(self, name: str, limit_bytes: int):
        self.directory = memory_groups() / name
        self.directory.mkdir()
        self.version_1 = (self.directory / "memory.limit_in_bytes").exists()
        self.write("memory.limit_in_bytes" if self.version_1 else "memory.max", limit_bytes)

    def write(self, name: str, value: object) -> None:
        (self.directory / name).write_text(f"{value}\n")

    def read(self, name: str) -> dict[str, int]:
        lines = (line.split() for line in (self.directory / name).read_text().splitlines())
        return {fields[0]: int(fields[1]) for fields in lines}

    def used_bytes(self) -> int:
        """Return the memory in use, without the page cache, which the kernel can reclaim."""
        usage = self.read("memory.stat")
        return usage["total_rss"] + usage.get("total_shmem", 0) if self.version_1 else usage["anon"] + usage["shmem"]

    def killed(self) -> int:
        """Return the number of processes that the kernel killed at the limit."""
        return self.read("memory.oom_control" if self.version_1 else "memory.events")["oom_kill"]


class Hub:
    """The environment: ``run`` executes a command in it as its user."""

    def __init__(self, directory: Path):
        self.root = directory / "root"
        self.home = self.root / "home" / "user"
        self.count = 0

    def run(self, *command: object, limit_bytes: int, user: str = USER) -> Ended:
        """Run a command in the home directory, with a limit on its memory."""
        self.count += 1
        group = MemoryGroup(f"acapella-hub-{os.getpid()}-{self.count}", limit_bytes)
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        place = "/memory" if group.version_1 else ""
        environment = {"HOME": "/home/user", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "GROUP_PLACE": place} | passed
        line = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.root, user]
        peaks, stop = [0], threading.Event()

        def watch() -> None:
            while not stop.wait(0.1):
                peaks.append(group.used_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            ended = subprocess.run(
                [*map(str, line), str(group.directory), *map(str, command)],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False, preexec_fn=lambda: group.write("cgroup.procs", os.getpid()),
            )  # fmt: skip
        finally:
            stop.set()
            watcher.join()
            killed = group.killed()
            group.directory.rmdir()
        return Ended(ended.stdout, ended.returncode, max(peaks), killed)

    def as_node(self, directory: Path) -> tuple[str, ...]:
        """Return the arguments before a command that root runs without the home directory, as on a node of FABRIC.

        ``directory`` has the same name there.
        """
        return ("unshare", "--mount", "sh", "-c", ENTER_NODE, "sh", str(self.root), str(directory))

    def used_bytes(self) -> int:
        """Return the size of the files in the home directory."""
        ended = subprocess.run(["du", "-s", "-B1", self.home], capture_output=True, text=True, check=True)
        return int(ended.stdout.split()[0])


def clone(home: Path) -> None:
    """Clone the project into the home directory, with the changes of the working tree."""
    tree = home / "acapella"
    subprocess.run(["git", "-c", "safe.directory=*", "clone", "-q", "--depth", "1", f"file://{ROOT}", tree], check=True)
    for name in working_tree():
        if not (ROOT / name).is_symlink():
            shutil.copy2(ROOT / name, new_directory((tree / name).parent))
    subprocess.run(["chown", "-R", f"{USER}:{USER}", home], check=True)


@contextlib.contextmanager
def hub(directory: Path, *, home_bytes: int) -> Iterator[Hub]:
    """Create the environment with a home directory of ``home_bytes``, which contains a clone of the project.

    The home directory is a file system in a file. On a tmpfs, the files would count as memory of the processes that
    wrote them, which they do not on a hub.
    """
    created = Hub(directory)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", created.root, mirror()]
    with (directory / "debootstrap.log").open("w") as log:
        subprocess.run(command, stdout=log, stderr=log, check=True)
    for name in FROM_THIS_MACHINE:
        if Path(name).is_file():
            shutil.copyfile(name, f"{created.root}{name}")
    with (created.root / "etc" / "passwd").open("a") as accounts:
        accounts.write(f"user:x:{USER}:{USER}::/home/user:/bin/sh\n")
    image = write_file(directory / "home.image", "")
    os.truncate(image, home_bytes)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    created.home.mkdir(parents=True)
    subprocess.run(["mount", "-o", "loop", image, created.home], check=True)
    try:
        clone(created.home)
        yield created
    finally:
        subprocess.run(["umount", created.home], check=True)
        shutil.rmtree(created.root)
        image.unlink()
