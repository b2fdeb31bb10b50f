"""Captures with acapella-dpdk-capture, which nodes of a FABRIC on loopback build from the uploaded source archive."""

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.fabric.collection_runs import ONE, collected, config_of
from acapella_testing.fabric.experiment import SITES, SLICE, experiment
from acapella_testing.fabric.loopback import Loopback, loopback_fabric
from acapella_testing.processes import run
from acapella_testing.requirements import require
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.manifest import read
from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric.agent import MARKER
from acapella_capture.testbeds.fabric.nodes import build as node_build
from acapella_capture.testbeds.fabric.nodes.build import PACKAGES, PROGRAM, NodeBuild
from acapella_capture.testbeds.fabric.nodes.source_archive import source_archive

NODE, RECEIVERS = "UTAH-listener1", ("enp8s0", "enp9s0")
FRAMES = 400
IMAGE = "default_debian_12"
FORWARD = dpdk.ROOT / "p4" / "loader" / "tests" / "forward.spec"
# The node lacks a library until it is installed. All other packages are on this machine.
PKG_CONFIG = """#!/bin/sh
case "$*" in *liburing) [ -e "$HOME/installed" ] || exit 1 ;; esac
exec {pkg_config} "$@"
"""
APT_GET = """#!/bin/sh
echo "install $*" >> "$HOME/commands.log"
case "$*" in *" install "*liburing-dev*) touch "$HOME/installed" ;; esac
"""
BROKEN_CC = """#!/bin/sh
case "$*" in *capture/common/*.c*) echo "clock.c:1:1: error: broken by the test"; exit 1 ;; esac
exec {cc} "$@"
"""
NO_PACKAGE = """#!/bin/sh
echo "E: Unable to locate package liburing-dev" >&2
exit 100
"""
CCACHE = """#!/bin/sh
export CCACHE_DIR={cache} CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=/
exec {ccache} "$@"
"""


def compiler() -> Path:
    return next(filter(Path.exists, map(Path, ("/usr/bin/cc", "/usr/bin/gcc"))))


def write_program(fabric: Loopback, name: str, text: str) -> None:
    """Replace a program of the nodes."""
    fabric.nodes.program(name).write_text(text)
    fabric.nodes.program(name).chmod(0o755)


def with_packages(fabric: Loopback) -> None:
    """Give the nodes meson and ninja, which are packages on FABRIC, and the compiler's cache of this user, if any."""
    for name in ("meson", "ninja"):
        fabric.nodes.program(name).symlink_to(Path(sys.executable).with_name(name))
    write_program(fabric, "pkg-config", PKG_CONFIG.format(pkg_config=shutil.which("pkg-config")))
    write_program(fabric, "apt-get", APT_GET)
    ccache = shutil.which("ccache")
    if ccache is not None:
        cache = run(ccache, "--get-config", "cache_dir", check=True).stdout.strip()
        write_program(fabric, "ccache", CCACHE.format(cache=cache, ccache=ccache))


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Iterator[dict]:
    """Build the program once on a node. Return its directory, the lines of progress, and the commands on the node."""
    libraries = run("pkg-config", "--print-errors", "--exists", "libdpdk >= 22.11", "liburing", "libpcap", "zlib")
    require(libraries.returncode == 0, f"libraries are not installed: {libraries.stderr.strip()}")
    with loopback_fabric(tmp_path_factory.mktemp("build")) as fabric:
        with_packages(fabric)
        testbed, lines = fabric.testbed("first"), []
        (instance,) = testbed.allocate("UTAH", ResourceRequest(1))
        testbed.prepare_capture(instance, "dpdk", fabric.directory / "logs", lines.append)
        home = fabric.nodes.home(instance.name)
        (directory,) = home.glob("acapella-first/programs-*")
        log = (home / "commands.log").read_text()
        yield {"directory": directory, "lines": lines, "log": log}


