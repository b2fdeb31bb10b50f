"""Verdicts on mirror congestion from readings of the switch's counters."""

import itertools

import pytest

from acapella_capture.control import congestion
from acapella_capture.testbeds.base import Readings, Telemetry

S = 10**9


def counted(tx: list[float], rx: list[float], every_s: float = 1.0) -> Telemetry:
    """Return readings of port p, the first at 100 s, with these rates in between (bit/s)."""

    def readings(rates: list[float]) -> tuple[tuple[float, int], ...]:
        data = [0, *itertools.accumulate(round(rate * every_s / 8) for rate in rates)]
        return tuple((100 + n * every_s, total) for n, total in enumerate(data))

    return Telemetry("switch", len(tx) * every_s, {}, {"p": Readings(tx=readings(tx), rx=readings(rx))})


def verdict_of(telemetry, direction="both", capacity_bps=100_000_000, span_s=(100, 104)):
    port = congestion.MirrorPort(capacity_bps, buffer_bytes=0)
    return congestion.verdict(telemetry, "p", direction, port, (int(span_s[0] * S), int(span_s[1] * S)))


@pytest.mark.parametrize(("direction", "offered"), [("rx", 1e3), ("tx", 1e6), ("both", 1.001e6)])
def test_verdict_is_at_risk_if_the_mean_is_below_capacity(direction, offered):
    found = verdict_of(counted([1e6] * 4, [1e3] * 4), direction)
    assert (found["verdict"], found["offered_bps"]) == ("at risk", offered)
    assert found["loss"] == {"low": 0, "high": 1}


def test_verdict_uses_the_peak_interval_instead_of_the_mean():
    found = verdict_of(counted([10e6, 90e6, 10e6, 10e6], [10e6, 60e6, 10e6, 10e6]))
    assert (found["verdict"], found["peak_bps"], found["peak_seconds"]) == ("congested", 150e6, 1)
    assert found["offered_bps"] == 52.5e6 and found["loss"]["low"] == 0


def test_minimum_loss_is_the_share_of_traffic_above_the_capacity():
    found = verdict_of(counted([90e6] * 4, [60e6] * 4))
    assert found["verdict"] == "congested"
    assert found["loss"]["low"] == pytest.approx(1 / 3)
    # the loss is computed only from the readings within the sample (100.5 to 103.5 s): those at 101, 102 and 103 s
    within = verdict_of(counted([90e6] * 4, [60e6] * 4), span_s=(100.5, 103.5))
    assert within["loss"]["low"] == 0 and [at for at, _ in within["readings"]] == [n * S for n in range(100, 105)]


def test_readings_cover_the_sample():
    found = verdict_of(counted([8e6] * 9, [0] * 9), span_s=(102, 104))
    assert found["readings"] == [[n * S, (n - 102) * 10**6] for n in range(102, 105)]
    assert congestion.covers(found, 104 * S) and not congestion.covers(found, 105 * S)


@pytest.mark.parametrize(
    "arguments",
    [
        (None,),
        (Telemetry("switch", 2, {}, {"q": counted([1e6], [1e6]).readings["p"]}),),
        (counted([1e6], [1e6]), "both", None),
    ],
    ids=["no telemetry", "another port", "no capacity"],
)
def test_verdict_is_unknown_without_counters_or_capacity(arguments):
    found = verdict_of(*arguments)
    assert (found["verdict"], found["loss"]) == ("unknown", {"low": None, "high": None})
