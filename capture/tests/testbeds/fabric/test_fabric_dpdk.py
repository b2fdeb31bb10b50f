"""Captures with acapella-dpdk-capture, which nodes of a FABRIC on loopback build from the uploaded source archive."""

import contextlib
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.fabric import program
from acapella_testing.fabric.collection_runs import ONE, OWN, config_of, ended
from acapella_testing.fabric.experiment import fabric_with_experiment
from acapella_testing.fabric.loopback import Loopback, loopback_fabric
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable, run, running
from acapella_testing.requirements import require
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric.agent import MARKER
from acapella_capture.testbeds.fabric.nodes import build as node_build
from acapella_capture.testbeds.fabric.nodes.build import PACKAGES, PROGRAM, NodeBuild
from acapella_capture.testbeds.fabric.nodes.source_archive import source_archive

NODE, RECEIVERS = "UTAH-listener1", ("enp8s0", "enp9s0")
FRAMES = 400
IMAGE = "default_debian_12"
# The node lacks a library until it is installed. All other packages are on this machine.
PKG_CONFIG = """#!/bin/sh
case "$*" in *liburing) [ -e "$HOME/installed" ] || exit 1 ;; esac
exec {pkg_config} "$@"
"""
APT_GET = """#!/bin/sh
echo "install $*" >> "$HOME/commands.log"
case "$*" in *" install "*liburing-dev*) touch "$HOME/installed" ;; esac
"""
CCACHE = '#!/bin/sh\nexport CCACHE_DIR={cache} CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=/\nexec {ccache} "$@"\n'


def with_packages(fabric: Loopback) -> None:
    """Give the nodes meson and ninja, which are packages on FABRIC, and the ccache of this user, if there is one."""
    for name in ("meson", "ninja"):
        fabric.nodes.program(name).symlink_to(Path(sys.executable).with_name(name))
    executable(fabric.nodes.program("pkg-config"), PKG_CONFIG.format(pkg_config=shutil.which("pkg-config")))
    executable(fabric.nodes.program("apt-get"), APT_GET)
    if ccache := shutil.which("ccache"):
        cache = run(ccache, "--get-config", "cache_dir", check=True).stdout.strip()
        executable(fabric.nodes.program("ccache"), CCACHE.format(cache=cache, ccache=ccache))


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
        (directory,) = fabric.nodes.home(instance.name).glob("acapella-first/programs-*")
        yield {"directory": directory, "lines": lines, "commands": fabric.nodes.commands_of(instance.name)}


@pytest.fixture
def network(build, fabric) -> Iterator[tuple[str, ...]]:
    """Give the node the program that was built, and a network namespace.

    Frames that are sent to `far0` arrive at its first receiver.
    """
    target = fabric.nodes.home(NODE) / "acapella-first" / build["directory"].name
    shutil.copytree(build["directory"], target)
    (target.parent / MARKER).touch()
    with veth.namespace((RECEIVERS[0], "far0"), (RECEIVERS[1], "far1")) as prefix, fabric.nodes.inside(prefix, NODE):
        yield prefix


def sending(
    fabric: Loopback, prefix: tuple[str, ...], frames: list[dpdk.Frame], count: int = 1
) -> contextlib.AbstractContextManager[None]:
    """Send frames in each of a number of samples, once the program listens."""
    path, home = write_file(fabric.directory / "frames.pcap", dpdk.pcap_bytes(frames)), fabric.nodes.home(NODE)
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


@pytest.mark.soak
def test_program_is_built_from_the_archive_and_only_missing_packages_are_installed(build):
    assert {path.name for path in build["directory"].iterdir()} == {"program", "meson.build"}
    steps = [line.removeprefix(f"{NODE}: {PROGRAM}: ") for line in build["lines"][:4]]
    assert steps == ["install packages", "configure", "compile", "check"]
    installed = [line for line in build["commands"] if line.startswith("install ") and "-o DPkg" in line]
    (line,) = [line for line in installed if "--no-install-recommends" in line]
    assert line.split()[-1:] == ["liburing-dev"] and set(line.split()) & set(PACKAGES) == {"liburing-dev"}


def test_archive_has_the_same_bytes_for_the_same_sources():
    assert source_archive() == source_archive()