@pytest.fixture
def network(fabric) -> Iterator[tuple[str, ...]]:
    """Give the node a network namespace, in which frames that are sent to `far0` arrive at its first receiver."""
    with veth.namespace((RECEIVERS[0], "far0"), (RECEIVERS[1], "far1")) as prefix:
        fabric.nodes.prefixes |= {NODE: prefix}
        yield prefix
        fabric.nodes.prefixes.clear()


def place(build: dict, fabric: Loopback, node: str = NODE) -> None:
    """Give a node the program that was built."""
    target = fabric.nodes.home(node) / "acapella-first" / build["directory"].name
    shutil.copytree(build["directory"], target)
    (target.parent / MARKER).touch()


def sending(
    fabric: Loopback, prefix: tuple[str, ...], frames: list[dpdk.Frame], count: int = 1
) -> contextlib.AbstractContextManager[None]:
    """Send frames in each of a number of samples, once the program listens."""
    path = fabric.directory / "frames.pcap"
    path.write_bytes(dpdk.pcap_bytes(frames))
    home = fabric.nodes.home(NODE)
    seen = listening(home)

    def send() -> None:
        for _ in range(count):
            wait_until(lambda: listening(home) - seen)
            seen.update(listening(home))
            veth.send_capture(prefix, "far0", path)

    return in_background(send)


def listening(home: Path) -> set[Path]:
    """Return the logs of programs that listen."""
    return {log for log in home.glob("acapella-first/jobs/*/log") if f"{PROGRAM}: listening on" in log.read_text()}


def test_program_is_built_from_the_archive(build):
    files = {path.name for path in build["directory"].iterdir()}
    assert {"program", "meson.build"} == files
    steps = [line.removeprefix(f"{NODE}: {PROGRAM}: ") for line in build["lines"][:4]]
    assert steps == ["install packages", "configure", "compile", "check"]


def test_only_missing_packages_are_installed(build):
    installed = [line for line in build["log"].splitlines() if line.startswith("install ") and "-o DPkg" in line]
    (line,) = [line for line in installed if "--no-install-recommends" in line]
    assert line.split()[-1:] == ["liburing-dev"] and set(line.split()) & set(PACKAGES) == {"liburing-dev"}


def test_archive_has_the_same_bytes_for_the_same_sources():
    assert source_archive() == source_archive()


def test_capture_has_the_frames_that_tcpdump_captures(build, fabric, network, tmp_path, capsys):
    place(build, fabric)
    frames = dpdk.some_frames(FRAMES, sizes=(60, 64, 128, 512, 1514))
    reference = tmp_path / "reference.pcap"
    with replayer.tcpdump(network, RECEIVERS[0], reference), sending(fabric, network, frames):
        status, campaign = collected(
            fabric, collect=ONE, sample_s=3, capture={"method": "dpdk", "snaplen": 96}, image=IMAGE
        )
    printed = capsys.readouterr()
    assert status == 0, printed.err
    (manifest,) = [read(path) for path in (campaign / "raw").glob("*.json")]
    captured, left = dpdk.read_pcap(campaign / "raw" / manifest["file"])
    expected, _ = dpdk.read_pcap(reference)
    assert left == 0 and len(captured) == FRAMES == manifest["frames_captured"]
    assert [(frame.data, frame.wire) for frame in captured] == [(each.data[:96], each.wire) for each in expected]
    assert (manifest["method"], manifest["frames_received"], manifest["dropped_kernel"]) == ("dpdk", FRAMES, 0)
    assert manifest["dpdk"] == {
        "device": "net_af_packet0", "driver": "net_af_packet", "huge_pages": False, "kernel_driver": None,
        "reason": "no device driver",
        "dropped": {"queue_full": 0, "writer_full": 0, "write_error": 0, "too_many_segments": 0},
    }  # fmt: skip
    assert "compile" not in printed.out, "the program was there"
    assert f"{NODE}: enp8s0 is captured with a socket" in printed.out
    check_nothing_is_left(fabric)


