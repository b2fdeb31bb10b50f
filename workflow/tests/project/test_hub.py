"""`make setup PACKAGES=no` in an environment such as FABRIC's JupyterHub, and its parts."""

import importlib
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from acapella_testing.capture import veth
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable, run, running
from acapella_testing.requirements import require, skip_if
from acapella_testing.runs import hub
from acapella_testing.runs.hub import MIB
from acapella_testing.soak import takes_minutes
from acapella_testing.source_tree import ROOT

SETUP = ROOT / "workflow" / "setup"
HOME_BYTES = 1024 * MIB
LARGEST_BYTES = 600 * MIB
MEMORY_BYTES = 900 * MIB  # a hub has 1 GiB, of which its own server uses some
DIGEST = """
cd acapella
.venv/bin/acapella digest --engine native .test/captures/alpha-p2.pcap.gz -o a.parquet
.venv/bin/acapella show a.parquet | head -n 1
for program in tshark cmake ninja pkg-config; do command -v "$program" || echo "no $program"; done
"""
# Root installs FABRIC's client for Python, as in the image of the hub; later, the image has no client.
INSTALL_CLIENT = """
python3 -m venv /opt/pip
/opt/pip/bin/pip --python /usr/bin/python3 install --quiet --disable-pip-version-check --no-cache-dir \\
    --root-user-action ignore --break-system-packages --require-hashes -r acapella/capture/requirements-fabric.lock
"""
REMOVE_CLIENT = "rm -rf /usr/local/lib/python3*/dist-packages"
SETUP_FABRIC = ("make", "-C", "acapella", "PACKAGES=no", "setup-fabric")
PLAN = """
cd acapella
.venv/bin/python -c 'import fabrictestbed_extensions.fablib.fablib; print("client works")'
.venv/bin/acapella collect results/x --config config/fabric.yaml --dry-run
.venv/bin/acapella-digest || echo "status $?"
"""
CAMPAIGN = """
cd acapella/.test
../.venv/bin/snakemake --snakefile ../Snakefile --cores 2 --quiet rules --config digest='{engine: native}'
ls results/*/report.html results/*/figures/frame_sizes.svg
"""

# Files of Python packages that no part of the project uses, and similar files that it does.
UNUSED = """
numpy/lib/tests/a.py numpy/f2py/a.py numpy/_core/_simd.abi3.so numpy/distutils/a.py numpy/_core/include/a.h
selenium/webdriver/common/linux/selenium-manager selenium/webdriver/common/macos/selenium-manager
selenium/webdriver/common/windows/selenium-manager selenium/webdriver/common/devtools/v120/a.py
matplotlib/mpl-data/fonts/afm/a.afm matplotlib/mpl-data/fonts/pdfcorefonts/a.afm PIL/_avif.abi3.so
pyarrow/tests/b/c.py pyarrow/libarrow_flight.so.2600 pyarrow/_flight.cpython-311.so pyarrow/include/arrow/a.h
pyarrow/libarrow_s3.so.2600 pyarrow/libarrow_python.so pyarrow/libarrow_python.so.2600.1.0 pandas/_libs/a.pyx
pyarrow/_pyarrow_cpp_tests.cpython-311.so pillow.libs/libavif-1.so jedi/third_party/a.pyi fontTools/misc/a.c
pip/__pycache__/a.pyc sqlalchemy/testing/a.py
"""
KEPT = """
pyarrow/libarrow_python.so.2600 pyarrow/libarrow.so.2600 fontTools/misc/a.py numpy/tests.py numpy/testing/d.py
selenium/webdriver/common/by.py matplotlib/mpl-data/fonts/ttf/a.ttf acapella/tests/e.py
"""


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 8), ("max", 8), (1 << 30, 1), (512 << 20, 1), (4 << 30, 4), (2**63 - 4096, 8)]
)
@pytest.mark.parametrize("file", ["memory.max", "memory/memory.limit_in_bytes"])
def test_memory_limits_the_number_of_compilers(file, limit, expected, tmp_path):
    if limit is not None:
        write_file(tmp_path / "cgroup" / file, f"{limit}\n")
    executable(tmp_path / "bin" / "nproc", "#!/bin/sh\necho 8\n")
    executable(tmp_path / "bin" / "awk", f"#!/bin/sh\nprintf {24 << 30}\n")  # the memory of the machine
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    assert int(run(SETUP / "compile-jobs", tmp_path / "cgroup", env=environment, check=True).stdout) == expected


