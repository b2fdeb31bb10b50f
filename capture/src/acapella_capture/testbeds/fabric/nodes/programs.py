"""Runs and starts programs on FABRIC's nodes, uploads files to them, and builds the program for captures with DPDK."""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from ....settings import FabricSettings
from ...base import CompletedProgram, DpdkDevice, Instance, Job, Testbed
from ...uploads import upload
from ..login import LoginError
from ..remote import Remote
from ..session import Session
from ..slices import Slices
from ..transfer import MB, Transfer, read_part
from . import dpdk_devices
from .build import NodeBuild

BOOT_ID = ["sysctl", "-n", "kernel.random.boot_id"]
REBOOT = ["sh", "-c", "sleep 1; systemctl reboot"]  # after the reply to this command


class NodePrograms(Testbed):
    """The part of testbed `fabric` that uses nodes over SSH. `_node` returns FABRIC's object of a node."""

    settings: FabricSettings
    session: Session
    slices: Slices
    changes_nodes = True  # whether nodes were created for captures, so that their settings may be changed

    def __init__(self, directory: str):
        self._remote = Remote(
            self._node, directory, self.settings, self.session.explain_refusal, self.slices.stopping.is_set
        )
        self._transfer = Transfer(self._remote, self._download, self.settings.part_mb * MB)
        self._dpdk_devices: dict[tuple[str, str], DpdkDevice] = {}  # by node and interface
        self._cleaned_nodes: set[str] = set()  # nodes on which remains of a killed collection were removed

    @abstractmethod
    def _node(self, name: str): ...

    @abstractmethod
    def _set_up_receivers(self, instance: Instance) -> None:
        """Set up the receivers of a node. The settings do not survive a reboot. Raises UserError."""

    def _download(self, node: str, path: str, length: int) -> bytes:
        return read_part(self._node(node), path, length)

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        return self._remote.run(node, argv, timeout_s=timeout_s, stdin=stdin)

    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        return self._remote.start(node, argv, output=output)

    def path_on_node(self, node: str, file: str) -> str:
        self._node(node)
        return file  # programs run in the directory of the files

    def fetch(self, node: str, path: str, target: Path) -> None:
        self._transfer.fetch(node, path, target)

    def put(self, node: str, source: Path, file: str) -> None:
        self._remote.put(node, source, file)

    def provide(self, node: str, source: Path) -> str:
        return upload(self, node, source, f"{sha256_of(source)[:16]}-{source.name}")

    def end_programs(self, node: str) -> None:
        """End all programs of this campaign that a killed collection left on a node. Raises UserError."""
        self._remote.call(node, "end_programs")

    def _end_killed_collection(self, node: str) -> None:
        """End the programs of a killed collection on a node, and delete its captures. Raises UserError.

        Does nothing after the first capture of this collection on the node: its own captures may be there.
        """
        if node not in self._cleaned_nodes:
            self.end_programs(node)
            self._remote.call(node, "remove_captures")
            self._cleaned_nodes.add(node)

    def dpdk_device(self, node: str, interface: str) -> DpdkDevice:
        if (node, interface) not in self._dpdk_devices:
            raise UserError(f"{interface} was not prepared for DPDK", where=f"node {node}")
        return self._dpdk_devices[node, interface]

    def prepare_capture(self, instance: Instance, method: str, logs: Path, report: Callable[[str], None]) -> None:
        """Build the program on the node and choose the device of each receiver; huge pages may need a reboot."""
        node = instance.name
        self._end_killed_collection(node)
        if method == "tcpdump":
            return
        build = NodeBuild(self, node, logs, report, self.slices.stopping.is_set, installs=self.changes_nodes)
        program = build.program()
        nics = dpdk_devices.read_nics(self, node, instance.receivers)
        if not self.changes_nodes:  # DPDK's driver would take the frames of the interface from the user's programs
            for nic in nics:
                reason = "the interface of the user's own node stays with the kernel"
                self._dpdk_devices[node, nic.interface] = DpdkDevice(program, None, False, nic.kernel_driver, reason)
            return
        shared = [nic for nic in nics if nic.pci is not None]
        huge_pages = bool(shared) and self._reserve_huge_pages(instance, len(shared), report)
        for nic in nics:
            chosen = dpdk_devices.choose(self, node, program, nic, huge_pages=huge_pages)
            self._dpdk_devices[node, nic.interface] = chosen
            report(f"{node}: {nic.interface} is captured with {describe(chosen)}")

    def _reserve_huge_pages(self, instance: Instance, receivers: int, report: Callable[[str], None]) -> bool:
        """Reserve huge pages, with a reboot if needed. Return whether there are enough. Raises UserError."""
        found = dpdk_devices.reserve(self, instance.name, receivers)
        if found.enough or found.reserved < 0:
            return found.enough
        report(f"{instance.name}: the kernel found {found.reserved} of {found.needed} huge pages; rebooting")
        try:
            dpdk_devices.reserve_at_boot(self, instance.name, found.needed)
        except UserError as error:  # without the GRUB of Debian and Ubuntu, the NIC is tried without huge pages
            report(str(error))
            return False
        self._reboot(instance.name)
        self._set_up_receivers(instance)
        dpdk_devices.read_nics(self, instance.name, instance.receivers)  # loads kernel modules again
        return dpdk_devices.reserve(self, instance.name, receivers).enough

    def _reboot(self, node: str) -> None:
        """Reboot a node and wait until it runs again. Raises UserError after `wait_timeout_s`."""
        before = self.run(node, BOOT_ID).stdout
        self.start(node, REBOOT)
        end = time.monotonic() + self.settings.wait_timeout_s
        while True:
            time.sleep(self.settings.poll_s)
            self._node(node).close_ssh()
            try:
                done = self.run(node, BOOT_ID)
            except LoginError:
                raise
            except UserError:
                done = None  # the node is not reachable while it boots
            if done is not None and done.status == 0 and done.stdout != before:
                return
            if time.monotonic() > end or self.slices.stopping.is_set():
                raise UserError("did not reboot", where=f"node {node}", fix="set capture.method: tcpdump")


def describe(device: DpdkDevice) -> str:
    """Return the description of a device."""
    if device.pci is None:
        return f"a socket, not with DPDK's driver: {device.reason}"
    return f"DPDK's driver at {device.pci}, {'with' if device.huge_pages else 'without'} huge pages"
