"""Tests of the Makefile and its scripts that install nothing."""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable, run
from acapella_testing.source_tree import ROOT
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from jsonschema import Draft7Validator
from rfc3986_validator import validate_rfc3986

SCRIPT = ROOT / "workflow" / "setup" / "debian-packages"
LIST = SCRIPT.with_suffix(".txt")
SBOM = SCRIPT.with_name("sbom.py")
NODE_PROGRAMS = ("acapella-anonymize", "acapella-digest", "acapella-dpdk-replay-static")
DEVELOPMENT = ROOT / "workflow" / "requirements-dev.lock"


def program(directory: Path, name: str, text: str) -> Path:
    """Create a stand-in for a program, first on the PATH; return its path."""
    return executable(directory / name, f"#!/bin/sh\n{text}\n")


def packages(purpose: str) -> list[str]:
    """Return the Debian packages of a purpose."""
    return re.findall(rf"^([^#\s]\S*) +{purpose} ", LIST.read_text(), re.M)


def make(*words: object) -> str:
    """Return the output of a make in the project, which has to succeed."""
    return run("make", "-C", ROOT, *words, check=True).stdout


def install(tmp_path: Path, user: int, installed: list[str], *purposes: str) -> subprocess.CompletedProcess:
    """Run debian-packages on a machine that has `installed`; apt-get only records its arguments."""
    program(tmp_path, "id", f"echo {user}")
    program(tmp_path, "dpkg-query", "\n".join(f"echo {name} installed" for name in installed))
    program(tmp_path, "apt-get", f'echo "$@" >> {tmp_path}/apt-get.log')
    return run(SCRIPT, *purposes, env=os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"})


def test_reproduce_checks_the_release_before_any_setup(tmp_path):
    ended = run("make", "-C", ROOT, "reproduce", f"DATA={tmp_path}", f"VENV={tmp_path / 'new'}")
    assert ended.returncode == 2
    assert not (tmp_path / "new").exists()
    first, other = ended.stderr.splitlines()
    assert first == f"reproduce: {tmp_path}: not a release (no SHA256SUMS); correct DATA"
    assert re.match(r"make(\[\d+\])?: \*\*\*", other), "of make itself"


def test_missing_package_without_root_prints_the_command_and_fails(tmp_path):
    ended = install(tmp_path, 1000, [name for name in packages("run") if name not in ("tshark", "cmake")], "run")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "sudo apt-get install --no-install-recommends -y cmake tshark"
    assert not (tmp_path / "apt-get.log").exists()


def test_nothing_is_printed_without_root_if_no_package_is_missing(tmp_path):
    ended = install(tmp_path, 1000, packages("run"), "run")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_setup_does_not_require_packages_for_tests(tmp_path):
    assert install(tmp_path, 1000, packages("run"), "run").returncode == 0
    ended = install(tmp_path, 1000, packages("run"), "run", "test", "lint")
    assert ended.returncode == 1
    assert "clang-format-14" in ended.stderr
    assert "chromium" in ended.stderr


def test_package_listed_with_an_architecture_counts_as_installed(tmp_path):
    assert install(tmp_path, 1000, [f"{name}:amd64" for name in packages("run")], "run").returncode == 0


def test_listed_packages_have_purpose_and_reason():
    for line in LIST.read_text().splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r"\S+ +(run|test|lint|bench) +\S.*", line), line


def test_too_old_python_is_rejected_in_one_line(tmp_path):
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    lie = """-c "import sys; sys.version_info = (3, 9, 2, 'final', 0); exec(sys.argv[1])" "$2\""""
    script = f'case "$1" in --version) echo "Python 3.9.2";; *) exec {shutil.which("python3")} {lie};; esac'
    old = program(tmp_path / "old", "python3.9", script)
    ended = run("make", "-C", tmp_path, f"PYTHON={old}", "-o", "packages", ".venv/bin/python")
    assert ended.returncode != 0
    assert "setup: Python 3.11 or later is needed" in ended.stderr
    assert "is 3.9" in ended.stderr
    assert not (tmp_path / ".venv").exists()


