"""Tests the tables of the consistency of trials, from results of acapella kappa: numbers, nulls, names."""

import json
import re
import statistics
from itertools import combinations
from operator import itemgetter

import pyarrow.parquet as pq
import pytest
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_trials import shapes, write_replays, write_results
from acapella_testing.new_files import write_file, write_json

from acapella.campaign import trial_tables
from acapella.campaign.trial_tables import TABLES, bins
from acapella.cli import main as cli

ENVIRONMENTS = [*shapes(1)]
HEADER = "sample\tsite\tport\ttrue_sample\ttrue_site\ttrue_port\n"  # of the mapping of pseudonyms


@pytest.fixture
def results(tmp_path):
    """Return three environments of four runs, with every pair compared."""
    return write_results(tmp_path / "made", shapes(4), all_pairs=True)


def make(directory, *arguments, environments=ENVIRONMENTS) -> dict[str, list[dict]]:
    """Run the stage; return the rows of each table."""
    assert cli.main(["campaign", "trials", str(directory), *arguments, "--environments", *environments]) == 0
    return {name: pq.read_table(directory / "tables" / f"{name}.parquet").to_pylist() for name in TABLES}


def test_environments_are_means_over_the_runs_against_the_first_trial(results):
    rows = make(results)
    noisy = rows["consistency_environments"][1]
    assert [(row["place"], row["environment"]) for row in rows["consistency_environments"]] == [
        *enumerate(ENVIRONMENTS, 1)
    ]
    pairs = [row for row in rows["consistency"] if row["environment"] == "noisy"]
    runs = [row for row in pairs if row["a"] == 1]
    assert [row["b"] for row in runs] == [2, 3, 4, 5]
    assert (noisy["trials"], noisy["samples"], noisy["runs"], noisy["undefined_runs"]) == (5, 5, 4, 0)
    means = {name: statistics.fmean(row[name] for row in runs) for name in trial_tables.MEANS}
    assert {name: noisy[name] for name in means} == pytest.approx(means)
    assert (noisy["kappa_min"], noisy["kappa_max"]) == (runs[3]["kappa"], runs[0]["kappa"])
    others = [row["kappa"] for row in pairs if row["a"] > 1]
    assert len(others) == 6
    assert noisy["kappa_others"] == pytest.approx(statistics.fmean(others))
    assert noisy["packets_common"] == sum(row["packets_common"] for row in runs)
    assert noisy["within_ns"] == 10


def test_pairs_of_trials_have_rows_in_the_tables(results):
    rows = make(results)
    pairs = {pair_of(row) for row in rows["consistency"]}
    assert len(pairs) == 3 * 10
    tables = ("consistency_within", "consistency_moves", "consistency_timeline", "consistency_deltas")
    assert [name for name in tables if {pair_of(row) for row in rows[name]} != pairs] == []
    assert {row["environment"] for row in rows["consistency_warnings"]} == {"noisy"}


def pair_of(row) -> tuple:
    """Return the pair of trials that a row describes."""
    return row["environment"], row["a"], row["b"]


def test_histograms_contain_every_common_packet_and_shares_add_up(results):
    rows = make(results)
    for pair in rows["consistency"]:
        deltas = [row for row in rows["consistency_deltas"] if pair_of(row) == pair_of(pair)]
        for measure in ("iat", "latency"):
            own = [row for row in deltas if row["measure"] == measure]
            assert sum(row["packets"] for row in own) == pair["packets_common"]
            assert sum(row["share"] for row in own) == pytest.approx(1)
            assert [row["bin"] for row in own] == sorted({row["bin"] for row in own})


def test_bins_meet_without_gap_or_overlap_and_the_outermost_have_no_end():
    counts = {"zero": 9, "negative": [0] * 6, "positive": [1] * 6, "starts_ns": [1, 2, 3, 4, 7, 10]}
    made = sorted(bins(counts), key=lambda b: b["bin"])
    assert [row["bin"] for row in made] == [*range(-6, 7)]
    assert [row["hi_ns"] + 1 for row in made[:-1]] == [following["lo_ns"] for following in made[1:]]
    assert (made[0]["lo_ns"], made[0]["hi_ns"], made[-1]["lo_ns"], made[-1]["hi_ns"]) == (None, -10, 10, None)
    assert [row["packets"] for row in made] == [0] * 6 + [9] + [1] * 6


