"""C programs that tests run. `make programs` builds them if their sources changed, at most once per test process."""

import fcntl
import functools
import subprocess
from pathlib import Path

from acapella_testing.requirements import skip_if
from acapella_testing.source_tree import ROOT

SANITIZED = ROOT / "build" / "programs-tests"
PLAIN = ROOT / "build" / "programs"  # also used by make setup
DIRECTORIES = {
    "acapella-dpdk-capture": Path("capture/dpdk"),
    "acapella-link": Path("capture/link"),
    "acapella-dpdk-generate": Path("capture/generate"),
    "acapella-dpdk-replay": Path("capture/replay"),
    "acapella-monitor": Path("capture/monitor"),
    "acapella-p4-run": Path("p4/loader"),
}


def make(target: str, build: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run make with the programs in ``build``. Concurrent tests build one after the other."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / f"{build.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sanitize = ["SANITIZE=1"] if build == SANITIZED else []
        argv = ["make", "-s", "-C", str(ROOT), target, f"PROGRAMS={build.relative_to(ROOT)}", *sanitize, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False)


@functools.cache
def _make_output(build: Path) -> str:
    """Build the programs in ``build``; return what make printed."""
    done = make("programs", build)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def path_of(name: str, build: Path = SANITIZED) -> Path:
    """Return the path of a program after it is built."""
    return build / DIRECTORIES[name] / name


def built_or_skip(name: str, build: Path = SANITIZED) -> Path:
    """Build a program and return its path; skip the test if libraries of the program are not installed."""
    skip_if(next((line for line in _make_output(build).splitlines() if f"{name} is not built" in line), None))
    return path_of(name, build)


def run_tests(*names: str) -> subprocess.CompletedProcess:
    """Run these tests of the C programs, with the sanitizers."""
    return make("programs-test", SANITIZED, f"PROGRAM_TESTS={' '.join(names)}")
