"""`acapella kappa` warns of each defect of the captures and names the affected components."""

import json
import struct
from fractions import Fraction

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_captures import START_NS, codes, kappa, packet, pair, steady, tagged, texts, write
from acapella_testing.new_files import write_file

from acapella.cli.main import main
from acapella.kappa import baseline, warnings
from acapella_core.schemas import json_schema

STEADY = list(enumerate(steady(100)))


def only(entry: dict, code: str) -> dict:
    """Return the warning with this code, which must be the only one."""
    assert codes(entry) == [code]
    return entry["warnings"][0]


def coarse(numbers) -> list[tuple[int, bytes]]:
    """Return packets of a steady trial with times in microseconds."""
    return [((START_NS + ns) // 1000 * 1000, packet(n)) for n, ns in STEADY if n in numbers]


@pytest.fixture
def clean(tmp_path):
    """Write a trial without a defect."""
    return write(tmp_path / "clean.pcap", steady(100))


def test_clean_trials_have_no_warning(compared):
    other = ([ns + ns % 13 for ns in steady(100)], [*range(50), 51, 50, *range(52, 100)])
    assert compared(steady(100), other)["warnings"] == []


def test_microsecond_grid_is_reported(tmp_path, capsys, clean):
    warning = only(pair(capsys, clean, write_pcap(tmp_path / "b.pcap", coarse(range(100)))), "coarse_clock")
    assert warning["components"] == ["O", "L", "I"]
    assert "trial B" in warning["text"]
    assert "b.pcap are multiples of 1 µs" in warning["text"]


def test_single_coarse_file_of_a_trial_is_reported(tmp_path, capsys, clean):
    fine = write(tmp_path / "fine.pcap", steady(100)[::2], range(0, 100, 2))
    other = write_pcap(tmp_path / "coarse.pcap", coarse(range(1, 100, 2)))
    warning = only(pair(capsys, clean, f"{fine},{other}"), "coarse_clock")
    assert "coarse.pcap" in warning["text"]
    assert "fine.pcap" not in warning["text"]


def test_many_equal_timestamps_are_reported(compared):
    equal = [ns // (4 * 1_237) * 4 * 1_237 for ns in steady(100)]
    assert "75 packets (75.8 %)" in only(compared(steady(100), equal), "coarse_clock")["text"]


@pytest.mark.parametrize(("packets", "expected"), [(101, ["coarse_clock"]), (102, []), (1_000, [])])
def test_equal_timestamps_are_reported_from_one_percent_of_gaps(compared, packets, expected):
    offsets = steady(packets)
    offsets[50] = offsets[49]
    assert codes(compared(steady(packets), offsets)) == expected


def test_truncated_identity_is_reported_with_remaining_bytes(tmp_path, capsys, clean):
    warning = only(pair(capsys, clean, write(tmp_path / "b.pcap", steady(100), snaplen=52)), "truncated_identity")
    assert "truncated 100 packets of trial B, so" in warning["text"]
    assert "first 38 bytes" in warning["text"]
    assert "U too small" in warning["text"]
    assert "U far too large" in warning["text"]


def in_vxlan(number: int) -> bytes:
    """Return a packet in VXLAN, whose inner IP header starts at byte 64."""
    inner = b"\x08" + bytes(5) + b"\x01\x00" + packet(number)
    udp = struct.pack(">HHHH", 40_000 + number, 4789, 8 + len(inner), 0) + inner
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), number, 0, 64, 17, 0)
    return packet(0)[:14] + header + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + udp


def test_truncated_inner_header_increases_u_as_warned(tmp_path, capsys):
    complete = write(tmp_path / "a.pcap", steady(9), make=in_vxlan)
    found = pair(capsys, complete, write(tmp_path / "b.pcap", steady(9), make=in_vxlan, snaplen=60))
    assert found["U"] == 1
    assert codes(found) == ["different_content", "truncated_identity"]


def test_pair_is_warned_of_truncation_in_a_third_trial(tmp_path, capsys, clean):
    found = kappa(capsys, clean, clean, write(tmp_path / "c.pcap", steady(100), snaplen=52), "--all-pairs")["pairs"]
    assert [codes(entry) for entry in found] == [["truncated_identity"]] * 3
    assert "truncated packets of a different trial" in found[0]["warnings"][0]["text"]


def test_packets_that_differ_after_the_truncation_are_ambiguous(tmp_path, capsys):
    cut = write(tmp_path / "a.pcap", steady(9), snaplen=42)
    found = pair(capsys, cut, cut)
    assert codes(found) == ["ambiguous_occurrences", "truncated_identity"]
    assert (found["ambiguous_a"], found["ambiguous_b"]) == (9, 9)


@pytest.mark.parametrize("numbers", [range(1_000, 1_100), [0, 1, 2, *range(1_003, 1_099), 1]], ids=["none", "three"])
def test_trials_with_different_content_are_reported(compared, numbers):
    found = compared(steady(100), (steady(100), numbers))
    assert "different_content" in codes(found)
    assert found["warnings"][0]["components"] == ["U", "O", "L", "I"]


def test_clocks_are_not_reported_without_common_packets(tmp_path, capsys):
    first, second = (write_pcap(tmp_path / f"{n}.pcap", coarse(range(n, n + 9))) for n in (0, 50))
    assert codes(pair(capsys, first, second)) == ["different_content"]


@pytest.mark.parametrize(("common", "expected"), [(49, ["different_content"]), (50, [])])
def test_less_than_half_of_packets_in_common_is_reported(compared, common, expected):
    assert codes(compared(steady(100), (steady(100), [*range(common), *range(1_000, 1_100 - common)]))) == expected


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("remaining", "expected"), [(10, True), (49, True), (50, False)])
def test_trial_that_lacks_most_packets_is_reported(tmp_path, capsys, swap, remaining, expected):
    clean, few = write(tmp_path / "a.pcap", steady(100)), write(tmp_path / "b.pcap", steady(100)[:remaining])
    found = pair(capsys, *((few, clean) if swap else (clean, few)))
    assert (found["L"], found["I"]) == (0, 0)
    assert ("different_content" in codes(found)) == expected
    if expected:
        lacks, holds = ("A", "B") if swap else ("B", "A")
        text = found["warnings"][0]["text"]
        assert f"trial {lacks} lacks {100 - remaining} packets of trial {holds}, {100 - remaining}.0 %" in text
        assert "L, I and O describe only the common packets" in text


