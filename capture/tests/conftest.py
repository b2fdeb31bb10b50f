"""Fixtures of the tests of capture: callers of `acapella collect`, programs, a FABRIC on loopback."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acapella_capture.control import sampling
from acapella_capture.generate import program
from acapella_capture.testbeds.local import sandbox

# Failed assertions of helper modules print both sides, as those of test modules do.
if "acapella_testing" not in sys.modules:
    pytest.register_assert_rewrite("acapella_testing")

import acapella_testing.hypothesis_profile
import acapella_testing.without_sync  # noqa: F401 (takes effect when it is imported)
from acapella_testing import c_programs, soak
from acapella_testing.capture import veth
from acapella_testing.capture.callers import Caller, namespaces_or_skip, ordinary_user, readable_directory
from acapella_testing.requirements import require_root

# A testbed `local` is only possible within the sandbox: test_testbed_contract.py starts these files there.
collect_ignore_glob = [] if sandbox.inside() else ["testbeds/local/test_local_*.py"]


def pytest_configure(config):
    """Register the selection of long tests; restore SIGINT if the tests run as a background job of a shell."""
    soak.register(config)


@pytest.fixture(autouse=True)
def unchanged_umask() -> Iterator[None]:
    """Restore the umask after a test.

    `acapella collect` sets it to 077 for its whole process. If a test calls its main function, files that later tests
    write for other users would be private.
    """
    before = os.umask(0o077)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(params=["root", "user"], scope="module")
def caller(request) -> Iterator[Caller]:
    """Return who runs collect: root, or a user with a user namespace."""
    if request.param == "user":
        with readable_directory() as directory:
            yield ordinary_user(directory)
        return
    require_root("collect runs as an ordinary user only")
    yield namespaces_or_skip(Caller())


@pytest.fixture(scope="module")
def anyone() -> Caller:
    """Return the caller that runs collect as the user who runs the tests."""
    return namespaces_or_skip(Caller())


@pytest.fixture
def direct() -> Iterator[tuple[str, ...]]:
    """Provide a namespace where out0 sends to in0."""
    with veth.namespace(("out0", "in0")) as prefix:
        yield prefix


@pytest.fixture
def bridged() -> Iterator[tuple[str, ...]]:
    """Provide a namespace where left0 sends to left1, and right0 to right1; programs connect left1 and right0."""
    with veth.namespace(("left0", "left1"), ("right0", "right1")) as prefix:
        yield prefix


@pytest.fixture
def fabric(tmp_path) -> Iterator:
    """Provide a FABRIC on this machine: an orchestrator and nodes that FABRIC's client connects to."""
    from acapella_testing.fabric.loopback import loopback_fabric  # noqa: PLC0415 (FABRIC's client may be missing)

    with loopback_fabric(tmp_path) as created:
        yield created


@pytest.fixture
def generator(monkeypatch) -> None:
    """Let `acapella generate` run the program with the sanitizers; skip the test if it cannot be built."""
    built = c_programs.built_or_skip("acapella-dpdk-generate")
    monkeypatch.setattr(program, "executable", lambda: str(built))


@pytest.fixture
def fake_tcpdump(monkeypatch) -> None:
    """Replace tcpdump with FakeTcpdump, which starts no process."""
    from acapella_testing.capture.fake_testbed import FakeTcpdump  # noqa: PLC0415 (only if a test asks for it)

    monkeypatch.setitem(sampling.PROGRAMS, "tcpdump", FakeTcpdump)


@pytest.fixture(scope="module")
def open_directory(caller) -> Iterator[Path]:
    """Provide a directory that the caller may write to."""
    with readable_directory(0o777) as directory:
        yield directory
