"""Runs confined processes: without network, with access to only the files that a program needs, and with limited memory
and CPU time.

The core starts them (confine/confinement.hpp lists the restrictions); `acapella doctor` reports what the kernel
supports.
"""

import os
import pwd
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from acapella_core import _native
from acapella_core.confinement import CPU_S, MEMORY_BYTES, confine_self

__all__ = ["Process", "confine_self", "program_paths", "status_of_test_program", "wait_readable"]

# Files that programs of a distribution read: the programs, libraries, data, and the configuration of libraries.
SYSTEM = (
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/nix/store",
    *(
        f"/etc/{name}"
        for name in (
            "alternatives",
            "gcrypt",
            "gnutls",
            "group",
            "ld.so.cache",
            "ld.so.preload",
            "libnl-3",
            "localtime",
            "nsswitch.conf",
            "passwd",
            "protocols",
            "services",
            "ssl/openssl.cnf",
            "wireshark",
        )
    ),
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
)
FILE_BYTES = 64 << 20  # maximum size of a file, such as the one to which standard error is written
TASKS = 64  # processes and threads; tshark needs one. Enforced only with a separate user id or user namespace.

PROCESSES = "Max processes"  # name in /proc/PID/limits


class Process:
    """A running confined program, with the part of the subprocess.Popen interface that its callers need.

    The program is killed when the object is deleted.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int]):
        """Start ``command``, whose first element is a path. Raises OSError if it cannot be started."""
        self.returncode: int | None = None
        self._process = _native.spawn_confined(
            command[0],
            list(command),
            [f"{name}={value}" for name, value in environment.items()],
            streams,
            [*SYSTEM, *program_paths(Path(command[0]))],
            (MEMORY_BYTES, CPU_S, FILE_BYTES, TASKS),
        )
        self.pid = self._process.pid
        self._handle = os.pidfd_open(self.pid)  # refers to this process even after its PID is reused

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the process and return its exit code, -N for signal N. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not wait_readable(self._handle, timeout_s):
                raise subprocess.TimeoutExpired("", timeout_s)
            self.returncode = os.waitstatus_to_exitcode(self._process.end())
            os.close(self._handle)
        return self.returncode

    def kill(self) -> None:
        """Kill the process and its process group, unless `wait` has returned the exit code."""
        self._process.kill()


def wait_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Wait until a descriptor is readable or at its end. Return False after ``timeout_s`` seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def program_paths(program: Path) -> list[str]:
    """Return the paths that a program outside the directories of SYSTEM may read: its directory, ../lib and ../share.

    If its directory is a home directory or contains one, only the path of the program is returned.
    """
    path = program.resolve()
    homes = [Path.home(), *(Path(user.pw_dir) for user in pwd.getpwall())]
    if any(home.resolve().is_relative_to(path.parent) for home in homes):
        return [str(path)]
    return [str(path.parent), *(str(path.parent.parent / name) for name in ("lib", "share"))]


def status_of_test_program() -> dict[str, str]:
    """Return the fields of /proc/PID/status of a confined test program, and "Max processes" of /proc/PID/limits.

    Raises OSError if the program cannot be started.
    """
    reading, writing = os.pipe()
    try:
        process = Process(["/bin/cat"], {}, (reading, writing, writing))
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
            limits = Path(f"/proc/{process.pid}/limits").read_text(encoding="utf-8").splitlines()
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(reading)
        os.close(writing)
    (limit,) = (line.split()[2] for line in limits if line.startswith(PROCESSES))
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)} | {PROCESSES: limit}
