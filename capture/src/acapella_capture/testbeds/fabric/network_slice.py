"""Creates, finds by name, and deletes the slice of a grid of transfers on FABRIC."""

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import ResourceRequest
from . import credentials
from .background import submit
from .credentials import WHERE
from .host_keys import FILE, HostKeys
from .networks import SITE, NetworkSlices, SlicePlan, check_tags, choose_models, required_tags
from .requirements import permitted_nics
from .resources import USABLE
from .session import GRAPH_LOCK, Session, graph_access
from .slices import FAILED

CLOSE_S = 0.5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NetworkSlice:
    """The slice of a campaign. Its name is not one of `collect`'s slice names: `collect` deletes such slices."""

    def __init__(self, settings: FabricSettings, campaign: str):
        self.settings = settings
        self.session = Session(credentials.find(settings.fabric_rc), settings.poll_s)
        self.slices = NetworkSlices(self.session, settings, f"{campaign}-transfer")
        self._host_keys = HostKeys(self.session.credentials.tokens.with_name(FILE))
        self._nodes: dict[str, Any] = {}
        self._slice: Any = None
        self.existed = False  # whether it existed before `open`

    @property
    def name(self) -> str:
        return self.slices.name

    def open(self, plan: SlicePlan, request: ResourceRequest) -> None:
        """Find the slice or create it. A slice that FABRIC could not build is replaced.

        Raises OtherSliceError if its topology differs, UserError for other failures.
        """
        self.session.check()
        self.session.check_login(self.settings)
        record = self.slices.find_slice(SITE)
        if record is not None and record.state in FAILED:
            self.slices.delete(record.slice_id, wait=True)
            record = None
        self.existed = record is not None
        if record is not None:
            self._slice = self.slices.wait_until_stable(record.slice_id, self.settings.wait_timeout_s)
            self.slices.check_plan(self._slice, plan)
        else:
            tags = self.session.tags()
            check_tags(required_tags(self.settings, plan, request), tags)
            models = choose_models(plan, self._hosts(plan), permitted_nics(self.settings.nics, tags), request)
            self._slice = self.slices.create_plan(plan, models, request)
        with GRAPH_LOCK:
            slice_id = self._slice.get_slice_id()
            for node in plan.nodes:
                self._nodes[node.name] = self._host_keys.watch(self._slice.get_node(node.name), slice_id)

    def node(self, name: str) -> Any:
        """Return FABRIC's object of a node. Raises UserError for an unknown one."""
        if name not in self._nodes:
            raise UserError(f"no node {name!r}", where=WHERE)
        return self._nodes[name]

    def mac(self, node: str, interface: str) -> str:
        """Return the MAC address of an interface (FABRIC's name). Raises UserError."""
        with graph_access("cannot read the node's interfaces"):
            return str(self._nodes[node].get_interface(name=interface).get_mac()).lower()

    def extend(self, until_ns: int) -> None:
        """Renew the lease if it ends earlier. Raises UserError."""
        self.slices.extend(self._slice.get_slice_id(), until_ns)

    def exists(self) -> bool:
        """Return whether FABRIC has the slice. Raises UserError."""
        return self.slices.find_slice(SITE) is not None

    def close(self) -> None:
        """Close the connections to the nodes. A connection that is still being opened ends with this process."""
        closing = [submit(node.close_ssh) for node in self._nodes.values()]
        self._nodes.clear()
        wait(closing, CLOSE_S)

    def release(self) -> None:
        """Delete the slice if it exists, found by its name: a request that was interrupted may have created it.

        Signals are ignored meanwhile. Raises UserError naming the slice if FABRIC rejects this.
        """
        with ignored_signals():
            self.close()
            try:
                self.slices.delete_existing(SITE)
            except UserError as error:
                fix = "delete it: the same command with --release"
                raise UserError(f"slice {self.name} may still exist: {error}", fix=fix) from error

    def _hosts(self, plan: SlicePlan) -> list[dict[str, Any]]:
        """Return the hosts of the sites, without FABRIC's cache. Raises UserError for a site that is not in use."""
        token = self.session.token()
        summary = self.session.call_manager(
            "cannot read FABRIC's hosts",
            lambda manager: manager.orch.resources_summary(
                token=manager.get_id_token() or token, level=2, force_refresh=True, includes=plan.sites
            ),
        )
        usable = {site.get("name") for site in summary.get("sites") or () if site.get("state") in USABLE}
        for node in plan.nodes:
            if node.site not in usable:
                raise UserError(f"no site {node.site!r} that is in use", where=f"node {node.name}")
        return summary.get("hosts") or []


@contextlib.contextmanager
def ignored_signals() -> Iterator[None]:
    """Ignore the signals that end a program, so that a second Ctrl-C does not leave a slice."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
