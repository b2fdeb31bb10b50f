"""Fixtures of all tests: the corpus, finished campaigns, a browser."""

import fcntl
import gc
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")
TIMEOUT_MS = 180_000  # reached only if the browser hangs
# The files test_NAME.py that take the longest are first in the queue, so that no worker starts one when the others are
# done. Those that mostly wait and those that mostly compute alternate. workflow_stops does not run at the same time as
# workflow_runs: both need the finished campaign.
LONG = """
fabric_replay workflow_runs transfer_fabric congestion notebook workflow_trials transfer_fabric_slice fault_injection
slurm trial_figures transfer_runs figures testbed_contract hybrid workflow_fabric_replays dissect_matches_tshark
collect_local flowreport_figures workflow_replays reproduce replay_network verify workflow_stops quarantine
fabric_dpdk process workflow_fabric_own_slice flowreports fabric_collect cache tutorial release compiled demo
monitor_search traffic_selection transfer_fabric_restore workflow_edited_code workflow_fabric_faults trials
workflow_fabric_node_digest replay_command dpdk_ends report workflow_batches
"""
# Failed assertions of helper modules print both sides, as those of test modules do.
if "acapella_testing" not in sys.modules:
    pytest.register_assert_rewrite("acapella_testing")

import acapella_testing.hypothesis_profile  # noqa: E402 (takes effect when it is imported)
import acapella_testing.without_sync  # noqa: E402, F401 (takes effect when it is imported)
from acapella_testing import soak  # noqa: E402


def pytest_configure(config):
    """Register the selection of long tests; restore SIGINT if the tests run as a background job of a shell."""
    soak.register(config)


def pytest_collection():
    """Search for unreachable objects only after the collection, which creates millions of objects that remain."""
    gc.disable()


def pytest_collection_finish():
    """Exclude the objects of the collection from all later searches."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    """Let the interpreter release all objects when it exits; otherwise nanobind reports those of the core as leaked.

    Before this, pytest has searched for unreachable objects among those of the tests.
    """
    gc.unfreeze()


def pytest_collection_modifyitems(items):
    """Move the tests of long files to the beginning; mix the other files.

    In the order of directories, the tests of capture, which mostly wait, would be at the end and leave processors idle.
    """
    items.sort(key=lambda item: (rank(item.path.name), zlib.crc32(item.path.name.encode())))


def rank(name: str) -> int:
    """Return the index of a file in LONG, or a larger number if it is not there."""
    long, name = LONG.split(), name.removeprefix("test_").removesuffix(".py")
    return long.index(name) if name in long else len(long)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the directory of public captures next to the project; skip the test with a reason if it is missing."""
    directory = Path(os.environ.get("ACAPELLA_CORPUS", ROOT.parent / "shared" / "corpus"))
    if not directory.is_dir():
        pytest.skip(f"no corpus: {directory} is not there (set ACAPELLA_CORPUS)")
    return directory


@pytest.fixture(scope="session")
def program():
    """Return the installed tshark; skip the test with a reason if there is none."""
    from acapella.common import tshark  # noqa: PLC0415 (only if a test asks for it)

    try:
        return tshark.find()
    except tshark.UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def program_with_vendors(program):
    """Return tshark. Skip the test unless its list of vendors is in a file."""
    from acapella_testing.requirements import require  # noqa: PLC0415 (only if a test asks for it)

    from acapella.common import vendors  # noqa: PLC0415

    require(vendors.find(program) is not None, f"tshark {program.version} has no list of vendors in a file")
    return program


@pytest.fixture
def capture(tmp_path) -> Path:
    """Write a capture with every kind of frame of a busy port."""
    from acapella_testing.frames.traces import busy_port, write_pcap  # noqa: PLC0415 (scapy is slow to import)

    return write_pcap(tmp_path / "port.pcap", busy_port())


