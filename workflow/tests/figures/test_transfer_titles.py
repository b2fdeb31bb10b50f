"""Tests the titles of figures of transfers: a title claims no more than was compared, and names what varies."""

import itertools
import math
import statistics

import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated.transfer_tables import source_of
from acapella_testing.svg_text import with_spaces

from acapella.figures import (
    transfer_completion,
    transfer_gain,
    transfer_heatmap,
    transfer_lines,
    transfer_outcome,
    transfer_per_stream,
    transfer_ratios,
    transfer_scope,
    transfer_shallow,
    transfer_streams,
)
from acapella.figures.registry import figure_module
from acapella.figures.source import NoData
from acapella.report import transfers
from acapella_core import schemas


def gain_row(gain: float | None, comparison: str, low: float | None = None, high: float | None = None) -> dict:
    """Return a row of transfer_gain; without a range, that of single runs."""
    ends = {"gain_low": gain if low is None else low, "gain_high": gain if high is None else high}
    return {"gain_percent": gain, "comparison": comparison, "buffer_bdp": 0.05, **ends}


def test_title_without_a_defined_gain_has_no_median():
    row = gain_row(None, "both_zero")
    assert with_spaces(transfer_gain.title([row])) == "BBR and CUBIC are not comparable in the only setting"


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (-30.0, 30.0, "undecided"),
        (-0.6, 3.0, "undecided"),
        (0.0, 3.0, "bbr"),  # the slowest run of BBR is as fast as the fastest one of CUBIC
        (0.2, 3.0, "bbr"),
    ],
)
def test_setting_whose_runs_overlap_has_no_winner(low, high, outcome):
    row = gain_row(1.0, "faster_bbr", low, high)
    assert transfer_outcome.outcome(row) == outcome
    title = "BBR is faster in 0, CUBIC in 0, undecided (runs overlap) in 2 of 2 settings; median gain +1 %"
    assert (with_spaces(transfer_gain.title([row, row])) == title) == (outcome == "undecided")


@pytest.mark.parametrize(
    ("row", "title"),
    [
        ((20.0, "faster_bbr"), "BBR is faster in the only setting; median gain +20 %"),
        ((-20.0, "faster_cubic"), "CUBIC is faster in the only setting; median gain \N{MINUS SIGN}20 %"),
        ((0.1, "faster_bbr"), "BBR and CUBIC are equal within 0.5 % in the only setting; median gain 0 %"),
        ((1.0, "faster_bbr", -30.0, 30.0), "Undecided (runs overlap) in the only setting; median gain +1 %"),
    ],
)
def test_title_of_a_single_setting_has_no_count(row, title):
    assert with_spaces(transfer_gain.title([gain_row(*row)])) == title


def test_runs_that_overlap_within_the_printed_precision_are_equal():
    assert transfer_outcome.outcome(gain_row(0.1, "faster_bbr", -0.3, 0.4)) == "equal"


def test_settings_in_which_bbr_transferred_nothing_count_in_medians():
    rows = [gain_row(20.0, "faster_bbr"), gain_row(None, "bbr_zero"), gain_row(None, "bbr_zero")]
    # Sorted: -inf, -inf, 20. Without the first two, the median would be 20.
    title = "BBR is faster in 1, CUBIC in 2 of 3 settings; median gain \N{MINUS SIGN}\N{INFINITY} %"
    assert with_spaces(transfer_gain.title(rows)) == title
    assert statistics.median(transfer_shallow.gains(rows)) == -math.inf
    assert statistics.median(transfer_shallow.gains([*rows, *[gain_row(30.0, "faster_bbr")] * 2])) == 20.0


@pytest.mark.soak
def test_figure_of_gain_is_drawn_if_bbr_transferred_nothing(tmp_path):
    measured = {"rtt_ns": 60_000_000, "rate_bps": 400_000_000, "buffer_bytes": 102_400}  # 0.03 of the BDP of 3 MB
    for algorithm, size in (("bbr", 0), ("cubic", 10_000_000)):
        document = made.document(made.Sent(size, size, 2.0, 2.0), algorithm=algorithm)
        made.cell(tmp_path, algorithm, [document], settings={"algorithm": algorithm}, measured=measured)
    source = source_of(tmp_path)
    note = "median gain with buffers below 0.1 BDP: \N{MINUS SIGN}\N{INFINITY} % (1 setting)"
    assert note in with_spaces(" ".join(transfer_gain.draw(source).key))
    assert [row["algorithm"] for row in source.rows("transfer_shallow")] == ["bbr", "cubic"]


def test_completion_times_that_differ_by_half_a_percent_have_no_winner():
    times = [(1, "bbr", 1000.0), (1, "cubic", 1004.0), (2, "bbr", 1010.0), (2, "cubic", 1000.0)]
    title = with_spaces(transfer_completion.title([completion_row(*time) for time in times], 0, 0))
    assert title == "BBR completes first in 0, CUBIC in 1, equal within 0.5 % in 1 of 2 settings"


