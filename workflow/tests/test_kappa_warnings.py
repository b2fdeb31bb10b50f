"""`acapella kappa` refuses to flatter: each flaw of the captures is named, with the components that it touches."""

import pytest
from plain_flows import write_pcap
from trial_captures import START_NS, codes, kappa, packet, pair, steady, write

from acapella.consistency import warnings
from acapella_core.schemas import json_schema

LATE = list(enumerate(steady(100)))


def only(entry: dict, code: str) -> dict:
    """The warning of this code, the only one that there is."""
    assert codes(entry) == [code]
    return entry["warnings"][0]


@pytest.fixture
def clean(tmp_path):
    """A trial without a flaw."""
    return write(tmp_path / "clean.pcap", steady(100))


def test_clean_trials_have_none(tmp_path, capsys, clean):
    other = write(tmp_path / "b.pcap", [ns + ns % 13 for ns in steady(100)], [*range(50), 51, 50, *range(52, 100)])
    assert pair(capsys, clean, other)["warnings"] == []


def test_a_microsecond_grid_is_named(tmp_path, capsys, clean):
    coarse = write_pcap(
        tmp_path / "b.pcap",
        [((START_NS + ns) // 1000 * 1000, packet(n)) for n, ns in enumerate(steady(100))],
    )
    warning = only(pair(capsys, clean, coarse), "coarse_clock")
    assert warning["components"] == ["O", "L", "I"]
    assert "trial B" in warning["text"] and "b.pcap are multiples of 1 µs" in warning["text"]


def test_one_coarse_file_of_a_trial_is_named(tmp_path, capsys, clean):
    fine = write(tmp_path / "fine.pcap", steady(100)[::2], range(0, 100, 2))
    stamps = [(START_NS + ns) // 1000 * 1000 for ns in steady(100)[1::2]]
    coarse = write_pcap(tmp_path / "coarse.pcap", [(ns, packet(2 * n + 1)) for n, ns in enumerate(stamps)])
    warning = only(pair(capsys, clean, f"{fine},{coarse}"), "coarse_clock")
    assert "coarse.pcap" in warning["text"] and "fine.pcap" not in warning["text"]


def test_many_equal_stamps_are_named(tmp_path, capsys, clean):
    equal = [ns // (4 * 1_237) * 4 * 1_237 for ns in steady(100)]
    warning = only(pair(capsys, clean, write(tmp_path / "b.pcap", equal)), "coarse_clock")
    assert "75 packets (75.8 %)" in warning["text"]


def test_a_few_equal_stamps_are_not(tmp_path, capsys):
    offsets = steady(1_000)
    offsets[500] = offsets[499]
    a = write(tmp_path / "a.pcap", steady(1_000))
    assert pair(capsys, a, write(tmp_path / "b.pcap", offsets))["warnings"] == []


def test_truncated_identity_is_named_with_the_bytes_left(tmp_path, capsys, clean):
    cut = write(tmp_path / "b.pcap", steady(100), snaplen=52)
    warning = only(pair(capsys, clean, cut), "truncated_identity")
    assert "cut 100 packets of trial B, so" in warning["text"] and "first 38 bytes" in warning["text"]


def test_a_pair_is_told_that_a_third_trial_cut_its_packets(tmp_path, capsys, clean):
    cut = write(tmp_path / "c.pcap", steady(100), snaplen=52)
    found = kappa(capsys, clean, clean, cut, "--all-pairs")["pairs"]
    assert [codes(entry) for entry in found] == [["truncated_identity"]] * 3
    assert "cut packets of another trial" in found[0]["warnings"][0]["text"]


def test_packets_that_differ_behind_the_cut_are_ambiguous(tmp_path, capsys):
    cut = [write(tmp_path / f"{k}.pcap", steady(9), snaplen=42) for k in range(2)]
    found = pair(capsys, cut[0], cut[0])
    assert codes(found) == ["ambiguous_occurrences", "truncated_identity"]
    assert (found["ambiguous_a"], found["ambiguous_b"]) == (9, 9)


@pytest.mark.parametrize("common", [0, 3])
def test_trials_of_different_content_are_named(tmp_path, capsys, clean, common):
    numbers = [0, *range(1_000, 1_098), 1]
    numbers[:common] = range(common)
    if not common:
        numbers = range(1_000, 1_100)
    found = pair(capsys, clean, write(tmp_path / "b.pcap", steady(100), numbers))
    assert "different_content" in codes(found)
    assert found["warnings"][0]["components"] == ["U", "O", "L", "I"]


def test_a_first_packet_that_the_other_trial_lacks_is_named(tmp_path, capsys, clean):
    late = write(tmp_path / "b.pcap", steady(100)[1:], range(1, 100))
    found = pair(capsys, clean, late)
    warning = only(found, "first_packet_missing")
    assert warning["components"] == ["L"]
    assert found["offset_ns"] == -1_237 and "-1237 ns" in warning["text"]
    assert found["L"] > 0 and found["L_offset_removed"] == 0


def test_equal_packets_are_named_as_ambiguous(tmp_path, capsys, clean):
    twice = write(tmp_path / "b.pcap", [*steady(100), 100 * 1_237], [*range(100), 42])
    warning = only(pair(capsys, clean, twice), "ambiguous_occurrences")
    assert "0 packets of A and 2 of B" in warning["text"]


def test_a_cut_file_is_named(tmp_path, capsys, clean):
    cut = tmp_path / "b.pcap"
    cut.write_bytes(clean.read_bytes()[:-10])
    warning = only(pair(capsys, clean, cut), "cut_file")
    assert "b.pcap" in warning["text"] and warning["components"] == ["U", "L", "I"]


def test_time_that_goes_backwards_in_a_file_is_named(tmp_path, capsys, clean):
    offsets = steady(100)
    offsets[50], offsets[51] = offsets[51], offsets[50]
    numbers = [*range(50), 51, 50, *range(52, 100)]
    warning = only(pair(capsys, clean, write(tmp_path / "b.pcap", offsets, numbers)), "time_reversals")
    assert "1 packet of trial B" in warning["text"]


def test_frames_without_a_time_are_named(tmp_path, capsys, clean):
    untimed = write_pcap(tmp_path / "b.pcap", [(0, packet(1_000)), *((START_NS + ns, packet(n)) for n, ns in LATE)])
    found = pair(capsys, clean, untimed)
    assert codes(found) == ["first_packet_missing", "untimed_frames"]
    assert found["I"] > 0.99  # one gap of fifty years, whatever the network did


def test_packets_without_the_tag_are_named(tmp_path, capsys, clean):
    found = pair(capsys, clean, clean, "--identity", "tag")
    assert "without_identity" in codes(found)


def test_flaws_stand_with_each_pair_that_they_touch(tmp_path, capsys, clean):
    cut = tmp_path / "c.pcap"
    cut.write_bytes(clean.read_bytes()[:-10])
    other = write(tmp_path / "b.pcap", [ns + ns % 3 for ns in steady(100)])
    found = kappa(capsys, clean, other, cut, "--all-pairs")["pairs"]
    assert [codes(entry) for entry in found] == [[], ["cut_file"], ["cut_file"]]


def test_the_schema_knows_every_code():
    checks = [*warnings.PAIR_CHECKS, *warnings.TRIAL_CHECKS]
    known = json_schema("kappa")["$defs"]["warning"]["properties"]["code"]["enum"]
    assert sorted(check.__name__ for check in checks) == sorted(known)