@pytest.mark.parametrize(("gaps", "expected"), [(90, []), (89, ["unequal_durations"])])
def test_trial_shorter_by_more_than_ten_percent_is_reported(tmp_path, capsys, gaps, expected):
    a, b = (write(tmp_path / f"{packets}.pcap", steady(packets)) for packets in (101, gaps + 1))
    there, back = pair(capsys, a, b), pair(capsys, b, a)
    assert codes(there) == codes(back) == expected
    if expected:
        assert there["warnings"][0]["components"] == ["L", "I"]
        assert "trial A lasts 124 µs, trial B 110 µs, 11.0 % less" in there["warnings"][0]["text"]


@pytest.mark.parametrize("stray", ["common", "in one trial"])
@pytest.mark.parametrize(("in_a", "in_b"), [(True, True), (True, False), (False, True)])
def test_stray_packet_an_hour_later_is_reported(tmp_path, capsys, stray, in_a, in_b):
    """Kappa is nearly 1, because jitter is divided by a duration that is mostly the pause."""
    trials = []
    for name, late, jitter in (("A", in_a, 1), ("B", in_b, 1_001)):
        offsets = [ns + ns * 7 % jitter for ns in steady(100)]
        numbers = [*range(100), *[100 if stray == "common" else 200 + ord(name)] * late]
        trials.append(write(tmp_path / f"{name}.pcap", offsets + [3_600 * 10**9 + 7] * late, numbers))
    found = pair(capsys, *trials)
    assert found["I"] < 1e-4
    messages = {warning["code"]: warning["text"] for warning in found["warnings"]}
    assert ("unequal_durations" in messages) == (in_a != in_b)
    for name, late in (("A", in_a), ("B", in_b)):
        assert (f"of trial {name}" in messages["dominant_gap"]) == late


def test_gap_before_a_common_packet_is_reported_for_its_trial(compared):
    (text,) = texts(compared(steady(100), [ns + (300_000 if n >= 50 else 0) for n, ns in STEADY]), "dominant_gap")
    assert "a gap of 300 µs or more is 71.0 % of trial B" in text
    assert "trial A" not in text


