"""Ways to run `acapella collect` in a test: as root or not, and what of it is left afterwards."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acapella_capture.control import sampling
from acapella_capture.testbeds.local import sandbox

# Failed assertions of helper modules print both sides, as those of test modules do.
pytest.register_assert_rewrite("acapella_testing")

from acapella_testing.capture.callers import Caller, namespaces_or_skip, ordinary_user, readable_directory  # noqa: E402

# A testbed `local` is only possible within the sandbox: test_testbed_contract.py starts these files there.
collect_ignore = (
    [] if sandbox.inside() else [f"testbeds/local/test_local_{name}.py" for name in ("ovs", "testbed", "traffic")]
)


def pytest_configure():
    """Programs that tests start take SIGINT as usual, also where the tests run in a shell's background job."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["root", "user"], scope="module")
def caller(request) -> Iterator[Caller]:
    """Who runs collect: root, or somebody with a user namespace of their own."""
    if request.param == "user":
        with readable_directory() as directory:
            yield ordinary_user(directory)
        return
    if os.geteuid() != 0:
        pytest.skip("not root")
    yield namespaces_or_skip(Caller())


@pytest.fixture(scope="module")
def anyone() -> Caller:
    """Whoever runs the tests runs collect."""
    return namespaces_or_skip(Caller())


@pytest.fixture(scope="session")
def dpdk_programs() -> None:
    """Build capture/dpdk; tests that need it skip with a reason if that is impossible."""
    from acapella_testing.capture.dpdk_writer import built_or_skip  # noqa: PLC0415 (only if a test asks for it)

    built_or_skip()


@pytest.fixture
def fabric(tmp_path) -> Iterator:
    """FABRIC on this machine: an orchestrator and nodes that FABRIC's client talks to."""
    from acapella_testing.capture.fabric_loopback import loopback_fabric  # noqa: PLC0415 (FABRIC's client may be missing)

    with loopback_fabric(tmp_path) as made:
        yield made


@pytest.fixture
def fake_tcpdump(monkeypatch) -> None:
    """Replace tcpdump by the one of the paper testbed, which starts no process."""
    from acapella_testing.capture.fake_testbed import FakeTcpdump  # noqa: PLC0415 (only if a test asks for it)

    monkeypatch.setitem(sampling.PROGRAMS, "tcpdump", FakeTcpdump)


@pytest.fixture(scope="module")
def open_directory(caller) -> Iterator[Path]:
    """A directory that the caller may write to, whoever it is."""
    with readable_directory(0o777) as directory:
        yield directory
