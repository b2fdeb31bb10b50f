"""The environment in which `acapella transfer` runs on testbed `local`."""

from acapella_testing.c_programs import PLAIN, built_or_skip
from acapella_testing.capture.callers import Caller, namespaces_or_skip
from acapella_testing.requirements import require_programs

from acapella_capture.testbeds.local import sandbox


def environment() -> dict[str, str]:
    """Return environment variables with PATH for acapella-link of this tree; skip the test if something is missing."""
    namespaces_or_skip(Caller())
    require_programs("iperf3", "ping", "ss", "tcpdump", "ethtool", path=sandbox.search_path())
    path = f"{built_or_skip('acapella-link', PLAIN).parent}:{sandbox.search_path()}"
    return {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
