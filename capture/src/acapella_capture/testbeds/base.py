"""The interface of testbeds: sites, ports, resources, telemetry; allocate, mirror, run, fetch, release.

A *site* is a place with a switch. An *instance* is a listening node there, with a NIC whose interfaces, the
*receivers*, each receive one mirror at a time. A *node* is anything that runs programs, identified by a string (an
instance, a host). The coordinator uses nothing else. Sites are used by several threads in parallel, one per site.
"""

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from acapella_core.errors import UserError

from ..settings import Settings
from .nic_settings import NicSettings

Direction = Literal["rx", "tx", "both"]
Span = Literal["run", "sample"]
PortKind = Literal["uplink", "downlink"]
BATCH_FAILED = re.compile(r"Command failed -:(\d{1,9})")  # iproute2: number of the line of standard input


class InsufficientResources(UserError):
    """The testbed does not have the requested resources now; a smaller request may succeed."""


class NotReleased(UserError):
    """Resources that are still allocated, by name, after all attempts to release them."""

    def __init__(self, names: Sequence[str], reason: str, where: object = None, fix: str | None = None):
        super().__init__(f"still allocated: {', '.join(names)} ({reason})", where=where, fix=fix)
        self.names = tuple(names)
        self.reason = reason


@dataclass(frozen=True)
class Port:
    """A switch port; `rate_bps` is its line rate, None if unknown.

    An uplink leads to other sites, a downlink to a host; `slices` are the known slices whose frames pass the port.
    """

    name: str
    rate_bps: int | None
    kind: PortKind | None = None
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """A place with a switch, and the ports that can be mirrored there; `limits` describes current limits."""

    name: str
    ports: tuple[Port, ...]
    limits: str | None = None


@dataclass(frozen=True)
class Host:
    """The free resources of a machine of a site; `nics` is the number of its dedicated NICs."""

    name: str
    cores: int
    ram_gb: int
    disk_gb: int
    nics: int


@dataclass(frozen=True)
class Rates:
    """Mean rates that a switch port sent and received, in bit/s as the switch counts them, without preamble."""

    tx_bps: float
    rx_bps: float


@dataclass(frozen=True)
class Readings:
    """Byte counters of a switch port, oldest first: pairs of a time (s since 1970) and the counter's value."""

    tx: tuple[tuple[float, int], ...] = ()
    rx: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Telemetry:
    """Rates of a site's ports over the last `seconds`, and the underlying readings; ports without data are absent.

    `source` names the system that counted.
    """

    source: str
    seconds: float
    ports: Mapping[str, Rates]
    readings: Mapping[str, Readings] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceRequest:
    """A request to a site: a number of instances, each with a NIC and these resources of a host."""

    instances: int
    cores: int = 2
    ram_gb: int = 8
    disk_gb: int = 100


@dataclass(frozen=True)
class Instance:
    """An allocated listening node; its receivers are the interfaces of its NIC."""

    name: str
    site: str
    receivers: tuple[str, ...]


@dataclass(frozen=True)
class MirrorRequest:
    """A requested mirror: from a port to a receiver of an instance."""

    instance: Instance
    receiver: str
    port: str
    direction: Direction


@dataclass(frozen=True)
class MirrorCounters:
    """Frames that a mirror had to copy (`offered`) and sent to the instance (`delivered`); None if not counted.

    Bytes are wire lengths without FCS and preamble.
    """

    offered_frames: int | None = None
    delivered_frames: int | None = None
    offered_bytes: int | None = None
    delivered_bytes: int | None = None


@dataclass(frozen=True)
class Replay:
    """The trials of a testbed: traffic that it sends several times, and the port at which each trial is recorded.

    `filter` (pcap-filter(7)) selects only the frames of the trials; `repeats` is the number of trials in each
    environment; `notes` describe the trials of each environment in manifests.
    """

    site: Site
    port: Port
    direction: Direction
    filter: str
    repeats: Mapping[str, int]
    notes: Mapping[str, str]