@pytest.mark.soak
def test_moves_have_the_layout_of_table_1(results):
    rows = make(results)["consistency_moves"]
    packet = next(row for row in rows if (row["environment"], row["scope"]) == ("noisy", "packet"))
    assert (packet["moved"], packet["longest"]) == (900, None)
    assert (packet["mean"], packet["sigma"]) == (1790.54, 8111.16)
    assert (packet["abs_mean"], packet["abs_sigma"]) == (7240.23, 4071.35)
    assert (packet["min"], packet["max"]) == (-5632, 16573)
    still = next(row for row in rows if row["environment"] == "quiet")
    assert (still["moved"], still["mean"], still["max"]) == (0, None, None)


def test_undefined_components_are_null_and_excluded_from_means(tmp_path):
    directory = write_results(tmp_path / "made", {"quiet": [{"I": 0.2}, {"common": 0}], "lost": [{"common": 0}]})
    quiet, lost = make(directory, environments=["quiet", "lost"])["consistency_environments"]
    assert (quiet["undefined_runs"], quiet["I"], quiet["U"]) == (1, 0.2, 0.5)
    assert quiet["kappa"] == pytest.approx(0.9 / 2)  # kappa is 0 by convention if no packet is in common
    assert (lost["I"], lost["iat_within_share"], lost["kappa"]) == (None, None, 0)
    assert "NaN" not in (directory / "tables" / "consistency_environments.csv").read_text(encoding="utf-8")


LARGE_GAP, SMALL_GAP = {"largest_gap_ns": 501}, {"largest_gap_ns": 500}  # the median gap is 500 ns


@pytest.mark.soak
def test_trials_whose_sender_lost_the_cpu_are_marked(results):
    silent = {"largest_gap_ns": None, "median_gap_ns": None}
    # quiet-5 was not replayed
    write_replays(results, {"quiet-1": SMALL_GAP, "quiet-2": LARGE_GAP, "quiet-3": silent, "quiet-4": LARGE_GAP})
    rows = make(results)
    replays = rows["consistency_replays"]
    assert [(row["trial"], row["cpu_lost"]) for row in replays] == [(1, False), (2, True), (3, None), (4, True)]
    assert {row["environment"] for row in replays} == {"quiet"}
    assert replays[1]["path"] == "shared"
    assert replays[1]["rate_bps"] == 50_000_000
    quiet = [row for row in rows["consistency"] if row["environment"] == "quiet"]
    known = {(row[end], row[f"cpu_lost_{end}"]) for row in quiet for end in "ab"}
    assert known == {(1, False), (2, True), (3, None), (4, True), (5, None)}
    assert [row["cpu_lost_trials"] for row in rows["consistency_environments"]] == [2, None, None]


def test_kappa_of_replayer_and_path_is_null_without_departures(tmp_path):
    runs = [{"replayer": 0.9, "path": (0.97, 0.98)}, {"replayer": 0.8, "path": (0.95, 0.98)}, {}]
    rows = make(write_results(tmp_path / "made", {"quiet": runs}), environments=["quiet"])
    columns = itemgetter("kappa_replayer", "path_kappa_lo", "path_kappa_hi")
    assert [*map(columns, rows["consistency"])] == [(0.9, 0.97, 0.98), (0.8, 0.95, 0.98), (None, None, None)]
    assert [*map(columns, rows["consistency_environments"])] == [pytest.approx((0.85, 0.96, 0.98))]


def test_each_trial_has_its_order_of_replayers(results):
    write_replays(results, {f"quiet-{n}": {"replayers": 2} for n in (1, 2, 3)})
    orders = {
        f"quiet-{n}": {"pairs": 100, "reversed": 10 + n, "unexplained": n, "sent_in_order": 5 + n} for n in (1, 2)
    }

    def add(pair: dict) -> None:
        pair["replayer"] = {"kappa": 1, "order_a": orders.get(pair["a"]), "order_b": orders.get(pair["b"])}

    change_result(results, "quiet", lambda found: [*map(add, found["pairs"])])
    columns = itemgetter("replayer_pairs", "reversed_pairs", "unexplained_pairs", "sent_in_order_pairs")
    assert [*map(columns, make(results)["consistency_replays"])] == [
        (100, 11, 1, 6),
        (100, 12, 2, 7),
        (None, None, None, None),
    ]


def test_arrival_error_is_taken_from_the_comparison(tmp_path):
    directory = write_results(tmp_path / "made", {"quiet": [{"replayer": 0.9, "path": (0.97, 0.98)}]})
    assert [row["arrival_error_ns"] for row in make(directory, environments=["quiet"])["consistency"]] == [None]
    change_result(directory, "quiet", lambda found: found["parameters"].update(replay={"arrival_error_ns": 25}))
    assert [row["arrival_error_ns"] for row in make(directory, environments=["quiet"])["consistency"]] == [25]


