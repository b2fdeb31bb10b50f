"""Tests the explanation of a small gain of BBR with shallow buffers: from tables of captures, and by case."""

import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated import transfer_tables
from acapella_testing.generated.generated_wire import Capture
from acapella_testing.generated.transfer_tables import rows
from acapella_testing.svg_text import with_spaces

from acapella.figures import transfer_gain, transfer_shallow
from acapella.figures.source import Source
from acapella.report import transfers


def run(directory, algorithm: str, seconds: float, resent: int) -> None:
    """Write a captured run of 100,000 B over 1 Mbit/s and 1 s (BDP: 125,000 B) with a buffer of 5,000 B (0.04 BDP).

    ``resent``: how many of the 100 segments are retransmitted. Acknowledgments take 900 ms.
    """
    capture = Capture()
    for start, segments in ((100, 100), (300, resent)):
        for place in range(segments):
            capture.send(start + place, place)
    capture.acknowledge(1000, 50)
    capture.acknowledge(1100, 100)
    document = made.document(made.Sent(100_000, 100_000, seconds, seconds, resent), algorithm=algorithm, captured=0)
    path = {"rate_bps": 10**6, "buffer_bytes": 5000}
    more = {"settings": {"algorithm": algorithm, **path}, "measured": {"rtt_ns": 10**9, **path}}
    capture.write(made.cell(directory, algorithm, [document], wire="wire.parquet", **more))


def source_of(directory, bbr: tuple[float, int], cubic: tuple[float, int]) -> Source:
    """Return the tables of a run of each algorithm: its seconds, and retransmitted segments."""
    run(directory, "bbr", *bbr)
    run(directory, "cubic", *cubic)
    return transfer_tables.source_of(directory)


def test_wire_medians_match_values_computed_by_hand(tmp_path):
    source_of(tmp_path, (1.0, 25), (1.0, 0))
    # On the wire, 100,000 B take 1 s, from 100 to 1100 ms: 0.8 Mbit/s, with headers x 1514/1448. 25 of 126 frames with
    # payload (one is the cookie). In flight: 100 segments with headers, of 125,000 B.
    found = "algorithm, settings, settings_captured, wire_retransmits, round(wire_retransmitted_share, 4)"
    assert rows(tmp_path, "shallow", found) == [("bbr", 1, 1, 25, 0.1984), ("cubic", 1, 1, 0, 0.0)]
    found = "round(rate_share, 4), round(wire_flight_bdp, 4), settings_window_limited, settings_window_unknown"
    assert rows(tmp_path, "shallow", found)[0] == (0.8365, 0.8365, 0, 1)


def test_small_gain_is_explained_in_figure_and_report(tmp_path):
    source = source_of(tmp_path, (0.84, 25), (0.85, 0))
    (table,) = [each for each in transfers.tables(source) if each["name"] == "transfer_gain"]
    for text in map(with_spaces, (" ".join(transfer_gain.draw(source).key), table["note"])):
        assert "The gain with buffers below 0.1 BDP is at most 10 %" in text
        assert "retransmitted 19.8 % of the frames, 0 % of the frames" in text
        assert "throughput 83.6 % of the rate, 83.6 % of the rate" in text, "on the wire, not that of iperf3"
        assert "in flight (sum of the streams' 95 % quantiles) 0.836 BDP, 0.795 BDP" in text, "100 and 95 segments"
        assert "unknown whether a window limited BBR: 1 of 1 setting" in text
        assert "BBR retransmits 19.8 % of its frames, CUBIC 0 %" in text


def test_large_gain_is_not_explained(tmp_path):
    source = source_of(tmp_path, (0.84, 25), (2.0, 0))
    key = " ".join(transfer_gain.draw(source).key)
    assert "median gain with buffers below 0.1 BDP" in key
    assert "Reason" not in key
    assert "at most" not in key
    assert transfer_shallow.explanation(source) == ""


UNLIMITED = {
    **{"settings": 4, "settings_captured": 4, "settings_window_limited": 0, "settings_window_unknown": 0},
    **{"rate_share": 0.5, "queue_ns": 1e6},
    **{"wire_retransmits": 9.0, "wire_retransmitted_share": 0.01, "wire_flight_bdp": 1.2},
}


@pytest.mark.parametrize(
    ("bbr", "cubic", "reason"),
    [
        ({}, {"rate_share": 0.9}, "Reason: CUBIC uses 90.0 % of the rate, so BBR can gain at most 10.0 %"),
        ({}, {"rate_share": 0.89}, "These values do not explain it"),
        ({"wire_retransmitted_share": 0.04}, {}, "Reason: BBR retransmits 4.00 % of its frames, CUBIC 1.00 %"),
        ({"wire_retransmitted_share": 0.02}, {}, "These values do not explain it"),
        (
            {"wire_flight_bdp": 0.5},
            {},
            "Reason: BBR has only 0.5 BDP in flight (95 % quantiles), so it does not fill the path",
        ),
        ({"settings_window_limited": 3}, {}, "Reason: a window limited BBR in 3 of 4 settings"),
        ({"settings_captured": 0}, {}, "without captures of both algorithms, the reason is unknown"),
    ],
)
def test_reason_follows_from_the_values(bbr, cubic, reason):
    assert reason in with_spaces(transfer_shallow.text(UNLIMITED | bbr, UNLIMITED | cubic))
