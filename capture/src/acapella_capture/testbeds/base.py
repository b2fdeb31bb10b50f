"""What a testbed is to the coordinator: sites, ports, free resources, telemetry, allocate, mirror, run, fetch, release.

A *site* is a place with a switch; an *instance* is one listening node there, with a NIC whose interfaces, the
*receivers*, each are the end of one mirror at a time; a *node* is anything that programs run on, named by a string (an
instance, a host). The coordinator sees no more than this. Sites are used by several threads at once, one a site.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from acapella_core.errors import UserError

Direction = Literal["rx", "tx", "both"]
Span = Literal["run", "sample"]
PortKind = Literal["uplink", "downlink"]


class InsufficientResources(UserError):
    """The testbed has not got that much now: ask for less. After any other UserError that is of no use."""


@dataclass(frozen=True)
class Port:
    """A switch port; `rate_bps` is its line rate, None where unknown.

    An uplink leads to other sites, a downlink to a host; `slices` are those whose frames pass it, as far as known.
    """

    name: str
    rate_bps: int | None
    kind: PortKind | None = None
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """A place with a switch, and the ports that can be mirrored there."""

    name: str
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Host:
    """What a machine of a site has free now; a NIC is one dedicated NIC of two ports."""

    name: str
    cores: int
    ram_gb: int
    disk_gb: int
    nics: int


@dataclass(frozen=True)
class Rates:
    """What a switch port sent and received, bit/s on average, without FCS and preamble."""

    tx_bps: float
    rx_bps: float


@dataclass(frozen=True)
class Readings:
    """Octet counters of a switch port, oldest first: pairs of a time (s since 1970) and the counter's value then."""

    tx: tuple[tuple[float, int], ...] = ()
    rx: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Telemetry:
    """Rates of a site's ports over the last `seconds`, and the readings they come from; ports without data are absent.

    `source` names who counted.
    """

    source: str
    seconds: float
    ports: Mapping[str, Rates]
    readings: Mapping[str, Readings] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceRequest:
    """What is asked of a site: so many instances, each with a NIC and this much of a host."""

    instances: int
    cores: int = 2
    ram_gb: int = 8
    disk_gb: int = 100


@dataclass(frozen=True)
class Instance:
    """A listening node that is allocated; its receivers are the interfaces of its NIC."""

    name: str
    site: str
    receivers: tuple[str, ...]


@dataclass(frozen=True)
class MirrorRequest:
    """A mirror that is to be: of a port, to an instance's receiver."""

    instance: Instance
    receiver: str
    port: str
    direction: Direction


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
class CompletedProgram:
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
    """One port's frames copied to a receiver, between `start` and `stop` where the switch can do that.

    A receiver has one mirror: asking the testbed for the next one ends the one before.
    """

    instance: str  # its name
    interface: str  # the receiver

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def counters(self) -> MirrorCounters:
        """Counts since `start`."""


