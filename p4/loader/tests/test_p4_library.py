"""acapella-p4-run --generate and --library: one-line errors, and programs that are only interpreted."""

import subprocess

import pytest
from acapella_testing import processes
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require
from acapella_testing.runs import p4_loader
from acapella_testing.runs.p4_loader import FORWARD, compiled_pipeline, ethernet, frame, run

from acapella.p4 import compiled


@pytest.fixture(scope="module", autouse=True)
def _built():
    p4_loader.built_or_skip()


def generate_code(tmp_path, spec) -> subprocess.CompletedProcess:
    """Run the loader with --generate; the C code is in code.c."""
    argv = [p4_loader.BINARY, "--spec", spec, "--generate", tmp_path / "code.c"]
    return processes.run(*argv, env=p4_loader.ENVIRONMENT)


def test_generated_code_contains_the_guards(tmp_path):
    assert generate_code(tmp_path, FORWARD).returncode == 0
    code = (tmp_path / "code.c").read_text()
    assert code.startswith("/* DPDK ") and compiled.HEADERS[0] in code
    assert "ACAPELLA_" not in FORWARD.read_text()
    text = FORWARD.read_text().replace("mov m.reason 0x0", "mov m.reason 0x0\n\tregwr bytes 0x7 0x9")
    spec = write_file(tmp_path / "two.spec", text)
    assert generate_code(tmp_path, spec).returncode == 0
    assert "acapella_scratch" in (tmp_path / "code.c").read_text() and "acapella_scratch" not in code


def test_file_that_is_not_a_library_is_rejected_in_one_line(tmp_path):
    done = run(tmp_path, FORWARD, [frame(1, ethernet(1))], more=("--library", str(FORWARD)))
    assert done.code == 2
    assert done.frames is None
    assert f"{FORWARD}: DPDK cannot load this library for {FORWARD}" in done.error.splitlines()[-1]


def test_mirroring_program_is_interpreted_with_a_reason(tmp_path):
    spec = tmp_path / "mirror.spec"
    spec.write_text(FORWARD.read_text().replace("mov m.reason 0x0", "mov m.reason 0x0\n\tmirror m.reason m.reason", 1))
    done = generate_code(tmp_path, spec)
    assert done.returncode == 1 and "mirror: cannot be compiled; use the interpreter" in done.stderr
    require(compiled.find_source(None) is not None, f"no DPDK source: {compiled.GET_SOURCE}")
    assert "mirror: cannot be compiled" in compiled_pipeline(spec, spec.read_bytes()).reason
