"""Testbed `fabric`: listening nodes in slices on FABRIC, one slice per site, and port mirrors to their NICs."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from acapella_core.errors import UserError

from ...settings import FabricSettings, Settings, methods_by_name
from ..base import (
    Direction,
    Host,
    Instance,
    InsufficientResources,
    Mirror,
    MirrorRequest,
    NotReleased,
    Rates,
    Replay,
    ResourceRequest,
    Site,
    Telemetry,
)
from ..nic_settings import NicSettings
from . import credentials, mirrors, replay, requirements, resources, site_models, switch_counters
from .credentials import WHERE
from .host_keys import FILE, HostKeys
from .listeners import SiteSlice, instances_in, set_up
from .login import LoginError
from .moves import Moves, Position
from .nodes.build import check_build_image, plan_notes
from .nodes.programs import NodePrograms
from .own_slice import levels
from .session import GRAPH_LOCK, Session, graph_access
from .slices import FAILED, GONE, READY, Slices, slice_name

NOTE = "the switch also copies before and after a sample; frames that it could not copy are not counted"


class NoSliceError(UserError):
    """The project has no slice with a given name."""


class FabricTestbed(NodePrograms):
    """FABRIC, with one slice per site.

    `follow`: a slice of the project whose ports are sampled; `fixed`: ports by site that the config names.
    """

    name = "fabric"
    mirrors_at_creation = True

    def __init__(
        self,
        settings: FabricSettings,
        campaign: str,
        *,
        follow: str | None = None,
        fixed: Mapping[str, Sequence[str]] | None = None,
        session: Session | None = None,
    ):
        self.settings = settings
        self.campaign = campaign
        self.session = session or Session(credentials.find(settings.fabric_rc), settings.poll_s)
        self.slices = Slices(self.session, settings, campaign)
        self._follow = follow
        self._fixed = fixed or {}
        self._sites: tuple[Site, ...] | None = None
        self._unavailable: dict[str, str] = {}
        self._notes: list[str] = [NOTE]
        self._replayer: replay.Replayer | None = None
        self._sending_nodes: dict[str, Any] = {}  # FABRIC's node objects of the user's slice, by SLICE/NODE
        self._site_slices: dict[str, SiteSlice] = {}
        self._looked_up: set[str] = set()  # sites whose slice was looked up
        self._moves = Moves(self.slices, settings)
        self._announced: dict[str, list[Position]] = {}  # first mirrors by site, until a slice is created
        self._listener_ports: dict[str, set[str]] = {}  # known switch ports that lead to our receivers, by site
        super().__init__(f"acapella-{campaign}")
        self._host_keys = HostKeys(self.session.credentials.tokens.with_name(FILE))

    def adapt(self, settings: Settings) -> Settings:
        check_build_image(self.settings.image, methods_by_name(settings.capture.method).values())
        return levels.adapt(settings, self.session.tags(), self.receivers_per_instance)

    def plan_notes(self, settings: Settings) -> list[str]:
        tags = self.session.tags()
        level = [*levels.describe(self.settings, tags), *levels.reductions(settings, self.adapt(settings))]
        built = plan_notes(methods_by_name(settings.capture.method).values())
        return [*level, *built, *self.session.missing_login(self.settings)]

    def __enter__(self) -> Self:
        self.prepare()  # allocates nothing, so there is nothing to release on failure
        return self

    def prepare(self) -> None:
        """Find credentials and a valid token."""
        self.session.check()

    def sites(self) -> tuple[Site, ...]:
        if self._sites is None:
            summary = self._summary("cannot read FABRIC's sites")
            self._unavailable = resources.unavailable_sites(summary.get("sites") or ())
            used = self._followed_ports()
            self._sites = resources.sites_of(
                summary.get("sites") or (), summary.get("links") or (), self._known_ports(used), used
            )
        return self._sites

    def unavailable_sites(self) -> dict[str, str]:
        self.sites()
        return self._unavailable

    def resources(self, site: str) -> tuple[Host, ...]:
        self.site(site)
        return resources.hosts_of(self._hosts(site), site, self._nics())

    def _nics(self) -> list[str]:
        """Return the NIC models that the project may use; all if it may use none, so that `allocate` names the
        permission."""
        with contextlib.suppress(UserError):
            return requirements.permitted_nics(self.settings.nics, self.session.tags()) or self.settings.nics
        return self.settings.nics

    def telemetry(self, site: str, seconds: float) -> Telemetry | None:
        names = [port.name for port in self.site(site).ports]
        listener_ports = dict.fromkeys(
            self._listener_ports.get(site, ()), Rates(0.0, 0.0)
        )  # these ports only carry our own copies
        try:
            telemetry = switch_counters.site_counters(self.settings.telemetry_url, self.session.token, site).telemetry(
                seconds, names
            )
            return telemetry and replace(telemetry, ports={**telemetry.ports, **listener_ports})
        except UserError as error:
            self._note(f"no telemetry: {error}")
            return None

    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        self.site(site)
        self._looked_up.add(site)
        tags = self.session.tags()
        request = requirements.permitted_request(request, tags)
        requirements.check_tags(self.settings, request, tags)
        self.session.check_login(self.settings)
        fabric_slice = self._usable_slice(site)
        existing = instances_in(fabric_slice, self._prefix(site)) if fabric_slice else []
        missing = request.instances - len(existing)
        if missing > 0:
            fabric_slice = self._grow(site, fabric_slice, existing, replace(request, instances=missing))
        try:
            self._connect(site, fabric_slice)
            self._learn_listener_ports(site, fabric_slice)
        except BaseException:
            if not existing:  # the slice is new
                self.release(site)
            raise
        return self.instances(site)

    def _grow(self, site: str, fabric_slice: Any | None, existing: Sequence[str], request: ResourceRequest) -> Any:
        """Add the requested number of nodes to a slice, or create one. Raises InsufficientResources or UserError."""
        candidates = resources.alternatives(self._hosts(site), site, self._nics(), request)
        if not candidates:
            raise InsufficientResources(f"no hosts for {request.instances} more instances at {site}", where=WHERE)
        unused = [name for number in range(1, 1 + request.instances + len(existing))
                  if (name := f"{self._prefix(site)}-listener{number}") not in existing]  # fmt: skip
        refusals: list[InsufficientResources] = []
        for chosen in candidates if self.site(site).limits else candidates[:1]:
            nodes = list(zip(unused, chosen, strict=False))
            try:
                if fabric_slice is None:
                    return self._create(site, nodes, request)
                return self._add_nodes(self.slices.open(fabric_slice.get_slice_id()), site, nodes, request)
            except InsufficientResources as error:
                refusals.append(error)
        raise refusals[0]

    def _add_nodes(self, fabric_slice: Any, site: str, nodes: list[tuple[str, str]], request: ResourceRequest) -> Any:
        return self.slices.add_nodes(fabric_slice, site, nodes, request)

    def _create(self, site: str, nodes: list[tuple[str, str]], request: ResourceRequest) -> Any:
        """Create a slice with the announced mirrors; if that fails, without them. Raises as Slices.create does."""
        announced = self._announced.pop(site, [])
        if announced:
            try:
                return self.slices.create(site, nodes, request, announced)
            except NotReleased:
                raise
            except UserError as error:  # the cause may be the nodes or a mirror, such as a different user's
                if self.slices.stopping.is_set():
                    raise
                self._note(f"{site}: no slice could be created with the first mirrors: {error}")
        return self.slices.create(site, nodes, request)

    def announce_mirrors(self, site: str, ports: Sequence[Position]) -> None:
        self._announced[site] = list(ports)

    def instances(self, site: str) -> tuple[Instance, ...]:
        """Return the instances; the first call also finds active ones that an earlier crash left."""
        self.site(site)
        if site not in self._site_slices and site not in self._looked_up:
            self._looked_up.add(site)
            with contextlib.suppress(UserError):  # `allocate` reports the error
                fabric_slice = self._existing_slice(site)
                if fabric_slice is not None and self.slices.has_active_nodes(
                    fabric_slice, instances_in(fabric_slice, self._prefix(site))
                ):
                    self._connect(site, fabric_slice)
        return self._site_slices[site].instances if site in self._site_slices else ()

    def _existing_slice(self, site: str) -> Any | None:
        """Return the slice with the nodes that an earlier collection left; None if there is none. Raises UserError."""
        record = self.slices.find_slice(site)
        return self.slices.open(record.slice_id) if record is not None and record.state in READY + FAILED else None

    def _prefix(self, site: str) -> str:
        """Return the beginning of the names of our nodes at a site."""
        return site

    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> Mirror:
        self.receiver(instance, receiver)
        self.port(instance.site, port)
        if direction not in ("rx", "tx", "both"):
            raise UserError(f"no direction {direction!r}; rx, tx or both", where=WHERE)
        if port in self._listener_ports.get(instance.site, ()):
            raise UserError(f"{port} leads to one of our listening nodes", where=WHERE)
        self._move_mirrors(instance.site, [MirrorRequest(instance, receiver, port, direction)])
        return mirrors.FabricMirror(instance.name, receiver)

    def listener_ports(self, site: str) -> frozenset[str]:
        self.site(site)
        return frozenset(self._listener_ports.get(site, ()))

    def prepare_mirrors(self, requests: Sequence[MirrorRequest]) -> None:
        """Move all mirrors of a site together: each modification of its slice takes a minute and may hang."""
        for site in dict.fromkeys(request.instance.site for request in requests):
            listener_ports = self._listener_ports.get(site, ())
            site_requests = [
                request for request in requests if request.instance.site == site and request.port not in listener_ports
            ]
            with contextlib.suppress(UserError):  # `mirror` reports the error
                for request in site_requests:
                    self.receiver(request.instance, request.receiver)
                    self.port(site, request.port)
                self._move_mirrors(site, site_requests)

    def _move_mirrors(self, site: str, requests: Sequence[MirrorRequest]) -> None:
        """Move mirrors to their ports unless they are there. Raises UserError."""
        site_slice = self._site_slices[site]
        changed = self._moves.move(site_slice.slice_id, site_slice.interfaces, requests)
        if changed is not None:
            self._learn_listener_ports(site, changed)

    def _learn_listener_ports(self, site: str, fabric_slice: Any) -> None:
        """Record the ports that lead to our receivers; FABRIC reports them once a mirror ends there."""
        with graph_access("cannot read the mirrors"):
            ends = [fabric_slice.get_node(name).get_interface(name=interface, refresh=True)
                    for (name, _), interface in self._site_slices[site].interfaces.items()]  # fmt: skip
            self._listener_ports.setdefault(site, set()).update(filter(None, map(mirrors.switch_port, ends)))

    def mirror_capacity_bps(self, instance: Instance, receiver: str) -> int | None:
        self.receiver(instance, receiver)
        return self._site_slices[instance.site].rates[instance.name]

    def planned_capacity_bps(self, site: str, request: ResourceRequest) -> int | None:
        chosen = resources.choose_nics(self._hosts(site), site, self._nics(), request) or self._nics()
        return min((requirements.NICS[model] for model in chosen if model in requirements.NICS), default=None)

    def nic_settings(self, instance: Instance, receiver: str) -> NicSettings | None:
        self.receiver(instance, receiver)
        return self._site_slices[instance.site].nics.get((instance.name, receiver))

    def extend(self, site: str, until_ns: int) -> None:
        self.site(site)
        if site in self._site_slices:
            self.slices.extend(self._site_slices[site].slice_id, until_ns)

    def release(self, site: str | None = None) -> None:
        """Delete slices; retry while FABRIC rejects this. Raises NotReleased, which names the remaining slices."""
        if site is not None:
            self.site(site)
            self._looked_up.add(site)
        self._forget([site] if site else list(self._site_slices))
        self.slices.delete_existing(site)

    def leftovers(self) -> tuple[str, ...]:
        current = {slice_name(self.campaign, site) for site in self._site_slices}
        return tuple(sorted(self.slices.names() - current))

    def interrupt_waits(self) -> None:
        self.slices.stopping.set()

    def resume_waits(self) -> None:
        self.slices.stopping.clear()

    def replay_plan(self) -> Replay | None:
        settings = self.settings.replay
        if settings is None:
            return None
        return replay.plan(settings, self.site(settings.site), self.port(settings.site, settings.port))

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """Run the replay program on the sending nodes, with the capture in memory. Raises UserError if that fails."""
        settings = self.settings.replay
        environment = replay.environment_of(settings, name)
        with contextlib.ExitStack() as stack:
            stack.callback(self._forget_senders)
            nodes = self._connect_senders(settings.slice, [sender.node for sender in environment.senders(settings)])
            self._replayer = stack.enter_context(replay.Replayer(self, nodes, settings, environment))
            yield

    def _connect_senders(self, slice_name: str, nodes: Sequence[str]) -> list[str]:
        """Find nodes in the user's slice; return the names by which programs are run on them. Raises UserError."""
        found = self._slice_of_project(slice_name)
        for name in dict.fromkeys(nodes):
            with graph_access(f"no node {name!r} in slice {slice_name!r}"):
                node = found.get_node(name)
            self._sending_nodes[f"{slice_name}/{name}"] = self._host_keys.watch(node, found.get_slice_id())
        return [f"{slice_name}/{name}" for name in nodes]

    def _forget_senders(self) -> None:
        for node in self._sending_nodes.values():
            node.close_ssh()
        self._sending_nodes.clear()

    def replay(self) -> int:
        return self._replayer.send()

    def deliver_replay(self, sample: str, raw: Path) -> dict[str, Any] | None:
        return {"replay": self._replayer.deliver(sample, raw)}

    def notes(self) -> list[str]:
        return [*self._notes, *self._moves.notes]

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _summary(self, action: str, **options: Any) -> dict[str, Any]:
        """Read FABRIC's resources without its cache. The manager's own method hides a failure."""
        token = self.session.token()
        return self.session.read(action, lambda manager: manager.orch.resources_summary(
            token=manager.get_id_token() or token, level=2, force_refresh=True, **options))  # fmt: skip

    def _hosts(self, site: str) -> list[dict[str, Any]]:
        return self._summary("cannot read FABRIC's hosts", includes=[site]).get("hosts") or []

    def _known_ports(self, used: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
        """Return the switch ports known from sources other than links, by site; `used`: ports of the followed slice.

        Without counters of a site, ports that the config names are accepted; otherwise a wrong name is an error.
        """
        counted = self._counted_ports()
        sources = [*counted.items(), *site_models.ports(self.settings.site_models).items()]
        sources += [(site, {port}) for site, port in used]
        sources += [(site, set(filter(resources.is_port, names))) for site, names in self._fixed.items()
                    if not counted.get(site)]  # fmt: skip
        known: dict[str, set[str]] = {}
        for site, names in sources:
            known.setdefault(site, set()).update(names)
        return known

    def _counted_ports(self) -> dict[str, set[str]]:
        """Return the switch ports with counters, by site in upper case as FABRIC spells it."""
        try:
            names_by_rack = switch_counters.ports(self.settings.telemetry_url, self.session.token)
        except UserError as error:
            self._note(f"some ports may be unknown, no telemetry: {error}")
            return {}
        return {rack.upper(): names for rack, names in names_by_rack.items()}

    def _followed_ports(self) -> dict[tuple[str, str], list[str]]:
        """Return slices by site and port, for the followed slice. Raises UserError if it does not exist."""
        used: dict[tuple[str, str], list[str]] = {}
        if self._follow is None:
            return used
        followed = self._slice_of_project(self._follow)
        with graph_access("cannot read the slice"):
            for interface in followed.get_interfaces():
                port = mirrors.switch_port(interface)
                if port:
                    used.setdefault((interface.get_site(), port), [self._follow])
        return used

    def _slice_of_project(self, name: str) -> Any:
        """Return FABRIC's object of a slice of the project. Raises NoSliceError if it does not exist."""
        found = [record for record in self.slices.list_project() if record.name == name]
        if not found:
            raise NoSliceError(f"no slice {name!r} in the project", where=WHERE)
        return self.slices.open(found[0].slice_id, user_only=False)

    def _usable_slice(self, site: str) -> Any | None:
        """Return the site's usable slice, or None. A failed slice is deleted unless all of its nodes are active."""
        record = self.slices.find_slice(site)
        if record is None or record.state in GONE:
            self._forget([site])
            return None
        if record.state not in FAILED:
            return self.slices.wait_until_stable(record.slice_id, self.settings.wait_timeout_s)
        fabric_slice = self.slices.open(record.slice_id)  # accepts a failed modification
        if self.slices.has_active_nodes(fabric_slice, instances_in(fabric_slice, self._prefix(site))):
            return fabric_slice  # after a failed modification, the previous slice continues to run
        self.slices.delete(record.slice_id, wait=True)
        self._forget([site])
        return None

    def _connect(self, site: str, fabric_slice: Any) -> None:
        """Wait for SSH to each node, prepare its receivers, and record the slice."""
        previous = self._site_slices.get(site)
        site_slice = SiteSlice(fabric_slice.get_slice_id(), (), {}, {}, {})
        if (
            previous
            and previous.slice_id == site_slice.slice_id
            and len(previous.instances) == len(instances_in(fabric_slice, self._prefix(site)))
        ):
            return
        self._site_slices[site] = site_slice
        end = time.monotonic() + self.settings.wait_timeout_s
        try:
            for name in instances_in(fabric_slice, self._prefix(site)):
                with GRAPH_LOCK:
                    site_slice.nodes[name] = self._host_keys.watch(fabric_slice.get_node(name), site_slice.slice_id)
                site_slice.instances += (self._prepare_node(site_slice, name, site, end),)
        except BaseException:
            self._site_slices.pop(site)
            if previous:
                self._site_slices[site] = previous
            raise

    def _prepare_node(self, site_slice: SiteSlice, name: str, site: str, end: float) -> Instance:
        node, receivers = site_slice.nodes[name], {}
        links = self._interfaces(name, end)
        with graph_access("cannot read the node's interfaces"):
            macs = {entry.get_name(): str(entry.get_mac()).lower() for entry in node.get_interfaces()}
            model = node.get_components()[0].get_model()
        for interface, mac in sorted(macs.items(), key=lambda entry: resources.natural_key(entry[0])):
            if mac not in links:
                raise UserError(f"{interface} ({mac}) is not an interface of the node", where=f"node {name}")
            receivers[links[mac]] = interface
        site_slice.interfaces |= {(name, receiver): interface for receiver, interface in receivers.items()}
        site_slice.rates[name] = requirements.NICS.get(model)
        instance = Instance(name, site, tuple(receivers))
        self._set_up_receivers(instance)
        return instance

    def _set_up_receivers(self, instance: Instance) -> None:
        nics, notes = set_up(self.run, instance.name, list(instance.receivers))
        settings = {(instance.name, receiver): nic for receiver, nic in nics.items()}
        self._site_slices[instance.site].nics |= settings
        for note in notes:
            self._note(note)

    def _interfaces(self, name: str, end: float) -> dict[str, str]:
        """Return the node's interfaces by MAC address once SSH works. Raises UserError on a timeout."""
        while True:
            try:
                return self._remote.call(name, "interfaces")["interfaces"]
            except LoginError:
                raise
            except UserError as error:
                if time.monotonic() > end or self.slices.stopping.is_set():
                    raise UserError(f"not reachable by SSH: {error}", where=WHERE) from error
            time.sleep(self.settings.poll_s)

    def _node(self, name: str) -> Any:
        if name in self._sending_nodes:
            return self._sending_nodes[name]
        for site_slice in list(self._site_slices.values()):
            if name in site_slice.nodes:
                return site_slice.nodes[name]
        raise UserError(f"no node {name!r}", where=WHERE)

    def _forget(self, sites: Sequence[str]) -> None:
        """Discard the data about the slices of sites, and close the connections to them.

        All are discarded first: `leftovers` names them if Ctrl-C interrupts the rest.
        """
        for site_slice in [self._site_slices.pop(site) for site in sites if site in self._site_slices]:
            for name, node in site_slice.nodes.items():
                self._moves.forget(name)
                node.close_ssh()
