"""Flow reports of captures whose file order is not time order: windows without a reason are exact, and bounds hold."""

import random
from collections import Counter

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.pcapng_files import write_stamped
from acapella_testing.frames.traces import START_NS
from acapella_testing.frames.trial_frames import ethernet, ipv4, udp

from acapella.cli import main as cli

pytestmark = pytest.mark.usefixtures("data_plane")
SECOND = 10**9
START = START_NS + 123
YEAR_2200 = 7_258_118_400 * SECOND


def frame(port: int, number: int) -> bytes:
    """Return a UDP datagram of 128 bytes at the IP layer."""
    return ethernet(ipv4(udp(number, size=100, ports=(port, 2000)), ident=number % 65536))


def trace(*, gap_ns: int = 10_000_000, count: int = 1000) -> list[tuple[int, int]]:
    """Return packets of five flows over ten seconds."""
    return [(START + at * gap_ns, 1000 + at % 5) for at in range(count)]


def checked(directory, captures, *, epoch: str = "1s") -> Counter:
    """Compare every window with a count over the packets of all captures; return the number of windows by reason."""
    frames = [[(ts_ns, frame(port, at)) for at, (ts_ns, port) in enumerate(packets)] for packets in captures]
    paths = [write_stamped(directory / f"{number}.pcapng", each) for number, each in enumerate(frames)]
    assert cli.main(["p4", "reports", *map(str, paths), "-o", str(directory / "made"), "--epoch", epoch]) == 0
    stamps = [(port, ts_ns // SECOND * SECOND) for packets in captures for ts_ns, port in packets]
    packets = Counter((port, window) for port, window in stamps if 0 <= window < 2**32 * SECOND)
    expected = Counter({place: 128 * count for place, count in packets.items()})
    flows = {row["flow"]: row["src_port"] for row in rows(directory, "compared_flows") if row["found"] != "collector"}
    found = {(flows[row["flow"]], row["window_ns"]): row for row in rows(directory, "judged_windows")}
    assert expected.keys() <= found.keys()
    for place, row in found.items():
        exact = expected[place]
        assert row["bytes"] == exact
        assert row["reason"] is not None or abs(row["bytes_measured"] - exact) * 10 <= exact, row
        assert (row["bytes_low"] or 0) <= exact, row
        assert row["bytes_high"] is None or exact <= row["bytes_high"], row
    return Counter(row["reason"] for row in found.values())


def rows(directory, name) -> list[dict]:
    """Return the rows of a result."""
    return pq.read_table(directory / "made" / f"{name}.parquet").to_pylist()


def untimed(directory) -> int:
    """Return the number of frames that the program did not receive."""
    return sum(row["value"] for row in rows(directory, "counts") if row["counter"] == "dropped.untimed")


def test_windows_between_a_frame_ahead_of_its_neighbors_and_its_time_have_a_reason(tmp_path):
    """Packet 700 (7 s) precedes packet 200 (2 s): windows 2 to 7 may be wrong, the other four are exact."""
    packets = trace()
    packets.insert(200, packets.pop(700))
    assert checked(tmp_path, [packets]) == {None: 4 * 5, "time_reversal": 6 * 5}


def test_all_windows_of_a_capture_with_swapped_halves_have_a_reason(tmp_path):
    packets = trace()
    assert checked(tmp_path, [packets[500:] + packets[:500]]) == {"time_reversal": 10 * 5}


def test_frames_with_implausible_times_are_counted_but_not_reported(tmp_path):
    """They are in no window of the digest, and the program does not receive them: all windows are exact."""
    packets = trace()
    packets[200:200] = [(YEAR_2200, 1000), (-SECOND, 1001), (YEAR_2200, 7777)]
    assert checked(tmp_path, [packets]) == {None: 10 * 5}
    assert untimed(tmp_path) == 3


def test_frame_with_implausible_time_does_not_delay_a_merge(tmp_path):
    packets = trace()
    assert checked(tmp_path, [[(YEAR_2200, 7777), *packets[::2]], packets[1::2]]) == {None: 10 * 5}
    assert untimed(tmp_path) == 1


@pytest.mark.soak
@pytest.mark.parametrize("epoch", ["1s", "700ms"])
def test_only_flows_reordered_across_a_window_edge_have_a_reason(tmp_path, epoch):
    """Adjacent frames are swapped at random, and some frames are late by up to two seconds."""
    draw = random.Random(epoch)
    packets = trace(gap_ns=3_000_000, count=3000)
    for _ in range(300):
        at = draw.randrange(len(packets) - 1)
        packets[at], packets[at + 1] = packets[at + 1], packets[at]
    for _ in range(3):
        at = draw.randrange(len(packets) - 700)
        packets.insert(at + draw.randrange(700), packets.pop(at))
    found = checked(tmp_path, [packets], epoch=epoch)
    assert found["time_reversal"] > 0 and (epoch != "1s" or found[None] >= 25)
