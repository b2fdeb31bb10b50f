"""acapella p4 run: choice of loader and program, arguments of the loader, messages."""

import json
import os
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from acapella_testing.frames.compressed import CODECS, damaged, packed
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_built

from acapella.cli.main import main
from acapella.p4 import compiled, run_program

TESTS = Path(__file__).resolve().parents[3] / "p4" / "loader" / "tests"
CAPTURE = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1) + struct.pack("<IIII", 1, 2, 60, 60) + bytes(60)


@pytest.fixture(autouse=True)
def _interpreted(tmp_path_factory, monkeypatch):
    """Hide DPDK's source and use an empty cache, so that no test compiles a program (test_p4_compiled.py does)."""
    directory = tmp_path_factory.mktemp("none")
    monkeypatch.delenv(compiled.SOURCE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    monkeypatch.setattr(compiled, "DEFAULT_SOURCE", directory / "absent")


@pytest.fixture
def loader():
    """Skip if the loader is not built."""
    require_built(run_program.LOADER)


@pytest.fixture
def capture(tmp_path):
    """Write a capture with one frame of zeros; return its path."""
    return str(write_file(tmp_path / "in.pcap", CAPTURE))


def test_spec_file_runs_with_drop_reasons_of_its_json(loader, capture, tmp_path):
    spec = write_file(tmp_path / "forward.spec", (TESTS / "forward.spec").read_bytes())
    write_file(tmp_path / "forward.json", json.dumps({"reasons": {"7": "of-no-use"}}))
    control = write_file(tmp_path / "c.txt", "table exact add match 0 action drop_for 7\n")
    argv = ["p4", "run", str(spec), "--in", capture, "--control", str(control), "--out", str(tmp_path / "o.pcap")]
    argv += ["--stats", str(tmp_path / "s.json"), "--dump-registers", str(tmp_path / "r.json"), "--burst", "1"]
    assert main(argv) == 0
    stats = json.loads((tmp_path / "s.json").read_text())
    assert (stats["in"], stats["out"], stats["sunk"]) == (1, 0, {"of-no-use": 1})
    assert json.loads((tmp_path / "r.json").read_text())["sequence"][0] == 1
    assert (tmp_path / "s.json").stat().st_mode & 0o777 == 0o600


def test_counters_and_truncated_captures_are_printed(loader, tmp_path, capfd):
    cut = write_file(tmp_path / "cut.pcap", CAPTURE + CAPTURE[24:70])
    assert main(["p4", "run", "preprocess", "--in", str(cut), "--pipeline", "interpreted"]) == 0
    error = capfd.readouterr().err
    assert error == "p4: 1 frames, 1 sent\np4: cut.pcap: ends within a record; its 1 complete frames were read\n"


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_compression_is_an_error_and_truncated_compression_is_a_warning(tmp_path, capfd, codec):
    """As with `acapella digest`, frames before the damage are read, and the exit code is 1 if bytes are damaged."""
    broken = damaged(tmp_path / "broken.pcap", codec, CAPTURE + CAPTURE[24:] * 9, CAPTURE[24:] * 9)
    cut, created = packed(tmp_path / "cut.pcap", codec, CAPTURE, CAPTURE[24:] * 9), tmp_path / "out.pcap"
    os.truncate(cut, cut.stat().st_size - 20)
    words = ["p4", "run", "preprocess", "--out", str(created), "--pipeline", "interpreted", "--in"]
    for path, code, what in ((broken, 1, "error"), (cut, 0, "warning")):
        assert main([*words, str(path)]) == code
        *_, last = capfd.readouterr().err.splitlines()
        frames = (created.stat().st_size - 24) // (16 + 60)
        assert 1 <= frames <= 10
        assert last.startswith(f"acapella: {what}: {path}: at byte ")
        assert " of the decompressed data: " in last
        was = "frame before it was" if frames == 1 else "frames before it were"
        assert f"; the {frames} complete {was} read" in last
        assert last.endswith("; exit code 1: repair the capture (editcap)") == bool(code)
        assert main(["digest", str(path), "-o", str(tmp_path / "a.parquet"), "--engine", "native"]) == code
        assert f"{frames} complete" in capfd.readouterr().err


@pytest.mark.parametrize("spec", sorted(run_program.SPECS.glob("*.spec")), ids=lambda path: path.stem)
def test_project_programs_run(spec, loader, capture, tmp_path):
    assert main(["p4", "run", spec.stem, "--in", capture, "--stats", str(tmp_path / "s.json")]) == 0
    assert json.loads((tmp_path / "s.json").read_text())["in"] == 1


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothing --in {capture}", "nothing: no such program; available: "),
        ("{directory}/no.spec --in {capture}", "no.spec: No such file"),
        ("{forward} --in {directory}/no.pcap", "no.pcap: No such file"),
        ("{forward} --in {capture} --format 2", "--format: forward sends no reports"),
        ("preprocess --in {capture} --out {capture}", "--out {capture}: {capture} is also an input; use another file"),
        ("preprocess --in {packed} --out {packed}", "--out {packed}: {packed} is also an input; use another file"),
        ("preprocess --in {capture} --burst x", "--burst x: must be a number from 1 to 4096"),
        ("flowstats --in {capture} --out {directory}/o.pcap", "flowstats: no queue pair"),
        ("{forward} --in {capture} --collector here", "--collector here: not HOST:PORT"),
        ("{forward} --in {capture} --collector a:1 --secret s --commands", "not allowed with --commands"),
        (
            "flowstats --in {capture} --collector a:1",
            "--collector a:1: the collector requires a secret; add --secret DIRECTORY/collector.secret",
        ),
        ("flowstats --in {capture} --secret s", "--secret s: requires --collector; use both options or neither"),
    ],
)
def test_usage_errors_exit_with_2(capture, tmp_path, capfd, words, message):
    packed = write_file(tmp_path / "packed.pcap", pa.compress(CAPTURE, "zstd", asbytes=True))
    paths = {"capture": capture, "packed": packed, "directory": tmp_path}
    assert main(["p4", "run", *words.format(forward=TESTS / "forward.spec", **paths).split()]) == 2
    error = capfd.readouterr().err
    assert message.format(**paths) in error
    assert error.count("\n") == 1