def test_p4_program_and_its_control_file_are_uploaded(build, fabric, network, tmp_path, capsys):
    place(build, fabric)
    control = tmp_path / "control"
    control.write_text("table exact add match 0x0806 action drop_for 3\nreason 3 no-arp\n")
    frames = dpdk.some_frames(30, sizes=(64, 1514))
    arp = [replace(frame, data=frame.data[:12] + b"\x08\x06" + frame.data[14:]) for frame in frames[:10]]
    capture = {"method": "fpga", "p4_program": str(FORWARD), "p4_control": str(control), "format": "pcapng"}
    with sending(fabric, network, arp + frames[10:]):
        status, campaign = collected(fabric, collect=ONE, sample_s=3, capture=capture, image=IMAGE)
    assert status == 0, capsys.readouterr().err
    (manifest,) = [read(path) for path in (campaign / "raw").glob("*.json")]
    captured = dpdk.read_pcapng(campaign / "raw" / manifest["file"])
    assert [frame.data for frame in captured.frames] == [frame.data[:200] for frame in frames[10:]]
    assert manifest["p4"]["not_sent"] == {"no-arp": 10}
    assert manifest["p4"]["control_sha256"] == hashlib.sha256(control.read_bytes()).hexdigest()
    assert manifest["dpdk"]["driver"] == "net_af_packet"


def check_nothing_is_left(fabric: Loopback) -> None:
    """Check that no program runs on the nodes, and that captures were deleted there."""
    started = list(fabric.nodes.home(NODE).glob("acapella-first/jobs/*/pid"))
    assert started and all(pid.with_name("status").exists() for pid in started)
    names = {path.name for path in fabric.nodes.home(NODE).glob("acapella-first/*") if path.is_file()}
    assert not [name for name in names if ".pcap" in name or ".part" in name or name.endswith((".json", ".gz"))]
    assert not fabric.orchestrator.alive()


def test_next_samples_use_the_build_and_replace_files_of_a_killed_collection(build, fabric, network, capsys):
    """The collector is killed while it captures: its program keeps running until the next collection ends it."""
    place(build, fabric)
    home, frames = fabric.nodes.home(NODE), dpdk.some_frames(20, sizes=(64,))
    killed = Collector(fabric, sample_s=600)
    wait_until(lambda: listening(home))
    killed.kill()
    left = running(home)
    assert left and list(home.glob("acapella-first/*.pcap.part"))
    two = ONE | {"samples_per_run": 2}
    with sending(fabric, network, frames, 2):
        status, campaign = collected(fabric, collect=two, sample_s=2, capture={"method": "dpdk"}, image=IMAGE)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    manifests = [read(path) for path in (campaign / "raw").glob("*.json")]
    assert [each["frames_captured"] for each in manifests] == [20, 20]
    assert "compile" not in printed.out
    assert not left & running(home)
    check_nothing_is_left(fabric)


def running(home: Path) -> set[str]:
    """Return the process ids of the programs that capture on a node."""
    started = [pid.read_text() for pid in home.glob("acapella-first/jobs/*/pid")]
    lines = {pid: Path("/proc", pid, "cmdline") for pid in started}
    return {pid for pid, line in lines.items() if line.exists() and b"--snaplen" in line.read_bytes()}


