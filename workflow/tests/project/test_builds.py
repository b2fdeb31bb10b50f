"""Checks that programs and libraries are hardened, and that two builds of the wheels have the same bytes."""

import hashlib
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require, require_programs
from acapella_testing.soak import takes_minutes
from acapella_testing.source_tree import ROOT, build_wheels, copy_sources

from acapella_core import _native

BIN = ROOT / ".venv" / "bin"
PROGRAMS = ("anonymize", "digest", "dpdk-capture", "dpdk-generate", "dpdk-replay", "link", "monitor", "p4-run")


def readelf(option: str, path: Path) -> str:
    """Return the output of readelf for a file."""
    return run("readelf", "-W", option, path, check=True).stdout


def missing_protections(path: Path) -> set[str]:
    """Return the protections that a program or library lacks."""
    segments = [line.split() for line in readelf("--segments", path).splitlines()]
    dynamic, symbols, content = readelf("--dynamic", path), readelf("--dyn-syms", path), path.read_bytes()
    static = "NEEDED" not in dynamic  # its libc functions have no symbols
    (stack,) = (words for words in segments if words[:1] == ["GNU_STACK"])
    found = {
        "position independent": "Type:                              DYN" in readelf("--file-header", path),
        "RELRO": any(words[:1] == ["GNU_RELRO"] for words in segments),
        "BIND_NOW": "BIND_NOW" in dynamic or " NOW" in dynamic,
        "stack not executable": "E" not in stack[6],
        "stack protector": b"stack smashing detected" in content if static else "__stack_chk_fail" in symbols,
        "_FORTIFY_SOURCE": b"buffer overflow detected" in content if static else "_chk@GLIBC" in symbols,
    }
    return {name for name, holds in found.items() if not holds}


@pytest.mark.parametrize(
    "path", [Path(_native.__file__), *(BIN / f"acapella-{name}" for name in PROGRAMS)], ids=lambda path: path.name
)
def test_programs_built_by_setup_are_hardened(path):
    require(path.is_file(), f"{path.name} is not built here")
    assert missing_protections(path) == set()


def test_program_without_protection_is_detected(tmp_path):
    """Check a program that is compiled without any protection."""
    require_programs("gcc")
    source = write_file(tmp_path / "a.c", '#include <stdio.h>\nint main(void) { return puts("a") < 0; }\n')
    flags = ["-no-pie", "-fno-pie", "-fno-stack-protector", "-Wl,-z,norelro", "-Wl,-z,lazy", "-Wl,-z,execstack"]
    run("gcc", *flags, "-o", tmp_path / "a", source, check=True)
    assert len(missing_protections(tmp_path / "a")) == 6


def wheels(directory: Path, age_s: int) -> dict[str, str]:
    """Build the wheels in a copy of the tree whose sources are ``age_s`` older. Return their SHA-256."""
    copy_sources(directory, age_s=age_s)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in build_wheels(directory)}


def test_wheels_have_the_date_of_the_last_commit(monkeypatch):
    """Check the commands that `make dist` would run."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    expected = run("git", "log", "-1", "--format=%ct", cwd=ROOT).stdout.strip() or "315532800"
    printed = run("make", "-n", "dist", f"VENV={BIN.parent}", cwd=ROOT, check=True).stdout
    assert f"SOURCE_DATE_EPOCH={expected} " in printed


@takes_minutes
def test_two_builds_of_the_wheels_are_byte_identical(tmp_path):
    first, second = (wheels(tmp_path / name, age_s) for name, age_s in (("a", 0), ("another-directory", 86_400)))
    assert len(first) == 3
    assert first == second
