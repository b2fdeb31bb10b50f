"""Manages one small slice per site, which is found by a name derived from campaign and site.

FABRIC's client repeats a request after a server error, so a slice can exist although its submission failed: look for
the name before resubmitting. FABRIC ignores name filters, so names are compared locally.
"""

import datetime
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import Direction, Instance, InsufficientResources, MirrorRequest, NotReleased, ResourceRequest
from . import mirrors, requirements
from .credentials import WHERE, redact
from .resources import natural_key
from .session import GRAPH_LOCK, RESOURCE_ERRORS, Session, graph_access, is_transient

READY = ("StableOK", "ModifyOK")
FAILED = ("StableError", "ModifyError", "AllocatedError")
GONE = ("Closing", "Dead")
LEASE = "%Y-%m-%d %H:%M:%S %z"  # the only format that FABRIC accepts
CASCADE_NOTICE = "Closing reservation due to failure in slice"  # a notice that only reports that another part failed
UNSTABLE = ("Nascent", "Configuring", "Modifying")  # FABRIC neither changes nor deletes a slice in these states
SITES = "[A-Z][A-Z0-9]*"  # pattern of the names of FABRIC's sites
PAGE = 200  # FABRIC's maximum of slices in one reply
LOOKUP_TRIES = 8  # attempts to find a slice after a submission without a reply


def slice_name(campaign: str, site: str) -> str:
    return f"acapella-{campaign}-{site}"


def site_of(campaign: str, name: str, sites: str = SITES) -> str | None:
    """Return the site of one of the campaign's slices; None for others.

    Other slices belong to a campaign `<campaign>-more`, or are the user's own, such as `acapella-<campaign>-2`.
    """
    match = re.fullmatch(rf"acapella-{re.escape(campaign)}-({sites})", name or "")
    return match[1] if match else None


def lease_end(record: Any | None) -> datetime.datetime | None:
    """Return the end of a slice's lease; None if unknown."""
    return datetime.datetime.strptime(record.lease_end_time, LEASE) if record and record.lease_end_time else None


def check_lease(records: Iterable[Any], slice_id: str, until_ns: int) -> None:
    """Raise UserError if the lease of a user's slice ends before a time: renewing it is up to the user."""
    for record in records:
        end = lease_end(record)
        if record.slice_id == slice_id and end and end < datetime.datetime.fromtimestamp(until_ns / 1e9, datetime.UTC):
            raise UserError(f"the lease of your slice {record.name} ends at {end.strftime(LEASE)}", where=WHERE)


def shortened_text(granted: datetime.datetime) -> str:
    return f"FABRIC shortened the lease: it ends at {granted.strftime(LEASE)}"


def add_mirrors(fabric_slice: Any, site: str, nodes: Sequence[str], ports: Sequence[tuple[str, Direction]]) -> None:
    """Add mirrors to the description of a new slice, at most one per receiver."""
    names = {node: sorted((entry.get_name() for entry in fabric_slice.get_node(node).get_interfaces()), key=natural_key)
             for node in nodes}  # fmt: skip
    receivers = [(node, interfaces[index]) for index in range(max(map(len, names.values()), default=0))
                 for node, interfaces in names.items() if index < len(interfaces)]  # fmt: skip
    for (node, interface), (port, direction) in zip(receivers, ports, strict=False):
        mirrors.add_mirror(
            fabric_slice, MirrorRequest(Instance(node, site, (interface,)), interface, port, direction), interface
        )


