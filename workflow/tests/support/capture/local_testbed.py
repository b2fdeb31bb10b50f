"""The local testbed as tests use it inside the sandbox: two sites with two hosts, every path, little traffic."""

import concurrent.futures
import contextlib
from collections.abc import Iterator
from pathlib import Path

from acapella_testing.capture.pcap_records import frames
from acapella_testing.requirements import require, require_programs
from acapella_testing.waiting import wait_until

from acapella_capture.programs.tcpdump import Tcpdump
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Direction, Job, Mirror, ResourceRequest
from acapella_capture.testbeds.local import sandbox
from acapella_capture.testbeds.local.ovs import TUN
from acapella_capture.testbeds.local.testbed import LocalTestbed

TRAFFIC = [{"kind": "ping", "path": "jumbo", "span": "run"}, {"kind": "dns", "path": "vxlan"}, {"kind": "https"}]


def local_testbed(**changes) -> LocalTestbed:
    """Return a testbed without allocating it."""
    return LocalTestbed(parse_settings({"testbed": "local", "local": {"traffic": TRAFFIC} | changes}).local)


@contextlib.contextmanager
def allocated(testbed: LocalTestbed) -> Iterator[LocalTestbed]:
    """Enter the testbed, allocate one instance per site, and yield the testbed."""
    with testbed:
        allocate(testbed)
        yield testbed


def allocate(testbed: LocalTestbed) -> None:
    for site in testbed.sites():
        testbed.allocate(site.name, ResourceRequest(1))


def mirror_of(testbed: LocalTestbed, site: str, port: str, direction: Direction) -> Mirror:
    """Return a mirror to the first receiver of the site's first instance."""
    instance = testbed.instances(site)[0]
    return testbed.mirror(instance, instance.receivers[0], port, direction)


def tcpdump_of(testbed: LocalTestbed, node: str, interface: str, output: str = "x.pcap", **settings) -> Tcpdump:
    """Return a capture with these settings of section `capture`."""
    return Tcpdump(testbed, node, interface, parse_settings({"testbed": "local", "capture": settings}).capture, output)


class Sampled:
    """A mirror and its capture. After `stop`, `counted` has the counts of the mirror, `counts` those of the capture."""

    def __init__(self, testbed: LocalTestbed, mirror: Mirror, **settings):
        self._testbed, self.mirror, self._file = testbed, mirror, f"{mirror.interface}.pcap"
        self.capture = tcpdump_of(testbed, mirror.instance, mirror.interface, self._file, **settings)

    def start(self) -> None:
        self.capture.start()
        self.mirror.start()

    def stop(self) -> None:
        self.mirror.stop()
        self.counted, self.counts = self.mirror.counters(), self.capture.stop()

    def frames(self, directory: Path) -> list[bytes]:
        self._testbed.fetch(self.mirror.instance, self._file, directory / self._file)
        return [frame for _, frame in frames(directory / self._file)]


@contextlib.contextmanager
def capturing(*samples: Sampled) -> Iterator[None]:
    """Run captures within the block. Stopping one takes about a second, so all are stopped in parallel."""
    for sample in samples:
        sample.start()
    yield
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(Sampled.stop, samples))


def printing_tcpdump(testbed: LocalTestbed, mirror: Mirror, text: str, *words: str) -> Job:
    """Start a tcpdump that prints the frames of a mirror to a file."""
    argv = ["tcpdump", "-i", mirror.interface, "-n", "-e", "--immediate-mode", "-l", *words]
    capture = testbed.start(mirror.instance, argv, output=text)
    wait_until(lambda: "listening on" in capture.log())
    return capture


def printed(testbed: LocalTestbed, capture: Job, node: str, file: str) -> str:
    """End a tcpdump and return what it has printed to a file of its node."""
    capture.signal("INT")
    assert capture.wait(300) == 0
    return testbed.run(node, ["cat", testbed.path_on_node(node, file)]).stdout


def transfer(testbed: LocalTestbed, *words: str) -> None:
    """Send iperf3 traffic from the first to the second host of site1."""
    server = testbed.start("site1-host2", ["iperf3", "-s", "-1", "--forceflush"])
    wait_until(lambda: "listening" in server.log())
    assert testbed.run("site1-host1", ["iperf3", "-c", "10.10.1.2", *words]).status == 0
    assert server.wait(300) is not None


def open_vswitch_or_skip(switch: str = "ovs") -> None:
    """Skip the test if Open vSwitch is needed but missing."""
    if switch == "ovs":
        require_programs("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", path=sandbox.search_path())
        require(TUN.exists(), f"no {TUN} here, which Open vSwitch needs")