def completion_row(
    setting: int, algorithm: str, ns: float, low: float | None = None, high: float | None = None
) -> dict:
    """Return a row of transfer_settings with a mean completion time; without a range, that of a single run."""
    ends = {"completion_ns_low": ns if low is None else low, "completion_ns_high": ns if high is None else high}
    return {"setting": setting, "algorithm": algorithm, "completion_ns_mean": ns, **ends}


def test_completion_times_that_overlap_have_no_winner():
    rows = [
        *(completion_row(1, "bbr", 1000.0, 900.0, 1100.0), completion_row(1, "cubic", 1100.0, 1050.0, 1150.0)),
        *(completion_row(2, "bbr", 1000.0, 900.0, 1100.0), completion_row(2, "cubic", 1200.0, 1150.0, 1250.0)),
        *(completion_row(3, "bbr", 1000.0, 999.0, 1002.0), completion_row(3, "cubic", 1001.0, 1000.0, 1003.0)),
    ]
    assert with_spaces(transfer_completion.title(rows, 0, 0)) == (
        "BBR completes first in 1, CUBIC in 0, equal within 0.5 % in 1, undecided (runs overlap) in 1 of 3 settings"
    )


def test_best_ratio_has_the_shortest_mean_completion():
    cells = [
        {"setting": 1, "algorithm": "cubic", "ratio": 1.0, "completion_ns": 8e9},  # the other run took 16 s
        {"setting": 2, "algorithm": "cubic", "ratio": 2.0, "completion_ns": 10e9},
    ]
    settings = [ratio_row(1, "cubic", 1.0, 12e9, low=8e9), ratio_row(2, "cubic", 2.0, 10e9)]
    assert with_spaces(transfer_ratios.title(cells, [], settings)) == (
        "CUBIC: r = 2 completes first after 10 s (mean of 2 runs), but runs with r = 1 overlap; "
        "its flows end within 5.00 % of each other (mean; largest 8.00 %)"
    )


def ratio_row(  # noqa: PLR0913
    setting: int, algorithm: str, ratio: float, ns: float, delay_ns: int = 0, *, low: float | None = None
) -> dict:
    """Return a row of transfer_settings of two runs, of the same duration unless the fastest took `low` ns."""
    row = completion_row(setting, algorithm, ns, low or ns, 2 * ns - (low or ns))
    shared = {"delay_ns": delay_ns, "ratio": ratio, "runs": 2, "ends_apart_mean": 0.05, "ends_apart_high": 0.08}
    return dict.fromkeys((*transfer_scope.FIXED, "buffer_bytes")) | shared | row


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        (
            [ratio_row(1, "bbr", 2.0, 9e9)],
            "BBR, only r = 2: flows end within 5.00 % of each other (mean; largest 8.00 %)",
        ),
        (
            [
                *(ratio_row(1, "bbr", 1.0, 8e9), ratio_row(2, "bbr", 2.0, 9e9)),
                *(ratio_row(1, "cubic", 1.0, 8e9), ratio_row(2, "cubic", 2.0, 7e9)),
            ],
            "Completes first: BBR with r = 1, CUBIC with r = 2",
        ),
        (
            [
                *(ratio_row(1, "bbr", 1.0, 8e9), ratio_row(2, "bbr", 2.0, 9e9, low=7.9e9)),
                *(ratio_row(1, "cubic", 1.0, 8e9), ratio_row(2, "cubic", 2.0, 7e9)),
            ],
            "Completes first: BBR with r = 1 (runs overlap), CUBIC with r = 2",
        ),
        (  # r = 1 without delay is faster than r = 2 with delay, which is no comparison of ratios
            [
                *(ratio_row(1, "bbr", 1.0, 8e9), ratio_row(2, "bbr", 2.0, 7e9)),
                *(ratio_row(3, "bbr", 1.0, 20e9, 60, low=18e9), ratio_row(4, "bbr", 2.0, 19e9, 60)),
                *(ratio_row(5, "bbr", 1.0, 30e9, 90), ratio_row(6, "bbr", 2.0, 31e9, 90)),
            ],
            "Completes first: r = 1 in 1, r = 2 in 1, undecided (runs overlap) in 1 of 3 combinations of settings and "
            "algorithm",
        ),
        (
            [ratio_row(1, "bbr", 1.0, 8e9), ratio_row(2, "bbr", 2.0, 7e9, 60)],
            "Flows over time in 2 settings, each with one ratio",
        ),
    ],
)
def test_title_compares_only_ratios_of_the_same_settings_and_algorithm(rows, title):
    assert with_spaces(transfer_ratios.title(rows, [], rows)) == title


def stream_row(streams: int, difference_s: float, gain: float, size: int = 2**30, delay_ns: int = 0) -> dict:
    """Return a row of transfer_gain for figures of parallel streams."""
    row = dict.fromkeys(transfer_lines.OTHERS) | {"size_bytes": size, "delay_ns": delay_ns, "streams": streams}
    return row | {"difference_ns": difference_s * 1e9, "gain_percent": gain}


