"""`acapella kappa` as a command: selection of packets, outputs, and errors."""

import gzip
import json
import re
import resource
import stat
import struct
import sys
from pathlib import Path

import pytest
from acapella_testing.frames.pcapng_files import write_untimed
from acapella_testing.frames.trial_captures import START_NS, kappa, packet, packet_6, pair, steady, write
from acapella_testing.new_files import write_file
from acapella_testing.processes import run

from acapella.cli.main import main
from acapella.kappa import selection
from acapella.kappa.summary import format_number


@pytest.fixture
def trials(tmp_path):
    """Return two trials of 100 packets, every third of them over IPv6."""

    def make(number: int) -> bytes:
        return packet_6(number) if number % 3 == 0 else packet(number)

    late = [ns + ns % 17 for ns in steady(100)]
    return write(tmp_path / "a.pcap", steady(100), make=make), write(tmp_path / "b.pcap", late, make=make)


def test_display_filter_selects_the_frames_of_tshark(trials, capsys, program):
    result = kappa(capsys, *trials, "--filter", "ipv6")
    assert [t["packets"] for t in result["trials"]] == [34, 34]
    assert [t["files"][0]["frames"] for t in result["trials"]] == [100, 100]
    assert result["pairs"][0]["duration_a_ns"] == 99 * 1_237
    assert (result["parameters"]["filter"], result["parameters"]["tshark"]) == ("ipv6", program.version)


def test_invalid_display_filter_is_an_error(trials, capsys, program):
    assert main(["kappa", *map(str, trials), "--filter", "no such field =="]) == 2
    message = capsys.readouterr().err
    assert message.startswith("acapella: error: --filter 'no such field ==': ")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("flow", "packets"),
    [
        ("10.0.0.1,10.0.0.2", 66),
        ("10.0.0.1:5000,10.0.0.2:5001,udp", 66),
        ("10.0.0.1:5000,10.0.0.2", 66),
        ("[fd00::1]:5000,[fd00::2]:5001,17", 34),
        ("fd00::1,fd00::2", 34),
        ("10.0.0.2,10.0.0.1", 0),
        ("10.0.0.1,10.0.0.2,tcp", 0),
    ],
)
def test_flow_selects_one_direction_by_innermost_addresses(trials, capsys, flow, packets):
    assert [t["packets"] for t in kappa(capsys, *trials, "--flow", flow)["trials"]] == [packets, packets]


def test_relative_time_range_starts_at_each_trials_first_packet(tmp_path, capsys):
    offsets = steady(100, 1_000_003)
    trials = (write(tmp_path / f"{later}.pcap", [ns + later for ns in offsets]) for later in (0, 7 * 10**9))
    found = kappa(capsys, *trials, "--from", "10ms", "--to", "0.02s")
    assert [t["packets"] for t in found["trials"]] == [10, 10]
    assert found["pairs"][0]["n_common"] == 10
    assert found["pairs"][0]["kappa"] == 1


def test_absolute_time_range_is_the_same_for_all_trials(tmp_path, capsys):
    a, b = (write(tmp_path / f"{k}.pcap", [ns + k for ns in steady(10, 10**8 + 1)]) for k in range(2))
    begin = "2023-11-14T22:13:20.223456790Z"  # START_NS + 100,000,001 ns: the second packet of A, to the nanosecond
    assert selection.iso_time_ns(begin) == START_NS + 10**8 + 1
    found = kappa(capsys, a, b, "--from", begin, "--to", "2023-11-14T23:13:20.4+01:00")
    assert [t["packets"] for t in found["trials"]] == [2, 2]


def test_output_file_is_private_and_equals_printed_json(trials, tmp_path, capsys):
    assert main(["kappa", *map(str, trials), "--json"]) == 0
    printed = capsys.readouterr().out
    target = tmp_path / "ab.json"
    assert main(["kappa", *map(str, trials), "--json", "-o", str(target)]) == 0
    assert (capsys.readouterr().out, target.read_text()) == ("", printed)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert main(["kappa", *map(str, trials), "-o", str(target)]) == 0
    assert "kappa 0." in capsys.readouterr().out
    assert target.read_text() == printed


def test_result_contains_no_path(trials, tmp_path, capsys):
    assert str(tmp_path) not in json.dumps(kappa(capsys, *trials))