def test_setup_without_packages_installs_no_tests_and_removes_build_tools():
    command = ("make", "-C", ROOT, "--dry-run", "--always-make")
    small, full = (run(*command, *words, check=True).stdout for words in (("PACKAGES=no", "setup"), ("setup",)))
    assert "--require-hashes -r workflow/requirements-small.lock" in small
    assert "requirements-dev" not in small
    assert "requirements.lock" not in small
    assert "workflow/setup/debian-packages" not in small
    tools = small.index("workflow/setup/build-tools .venv/bin/python build/tools")
    assert re.search(r" CMAKE_BUILD_PARALLEL_LEVEL=[1-9]\d* workflow/setup/with-progress", small)
    assert tools < small.index("with-progress build/native.log") < small.index("rm -rf build/tools")
    assert "-r workflow/requirements.lock" in full
    assert "build/tools" not in full


def versions(lock: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==\S+", (ROOT / "workflow" / lock).read_text(), re.MULTILINE))


def test_small_and_build_requirements_are_part_of_the_full_ones():
    small, build, full = (versions(f"requirements{name}.lock") for name in ("-small", "-build", ""))
    assert small | build < full
    assert {name.split("==")[0] for name in full - small - build} >= {"pandas", "snakemake-executor-plugin-slurm"}
    assert {name.split("==")[0] for name in build} == {"cmake", "meson", "ninja"}


def size(name: str) -> int:
    """Return the size of the files of a Python package, 0 if it is for another system."""
    try:
        paths = [Path(file.locate()) for file in distribution(name).files]
    except PackageNotFoundError:
        return 0
    return sum(path.stat().st_blocks * 512 for path in set(paths) if path.is_file())


def test_small_requirements_leave_space_for_the_core_and_the_sources():
    sizes = {name: size(name) for name in {line.split("==")[0] for line in versions("requirements-small.lock")}}
    assert 300 * MIB < sum(sizes.values()) < 560 * MIB, sizes


def name_of_solver() -> str:
    """Return PuLP's name for this machine; skip the test if PuLP has no solver for the machine."""
    name = {"x86_64": "i64", "aarch64": "arm64"}.get(platform.machine())
    require(name, f"PuLP has no solver for {platform.machine()}")
    return name


def test_unused_files_of_packages_are_removed(tmp_path):
    kept = {*KEPT.split(), f"pulp/solverdir/cbc/linux/{name_of_solver()}/cbc"}
    solvers = {f"pulp/solverdir/cbc/{name}/cbc" for name in ("linux/i32", "linux/i64", "osx/i64", "win/i64")}
    for name in {*UNUSED.split(), *solvers} | kept:
        write_file(tmp_path / name, Path("/bin/true").read_bytes() if ".so" in name else b"")  # which `strip` accepts
    run(SETUP / "prune", tmp_path, check=True)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == kept


def test_kept_solver_of_pulp_is_the_one_for_this_machine():
    """PuLP names its solver after the machine; `prune` must keep this name."""
    from pulp.apis.coin_api import PULP_CBC_CMD  # noqa: PLC0415 (slow)

    assert f"/linux/{name_of_solver()}/" in PULP_CBC_CMD.pulp_cbc_path


@pytest.fixture
def hub_client(monkeypatch):
    monkeypatch.syspath_prepend(SETUP)
    return importlib.import_module("hub_client")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ("exit 3", "does not run"),
        ("echo '[null, []]'", "has none, version 2.0.9 is needed"),
        ("""echo '["1.7.0", ["/opt"]]'""", "has version 1.7.0, version 2.0.9 is needed"),
    ],
)
def test_client_of_a_different_version_is_not_used(found, reason, hub_client, tmp_path):
    base = executable(tmp_path / "python", f"#!/bin/sh\n{found}\n")
    assert hub_client.problem(str(base), "2.0.9", tmp_path / "a.pth") == f"{base} {reason}"
    assert not (tmp_path / "a.pth").exists()


