"""Properties of the JSON of `acapella kappa` that hold for any two trials."""

import gzip
import itertools
from fractions import Fraction

import pytest
from acapella_testing.frames.pcap_files import records
from acapella_testing.frames.trial_captures import START_NS, codes, kappa, pair, steady, write
from acapella_testing.new_files import write_file

ZERO = {"U": 0, "O": 0, "O_published": 0, "O_kendall": 0, "L": 0, "L_offset_removed": 0, "I": 0}


def part(entry: dict, names) -> dict:
    return {name: entry[name] for name in names}


@pytest.mark.parametrize("packets", [1, 2, 3, 50])
def test_trial_against_itself_is_consistent(tmp_path, capsys, packets):
    trial = write(tmp_path / "a.pcap", steady(packets))
    found = pair(capsys, trial, trial)
    assert part(found, ZERO) == ZERO
    assert (found["kappa"], found["kappa_published"], found["n_common"]) == (1, 1, packets)
    assert found["within_ns"] == {"10": 1}
    assert found["warnings"] == []


def test_one_lost_packet_of_ten_matches_the_papers_example(compared):
    found = compared(steady(10), (steady(10)[:4] + steady(10)[5:], [0, 1, 2, 3, 5, 6, 7, 8, 9]))
    assert found["U"] == float(Fraction(1, 19))
    assert part(found, ("O", "L", "n_a", "n_b", "n_common")) == {"O": 0, "L": 0, "n_a": 10, "n_b": 9, "n_common": 9}
    assert found["I"] == float(Fraction(1_237, 18 * 1_237))  # the packet after the lost one has twice the gap


@pytest.mark.parametrize("n", [2, 3, 7, 10, 101])
def test_reversed_trial_has_the_defined_moves(compared, n):
    found = compared(steady(n), (steady(n), range(n - 1, -1, -1)))
    distance = n * n // 2 - (n - 1)
    assert found["integers"]["order"]["distance"] == distance
    assert found["O"] == float(Fraction(2 * distance, n * (n + 1)))
    assert found["O_published"] == float(Fraction(2 * distance, (n - 1) * (n + 1)))
    assert (found["O_kendall"], found["moves"]["count"]) == (1, n - 1)


