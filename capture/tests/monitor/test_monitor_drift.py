"""The drift between two clocks: a least-squares line."""

import random
from fractions import Fraction

import pytest
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import START_NS, Flow, Schedule

from acapella_capture.monitor import expected, program, tables
from acapella_capture.monitor.command import rows_of
from acapella_capture.monitor.drift import Drift, fit
from acapella_capture.monitor.program import Settings


def naive_line(times: list[int], values: list[int]) -> tuple[float, float]:
    """Return slope, and offset at the first time, of the least-squares line, by the normal equations of deviations."""
    mean_t = sum(t - min(times) for t in times) / len(times)
    mean_y = sum(values) / len(values)
    deviations = [(t - min(times) - mean_t, y - mean_y) for t, y in zip(times, values, strict=True)]
    slope = sum(t * y for t, y in deviations) / sum(t * t for t, _ in deviations)
    return slope, mean_y - slope * mean_t


@pytest.mark.parametrize("rate", [0.0, 20e-6, -3e-7])
def test_line_is_the_least_squares_fit(rate):
    draw = random.Random(1)
    times = sorted(draw.sample(range(START_NS, START_NS + 10**11), 200))
    values = [5_000_000 + round((t - START_NS) * rate) + draw.randint(0, 2000) for t in times]
    line = fit(times, values)
    slope, offset = naive_line(times, values)
    assert float(line.rate) == pytest.approx(slope, abs=1e-15)
    assert float(line.offset_ns) == pytest.approx(offset, abs=1e-3)
    residuals = [y - offset - slope * (t - times[0]) for t, y in zip(times, values, strict=True)]
    assert line.residual_max_ns == pytest.approx(max(map(abs, residuals)), abs=1e-3)
    assert line.residual_rms_ns == pytest.approx((sum(r * r for r in residuals) / 200) ** 0.5, abs=1e-3)


def test_exact_line_has_no_residuals():
    line = fit([START_NS, START_NS + 10**9, START_NS + 3 * 10**9], [100, 1100, 3100])
    assert (line.rate_ppt, line.offset_ns, line.residual_rms_ns, line.residual_max_ns) == (1_000_000, 100, 0, 0)


def test_two_points_have_no_line():
    assert fit([1, 2, 2], [5, 6, 7]) is None


@pytest.mark.usefixtures("monitor_on_path")
def test_correction_removes_the_drift_from_latencies(tmp_path):
    traffic.write(tmp_path, [Flow(400, 100_000, 20)], Schedule(jitter_ns=5000, drift=80e-6))
    arrived = Settings((tmp_path / "arrived.pcap",), wanted=expected.read(tmp_path / "sent.generated.json"))
    rows, plain = rows_of(arrived, correct=True), rows_of(arrived, correct=False)
    (clock,), (row,) = rows["monitor_clocks"], rows["monitor_flows"]
    assert clock["rate_ppm"] == pytest.approx(80, abs=3)  # 5 us of jitter in 40 ms of traffic
    assert clock == plain["monitor_clocks"][0] | {"corrected": True}
    assert spread(plain["monitor_flows"][0]) > 6000
    assert spread(row) < 5500
    assert tuple(rows) == tables.TABLES


def spread(row: dict) -> int:
    """Return the difference between the largest and the smallest latency."""
    return row["latency_max_ns"] - row["latency_min_ns"]


@pytest.mark.usefixtures("monitor_on_path")
@pytest.mark.parametrize("rate_ppt", [80_123_457, -3_000_001])
def test_every_latency_is_corrected_by_the_line_rounded_down(tmp_path, rate_ppt):
    arrived, outcome = traffic.write(tmp_path, [Flow(200, 100_003, 20)], Schedule(seed=5, jitter_ns=70_000))
    from_ns = START_NS + 9_876_543  # packets arrive before and after it
    line = Drift(Fraction(rate_ppt, 10**12), from_ns, Fraction(0), 0.0, 0.0, 3)
    (port,) = program.count(Settings(files=(arrived,)), tmp_path, line).ports
    departures = {frame: ns for ns, frame in traffic.sent([Flow(200, 100_003, 20)])}
    latencies = [ns - departures[frame] - (ns - from_ns) * rate_ppt // 10**12 for ns, frame in outcome.arrived]
    row = tables.flow_row(0, port.flows[0], 200)
    found = [row[f"latency_{name}_ns"] for name in ("min", "mean", "max")]
    assert found == [min(latencies), sum(latencies) / 200, max(latencies)]