def test_capture_has_the_frames_that_tcpdump_captures(fabric, network, tmp_path, collection):
    frames = dpdk.some_frames(FRAMES, sizes=(60, 64, 128, 512, 1514))
    reference = tmp_path / "reference.pcap"
    with replayer.tcpdump(network, RECEIVERS[0], reference), sending(fabric, network, frames):
        done = collection(collect=ONE, sample_s=3, capture={"method": "dpdk", "snaplen": 96}, image=IMAGE)
    assert done.status == 0, done.err
    (manifest,) = done.manifests()
    captured, left = dpdk.read_pcap(done.raw / manifest["file"])
    expected, _ = dpdk.read_pcap(reference)
    assert left == 0 and len(captured) == FRAMES == manifest["frames_captured"]
    assert [(frame.data, frame.wire) for frame in captured] == [(each.data[:96], each.wire) for each in expected]
    assert (manifest["method"], manifest["frames_received"], manifest["dropped_kernel"]) == ("dpdk", FRAMES, 0)
    assert manifest["dpdk"] == {
        "device": "net_af_packet0", "driver": "net_af_packet", "huge_pages": False, "kernel_driver": None,
        "reason": "no device driver",
        "dropped": {"queue_full": 0, "writer_full": 0, "write_error": 0, "too_many_segments": 0},
    }  # fmt: skip
    assert "compile" not in done.out, "the program was there"
    assert f"{NODE}: enp8s0 is captured with a socket" in done.out
    check_nothing_is_left(fabric)


@pytest.mark.soak
def test_p4_program_and_its_control_file_are_uploaded(fabric, network, tmp_path, collection):
    control = write_file(tmp_path / "control", dpdk.DROP_ARP)
    frames = dpdk.some_frames(30, sizes=(64, 1514))
    arp = [replace(frame, data=frame.data[:12] + b"\x08\x06" + frame.data[14:]) for frame in frames[:10]]
    capture = {"method": "fpga", "p4_program": str(dpdk.FORWARD), "p4_control": str(control), "format": "pcapng"}
    with sending(fabric, network, arp + frames[10:]):
        done = collection(collect=ONE, sample_s=3, capture=capture, image=IMAGE)
    assert done.status == 0, done.err
    (manifest,) = done.manifests()
    assert [frame.data for frame in dpdk.read_pcapng(done.raw / manifest["file"]).frames] == [
        frame.data[:200] for frame in frames[10:]
    ]
    assert manifest["p4"]["not_sent"] == {"no-arp": 10}
    assert manifest["p4"]["control_sha256"] == hashlib.sha256(control.read_bytes()).hexdigest()
    assert manifest["dpdk"]["driver"] == "net_af_packet"


def check_nothing_is_left(fabric: Loopback) -> None:
    """Check that no program runs on the nodes, and that captures were deleted there."""
    assert fabric.nodes.started(NODE) and not fabric.nodes.running(NODE)
    names = {path.name for path in fabric.nodes.home(NODE).glob("acapella-first/*") if path.is_file()}
    assert not [name for name in names if ".pcap" in name or ".part" in name or name.endswith((".json", ".gz"))]
    assert not fabric.slices


@pytest.mark.soak
def test_next_samples_use_the_build_and_replace_files_of_a_killed_collection(fabric, network, collection):
    """The collector is killed while it captures: its program keeps running until the next collection ends it."""
    home = fabric.nodes.home(NODE)
    with running(collector(fabric)) as process:
        wait_until(lambda: listening(home), running=process)
    left = capturing(fabric)
    assert left and list(home.glob("acapella-first/*.pcap.part"))
    with sending(fabric, network, dpdk.some_frames(20, sizes=(64,)), 2):
        done = collection(collect=ONE | {"samples_per_run": 2}, sample_s=2, capture={"method": "dpdk"}, image=IMAGE)
    assert done.status == 0, done.err
    assert [each["frames_captured"] for each in done.manifests()] == [20, 20]
    assert "compile" not in done.out
    assert not left & capturing(fabric)
    check_nothing_is_left(fabric)


def capturing(fabric: Loopback) -> set[str]:
    """Return the process ids of the programs that capture on the node."""
    lines = {pid: Path("/proc", pid, "cmdline") for pid in (file.read_text() for file in fabric.nodes.started(NODE))}
    return {pid for pid, line in lines.items() if line.exists() and b"--snaplen" in line.read_bytes()}