def made_once(tmp_path_factory, name: str, create: Callable[[Path], object]) -> Path:
    """Return a directory that the first worker to request it creates and all workers share. Nothing may change it."""
    base = tmp_path_factory.getbasetemp()
    # As deep as tmp_path: the relative paths of the SQL files are the same in a copy.
    directory = (base.parent / "shared" if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    directory.parent.mkdir(exist_ok=True)
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = directory.with_suffix(".done")
        if not done.exists():
            shutil.rmtree(directory, ignore_errors=True)
            create(directory)
            done.touch()
    return directory


@pytest.fixture(scope="session")
def campaign(tmp_path_factory) -> Path:
    """Return a generated campaign of 3 sites with 2 ports and 4 samples each, with its tables. Tests only read it.

    Each worker has a copy, because some tests replace a file for a moment.
    """
    from acapella_testing.generated.synthetic import make_campaign  # noqa: PLC0415
    from acapella_testing.runs.stages import analyze_campaign  # noqa: PLC0415 (only if a test requests it)

    def create(directory: Path) -> None:
        analyze_campaign(make_campaign(directory / "made_up", frames=300, flows=120))

    copy = tmp_path_factory.mktemp("campaign")
    return shutil.copytree(made_once(tmp_path_factory, "generated", create), copy, dirs_exist_ok=True) / "made_up"


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return the tiny campaign after a complete run on one core.

    Not even a dry run starts in it, because another worker may be copying it.
    """
    from acapella_testing.runs.workflow_run import Workplace, workplace  # noqa: PLC0415 (only if a test requests it)

    return Workplace(made_once(tmp_path_factory, "finished", lambda path: workplace(path).succeed("--cores", "1")))


@pytest.fixture(scope="session")
def unrecorded_release(finished, tmp_path_factory) -> Path:
    """Return a release of the finished campaign without results. Nothing may change it."""
    from acapella_testing.generated.files_campaign import run  # noqa: PLC0415 (only if a test requests it)
    from acapella_testing.release_records import write_key  # noqa: PLC0415

    def create(directory: Path) -> None:
        directory.mkdir()
        run("release", finished.campaign, "-o", directory / "public", "--key-file", write_key(directory / "key"))

    return made_once(tmp_path_factory, "released", create) / "public"


@pytest.fixture(scope="session")
def recorded(unrecorded_release, tmp_path_factory) -> Path:
    """Return a directory with a release that contains results (public), and the workplace that created them (place)."""
    from acapella_testing.runs.workflow_run import Workplace  # noqa: PLC0415 (only if a test requests it)

    def create(directory: Path) -> None:
        release = shutil.copytree(unrecorded_release, directory / "public")
        (directory / "place").mkdir()
        place = Workplace(directory / "place", {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"})
        place.succeed("--cores", "2", "record", "--config", f"reproduce={release}")

    return made_once(tmp_path_factory, "recorded", create)


@pytest.fixture(scope="session")
def recorded_release(recorded) -> Path:
    """Return a release with results. Nothing may change it."""
    return recorded / "public"


@pytest.fixture
def again(finished, tmp_path_factory):
    """Return a copy of the finished campaign for tests that modify it."""
    return finished.copy(tmp_path_factory.mktemp("again"))


@pytest.fixture(scope="module")
def browser():
    """Provide a headless Chromium that sends no requests itself; skip the test with a reason if there is none.

    It exists for one module: while it exists, its thread has a running event loop, and asyncio allows only one.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (only if a test requests it)

    if not CHROMIUM.is_file():
        pytest.skip(f"no Chromium: {CHROMIUM} is not there (Debian package chromium)")
    flags = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
    flags += ("disable-component-update", "disable-sync")
    with sync_playwright() as driver:
        words = [f"--{flag}" for flag in flags]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=words, timeout=TIMEOUT_MS)
        new_page = chromium.new_page

        def page_with_timeout():
            page = new_page()
            page.set_default_timeout(TIMEOUT_MS)
            return page

        chromium.new_page = page_with_timeout
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def old_client(tmp_path_factory):
    """Return an environment in which Python imports DuckDB 1.0.0, the oldest version that opens a catalog."""

    def install(directory: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target"]
        command += [str(directory), "duckdb==1.0.0"]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode:
            pytest.skip(f"duckdb 1.0.0 cannot be installed from PyPI: {installed.stderr.strip().splitlines()[-1:]}")

    return os.environ | {"PYTHONPATH": str(made_once(tmp_path_factory, "duckdb-1.0.0", install))}
