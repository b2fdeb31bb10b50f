"""The native sums of a comparison match the naive reference and have the properties of any comparison."""

import itertools
import random
from fractions import Fraction
from pathlib import Path

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_frames import BASE_NS, disturbed, plain, sent
from acapella_testing.new_files import write_file
from acapella_testing.oracles import naive_kappa

from acapella.kappa import ratios
from acapella_core.errors import UserError
from acapella_core.kappa import compare


def pair_of(*trials, **options) -> dict:
    """Return the pair of the first two trials, each a path or a list of paths."""
    files = [trial if isinstance(trial, list) else [trial] for trial in trials]
    return compare(files, pairs=[(0, 1)], **options)["pairs"][0]


def comparison(tmp_path: Path, a: list, b: list, **options) -> dict:
    """Return the pair of two lists of packets."""
    return pair_of(write_pcap(tmp_path / "a.pcap", a), write_pcap(tmp_path / "b.pcap", b), **options)


def disturbed_pair(tmp_path: Path, seed: int, count: int, kinds: int | None = None, **options) -> tuple[dict, list]:
    """Return the pair of a trial and the same one after a network, and their files."""
    rng = random.Random(seed)
    first = sent(count, rng, kinds=kinds)
    files = [[write_pcap(tmp_path / "a.pcap", first)], [write_pcap(tmp_path / "b.pcap", disturbed(first, rng))]]
    return pair_of(*files, **options), files


def even(count: int, gap_ns: int = 1000) -> list[tuple[int, bytes]]:
    """Return packets at equal distances."""
    return [(BASE_NS + gap_ns * n, plain(n)) for n in range(count)]


def opposite(packets: list) -> list:
    """Return the packets in the opposite order, at the same times."""
    return [(ts_ns, frame) for (ts_ns, _), (_, frame) in zip(packets, reversed(packets), strict=True)]


def exact(pair: dict) -> dict:
    """Return U, O, L, I and the related measures as fractions."""
    return ratios.components(pair)


def kappa(pair: dict) -> float | None:
    """Return kappa, by equation 5."""
    return ratios.kappa(pair["n_a"], pair["n_b"], pair["n_common"], tuple(exact(pair)[n] for n in ratios.COMPONENTS))


@pytest.mark.parametrize("seed", range(12))
def test_core_matches_the_naive_computation(tmp_path, seed):
    count = random.Random(seed).randrange(1, 120)
    pair, files = disturbed_pair(tmp_path, seed, count, None if seed % 2 else 30, within_ns=(10, 1000), windows=7)
    a, b = naive_kappa.read_trials(files)
    slow = naive_kappa.compare(a, b, within_ns=(10, 1000))
    parts = exact(pair)
    for name in ("U", "O", "O_published", "O_kendall", "L", "L_offset_removed", "I"):
        assert parts[name] == slow[name], name
    for name in ("n_a", "n_b", "n_common", "offset_ns", "duration_a_ns", "duration_b_ns", "ambiguous_a", "ambiguous_b"):
        assert pair[name] == slow[name], name
    assert ratios.deltas(pair["gap"], pair["n_common"]) == slow["iat_delta_ns"]
    assert ratios.deltas(pair["latency"], pair["n_common"]) == slow["latency_delta_ns"]
    assert ratios.shares(pair["gap_within"], [10, 1000], pair["n_common"]) == slow["within_ns"]
    for name in ("moves", "bursts"):
        table = ratios.moments(pair[name]) | {"count": pair[name]["count"]}
        assert table == pytest.approx({key: slow[name][key] for key in table}), name
    assert pair["bursts"]["longest"] == slow["bursts"]["longest"]
    for entry in pair["windows"]:
        found = ratios.window(entry, max(pair["duration_a_ns"], pair["duration_b_ns"]))
        expected = naive_kappa.window(a, b, entry["from_ns"], entry["to_ns"])
        assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_windows_sum_to_the_whole_trial(tmp_path):
    pair, _ = disturbed_pair(tmp_path, 5, 300, windows=9)
    for name in ("n_a", "n_b", "n_common"):
        assert sum(entry[name] for entry in pair["windows"]) == pair[name]
    assert sum(entry["latency_sum"] for entry in pair["windows"]) == pair["latency"]["sum"]
    assert sum(entry["gap_sum"] for entry in pair["windows"]) == pair["gap"]["sum"]
    for name in "ab":
        assert sum(entry[f"gaps_{name}_sum"] for entry in pair["windows"]) == pair[f"duration_{name}_ns"]


def filled(spacing: dict) -> dict[int, tuple[int, int]]:
    """Return (pairs, reversed) of the bins that contain pairs."""
    counts = [tuple(spacing["zero"]), *zip(spacing["pairs"], spacing["reversed"], strict=True)]
    return {n: pair for n, pair in enumerate(counts) if pair[0]}


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0])
@pytest.mark.parametrize("seed", range(6))
def test_reversed_pairs_by_spacing_match_all_pairs(tmp_path, seed, memory_bytes):
    count = random.Random(seed).randrange(1, 400)
    pair, files = disturbed_pair(tmp_path, seed, count, None if seed % 2 else 30, memory_bytes=memory_bytes)
    a, b = naive_kappa.read_trials(files)
    assert filled(pair["spacing"]) == naive_kappa.spacing_bins(a, b)
    assert tuple(pair["spacing"]["distances"]) == naive_kappa.DISTANCES


def test_opposite_order_reverses_every_pair(tmp_path):
    packets = even(5000, 300)
    spacing = comparison(tmp_path, packets, opposite(packets))["spacing"]
    pairs = [5000 - distance for distance in naive_kappa.DISTANCES]
    assert [count for count in spacing["pairs"] if count] == pairs
    assert spacing["reversed"] == spacing["pairs"]
    assert comparison(tmp_path, packets, packets)["spacing"]["reversed"] == [0] * 56


