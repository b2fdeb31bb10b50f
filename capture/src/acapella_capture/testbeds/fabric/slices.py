"""Slices: a small one per site, found again by a name derived from campaign and site.

FABRIC's client repeats a request after a server error, so a slice can exist although its submission failed: look for
the name before submitting again. FABRIC searches for parts of names, so names are compared here.
"""

import datetime
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import InsufficientResources, ResourceRequest
from .credentials import WHERE, redact
from .session import GRAPH_LOCK, RESOURCE_ERRORS, Session, graph_access

READY = ("StableOK", "ModifyOK")
FAILED = ("StableError", "ModifyError", "AllocatedError")
GONE = ("Closing", "Dead")
LEASE = "%Y-%m-%d %H:%M:%S %z"  # the only format that FABRIC accepts
CASCADE_NOTICE = "Closing reservation due to failure in slice"  # a notice that only reports that another part failed
LOOKUP_TRIES = 3  # attempts to find a slice after a failed submission


def slice_name(campaign: str, site: str) -> str:
    return f"acapella-{campaign}-{site}"


def site_of(campaign: str, name: str) -> str | None:
    """Return the site of one of the campaign's slices; None for others, also of a campaign `<campaign>-more`."""
    match = re.fullmatch(rf"acapella-{re.escape(campaign)}-([^-]+)", name or "")
    return match[1] if match else None


