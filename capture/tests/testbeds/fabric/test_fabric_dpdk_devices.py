"""Devices and huge pages of captures with DPDK on FABRIC's nodes: choice by the kernel's driver, reboot, fallback."""

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from acapella_testing.capture import veth
from acapella_testing.fabric.loopback import Loopback
from acapella_testing.fabric.network import MODPROBE, SYSCTL
from acapella_testing.fabric.nodes import LOGGED
from acapella_testing.new_files import new_directory
from acapella_testing.processes import executable, running
from acapella_testing.requirements import require
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.testbeds.base import CompletedProgram, DpdkDevice, Instance, ResourceRequest
from acapella_capture.testbeds.fabric.nodes import dpdk_devices
from acapella_capture.testbeds.fabric.nodes.build import NodeBuild
from acapella_capture.testbeds.fabric.nodes.dpdk_devices import HUGE_MB, Nic, choose, nic_of
from acapella_core.errors import UserError

NODE, RECEIVERS = "UTAH-listener1", ("enp8s0", "enp9s0")
ADDRESSES = ("0000:07:00.0", "0000:07:00.1")
DOWN_S = 0.5  # time of a reboot during which SSH is refused
PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
# Prints the number of huge pages that the kernel found, before and after the reboot.
CAT = """#!/bin/sh
case "$1" in *nr_hugepages) [ -e "$HOME/rebooted" ] && exec {cat} "$HOME/at_boot"; exec echo 3 ;; esac
exec {cat} "$@"
"""
# Replaces acapella-dpdk-capture on a node; fails if its command line matches a pattern.
PROGRAM = """#!/bin/sh
echo "$*" >> "$HOME/tried.log"
case "$*" in {fails}) echo "EAL: lines before"; echo "acapella-dpdk-capture: error: cannot"; exit 1 ;; esac
"""


@contextlib.contextmanager
def node_files(fabric: Loopback, directory: Path) -> Iterator[tuple[str, ...]]:
    """Yield a prefix for commands of a node: it has ConnectX NICs, its own GRUB settings, and a network namespace."""
    drivers, ready = new_directory(directory / "drivers" / "mlx5_core"), directory / "ready"
    for receiver, address in zip(RECEIVERS, ADDRESSES, strict=True):
        device = new_directory(directory / "devices" / address / "infiniband").parent
        (device / "driver").symlink_to(drivers)
        (new_directory(directory / "class" / receiver) / "device").symlink_to(device)
    (directory / "grub").mkdir()
    (directory / "nr_hugepages").touch()
    mounts = {"class": "/sys/class/net", "grub": "/etc/default", "nr_hugepages": PAGES}
    script = "".join(f"mount --bind {directory / source} {target} && " for source, target in mounts.items())
    holding = ["unshare", "--mount", "sh", "-c", f"{script} touch {ready} && exec sleep infinity"]
    with veth.namespace((RECEIVERS[0], "far0"), (RECEIVERS[1], "far1")) as prefix, running(holding) as holder:
        wait_until(lambda: ready.exists() or holder.poll() is not None)
        require(ready.exists(), "mount namespaces are not available")
        mounted = ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", f"--wd={fabric.nodes.home(NODE)}")
        yield (*prefix, *mounted, "env", "-u", "WARM_PYTHON")  # its server has other mounts