class Collector:
    """`acapella collect` in another process."""

    def __init__(self, fabric: Loopback, sample_s: float):
        config = config_of(fabric, collect=ONE, sample_s=sample_s, capture={"method": "dpdk"}, image=IMAGE)
        path, campaign = fabric.directory / "killed.json", fabric.directory / "results" / "first"
        path.write_text(json.dumps(config))
        key = fabric.directory / "bastion_host_key"
        fabric.nodes.bastion_key.write_private_key_file(str(key))
        module = [sys.executable, "-m", "acapella_testing.fabric.program", str(fabric.nodes.port), str(key)]
        self._process = subprocess.Popen([*module, "collect", str(campaign), "--config", str(path)])

    def kill(self) -> None:
        assert self._process.poll() is None
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("step", ["install packages", "compile"])
def test_failed_step_is_one_line_with_node_and_the_end_of_its_log(fabric, capsys, monkeypatch, step):
    monkeypatch.setattr(node_build, "LOG_BYTES", 1000)  # a node may write any length
    with_packages(fabric)
    if step == "compile":
        (fabric.nodes.home(NODE) / "installed").touch()
        write_program(fabric, "cc", BROKEN_CC.format(cc=compiler()))
        reason = "clock.c:1:1: error: broken by the test"
    else:
        write_program(fabric, "apt-get", NO_PACKAGE)
        reason = "E: Unable to locate package liburing-dev"
    status, campaign = collected(fabric, collect=ONE, capture={"method": "dpdk"}, image=IMAGE)
    log = campaign / "logs" / "collect" / f"{NODE}-{PROGRAM}-{step.replace(' ', '-')}.log"
    printed = capsys.readouterr()
    line = f"node {NODE}: {PROGRAM}: {step} failed: {reason}; log: {log}; see the log, or set capture.method: tcpdump"
    assert status == 2 and line in printed.err.splitlines()[-1]
    assert reason in log.read_text() and log.stat().st_size <= 1000
    started = list(fabric.nodes.home(NODE).glob("acapella-first/jobs/*/pid"))
    assert started and all(pid.with_name("status").exists() for pid in started)
    assert not fabric.orchestrator.alive()


def test_image_without_dpdk_is_rejected_before_anything_is_allocated(fabric, capsys):
    status, _ = collected(fabric, collect=ONE, capture={"method": {"default": "tcpdump", "UTAH": "dpdk"}})
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert status == 2 and not fabric.orchestrator.slices
    assert line.endswith(
        "fabric.image: default_ubuntu_22 has no DPDK 22.11, which capture.method dpdk needs; "
        "set fabric.image: default_debian_12 or default_ubuntu_24"
    )


OWN = {"mode": "slice", "slice": SLICE, "sites": [], "port_selection": "all", "ports": None, "instances": 1}
OWN_NODE = "n3"


@pytest.fixture
def own_node(tmp_path) -> Iterator[Loopback]:
    """Provide a FABRIC whose project has no permissions, with the user's slice of one node that has the packages."""
    with loopback_fabric(tmp_path, SITES) as fabric:
        fabric.orchestrator.tags = ()
        experiment(fabric, {OWN_NODE: "UTAH", "n4": "UTAH"})
        with_packages(fabric)
        yield fabric


def test_node_of_the_user_captures_from_a_socket_and_is_left_unchanged(build, own_node, capsys, monkeypatch):
    """The nodes have the packages. A copy of the build saves time; everything is removed at the end."""
    monkeypatch.setattr(NodeBuild, "program", lambda self: str(build["directory"] / "program"))
    with veth.namespace((RECEIVERS[0], "far0")) as prefix:
        own_node.nodes.prefixes |= dict.fromkeys((OWN_NODE, "n4"), prefix)
        status, campaign = collected(own_node, collect=OWN, sample_s=1, capture={"method": "dpdk"})
        own_node.nodes.prefixes.clear()
    assert status == 0, capsys.readouterr().err
    manifests = [read(path) for path in (campaign / "raw").glob("*.json")]
    assert {each["captured_at"] for each in manifests} == {"host"} and len(manifests) == 2
    for each in manifests:
        assert each["dpdk"]["driver"] == "net_af_packet"
        assert each["dpdk"]["reason"] == "the interface of the user's own node stays with the kernel"
    for node in (OWN_NODE, "n4"):
        home = own_node.nodes.home(node)
        assert not list(home.glob("acapella*"))
        assert "install " not in (home / "commands.log").read_text()


def test_no_package_is_installed_on_a_node_of_the_user(own_node, capsys):
    status, _ = collected(own_node, collect=OWN, capture={"method": "dpdk"})
    printed = capsys.readouterr()
    assert status == 2
    line = "packages are missing or too old: liburing-dev; sudo apt-get install liburing-dev"
    assert f"node {OWN_NODE}: {line}" in printed.out + printed.err
    for node in (OWN_NODE, "n4"):
        home = own_node.nodes.home(node)
        assert not list(home.glob("acapella*")) and "install " not in (home / "commands.log").read_text()