def test_sha256_of_a_file_is_recorded_on_request(trials, capsys):
    from acapella_core.files import sha256_of  # noqa: PLC0415

    assert [t["files"][0]["sha256"] for t in kappa(capsys, *trials)["trials"]] == [None, None]
    hashed = kappa(capsys, *trials, "--sha256")
    assert [t["files"][0]["sha256"] for t in hashed["trials"]] == [sha256_of(path) for path in trials]


def test_summary_shows_the_contribution_of_each_component(trials, capsys):
    found = pair(capsys, *trials)
    assert main(["kappa", *map(str, trials)]) == 0
    text = capsys.readouterr().out
    assert f"B against A: kappa {found['kappa']:.4f}"[:-1] in text
    assert f"{found['I']:.4g}" in text
    assert "of loss" in text
    assert "100 common of 100 in A and 100 in B" in text
    assert "moved       none" in text


def test_values_below_1_are_not_printed_as_1():
    values = (None, 0, 0.12346, 0.99995, 1 - 2**-53, 1)
    assert [*map(format_number, values)] == ["undefined", "0", "0.1235", "0.99995", "0.9999999999999999", "1"]


def test_summary_of_three_trials_has_each_pair(trials, tmp_path, capsys):
    assert main(["kappa", *map(str, trials), str(trials[1])]) == 0
    text = capsys.readouterr().out
    assert text.count("against A") == 4
    assert "100 common of 100 in A and 100 in C" in text
    assert "median of C - A" in text
    assert main(["kappa", *map(str, trials), str(trials[1]), "--all-pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    matrix = [line.split() for line in lines if line.startswith(("kappa", "A   ", "B   "))]
    assert matrix[0] == ["kappa", "B", "C"]
    assert matrix[2] == ["B", "1"]


def test_summary_prints_a_warning_about_the_clocks_of_several_trials_once(trials, tmp_path, capsys):
    """Trials with a clock of 1 µs. Trial A is in every pair."""
    offsets = [n * 20_000 + n % 2 * 1_000 for n in range(17)]
    coarse = [write(tmp_path / f"{number}.pcap", offsets) for number in range(1, 6)]
    assert main(["kappa", *map(str, coarse)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("is coarse:") == 1
    assert (
        "warning (O L I) of 5 trials (A, B, C, ...): the clock of trial A is coarse: timestamps in 1.pcap are on a"
        in text
    )
    assert main(["kappa", str(coarse[0]), *map(str, trials)]) == 0
    assert "warning (O L I): the clock of trial A is coarse" in " ".join(capsys.readouterr().out.split())


def test_summary_prints_times_with_a_unit_that_suits_their_size(tmp_path, capsys):
    late = [write(tmp_path / f"{hour}.pcap", [*steady(99), hour * 3_600 * 10**9]) for hour in (1, 6)]
    assert pair(capsys, *late)["latency_delta_ns"]["largest"] == 5 * 3_600 * 10**9
    assert main(["kappa", *map(str, late), "--within", "25000"]) == 0
    text = capsys.readouterr().out
    assert "largest 5 h" in text
    assert " within 25,000 ns" in text
    assert not re.search(r"[0-9]{4} ns|,[0-9]{3},[0-9]{3}", text)


def test_identity_can_be_the_frame_or_regions_of_it(tmp_path, capsys):
    ends = [write(tmp_path / f"{ttl}.pcap", steady(9), make=lambda n, ttl=ttl: packet(n, ttl=ttl)) for ttl in (64, 63)]
    assert pair(capsys, *ends)["n_common"] == 9
    assert pair(capsys, *ends, "--identity", "frame")["n_common"] == 0
    assert pair(capsys, *ends, "--identity", "regions", "--region", "42:8")["n_common"] == 9
    assert pair(capsys, *ends, "--identity", "regions", "--region", "42:8", "22:1")["n_common"] == 0


def test_damaged_bytes_are_reported_with_exit_code_1(trials, tmp_path, capsys):
    packed = bytearray(gzip.compress(trials[1].read_bytes()))
    packed[-6] ^= 0xFF  # a byte of the checksum
    assert main(["kappa", str(trials[0]), str(write_file(tmp_path / "c.pcap.gz", bytes(packed))), "--json"]) == 1
    message = capsys.readouterr()
    assert [warning["code"] for warning in json.loads(message.out)["pairs"][0]["warnings"]] == ["cut_file"]
    assert message.err.startswith("acapella: error: ")
    assert "c.pcap.gz: damaged" in message.err


def test_impossible_record_is_damage_unless_damaged_keep(trials, tmp_path, capsys):
    record = struct.pack("<IIII", 1, 1, 2**28, 2**28) + bytes(100)
    command = ["kappa", str(trials[0]), str(write_file(tmp_path / "c.pcap", trials[1].read_bytes() + record)), "--json"]
    assert main(command) == 1
    failed = capsys.readouterr()
    assert failed.err.startswith("acapella: error: ")
    assert "c.pcap: damaged" in failed.err
    assert main([*command, "--damaged", "keep"]) == 0
    kept = capsys.readouterr()
    assert kept.err.startswith("acapella: warning: ")
    assert "exit code" not in kept.err
    assert kept.out == failed.out
    assert json.loads(kept.out)["pairs"][0]["n_common"] == 100


def test_progress_goes_to_standard_error(trials, capsys, monkeypatch):
    monkeypatch.setattr("acapella.kappa.command.PROGRESS_INTERVAL_S", 0)
    assert main(["kappa", *map(str, trials), "--json", "--progress"]) == 0
    message = capsys.readouterr()
    assert json.loads(message.out)["pairs"]
    assert "MB read" in message.err


def test_offloaded_checksums_can_be_ignored(tmp_path, capsys):
    a = write(tmp_path / "a.pcap", steady(9), make=lambda n: packet(n, checksum=0x1234))
    b = write(tmp_path / "b.pcap", steady(9), make=lambda n: packet(n, checksum=0x4321))
    assert pair(capsys, a, b)["n_common"] == 0
    assert pair(capsys, a, b, "--no-l4-checksum")["n_common"] == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["A"], "a single trial cannot be compared"),
        (["A", "missing.pcap"], "no such file"),
        (["A", "B", "-o", "link"], "one of the captures"),
        (["A", "A,"], "empty file"),
        (["A", "B", "--name", "x"], "1 names for 2"),
        (["A", "B", "--name", "x", "x"], "trial names must be unique"),
        (["A", "B", "--name", "x", "y\nB: kappa 1"], "control character"),
        (["A", "B", "--within", "-1"], "from 0 to"),
        (["A", "B", "--within", "1.5"], "--within 1.5: must be a whole number from 0 to 9,223,372,036,854,775,807 ns"),
        (["A", "B", "--within", "99999999999999999999999"], "from 0 to 9,223,372,036,854,775,807"),
        (["A", "B", "--within", "9" * 5_000], "from 0 to"),
        (["A", "B", "--within", "³"], "--within ³: must be a whole number"),
        (["A", "B", "--windows", "0"], "1 to 10,000"),
        (["A", "B", "--windows", "٣"], "1 to 10,000"),
        (["A", "B", "--window", "1"], None),
        (["A", "B", "--window", "0s"], "a window must be 1 ns or longer"),
        (["A", "B", "--window", "0"], "a window must be 1 ns or longer"),
        (["A", "B", "--window", "99999999999999999999h"], "292 years"),
        (["A", "B", "--window", "9000000000s"], None),
        (["A", "B", "--memory", "99999999999999999999T"], "at most 8388607T"),
        (["A", "B", "--memory", "8388607T"], None),
        (["A", "B", "--to", "9999999999"], "at most 9,223,372,036 s"),
        (["A", "B", "--to", "9223372036"], None),
        (["A", "B", "--to", "٣s"], "not a time"),
        (["A", "B", "--to", "9" * 5_000], "not a time"),
        (["A", "B", "--from", "99999999999999999999"], "292 years"),
        (["A", "B", "--from", "300000000000s"], "292 years"),
        (["A", "B", "--from", "1600-01-01T00:00:00"], "1677-09-22 to 2262-04-11"),
        (["A", "B", "--from", "9999-01-01T00:00:00"], "1677-09-22 to 2262-04-11"),
        (["A", "B", "--from", "0001-01-01T00:00:00+10:00"], "1677-09-22 to 2262-04-11"),
        (["A", "B", "--from", "1678-01-01T00:00:00", "--to", "2262-01-01T00:00:00"], None),
        (["A", "B", "-o", "missing/ab.json"], "missing: no such directory"),
        (["A", "B", "--window", "1ns"], "too many"),
        (["A", "B", "--memory", "much"], "not a size"),
        (
            ["A", "B", "--region", "0:4"],
            "require each other; write --identity regions --region OFFSET:LENGTH, in bytes",
        ),
        (["A", "B", "--identity", "regions"], "require each other"),
        (["A", "B", "--identity", "regions", "--region", "4"], "not a region"),
        (["A", "B", "--identity", "regions", "--region", "3:²"], "not a region"),
        (["A", "B", "--identity", "regions", "--region", f"3:{10**30}"], "not a region"),
        (["A", "B", "--flow", "10.0.0.1"], "not a flow"),
        (["A", "B", "--flow", "10.0.0.1,10.0.0.2,²"], "not an IP protocol"),
        (["A", "B", "--flow", "10.0.0.1,10.0.0.2,256"], "not an IP protocol"),
        (["A", "B", "--flow", "10.0.0.1:99999,10.0.0.2"], "port 99999 is larger than 65535"),
        (["A", "B", "--flow", "10.0.0.1,fd00::1"], "different IP versions"),
        (["A", "B", "--flow", "10.0.0.1,10.0.0.2,ospfv9"], "not an IP protocol"),
        (["A", "B", "--from", "soon"], "not a time"),
        (["A", "B", "--from", "0.0000000001s"], "whole nanoseconds"),
        (["A", "B", "--from", "2s", "--to", "1s"], "later"),
        (["A", "B", "--from", "1s", "--to", "2026-01-01T00:00:00Z"], "both"),
        (["A", "B", "--from", "2026-13-01T00:00:00Z"], "not a time"),
    ],
)
def test_usage_error_prints_one_line(trials, capsys, words, message):
    link = trials[0].with_name("link")
    link.symlink_to(trials[0])
    paths = {"A": str(trials[0]), "B": str(trials[1]), "A,": f"{trials[0]},", "link": str(link)}
    code = main(["kappa", *(paths.get(word, word) for word in words)])
    shown = capsys.readouterr().err
    if message is None:
        assert code == 0
    else:
        assert (code, shown.count("\n")) == (2, 1)
        assert message in shown


def test_time_after_the_trials_end_selects_up_to_the_end(trials, capsys):
    assert pair(capsys, *trials, "--to", "9000000000") == pair(capsys, *trials)


def test_filter_without_matches_is_named(trials, capsys, program):
    assert main(["kappa", *map(str, trials), "--filter", "tcp", "--json"]) == 0
    assert "None of the 200 frames read matches --filter tcp." in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_full_disk_at_standard_output_is_an_error(trials, capsys, monkeypatch, words):
    with Path("/dev/full").open("w") as full, monkeypatch.context() as changed:
        changed.setattr(sys, "stdout", full)
        assert main(["kappa", *map(str, trials), *words]) == 75
    assert capsys.readouterr().err == "acapella: error: standard output: cannot write: No space left on device\n"


def test_error_about_a_file_that_is_not_a_capture_names_the_file(trials, tmp_path, capsys):
    assert main(["kappa", str(trials[0]), str(write_file(tmp_path / "note.txt", "this is not a capture"))]) == 2
    assert "note.txt" in capsys.readouterr().err


def test_unwritable_temporary_file_error_names_its_directory(tmp_path):
    trials = [write(tmp_path / f"{name}.pcap", steady(5_000)) for name in "ab"]
    command = [sys.executable, "-m", "acapella.cli.main", "kappa", *trials, "--memory", "1", "--json"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
    done = run(*command, "--spool", tmp_path, preexec_fn=limit)
    assert (done.returncode, done.stderr.count("\n")) == (75, 1)
    advice = "free space there, or use another directory: --spool DIRECTORY"
    assert f"temporary files are in {tmp_path}; {advice}" in done.stderr


def test_name_with_a_comma_is_a_single_file(trials, capsys):
    assert pair(capsys, trials[0], trials[1].rename(trials[1].with_name("b,c.pcap")))["n_common"] == 100


def test_file_without_times_is_an_error(trials, tmp_path, capsys):
    """All timestamps would be 0, and kappa with a similar file 1."""
    untimed = write_untimed(tmp_path / "untimed.pcapng", [bytes(60), bytes(61)])
    assert main(["kappa", str(untimed), str(untimed)]) == 2
    message = f"acapella: error: {untimed}: its 2 frames have no timestamps, and trials are compared by time; use "
    assert capsys.readouterr().err.startswith(message)
    assert main(["kappa", f"{trials[0]},{untimed}", str(trials[1])]) == 2
    assert "untimed.pcapng: its 2 frames have no timestamps" in capsys.readouterr().err


def test_trials_that_are_the_same_file_cause_a_note(trials, capsys):
    assert main(["kappa", str(trials[0]), str(trials[0]), "--json"]) == 0
    assert "note: trials A, B are the same file (a.pcap): kappa is 1" in capsys.readouterr().err
    assert main(["kappa", *map(str, trials), "--json"]) == 0
    assert "same file" not in capsys.readouterr().err