def test_environment_of_another_user_is_rejected_in_one_line():
    """Root runs make as a different user; for other users, a directory without write permission suffices."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copyfile(ROOT / "Makefile", f"{name}/Makefile")
        Path(name, ".venv").mkdir(mode=0o555)
        Path(name).chmod(0o777)
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        ended = run(*other, "make", "-C", name, "PACKAGES=no", "setup")
    assert ended.returncode != 0
    printed = [line for line in ended.stderr.splitlines() if not line.startswith("make")]
    owner = pwd.getpwuid(os.geteuid()).pw_name
    assert printed == [f"setup: {name}/.venv belongs to {owner}; clone the project for yourself"]


def test_setup_announces_its_long_step():
    assert "this takes a few minutes the first time" in make(
        "--dry-run", "-W", "workflow/requirements.lock", ".venv/stamps/packages"
    )


def with_progress(tmp_path, script: str, **environment) -> subprocess.CompletedProcess:
    """Run ``script`` as a build by with-progress."""
    command = [SCRIPT.with_name("with-progress"), tmp_path / "logs" / "build.log", "sh", "-c", script]
    return run(*command, env=os.environ | environment)


def test_build_prints_progress_and_logs_all_output(tmp_path):
    lines = ("[0/2] Re-checking globbed directories...", "[1/3] Building CXX object core.dir/src/flow/table.cpp.o")
    ninja = "".join(f"echo '  {line}'\n" for line in (*lines, "[2/3] Linking CXX static library libcore.a"))
    ended = with_progress(tmp_path, ninja, PROGRESS_S="0")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["setup: 1 of 3, table.cpp", "setup: 2 of 3, libcore.a"]
    assert "Re-checking globbed" in (tmp_path / "logs" / "build.log").read_text()


def test_build_without_work_prints_nothing(tmp_path):
    ended = with_progress(tmp_path, "echo 'ninja: no work to do.'", PROGRESS_S="0")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_failed_build_prints_the_compiler_error_and_the_path_of_its_log(tmp_path):
    ended = with_progress(tmp_path, "echo 'a.cpp:1:1: error: no'; seq 30; exit 3")
    assert (ended.returncode, ended.stdout) == (3, "")
    lines = ended.stderr.splitlines()
    assert lines[0] == "a.cpp:1:1: error: no"
    assert f"{tmp_path / 'logs' / 'build.log'} contains its output" in ended.stderr
    assert lines[-1] == "30"


def test_setup_builds_the_native_core_with_progress():
    assert re.search(
        r"with-progress build/native\.log .*pip install .*--verbose",
        make("--dry-run", "-W", "workflow/native/pyproject.toml", ".venv/stamps/native"),
    )


def tree_with_node_programs(directory: Path) -> Path:
    """Return a tree with the project's Makefile, in which programs for nodes were built by an earlier version."""
    for name in ("Makefile", "capture", "meson.build", "p4", "schemas", "workflow"):
        (directory / name).symlink_to(ROOT / name)
    write_file(directory / "build" / "native" / "tag" / "libcore.a", "")
    for name in NODE_PROGRAMS:
        os.utime(program(directory / ".venv" / "bin", name, "true"), (0, 0))
    return directory


@pytest.mark.parametrize("name", ["acapella-anonymize", "acapella-digest"])
def test_program_for_nodes_that_cannot_be_built_is_removed(name, tmp_path):
    tree, source = tree_with_node_programs(tmp_path), f"workflow/native/programs/{name.removeprefix('acapella-')}.cpp"
    ended = run("make", "-C", tree, "CXX=false", "-o", ".venv/stamps/native", "-W", source, f".venv/bin/{name}")
    assert ended.returncode == 0, ended.stderr
    assert f"setup: {name} is not built" in ended.stdout
    assert not (tree / ".venv" / "bin" / name).exists()


def test_setup_rebuilds_existing_programs_for_nodes(tmp_path):
    words = ("make", "-C", tree := tree_with_node_programs(tmp_path), "--dry-run", "PACKAGES=no", "setup")
    shown = run(*words, check=True).stdout
    assert [name for name in NODE_PROGRAMS if f"setup: {name}, for captures" in shown] == list(NODE_PROGRAMS)
    (tree / ".venv" / "bin" / "acapella-digest").unlink()
    assert "setup: acapella-digest" not in run(*words, check=True).stdout


@pytest.mark.parametrize(("words", "jobs"), [(("PACKAGES=no", "CORES=3"), "3"), ((), "auto")])
def test_programs_for_nodes_are_linked_by_as_many_compilers_as_memory_allows(tmp_path, words, jobs):
    shown = run("make", "-C", tree_with_node_programs(tmp_path), "--dry-run", *words, "setup", check=True).stdout
    assert set(re.findall(r"-flto=(\w+)", shown)) == {jobs}


