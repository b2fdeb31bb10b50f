"""The local testbed that the tests inside the sandbox share: two sites of two hosts, every path, little traffic."""

from acapella_capture.settings import settings_of
from acapella_capture.testbeds.local import LocalTestbed

TRAFFIC = [
    {"kind": "ping", "path": "jumbo", "span": "run"},
    {"kind": "dns", "path": "vxlan"},
    {"kind": "https"},
]


def local_testbed(**changes) -> LocalTestbed:
    """Made, not allocated."""
    return LocalTestbed(settings_of({"testbed": "local", "local": {"traffic": TRAFFIC} | changes}).local)
