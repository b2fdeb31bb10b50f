"""Bounds of the verdict "agrees": every kind of error in a measure is detected from the accuracy table alone."""

import random

import pyarrow as pa
import pytest
from acapella_testing.soak import SOAK
from acapella_testing.source_tree import ROOT

from acapella.cli import main as cli
from acapella.common import agreement, queries
from acapella.common.agreement import COUNT, INTERVAL, KINDS, RATE, TIME
from acapella.flowreports import published as flowpublished

N = 2000
MEASURES = [*agreement.MEASURES] if SOAK else [*{kind: name for name, kind in KINDS.items()}.values()]  # one per kind


def pairs_of(measure: str) -> list[dict]:
    """Return pairs without error, over six decades; for intervals: from 0.1 % to 30 %, with a width of 0.2 %."""
    draw = random.Random(measure)
    losses = KINDS[measure] is INTERVAL
    exact = [draw.uniform(0.001, 0.3) if losses else float(round(10 ** draw.uniform(1, 7))) for _ in range(N)]
    known = {"measure": measure, "triggers": "all", "outside": False, "ambiguous": False}
    known |= {"covered": True, "width": 0.002} if losses else {"covered": None, "width": None}
    return [{**known, "exact": value, "measured": value} for value in exact]


def verdict(rows: list[dict]) -> str | None:
    """Return why the pairs do not agree according to accuracy.sql; None if they agree."""
    con = queries.connect()
    kinds = {"measure": pa.string(), "triggers": pa.string(), "exact": pa.float64(), "measured": pa.float64()}
    kinds |= {"outside": pa.bool_(), "ambiguous": pa.bool_(), "covered": pa.bool_(), "width": pa.float64()}
    con.register("pairs", pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}))
    (row,) = con.sql(queries.text("flowreports", "accuracy")).to_arrow_table().to_pylist()
    return agreement.disagreement(row)


def damaged(rows: list[dict], share: float, factor: float) -> list[dict]:
    """Return the pairs sorted by exact value; the first ``share`` of them have measured values wrong by ``factor``."""
    rows = sorted(rows, key=lambda row: row["exact"])
    count = round(share * len(rows))
    changed_rows = [
        row | {"measured": row["exact"] * factor, "covered": row["covered"] and False} for row in rows[:count]
    ]
    return changed_rows + rows[count:]


def changed(rows: list[dict], count: int, **values) -> list[dict]:
    """Return the pairs with other values in the first ones."""
    return [row | values for row in rows[:count]] + rows[count:]


def test_ambiguous_pairs_are_not_judged():
    rows = pairs_of("packet_size")
    wrong = {"measured": 1e9, "ambiguous": True}
    assert verdict(changed(rows, N // 2, **wrong)) is None
    assert verdict(changed(rows, N // 2, **wrong | {"exact": None})) is None
    assert verdict(changed(rows, N, **wrong)) == "too few values: all ambiguous"


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("above", "expected"), [(0, "too few values: 0 above 0"), (9, "too few values: 9 above 0"), (10, None)]
)
def test_measure_that_is_mostly_zero_does_not_agree(measure, above, expected):
    """R2 is 1 with a single value above 0."""
    rows = pairs_of(measure)
    assert verdict([*rows[:above], *changed(rows[above:], N, exact=0.0, measured=0.0)]) == expected


@pytest.mark.parametrize(("above", "changed", "expected"), [(0, {}, None), (10, {}, 1.0), (0, {"r2_log": 0.5}, 0.5)])
def test_published_number_with_too_few_values_is_not_measured(above, changed, expected):
    row = {"n": 50, "n_log": 50, "missing": 0, "missing_share": 0.0, "equal": 50, "equal_share": 1.0, "near_share": 1.0}
    row |= {"r2": 1.0, "r2_log": 1.0, "covered_share": 1.0, "width_median": 0.0, "width_p99": 0.0}
    accuracy = {"end": row | {"measure": "end"} | changed, "loss": row | {"measure": "loss", "n_log": above}}
    assert flowpublished.worst_of(accuracy, ("end", "loss"))[0] == expected


def test_measures_have_a_kind():
    assert set(KINDS) == set(agreement.MEASURES)
    assert set(KINDS.values()) == {COUNT, TIME, RATE, INTERVAL}


@pytest.mark.parametrize("measure", MEASURES)
def test_measure_without_error_agrees(measure):
    assert verdict(pairs_of(measure)) is None


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("factor", [1000, 1 / 1000])
def test_one_percent_of_values_wrong_by_1000_does_not_agree(measure, factor):
    """The wrong values are those of the smallest flows, which R2 of the values does not detect."""
    assert verdict(damaged(pairs_of(measure), 0.01, factor)) is not None


@pytest.mark.parametrize("measure", MEASURES)
def test_values_that_are_all_2_percent_high_do_not_agree(measure):
    why = verdict(damaged(pairs_of(measure), 1, 1.02))
    assert why is not None
    assert "R2" not in why


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("percent", "expected"), [(6, "6 % missing"), (4, None)])
def test_six_percent_missing_do_not_agree(measure, percent, expected):
    assert verdict(changed(pairs_of(measure), percent * N // 100, measured=None)) == expected


@pytest.mark.parametrize("measure", [name for name in MEASURES if KINDS[name] is INTERVAL])
def test_correct_but_too_wide_intervals_do_not_agree(measure):
    assert "median width 90 %" in verdict(changed(pairs_of(measure), N, width=0.9))
    assert verdict(changed(pairs_of(measure), N // 50, width=0.9)) == "p99 width 90 %"
    assert verdict(changed(pairs_of(measure), N, width=None, covered=None)) == "no intervals"


@pytest.mark.parametrize("measure", [name for name in MEASURES if KINDS[name] is INTERVAL])
def test_wide_intervals_of_the_few_flows_with_loss_do_not_agree(measure):
    """12 of 2,000 flows lose packets; the intervals of the others are from 0 to 0 and do not count."""
    lossless = {"exact": 0.0, "measured": 0.0, "width": 0.0}
    rows = [row | {"width": 1 - row["exact"]} for row in pairs_of(measure)[:12]]
    wide = sorted(row["width"] for row in rows)
    rows += changed(pairs_of(measure)[12:], N, **lossless)
    assert verdict(rows) == f"median width {100 * wide[5]:.3g} %, p99 width {100 * wide[11]:.3g} %"
    assert verdict(changed(rows, 12, width=0.002)) is None
    assert verdict(changed(rows, 12, **lossless)) == "too few values: 0 above 0"
    unknown = changed(rows, 12, **lossless | {"width": 0.9})
    assert "median width 90 %" in verdict(pairs_of(measure)[:10] + unknown), "wide intervals without loss are ignored"


@pytest.mark.parametrize("measure", [name for name in MEASURES if KINDS[name] is COUNT])
def test_counts_must_be_equal(measure):
    """One in a hundred is 0.5 % too large, which is within 1 %."""
    assert verdict(damaged(pairs_of(measure), 0.01, 1.005)) == "99 % equal"


def test_bounds_are_in_the_document_that_the_command_refers_to(capsys):
    document = " ".join((ROOT / "docs" / "flowreports.md").read_text(encoding="utf-8").split())
    assert agreement.STATEMENT in document
    for kind in (COUNT, TIME, RATE):
        names = sorted(name for name, own in KINDS.items() if own is kind)
        assert f"{kind.name.capitalize()}s: " + ", ".join(f"`{name}`" for name in names) in document
    with pytest.raises(SystemExit):
        cli.main(["p4", "reports", "--help"])
    assert "docs/flowreports.md" in capsys.readouterr().out