@dataclass(frozen=True)
class CompletedProgram:
    """A program that ended: its exit status and its output."""

    status: int
    stdout: str
    stderr: str

    def failure_reason(self, stdin: str) -> str:
        """Return the last line of its output, or its exit status if there is none; ``stdin`` was its input.

        `ip -batch` and `tc -batch` print the number of the failed line last, after the reason, which a usage text may
        follow. For these, return the reason and the failed line.
        """
        lines = [line for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        lines = lines or [f"exit status {self.status}"]
        failed = BATCH_FAILED.fullmatch(lines[-1])
        if not failed:
            return lines[-1]
        usage = next((number for number, line in enumerate(lines) if line.startswith("Usage:")), len(lines) - 1)
        reason = lines[max(0, usage - 1)]
        command = stdin.splitlines()[int(failed[1]) - 1 :][:1]
        return f"{reason} ({command[0]})" if command else reason


@dataclass(frozen=True)
class DpdkDevice:
    """How acapella-dpdk-capture captures the frames of a node's interface.

    `program` is its path on the node. `pci` is the address of a NIC that DPDK's driver uses together with the kernel;
    None: a socket of the kernel (net_af_packet), because of `reason`. `kernel_driver` is the driver of the interface,
    None if it has none.
    """

    program: str
    pci: str | None = None
    huge_pages: bool = False
    kernel_driver: str | None = None
    reason: str | None = None


class Job(ABC):
    """A program that runs on a node until it ends or is stopped."""

    @abstractmethod
    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""

    @abstractmethod
    def signal(self, name: str) -> None:
        """Send a signal by name (`INT`, `USR1`); no effect if the program has ended."""

    @abstractmethod
    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end. Return the exit status; None if it is still running."""

    @abstractmethod
    def log(self) -> str:
        """Return its standard error so far."""


class Mirror(ABC):
    """Copies of one port's frames to a receiver, between `start` and `stop` if the switch supports that.

    A receiver has one mirror: requesting a new one ends the previous one.
    """

    instance: str  # instance name
    interface: str  # receiver name

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def counters(self) -> MirrorCounters:
        """Return the counts since `start`."""


class Testbed(ABC):
    """A testbed. As a context, it builds shared resources at the start and releases everything at the end."""

    name: str
    receivers_per_instance: int = 2  # ports of a NIC
    mirrors_at_creation = False  # whether instances can be created with mirrors, see `announce_mirrors`

    allocates = True  # whether samples need listening nodes, which are allocated

    def adapt(self, settings: Settings) -> Settings:
        """Return the settings, reduced to what the testbed permits. Raises UserError if that is impossible."""
        return settings

    def plan_notes(self, settings: Settings) -> list[str]:
        """Return lines of the plan: how the testbed captures, and what `adapt` reduces. Raises UserError."""
        del settings
        return []

    def ports_by_node(self, site: str) -> Mapping[str, tuple[str, ...]] | None:
        """Return the ports of each node, in the order of its receivers, if nodes capture at their own interfaces.

        None if mirrors copy the frames of ports to listening nodes. Raises UserError for an unknown site.
        """
        self.site(site)
        return None

    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """Return the sites with their ports, known without allocating anything."""

    def unavailable_sites(self) -> dict[str, str]:
        """Return the sites that cannot be used now, and why; `sites` does not contain them."""
        return {}

    def prepare(self) -> None:
        """Build the resources shared by all sites. Raises UserError if that fails."""
        return

    @abstractmethod
    def resources(self, site: str) -> tuple[Host, ...]:
        """Return the free resources of a site's hosts. Raises UserError for an unknown site."""

    def telemetry(self, site: str, seconds: float) -> Telemetry | None:
        """Return the switch's rates over the last `seconds`, or a shorter available time; None if nothing is counted.

        Raises UserError for an unknown site.
        """
        self.site(site)
        return None

    @abstractmethod
    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        """Allocate instances. Existing ones, including those left by a crash, are found by name and reused.

        Raises InsufficientResources if the site does not have the resources, UserError for other failures. In both
        cases, new instances are released.
        """

    @abstractmethod
    def instances(self, site: str) -> tuple[Instance, ...]:
        """Return the instances allocated at a site. Raises UserError for an unknown site."""

    @abstractmethod
    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> Mirror:
        """Point a mirror at a port of the instance's site. Raises UserError for an unknown name or direction."""

    def listener_ports(self, site: str) -> frozenset[str]:
        """Return the known switch ports that lead to listening nodes; empty if they use no switch ports.

        Raises UserError for an unknown site.
        """
        self.site(site)
        return frozenset()

    def announce_mirrors(self, site: str, ports: Sequence[tuple[str, Direction]]) -> None:
        """Announce the first mirrors of a site, for a testbed that creates them together with its instances.

        `ports` are those of the first receivers of all instances, then those of the second ones. Never raises.
        """
        return

    def prepare_mirrors(self, requests: Sequence[MirrorRequest]) -> None:
        """Announce the next mirrors, for a testbed that moves several together faster. Never raises."""
        return

    # Bytes that a frame occupies beyond its length without FCS and preamble: at the mirror port (preamble 8, FCS 4,
    # inter-frame gap 12, IEEE 802.3) and in the counters of a port (FCS, RFC 3635 section 3.2.5).
    capacity_overhead_bytes: int = 24
    counter_overhead_bytes: int = 4
    mirror_buffer_bytes: int | None = None  # queue of a mirror port; None if unknown

    def mirror_capacity_bps(self, instance: Instance, receiver: str) -> int | None:
        """Return the capacity of a receiver, bit/s; None if unknown. Raises UserError for an unknown name."""
        self.receiver(instance, receiver)
        return None

    def planned_capacity_bps(self, site: str, request: ResourceRequest) -> int | None:
        """Return the rate of the slowest receiver that a request would get now, bit/s; None if unknown.

        Raises UserError for an unknown site.
        """
        del request
        self.site(site)
        return None

    def nic_settings(self, instance: Instance, receiver: str) -> NicSettings | None:
        """Return the settings of a receiver's interface; None if unknown. Raises UserError for an unknown name."""
        self.receiver(instance, receiver)
        return None

    def extend(self, site: str, until_ns: int) -> None:
        """Keep the resources of a site until a time (ns since 1970); no effect if nothing expires."""
        self.site(site)

    @abstractmethod
    def release(self, site: str | None = None) -> None:
        """Release everything of a site, or everything, including what an earlier collection left; idempotent.

        After releasing everything, `prepare` is needed before the next allocation.
        """

    def leftovers(self) -> tuple[str, ...]:
        """Return the names of resources that an earlier collection of this campaign left allocated."""
        return ()

    def interrupt_waits(self) -> None:
        """Interrupt all waits for nodes and mirrors with a UserError; from now on only releases are waited for."""
        return

    def resume_waits(self) -> None:
        """Permit waits for nodes and mirrors again: the trials follow after the samples of all sites."""
        return

    @abstractmethod
    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        """Run a program on a node to its end. Raises UserError for an unknown node or after `timeout_s`."""

    @abstractmethod
    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        """Start a program on a node, with its standard output in the node's file `output`."""

    def path_on_node(self, node: str, file: str) -> str:
        """Return the path of a node's file for programs on the node. Raises UserError if unsupported."""
        raise UserError(f"programs cannot open {file!r}; use capture.method tcpdump", where=f"node {node}")

    def prepare_capture(self, instance: Instance, method: str, logs: Path, report: Callable[[str], None]) -> None:
        """Prepare a node for captures with a method, which may take minutes; no effect if its programs are installed.

        `logs`: local directory for the log of a failed step. `report` is called with lines of progress. Raises
        UserError.
        """
        return

    def dpdk_device(self, node: str, interface: str) -> DpdkDevice | None:
        """Return how acapella-dpdk-capture captures an interface; None: use this machine's program and a socket.

        Raises UserError if the node was not prepared.
        """
        del node, interface
        return None

    def provide(self, node: str, source: Path) -> str:
        """Return the path of a local file for programs on a node, which may read a copy. Raises UserError."""
        del node
        return str(source.resolve())

    @abstractmethod
    def fetch(self, node: str, path: str, target: Path) -> None:
        """Copy a node's file to `target` atomically; the node keeps its copy."""

    def put(self, node: str, source: Path, file: str) -> None:
        """Copy a local file to a node's file atomically, executable by its owner only.

        Raises UserError for an unknown node, or if unsupported.
        """
        raise UserError(f"cannot upload {source.name}: uploads are not supported", where=f"node {node}")

    @contextlib.contextmanager
    def traffic(self, span: Span, seconds: float) -> Iterator[None]:
        """Send the testbed's own traffic, if any, during a run or a sample."""
        yield

    def traffic_report(self) -> list[dict[str, Any]] | None:
        """Return the results of the testbed's traffic so far, as manifest key `traffic`; None if it sends none."""
        return None

    def replay_plan(self) -> Replay | None:
        """Return the trials of the testbed; None if there are none. Known without allocating anything."""
        return None

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """Set up the network conditions of trials. Raises UserError if that fails."""
        yield

    def replay(self) -> int:
        """Send the traffic of a trial in the current environment, wait until all packets have arrived or are lost, and
        return the number of packets sent.

        Raises UserError if packets were not sent, or the environment was not as specified.
        """
        raise UserError("cannot replay", where=f"testbed {self.name}")

    def deliver_replay(self, sample: str, raw: Path) -> dict[str, Any] | None:
        """Write the files of the last trial to ``raw``; return the manifest keys that describe it, or None.

        Raises UserError if they cannot be written.
        """
        del sample, raw
        return None

    def notes(self) -> list[str]:
        """Return notes about this testbed for manifests: missing programs or features."""
        return []

    def site(self, name: str) -> Site:
        """Return a site by name. Raises UserError if there is none."""
        for site in self.sites():
            if site.name == name:
                return site
        raise UserError(f"no site {name!r}", where=f"testbed {self.name}")

    def port(self, site: str, name: str) -> Port:
        """Return a site's port by name. Raises UserError if there is none."""
        for port in self.site(site).ports:
            if port.name == name:
                return port
        raise UserError(f"no port {name!r} at site {site!r}", where=f"testbed {self.name}")

    def receiver(self, instance: Instance, name: str) -> str:
        """Return the receiver's name. Raises UserError if the instance is not allocated or has no such receiver."""
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
