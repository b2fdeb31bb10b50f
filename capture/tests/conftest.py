"""Ways to run `acapella collect` in a test: as root or not, and what of it is left afterwards."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acapella_capture.control import sampling
from acapella_capture.testbeds.local import sandbox

sys.path.insert(0, str(Path(__file__).parent))  # leftovers, small_testbed, testbed_contract: modules that tests import

collect_ignore = [] if sandbox.inside() else ["test_local_ovs.py", "test_local_testbed.py", "test_local_traffic.py"]

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
# An interpreter outside the virtual environment finds what that has, editable installs and native core included.
SITE = "import site\nsite.addsitedir({!r})\n".format(sysconfig.get_paths()["purelib"])


def pytest_configure():
    """Programs that tests start take SIGINT as usual, also where the tests run in a shell's background job."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Caller:
    """Who runs collect: the words before it, and its environment."""

    prefix: tuple[str, ...] = ()
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)

    def argv(self, *arguments: object) -> list[str]:
        return [*self.prefix, self.python, "-m", "acapella_capture.collect", *map(str, arguments)]

    def run(self, *arguments: object, timeout: float = 300) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.argv(*arguments), env=self.env(), capture_output=True, text=True, timeout=timeout, check=False
        )

    def start(self, *arguments: object) -> subprocess.Popen:
        return subprocess.Popen(self.argv(*arguments), env=self.env(), stdout=subprocess.PIPE, text=True)

    def env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **self.environment}


def namespaces_or_skip(caller: Caller) -> Caller:
    """The caller, where it may make network namespaces."""
    flags = ["--user", "--map-current-user", "--keep-caps"] if caller.prefix or os.geteuid() else []
    argv = [*caller.prefix, "unshare", *flags, "--fork", "--pid", "--mount-proc", "--net", "true"]
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no network namespaces here: {tried.stderr.strip()}")
    for program in ("ip", "tc", "ethtool", "tcpdump"):
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            pytest.skip(f"no {program} here")
    return caller


def ordinary_user(directory: Path) -> Caller:
    """Return an unprivileged caller whose interpreter finds our packages through ``directory``."""
    if os.geteuid() != 0:
        return namespaces_or_skip(Caller())
    (directory / "sitecustomize.py").write_text(SITE)
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    environment = {"PYTHONPATH": str(directory), "HOME": "/nonexistent"}
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        caller = Caller(prefix, python, environment)
        # through a shell: setpriv itself still has root's rights to find the interpreter
        argv = [*prefix, "sh", "-c", 'exec "$0" -c "import acapella_capture.collect, acapella_core._native"', python]
        if subprocess.run(argv, env=caller.env(), capture_output=True, check=False).returncode == 0:
            return namespaces_or_skip(caller)
    pytest.skip(f"user {NOBODY} can run no Python that finds this project")


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
    from dpdk_writer import built_or_skip  # noqa: PLC0415 (only if a test asks for it)

    built_or_skip()


@pytest.fixture
def fabric(tmp_path) -> Iterator:
    """FABRIC on this machine: an orchestrator and nodes that FABRIC's client talks to."""
    from fabric_loopback import loopback_fabric  # noqa: PLC0415 (FABRIC's client may be missing)

    with loopback_fabric(tmp_path) as made:
        yield made


@pytest.fixture
def paper_tcpdump(monkeypatch) -> None:
    """Replace tcpdump by the one of the paper testbed, which starts no process."""
    from paper_testbed import PaperTcpdump  # noqa: PLC0415 (only if a test asks for it)

    monkeypatch.setitem(sampling.PROGRAMS, "tcpdump", PaperTcpdump)


@contextlib.contextmanager
def readable_directory(mode: int = 0o755) -> Iterator[Path]:
    """A directory that every user may enter. Not pytest's: those are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="acapella-test-") as name:
        Path(name).chmod(mode)
        yield Path(name)


@pytest.fixture(scope="module")
def open_directory(caller) -> Iterator[Path]:
    """A directory that the caller may write to, whoever it is."""
    with readable_directory(0o777) as directory:
        yield directory