@pytest.fixture
def node(fabric, tmp_path, monkeypatch) -> Iterator[Instance]:
    """Provide a listening node with two ConnectX ports, on which the kernel finds few huge pages before a reboot."""
    programs = {"modprobe": MODPROBE, "sysctl": SYSCTL.format(sysctl="/sbin/sysctl"), "systemctl": LOGGED,
                "update-grub": LOGGED, "cat": CAT.format(cat="/bin/cat")}  # fmt: skip
    for name, text in programs.items():
        executable(fabric.nodes.program(name), text)
    home = fabric.nodes.home(NODE)
    (home / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (home / "at_boot").write_text(f"{2 * HUGE_MB // 2 + 16}\n")
    program = executable(home / "program", PROGRAM.format(fails="none"))
    monkeypatch.setattr(NodeBuild, "program", lambda self: str(program))
    with node_files(fabric, tmp_path / "files") as prefix, fabric.nodes.inside(prefix, NODE):
        fabric.node_testbed = fabric.testbed("first")
        (instance,) = fabric.node_testbed.allocate("UTAH", ResourceRequest(1))
        yield instance


def rebooting_when_asked(fabric: Loopback) -> contextlib.AbstractContextManager[None]:
    """Reboot the node once it runs `systemctl reboot`: SSH is refused for a while."""

    def reboot() -> None:
        wait_until(lambda: "systemctl reboot" in fabric.nodes.commands_of(NODE))
        fabric.nodes.stop_answering()
        time.sleep(DOWN_S)
        (fabric.nodes.home(NODE) / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (fabric.nodes.home(NODE) / "rebooted").touch()
        fabric.nodes.refusing = False

    return in_background(reboot)


def prepared(fabric: Loopback, node: Instance) -> list[str]:
    """Prepare a capture with DPDK and return the lines of progress."""
    lines = []
    fabric.node_testbed.prepare_capture(node, "dpdk", fabric.directory / "logs", lines.append)
    return lines


@pytest.mark.soak
def test_node_reboots_if_the_kernel_finds_too_few_huge_pages(fabric, node, tmp_path):
    with rebooting_when_asked(fabric):
        lines = prepared(fabric, node)
    assert [fabric.node_testbed.dpdk_device(NODE, receiver) for receiver in RECEIVERS] == [
        DpdkDevice(str(fabric.nodes.home(NODE) / "program"), address, True, "mlx5_core") for address in ADDRESSES
    ]
    needed = 2 * HUGE_MB // 2
    assert lines[0] == f"{NODE}: the kernel found 3 of {needed} huge pages; rebooting"
    (setting,) = (tmp_path / "files" / "grub" / "grub.d").iterdir()
    assert setting.read_text() == f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX hugepages={needed + 16}"\n'
    done = fabric.nodes.commands_of(NODE)
    assert done.index("update-grub ") < done.index("systemctl reboot")
    after = done[done.index("systemctl reboot") :]
    assert "ip link set dev enp8s0 mtu 9216" in after and "ethtool -K enp8s0 gro off" in after, "set up again"
    tried = (fabric.nodes.home(NODE) / "tried.log").read_text().splitlines()
    assert [line.split(" --write")[0] for line in tried] == [f"--pci {address} --huge" for address in ADDRESSES]


@pytest.mark.soak
def test_node_does_not_reboot_twice(fabric, node):
    """The reboot does not provide the huge pages, and the NIC works without them."""
    executable(fabric.nodes.home(NODE) / "program", PROGRAM.format(fails="*--huge*"))
    (fabric.nodes.home(NODE) / "at_boot").write_text("5\n")
    with rebooting_when_asked(fabric):
        lines = prepared(fabric, node)
    assert fabric.nodes.commands_of(NODE).count("systemctl reboot") == 1
    assert fabric.node_testbed.dpdk_device(NODE, RECEIVERS[0]).huge_pages is False
    assert fabric.node_testbed.dpdk_device(NODE, RECEIVERS[0]).pci == ADDRESSES[0]
    assert lines[-1] == f"{NODE}: enp9s0 is captured with DPDK's driver at 0000:07:00.1, without huge pages"


def test_nic_is_tried_without_huge_pages_if_they_cannot_be_reserved(fabric, node):
    fabric.nodes.program("update-grub").write_text("#!/bin/sh\necho no boot loader >&2\nexit 1\n")
    assert prepared(fabric, node)[1] == f"node {NODE}: cannot reserve huge pages at boot: no boot loader"
    assert "systemctl reboot" not in fabric.nodes.commands_of(NODE)
    devices = [fabric.node_testbed.dpdk_device(NODE, receiver) for receiver in RECEIVERS]
    assert [(each.pci, each.huge_pages) for each in devices] == [(address, False) for address in ADDRESSES]


@pytest.mark.soak
def test_node_that_does_not_reboot_is_named(fabric, node, monkeypatch):
    monkeypatch.setattr(fabric.node_testbed, "settings", fabric.settings(wait_timeout_s=1))
    with pytest.raises(UserError, match=f"node {NODE}: did not reboot; set capture.method: tcpdump"):
        prepared(fabric, node)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("eth0 - - no", Nic("eth0", None, None, "no device driver")),
        ("eth0 virtio_net - no", Nic("eth0", "virtio_net", None, "kernel driver virtio_net")),
        ("eth0 mlx5_core 0000:07:00.0 yes", Nic("eth0", "mlx5_core", "0000:07:00.0", None)),
        ("eth0 mlx5_core 0000:07:00.0 no", Nic("eth0", "mlx5_core", None, "kernel module mlx5_ib is not available")),
    ],
)
def test_device_is_chosen_by_kernel_driver(line, expected):
    assert nic_of(*line.split()) == expected


@pytest.mark.parametrize(
    ("works", "expected"),
    [
        (("--huge",), DpdkDevice("p", "0000:07:00.0", True, "mlx5_core")),
        (("",), DpdkDevice("p", "0000:07:00.0", False, "mlx5_core")),
        ((), DpdkDevice("p", None, False, "mlx5_core", "0000:07:00.0 cannot be used: no such port")),
    ],
)
def test_nic_that_dpdk_cannot_use_is_captured_from_a_socket(works, expected):
    def run(node, argv, **_):
        huge = "--huge" if "--huge" in argv else ""
        return CompletedProgram(0 if huge in works else 1, "no such port\n", "")

    nic = Nic("eth0", "mlx5_core", "0000:07:00.0", None)
    assert choose(SimpleNamespace(run=run), "n", "p", nic, huge_pages=True) == expected


def test_huge_pages_of_this_machine_are_reserved(fabric, monkeypatch):
    """The kernel of this machine reserves them; the test restores their number."""
    require(os.access(PAGES, os.W_OK), "this user may not reserve huge pages of 2 MiB")
    monkeypatch.setattr(dpdk_devices, "HUGE_MB", 16)
    with fabric.allocated("UTAH") as (testbed, _), contextlib.ExitStack() as stack:
        stack.callback(PAGES.write_text, PAGES.read_text())
        found = dpdk_devices.reserve(testbed, NODE, 2)
        assert found.needed == 16 and found.reserved == int(PAGES.read_text())
        require(found.enough, f"the kernel of this machine reserves {found.reserved} huge pages only")
        assert dpdk_devices.reserve(testbed, NODE, 1) == dpdk_devices.HugePages(8, found.reserved), "none is returned"
