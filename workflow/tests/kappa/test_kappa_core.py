"""The native sums of a comparison match the naive reference and have the properties of any comparison."""

import random
from pathlib import Path

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_frames import BASE_NS, disturbed, plain, sent
from acapella_testing.oracles import naive_kappa

from acapella.kappa import ratios
from acapella_core.kappa import compare


def pair_of(*trials, **options) -> dict:
    """Return the pair of the first two trials, each a path or a list of paths."""
    files = [trial if isinstance(trial, list) else [trial] for trial in trials]
    return compare(files, pairs=[(0, 1)], **options)["pairs"][0]


def disturbed_pair(tmp_path: Path, seed: int, count: int, kinds: int | None = None, **options) -> tuple[dict, list]:
    """Return the pair of a trial and the same trial disturbed by a network, and the files of both."""
    rng = random.Random(seed)
    first = sent(count, rng, kinds=kinds)
    files = [[write_pcap(tmp_path / "a.pcap", first)], [write_pcap(tmp_path / "b.pcap", disturbed(first, rng))]]
    return pair_of(*files, **options), files


@pytest.mark.parametrize("seed", range(12))
def test_core_matches_the_naive_computation(tmp_path, seed):
    count = random.Random(seed).randrange(1, 120)
    pair, files = disturbed_pair(tmp_path, seed, count, None if seed % 2 else 30, within_ns=(10, 1000), windows=7)
    a, b = naive_kappa.read_trials(files)
    slow = naive_kappa.compare(a, b, within_ns=(10, 1000))
    parts = ratios.components(pair)  # as fractions
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
    there, back = (
        write_pcap(tmp_path / f"{first}.pcap", [(BASE_NS + 300 * n, plain(abs(n - first))) for n in range(5000)])
        for first in (0, 4999)
    )
    spacing = pair_of(there, back)["spacing"]
    assert [count for count in spacing["pairs"] if count] == [5000 - distance for distance in naive_kappa.DISTANCES]
    assert spacing["reversed"] == spacing["pairs"]
    assert pair_of(there, there)["spacing"]["reversed"] == [0] * 56


def test_histograms_count_every_common_packet(tmp_path):
    pair, _ = disturbed_pair(tmp_path, 6, 200)
    for histogram in pair["histograms"].values():
        assert histogram["zero"] + sum(histogram["negative"]) + sum(histogram["positive"]) == pair["n_common"]
        assert histogram["starts_ns"][::5] == [10**k for k in range(12)]


def test_file_order_of_a_trial_does_not_matter(tmp_path):
    rng = random.Random(8)
    first = sent(200, rng)
    second = disturbed(first, rng)
    shards = [write_pcap(tmp_path / f"b{k}.pcap", second[k::3]) for k in range(3)]
    a = write_pcap(tmp_path / "a.pcap", first)
    assert pair_of(a, shards) == pair_of(a, shards[::-1]) == pair_of(a, [shards[1], shards[0], shards[2]])


def test_truncated_file_keeps_its_complete_packets(tmp_path):
    path = write_pcap(tmp_path / "a.pcap", sent(10, random.Random(1)))
    path.write_bytes(path.read_bytes()[:-5])
    trial = compare([[path]], pairs=[])["trials"][0]
    assert (trial["packets"], trial["files"][0]["end"]) == (9, "cut_record")