def test_invalid_spec_json_is_an_error(capture, tmp_path, capsys):
    write_file(tmp_path / "x.json", "[1, 2]")
    assert main(["p4", "run", str(write_file(tmp_path / "x.spec", "")), "--in", capture]) == 2
    assert "x.json: not written by p4/compile" in capsys.readouterr().err


def test_missing_loader_error_names_the_package(capture, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_program.shutil, "which", lambda *_, **__: None)
    assert main(["p4", "run", str(TESTS / "forward.spec"), "--in", capture]) == 2
    assert "acapella-p4-run not found; apt-get install libdpdk-dev" in capsys.readouterr().err


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("register edit_which 0 99", "edit_which 99; from 0 to 7"),
        ("register sample_flows_below 0 0x100000001", "sample_flows_below 4294967297; from 0 to 4294967296"),
        ("register sample_packets_below 0 0x100000001", "sample_packets_below 4294967297; from 0 to 4294967296"),
        ("register edit_which 0 7", None),
        ("register sample_flows_below 0 0x100000000", None),
    ],
)
def test_out_of_range_register_of_preprocess_is_an_error_with_its_line(capture, tmp_path, capfd, line, error):
    control = write_file(tmp_path / "c.txt", f"# what is edited and sampled\n{line}\n")
    assert main(["p4", "run", "preprocess", "--in", capture, "--control", str(control)]) == (2 if error else 0)
    assert (capfd.readouterr().err == f"acapella: error: {control}:2: {error}\n") == bool(error)


@pytest.mark.parametrize("option", ["--out", "--frames"])
def test_unwritable_output_error_names_the_given_path(option, loader, capture, tmp_path, capfd):
    output = tmp_path / "none" / "o.pcap"
    assert main(["p4", "run", "preprocess", "--in", capture, option, str(output)]) != 0
    assert f"{output}: No such file or directory" in capfd.readouterr().err


def test_error_about_a_file_that_is_not_a_capture_lists_supported_formats(loader, tmp_path, capfd):
    letter = write_file(tmp_path / "letter.pcap", "Dear all, this is not a capture.\n")
    assert main(["p4", "run", "preprocess", "--in", str(letter)]) == 2
    assert "uncompressed or compressed with gzip (acapella p4 run: also zstd, lz4)\n" in capfd.readouterr().err
