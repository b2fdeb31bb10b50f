"""Runs commands on the nodes of a slice on FABRIC over SSH; the commands are the same as for a local slice.

The constructor finds the slice or creates it, places CPUs and memory of new nodes next to their NICs (with
transfer.nodes.pin), and sets up the interfaces of the links. Addresses, routes, queues and transfers are then set up as
on a local slice.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ..testbeds.base import CompletedProgram, Job, ResourceRequest
from ..testbeds.fabric.background import call_for_each, submit
from ..testbeds.fabric.credentials import WHERE
from ..testbeds.fabric.login import LoginError
from ..testbeds.fabric.network_slice import NetworkSlice, ignored_signals
from ..testbeds.fabric.networks import OtherSliceError, plan_slice
from ..testbeds.fabric.nodes import packages, tuning
from ..testbeds.fabric.nodes.programs import BOOT_ID
from ..testbeds.fabric.remote import Remote
from ..testbeds.fabric.transfer import MB, Transfer, read_part
from .cleanup import reported_error
from .delay import DELAY_DEVICES, DELAY_RULE
from .hosts import IPV4
from .link_process import Link
from .node_state import DEFINE, restore_argv, set_value_argv
from .nodes import MTU, PROGRAMS, Nodes
from .remote_link import RemoteLink
from .routing import FIRST_RULE
from .settings import TransferSettings, check_algorithms

PYTHON = ["python3", "-I", "-S"]
TO_LOG = ["sh", "-c", 'exec "$@" >&2', "sh"]  # writes the standard output of a program to the log of its job
MODULES = ("sch_netem", "sch_tbf", "sch_htb")
SET_UP_S = 600
RESTORE_S = 60  # timeout for all nodes together
RESTORE_INTERRUPTED_S = 1
# `$1`: kernel modules, then programs as PROGRAM=PACKAGE/PACKAGE (of apt-get and dnf).
INSTALL = (
    packages.DEFINE
    + """set -e
