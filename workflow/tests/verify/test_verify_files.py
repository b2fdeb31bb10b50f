"""Which files `acapella verify` compares, which it skips and lists, and how it runs several at a time."""

import gzip
import itertools
import os
import re
import subprocess

import pytest
from acapella_testing.altered_digests import replaced, tamper
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import write_file
from acapella_testing.tshark_lines import tshark_lines

from acapella.cli.main import main
from acapella.common import tshark
from acapella_core import _native


@pytest.mark.soak
def test_file_that_cannot_be_compared_is_an_error_as_an_argument_and_skipped_in_a_directory(capture, capsys):
    text = write_file(capture.with_name("notes.pcap"), "no capture at all\n" * 9)
    assert main(["verify", str(capture), str(text)]) == 1
    printed = capsys.readouterr()
    assert "1 file (1 not compared), " in printed.out
    assert f"not compared: {text}" in printed.err
    assert main(["verify", str(capture.parent)]) == 0
    printed = capsys.readouterr()
    assert "1 file (1 not compared), " in printed.out
    assert printed.err.count("not compared: ") == 1
    assert str(text) in printed.err
    assert "1 file not compared" in printed.err


@pytest.mark.soak
def test_no_frame_of_a_damaged_capture_is_compared(capture, capsys):
    content = capture.read_bytes()
    damaged = write_file(capture.with_name("damaged.pcap"), content[: len(content) // 2] + b"\xff" * 2000)
    # Records whose header is before the damage.
    starts = itertools.accumulate((16 + min(len(frame), 200) for _, frame in busy_port()), initial=24)
    complete = sum(at + 16 <= len(content) // 2 for at in starts)
    assert main(["verify", str(capture), str(damaged)]) == 1
    with_damaged = capsys.readouterr()
    (line,) = [line for line in with_damaged.err.splitlines() if line.startswith("not compared: ")]
    assert line.startswith(f"not compared: {damaged}: ")
    assert line.endswith(f"; none of its {complete} frames is compared")
    assert main(["verify", str(capture)]) == 0
    assert with_damaged.out.replace("1 file (1 not compared)", "1 file") == capsys.readouterr().out


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_complete_frames_of_a_truncated_capture_are_compared(capture, compress, capsys):
    cut = write_file(capture.with_name("cut.pcap"), compress(capture.read_bytes()[:-1]))
    assert main(["verify", str(cut)]) == 0
    complete = len(busy_port()) - 1
    first, *_, last = filter(None, capsys.readouterr().out.splitlines())
    assert re.fullmatch(rf"{cut}: truncated at byte \d+.*: .*; compared: {complete} complete frames", first)
    assert last == "frames with a disagreement on a layer that the core decoded: 0"


@pytest.mark.soak
def test_no_frame_of_a_damaged_compressed_capture_is_compared(capture, capsys):
    content = bytearray(gzip.compress(capture.read_bytes()))
    content[-5] ^= 0xFF  # the checksum, after all data
    damaged = write_file(capture.with_name("damaged.pcap.gz"), content)
    assert main(["verify", str(capture), str(damaged)]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("not compared: ")]
    assert line.startswith(f"not compared: {damaged}: at byte ")
    assert "frames is compared" in line


@pytest.mark.parametrize(
    ("path", "message"), [("nowhere.pcap", "nowhere.pcap: no such file\n"), (".", "no capture found")]
)
def test_missing_captures_are_an_error(path, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["verify", path]) == 2
    assert message in capsys.readouterr().err


def test_file_of_another_kind_is_an_error_that_names_the_kinds(tmp_path, capsys):
    text = write_file(tmp_path / "notes.txt", "no capture at all\n" * 9)
    assert main(["verify", str(text)]) == 2
    reason, error = capsys.readouterr().err.splitlines()
    assert reason == f"not compared: {text}: text, not a pcap or pcapng capture"
    assert "no capture could be compared; verify compares captures: pcap or pcapng" in error


def test_skipped_files_are_listed_if_no_capture_is_left(tmp_path, capsys):
    (tmp_path / "notes.txt").touch()
    assert main(["verify", str(tmp_path)]) == 2
    assert f"skipped: {tmp_path}/notes.txt: " in capsys.readouterr().err


@pytest.mark.soak
def test_output_is_the_same_for_any_number_of_jobs(tmp_path, monkeypatch, capsys):
    for at in range(4):
        write_pcap(tmp_path / f"{at}.pcap", busy_port()[at:])
    (tmp_path / "broken.pcap").write_text("no capture at all\n" * 9)
    tamper(monkeypatch, replaced("ts_ns", lambda ns: ns + 1))
    assert main(["verify", str(tmp_path), "--jobs", "1"]) == 1
    sequential = capsys.readouterr()
    assert sequential.out.count(", time: ours") == 4
    assert main(["verify", str(tmp_path), "--jobs", "2"]) == 1
    assert capsys.readouterr() == sequential
    assert main(["verify", str(tmp_path), "--jobs", "5"]) == 1
    assert capsys.readouterr() == sequential


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_jobs_below_one_are_rejected(jobs, capture, capsys):
    assert main(["verify", str(capture), "--jobs", jobs]) == 2
    assert "--jobs" in capsys.readouterr().err


def test_progress_counts_files_and_frames_on_standard_error(capture, capsys):
    assert main(["verify", str(capture), "--progress"]) == 0
    assert f"verify: 1 of 1 file, {len(busy_port())} frames\n" in capsys.readouterr().err


def test_printed_commands_read_the_fields_that_are_compared(capture, capsys):
    other = write_pcap(capture.with_name("it's a copy.pcap"), busy_port()[:9])
    assert main(["verify", str(capture), str(other), "--tshark-command"]) == 0
    commands = capsys.readouterr().out.splitlines()
    assert [subprocess.check_output(command, shell=True, text=True).splitlines() for command in commands] == [
        tshark_lines(tshark.find(), file, *_native.REFERENCE_FIELDS) for file in (capture, other)
    ]
    in_full = re.sub(r"-T .* <", "-V -Y frame.number==7 <", commands[1])
    assert subprocess.check_output(in_full, shell=True, text=True).startswith("Frame 7: ")


def test_skipped_files_are_listed_with_the_reason(capture, capsys):
    directory = capture.parent
    write_file(directory / "inner" / "notes.txt", "x")
    (directory / "gone.pcap").symlink_to(directory / "nowhere")
    (directory / "link").symlink_to(directory / "inner")
    os.mkfifo(directory / "pipe.pcap")
    assert main(["verify", str(directory)]) == 0
    err = capsys.readouterr().err
    assert err.count("skipped: ") == 4
    assert f"skipped: {directory}/inner/notes.txt: not the suffix of a capture" in err
    assert f"skipped: {directory}/gone.pcap: cannot read: No such file or directory" in err
    assert f"skipped: {directory}/link: symbolic link to a directory" in err
    assert f"skipped: {directory}/pipe.pcap: not a regular file" in err
    assert "4 files skipped" in err


@pytest.mark.soak
def test_file_listed_directly_and_by_its_directory_is_compared_once(capture, capsys):
    other = write_file(capture.with_name("capture.dump"), capture.read_bytes())
    assert main(["verify", str(capture.parent), str(other)]) == 0
    printed = capsys.readouterr()
    assert "2 files" in printed.out
    assert "skipped" not in printed.err
