"""Snapshots of process trees, to find what they leave. Processes are compared by ID and start time."""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

KINDS = ("net", "pid", "mnt", "user")


def stat_of(pid: int) -> tuple[int, str] | None:
    """Return parent and start time of a process; None if it has ended or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else (int(fields[1]), fields[19])


def processes() -> dict[int, tuple[int, str]]:
    """Return all processes of the machine."""
    found = {int(entry.name): stat_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    return {pid: stat for pid, stat in found.items() if stat}


def namespaces_of(pid: int) -> set[str]:
    """Return the accessible namespaces of a process."""
    found = set()
    for kind in KINDS:
        with contextlib.suppress(OSError):
            found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
    return found


def open_namespaces(pid: int, others: set[str]) -> dict[str, int]:
    """Open the namespaces of a process except ``others``; return their descriptors by name, as in namespaces_of."""
    found = {}
    for kind in KINDS:
        with contextlib.suppress(OSError):
            file = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            name = f"{kind}:[{os.fstat(file).st_ino}]"
            if name in others or name in found:
                os.close(file)
            else:
                found[name] = file
    return found


@dataclass(frozen=True)
class Tree:
    """A process and its descendants, by ID and start time, and the namespaces that only the descendants have.

    The namespaces are held open until `close`, because the kernel reuses the numbers of deleted namespaces, for example
    for a test that runs at the same time.
    """

    members: frozenset[tuple[int, str]]
    namespaces: dict[str, int]

    @classmethod
    def below(cls, root: int) -> "Tree":
        everything = processes()
        inside = {root}
        while more := {pid for pid, (parent, _) in everything.items() if parent in inside} - inside:
            inside |= more
        namespaces, known = {}, namespaces_of(1) | namespaces_of(root)
        for pid in inside:
            namespaces |= open_namespaces(pid, known | namespaces.keys())
        return cls(frozenset((pid, everything[pid][1]) for pid in inside if pid in everything), namespaces)

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Close the namespaces."""
        for file in self.namespaces.values():
            os.close(file)

    def programs(self) -> set[str]:
        """Return the names of the processes still running."""
        found = set()
        for pid, _ in self.members:
            with contextlib.suppress(OSError):
                found.add(Path(f"/proc/{pid}/comm").read_text().strip())
        return found

    def alive(self) -> list[str]:
        """Return descriptions of what is left: processes of the tree, and other processes in its namespaces."""
        return [f"process {pid} below {parent}" for pid, (parent, started) in processes().items()
                if (pid, started) in self.members or namespaces_of(pid) & self.namespaces.keys()]  # fmt: skip

    def gone_within(self, seconds: float) -> list[str]:
        """Wait until nothing is left; return what is left after the timeout."""
        end = time.monotonic() + seconds
        while (left := self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        return left