@pytest.fixture
def client(tmp_path) -> None:
    """Write a Python that finds version 2.0.9 of FABRIC's client in the temporary directory."""
    executable(tmp_path / "python", f"""#!/bin/sh\necho '["2.0.9", ["{tmp_path}"]]'\n""")


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("check", "reason"), [("", None), ("import sys; sys.exit('numpy is missing')", "numpy is missing")]
)
def test_client_is_used_if_it_works_with_the_other_packages(check, reason, hub_client, tmp_path, monkeypatch):
    monkeypatch.setattr(hub_client, "CHECK", check)
    assert hub_client.problem(str(tmp_path / "python"), "2.0.9", tmp_path / "a.pth") == reason
    assert (tmp_path / "a.pth").read_text() == f"{tmp_path}\n"


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("fault", [subprocess.TimeoutExpired("python", 300), KeyboardInterrupt()])
def test_check_that_does_not_end_leaves_no_file(fault, hub_client, tmp_path, monkeypatch, capsys):
    lock, start = write_file(tmp_path / "a.lock", f"{hub_client.CLIENT}==2.0.9\n"), subprocess.run

    def fails_in_check(argv: list[str], **options: object) -> subprocess.CompletedProcess:
        if argv[0] == str(tmp_path / "python"):
            return start(argv, **options)
        assert (tmp_path / hub_client.PTH).exists()
        raise fault

    monkeypatch.setattr(subprocess, "run", fails_in_check)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "python"))
    if isinstance(fault, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            hub_client.main(str(lock))
    else:
        assert hub_client.main(str(lock)) == 1
        assert (
            capsys.readouterr().out
            == "setup: FABRIC's client of this machine is not used: the check took more than 300 s\n"
        )
    assert not (tmp_path / hub_client.PTH).exists()


@pytest.mark.soak
def test_check_accepts_the_client_of_the_lock_file(hub_client):
    pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")
    lock = ROOT / "capture" / "requirements-fabric.lock"
    assert hub_client.needed_version(lock) == distribution(hub_client.CLIENT).version
    assert run(sys.executable, "-c", hub_client.CHECK, check=True).stderr == ""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Provide a hub, shared by tests that take minutes."""
    skip_if(hub.why_not())
    with hub.hub(tmp_path_factory.mktemp("hub"), home_bytes=HOME_BYTES) as created:
        yield created


@takes_minutes
def test_setup_fits_into_a_hub_and_ends_with_a_digest(place, capsys):
    setup = place.run("make", "-C", "acapella", "PACKAGES=no", "setup", limit_bytes=MEMORY_BYTES)
    assert (setup.status, setup.killed) == (0, 0), setup.output
    used = place.used_bytes()
    digest, campaign = (place.run("sh", "-euc", each, limit_bytes=MEMORY_BYTES) for each in (DIGEST, CAMPAIGN))
    clients = {"of the hub": client_of_hub(place), "installed": client_of_venv(place)}
    lines = [f"{used / MIB:.0f} MiB in the home directory after make setup PACKAGES=no"]
    lines += [f"{setup.peak_bytes / MIB:.0f} MiB of memory at most, of {MEMORY_BYTES // MIB}, without page cache"]
    for name, (size, ended) in clients.items():
        lines += [f"{size / MIB:.0f} MiB after make setup-fabric, with the client {name}, a campaign included"]
        lines += [f"{ended.peak_bytes / MIB:.0f} MiB of memory at most"]
    lines += [f"{campaign.peak_bytes / MIB:.0f} MiB at most during a campaign with figures and report"]
    with capsys.disabled():
        print("", *(f"hub: {line}" for line in lines), sep="\n")
    assert (digest.status, digest.killed) == (0, 0), digest.output
    assert (campaign.status, campaign.killed) == (0, 0), campaign.output
    assert "10.0.0.1 → 10.0.0.2 TCP" in digest.output
    missing = [line for line in digest.output.splitlines() if line.startswith("no ")]
    assert missing == [f"no {program}" for program in ("tshark", "cmake", "ninja", "pkg-config")]
    assert used < LARGEST_BYTES
    assert setup.peak_bytes < MEMORY_BYTES
    assert max(size for size, _ in clients.values()) < LARGEST_BYTES


SEND = """
import socket, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("peer", 0))
while True:
    out.send(bytes.fromhex("02000000000102000000000288b5") + bytes(46))
    time.sleep(0.005)
