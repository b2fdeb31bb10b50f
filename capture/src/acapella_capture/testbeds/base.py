"""What a testbed is to the coordinator: sites, ports and their rates, allocate, mirror, run, fetch, release.

A *site* is a place with a switch; an *instance* is one listening node there, the end of the site's mirror; a *node*
is anything that programs run on, named by a string (an instance, a host). The coordinator sees no more than this.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from acapella_core.errors import UserError

Direction = Literal["rx", "tx", "both"]
Span = Literal["run", "sample"]


@dataclass(frozen=True)
class Port:
    """A switch port; `rate_bps` is its line rate, None where unknown."""

    name: str
    rate_bps: int | None


@dataclass(frozen=True)
class Site:
    """A place with a switch, the ports that can be mirrored there and the nodes that listen."""

    name: str
    ports: tuple[Port, ...]
    instances: tuple[str, ...]


@dataclass(frozen=True)
class MirrorCounters:
    """What a mirror was to copy (`offered`) and what left towards the instance (`delivered`); None where nobody counts.

    Bytes are wire lengths without FCS and preamble.
    """

    offered_frames: int | None = None
    delivered_frames: int | None = None
    offered_bytes: int | None = None
    delivered_bytes: int | None = None


@dataclass(frozen=True)
class Replay:
    """One capture that a testbed sends again and again, and where each of these trials is recorded.

    `filter` (pcap-filter(7)) takes the replayed frames and no others, `note` tells readers of a trial what was done.
    """

    site: Site
    port: Port
    direction: Direction
    filter: str
    environments: tuple[str, ...]
    repeats: int
    note: str


@dataclass(frozen=True)
class Finished:
    """A program that ended: its exit status and what it printed."""

    status: int
    stdout: str
    stderr: str


class Job(ABC):
    """A program that runs on a node until it ends or is told to."""

    @abstractmethod
    def poll(self) -> int | None:
        """The exit status, None while it runs."""

    @abstractmethod
    def signal(self, name: str) -> None:
        """Send a signal by name (`INT`, `USR1`); nothing where the program has ended."""

    @abstractmethod
    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; the exit status, None where it still runs."""

    @abstractmethod
    def log(self) -> str:
        """What it has written to its standard error so far."""


class Mirror(ABC):
    """One port's frames copied to an instance, between `start` and `stop` where the switch can do that.

    A site has one mirror: asking the testbed for the next one ends the one before.
    """

    instance: str
    interface: str  # of the instance, where the copies arrive

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def counters(self) -> MirrorCounters:
        """Counts since `start`."""


class Testbed(ABC):
    """A testbed. Use as a context: it allocates on entry, releases on exit, whatever happens between."""

    name: str

    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """The sites with their ports; known without allocating anything."""

    @abstractmethod
    def allocate(self) -> None:
        """Take what the samples need. Raises UserError where that cannot be had; nothing stays taken then."""

    @abstractmethod
    def release(self) -> None:
        """Give everything back; harmless where nothing is taken."""

    @abstractmethod
    def mirror(self, site: str, port: str, direction: Direction) -> Mirror:
        """Aim the site's mirror at a port. Raises UserError for an unknown site, port or direction."""

    @abstractmethod
    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> Finished:
        """Run a program to its end on a node. Raises UserError for an unknown node or after `timeout_s`."""

    @abstractmethod
    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        """Start a program on a node, its standard output in the node's file `output`."""

    def place(self, node: str, file: str) -> str:
        """The path of a node's file, for a program that opens it by itself. Raises UserError where none can."""
        raise UserError(f"no program opens {file!r} by itself; use capture.method tcpdump", where=f"node {node}")

    @abstractmethod
    def fetch(self, node: str, path: str, target: Path) -> None:
        """Bring a node's file to `target`, whole or not at all; the node's copy may be gone afterwards."""

    @contextlib.contextmanager
    def traffic(self, span: Span, seconds: float) -> Iterator[None]:
        """Send what the testbed itself sends during a run or a sample; most testbeds send nothing."""
        yield

    def traffic_facts(self) -> list[dict[str, Any]] | None:
        """What became of that traffic so far, as manifest key `traffic`; None where the testbed sends nothing."""
        return None

    def replays(self) -> Replay | None:
        """What it replays; None where that is nothing. Known without allocating anything."""
        return None

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """What is to be on the way of a replay. Raises UserError where that cannot be had."""
        yield

    def replay(self) -> None:
        """Send the capture once, in the environment that holds; return when it has arrived or is lost.

        Raises UserError where not all of it was sent, or the environment was not what it ought to be.
        """
        raise UserError("cannot replay", where=f"testbed {self.name}")

    def notes(self) -> list[str]:
        """What a reader of a sample has to know about this testbed: programs or features that were missing."""
        return []

    def site(self, name: str) -> Site:
        """The site of that name. Raises UserError where there is none."""
        for site in self.sites():
            if site.name == name:
                return site
        raise UserError(f"no site {name!r}", where=f"testbed {self.name}")

    def port(self, site: str, name: str) -> Port:
        """A site's port by name. Raises UserError where there is none."""
        for port in self.site(site).ports:
            if port.name == name:
                return port
        raise UserError(f"no port {name!r} at site {site!r}", where=f"testbed {self.name}")

    def __enter__(self) -> Self:
        try:
            self.allocate()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
