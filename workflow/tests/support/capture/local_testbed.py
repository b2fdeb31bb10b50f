"""The local testbed as tests use it inside the sandbox: two sites with two hosts, every path, little traffic."""

import contextlib
from collections.abc import Iterator

import pytest
from acapella_testing.requirements import require_programs

from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Direction, Mirror, ResourceRequest
from acapella_capture.testbeds.local import sandbox
from acapella_capture.testbeds.local.ovs import TUN
from acapella_capture.testbeds.local.testbed import LocalTestbed

TRAFFIC = [
    {"kind": "ping", "path": "jumbo", "span": "run"},
    {"kind": "dns", "path": "vxlan"},
    {"kind": "https"},
]


def local_testbed(**changes) -> LocalTestbed:
    """Return a testbed without allocating it."""
    return LocalTestbed(parse_settings({"testbed": "local", "local": {"traffic": TRAFFIC} | changes}).local)


@contextlib.contextmanager
def allocated(testbed: LocalTestbed) -> Iterator[LocalTestbed]:
    """Allocate one instance per site."""
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


def open_vswitch_or_skip(switch: str = "ovs") -> None:
    """Skip the test if Open vSwitch is needed but missing."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl") if switch == "ovs" else ():
        require_programs(program, path=sandbox.search_path())
    if switch == "ovs" and not TUN.exists():
        pytest.skip(f"no {TUN} here, which Open vSwitch needs")