@pytest.mark.parametrize(("times", "by"), [(1, 2), (2, 1), (3, 1), (7, 5)])
def test_i_of_a_stretched_trial_follows_from_its_factor(compared, times, by):
    offsets = [n * n * 331 * by for n in range(40)]
    factor = Fraction(times, by)
    assert compared(offsets, [ns * times // by for ns in offsets])["I"] == float(abs(factor - 1) / (factor + 1))


def test_delaying_all_packets_but_the_first_changes_one_gap(compared):
    x = 777
    found = compared(steady(20), [0] + [ns + x for ns in steady(20)[1:]])
    assert found["I"] == float(Fraction(x, found["duration_a_ns"] + found["duration_b_ns"]))
    assert found["L"] == float(Fraction(19 * x, 20 * found["duration_b_ns"]))
    assert (found["offset_ns"], found["L_offset_removed"]) == (x, float(Fraction(x, 20 * found["duration_b_ns"])))
    assert found["within_ns"] == {"10": 19 / 20}


def test_components_are_symmetric_and_the_move_table_is_not(tmp_path, capsys):
    a = write(tmp_path / "a.pcap", steady(8))
    b = write(tmp_path / "b.pcap", [ns + ns // 7 for ns in steady(7)], [1, 2, 3, 0, 6, 7, 4])
    there, back = pair(capsys, a, b), pair(capsys, b, a)
    same = (*ZERO, "kappa", "kappa_published", "within_ns", "latency_delta_ns", "iat_delta_ns")
    assert part(there, same) == part(back, same)
    assert there["moves"]["count"] == back["moves"]["count"]
    assert there["offset_ns"] == -back["offset_ns"]
    assert there["moves"]["min"] == -back["moves"]["max"] != back["moves"]["min"]


@pytest.mark.soak
def test_order_of_all_permutations_up_to_7_matches_the_naive_reference(compared):
    """The order in a window depends only on its packets, so one pair of trials contains all 5,913 permutations."""
    from acapella_testing.oracles import naive_kappa  # noqa: PLC0415 - scapy is slow to import

    orders = [order for size in range(1, 8) for order in itertools.permutations(range(size))]
    length, offsets, in_b = 1_000, [], []
    for window, order in enumerate(orders):
        in_b += [len(offsets) + n for n in order]
        offsets += [window * length + 11 * n for n in range(len(order))]
    found = compared(offsets, (offsets, in_b), "--window", f"{length}ns")
    assert len(found["timeline"]) == len(orders)
    moves = [naive_kappa.moved(list(order)) for order in orders]
    distances = [sum(abs(a - b) for a, b in moved) for moved in moves]
    for order, distance, window in zip(orders, distances, found["timeline"], strict=True):
        n = len(order)
        assert window["O"] == float(Fraction(2 * distance, n * (n + 1)))
        assert window["O_kendall"] == float(Fraction(naive_kappa.inversions(list(order)), max(1, n * (n - 1) // 2)))
    assert found["integers"]["order"]["distance"] == sum(distances)
    assert found["moves"]["count"] == sum(map(len, moves))


@pytest.mark.parametrize("files", [2, 3])
@pytest.mark.parametrize("how", ["round robin", "cut"])
def test_file_order_of_a_trial_does_not_matter(tmp_path, capsys, compared, files, how):
    offsets, numbers = [ns // 3 for ns in steady(30)], [*range(10), 12, 11, 10, *range(13, 30)]
    expected, a, parts = compared(steady(30), (offsets, numbers)), tmp_path / "a.pcap", []
    for k in range(files):
        chosen = range(k, 30, files) if how == "round robin" else range(k * 30 // files, (k + 1) * 30 // files)
        parts.append(str(write(tmp_path / f"b{k}.pcap", [offsets[n] for n in chosen], [numbers[n] for n in chosen])))
    for order in itertools.permutations(parts):
        assert pair(capsys, a, ",".join(order)) == expected


def test_file_listed_twice_in_a_trial_is_an_error(tmp_path, capsys):
    from acapella.cli.main import main  # noqa: PLC0415

    a, again = (write(tmp_path / f"{name}.pcap", steady(3)) for name in ("a", "again"))
    assert main(["kappa", str(a), f"{a},{again}"]) == 2
    assert "a.pcap" in capsys.readouterr().err


def test_two_empty_trials_have_no_kappa(compared):
    found = compared([], [])
    undefined = ("O", "O_published", "O_kendall", "L", "L_offset_removed", "I", "kappa", "kappa_published", "offset_ns")
    assert part(found, undefined) == dict.fromkeys(undefined)
    assert (found["U"], found["within_ns"]) == (0, {"10": None})
    assert codes(found) == ["empty_trial"]


@pytest.mark.parametrize("numbers", [[], [7, 8, 9]])
def test_without_a_common_packet_kappa_is_0(compared, numbers):
    found = compared(steady(3), (steady(len(numbers)), numbers))
    assert (found["U"], found["kappa"], found["kappa_published"]) == (1, 0, 0)
    undefined = ("O", "O_published", "O_kendall", "L", "L_offset_removed", "I", "offset_ns")
    assert part(found, undefined) == dict.fromkeys(undefined)
    assert codes(found) == (["different_content"] if numbers else ["empty_trial"])


def test_trials_without_duration_are_equal_in_time(compared):
    found = compared([0, 0, 0], [5, 5, 5])
    assert part(found, ZERO) == ZERO
    assert found["kappa"] == 1
    assert codes(found) == ["coarse_clock", "coarse_clock"]


def test_i_is_1_if_only_one_trial_has_a_duration(compared):
    found = compared([0, 0, 0], [0, 10, 20])
    assert (found["I"], found["L"]) == (1, 0.5)


def test_compressed_and_pcapng_trials_have_the_same_result_as_pcap(tmp_path, capsys):
    from acapella_testing.frames.pcapng_files import write_stamped  # noqa: PLC0415 - scapy is slow to import

    a, b = write(tmp_path / "a.pcap", steady(9)), write(tmp_path / "b.pcap", [ns + ns % 5 for ns in steady(9)])
    plain = pair(capsys, a, b)
    assert pair(capsys, a, write_file(tmp_path / "b.pcap.gz", gzip.compress(b.read_bytes()))) == plain
    trace = [(ns, frame) for ns, _, frame in records(b.read_bytes())]
    assert pair(capsys, a, write_stamped(tmp_path / "b.pcapng", trace)) == plain


def test_first_trial_is_the_baseline_without_all_pairs(tmp_path, capsys):
    trials = [write(tmp_path / f"{n}.pcap", [ns + n * (ns % 7) for ns in steady(9)]) for n in range(4)]
    found = kappa(capsys, *trials)
    assert [(p["a"], p["b"]) for p in found["pairs"]] == [("A", "B"), ("A", "C"), ("A", "D")]
    every = kappa(capsys, *trials, "--all-pairs", "--name", "w", "x", "y", "z")
    assert [(p["a"], p["b"]) for p in every["pairs"]] == list(itertools.combinations("wxyz", 2))
    assert [t["name"] for t in every["trials"]] == list("wxyz")
    assert [p["I"] for p in every["pairs"][:3]] == [p["I"] for p in found["pairs"]]


def test_two_passes_with_little_memory_give_the_same_result(tmp_path, capsys):
    a = write(tmp_path / "a.pcap", steady(3_000))
    order = [*range(1_000), *range(1_700, 2_400), *range(1_000, 1_700), *range(2_402, 3_000)]
    b = write(tmp_path / "b.pcap", [ns + ns % 11 for ns in steady(len(order))], order)
    assert kappa(capsys, a, b, "--memory", "4K") == kappa(capsys, a, b)


def test_packets_that_moved_together_form_one_burst(compared):
    found = compared(steady(30), (steady(30), [*range(10), *range(15, 20), *range(10, 15), *range(20, 30)]))
    assert (found["moves"]["count"], found["bursts"]["count"], found["bursts"]["longest"]) == (5, 1, 5)
    assert abs(found["bursts"]["mean"]) == 5


def test_windows_show_when_packets_were_affected(compared):
    offsets = steady(1_000)
    late = [ns + (ns % 97) * 5 if 400 <= n < 420 else ns for n, ns in enumerate(offsets)]
    timeline = compared(offsets, late)["timeline"]
    assert len(timeline) == 50
    broken = {n for n, window in enumerate(timeline) if window["kappa"] < 1}
    assert broken
    assert broken <= {19, 20, 21}
    assert sum(window["n_a"] for window in timeline) == 1_000
    assert [w["from_ns"] for w in timeline[1:]] == [w["to_ns"] for w in timeline[:-1]]
    assert timeline[0]["from_ns"] == 0
    assert timeline[-1]["to_ns"] >= offsets[-1]


def test_mean_of_window_l_weighted_by_packets_is_l(compared):
    found = compared(steady(200), [ns + ns * ns % 613 for ns in steady(200)])
    mean = sum(w["L"] * w["n_common"] for w in found["timeline"] if w["n_common"]) / found["n_common"]
    assert mean == pytest.approx(found["L"], rel=1e-12)


def test_distant_timestamps_do_not_overflow(compared):
    found = compared([-START_NS, 0, 2_500_000_000 * 10**9 - START_NS], [-START_NS, 1, 2_500_000_000 * 10**9 - START_NS])
    assert found["duration_a_ns"] == 2_500_000_000 * 10**9
    assert found["I"] == float(Fraction(2, 5_000_000_000 * 10**9))


def test_schema_rejects_a_result_without_a_component(tmp_path, capsys):
    import jsonschema  # noqa: PLC0415

    from acapella_core.schemas import json_schema  # noqa: PLC0415

    a = write(tmp_path / "a.pcap", steady(3))
    result = kappa(capsys, a, a)
    del result["pairs"][0]["O_kendall"]
    with pytest.raises(jsonschema.ValidationError, match="O_kendall"):
        jsonschema.validate(result, json_schema("kappa"))