class Slices:
    """The slices of a campaign. Each site is used by one thread at a time."""

    def __init__(self, session: Session, settings: FabricSettings, campaign: str):
        self.session = session
        self.settings = settings
        self.campaign = campaign
        self.stopping = threading.Event()  # if set, only the end of a slice is waited for

    def list_slices(self) -> list[Any]:
        """Return FABRIC's records of this campaign's slices that still exist. Raises UserError."""
        records = self.session.call_manager("cannot list slices", lambda manager: manager.list_slices(
            search=f"acapella-{self.campaign}-", exclude_states=list(GONE), graph_format="NONE", limit=200,
            return_fmt="dto"))  # fmt: skip
        return [record for record in records if site_of(self.campaign, record.name) and record.state not in GONE]

    def find_slice(self, site: str) -> Any | None:
        """Return FABRIC's record of a site's slice; None if there is none."""
        name = slice_name(self.campaign, site)
        return next((record for record in self.list_slices() if record.name == name), None)

    def open(self, slice_id: str) -> Any:
        """Return FABRIC's object of a slice in its current state. Raises UserError."""

        def read(fablib: Any) -> Any:
            with GRAPH_LOCK:
                fabric_slice = fablib.get_slice(slice_id=slice_id)
                if not fabric_slice.update_count:  # for a new slice object, get_slice hides errors
                    fabric_slice.update()
                return fabric_slice

        return self.session.call_fablib("cannot read the slice", read)

    def create(self, site: str, nodes: list[tuple[str, str]], request: ResourceRequest) -> Any:
        """Create a slice with these nodes (name, NIC model) and wait until it is active.

        Raises InsufficientResources if FABRIC lacks resources, UserError otherwise; the slice is then deleted.
        """
        name = slice_name(self.campaign, site)
        with graph_access(f"cannot describe slice {name}"):
            fablib = self.session.fablib()
            created = fablib.new_slice(name=name)
            for node, nic in nodes:
                self._add(created, site, node, nic, request)
            graph, key = created.get_fim_topology().serialize(), created.get_slice_public_key().strip()
            fablib.remove_slice_from_cache(created)  # cached by name, which the next slice may reuse
        slice_id = self._submit(site, graph, key)
        try:
            return self.wait_until_stable(slice_id, self.settings.wait_timeout_s)
        except BaseException:
            self.delete(slice_id, wait=True)
            raise

    def add_nodes(self, fabric_slice: Any, site: str, nodes: list[tuple[str, str]], request: ResourceRequest) -> Any:
        """Add nodes to a slice. Raises InsufficientResources or UserError; existing nodes stay."""
        for node, nic in nodes:
            with graph_access(f"cannot describe node {node}"):
                self._add(fabric_slice, site, node, nic, request)
        try:
            return self.modify(fabric_slice, self.settings.wait_timeout_s)
        except UserError:
            current = self.open(fabric_slice.get_slice_id())
            with graph_access("cannot remove the new nodes"):
                for node, _ in nodes:
                    if node in current.get_fim_topology().nodes:
                        current.get_node(node).delete()
            self.modify(current, self.settings.wait_timeout_s)
            raise

    def modify(self, fabric_slice: Any, timeout_s: float, fix: str = "fabric.wait_timeout_s") -> Any:
        """Submit the changes of a slice object and wait; return the new object. Raises UserError."""
        with graph_access("cannot describe the slice"):
            slice_id, graph = fabric_slice.get_slice_id(), fabric_slice.get_fim_topology().serialize()
        self.session.call_manager("FABRIC rejects the modification", lambda manager: manager.modify_slice(
            slice_id=slice_id, graph_model=graph))  # fmt: skip
        return self.wait_until_stable(slice_id, timeout_s, fix)

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
        record = self._record(slice_id)
        end = record and record.lease_end_time
        if end and datetime.datetime.strptime(end, LEASE) >= until:
            return
        # Slice.renew rounds down to days, and changes the slice for less than one day
        self.session.call_manager("cannot renew the lease", lambda manager: manager.renew_slice(
            slice_id=slice_id, lease_end_time=until.strftime(LEASE)))  # fmt: skip

    def delete(self, slice_id: str, *, wait: bool = False) -> None:
        """Delete a slice if it exists. Raises UserError if FABRIC refuses.

        `wait` waits until all its resources are free for the next slice.
        """
        record = self._record(slice_id)
        if record is None or record.state in GONE:
            return
        self.session.call_manager("cannot delete the slice", lambda manager: manager.delete_slice(slice_id=slice_id))
        reached = ("Dead", None) if wait else (*GONE, None)
        self._until(slice_id, self.settings.wait_timeout_s, lambda state: state in reached)

    def _add(self, fabric_slice: Any, site: str, node: str, nic: str, request: ResourceRequest) -> None:
        created = fabric_slice.add_node(
            name=node,
            site=site,
            cores=request.cores,
            ram=request.ram_gb,
            disk=request.disk_gb,
            image=self.settings.image,
        )
        created.add_component(model=nic, name="nic")

    def _submit(self, site: str, graph: str, key: str) -> str:
        """Submit a slice once; return its id, also if FABRIC reported an error but created the slice.

        Slice.submit is not used: it would wait while holding all graphs.
        """
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=self.settings.lease_h)
        try:
            created = self.session.call_manager(
                "FABRIC rejects the slice request",
                lambda manager: manager.create_slice(
                    name=slice_name(self.campaign, site),
                    graph_model=graph,
                    ssh_keys=[key],
                    lifetime=self.settings.lease_h,
                    lease_end_time=end.strftime(LEASE),
                ),
            )
            return created[0]["slice_id"]
        except (UserError, LookupError) as error:
            for attempt in range(LOOKUP_TRIES):
                if attempt:
                    time.sleep(self.settings.poll_s)
                record = self.find_slice(site)
                if record is not None:
                    return record.slice_id
            if isinstance(error, UserError):
                raise
            raise UserError("FABRIC accepted the slice request but did not create a slice", where=WHERE) from error

    def _record(self, slice_id: str) -> Any | None:
        try:
            records = self.session.call_manager("cannot read the slice", lambda manager: manager.list_slices(
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
        slivers = self.session.call_manager("cannot read the slice", lambda manager: manager.list_slivers(
            slice_id=slice_id, return_fmt="dto"))  # fmt: skip
        texts = [" ".join(sliver.notice.split()) for sliver in slivers if sliver.notice]
        return redact(", ".join(dict.fromkeys(text for text in texts if text and CASCADE_NOTICE not in text)))[:400]
