"""A testbed `fabric` with a FABRIC on loopback: config, keys and tokens of a user, an orchestrator, nodes.

FABRIC's client is the real one, except for the three functions in PATCHES: the test of whether a host is reachable
(it connects to port 443 of a host name); the login to FABRIC's bastion host; and the SSH connection to a node (through
the bastion host). urllib3 retries failed requests immediately.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest
from acapella_testing.fabric.nodes import BASTION, Nodes
from acapella_testing.fabric.orchestrator import PROJECT, Orchestrator
from acapella_testing.waiting import in_background, wait_until
from fabrictestbed_extensions.fablib import fablib, node
from fabrictestbed_extensions.utils.utils import Utils
from fim.graph.networkx_property_graph import NetworkXGraphStorage
from urllib3.util import Retry

from acapella_capture.settings import FabricSettings, parse_settings
from acapella_capture.testbeds.base import Instance, ResourceRequest
from acapella_capture.testbeds.fabric.testbed import FabricTestbed

SITE = "STAR"
Connection = Callable[[str], tuple[object, object]]  # from a node's name to clients of the bastion host and the node
PATCHES = (
    (Utils, "is_reachable"), (fablib.FablibManager, "probe_bastion_host"), (node.Node, "_get_ssh_connection")
)  # fmt: skip
QUICK = dict.fromkeys(("wait_timeout_s", "mirror_timeout_s", "release_timeout_s"), 60)
QUICK |= {"poll_s": 0.02, "ssh_tries": 3, "ssh_retry_s": 0.05, "part_mb": 1}


@dataclass
class Loopback:
    """A FABRIC on loopback and a user of it, whose files are in `directory`."""

    orchestrator: Orchestrator
    nodes: Nodes
    directory: Path

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.json"

    @property
    def slices(self) -> list[str]:
        """Return the names of the slices that exist."""
        return [each.name for each in self.orchestrator.alive()]

    def settings(self, **changes) -> FabricSettings:
        own = {"fabric_rc": str(self.directory / "fabric_rc"), "telemetry_url": self.orchestrator.url}
        return parse_settings({"testbed": "fabric", "fabric": own | QUICK | changes}).fabric

    def testbed(self, campaign: str = "c", *, follow: str | None = None, fixed=None, **changes) -> FabricTestbed:
        return FabricTestbed(self.settings(**changes), campaign, follow=follow, fixed=fixed)

    @contextlib.contextmanager
    def allocated(self, site: str = SITE, campaign: str = "c", **changes) -> Iterator[tuple[FabricTestbed, Instance]]:
        """Provide a testbed with one instance at a site; release everything at the end."""
        with self.testbed(campaign, **changes) as testbed:
            (instance,) = testbed.allocate(site, ResourceRequest(1))
            yield testbed, instance

    @contextlib.contextmanager
    def faulty(self, **faults: object) -> Iterator[None]:
        """Activate faults of FABRIC during the block."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in faults.items():
                patch.setattr(self.orchestrator.faults, name, value)
            yield

    @contextlib.contextmanager
    def interrupted_while_stuck(self, condition: Callable[[], object], held_s: float = 0) -> Iterator[None]:
        """Send SIGINT to this process once a condition holds; FABRIC completes nothing until `held_s` after that."""

        def interrupt() -> None:
            wait_until(condition)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(held_s)
            self.orchestrator.faults.stuck = False

        self.orchestrator.faults.stuck = True
        with in_background(interrupt):
            yield

    def give_token(self, lasts_s: float = 4 * 3600, **others: str) -> str:
        """Write a token to the user's token file; return it."""
        created = self.orchestrator.grant(lasts_s)
        self.tokens.write_text(json.dumps({"id_token": created, **others}))
        return created


def user_files(directory: Path, url: str) -> None:
    """Write fabric_rc and keys as FABRIC's portal has users create them."""
    key = paramiko.ECDSAKey.generate()
    for name in ("slice_key", "bastion_key"):
        key.write_private_key_file(str(directory / name))
    (directory / "slice_key.pub").write_text(f"{key.get_name()} {key.get_base64()} me\n")
    values = {
        "FABRIC_CREDMGR_HOST": url, "FABRIC_ORCHESTRATOR_HOST": url, "FABRIC_CORE_API_HOST": url,
        "FABRIC_BASTION_HOST": "bastion.invalid", "FABRIC_BASTION_USERNAME": "me_0000", "FABRIC_PROJECT_ID": PROJECT,
        "FABRIC_TOKEN_LOCATION": directory / "tokens.json", "FABRIC_BASTION_KEY_LOCATION": directory / "bastion_key",
        "FABRIC_SLICE_PRIVATE_KEY_FILE": directory / "slice_key",
        "FABRIC_SLICE_PUBLIC_KEY_FILE": directory / "slice_key.pub",
    }  # fmt: skip
    (directory / "fabric_rc").write_text("".join(f'export {key}="{value}"\n' for key, value in values.items()))


def replace_functions(patch: pytest.MonkeyPatch, connect: Connection) -> None:
    """Have FABRIC's client use hosts and nodes on this machine."""

    def connection(self, **_):
        with self._ssh_lock:
            if not (self._ssh_client and self._ssh_client.get_transport().is_active()):
                self._ssh_bastion, self._ssh_client = connect(self.get_name())
            return self._ssh_bastion, self._ssh_client

    def probe(self):
        connect(BASTION)[1].close()
        return True

    for (owner, name), stand_in in zip(PATCHES, (staticmethod(lambda **_: True), probe, connection), strict=True):
        patch.setattr(owner, name, stand_in)
    patch.setattr(Retry, "get_backoff_time", lambda _: 0)


@contextlib.contextmanager
def loopback_fabric(
    directory: Path, sites: dict[str, list[dict]] | None = None, kind: type[Orchestrator] = Orchestrator
) -> Iterator[Loopback]:
    """Run an orchestrator of this class, and nodes; remove everything at the end."""
    (directory / "nodes").mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(NetworkXGraphStorage().del_all_graphs)  # the client keeps them until the process ends
        orchestrator = stack.enter_context(contextlib.closing(kind(sites)))
        nodes = stack.enter_context(contextlib.closing(Nodes(directory / "nodes")))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        replace_functions(patch, lambda name: (nodes.bastion(), nodes.connect(name)))
        created = Loopback(orchestrator, nodes, directory)
        user_files(directory, orchestrator.url)
        created.give_token()
        yield created


def check_release(testbed: FabricTestbed, site: str | None = None) -> None:
    """Release a testbed, or a site of it; check that nothing of the testbed is left."""
    testbed.release(site)
    assert testbed.leftovers() == ()


def offline_client(directory: Path) -> fablib.FablibManager:
    """Return FABRIC's client in offline mode, in which it needs no credentials and sends no requests."""
    log = str(directory / "client.log")
    return fablib.FablibManager(offline=True, no_ssh=True, project_id="x", bastion_username="x", log_file=log)


def interrupt_creation(fabric, session, monkeypatch) -> None:
    """Have Ctrl-C interrupt a slice request after FABRIC has accepted it, but before FABRIC lists the slice."""
    call_manager = session.call_manager

    def interrupted(action, call):
        if "slice request" not in action:
            return call_manager(action, call)
        fabric.orchestrator.faults.hidden = 4
        call_manager(action, call)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "call_manager", interrupted)
