"""Accuracy of flow reports under the load of 120,000 directed flows in one epoch with the default slots and sketch.

Without ACAPELLA_SOAK, flows, slots and sketch have an eighth of these sizes.
"""

import math
import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from acapella_testing.processes import run
from acapella_testing.soak import SOAK

from acapella.flowreports import command, sample
from acapella.flowreports import settings as program_settings
from acapella.flowreports.settings import Settings, Sketch

pytestmark = pytest.mark.usefixtures("data_plane")
GENERATOR = Path(__file__).resolve().parents[3] / "p4" / "model" / "generated_load.py"
SCALE = 1 if SOAK else 8  # the same load for each slot and cell
CONNECTIONS = 60_000 // SCALE  # of two directed flows, all within one epoch
FLOWS = 2 * CONNECTIONS
SLOTS = program_settings.SLOTS // SCALE
SIZE = Sketch(cells=Sketch().cells // SCALE)
LARGE_SKETCH = Sketch(cells=2**20 // SCALE)
MAX_MISSING = 0.05
SECOND = 10**9


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Return the directory of results, and the printed lines."""
    directory = tmp_path_factory.mktemp("loaded")
    capture = directory / "load.pcap"
    load = ("--connections", CONNECTIONS, "--seconds", 10, "--seed", 3)
    run(sys.executable, GENERATOR, *load, "-o", capture, check=True)
    source = sample.Source("load", (capture,), *command.run_digest([capture], directory, None), window_ns=40 * SECOND)
    settings = Settings(SIZE, epoch_ns=40 * SECOND, slots=SLOTS)
    accuracy = sample.measure(source, directory / "results", settings, [LARGE_SKETCH], published=True)
    return directory / "results", command.as_text(accuracy)


def columns(directory, name):
    """Return a table of results as a dict of NumPy arrays."""
    read = pq.read_table(directory / f"{name}.parquet")
    return {column: read.column(column).to_numpy(zero_copy_only=False) for column in read.column_names}


@pytest.mark.soak
@pytest.mark.parametrize("triggers", ["all", "published"])
@pytest.mark.parametrize("measure", ["rtt_syn", "rtt_ack"])
def test_few_round_trips_are_missing_under_load(loaded, triggers, measure):
    """Each generated connection has one handshake without loss."""
    row = accuracy(loaded)[triggers, measure]
    assert row["n"] + row["missing"] == CONNECTIONS
    assert row["missing"] <= MAX_MISSING * CONNECTIONS
    assert row["equal"] == row["n"]


def accuracy(loaded) -> dict[tuple[str, str], dict]:
    """Return the rows of accuracy by triggers and measure."""
    return {(row["triggers"], row["measure"]): row for row in pq.read_table(loaded[0] / "accuracy.parquet").to_pylist()}


@pytest.mark.parametrize("measure", ["bytes", "packets", "start", "end", "duration"])
def test_published_triggers_have_rows_for_all_flows(loaded, measure):
    """Counts are not compared: packets that follow the newest report of a flow are missing from them."""
    row = accuracy(loaded)["published", measure]
    assert row["n"] + row["missing"] == FLOWS
    assert row["missing"] <= MAX_MISSING * FLOWS
    assert row["outside"] == row["extra"] == 0


@pytest.mark.parametrize("name", ["bytes", "packets"])
def test_counts_are_too_large_as_often_as_predicted_and_never_too_small(loaded, name):
    """The counts of a flow are too large if it shares a cell in every row (Cormode and Muthukrishnan 2005)."""
    flows = columns(loaded[0], "compared_flows")
    assert len(flows["bytes"]) == FLOWS
    assert set(flows["found"]) == {"both"}
    expected = (1 - math.exp(-FLOWS / SIZE.cells)) ** SIZE.rows
    exact, measured = flows[name].astype(float), flows[f"{name}_measured"].astype(float)
    assert (measured >= exact).all()
    assert np.mean(measured > exact) == pytest.approx(expected, abs=0.01)


def test_windows_of_an_overloaded_sketch_are_all_flagged(loaded):
    """About 1 % of the flows have no slot, and some of them may be missing from the reports."""
    windows = columns(loaded[0], "judged_windows")
    assert set(windows["reason"]) == {"sketch_load"}
    assert (windows["bytes"] != windows["bytes_measured"]).any()


def test_windows_of_an_overloaded_sketch_have_upper_bounds_that_hold(loaded):
    """A count-min sketch never counts too little (Cormode and Muthukrishnan 2005)."""
    windows = columns(loaded[0], "judged_windows")
    assert (np.isnan(windows["bytes_low"].astype(float)) == (windows["reason"] == "sketch_load")).all()
    assert (windows["bytes"].astype(float) <= windows["bytes_high"].astype(float)).all()
    for row in pq.read_table(loaded[0] / "window_reasons.parquet").to_pylist():
        assert row["windows"] == row["bounded"] == row["held"]


def test_counts_of_a_large_sketch_are_exact(loaded):
    """Allows errors in twice the expected share (0.014 %) of flows that still share a cell in every row."""
    rows = pq.read_table(loaded[0] / "memory.parquet", filters=[("cells", "==", LARGE_SKETCH.cells)]).to_pylist()
    assert {row["measure"] for row in rows} == {"bytes", "packets"}
    expected = (1 - math.exp(-FLOWS / LARGE_SKETCH.cells)) ** LARGE_SKETCH.rows
    for row in rows:
        assert row["n"] == FLOWS
        assert row["n"] - row["equal"] <= 2 * expected * FLOWS


def r2(exact, measured):
    """Return the coefficient of determination; None if all exact values are equal."""
    variation = np.sum((exact - exact.mean()) ** 2)
    return 1 - np.sum((exact - measured) ** 2) / variation if variation > 0 else None


COUNTS = ("bytes", "packets", "bytes_in_flight", "acknowledged_bytes")


def agrees(measure, pairs):
    """Return whether exact and measured values agree, as computed from a table of pairs."""
    columns = {name: pairs.column(name).to_numpy() for name in pairs.column_names}
    exact, measured = columns["exact"], columns["measured"]
    comparable = ~np.isnan(exact) & ~np.isnan(measured)
    missing = np.sum(~np.isnan(exact) & np.isnan(measured) & ~columns["outside"])
    exact, measured, width = exact[comparable], measured[comparable], columns["width"][comparable]
    if measure in ("loss", "retransmitted"):
        widths = np.sort(width[~np.isnan(width) & ((exact > 0) | (width > 0))])
        high = math.ceil(0.99 * len(widths)) - 1
        narrow = not len(widths) or (widths[len(widths) // 2] <= 0.01 and widths[high] <= 0.1)
        within = narrow and not any(covered is False for covered in columns["covered"][comparable])
    else:
        within = np.mean(np.abs(measured - exact) <= (0 if measure in COUNTS else 0.01) * exact) >= 0.995
    above = (exact > 0) & (measured > 0)
    if not within or np.sum(above) < 10:
        return False
    known = r2(exact, measured)
    logarithms = r2(np.log(exact[above]), np.log(measured[above]))
    if known is None and (exact != measured).any():
        return False
    few = missing <= MAX_MISSING * (missing + len(exact))
    return few and all(value is None or value >= 0.99 for value in (known, logarithms))


def test_measure_agrees_only_within_the_bounds(loaded):
    directory, lines = loaded
    table = pq.read_table(directory / "pairs.parquet")
    verdicts = {tuple(line.split()[:2]): line.endswith(" agrees") for line in lines[1:]}
    for (triggers, measure), verdict in verdicts.items():
        pairs = table.filter((pc.field("triggers") == triggers) & (pc.field("measure") == measure))
        assert verdict == agrees(measure, pairs), (triggers, measure)
    assert verdicts.keys() == set(zip(*(table[name].to_pylist() for name in ("triggers", "measure")), strict=True))
    for triggers in ("all", "published"):
        assert not any(verdicts[triggers, measure] for measure in ("bytes", "packets", "throughput"))
        assert verdicts[triggers, "rtt_syn"] and verdicts[triggers, "rtt_ack"]
