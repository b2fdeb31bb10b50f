"""Testbed `fabric` within the user's own slice: listening nodes are added to it and receive mirrors of its ports.

Such mirrors need no `Net.PortMirroring`. On a shared NIC, only the VLAN of the user's interface is mirrored, because
frames of other users pass the same switch port. At the end, only our nodes and mirrors are removed.
"""

import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acapella_core.errors import UserError

from ....settings import FabricSettings
from ...base import Instance, MirrorRequest, NotReleased, Port, ResourceRequest, Site
from .. import mirrors, resources
from ..credentials import WHERE
from ..session import Session, graph_access
from ..slices import check_lease
from ..testbed import FabricTestbed, NoSliceError
from . import topology

SHARED = "SharedNIC"


class OwnSliceTestbed(FabricTestbed):
    """The user's slice. All sites change the same slice, so only one site changes it at a time."""

    mirrors_at_creation = False

    def __init__(self, settings: FabricSettings, campaign: str, *, own: str, session: Session | None = None):
        super().__init__(settings, campaign, session=session)
        self._own = own
        self._own_id: str | None = None
        self._changing = threading.RLock()
        self._before: topology.Topology | None = None  # the slice without our nodes and mirrors
        self._known: set[str] = set()  # names of our nodes and mirrors that may be in the slice
        self._deadline: float | None = None  # end of the attempts to remove them

    def sites(self) -> tuple[Site, ...]:
        if self._sites is None:
            summary = self._summary("cannot read FABRIC's sites")
            self._unavailable = resources.unavailable_sites(summary.get("sites") or ())
            limits = {record.get("name"): resources.limits_of(record) for record in summary.get("sites") or ()}
            ports = self._own_ports()
            self._sites = tuple(
                Site(site, tuple(ports[site]), limits[site])
                for site in sorted(ports)
                if site in limits and site not in self._unavailable
            )
        return self._sites

    def _own_ports(self) -> dict[str, list[Port]]:
        """Return the switch ports of the user's slice by site. Ports of shared NICs include the VLAN: `PORT.VLAN`."""
        found = self._own_slice()
        ports: dict[str, dict[str, Port]] = {}
        with graph_access(f"cannot read slice {self._own}"):
            for node in topology.machines(found):
                if self._ours().fullmatch(node.get_name()):
                    continue
                for interface in node.get_interfaces(include_subs=False):
                    name = self._own_port(interface)
                    if name is not None:
                        port = Port(name, resources.rate_bps(name), "downlink", (self._own,))
                        ports.setdefault(node.get_site(), {})[name] = port
        return {site: sorted(by_name.values(), key=lambda port: resources.natural_key(port.name))
                for site, by_name in ports.items()}  # fmt: skip

    def _own_port(self, interface: Any) -> str | None:
        """Return the port of an interface; None if it is in no network, or if frames of other users could be copied."""
        port = mirrors.switch_port(interface)
        if port is None or str(interface.get_component().get_type()) != SHARED:
            return port
        vlan = interface.get_peer_port_vlan()
        if not vlan:
            self._note(f"{interface.get_name()} is not mirrored: its NIC is shared, and FABRIC reports no VLAN")
            return None
        return f"{port}.{vlan}"

    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        with self._changing:
            if self._before is None:
                self._before = self._topology(self._own_slice())
            return super().allocate(site, request)

    def _add_nodes(self, fabric_slice: Any, site: str, nodes: list[tuple[str, str]], request: ResourceRequest) -> Any:
        self._known |= {name for name, _ in nodes}  # before the request, because its reply may be lost
        return super()._add_nodes(fabric_slice, site, nodes, request)

    def _move_mirrors(self, site: str, requests: Sequence[MirrorRequest]) -> None:
        with self._changing:
            super()._move_mirrors(site, requests)

    def _prefix(self, site: str) -> str:
        return topology.node_prefix(self.campaign, site)

    def _usable_slice(self, site: str) -> Any:
        del site
        return self.slices.wait_until_stable(self._own_slice().get_slice_id(), self.settings.wait_timeout_s)

    def _existing_slice(self, site: str) -> Any | None:
        del site
        return self._own_slice()

    def _own_slice(self) -> Any:
        """Return FABRIC's object of the user's slice. Raises UserError."""
        if self._own_id is None:
            found = self._slice_of_project(self._own)
            with graph_access(f"cannot read slice {self._own}"):
                self._own_id = found.get_slice_id()
        return self.slices.open(self._own_id)

    def extend(self, site: str, until_ns: int) -> None:
        """Raise UserError if the lease of the user's slice ends earlier."""
        self.site(site)
        check_lease(self.slices.list_project(), self._own_slice().get_slice_id(), until_ns)

    def release(self, site: str | None = None) -> None:
        """Remove our nodes and mirrors from the user's slice. Raises NotReleased, UserError if other parts changed.

        All sites share the time limit, and each is tried at least once.
        """
        if site is not None:
            self.site(site)
            self._looked_up.add(site)
        with self._changing:
            self._forget([site] if site else list(self._site_slices))
            if self._own_id is None:  # nothing was read, so nothing was added
                return
            if self._deadline is None:
                self._deadline = time.monotonic() + self.settings.release_timeout_s
            while remaining := self._remove(self._own_id, self._ours(site), self._deadline):
                if time.monotonic() > self._deadline:
                    raise remaining
                time.sleep(self.settings.poll_s)
            self._deadline = None

    def _remove(self, slice_id: str, ours: re.Pattern[str], deadline: float) -> NotReleased | None:
        """Remove the nodes and mirrors whose names match. Return the error that names those that remain, or None.

        Raises UserError if the rest of the slice differs from before, or if FABRIC does not respond and no added
        node or mirror is known.
        """
        try:
            found = self.slices.open_when_stable(slice_id, max(0, deadline - time.monotonic()))
            if found is None or not (names := self._names(found, ours)):
                self._forget_names(ours)
                return None
            before = self._before or self._topology(found)
            with graph_access("cannot remove our nodes"):
                elements = found.get_fim_topology()
                for name in [name for name in elements.network_services if name in names]:
                    found.get_network(name).delete()
                for name in [name for name in elements.nodes if name in names]:
                    found.get_node(name).delete()
            self.slices.submit_changes(found)
            after = self.slices.open_when_stable(slice_id)  # not only to the deadline: FABRIC accepted the changes
            remaining = self._names(after, ours) if after is not None else []
        except UserError as error:
            if not (known := self._matching(self._known, ours)):
                raise
            return self._not_released(known, str(error).removeprefix(f"{WHERE}: "))
        self._forget_names(ours)
        self._known |= set(remaining)
        if remaining:
            return self._not_released(remaining, "FABRIC did not remove them")
        if after is not None and (changes := list(topology.differences(before, self._topology(after)))):
            raise UserError(f"slice {self._own} differs from before: {', '.join(changes)}", where=WHERE)
        return None

    def _not_released(self, names: Iterable[str], reason: str) -> NotReleased:
        return NotReleased([f"{self._own}/{name}" for name in names], reason, WHERE)

    def _forget_names(self, ours: re.Pattern[str]) -> None:
        self._known -= set(self._matching(self._known, ours))

    def leftovers(self) -> tuple[str, ...]:
        """Return the names of our nodes and mirrors; if Ctrl-C ends the request, the known ones.

        Raises UserError if FABRIC does not respond and none is known.
        """
        current = {instance for site_slice in self._site_slices.values() for instance in site_slice.nodes}
        ours = self._ours()
        try:
            names = self._names(self._own_slice(), ours)
        except NoSliceError:
            return ()
        except (UserError, KeyboardInterrupt):
            if not (names := self._matching(self._known, ours)):
                raise
        return tuple(f"{self._own}/{name}" for name in names if ours.fullmatch(name)[1] not in current)

    def _names(self, fabric_slice: Any, ours: re.Pattern[str]) -> list[str]:
        """Return the names of our nodes and mirrors in a slice."""
        with graph_access("cannot read the slice"):
            elements = fabric_slice.get_fim_topology()
            names = self._matching((*elements.nodes, *elements.network_services), ours)
        self._known |= set(names)
        return names

    @staticmethod
    def _matching(names: Iterable[str], ours: re.Pattern[str]) -> list[str]:
        return sorted(name for name in names if ours.fullmatch(name))

    def _ours(self, site: str | None = None) -> re.Pattern[str]:
        return topology.our_names(self.campaign, site)

    def _topology(self, fabric_slice: Any) -> Mapping[str, Any]:
        with graph_access("cannot read the slice"):
            return topology.without_ours(fabric_slice, self.campaign)