def test_histograms_count_every_common_packet(tmp_path):
    pair, _ = disturbed_pair(tmp_path, 6, 200)
    for histogram in (pair["histograms"][kind] for kind in ("gap", "latency")):
        assert histogram["zero"] + sum(histogram["negative"]) + sum(histogram["positive"]) == pair["n_common"]
        assert histogram["starts_ns"][::5] == [10**k for k in range(12)]


@pytest.mark.parametrize("count", [1, 2, 500])
def test_trial_with_itself_is_consistent(tmp_path, count):
    packets = sent(count, random.Random(count))
    assert kappa(comparison(tmp_path, packets, packets)) == 1


def test_one_lost_packet_of_ten(tmp_path):
    assert exact(comparison(tmp_path, even(10), even(10)[:4] + even(10)[5:]))["U"] == Fraction(1, 19)


@pytest.mark.parametrize("count", [2, 3, 10, 1001])
def test_reversed_trial_in_the_core(tmp_path, count):
    pair = comparison(tmp_path, even(count), opposite(even(count)))
    assert pair["order"]["distance"] == count * count // 2 - (count - 1)
    assert exact(pair)["O_kendall"] == 1


@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(2), Fraction(7, 2)])
def test_stretched_time(tmp_path, factor):
    offsets = [0, 600, 1800, 1800, 6000, 60000]
    a = [(BASE_NS + ns, plain(n)) for n, ns in enumerate(offsets)]
    b = [(BASE_NS + int(ns * factor), plain(n)) for n, ns in enumerate(offsets)]
    assert exact(comparison(tmp_path, a, b))["I"] == abs(factor - 1) / (factor + 1)


def test_all_but_the_first_delayed(tmp_path):
    a, delay = even(50), 777
    pair = comparison(tmp_path, a, a[:1] + [(ts_ns + delay, frame) for ts_ns, frame in a[1:]])
    assert exact(pair)["I"] == Fraction(delay, pair["duration_a_ns"] + pair["duration_b_ns"])


def test_order_of_a_trials_files_does_not_matter(tmp_path):
    rng = random.Random(8)
    first = sent(200, rng)
    second = disturbed(first, rng)
    shards = [write_pcap(tmp_path / f"b{k}.pcap", [p for n, p in enumerate(second) if n % 3 == k]) for k in range(3)]
    a = write_pcap(tmp_path / "a.pcap", first)
    assert pair_of(a, shards) == pair_of(a, shards[::-1]) == pair_of(a, [shards[1], shards[0], shards[2]])


def test_split_points_between_files_do_not_matter(tmp_path):
    rng = random.Random(9)
    first = [(ts_ns + n, frame) for n, (ts_ns, frame) in enumerate(sent(120, rng))]  # all times differ
    a, whole = write_pcap(tmp_path / "a.pcap", first), write_pcap(tmp_path / "whole.pcap", first)
    for points in ([40], [1, 2, 119], [60, 90]):
        bounds = itertools.pairwise([0, *points, len(first)])
        parts = [write_pcap(tmp_path / f"{begin}.pcap", first[begin:end]) for begin, end in bounds]
        assert pair_of(a, parts) == pair_of(a, whole)


def test_decreasing_timestamps_are_sorted_and_counted(tmp_path):
    swapped = [even(6)[n] for n in (0, 2, 1, 3, 5, 4)]
    files = [[write_pcap(tmp_path / "a.pcap", even(6))], [write_pcap(tmp_path / "b.pcap", swapped)]]
    result = compare(files, pairs=[(0, 1)])
    assert kappa(result["pairs"][0]) == 1
    assert [trial["reversals_in_file"] for trial in result["trials"]] == [0, 2]


@pytest.mark.parametrize(("n_a", "n_b"), [(0, 0), (0, 3), (3, 0)])
def test_empty_trials(tmp_path, n_a, n_b):
    pair = comparison(tmp_path, even(n_a), even(n_b), windows=5)
    assert (pair["n_a"], pair["n_b"], pair["n_common"]) == (n_a, n_b, 0)
    assert pair["latency"]["median"] is None
    assert kappa(pair) == (None if n_a + n_b == 0 else 0)


def test_equal_timestamps_and_clock_grid_are_reported(tmp_path):
    packets = [(BASE_NS + 5000 * (n // 2), plain(n)) for n in range(10)]
    trial = compare([[write_pcap(tmp_path / "a.pcap", packets)]], pairs=[])["trials"][0]
    assert (trial["equal_stamps"], trial["resolution_ns"]) == (5, 1000)


def test_truncated_file_keeps_its_complete_packets(tmp_path):
    path = write_pcap(tmp_path / "a.pcap", sent(10, random.Random(1)))
    path.write_bytes(path.read_bytes()[:-5])
    trial = compare([[path]], pairs=[])["trials"][0]
    assert (trial["packets"], trial["files"][0]["end"]) == (9, "cut_record")


def test_unreadable_file_error_names_the_file(tmp_path):
    with pytest.raises(UserError, match=r"note\.txt"):
        compare([[write_file(tmp_path / "note.txt", "no capture")]], pairs=[])
    with pytest.raises(UserError, match=r"gone\.pcap"):
        compare([[tmp_path / "gone.pcap"]], pairs=[])


def test_core_rejects_a_file_listed_twice(tmp_path):
    copies = [write_pcap(tmp_path / f"{name}.pcap", sent(3, random.Random(1))) for name in "ab"]
    with pytest.raises(UserError, match="the same file"):
        compare([copies], pairs=[])