class Testbed(ABC):
    """A testbed. Use as a context: entering builds what belongs to no site alone, leaving releases everything."""

    name: str
    receivers_per_instance: int = 2  # a NIC has two ports

    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """The sites with their ports; known without allocating anything."""

    def prepare(self) -> None:
        """Build what belongs to no site alone. Raises UserError where that cannot be had."""
        return

    @abstractmethod
    def resources(self, site: str) -> tuple[Host, ...]:
        """What the hosts of a site have free now. Raises UserError for an unknown site."""

    def telemetry(self, site: str, seconds: float) -> Telemetry | None:
        """What the switch counted over the last `seconds`, or as much of them as there is; None where nobody counts.

        Raises UserError for an unknown site.
        """
        self.site(site)
        return None

    @abstractmethod
    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        """Take instances. Those that exist, of an earlier crash too, are known by name and taken again, not made twice.

        Raises Refused where the site has not got that much, UserError otherwise; no new instance stays then.
        """

    @abstractmethod
    def instances(self, site: str) -> tuple[Instance, ...]:
        """The instances that are allocated at a site. Raises UserError for an unknown site."""

    @abstractmethod
    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> Mirror:
        """Aim a mirror at a port of the instance's site. Raises UserError for an unknown name or direction."""

    def listener_ports(self, site: str) -> frozenset[str]:
        """Ports of a site's switch that lead to what is allocated there, as far as known; none where they are no ports.

        Raises UserError for an unknown site.
        """
        self.site(site)
        return frozenset()

    def prepare_mirrors(self, requests: Sequence[MirrorRequest]) -> None:
        """Hear which mirrors are asked for next, for a testbed that moves several at once faster. Raises nothing."""
        return

    # What a frame occupies beyond its length without FCS and preamble, bytes: at the mirror port (preamble 8, FCS 4 and
    # inter-frame gap 12, IEEE 802.3) and in the counters of a port (FCS, RFC 3635 section 3.2.5).
    capacity_overhead_bytes: int = 24
    counter_overhead_bytes: int = 4
    mirror_buffer_bytes: int | None = None  # what a mirror port queues before it drops; None if unknown

    def mirror_capacity_bps(self, instance: Instance, receiver: str) -> int | None:
        """What a receiver can take, bit/s; None where unknown. Raises UserError for an unknown name."""
        self.receiver(instance, receiver)
        return None

    def extend(self, site: str, until_ns: int) -> None:
        """Keep what is allocated at a site until then (ns since 1970); nothing to do where nothing expires."""
        self.site(site)

    @abstractmethod
    def release(self, site: str | None = None) -> None:
        """Give back everything of a site, or everything, also what an earlier collection left; harmless if nothing is.

        After a release of everything, `prepare` comes before the next allocation.
        """

    def leftovers(self) -> tuple[str, ...]:
        """The names of what an earlier collection of this campaign left allocated."""
        return ()

    def interrupt_waits(self) -> None:
        """Who waits for a node or a mirror gets a UserError; from now on only what is given back is waited for."""
        return

    @abstractmethod
    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        """Run a program to its end on a node. Raises UserError for an unknown node or after `timeout_s`."""

    @abstractmethod
    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        """Start a program on a node, its standard output in the node's file `output`."""

    def path_on_node(self, node: str, file: str) -> str:
        """The path of a node's file, for a program that opens it by itself. Raises UserError where none can."""
        raise UserError(f"no program opens {file!r} by itself; use capture.method tcpdump", where=f"node {node}")

    @abstractmethod
    def fetch(self, node: str, path: str, target: Path) -> None:
        """Bring a node's file to `target`, whole or not at all; the node's copy stays."""

    def put(self, node: str, source: Path, file: str) -> None:
        """Bring a file of this machine to a node's file, whole or not at all; it may be run, by its owner alone.

        Raises UserError for an unknown node, or where none takes files.
        """
        raise UserError(f"takes no files, so not {source.name}", where=f"node {node}")

    @contextlib.contextmanager
    def traffic(self, span: Span, seconds: float) -> Iterator[None]:
        """Send what the testbed itself sends during a run or a sample; most testbeds send nothing."""
        yield

    def traffic_report(self) -> list[dict[str, Any]] | None:
        """What became of that traffic so far, as manifest key `traffic`; None where the testbed sends nothing."""
        return None

    def replay_plan(self) -> Replay | None:
        """What it replays; None where that is nothing. Known without allocating anything."""
        return None

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """What is to be on the way of a replay. Raises UserError where that cannot be had."""
        yield

    def replay(self) -> int:
        """Send the capture once, in the environment that holds; how many packets, when all have arrived or are lost.

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

    def receiver(self, instance: Instance, name: str) -> str:
        """The receiver's name. Raises UserError where the instance is not allocated or has none of that name."""
        if instance not in self.instances(instance.site):
            raise UserError(f"no instance {instance.name!r}", where=f"testbed {self.name}")
        if name not in instance.receivers:
            raise UserError(f"no receiver {name!r} on {instance.name}", where=f"testbed {self.name}")
        return name

    def __enter__(self) -> Self:
        try:
            self.prepare()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
