"""Tests the figure of errors by sketch memory: its title refers only to sizes that were tried."""

import pytest
from acapella_testing.generated.generated_flowreports import write_tables
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign
from acapella.figures import flowreport_memory
from acapella.figures.source import Source

NOT_EXACT = "; with {} of sketch (4 x 64 cells) {} are not exact; no size in between was tried"


@pytest.mark.parametrize(
    ("unequal", "missing", "expected"),
    [
        (
            (3, 0, 0),
            (0, 0, 0),
            "Every flow size is exact in all 4 runs with 2 kB of sketch (4 x 64 cells) or more"
            + NOT_EXACT.format("1 kB", "1.00 % of 300 flows"),
        ),
        (
            (0, 36, 0),
            (0, 0, 0),
            "Every flow size is exact in all 2 runs with 4 kB of sketch (4 x 64 cells)"
            + NOT_EXACT.format("2 kB", "12.0 % of 300 flows"),
        ),
        (
            (0, 0, 0),
            (0, 0, 0),
            "Every flow size is exact in all 6 runs with 1 kB of sketch (4 x 64 cells) or more; smaller sketches "
            "were not tried",
        ),
        (
            (0, 0, 0),
            (100, 1, 0),
            "Every flow size is exact in all 2 runs with 4 kB of sketch (4 x 64 cells)"
            + NOT_EXACT.format("2 kB", "0.33 % of 301 flows"),
        ),
        (
            (0, 0, 36),
            (0, 0, 0),
            "With 4 kB of sketch (4 x 64 cells), the largest sketch tried, the sizes of 12.0 % of 300 flows are "
            "not exact",
        ),
        (
            (0, 0, 0),
            (9, 9, 100),
            "With 4 kB of sketch (4 x 64 cells), the largest sketch tried, the sizes of 25.0 % of 400 flows are "
            "missing or not exact",
        ),
    ],
)
def test_title_states_exact_runs_and_untested_sizes(unequal, missing, expected):
    """Two samples with 300 measured flow sizes, of which `unequal` are not exact, and `missing` more flows."""
    rows = [memory_row(n, equal=300 - unequal[n], missing=missing[n], error=0.5 * (unequal[n] > 0)) for n in range(3)]
    assert memory_title(rows) == expected


def test_sketch_with_an_error_is_not_exact_even_if_all_values_count_as_equal():
    rows = [memory_row(n, equal=300, missing=0, error=2.5e-8 * (n == 0)) for n in range(2)]
    assert memory_title(rows).endswith("; with 1 kB of sketch (4 x 64 cells) 0.33 % of 300 flows are not exact; "
                                       "no size in between was tried")  # fmt: skip


def test_runs_of_a_sketch_are_the_samples_and_missing_flows_are_in_the_share():
    """Two samples, and a third in which no flow has a report."""
    own = memory_row(0, equal=300, missing=0, error=0.0) | {"error_p99": 0.0}
    none = own | {"n": 0, "equal": 0, "missing": 100, "error_p99": None, "error_largest": None}
    (row,) = flowreport_memory.combine_samples([own, own, none])
    point = flowreport_memory.point(row)
    assert (point["runs"], point["flows"], point["inexact"]) == (3, 700, 100)
    assert point["unequal"] == pytest.approx(100 / 7)


@pytest.mark.parametrize(("largest", "top"), [(1e-4, 0.01), (0.02, 0.1), (10, 10), (90.9, 100), (274, 1000)])
def test_axis_of_errors_has_ticks_at_both_ends(largest, top):
    row = memory_row(0, equal=299, missing=0, error=largest / 100)
    chart = flowreport_memory.panel([flowreport_memory.point(row)], "error", "errors (%)", [4])
    y = chart.to_dict()["layer"][0]["encoding"]["y"]
    assert y["scale"]["domain"] == [y["axis"]["values"][0], y["axis"]["values"][-1]]
    assert y["scale"]["domain"] == pytest.approx([1e-4, top])


def test_generated_sketches_have_no_error_if_all_flows_are_equal(tmp_path):
    for row in Source(Campaign(write_tables(tmp_path))).rows("flowreport_memory"):
        assert (row["equal"] == row["n"]) == (row["error_largest"] == 0)


def memory_row(power: int, *, equal: int, missing: int, error: float) -> dict:
    """Return a row for a sketch of 2^power kB in two samples."""
    row = {"measure": "bytes", "memory_bytes": 1000 * 2**power, "rows": 4, "cells": 64, "runs": 2}
    return row | {"n": 300, "equal": equal, "missing": missing, "error_p99": error, "error_largest": error}


def memory_title(rows: list[dict]) -> str:
    """Return the title of a figure of these sketches."""
    return with_spaces(flowreport_memory.title([flowreport_memory.point(row) for row in rows]))
