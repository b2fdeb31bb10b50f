"""`make setup PACKAGES=no` in an environment such as FABRIC's JupyterHub, and its parts."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from acapella_testing import hub
from acapella_testing.hub import MIB
from acapella_testing.processes import executable, run
from acapella_testing.requirements import require, skip_if
from acapella_testing.source_tree import ROOT

SETUP = ROOT / "workflow" / "setup"
SMALL = ROOT / "workflow" / "requirements-small.lock"
HOME_BYTES = 1024 * MIB
LARGEST_BYTES = 600 * MIB
MEMORY_BYTES = 900 * MIB  # a hub has 1 GiB, of which its own server uses some
DIGEST = """
cd acapella
.venv/bin/acapella digest --engine native .test/captures/alpha-p2.pcap.gz -o a.parquet
.venv/bin/acapella show a.parquet | head -n 1
for program in tshark cmake ninja pkg-config; do command -v "$program" || echo "no $program"; done
"""
CAMPAIGN = """
cd acapella/.test
../.venv/bin/snakemake --snakefile ../Snakefile --cores 2 --quiet rules --config digest='{engine: native}'
ls results/*/report.html results/*/figures/frame_sizes.svg
"""


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 8), ("max", 8), (1 << 30, 1), (512 << 20, 1), (4 << 30, 4), (2**63 - 4096, 8)]
)
@pytest.mark.parametrize("file", ["memory.max", "memory/memory.limit_in_bytes"])
def test_memory_limits_the_number_of_compilers(file, limit, expected, tmp_path):
    groups = tmp_path / "cgroup"
    if limit is not None:
        (groups / file).parent.mkdir(parents=True)
        (groups / file).write_text(f"{limit}\n")
    executable(tmp_path / "bin" / "nproc", "#!/bin/sh\necho 8\n")
    executable(tmp_path / "bin" / "awk", f"#!/bin/sh\nprintf {24 << 30}\n")  # the memory of the machine
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    assert int(run(SETUP / "compile-jobs", groups, env=environment, check=True).stdout) == expected


def test_setup_without_packages_installs_no_tests_and_removes_build_tools():
    options = ("-C", ROOT, "--dry-run", "--always-make", "PACKAGES=no")
    small = run("make", *options, "setup", check=True).stdout
    assert "--require-hashes -r workflow/requirements-small.lock" in small
    assert "requirements-dev" not in small and "requirements.lock" not in small
    assert "workflow/setup/debian-packages" not in small
    tools = small.index("workflow/setup/build-tools .venv/bin/python build/tools")
    assert re.search(r" CMAKE_BUILD_PARALLEL_LEVEL=[1-9]\d* workflow/setup/with-progress", small)
    assert tools < small.index("with-progress build/native.log") < small.index("rm -rf build/tools")
    full = run("make", "-C", ROOT, "--dry-run", "--always-make", "setup", check=True).stdout
    assert "-r workflow/requirements.lock" in full and "build/tools" not in full


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
    sizes = {name: size(name) for name in {line.split("==")[0] for line in versions(SMALL.name)}}
    assert 300 * MIB < sum(sizes.values()) < 560 * MIB, sizes


def test_unused_files_of_packages_are_removed(tmp_path):
    own = {"x86_64": "linux/i64", "aarch64": "linux/arm64"}.get(platform.machine())
    require(own is not None, f"PuLP has no solver for {platform.machine()}")
    solvers = {f"pulp/solverdir/cbc/{name}/cbc" for name in (own, "linux/i32", "osx/i64", "win/i64")}
    unused = {"numpy/lib/tests/a.py", "pyarrow/tests/b/c.py", *(solvers - {f"pulp/solverdir/cbc/{own}/cbc"})}
    unused |= {f"selenium/webdriver/common/{name}/selenium-manager" for name in ("macos", "windows")}
    kept = {
        "selenium/webdriver/common/linux/selenium-manager",
        "numpy/tests.py",
        "numpy/testing/d.py",
        "acapella/tests/e.py",
        f"pulp/solverdir/cbc/{own}/cbc",
    }
    for name in unused | kept:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    run(SETUP / "prune", tmp_path, check=True)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == kept


def test_programs_of_a_package_do_not_need_the_removed_files():
    """PuLP names its solver by the machine; the name has to be that which `prune` keeps."""
    from pulp.apis.coin_api import PULP_CBC_CMD  # noqa: PLC0415 (slow)

    own = {"x86_64": "i64", "aarch64": "arm64"}.get(platform.machine())
    require(own is not None, f"PuLP has no solver for {platform.machine()}")
    assert f"/linux/{own}/" in PULP_CBC_CMD.pulp_cbc_path


@pytest.mark.skipif("ACAPELLA_SOAK" not in os.environ, reason="takes ten minutes: make soak")
def test_setup_fits_into_a_hub_and_ends_with_a_digest(tmp_path, capsys):
    skip_if(hub.why_not())
    with hub.hub(tmp_path, home_bytes=HOME_BYTES) as place:
        setup = place.run("make", "-C", "acapella", "PACKAGES=no", "setup", limit_bytes=MEMORY_BYTES)
        assert (setup.status, setup.killed) == (0, 0), setup.output
        used = place.used_bytes()
        digest = place.run("sh", "-euc", DIGEST, limit_bytes=MEMORY_BYTES)
        campaign = place.run("sh", "-euc", CAMPAIGN, limit_bytes=MEMORY_BYTES)
    with capsys.disabled():
        print(f"\nhub: {used / MIB:.0f} MiB in the home directory after make setup PACKAGES=no")
        print(f"hub: {setup.peak_bytes / MIB:.0f} MiB of memory at most, of {MEMORY_BYTES // MIB}, without page cache")
        print(f"hub: {campaign.peak_bytes / MIB:.0f} MiB at most during a campaign with figures and report")
    assert (digest.status, digest.killed) == (0, 0), digest.output
    assert (campaign.status, campaign.killed) == (0, 0), campaign.output
    assert "10.0.0.1 → 10.0.0.2 TCP" in digest.output
    assert [line for line in digest.output.splitlines() if line.startswith("no ")] == [
        f"no {program}" for program in ("tshark", "cmake", "ninja", "pkg-config")
    ]
    assert used < LARGEST_BYTES and setup.peak_bytes < MEMORY_BYTES