class Slices:
    """The slices of a campaign. Each site is used by one thread at a time."""

    sites = SITES  # regular expression for the last part of their names

    def __init__(self, session: Session, settings: FabricSettings, campaign: str):
        self.session = session
        self.settings = settings
        self.campaign = campaign
        self.stopping = threading.Event()  # if set, wait only for the deletion of slices
        self._names: dict[str, str] = {}  # slices that this process created or used, by id, until deleted
        self._unanswered: set[str] = set()  # names of slices whose creation had no reply
        self._unlisted: set[str] = set()  # names of slices that exist, but that FABRIC does not list
        self._deadlines: dict[str, float] = {}  # by id: end of the attempts to delete a slice
        self._shortened: dict[str, tuple[datetime.datetime, datetime.datetime]] = {}  # by id: renewal and new end

    def _site_of(self, name: str) -> str | None:
        """Return the site of one of these slices; None for others."""
        return site_of(self.campaign, name, self.sites)

    def list_slices(self) -> list[Any]:
        """Return FABRIC's records of this campaign's slices that still exist. Raises UserError."""
        ours = [record for record in self._list(as_self=True) if self._site_of(record.name)]
        self._names.update({record.slice_id: record.name for record in ours})
        self._unlisted -= {record.name for record in ours}
        return ours

    def list_late(self, site: str | None = None) -> list[Any]:
        """Return this campaign's slices, of one site or of all. Raises UserError.

        If the creation of a slice had no reply, FABRIC may list the slice late, so the list is read again until it
        contains all such slices.
        """
        for attempt in range(LOOKUP_TRIES):
            if attempt:
                time.sleep(self.settings.poll_s)
            found = self.list_slices()
            self._unanswered -= {record.name for record in found}
            missing = [name for name in self._unanswered if site in (None, self._site_of(name))]
            if not missing:
                break
        self._unanswered -= set(missing) - self._unlisted  # never created
        return [record for record in found if site in (None, self._site_of(record.name))]

    def delete_existing(self, site: str | None = None) -> None:
        """Delete this campaign's slices, of one site or of all. A new slice may be missing from FABRIC's list.

        Raises NotReleased, which names the remaining slices, and UserError if FABRIC does not respond and no slice is
        known.
        """
        fault, names = "", []
        try:
            listed = [record.slice_id for record in self.list_late(site)]
        except UserError as error:
            fault, names = str(error).removeprefix(f"{WHERE}: "), self.known_names(site)
            if not names:
                raise
        else:
            try:
                self.delete_all([*listed, *(slice_id for slice_id in self.known_ids(site) if slice_id not in listed)])
            except NotReleased as error:
                fault, names = error.reason, list(error.names)
            unlisted = [name for name in self._unlisted if site in (None, self._site_of(name))]
            if unlisted:
                fault, names = fault or "FABRIC reports that it exists, but does not list it", [*names, *unlisted]
        if names:  # raised outside of the handler, so that its context is the error that caused the release, if any
            raise NotReleased(sorted(names), fault, where=WHERE)

    def list_project(self) -> list[Any]:
        """Return FABRIC's records of all slices of the project that still exist. Raises UserError."""
        return self._list(as_self=False)

    def _list(self, *, as_self: bool) -> list[Any]:
        records: list[Any] = []
        for first in itertools.count(0, PAGE):
            page = self.session.read("cannot list slices", lambda manager, first=first: manager.list_slices(
                exclude_states=list(GONE), graph_format="NONE", limit=PAGE, offset=first, as_self=as_self,
                return_fmt="dto"))  # fmt: skip
            records += page
            if len(page) < PAGE:
                break
        return [record for record in records if record.state not in GONE]

    def find_slice(self, site: str) -> Any | None:
        """Return FABRIC's record of a site's slice; None if there is none."""
        name = slice_name(self.campaign, site)
        return next((record for record in self.list_slices() if record.name == name), None)

    def has_active_nodes(self, fabric_slice: Any, names: list[str]) -> bool:
        """Return whether all these nodes of a slice are active, and at least one."""
        with graph_access("cannot read the nodes"):
            states = [str(fabric_slice.get_node(name).get_reservation_state()) for name in names]
        return bool(states) and all(state == "Active" for state in states)

    def open(self, slice_id: str, *, user_only: bool = True) -> Any:
        """Return FABRIC's object of a slice in its current state. Raises UserError."""

        def read(fablib: Any) -> Any:
            with GRAPH_LOCK:
                fabric_slice = fablib.get_slice(slice_id=slice_id, user_only=user_only)
                if not fabric_slice.update_count:  # for a new slice object, get_slice hides errors
                    fabric_slice.update()
                return fabric_slice

        return self.session.call_fablib("cannot read the slice", read)

    def create(
        self,
        site: str,
        nodes: list[tuple[str, str]],
        request: ResourceRequest,
        first: Sequence[tuple[str, Direction]] = (),
    ) -> Any:
        """Create a slice with these nodes (name, NIC model) and mirrors, and wait until it is active.

        Mirrors (port and direction) are assigned to the first receiver of each node, then to the second ones.

        Raises InsufficientResources if FABRIC lacks resources, UserError otherwise; the slice is then deleted.
        """
        name = slice_name(self.campaign, site)
        with graph_access(f"cannot describe slice {name}"):
            fablib = self.session.fablib()
            created = fablib.new_slice(name=name)
            for node, nic in nodes:
                self._add(created, site, node, nic, request)
            add_mirrors(created, site, [node for node, _ in nodes], first)
            graph, key = created.get_fim_topology().serialize(), created.get_slice_public_key().strip()
            fablib.remove_slice_from_cache(created)  # cached by name, which the next slice may reuse
        slice_id = self._submit(site, graph, key)
        try:
            return self.wait_until_stable(slice_id, self.settings.wait_timeout_s)
        except BaseException as error:
            try:
                self.delete(slice_id, wait=True)
            except NotReleased as remaining:
                reasons = dict.fromkeys(filter(None, [str(error).removeprefix(f"{WHERE}: "), remaining.reason]))
                raise NotReleased(remaining.names, "; ".join(reasons), where=WHERE) from error
            raise

    def add_nodes(self, fabric_slice: Any, site: str, nodes: list[tuple[str, str]], request: ResourceRequest) -> Any:
        """Add nodes to a slice. Raises InsufficientResources or UserError; existing nodes are kept."""
        for node, nic in nodes:
            with graph_access(f"cannot describe node {node}"):
                self._add(fabric_slice, site, node, nic, request)
        try:
            return self.modify(fabric_slice, self.settings.wait_timeout_s)
        except UserError:
            current = self.open(fabric_slice.get_slice_id())
            with graph_access("cannot remove the new nodes"):
                present = [node for node, _ in nodes if node in current.get_fim_topology().nodes]
                for node in present:
                    current.get_node(node).delete()
            if present:
                self.modify(current, self.settings.wait_timeout_s)
            raise

    def modify(self, fabric_slice: Any, timeout_s: float, fix: str = "fabric.wait_timeout_s") -> Any:
        """Submit the changes of a slice object and wait; return the new object. Raises UserError."""
        return self.wait_until_stable(self.submit_changes(fabric_slice), timeout_s, fix)

    def submit_changes(self, fabric_slice: Any) -> str:
        """Submit the changes of a slice object; return the slice's id. Raises UserError."""
        with graph_access("cannot describe the slice"):
            slice_id, graph = fabric_slice.get_slice_id(), fabric_slice.get_fim_topology().serialize()
        try:
            self.session.call_manager("FABRIC rejects the modification", lambda manager: manager.modify_slice(
                slice_id=slice_id, graph_model=graph))  # fmt: skip
        except UserError:  # if a reply was lost, the client repeats the request, and FABRIC rejects the second one
            record = self._record(slice_id)
            if record is None or record.state not in ("Modifying", "ModifyOK", "ModifyError"):
                raise
        return slice_id

    def open_when_stable(self, slice_id: str, timeout_s: float | None = None) -> Any | None:
        """Return a slice once FABRIC accepts changes, even after `stopping`; None if it is deleted.

        Raises UserError after the timeout (default: fabric.release_timeout_s).
        """
        limit_s = self.settings.release_timeout_s if timeout_s is None else timeout_s
        state = self._until(slice_id, limit_s, lambda state: state not in UNSTABLE)
        if state in UNSTABLE:
            raise UserError(f"the slice is {state}", where=WHERE, fix="fabric.release_timeout_s")
        return None if state is None or state in GONE else self.open(slice_id)

    def wait_until_stable(self, slice_id: str, timeout_s: float, fix: str = "fabric.wait_timeout_s") -> Any:
        """Wait until a slice is active.

        Raises InsufficientResources, or UserError if it failed, was deleted, or timed out (with the advice `fix`).
        """
        state = self._final_state(slice_id, timeout_s, fix)
        if state in FAILED:
            notices = self._notices(slice_id)
            kind = InsufficientResources if any(phrase in notices.lower() for phrase in RESOURCE_ERRORS) else UserError
            raise kind(f"the slice is {state}: {notices or 'FABRIC reports no reason'}", where=WHERE)
        return self.open(slice_id)  # also accepts a modification

    def wait_until_idle(self, slice_id: str, timeout_s: float, fix: str) -> Any:
        """Return a slice once no operation is in progress. Raises UserError on a timeout, or if it was deleted."""
        self._final_state(slice_id, timeout_s, fix)
        return self.open(slice_id)

    def _final_state(self, slice_id: str, timeout_s: float, fix: str) -> str:
        """Return the state of a slice, READY or FAILED, once no operation is in progress. Raises UserError."""
        state = self._until(slice_id, timeout_s, lambda state: state in READY + FAILED + GONE or self.stopping.is_set())
        if state in READY + FAILED:
            return state
        if state in GONE or self.stopping.is_set():
            raise UserError(f"the slice is {state}", where=WHERE)
        raise UserError(f"the slice is {state} after {timeout_s:g} s", where=WHERE, fix=fix)

    def extend(self, slice_id: str, until_ns: int) -> None:
        """Renew the lease if it ends earlier. Raises UserError."""
        until = datetime.datetime.fromtimestamp(-(-until_ns // 10**9), datetime.UTC)
        record, now = self._record(slice_id), datetime.datetime.now(datetime.UTC)
        end = lease_end(record)
        if end and end >= until:
            return
        renewed, granted = self._shortened.get(slice_id, (now, now))
        if granted - now > (granted - renewed) / 2:  # FABRIC would grant little more, and reconfigure the slice for it
            raise UserError(shortened_text(granted), where=WHERE)
        # Slice.renew is not used: it rounds down to days, and changes the slice for less than one day
        self.session.call_manager("cannot renew the lease", lambda manager: manager.renew_slice(
            slice_id=slice_id, lease_end_time=until.strftime(LEASE)))  # fmt: skip
        self._final_state(slice_id, self.settings.wait_timeout_s, "fabric.wait_timeout_s")
        granted = lease_end(self._record(slice_id))
        if granted and granted < until:
            self._shortened[slice_id] = now, granted
            raise UserError(shortened_text(granted), where=WHERE)

    def delete(self, slice_id: str, *, wait: bool = False) -> None:
        """Delete a slice if it exists, as `delete_all` does. `wait`: until its resources are free."""
        self.delete_all([slice_id])
        if wait:
            self._until(slice_id, self.settings.wait_timeout_s, lambda state: state in ("Dead", None))

    def delete_all(self, slice_ids: Iterable[str]) -> None:
        """Delete slices. FABRIC rejects the deletion of unstable slices, so retry until fabric.release_timeout_s.

        Every slice is tried at least once, and a second call continues the time limit of the first. Raises NotReleased,
        which names all slices that still exist.
        """
        remaining = dict.fromkeys(slice_ids, "")
        limit = time.monotonic() + self.settings.release_timeout_s
        for slice_id in remaining:
            self._deadlines.setdefault(slice_id, limit)
        while True:
            for slice_id in list(remaining):
                fault, final = self._try_delete(slice_id)
                remaining[slice_id] = fault
                if not fault:
                    del remaining[slice_id]
                    self._names.pop(slice_id, None)
                    self._deadlines.pop(slice_id, None)
                elif final:
                    self._deadlines[slice_id] = 0
            # without a deadline, another thread has deleted it
            if not any(self._deadlines.get(slice_id, limit) > time.monotonic() for slice_id in remaining):
                break
            time.sleep(self.settings.poll_s)
        if remaining:
            names = sorted(self._names.get(slice_id, slice_id) for slice_id in remaining)
            raise NotReleased(names, ", ".join(dict.fromkeys(remaining.values())), where=WHERE)

    def known_names(self, site: str | None = None) -> list[str]:
        """Return the names of slices that this process created or used and has not deleted, of one site or of all.

        A slice whose creation had no reply is included, because it may exist.
        """
        found = {*self._names.values(), *self._unanswered}
        return sorted(name for name in found if site in (None, self._site_of(name)))

    def names(self) -> set[str]:
        """Return the names of slices that FABRIC lists or this process knows.

        Raises UserError if FABRIC cannot list slices and none is known. After Ctrl-C, the known names are returned.
        """
        known = set(self.known_names())
        try:
            return known | {record.name for record in self.list_slices()}
        except (UserError, KeyboardInterrupt):
            if not known:
                raise
            return known

    def known_ids(self, site: str | None = None) -> list[str]:
        """Return the ids of slices that this process created or used and has not deleted, of one site or of all."""
        return [slice_id for slice_id, name in list(self._names.items()) if site in (None, self._site_of(name))]

    def _try_delete(self, slice_id: str) -> tuple[str, bool]:
        """Request the deletion of a slice. Return why it still exists, or "", and whether retries are useless."""
        try:
            record = self._record(slice_id)
            if record is None or record.state in GONE:
                return "", True
            self._names[slice_id] = record.name
            if record.state in UNSTABLE:
                return f"the slice is {record.state}", False
            self.session.call_manager(
                "cannot delete the slice", lambda manager: manager.delete_slice(slice_id=slice_id)
            )
        except UserError as error:
            return str(error).removeprefix(f"{WHERE}: "), not is_transient(error)
        return "", True

    def _add(self, fabric_slice: Any, site: str, node: str, nic: str, request: ResourceRequest) -> None:
        created = fabric_slice.add_node(
            name=node,
            site=site,
            cores=request.cores,
            ram=request.ram_gb,
            disk=request.disk_gb,
            image=self.settings.image,
        )
        requirements.check_image(self.settings.image, created.get_username())
        created.add_component(model=nic, name="nic")

    def _submit(self, site: str, graph: str, key: str) -> str:
        """Submit a slice once; return its id, even if FABRIC reported an error but created the slice.

        Slice.submit is not used: it would wait while it holds the lock of all graphs.
        """
        name = slice_name(self.campaign, site)
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=self.settings.lease_h)
        self._unanswered.add(name)  # before the request, which Ctrl-C may interrupt
        try:
            created = self.session.call_manager(
                "FABRIC rejects the slice request",
                lambda manager: manager.create_slice(
                    name=name,
                    graph_model=graph,
                    ssh_keys=[key],
                    lifetime=self.settings.lease_h,
                    lease_end_time=end.strftime(LEASE),
                ),
            )
            slice_id = created[0]["slice_id"]
            self._names[slice_id] = name
        except (UserError, LookupError) as error:
            # FABRIC may still be creating the slice if the client received no reply
            if "already exists" in str(error):
                self._unlisted.add(name)
            elif isinstance(error, UserError) and not is_transient(error):
                self._unanswered.discard(name)
            record = next((record for record in self.list_late(site) if record.name == name), None)
            if record is not None:
                return record.slice_id
            if isinstance(error, UserError):
                raise
            raise UserError("FABRIC accepted the slice request but did not create a slice", where=WHERE) from error
        self._unanswered.discard(name)
        return slice_id

    def _record(self, slice_id: str) -> Any | None:
        try:
            records = self.session.read("cannot read the slice", lambda manager: manager.list_slices(
                slice_id=slice_id, graph_format="NONE", return_fmt="dto"))  # fmt: skip
        except UserError as error:
            if getattr(error.__cause__, "status_code", None) == 404:
                return None
            raise
        return next((record for record in records if record.slice_id == slice_id), None)

    def _until(self, slice_id: str, timeout_s: float, reached: Callable[[str | None], bool]) -> str | None:
        """Poll a slice's state until `reached` or the timeout; return the last state."""
        end = time.monotonic() + timeout_s
        while True:
            record = self._record(slice_id)
            state = record.state if record else None
            if reached(state) or time.monotonic() > end:
                return state
            time.sleep(self.settings.poll_s)

    def _notices(self, slice_id: str) -> str:
        """Return the reasons why parts of a slice failed, in one line."""
        slivers = self.session.read("cannot read the slice", lambda manager: manager.list_slivers(
            slice_id=slice_id, return_fmt="dto"))  # fmt: skip
        texts = [" ".join(sliver.notice.split()) for sliver in slivers if sliver.notice]
        return redact(", ".join(dict.fromkeys(text for text in texts if text and CASCADE_NOTICE not in text)))[:400]