@pytest.mark.parametrize(("environment", "jobs"), [({"CMAKE_BUILD_PARALLEL_LEVEL": "3"}, "3"), ({}, "auto")])
def test_core_is_linked_by_as_many_compilers_as_memory_allows(tmp_path, environment, jobs):
    words = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_COMPILER=g++", "-DACAPELLA_BINDINGS=OFF")
    base = {key: value for key, value in os.environ.items() if key != "CMAKE_BUILD_PARALLEL_LEVEL"}
    run("cmake", "-S", ROOT / "workflow" / "native", "-B", tmp_path, *words, f"-DPython_EXECUTABLE={sys.executable}",
        env=base | environment, check=True)  # fmt: skip
    assert set(re.findall(r"-flto=(\w+)", (tmp_path / "compile_commands.json").read_text())) == {jobs}


def test_help_names_every_target_for_people():
    targets = {"demo", "test", "setup", "lint", "format", "bench", "fuzz", "lock", "sbom", "clean", "help"}
    assert targets <= set(re.findall(r"\w+", make("help")))


LOCKS = [
    ROOT / "workflow" / "requirements.lock",
    ROOT / "capture" / "requirements-fabric.lock",
    ROOT / "workflow" / "requirements-storage.lock",
]
PIN = r"^([a-z0-9._-]+)(?:\[.*\])?==(\S+)"


def is_uri_reference(value: object) -> bool:
    """Return whether a string is a URI reference, which is stricter than an IRI reference (RFC 3987 section 2)."""
    return not isinstance(value, str) or bool(validate_rfc3986(value, rule="URI_reference"))


def test_bill_of_materials_has_every_pin_with_hashes_and_dependencies():
    created, again = (run(sys.executable, SBOM, check=True).stdout for _ in "ab")
    assert created == again
    bill = json.loads(created)
    schema = JsonStrictValidator(SchemaVersion.V1_6)  # CycloneDX's own, which the library contains
    Draft7Validator.FORMAT_CHECKER.checks("iri-reference")(is_uri_reference)
    assert schema.validate_str(created) is None
    small = bill | {"components": bill["components"][:1], "dependencies": []}
    assert schema.validate_str(json.dumps(small)) is None
    no_uri = [{"type": "website", "url": "https://example.com/a b"}]
    invalid = {
        "serialNumber": "urn:uuid:1",
        "components": [{"type": "library"}],
        "externalReferences": no_uri,
        "more": 1,
    }
    for key, value in invalid.items():
        assert schema.validate_str(json.dumps(small | {key: value})) is not None, key
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    text, components = "".join(map(Path.read_text, LOCKS)), {each["purl"]: each for each in bill["components"]}
    assert len(components) == len(bill["components"])
    found = [each for each in components if each.startswith("pkg:pypi/")]
    pins = set(re.findall(PIN, text, re.M))
    assert set(found) == {f"pkg:pypi/{name}@{version}" for name, version in pins}
    assert {
        checksum["content"] for each in found for checksum in components[each]["externalReferences"][0]["hashes"]
    } == set(re.findall(r"--hash=sha256:(\w+)", text))
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    references = {each["bom-ref"] for each in bill["components"]} | {"acapella"}
    assert references >= set(needs) | {reference for required in needs.values() for reference in required}
    (jinja,) = (reference for reference in needs if reference.startswith("pkg:pypi/jinja2@"))
    assert needs[jinja] == [f"pkg:pypi/markupsafe@{dict(pins)['markupsafe']}"]


def test_setup_installs_no_tests_or_linters():
    runtime, development = (set(re.findall(PIN, path.read_text(), re.M)) for path in (LOCKS[0], DEVELOPMENT))
    named = set(re.findall(r"^[a-z0-9-]+", DEVELOPMENT.with_suffix(".in").read_text(), re.M))
    assert {"pytest", "ruff", "hypothesis"} <= named <= dict(development).keys()
    assert not named & dict(runtime).keys()
    common = dict(runtime).keys() & dict(development).keys()
    assert common
    assert {pin for pin in development if pin[0] in common} <= runtime, "one version of each"
    shown = [make("--dry-run", "-W", DEVELOPMENT.relative_to(ROOT), target) for target in ("setup", "lint")]
    assert [f"-r workflow/{DEVELOPMENT.name}" in text for text in shown] == [False, True]


@pytest.mark.parametrize("target", ["clean", "lock"])
def test_make_removes_and_resolves_only_inside_the_project(target):
    assert not re.search(r"rm -rf +/|index-url +\S*:", make("--dry-run", target))