@pytest.mark.parametrize(("share", "expected"), [(0.5, []), (0.53, ["dominant_gap"])])
def test_gap_longer_than_half_of_a_trial_is_reported(compared, share, expected):
    head = 1_001_003
    pause = round(share / (1 - share) * head) - head // 50
    offsets = [n * head // 50 + (pause if n > 25 else 0) for n in range(51)]
    assert codes(compared(offsets, offsets)) == expected


@pytest.mark.parametrize(("first", "expected"), [([0, 1_237], ["dominant_gap"]), ([0], [])])
def test_gap_is_reported_in_a_trial_of_at_least_three_packets(compared, first, expected):
    """A trial of two packets has only one gap."""
    assert codes(compared([*first, 1_235_804], [*first, 1_235_805])) == expected


@pytest.mark.parametrize("words", [["--flow", "10.9.9.9,10.0.0.2"], ["--from", "5s"]])
def test_empty_selection_is_reported_on_standard_error_too(tmp_path, capsys, clean, words):
    assert main(["kappa", str(clean), str(clean), "--json", *words]) == 0
    message = capsys.readouterr()
    (warning,) = json.loads(message.out)["pairs"][0]["warnings"]
    assert warning["code"] == "empty_trial"
    assert f"None of the 200 frames read matches {' '.join(words)}." in warning["text"]
    note = "acapella: note: trials A, B are the same file (clean.pcap): kappa is 1\n"
    assert message.err == f"{note}acapella: warning: {warning['text']}\n"


def test_empty_trial_is_not_attributed_to_a_selection(compared):
    (empty,) = compared(steady(100), [], "--to", "1s")["warnings"]
    assert "--to" not in empty["text"]


def test_missing_first_packet_is_reported(compared):
    found = compared(steady(100), (steady(100)[1:], range(1, 100)))
    warning = only(found, "first_packet_missing")
    assert warning["components"] == ["L", "I"]
    assert found["offset_ns"] == -1_237
    assert "-1.24 µs" in warning["text"]
    assert found["L"] > 0
    assert found["L_offset_removed"] == 0
    assert found["I"] == float(Fraction(1, 99 + 98))
    assert "its whole gap counts as a difference in I" in warning["text"]


def test_equal_packets_are_reported_as_ambiguous(compared):
    warning = only(compared(steady(100), ([*steady(100), 100 * 1_237], [*range(100), 42])), "ambiguous_occurrences")
    assert "0 packets of A and 2 of B" in warning["text"]


def test_truncated_file_is_reported(tmp_path, capsys, clean):
    cut = write_file(tmp_path / "b.pcap", clean.read_bytes()[:-10])
    warning = only(pair(capsys, clean, cut), "cut_file")
    assert "b.pcap (truncated in the middle of a record)" in warning["text"]
    assert warning["components"] == ["U", "L", "I"]
    assert main(["kappa", str(clean), str(cut)]) == 0
    message = capsys.readouterr()
    assert message.out.splitlines()[1].endswith("b.pcap (truncated in the middle of a record)")
    assert message.err == ""


def test_decreasing_time_in_a_file_is_reported(compared):
    numbers = [*range(50), 51, 50, *range(52, 100)]
    found = compared(steady(100), ([steady(100)[n] for n in numbers], numbers))
    assert "1 packet of trial B" in only(found, "time_reversals")["text"]
    assert found["kappa"] == 1, "packets are sorted by time"


def test_frames_without_a_time_are_reported(tmp_path, capsys, clean):
    untimed = write_pcap(tmp_path / "b.pcap", [(0, packet(1_000)), *((START_NS + ns, packet(n)) for n, ns in STEADY)])
    found = pair(capsys, clean, untimed)
    assert codes(found) == ["first_packet_missing", "untimed_frames"]
    assert found["I"] > 0.99  # one gap of fifty years dominates


def test_packets_without_the_tag_are_reported(compared):
    text, _ = texts(compared(steady(100), steady(100), "--identity", "tag"), "without_identity")
    assert "(no tag was captured)" in text
    assert "cut" not in text  # no frame had a tag


def test_packets_truncated_to_a_few_bytes_are_reported(tmp_path, capsys, clean):
    (text,) = texts(pair(capsys, clean, write(tmp_path / "b.pcap", steady(100), snaplen=24)), "without_identity")
    assert "100 packets of trial B" in text
    assert "(the capture truncated them to a few bytes)" in text


@pytest.mark.parametrize("snaplen", [20, 60])
def test_snap_length_that_removed_tags_is_reported(tmp_path, capsys, snaplen):
    complete = write(tmp_path / "a.pcap", steady(9), make=tagged)
    cut = write(tmp_path / "b.pcap", steady(9), make=tagged, snaplen=snaplen)
    (text,) = texts(pair(capsys, complete, cut, "--identity", "tag"), "without_identity")
    assert "9 packets of trial B without the requested identity" in text
    assert "The capture truncated 9 frames of this trial: its snap length" in text


def test_warnings_are_in_each_affected_pair(tmp_path, capsys, clean):
    cut = write_file(tmp_path / "c.pcap", clean.read_bytes()[:-10])
    other = write(tmp_path / "b.pcap", [ns + ns % 3 for ns in steady(100)])
    found = kappa(capsys, clean, other, cut, "--all-pairs")["pairs"]
    assert [codes(entry) for entry in found] == [[], ["cut_file"], ["cut_file"]]


def test_schema_lists_every_warning_code():
    checks = [check.__name__ for check in (*warnings.PAIR_CHECKS, *warnings.TRIAL_CHECKS)]
    departure_codes = (warnings.FULL_QUEUE, warnings.NOT_IN_RECORDING, warnings.WIDE, warnings.OFFSET)
    known = json_schema("kappa")["$defs"]["warning"]["properties"]["code"]["enum"]
    assert sorted([*checks, baseline.CODE, *departure_codes]) == sorted(known)


def jittered(count: int, odd_by: int, run: int) -> list[int]:
    """Return offsets of a run: every third packet is late by ``odd_by`` ns, plus a little jitter."""
    return [ns + (n % 3 == 0) * odd_by + (n * 7 + run * 13) % 11 for n, ns in enumerate(steady(count))]


@pytest.mark.parametrize("odd", [0, 1, None])
def test_only_an_outlier_baseline_is_reported(tmp_path, capsys, odd):
    trials = [write(tmp_path / f"{k}.pcap", jittered(100, 400 * (k == odd), k)) for k in range(4)]
    pairs = kappa(capsys, *trials, "--all-pairs", "--name", "one", "two", "three", "four")["pairs"]
    assert [codes(entry) for entry in pairs] == [["odd_baseline"] * (odd == 0)] * 3 + [[]] * 3
    if odd == 0:
        reported = pairs[0]["warnings"][0]
        assert reported["components"] == ["L", "I"]
        assert "the baseline one is an outlier: kappa with it is 0." in reported["text"]
        assert "among two, three and four it is 0.99" in reported["text"]


def test_summary_without_all_pairs_cannot_identify_an_outlier(tmp_path, capsys):
    trials = [str(write(tmp_path / f"{k}.pcap", jittered(100, 400 * (k == 0), k))) for k in range(3)]
    assert [codes(entry) for entry in kappa(capsys, *trials)["pairs"]] == [[], []]
    assert main(["kappa", *trials]) == 0
    message = "Each trial is compared with A only: use --all-pairs to see if A itself is the outlier."
    assert message in capsys.readouterr().out
    assert main(["kappa", *trials, "--all-pairs"]) == 0
    assert message not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kappas", "odd"),
    [
        ((0.9, 0.9, 0.951), True),
        ((0.9, 0.9, 0.949), False),  # less than twice as far from 1
        ((0.8, 0.96, 0.95), False),  # another trial is as far from the rest
        ((0.9, 0.9, 1.0), True),
        ((0.0, 0.0, 0.9), True),  # no packet in common with the baseline
        ((0.9, None, 1.0), False),
        ((1.0, 1.0, 1.0), False),
    ],
)
def test_outlier_is_twice_as_far_from_the_others(kappas, odd):
    equal = {"warnings": [], "U": 0.0, "O": 0.0, "L": 0.0}
    ends = zip("AAB", "BCC", kappas, strict=True)
    pairs = [{"a": a, "b": b, "kappa": value, "I": value and 2 - 2 * value, **equal} for a, b, value in ends]
    found = [codes(pair) for pair in baseline.with_baseline_warning(pairs, ["A", "B", "C"])]
    assert found == ([["odd_baseline"], ["odd_baseline"], []] if odd else [[], [], []])
    assert baseline.with_baseline_warning(pairs[:1], ["A", "B"]) == pairs[:1]
