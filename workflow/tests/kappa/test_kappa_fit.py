"""Tests `acapella kappa --departures`: a different run is an error; loss, jitter and queues of a path are not."""

import numpy as np
import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_captures import START_NS, packet, pair, texts
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.replay_files import COUNT, columns, write_departures

GAP_NS = 10_000_000
REQUESTED = START_NS + GAP_NS * np.arange(COUNT)


@pytest.fixture
def replays(tmp_path):
    """Return a function that writes two trials and their departures, and returns the arguments of the command."""
    recording = write_pcap(tmp_path / "r.pcap", [(int(ns), packet(n)) for n, ns in enumerate(REQUESTED)])

    def write(arrivals, departures, lost=()):
        words, named = [], []
        for name, arrived, departed in zip("ab", arrivals, departures, strict=True):
            rows = sorted((int(ns), packet(n)) for n, ns in enumerate(arrived) if n not in lost)
            words.append(write_pcap(tmp_path / f"{name}.pcap", rows))
            rows = columns(requested_ns=REQUESTED, departed_ns=departed)
            named.append(write_departures(tmp_path / f"{name}.parquet", recording, rows))
        return [str(word) for word in (*words, "--recording", recording, "--departures", *named)]

    return write


def deviations(seed: int, largest_ns: int = 3_000_000) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, largest_ns, size=COUNT)


@pytest.mark.parametrize(("factor", "span"), [(0.5, "995 ms"), (2, "3.98 s")])
def test_departures_at_a_different_speed_are_an_error(replays, capsys, factor, span):
    departed = START_NS + (GAP_NS * factor * np.arange(COUNT)).astype(np.int64)
    message = failed(capsys, "kappa", *replays([REQUESTED, REQUESTED], [departed, departed]))
    assert "trial A, " in message
    assert f"packets arrived within 1.99 s, but departed within {span};" in message
    assert "specify the departures of this trial" in message


def test_swapped_departures_are_an_error(replays, capsys):
    departed = [REQUESTED + deviations(seed) for seed in (1, 2)]
    arrived = [times + deviations(seed, 300_000) for times, seed in zip(departed, (3, 4), strict=True)]
    assert pair(capsys, *replays(arrived, departed))["corrected"]["kappa"] > 0.9
    message = failed(capsys, "kappa", *replays(arrived, departed[::-1]))
    assert "--departures: the departures of trials A and B are swapped" in message


def test_swapped_departures_of_exact_replayers_are_an_error(replays, capsys):
    """The times of the runs reveal the swap, even if the receiver's clock differs by an hour."""
    departed = [REQUESTED, REQUESTED + 60 * 10**9]
    arrived = [times + 3_600 * 10**9 + deviations(3) for times in departed]
    assert pair(capsys, *replays(arrived, departed))["corrected"] is not None
    assert "trials A and B are swapped" in failed(capsys, "kappa", *replays(arrived, departed[::-1]))


def test_departures_of_a_run_at_a_different_time_are_a_warning(replays, capsys):
    """There is no warning if the clocks differ by a constant."""

    def offset_warnings(*later_s):
        departed = [REQUESTED + later * 10**9 + deviations(1) for later in later_s]
        arrived = [REQUESTED + 60 * 10**9, REQUESTED + 120 * 10**9]
        return texts(pair(capsys, *replays(arrived, departed)), "offset_change")

    assert offset_warnings(60, 120) == offset_warnings(7, 67) == []
    (text,) = offset_warnings(60, 180)
    assert "differs by 60 s between the trials" in text


@pytest.mark.parametrize(
    "delay_ns",
    [
        np.where(np.arange(COUNT) < COUNT // 3, 0, 200_000_000),  # a queue from then on
        np.where(np.arange(COUNT) < COUNT // 3, 60_000_000, 0),  # a different route from then on
        np.where(np.arange(COUNT) < COUNT // 2, 200_000_000, 0),
        np.minimum(np.arange(COUNT) * 5_000_000, 200_000_000),  # a queue fills
        np.where(np.arange(COUNT) < 3, 900_000_000, 0),  # the first packets wait for an address
        deviations(5, 100_000_000),
        1_000_000_000 + 100 * np.arange(COUNT),  # a clock that is off by 10 ppm
    ],
)
def test_delays_and_losses_of_a_path_are_accepted(replays, capsys, delay_ns):
    departed = [REQUESTED + deviations(seed) for seed in (1, 2)]
    words = replays([departed[0] + delay_ns, departed[1]], departed, lost=(0, 1, 50, COUNT - 1))
    assert pair(capsys, *words)["corrected"] is not None