def error_of(capsys, directory, *options, environments=ENVIRONMENTS) -> str:
    """Run the stage, which must fail; return its error message, which is one line."""
    return failed(capsys, "campaign", "trials", directory, *options, "--environments", *environments)


def change_result(directory, environment, change) -> None:
    """Rewrite a result of acapella kappa after calling ``change`` with its content."""
    content = result_of(directory, "kappa", environment)
    change(content)
    write_json(directory / "kappa" / f"{environment}.json", content)


def result_of(directory, part, name) -> dict:
    """Return a result as acapella kappa wrote it (part `kappa`), or as the stage publishes it (`consistency`)."""
    return json.loads((directory / part / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", ["{", '{"replay": {"sender": "x"}}', '{"replay": []}'])
def test_invalid_manifest_of_a_trial_is_an_error_that_names_it(results, capsys, text):
    write_replays(results, {"quiet-1": {}})
    (results / "raw" / "quiet-1.json").write_text(text)
    assert "raw/quiet-1.json: not a manifest in the format of this version" in error_of(capsys, results)


def test_pseudonyms_hide_samples_and_their_files_even_in_warnings(results):
    with_pseudonyms(results)
    set_warning(results, "noisy", "trial noisy-1 is bad: noisy-1.pcap was cut; noisy-10 is no trial. So is noisy-2.")
    rows = make(results, "--pseudonyms")
    assert rows["consistency"][0]["trial_a"].startswith("S0-P0-")
    assert rows["consistency_warnings"][0]["text"] == (
        "trial S0-P0-0005 is bad: a file of S0-P0-0005 was cut; noisy-10 is no trial. So is S0-P0-0006."
    )
    assert {row["environment"] for row in rows["consistency"]} == {"E0", "E1", "E2"}
    assert [path.stem for path in sorted((results / "consistency").iterdir())] == ["E0", "E1", "E2"]
    assert re.findall(r"noisy-2|\bquiet\b|\bnoisy\b(?!-10)", published(results)) == []


@pytest.mark.soak
def test_pseudonyms_of_environments_remove_results_under_true_names(results):
    make(results)
    with_pseudonyms(results)
    make(results, "--pseudonyms")
    assert {path.stem for path in (results / "consistency").iterdir()} == {"E0", "E1", "E2"}


@pytest.mark.parametrize("hide", [True, False])
def test_pseudonyms_hide_filters_and_flows_which_may_contain_addresses(results, hide):
    with_pseudonyms(results)
    used = {"filter": "ip.addr == 203.0.113.7", "flow": "203.0.113.7,203.0.113.8"}
    change_result(results, "noisy", lambda result: result["parameters"].update(used))
    given = "--filter ip.addr == 203.0.113.7 and --flow 203.0.113.7,203.0.113.8"
    set_warning(results, "noisy", f"None of the 9 frames read matches {given}.")
    rows = make(results, *["--pseudonyms"] * hide)
    names = ["E0", "E1", "E2"] if hide else ENVIRONMENTS
    quiet, noisy, _ = (result_of(results, "consistency", name) for name in names)
    assert (noisy["parameters"]["filter"] == "(a filter)") == hide
    assert (noisy["parameters"]["flow"] == "(a flow)") == hide
    assert (
        rows["consistency_warnings"][0]["text"]
        == f"None of the 9 frames read matches {'--filter (a filter) and --flow (a flow)' if hide else given}."
    )
    assert ("203.0.113" in published(results)) == (not hide)
    assert quiet["parameters"].get("filter") is None


def published(directory) -> str:
    """Return the content of the text files that the stage writes."""
    patterns = ("tables/*.csv", "consistency/*.json", "provenance/consistency.json")
    return "\n".join(path.read_text(encoding="utf-8") for pattern in patterns for path in directory.glob(pattern))


@pytest.mark.soak
def test_published_result_differs_from_that_of_the_command_only_in_pseudonyms(results):
    make(results)
    assert [result_of(results, "consistency", name) for name in ENVIRONMENTS] == [
        result_of(results, "kappa", name) for name in ENVIRONMENTS
    ]
    with_pseudonyms(results)
    make(results, "--pseudonyms")
    hidden, recorded = result_of(results, "consistency", "E1"), result_of(results, "kappa", "noisy")
    names = [f"S0-P0-{n:04d}" for n in range(5, 10)]
    assert [trial["name"] for trial in hidden["trials"]] == names
    assert [file["file"] for trial in hidden["trials"] for file in trial["files"]] == names
    assert [pair["kappa"] for pair in hidden["pairs"]] == [pair["kappa"] for pair in recorded["pairs"]]
    assert {pair[end] for pair in hidden["pairs"] for end in "ab"} <= set(names)


def with_pseudonyms(directory) -> None:
    """Write the mapping of pseudonyms that acapella campaign process creates."""
    names = [f"{environment}-{n}" for environment in ENVIRONMENTS for n in range(1, 6)]
    lines = "".join(f"S0-P0-{n:04d}\tS0\tP0\t{name}\talpha\tp1\n" for n, name in enumerate(names))
    (directory / "pseudonyms.tsv").write_text(HEADER + lines, encoding="utf-8")


def set_warning(directory, environment, text):
    """Set the text of the first warning of each pair of an environment."""
    change_result(
        directory, environment, lambda made: [pair["warnings"][0].update(text=text) for pair in made["pairs"]]
    )


def test_same_results_give_the_same_bytes(tmp_path):
    for name in "ab":
        make(write_results(tmp_path / name / "made", shapes(2)))
    patterns = ("made/tables/*", "made/provenance/*")
    first, second = ({path.name: path.read_bytes() for p in patterns for path in (tmp_path / n).glob(p)} for n in "ab")
    assert first == second
    assert "consistency.json" in first
    assert len(first) > len(TABLES)


@pytest.mark.parametrize(
    ("content", "printed"),
    [(None, "no such file; run: acapella kappa"), ("{}", "not a result of acapella kappa -o"), ("x", "not a res")],
)
def test_missing_or_invalid_result_is_reported_in_one_line(content, printed, tmp_path, capsys):
    if content is not None:
        write_file(tmp_path / "kappa" / "quiet.json", content)
    assert printed in error_of(capsys, tmp_path, environments=["quiet"])


def test_sample_without_pseudonym_is_reported_in_one_line(results, capsys):
    (results / "pseudonyms.tsv").write_text(HEADER, encoding="utf-8")
    assert "sample 'quiet-1' has no pseudonym" in error_of(capsys, results, "--pseudonyms")


def test_spacings_keep_every_pair_of_packets_in_its_bin(results):
    rows = make(results)["consistency_spacing"]
    assert rows
    recorded = {name: result_of(results, "kappa", name) for name in ENVIRONMENTS}
    names = {name: [trial["name"] for trial in found["trials"]] for name, found in recorded.items()}
    for environment, pair in [(name, pair) for name, found in recorded.items() for pair in found["pairs"]]:
        place = [names[environment].index(pair[end]) + 1 for end in "ab"]
        own, counted = [row for row in rows if pair_of(row) == (environment, *place)], pair["spacing"]
        assert sum(row["pairs"] for row in own) == counted["zero"]["pairs"] + sum(counted["pairs"])
        assert sum(row["reversed_pairs"] for row in own) == counted["zero"]["reversed"] + sum(counted["reversed"])
        for row in own:
            assert row["reversed_share"] == row["reversed_pairs"] / row["pairs"]
            if row["bin"]:
                assert counted["starts_ns"][row["bin"] - 1] == row["lo_ns"]
                assert row["lo_ns"] ** 5 >= 10 ** (row["bin"] - 1) > (row["lo_ns"] - 1) ** 5
                assert row["hi_ns"] is None or row["hi_ns"] ** 5 < 10 ** row["bin"] <= (row["hi_ns"] + 1) ** 5
            else:
                assert (row["lo_ns"], row["hi_ns"]) == (0, 0)


def test_result_of_an_older_version_is_rejected_in_one_line(results, capsys):
    change_result(results, "quiet", lambda result: result["pairs"][0].pop("spacing"))
    assert "the key spacing is missing" in error_of(capsys, results)


def test_environments_are_compared_with_all_later_ones(results):
    rows = make(results)
    means = {row["environment"]: row["kappa"] for row in rows["consistency_environments"]}
    found = rows["consistency_comparisons"]
    assert [(row["environment_a"], row["environment_b"]) for row in found] == list(combinations(ENVIRONMENTS, 2))
    for row in found:
        a, b = means[row["environment_a"]], means[row["environment_b"]]
        assert row["difference"] == pytest.approx(b - a)
        assert row["relative_difference"] == pytest.approx((b - a) / a)
        assert row["relative_lo"] <= row["relative_difference"] <= row["relative_hi"]


@pytest.mark.soak
@pytest.mark.parametrize("change", [lambda pair: pair.update(offset_ns=2**70), lambda pair: pair.pop("moves")])
def test_failed_merge_error_names_the_result_and_keeps_earlier_tables(results, capsys, change):
    make(results)
    change_result(results, "noisy", lambda result: [*map(change, result["pairs"])])
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    error = error_of(capsys, results)
    assert f"{results / 'kappa' / 'noisy.json'}: environment noisy (samples " in error
    assert " cannot be merged: " in error
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before
