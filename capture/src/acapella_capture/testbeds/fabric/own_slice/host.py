"""Testbed `fabric` without permissions: captures on the data interfaces of the user's own nodes, over SSH.

Nothing is allocated, and no setting of the nodes is changed. All interfaces of a site are captured at the same time.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acapella_core.errors import UserError

from ....settings import FabricSettings, Settings, methods_by_name
from ... import nic_settings
from ...base import (
    Direction,
    Host,
    Instance,
    Mirror,
    MirrorCounters,
    MirrorRequest,
    NotReleased,
    Port,
    Replay,
    ResourceRequest,
    Site,
    Telemetry,
)
from ...nic_settings import NicSettings
from .. import requirements
from ..credentials import WHERE
from ..login import LoginError
from ..nodes.build import plan_notes
from ..resources import natural_key
from ..session import Session, graph_access
from ..slices import check_lease
from ..testbed import FabricTestbed, NoSliceError
from . import levels, topology

NOTE = "captured at the host: frames as the node's kernel handles them, which offloads may have merged or not yet split"
SHARED_NIC = "NIC_Basic"
SHARED_NIC_BPS = 100_000_000_000  # rate of the port that all shared NICs of a machine use
READ_S = 60


class HostCapture(Mirror):
    """The interface of a node, which captures its own frames; nothing is mirrored."""

    def __init__(self, instance: str, interface: str):
        self.instance = instance
        self.interface = interface

    def start(self) -> None:
        """Do nothing: a capture on the interface sees all frames."""

    def stop(self) -> None:
        """Do nothing."""

    def counters(self) -> MirrorCounters:
        return MirrorCounters()


@dataclass(frozen=True)
class OwnNode:
    """A node of the user's slice: FABRIC's object, its site, and its interfaces with their MAC addresses."""

    node: Any
    site: str
    macs: dict[str, str]  # by FABRIC's name of the interface, which is the name of the port
    rates: dict[str, int | None]


class HostTestbed(FabricTestbed):
    """The nodes of the user's slice, which capture at their own interfaces. A port is such an interface."""

    mirrors_at_creation = False
    allocates = False
    changes_nodes = False

    def __init__(self, settings: FabricSettings, campaign: str, *, own: str | None, session: Session | None = None):
        super().__init__(settings, campaign, session=session)
        self._notes = [NOTE]
        self._own = own  # name of the user's slice
        self._own_id = ""
        self._reading = threading.Lock()
        self._found: dict[str, OwnNode] | None = None
        self._allocated: dict[str, Instance] = {}
        self._nic_settings: dict[tuple[str, str], NicSettings] = {}
        self._to_clean: set[str] = set()  # nodes with our files
        self._has_slices = False  # whether an earlier collection, with more permissions, left slices

    def adapt(self, settings: Settings) -> Settings:
        if settings.capture.directions != ["both"]:
            fix = "set capture.directions: [both]"
            raise UserError("capture at the host records both directions", where="capture.directions", fix=fix)
        if settings.fabric.replay is not None:
            missing = ", ".join(levels.missing_for_mirrors(self.settings, self.session.tags()))
            raise UserError(f"recording at a switch port needs the permission {missing}", where="fabric.replay")
        return settings

    def plan_notes(self, settings: Settings) -> list[str]:
        built = plan_notes(methods_by_name(settings.capture.method).values())
        level = levels.describe(self.settings, self.session.tags())
        return [*level, *built, *self.session.missing_login(self.settings)]

    def sites(self) -> tuple[Site, ...]:
        if self._sites is None:
            by_site: dict[str, list[Port]] = {}
            for found in self._nodes().values():
                by_site.setdefault(found.site, []).extend(
                    Port(name, rate, slices=(str(self._own),)) for name, rate in found.rates.items()
                )
            self._sites = tuple(Site(name, tuple(ports)) for name, ports in sorted(by_site.items()) if ports)
        return self._sites

    def unavailable_sites(self) -> dict[str, str]:
        return {}

    def ports_by_node(self, site: str) -> dict[str, tuple[str, ...]]:
        self.site(site)
        return {name: tuple(found.macs) for name, found in self._nodes().items() if found.site == site and found.macs}

    def resources(self, site: str) -> tuple[Host, ...]:
        return tuple(Host(name, 0, 0, 0, 1) for name in self.ports_by_node(site))

    def telemetry(self, site: str, seconds: float) -> Telemetry | None:
        self.site(site)
        return None  # switch counters are per port, and ports are shared with other users

    def planned_capacity_bps(self, site: str, request: ResourceRequest) -> int | None:
        del request
        self.site(site)
        return None

    def mirror_capacity_bps(self, instance: Instance, receiver: str) -> int | None:
        self.receiver(instance, receiver)
        return None

    def replay_plan(self) -> Replay | None:
        return None

    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        """Connect to the nodes of a site. Nodes that cannot capture are noted. Raises UserError if no node can."""
        faults = []
        for name in self.ports_by_node(site):
            if name not in self._allocated:
                try:
                    self._allocated[name] = self._prepare_own(name)
                except LoginError:
                    raise
                except UserError as error:
                    faults.append(f"{name} cannot capture: {str(error).removeprefix(f'node {name}: ')}")
        instances = self.instances(site)
        if not instances:
            raise UserError("; ".join(faults), where=WHERE)
        for fault in faults:
            self._note(fault)
        return instances

    def instances(self, site: str) -> tuple[Instance, ...]:
        return tuple(self._allocated[name] for name in self.ports_by_node(site) if name in self._allocated)

    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> Mirror:
        self.receiver(instance, receiver)
        self.port(instance.site, port)
        ports = dict(zip(self.ports_by_node(instance.site)[instance.name], instance.receivers, strict=True))
        if ports.get(port) != receiver or direction != "both":
            raise UserError(f"{receiver} of {instance.name} does not capture {port} ({direction})", where=WHERE)
        return HostCapture(instance.name, receiver)

    def prepare_mirrors(self, requests: Sequence[MirrorRequest]) -> None:
        """Do nothing: there are no mirrors."""

    def nic_settings(self, instance: Instance, receiver: str) -> NicSettings | None:
        self.receiver(instance, receiver)
        return self._nic_settings.get((instance.name, receiver))

    def extend(self, site: str, until_ns: int) -> None:
        """Raise UserError if the lease of the user's slice ends earlier: renewing it is up to the user."""
        self.site(site)
        check_lease(self.slices.list_project(), self._own_id, until_ns)

    def release(self, site: str | None = None) -> None:
        """End our programs on the nodes and delete our files there. Raises NotReleased, which names the nodes."""
        names = [name for name in self._to_clean if site is None or self._nodes()[name].site == site]
        if site is not None:
            self.site(site)
        faults: dict[str, str] = {}
        for name in names:
            self._allocated.pop(name, None)
            try:
                self._remote.call(name, "clean")
            except UserError as error:
                faults[f"{self._own}/{name}"] = str(error)
                continue
            finally:
                self._node(name).close_ssh()
            self._to_clean.discard(name)
        if site is None and self._has_slices:
            try:
                super().release()
            except NotReleased as error:
                faults |= dict.fromkeys(error.names, error.reason)
        if faults:
            raise NotReleased(sorted(faults), "; ".join(dict.fromkeys(faults.values())), where=WHERE)

    def leftovers(self) -> tuple[str, ...]:
        """Return the nodes with files of an earlier collection, and its slices if it had more permissions.

        A node that does not respond is included, because it may have such files.
        """
        slices: tuple[str, ...] = ()
        try:
            slices = super().leftovers()
            self._has_slices = bool(slices)
            if self._own is not None:
                self._find_files()
        except NoSliceError:  # the user has deleted it
            pass
        except (UserError, KeyboardInterrupt):  # FABRIC does not respond, or Ctrl-C ends the request
            if not slices and not self._to_clean:
                raise
        left = sorted(self._to_clean - self._allocated.keys(), key=natural_key)
        return (*slices, *(f"{self._own}/{name}" for name in left))

    def _find_files(self) -> None:
        """Find the nodes with files of an earlier collection."""
        refused = False  # bastion hosts block machines with repeated failed logins
        for name in self._nodes():
            if name in self._allocated:
                continue
            try:
                used = refused or self._remote.call(name, "is_used")["used"]
            except UserError as error:
                used, refused = True, isinstance(error, LoginError)
            if used:
                self._to_clean.add(name)
            else:
                self._to_clean.discard(name)

    def _node(self, name: str) -> Any:
        if self._found and name in self._found:
            return self._found[name].node
        raise UserError(f"no node {name!r}", where=WHERE)

    def _nodes(self) -> dict[str, OwnNode]:
        """Return the nodes of the user's slice by name. Raises UserError if there is no such slice."""
        with self._reading:
            if self._found is None:
                if self._own is None:
                    missing = ", ".join(levels.missing_for_mirrors(self.settings, self.session.tags()))
                    fix = "set collect.mode: slice and collect.slice to capture on the nodes of your own slice"
                    raise UserError(f"the project lacks the permission {missing}", where=WHERE, fix=fix)
                found = self._slice_of_project(self._own)
                with graph_access(f"cannot read slice {self._own}"):
                    self._own_id = found.get_slice_id()
                    self._found = dict(own_nodes(found, self._watched, topology.our_names(self.campaign)))
            return self._found

    def _watched(self, node: Any) -> Any:
        return self._host_keys.watch(node, self._own_id)

    def _prepare_own(self, name: str) -> Instance:
        """Check that a node can capture. Return it with its interfaces as receivers. Raises UserError."""
        self._remote.call(name, "clean")  # end programs and delete files that a crash left
        self._to_clean.add(name)
        links, found = self._remote.call(name, "interfaces")["interfaces"], self._nodes()[name]
        missing = [f"{port} ({mac})" for port, mac in found.macs.items() if mac not in links]
        if missing:
            raise UserError(f"no interface for {', '.join(missing)}", where=f"node {name}")
        receivers = [links[mac] for mac in found.macs.values()]
        if self.run(name, ["sh", "-c", "command -v tcpdump"], timeout_s=READ_S).status != 0:
            raise UserError("tcpdump is not installed", where=f"node {name}", fix="sudo apt-get install tcpdump")
        printed = self.run(name, ["sh", "-c", nic_settings.READ, "sh", *receivers], timeout_s=READ_S).stdout
        for receiver, nic in nic_settings.parse(printed, nic_settings.HOST_OFFLOADS).items():
            self._nic_settings[name, receiver] = nic
            if nic.enabled():
                self._note(f"{receiver} of {name}: offloads are on: {', '.join(nic.enabled())}")
        return Instance(name, found.site, tuple(receivers))


def own_nodes(fabric_slice: Any, watched: Callable[[Any], Any], ours: re.Pattern[str]) -> Iterator[tuple[str, OwnNode]]:
    """Yield the user's virtual machines of a slice by name, with their interfaces that are in a network.

    `watched` returns FABRIC's object of a node with a check of its host key. `ours`: names of listening nodes that a
    collection with more permissions left there.
    """
    machines = [node for node in topology.machines(fabric_slice) if not ours.fullmatch(node.get_name())]
    for node in sorted(machines, key=lambda node: natural_key(node.get_name())):
        interfaces = [
            interface for interface in node.get_interfaces(include_subs=False) if interface.get_network() is not None
        ]
        interfaces.sort(key=lambda interface: natural_key(interface.get_name()))
        macs = {interface.get_name(): str(interface.get_mac()).lower() for interface in interfaces}
        rates = {interface.get_name(): rate_bps(interface.get_component().get_model()) for interface in interfaces}
        yield node.get_name(), OwnNode(watched(node), node.get_site(), macs, rates)


def rate_bps(model: str) -> int | None:
    """Return the rate of a port of a NIC model; None if unknown."""
    return SHARED_NIC_BPS if model == SHARED_NIC else requirements.NICS.get(model)
