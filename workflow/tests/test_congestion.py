"""Verdicts on mirrors: against a simulated queue whose loss is known, and against plain Python."""

import json
import statistics

import mirror_simulation
import naive_congestion
import pyarrow as pa
import pytest

from acapella import analyze, queries
from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError

SEEDS = range(60)


def judge(simulated, folder, **limits) -> dict:
    """Return the row of `acapella analyze`."""
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(simulated.manifest))
    parameters = {**analyze.congestion_limits(), **limits}
    con = queries.connect()
    for name, rows in (("frames", simulated.frames), ("flows", simulated.flows)):
        fields = [field for field in arrow_schema(name) if rows and field.name in rows[0]]
        table = pa.table([pa.array([row[f.name] for row in rows], f.type) for f in fields], [f.name for f in fields])
        con.register(name, table)
    analyze.gather_evidence(con, manifest, parameters)
    found = queries.select(con, "analyze", "congestion", parameters)
    return dict(zip(found.columns, found.fetchall()[0], strict=True))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Simulated samples and their verdicts."""
    folder = tmp_path_factory.mktemp("congestion")
    samples = [mirror_simulation.sample(seed) for seed in SEEDS]
    return [(each, judge(each, folder)) for each in samples]


def test_evidence_equals_the_naive_computation(judged):
    reasons = set()
    for simulated, found in judged[::3] + judged[1::9] + judged[2::9]:
        naive = naive_congestion.verdict(simulated.frames, simulated.flows, simulated.manifest)
        assert (found["verdict"], found["reason"]) == (naive["verdict"], naive["reason"])
        assert found["loss_low"] == pytest.approx(naive["loss_low"], abs=1e-9)
        assert found["loss_high"] == pytest.approx(naive["loss_high"], abs=1e-9)
        reasons.add(found["reason"])
    assert len(reasons) >= 4


def test_no_mirror_with_loss_above_1_percent_is_clear(judged):
    assert [(s.shape, s.loss) for s, found in judged if found["verdict"] == "clear" and s.loss > 0.01] == []
    assert sum(s.loss > 0.01 for s, _ in judged) >= 20


def test_smooth_loss_free_samples_below_half_the_capacity_are_clear(judged):
    """Bursts that fill the queue and just fit stay at risk: see the limits in docs/collect.md."""
    quiet = [found["verdict"] for s, found in judged if s.loss == 0 and s.load < 0.5 and s.shape == "smooth"]
    assert len(quiet) >= 5
    assert quiet.count("clear") >= 0.8 * len(quiet)


def test_samples_with_more_than_5_percent_loss_are_congested(judged):
    """Bursts without TCP that counters each 30 s average away stay at risk: see the limits in docs/collect.md."""
    lossy = [found["verdict"] for s, found in judged if s.loss > 0.05 and (s.shape != "bursty" or every_s(s) == 1)]
    assert len(lossy) >= 15
    assert lossy.count("congested") >= 0.9 * len(lossy)


def every_s(simulated) -> float:
    """Return the interval of the counters."""
    readings = simulated.manifest["congestion"]["readings"]
    return (readings[1][0] - readings[0][0]) / 10**9


def test_few_loss_free_samples_are_congested(judged):
    free = [found["verdict"] for s, found in judged if s.loss == 0]
    assert len(free) >= 15
    assert free.count("congested") <= 0.1 * len(free)


def test_intervals_cover_the_true_loss_and_are_narrow(judged):
    covered = [s for s, found in judged if found["loss_low"] <= s.loss + 1e-12 and s.loss <= found["loss_high"] + 1e-12]
    assert len(covered) >= 0.95 * len(judged)
    assert statistics.median(found["loss_high"] - found["loss_low"] for _, found in judged) <= 0.1


def test_retransmitted_segments_are_no_loss(judged):
    """Segments lost before the mirrored port come later and fill their gap."""
    again = [
        (s, found)
        for s, found in judged
        if s.shape == "tcp" and s.loss == 0 and any(b["tcp_seq"] != a for a, b in in_order(s.frames))
    ]
    assert len(again) >= 1
    for _, found in again:
        assert found["tcp_missing_bytes"] <= 2 * mirror_simulation.MSS  # what is still on its way at the end


def in_order(frames):
    """Return (the next sequence number that was due, the frame) of segments with data."""
    due = None
    for frame in frames:
        if frame["flow"] == 0:
            yield (frame["tcp_seq"] if due is None else due), frame
            due = (frame["tcp_seq"] + frame["payload_len"]) % 2**32


def test_a_sample_through_a_filter_has_the_verdict_of_the_counters(judged, tmp_path):
    simulated = next(s for s, found in judged if found["verdict"] == "clear")
    simulated.manifest["filter"] = "tcp"
    found = judge(simulated, tmp_path)
    assert (found["verdict"], found["reason"]) == ("at risk", "counters")
    assert (found["loss_low"], found["loss_high"], found["busy_periods"]) == (0, 1, found["busy_periods"])


def test_without_a_reading_after_its_end_no_sample_is_clear(judged, tmp_path):
    simulated = next(
        s for s, found in judged if found["verdict"] == "clear" and len(s.manifest["congestion"]["readings"]) > 3
    )
    simulated.manifest["congestion"]["readings"].pop()
    assert judge(simulated, tmp_path)["verdict"] == "at risk"


def test_without_a_capacity_nothing_is_known(judged, tmp_path):
    simulated, _ = judged[0]
    del simulated.manifest["congestion"]
    assert judge(simulated, tmp_path)["verdict"] == "unknown"


def test_wrong_thresholds_are_errors():
    assert analyze.congestion_limits(["busy_share=0.7", "window_frames=4"])["window_frames"] == 4
    with pytest.raises(UserError, match="no such key"):
        analyze.congestion_limits(["busy=1"])
    with pytest.raises(UserError, match="not a number"):
        analyze.congestion_limits(["busy_share=x"])
