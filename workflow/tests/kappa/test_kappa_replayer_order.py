"""Order of arrival of packets that two replayers send in turn: pairs that arrived reversed, and their causes."""

import numpy as np
import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_captures import START_NS, packet, pair
from acapella_testing.generated.replay_files import COUNT, GAP_NS, TIMES, columns, write_departures

from acapella.cli.main import main
from acapella.kappa.replayer_order import median_of


@pytest.fixture
def two_replayers(tmp_path):
    """Return a function that writes two equal trials of two replayers in turn, with some arrivals changed."""

    def write(
        late_ns: tuple[int, int], path_delays_ns: dict[int, int], departure_delays_ns=None, times=TIMES, **metadata: str
    ) -> list[str]:
        """Packets of replayer i depart ``late_ns[i]`` late, packet n by ``departure_delays_ns[n]`` more. Packet n
        arrives ``path_delays_ns[n]`` after its departure, or immediately. ``times``: requested departures.
        """
        deviations = np.array([late_ns[n % 2] + (departure_delays_ns or {}).get(n, 0) for n in range(COUNT)])
        sent = [(ns, packet(n)) for n, ns in enumerate(times)]
        arrivals = sorted(
            (ns + int(deviations[n]) + path_delays_ns.get(n, 0), data) for n, (ns, data) in enumerate(sent)
        )
        words = [str(write_pcap(tmp_path / f"{side}.pcap", arrivals)) for side in "ab"]
        recordings = [write_pcap(tmp_path / f"recording{source}.pcap", sent[source::2]) for source in range(2)]
        departures = []
        for source, recording in enumerate(recordings):
            requested = np.array(times[source::2])
            rows = columns(len(requested), requested_ns=requested, departed_ns=requested + deviations[source::2])
            departures.append(str(write_departures(tmp_path / f"{source}.parquet", recording, rows, **metadata)))
        return [*words, "--recording", *map(str, recordings), "--departures", *[",".join(departures)] * 2]

    return write


def test_reversed_packets_of_two_replayers_are_explained_or_counted(two_replayers, capsys):
    """The first replayer is late by 1,300 ns and the gaps are 1,237 ns, so its packets arrive after the next ones."""
    found = pair(capsys, *two_replayers((1_300, 0), {}))["replayer"]
    expected = {"pairs": COUNT - 1, "reversed": COUNT // 2, "unexplained": 0, "sent_in_order": 0}
    assert found["order_a"] == found["order_b"] == expected
    # the path delays packets 10, 11 and 40 by more than both replayers explain
    late = {10: 2 * GAP_NS, 11: 2 * GAP_NS, 40: GAP_NS + 1}
    found = pair(capsys, *two_replayers((0, 0), late))["replayer"]
    assert found["order_a"] == {"pairs": COUNT - 1, "reversed": 2, "unexplained": 2, "sent_in_order": 2}
    # an error of the clocks, of 620 ns each, explains a gap of 1,237 ns
    found = pair(capsys, *two_replayers((0, 0), late, clock_error_ns="620"))["replayer"]
    assert found["order_a"] == {"pairs": COUNT - 1, "reversed": 2, "unexplained": 0, "sent_in_order": 0}
    unknown = {"clock_error_ns": "unknown", "clock_offset_ns": "unknown"}
    assert pair(capsys, *two_replayers((0, 0), late, **unknown))["replayer"]["order_a"] is None


def test_departures_in_the_other_order_explain_reversed_packets(two_replayers, capsys):
    """Packet 20 is late and packet 21 early, each by less than their distance of 1,237 ns."""
    found = pair(capsys, *two_replayers((0, 0), {}, {20: 700, 21: -700}))["replayer"]
    assert found["order_a"] == {"pairs": COUNT - 1, "reversed": 1, "unexplained": 0, "sent_in_order": 0}


def test_packets_that_departed_late_but_in_order_are_counted(two_replayers, capsys):
    """All packets from 20 on depart late by 30 ms, which explains any order; the path reverses 40 and 41."""
    late = dict.fromkeys(range(20, COUNT), 30_000_000)
    found = pair(capsys, *two_replayers((0, 0), {40: GAP_NS + 1}, late))["replayer"]
    assert found["order_a"] == {"pairs": COUNT - 1, "reversed": 1, "unexplained": 0, "sent_in_order": 1}


def test_packets_requested_at_the_same_time_have_no_order(two_replayers, capsys):
    times = [START_NS + n // 2 * GAP_NS for n in range(COUNT)]
    found = pair(capsys, *two_replayers((300, 0), {}, times=times))["replayer"]
    assert found["order_a"] == {"pairs": COUNT // 2 - 1, "reversed": 0, "unexplained": 0, "sent_in_order": 0}


@pytest.mark.parametrize(
    ("deviations", "expected"), [([], (0, 0)), ([7] * 50, (7, 0)), ([-100, 100] * 50, (-100, 200))]
)
def test_skew_of_replayers_includes_the_error_of_medians(deviations, expected):
    assert median_of(np.array(deviations, np.int64)) == expected


def test_order_of_two_replayers_is_printed(two_replayers, capsys):
    assert main(["kappa", *two_replayers((0, 0), {40: GAP_NS + 1})]) == 0
    causes = "1 not explained by skew and departure errors, 1 sent in order"
    assert f"order A     1 of 199 pairs of different replayers reversed; {causes}" in capsys.readouterr().out