def collector(fabric: Loopback) -> list:
    """Return the command line of a process that captures for ten minutes."""
    config = config_of(fabric, collect=ONE, sample_s=600, capture={"method": "dpdk"}, image=IMAGE)
    path = write_file(fabric.directory / "killed.json", json.dumps(config))
    where = [fabric.nodes.port, fabric.nodes.bastion_key_file(fabric.directory)]
    argv = ["collect", fabric.directory / "results" / "first", "--config", path]
    return [str(word) for word in (sys.executable, "-m", program.__name__, *where, *argv)]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("step", "failing"),
    [
        ("install packages", ("apt-get", "*", "E: Unable to locate package liburing-dev")),
        ("compile", ("cc", "*capture/common/*.c*", "clock.c:1:1: error: broken by the test")),
    ],
)
def test_failed_step_is_one_line_with_node_and_the_end_of_its_log(fabric, collection, monkeypatch, step, failing):
    """``failing``: a program, the pattern of the command lines with which it fails, and its message."""
    broken, pattern, reason = failing
    monkeypatch.setattr(node_build, "LOG_BYTES", 1000)  # a node may write any length
    with_packages(fabric)
    if step == "compile":
        (fabric.nodes.home(NODE) / "installed").touch()
    script = f'case "$*" in {pattern}) echo "{reason}" >&2; exit 100 ;; esac\nexec /usr/bin/{broken} "$@"\n'
    executable(fabric.nodes.program(broken), f"#!/bin/sh\n{script}")
    done = collection(collect=ONE, capture={"method": "dpdk"}, image=IMAGE)
    log = done.campaign / "logs" / "collect" / f"{NODE}-{PROGRAM}-{step.replace(' ', '-')}.log"
    line = f"node {NODE}: {PROGRAM}: {step} failed: {reason}; log: {log}; see the log, or set capture.method: tcpdump"
    assert done.status == 2 and line in done.error
    assert done.error.startswith("acapella: error: ")
    assert reason in log.read_text() and log.stat().st_size <= 1000
    assert fabric.nodes.started(NODE) and not fabric.nodes.running(NODE)
    assert not fabric.slices


def test_image_without_dpdk_is_rejected_before_anything_is_allocated(fabric, collection):
    done = collection(collect=ONE, capture={"method": {"default": "tcpdump", "UTAH": "dpdk"}})
    assert done.status == 2 and not fabric.orchestrator.slices
    assert done.error.startswith("acapella: error: ")
    assert done.error.endswith(
        "fabric.image: default_ubuntu_22 has no DPDK 22.11, which capture.method dpdk needs; "
        "set fabric.image: default_debian_12 or default_ubuntu_24"
    )


OWN_NODES = ("n3", "n4")


@pytest.fixture
def own_nodes(tmp_path) -> Iterator[Loopback]:
    """Provide a FABRIC whose project has no permissions, with the user's slice; its nodes lack liburing-dev only."""
    with fabric_with_experiment(tmp_path, (), dict.fromkeys(OWN_NODES, "UTAH")) as fabric:
        with_packages(fabric)
        yield fabric


def check_unchanged(fabric: Loopback) -> None:
    """Check that the user's nodes have no file of ours, and that no package was installed."""
    assert not [path for node in OWN_NODES for path in fabric.nodes.home(node).glob("acapella*")]
    assert not [line for node in OWN_NODES for line in fabric.nodes.commands_of(node) if "install " in line]


@pytest.mark.soak
def test_user_node_captures_from_a_socket_and_is_left_unchanged(build, own_nodes, capsys, monkeypatch):
    """The program of the other tests is used, so nothing is built. Everything is removed at the end."""
    monkeypatch.setattr(NodeBuild, "program", lambda self: str(build["directory"] / "program"))
    with veth.namespace((RECEIVERS[0], "far0")) as prefix, own_nodes.nodes.inside(prefix, *OWN_NODES):
        done = ended(own_nodes, capsys, collect=OWN, sample_s=1, capture={"method": "dpdk"})
    assert done.status == 0, done.err
    assert [each["captured_at"] for each in done.manifests()] == ["host"] * 2
    assert [each["dpdk"]["driver"] for each in done.manifests()] == ["net_af_packet"] * 2
    reason = "the interface of the user's own node stays with the kernel"
    assert [each["dpdk"]["reason"] for each in done.manifests()] == [reason] * 2
    check_unchanged(own_nodes)


def test_no_package_is_installed_on_a_user_node(own_nodes, capsys):
    done = ended(own_nodes, capsys, collect=OWN, capture={"method": "dpdk"})
    assert done.status == 2
    assert done.error.startswith("acapella: error: ")
    assert "node n3: packages are missing or too old: liburing-dev; sudo apt-get install liburing-dev" in done.printed
    check_unchanged(own_nodes)