def test_titles_of_parallel_streams_name_what_varies():
    rows = [stream_row(1, 2.0, 10.0), stream_row(5, -1.0, 30.0)]
    mean = "CUBIC minus BBR, mean over the numbers of streams: 0.5 s for 1 GiB"
    largest = "The gain of BBR per stream is largest with 5 streams{}: 30 %"
    assert with_spaces(transfer_streams.title(rows)) == mean
    assert with_spaces(transfer_per_stream.title(rows)) == largest.format("")
    sizes = [*rows, stream_row(1, 4.0, 5.0, 5 * 2**30)]
    assert with_spaces(transfer_streams.title(sizes)) == f"{mean} and 4 s for 5 GiB"
    assert with_spaces(transfer_per_stream.title(sizes)) == largest.format(", 1 GiB")
    delays = [*rows, stream_row(5, 9.0, 20.0, delay_ns=60_000_000)]
    assert with_spaces(transfer_streams.title(delays)) == "CUBIC minus BBR: \N{MINUS SIGN}1 to 9 s in 3 settings"
    assert with_spaces(transfer_per_stream.title(delays)) == largest.format(", delay 0 ms")


def test_lines_of_several_reorderings_are_not_joined():
    row = dict.fromkeys(transfer_lines.OTHERS) | {"algorithm": "bbr", "x": 1.0}
    rows = [row | {"streams": 1, "reorder_percent": 0.0}, row | {"streams": 2, "reorder_percent": 5.0}]
    with pytest.raises(NoData):  # no settings have several numbers of streams
        transfer_lines.stream_rows(rows, "x")


@pytest.fixture(scope="module")
def many_groups(tmp_path_factory):
    """Return the tables of more groups of settings than a heatmap draws."""
    directory = tmp_path_factory.mktemp("groups")
    groups = range(transfer_heatmap.MAX_GROUPS + 1)  # BBR at 10 MB in 2 s; in the last group, 8 times as fast
    for number, algorithm, delay in itertools.product(groups, ("bbr", "cubic"), (0, 60)):
        fast = number == transfer_heatmap.MAX_GROUPS and algorithm == "bbr"
        sent = made.Sent(10_000_000, 10_000_000, *[0.25 if fast else 2.0] * 2, 99 if fast else 1)
        settings = {"algorithm": algorithm, "delay_ms": delay, "rate_bps": 10**6 * (number + 1)}
        document = made.document(sent, algorithm=algorithm)
        made.cell(directory, f"{algorithm}-{number}-{delay}", [document], settings=settings)
    return source_of(directory)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("throughput", "Throughput: BBR 40 Mbit/s, CUBIC 40 Mbit/s"),
        ("completion", "BBR completes first in 0, CUBIC in 0, equal within 0.5 % in 8 of 8 settings"),
        ("gain", "BBR is faster in 0, CUBIC in 0, equal within 0.5 % in 8 of 8 settings; median gain 0 %"),
        ("retransmits", "BBR retransmits more than CUBIC in 0 of 8 settings, by the paper's factor of 2 to 6 in 0"),
    ],
)
def test_titles_count_only_the_settings_that_are_drawn(many_groups, name, title):
    assert with_spaces(figure_module(f"transfer_{name}").draw(many_groups).title) == title


@pytest.mark.parametrize(
    ("gain", "comparison", "printed", "outcome"),
    [
        (0.51, "faster_bbr", "+1", "bbr"),
        (100.0, "cubic_zero", "+100", "bbr"),
        (-0.51, "faster_cubic", "\N{MINUS SIGN}1", "cubic"),
        (None, "bbr_zero", "\N{MINUS SIGN}\N{INFINITY}", "cubic"),
        (0.5, "faster_bbr", "0", "equal"),
        (-0.5, "faster_cubic", "0", "equal"),
        (0.001, "faster_bbr", "0", "equal"),
        (-0.0, "equal", "0", "equal"),
        (None, "both_zero", "0/0", None),
        (None, "cubic_missing", "\N{EN DASH}", None),
    ],
)
def test_setting_counts_as_its_cell_is_printed(gain, comparison, printed, outcome):
    row = gain_row(gain, comparison)
    assert (transfer_gain.text(row), transfer_outcome.outcome(row)) == (printed, outcome)
    equal = ", equal within 0.5 % in 1" if outcome == "equal" else ""
    begin = f"BBR is faster in {1 + (outcome == 'bbr')}, CUBIC in {int(outcome == 'cubic')}{equal} of 2 settings"
    assert with_spaces(transfer_gain.title([row, gain_row(20.0, "faster_bbr")])).startswith(begin)


def test_report_names_the_faster_algorithm_as_the_figure_does():
    assert with_spaces(transfers.faster(gain_row(0.1, "faster_bbr"))) == "equal within 0.5 %"
    assert transfers.faster(gain_row(1.0, "faster_bbr", -30.0, 30.0)) == "undecided (runs overlap)"


def test_schema_distinguishes_the_sign_in_the_table_from_the_rule_of_figures():
    columns = {column["name"]: column for column in schemas.table("transfer_gain")["columns"]}
    about = columns["comparison"]["about"]
    assert about.startswith("sign of the difference")
    assert f"figures and the report treat a gain up to {transfer_outcome.EQUAL_PERCENT} % as equal" in about