"""


@takes_minutes
def test_hub_root_serves_as_a_node_without_a_build(place, tmp_path, capsys):
    """The agent runs with Debian's Python, tcpdump captures, and the uploaded program digests."""
    pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")
    from acapella_testing.fabric.collection_runs import ONE, collected  # noqa: PLC0415 (FABRIC's client)
    from acapella_testing.fabric.loopback import loopback_fabric  # noqa: PLC0415

    node = "UTAH-listener1"
    with loopback_fabric(tmp_path) as fabric, veth.namespace(("enp8s0", "peer"), ("enp9s0", "peer9")) as prefix:
        for name in ("python3", "tcpdump"):
            fabric.nodes.program(name).unlink()  # the programs of the root are used
        fabric.nodes.prefixes[node] = (*prefix, *place.as_node(fabric.nodes.directory))
        with running([*prefix, sys.executable, "-c", SEND]):
            status, campaign = collected(fabric, collect=ONE | {"digest_on": "node"}, sample_s=1)
        assert status == 0, capsys.readouterr().err
        (path,) = (campaign / "raw").glob("run1-*.json")
        manifest = json.loads(path.read_text())
        assert manifest["frames_captured"] > 20
        assert manifest["node_digest"]["engine"] == "native", manifest
        assert not fabric.orchestrator.alive()


def client_of_hub(place: hub.Hub) -> tuple[int, hub.Ended]:
    """Set up testbed fabric on a hub whose Python has the client; return the used bytes and the result."""
    installed = place.run("sh", "-euc", INSTALL_CLIENT, limit_bytes=2 * MEMORY_BYTES, user="0")
    assert installed.status == 0, installed.output
    return set_up_client(place, "setup: FABRIC's client 2.0.9 of /usr/bin/python3")


def client_of_venv(place: hub.Hub) -> tuple[int, hub.Ended]:
    """Set up testbed fabric again after the hub lost its client; return the used bytes and the result."""
    assert place.run("sh", "-euc", REMOVE_CLIENT, limit_bytes=MEMORY_BYTES, user="0").status == 0
    return set_up_client(place, "has none, version 2.0.9 is needed")


def set_up_client(place: hub.Hub, line: str) -> tuple[int, hub.Ended]:
    ended = place.run(*SETUP_FABRIC, limit_bytes=MEMORY_BYTES)
    assert (ended.status, ended.killed) == (0, 0), ended.output
    assert line in ended.output, ended.output
    used, plan = place.used_bytes(), place.run("sh", "-euc", PLAN, limit_bytes=MEMORY_BYTES)
    assert plan.status == 0
    assert "client works" in plan.output
    assert "status 2" in plan.output
    return used, ended
