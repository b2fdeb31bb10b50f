"""Tests the sample sheet of the user, as the Snakefile reads it."""

import atexit

import pytest
from acapella_testing.new_files import write_file

from acapella.snakefile.sample_sheet import REPEATED, SampleSheet
from acapella.snakefile.samples import Sample
from acapella_capture.testbeds import files


@pytest.fixture
def write_sheet(tmp_path):
    """Return a function that writes a sheet with given lines and reads it."""
    for name in "ab":
        write_file(tmp_path / f"{name}.pcap", bytes(24))

    def write(*lines: str) -> SampleSheet:
        path = write_file(tmp_path / "samples.tsv", "\n".join(["sample\tsite\tport\tfile", *lines, ""]))
        return SampleSheet.read(str(path), read=files.read_sheet, fault_of=files.unreadable, empty=files.no_samples)

    return write


def test_samples_have_site_port_and_capture(write_sheet, tmp_path):
    sheet = write_sheet("a\tWEST\tp1\ta.pcap", "b\tEAST\tp2\tb.pcap")
    assert sheet.samples() == {
        "a": Sample("WEST", "p1", str(tmp_path / "a.pcap")),
        "b": Sample("EAST", "p2", str(tmp_path / "b.pcap")),
    }
    assert sheet.manifest_values("a")[:2] == ["WEST", "p1"]
    assert [values[:3] for values in sheet.list_values()] == [["a", "WEST", "p1"], ["b", "EAST", "p2"]]


def test_empty_sheet_ends_snakemake_only_when_samples_are_needed(write_sheet):
    sheet = write_sheet()
    assert (sheet.rows, sheet.warnings([]), sheet.list_values()) == ({}, [], [])
    with pytest.raises(SystemExit) as ended:
        sheet.samples()
    assert ended.value.code.startswith(f"config error: {sheet.path}: no samples; add one line per capture")


def test_unreadable_captures_cause_a_warning_unless_they_are_excluded(write_sheet, tmp_path):
    sheet, path = write_sheet("a\tWEST\tp1\ta.pcap", "lost\tWEST\tp2\tlost.pcap"), tmp_path / "lost.pcap"
    assert sheet.warnings([]) == [f"warning: {sheet.path} line 3: {path}: no such file; sample lost will fail"]
    assert sheet.warnings(["lost"]) == []
    assert (sheet.is_readable(str(tmp_path / "a.pcap")), sheet.is_readable(str(path))) == (True, False)


def test_sample_whose_file_name_has_no_permitted_character_causes_a_note(write_sheet, tmp_path):
    path = write_file(tmp_path / "東京.pcap", bytes(24))
    sheet = write_sheet("\tWEST\tp1\ta.pcap", "\tWEST\tp2\t東京.pcap")
    assert sheet.warnings([]) == [
        f"note: {sheet.path} line 3: {path}: the sample is named capture, because the file name has no ASCII letter or "
        "digit; set column sample for another name"
    ]
    assert sheet.warnings(["capture"]) == write_sheet("capture\tWEST\tp2\t東京.pcap").warnings([]) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_warnings_are_repeated_below_the_dry_run_plan(write_sheet, capsys, monkeypatch, dry_run):
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    sheet = write_sheet("a\tWEST\tp1\ta.pcap", "lost\tWEST\tp2\tlost.pcap")
    sheet.print_warnings([], lambda: dry_run)
    first = capsys.readouterr().err
    assert first.splitlines() == sheet.warnings([])
    (at_exit,) = registered
    at_exit()
    assert capsys.readouterr().err == (f"{REPEATED}\n{first}" if dry_run else "")
    sheet.print_warnings(["lost"], lambda: True)
    assert (capsys.readouterr().err, len(registered)) == ("", 1)