wait_for_boot
for module in $1; do modprobe "$module" 2> /dev/null || echo "no module $module"; done
shift
for program; do
    command -v "${program%%=*}" > /dev/null && continue
    names=${program#*=}
    add_package "${names%/*}" "${names#*/}"
done
"""
)
# `$1`: MTU, then interfaces.
SET_UP = (
    "set -e\n"
    + DEFINE
    + """mtu=$1; shift
for scope in all default; do set_value "/proc/sys/net/ipv4/conf/$scope/rp_filter" 0; done
for dev; do
    if command -v nmcli > /dev/null; then nmcli device set "$dev" managed no || echo "nmcli: $dev"; fi
    ip link set dev "$dev" mtu "$mtu"
    set_value "/proc/sys/net/ipv4/conf/$dev/rp_filter" 0
    if [ -d "/proc/sys/net/ipv6/conf/$dev" ]; then set_value "/proc/sys/net/ipv6/conf/$dev/disable_ipv6" 1; fi
    for feature in tso gso gro lro tx sg; do
        ethtool -K "$dev" "$feature" off > /dev/null 2>&1 || echo "$feature of $dev is unchanged"
    done
done
"""
)
DNF_PACKAGES = {"ip": "iproute", "ss": "iproute", "tc": "iproute-tc"}  # different names in dnf


def resource_request(settings: TransferSettings) -> ResourceRequest:
    """Return the number of nodes, and the resources of each."""
    values = settings.nodes
    return ResourceRequest(len(settings.topology.nodes), values["cores"], values["ram_gb"], values["disk_gb"])


class FabricNodes(Nodes):
    """The nodes of a slice on FABRIC.

    If the constructor fails, it deletes the slice, unless the slice belongs to a different topology, or was kept and is
    to be kept again (transfer.keep).
    """

    def __init__(self, settings: TransferSettings, campaign: str, report: Callable[[str], None]):
        self._settings = settings
        self._topology = settings.topology
        self._report = report
        self._plan = plan_slice(settings.topology)
        self._slice = NetworkSlice(settings.fabric, campaign)
        fabric = settings.fabric
        self._remote = Remote(
            self._slice.node, f"acapella-{campaign}-transfer", fabric, self._slice.session.explain_refusal
        )
        self._transfer = Transfer(self._remote, self._download, fabric.part_mb * MB)
        self._devices: dict[tuple[str, str], str] = {}
        self._stopping = threading.Event()
        self._ending = False
        self._uploaded: set[tuple[str, Path]] = set()
        self._placements: dict[str, tuning.Placement] = {}
        self._slice.session.check()  # without access to FABRIC, nothing was created, so nothing has to be released
        try:
            self._allocate()
        except OtherSliceError:
            raise
        except BaseException as error:
            self._stopping.set()
            with reported_error(report):
                if self._slice.existed and settings.keep:
                    self._keep(RESTORE_S if isinstance(error, UserError) else RESTORE_INTERRUPTED_S)
                else:
                    self._slice.release()
            raise

    def _allocate(self) -> None:
        request = resource_request(self._settings)
        self._report(f"transfer: slice {self._slice.name} of {request.instances} nodes; this can take a few minutes")
        self._slice.open(self._plan, request)
        self._report(f"transfer: slice {self._slice.name} is {'reused' if self._slice.existed else 'active'}")
        end = time.monotonic() + self._settings.fabric.wait_timeout_s
        self._find_devices(self._each(lambda node: self._interfaces(node, end)))
        if self._slice.existed:
            self._each(self._restore)
        if self._settings.nodes["pin"]:
            self._place()
        self._set_up()

    def extend_lease(self, seconds: float) -> bool:
        """Ensure that the lease lasts for a given time; return whether it does. Rejections are reported."""
        try:
            self._slice.extend(time.time_ns() + round(seconds * 1e9))
        except UserError as error:
            self._report(f"warning: {error}")
            return False
        return True

    def _interfaces(self, node: str, end: float) -> dict[str, str]:
        """Return the names of a node's interfaces by MAC address once SSH works. Raises UserError on a timeout."""
        while True:
            try:
                return self._remote.call(node, "interfaces")["interfaces"]
            except LoginError:
                raise
            except UserError as error:
                if time.monotonic() > end:
                    raise UserError(f"not reachable by SSH: {error}", where=WHERE) from error
            if self._stopping.wait(self._settings.fabric.poll_s):
                raise UserError("interrupted", where=f"node {node}")

    def _place(self) -> None:
        """Place CPUs and memory of nodes that have not been placed yet, and check all nodes after their reboot."""
        names = [node.name for node in self._plan.nodes]
        placed = [name for name in names if self._slice.existed and tuning.placement(self._slice.node(name)).is_local]
        pending = [name for name in names if name not in placed]
        boots = {name: self.checked(name, BOOT_ID) for name in pending}
        for name in pending:
            self._report(f"transfer: node {name}: pin CPUs, move memory, reboot")
            tuning.tune(self._slice.node(name))
        for name, before in boots.items():
            self._wait_for_boot(name, before)
        for name in names:
            self._placements[name] = tuning.placement(self._slice.node(name))
            tuning.check(name, self._placements[name])

    def _wait_for_boot(self, node: str, before: str) -> None:
        """Wait until the boot ID of a node is not ``before``. Raises UserError on a timeout."""
        end = time.monotonic() + self._settings.fabric.wait_timeout_s
        while True:
            try:
                if self.checked(node, BOOT_ID) != before:
                    return
            except LoginError:
                raise
            except UserError:  # the node shuts down
                pass
            if time.monotonic() > end:
                raise UserError("did not reboot", where=f"node {node}", fix=tuning.FIX)
            time.sleep(self._settings.fabric.poll_s)

    def _find_devices(self, found: dict[str, dict[str, str]]) -> None:
        """Find the interfaces of the links by their MAC addresses. Raises UserError if one is missing."""
        for network in self._plan.networks:
            for node, peer in (list(network.interfaces), list(network.interfaces)[::-1]):
                mac = self._slice.mac(node, network.interfaces[node])
                if mac not in found[node]:
                    raise UserError(f"no interface with MAC address {mac}", where=f"node {node}")
                self._devices[node, peer] = found[node][mac]

    def _devices_of(self, node: str) -> list[str]:
        return [device for (owner, _), device in self._devices.items() if owner == node]

    def _set_up(self) -> None:
        self._find_devices(self._each(lambda node: self._interfaces(node, time.monotonic())))
        self._each(self._set_up_node)
        listed = self.read(self._topology.sender, f"{IPV4}/tcp_available_congestion_control").split()
        check_algorithms(self._settings.grid["algorithm"], listed)

    def _set_up_node(self, node: str) -> None:
        devices = self._devices_of(node)
        modules = [*MODULES, *(f"tcp_{name}" for name in self._settings.grid["algorithm"])]
        programs = [f"{name}={package}/{DNF_PACKAGES.get(name, package)}" for name, package in PROGRAMS.items()]
        for script, arguments in ((INSTALL, (" ".join(modules), *programs)), (SET_UP, (str(MTU), *devices))):
            done = self.run(node, ["sh", "-c", script, "sh", *arguments], timeout_s=SET_UP_S)
            if done.status != 0:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise UserError(
                    f"setup failed: {lines[-1] if lines else f'exit status {done.status}'}", where=f"node {node}"
                )
            if self._stopping.is_set():
                raise UserError("interrupted", where=f"node {node}")
        for device in devices:
            self.check_offloads(node, device)

    def _restore(self, node: str) -> None:
        """End the programs of a grid, restore queues and settings, and remove rules and delaying devices.

        Before a grid, these are left from an earlier invocation; their number is reported. Raises UserError.
        """
        changes = self.checked(node, restore_argv(["lo", *self._devices_of(node)])).splitlines()
        rules = listed(node, self.checked(node, ["ip", "-j", "rule", "show"]), "priority")
        our_preferences = (DELAY_RULE, *range(FIRST_RULE, 2 * FIRST_RULE))
        lines = [f"rule del pref {priority}" for priority in rules if priority in our_preferences]
        links = listed(node, self.checked(node, ["ip", "-j", "link", "show"]), "ifname")
        lines += [f"link del {name}" for name in links if name in DELAY_DEVICES]
        self.batch(node, "ip", lines)
        if (changes or lines) and not self._ending:
            self._report(f"transfer: node {node}: undid {len(changes) + len(lines)} changes of an earlier run")

    def _each(self, function: Callable[[str], Any]) -> dict[str, Any]:
        """Call a function for all nodes in parallel; return the results by node. Raises the first error."""
        names = self._topology.nodes
        return dict(zip(names, call_for_each(function, names), strict=True))

    def device(self, node: str, peer: str) -> str:
        return self._devices[node, peer]

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        return self._remote.run(node, argv, timeout_s=timeout_s, stdin=stdin)

    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        if output is None:
            argv = [*TO_LOG, *argv]
        return self._remote.start(node, argv, output=output)

    def write(self, node: str, path: str, value: str) -> None:
        """Record the previous value on the node, then write the new value. Raises UserError."""
        self.checked(node, set_value_argv(path, value))

    def _call_for_each(self, call: Callable[[int], None], numbers: Iterable[int]) -> None:
        call_for_each(call, numbers)  # in parallel, because each command takes a round trip over SSH

    def path(self, node: str, file: str) -> str:
        del node
        return file  # programs run in the directory of the files

    def fetch(self, node: str, file: str, target: Path) -> None:
        self._transfer.fetch(node, file, target)
        self._remote.call(node, "remove", paths=[file])

    def python(self, node: str, script: Path) -> list[str]:
        return [*PYTHON, self._upload(node, script)]

    def start_link(self, program: Path, devices: Sequence[tuple[str, str]]) -> Link:
        return RemoteLink(self.start, self.run, self._upload, program, devices)

    def _upload(self, node: str, file: Path) -> str:
        """Copy a file to a node unless this was already done; return its path there."""
        if (node, file) not in self._uploaded:
            self._remote.put(node, file, file.name)
            self._uploaded.add((node, file))
        return file.name

    def environment(self) -> dict[str, Any]:
        return {
            "testbed": "fabric",
            "sites": {node.name: node.site for node in self._plan.nodes},
            "placement": {name: asdict(found) for name, found in self._placements.items()} or None,
        }

    def close(self) -> None:
        """Delete the slice or, with transfer.keep, restore its nodes and report how to delete it."""
        if self._settings.keep:
            self._keep(RESTORE_S)
            return
        self._slice.release()
        self._report(f"transfer: slice {self._slice.name} is deleted")

    def _keep(self, limit_s: float) -> None:
        """Restore the nodes within a time limit, close their connections, and report nodes that were not restored."""
        self._ending = True
        restored = {node: submit(self._restore, node) for node in self._topology.nodes}
        with contextlib.suppress(KeyboardInterrupt):  # the next invocation restores the other nodes
            wait(restored.values(), limit_s)
        not_restored = [node for node, future in restored.items() if not future.done() or future.exception()]
        with ignored_signals():  # a second Ctrl-C
            self._slice.close()
            if not_restored:
                nodes = ", ".join(not_restored)
                self._report(f"warning: nodes {nodes} may have changed settings; the next start restores them")
            self._report(f"transfer: slice {self._slice.name} is kept; delete it with the same command and --release")

    def _download(self, node: str, path: str, length: int) -> bytes:
        return read_part(self._slice.node(node), path, length)


def listed(node: str, printed: str, key: str) -> list[Any]:
    """Return a value of each entry that ip(8) printed on a node. Raises UserError: the output is untrusted."""
    try:
        return [entry[key] for entry in json.loads(printed)]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(f"ip printed {printed[:40]!r}", where=f"node {node}") from error
