"""Tests the tables of runs with a capture: values of the wire, and why they differ from those of iperf3."""

from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated.generated_wire import Capture
from acapella_testing.generated.transfer_tables import rows, tables

SECOND = 10**9


def with_wire(tmp_path, capture: Capture, sent: made.Sent, **more) -> dict[str, tuple]:
    """Write a cell with a capture; return its (flagged, cause) by quantity."""
    add(tmp_path, "a", capture, sent, **more)
    return causes(tmp_path)["a"]


def add(tmp_path, name: str, capture: Capture, sent: made.Sent, *, cut: bool = False, **more) -> None:
    """Write a cell with a capture."""
    more = {"flows": [{"size_bytes": 100_000}]} | more
    capture.write(made.cell(tmp_path, name, [made.document(sent, captured=0)], wire="wire.parquet", **more), cut=cut)


def causes(tmp_path) -> dict[str, dict[str, tuple]]:
    """Return (flagged, cause) by cell and quantity."""
    found = defaultdict(dict)
    for name, quantity, *rest in rows(tmp_path, "disagreements", "cell_id, quantity, flagged, cause"):
        found[name][quantity] = tuple(rest)
    return found


def steady(segments: int = 100, lost=(), *, step_ms: int = 10) -> Capture:
    """Return a capture of a segment every ``step_ms`` from 100 ms on, acknowledged after 20 ms, except ``lost``."""
    capture = Capture()
    for place in range(segments):
        if place not in lost:
            capture.send(100 + step_ms * place, place)
        capture.acknowledge(120 + step_ms * place, place + 1)
    return capture


AGREED = (False, None)
# 100 segments of 1000 B: 100,000 B from 100 ms to 1,110 ms, that is in 1.010 s.
EXACT = made.Sent(100_000, 100_000, 1.0, 1.01, 0)


def test_agreement_is_not_flagged(tmp_path):
    found = with_wire(tmp_path, steady(), EXACT)
    assert found == dict.fromkeys(["completion", "retransmits", "sent", "throughput"], AGREED)
    columns = "wire_bytes, wire_duration_ns, wire_retransmits, wire_rtt_mean_ns, queue_mean_ns, disagreements"
    assert rows(tmp_path, "cells", columns) == [(100_000, 1_010_000_000, 0, 20_000_000, 0, 0)]
    assert rows(tmp_path, "flows", "wire_start_up_ns, wire_rtts") == [(100_000_000, 101)]


def write_runs(tmp_path, cubic_segments: int) -> None:
    """Write a run of BBR and one of CUBIC that were asked to send 90,000 B."""
    for algorithm, segments, step_ms, seconds in (("bbr", 100, 5, 1.0), ("cubic", cubic_segments, 10, 0.8)):
        document = made.document(made.Sent(130_000, 80_000, seconds, seconds), algorithm=algorithm, captured=0)
        more = {"settings": {"algorithm": algorithm}, "flows": [{"size_bytes": 90_000}], "wire": "wire.parquet"}
        steady(segments, step_ms=step_ms).in_order().write(made.cell(tmp_path, algorithm, [document], **more))


TIMES = "algorithm, completion_source, completion_ns / 1e6, iperf3_completion_ns / 1e6, wire_completion_ns / 1e6"
MEANS = "algorithm, completion_source, completion_ns_mean / 1e6, iperf3_completion_ns_mean / 1e6"
DIFFERENCES = "completion_source, difference_ns / 1e6, iperf3_difference_ns / 1e6"


def test_completion_is_the_time_until_the_requested_bytes_are_acknowledged(tmp_path):
    write_runs(tmp_path, cubic_segments=100)
    # Segment 90 leaves 89 steps after the first and is acknowledged 20 ms later: 89 x 5 + 20, and 89 x 10 + 20 ms.
    assert rows(tmp_path, "cells", TIMES) == [
        ("bbr", "wire", 465.0, 1000.0, 465.0),
        ("cubic", "wire", 910.0, 800.0, 910.0),
    ]
    assert rows(tmp_path, "flows", "wire_completion_ns / 1e6, wire_duration_ns / 1e6, end_ns / 1e6") == [
        (465.0, 99 * 5 + 20.0, 465.0),
        (910.0, 99 * 10 + 20.0, 910.0),
    ]
    assert rows(tmp_path, "settings", MEANS) == [("bbr", "wire", 465.0, 1000.0), ("cubic", "wire", 910.0, 800.0)]
    assert rows(tmp_path, "gain", DIFFERENCES) == [("wire", 445.0, -200.0)]


def test_completion_times_of_iperf3_are_compared_if_a_run_lacks_requested_bytes(tmp_path):
    write_runs(tmp_path, cubic_segments=89)
    assert rows(tmp_path, "cells", TIMES) == [
        ("bbr", "wire", 465.0, 1000.0, 465.0),
        ("cubic", "iperf3", 800.0, 800.0, None),
    ]
    assert rows(tmp_path, "settings", MEANS) == [("bbr", "iperf3", 1000.0, 1000.0), ("cubic", "iperf3", 800.0, 800.0)]
    assert rows(tmp_path, "gain", DIFFERENCES) == [("iperf3", -200.0, -200.0)]


def test_known_causes_of_differences_are_named(tmp_path):
    add(tmp_path, "headers", steady(), made.Sent(105_200, 105_200, 1.0, 1.01, 0))  # IP and TCP headers of 52 B counted
    add(tmp_path, "late", steady(), made.Sent(100_000, 100_000, 1.0, 1.1, 0))  # 90 ms longer; SYN to first byte: 100 ms
    # 50 kB never left the buffer, 20 kB arrived too late
    add(tmp_path, "buffer", steady(), made.Sent(150_000, 80_000, 0.8, 0.8, 0))
    # equals the bytes with headers by chance
    add(tmp_path, "both", steady(), made.Sent(105_200, 90_000, 0.95, 0.95, 0))
    add(tmp_path, "lost", steady(lost=range(40, 60)), EXACT)
    add(tmp_path, "cut", steady(60), EXACT, cut=True)
    found = causes(tmp_path)
    assert (found["headers"]["sent"], found["headers"]["throughput"]) == ((True, "headers"), (True, "headers"))
    assert (found["late"]["completion"], found["late"]["throughput"]) == ((True, "start_up"), (True, "start_up"))
    assert (found["buffer"]["sent"], found["buffer"]["completion"]) == ((True, "send_buffer"), (True, "send_buffer"))
    assert found["both"]["sent"] == (True, "send_buffer")
    assert (found["lost"]["sent"], found["lost"]["throughput"]) == ((True, "capture_loss"), (True, "capture_loss"))
    assert {found["cut"][name] for name in ("sent", "completion")} == {(True, "capture_loss")}


# The last of 60 segments is acknowledged 610 ms after the first was sent. 120,000 B are twice the captured ones.
ENDS = [
    (0.61, 40_000_000, "unexplained"),  # the capture ends with the test
    (0.62, 40_000_000, "unexplained"),  # 10 ms later: at most 50,000 of the missing 60,000 B
    (0.6225, 40_000_000, "capture_loss"),  # 12.5 ms: 62,500 B
    (0.6225, 30_000_000, "unexplained"),  # 12.5 ms: 46,875 B
]


def test_truncated_capture_lacks_at_most_what_the_link_carries_until_the_end_of_the_test(tmp_path):
    for place, (seconds, rate, _) in enumerate(ENDS):
        more = {"measured": {"rate_bps": rate}, "settings": {"rate_bps": rate}}
        add(tmp_path, f"{place}", steady(60), made.Sent(120_000, 120_000, seconds, seconds, 0), cut=True, **more)
    found = causes(tmp_path)
    for place, (*_, cause) in enumerate(ENDS):
        assert {found[f"{place}"][name] for name in ("sent", "throughput")} == {(True, cause)}, place


# 50,000 B of 150,000 B were not sent; the tolerance, 1 % of the bytes on the wire, is 1000 B.
BUFFERS = [
    ("clean", 49_000, 10**7, "send_buffer"),
    ("clean", 48_999, 10**7, "unexplained"),
    ("clean", None, 49_000, "send_buffer"),
    ("clean", None, 48_999, "unexplained"),
    ("published", 10**7, 48_999, "unexplained"),
    ("published", 48_999, None, "unexplained"),
    ("published", None, None, "send_buffer"),  # 4 MiB
]


def test_send_buffer_explains_no_more_bytes_than_it_has(tmp_path):
    for place, (mode, extra, wmem, _) in enumerate(BUFFERS):
        more = {"mode": mode, "flows": [{"size_bytes": 100_000, "extra_bytes": extra}]}
        more["environment"] = {"tcp_wmem": [4096, 16_384, wmem]} if wmem else {}
        add(tmp_path, f"{place}", steady(), made.Sent(150_000, 80_000, 0.8, 0.8, 0), **more)
    assert [cell["sent"] for _, cell in sorted(causes(tmp_path).items())] == [(True, cause) for *_, cause in BUFFERS]


def test_send_buffer_of_unknown_size_is_assumed_to_be_four_mebibytes(tmp_path):
    over = 2**22 + 1000  # the tolerance, 1 % of the bytes on the wire, is 1000 B
    for number, cause in enumerate(["send_buffer", "unexplained"]):
        add(tmp_path, cause, steady(), made.Sent(100_000 + over + number, 80_000, 0.8, 0.8, 0))
    found = {name: cell["sent"] for name, cell in causes(tmp_path).items()}
    assert found == {cause: (True, cause) for cause in ("send_buffer", "unexplained")}


@pytest.mark.parametrize("received", [100_000, 99_999], ids=["half the time", "one byte late"])
def test_send_buffer_explains_only_the_wire_time_of_its_bytes(tmp_path, received):
    found = with_wire(tmp_path, steady(), made.Sent(100_000, received, 0.5, 0.5, 0))
    assert (found["completion"], found["throughput"]) == ((True, "unexplained"), (True, "unexplained"))
    assert rows(tmp_path, "cells", "flags") == [("unexplained window_unknown",)]


def steady_without_a_byte() -> Capture:
    """Return a capture whose segment 50 lacks its last byte."""
    capture = steady(lost=[50])
    capture.send(600, 50, 999)
    return capture.in_order()


@pytest.mark.parametrize(("retransmits", "cause"), [(1, "capture_loss"), (2, "unexplained"), (50, "unexplained")])
def test_missing_byte_explains_one_retransmission(tmp_path, retransmits, cause):
    found = with_wire(tmp_path, steady_without_a_byte(), made.Sent(100_000, 100_000, 1.0, 1.01, retransmits))
    assert rows(tmp_path, "flows", "wire_missing_bytes") == [(1,)]
    assert found["retransmits"] == (True, cause)
    assert found["completion"] == AGREED


def test_missing_byte_or_end_of_a_capture_does_not_explain_a_longer_completion(tmp_path):
    slow = made.Sent(100_000, 100_000, 2.0, 2.0, 0)
    add(tmp_path, "byte", steady_without_a_byte(), slow)
    add(tmp_path, "cut", steady(60), slow, cut=True)
    assert {cell["completion"] for cell in causes(tmp_path).values()} == {(True, "unexplained")}


def two_starts(tmp_path, name: str, captured: int, sent: made.Sent = EXACT, **more) -> None:
    """Write a run of two flows, started 3 s apart, and the capture of one or both, whose data begin 2.5 s apart."""
    documents = [made.document(sent, captured=number) for number in range(2)]
    starts = [{"started_ns": 10**18 + number * 3 * SECOND, "start_error_ns": 0} for number in range(2)]
    flows = [start | {"size_bytes": 100_000} for start in starts]
    path = made.cell(tmp_path, name, documents, flows=flows, wire="wire.parquet", **more)
    later = steady()
    later.rows = [row | {"ts_ns": row["ts_ns"] + 2_500_000_000} for row in later.rows]
    steady().write(path, *[later][: captured - 1])


@pytest.mark.parametrize(("captured", "offset"), [(2, 2_500_000_000), (1, 3 * SECOND)])
def test_offset_of_a_flow_is_that_of_its_first_data_if_every_flow_is_captured(tmp_path, captured, offset):
    two_starts(tmp_path, "a", captured)
    assert rows(tmp_path, "flows", "flow, offset_ns") == [(0, 0), (1, offset)]
    assert rows(tmp_path, "cells", "completion_ns") == [(offset + 1_010_000_000,)]


def test_spread_of_ends_uses_the_source_of_the_completion_times(tmp_path):
    early = made.Sent(100_000, 100_000, 0.8, 0.8, 0)
    two_starts(tmp_path, "a", 2, early)
    # On the wire, both flows take 1.01 s, 2.5 s apart: ends at 1.01 and 3.51 s.
    assert rows(tmp_path, "settings", "completion_source, round(ends_apart_mean, 5)") == [("wire", 0.71225)]
    two_starts(tmp_path, "b", 1, early, settings={"algorithm": "bbr"})
    tables(tmp_path)
    # Some flows of run b were not captured; the times of iperf3 count: 0.8 and 3.3 s in run a, 0.8 and 3.8 s in run b.
    found = "algorithm, completion_source, round(ends_apart_mean, 5)"
    assert rows(tmp_path, "settings", found) == [("bbr", "iperf3", 0.78947), ("cubic", "iperf3", 0.75758)]


def two_flows(tmp_path, paths: list[str | None], **more) -> None:
    """Write a run of two flows: round trips of 20 ms, and of 30 or 50 ms."""
    slow = Capture(opened=False)
    for place in range(100):
        slow.send(100 + 100 * place, place)
        slow.acknowledge(130 + 100 * place + (20 if place % 2 else 0), place + 1)
    documents = [made.document(EXACT, captured=number) for number in range(2)]
    path = made.cell(tmp_path, "a", documents, flows=[{"path": path} for path in paths], wire="wire.parquet", **more)
    steady().in_order().write(path, slow)


@pytest.mark.parametrize(
    ("paths", "bases"),
    [(["red", "blue"], (20, 30)), ([None, None], (20, 30)), (["red", "red"], (20, 20))],
)
def test_queueing_delay_is_relative_to_the_path_of_the_flow(tmp_path, paths, bases):
    two_flows(tmp_path, paths)
    means = (20, 40)  # the second flow waits 0 or 20 ms, half of the time each
    found = "path_rtt_min_ns // 1000000, round(queue_mean_ns / 1e6)"
    assert rows(tmp_path, "flows", found) == [(base, mean - base) for mean, base in zip(means, bases, strict=True)]


def test_flow_has_the_round_trip_that_was_measured_on_its_path(tmp_path):
    measured = [{"path": "blue", "rtt_ns": 30}, {"path": "red", "rtt_ns": 20}]
    two_flows(tmp_path, ["red", "blue"], measured={"rtt_ns": 20, "paths": measured})
    assert rows(tmp_path, "flows", "path, measured_rtt_ns") == [("red", 20), ("blue", 30)]


@pytest.mark.parametrize(
    ("windows", "limited", "flags", "unknown"),
    [
        ([500, 1_050], True, "window_limited", None),  # the sender has one segment of 1000 B in flight, never more
        ([1_150], False, "", None),
        (  # more was in flight
            [900],
            None,
            "window_unknown",
            "no busy time in TCP_INFO, and the window grew after the last sample",
        ),
        ([None], None, "window_unknown", "neither busy time nor window in TCP_INFO"),
        ([], None, "window_unknown", "no samples of TCP_INFO"),
    ],
)
def test_sender_that_fills_the_receivers_window_is_marked(tmp_path, windows, limited, flags, unknown):
    samples = [{"flow": 0, "t_ns": 0, "snd_wnd_bytes": window} for window in windows]
    samples.append({"flow": 1, "t_ns": 0, "snd_wnd_bytes": 1})
    steady().write(made.cell(tmp_path, "a", [made.document(EXACT, captured=0)], wire="wire.parquet", tcp_info=samples))
    columns = "wire_flight_max_bytes, wire_flight_p95_bytes, window_limited"
    assert rows(tmp_path, "flows", columns) == [(1000, 1000, limited)]
    assert rows(tmp_path, "cells", "window_limited, window_unknown, flags") == [(limited, unknown, flags)]
    assert rows(tmp_path, "settings", "runs_flagged, runs_window_unknown") == [(limited is True, limited is None)]


BUSY = {"busy_ns": 9, "rwnd_limited_ns": 0, "sndbuf_limited_ns": 0}


@pytest.mark.parametrize(
    ("samples", "flags", "limited"),
    [
        ([{"flow": 0, **BUSY}], [], False),  # the kernel counted no waiting time
        ([{"flow": 0, **BUSY}], ["window_limited"], True),
        ([], ["window_limited"], True),
        ([{"flow": 0, "busy_ns": None}], [], None),
        ([{"flow": 1, **BUSY}], [], None),
        (None, [], None),
    ],
)
def test_run_without_capture_is_known_to_be_unlimited_only_if_the_kernel_counted_its_waiting(
    tmp_path, samples, flags, limited
):
    made.cell(tmp_path, "a", [made.document()], tcp_info=samples, flags=flags)
    assert rows(tmp_path, "cells", "window_limited, window_unknown is null") == [(limited, limited is not None)]


def test_retransmissions_after_the_end_are_a_known_cause(tmp_path):
    capture = steady()
    capture.send(1500, 99)
    assert with_wire(tmp_path, capture, EXACT)["retransmits"] == (True, "after_end")


def test_other_differences_are_unexplained_counted_and_flagged(tmp_path):
    assert with_wire(tmp_path, steady(), made.Sent(200_000, 200_000, 1.0, 1.01, 3)) == {
        "sent": (True, "unexplained"),
        "completion": AGREED,
        "throughput": (True, "unexplained"),
        "retransmits": (True, "unexplained"),
    }
    assert rows(tmp_path, "cells", "disagreements, unexplained, flags") == [(3, 3, "unexplained window_unknown")]


def test_missing_and_damaged_digests_are_named_and_their_runs_count(tmp_path):
    made.cell(tmp_path, "a", [made.document()], wire="wire.parquet")
    made.cell(tmp_path, "b", [made.document()], wire="wire.parquet")
    (tmp_path / "transfers/b/wire.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "transfers/b/wire.flows.parquet")
    assert [(file, reason[:14]) for file, reason in rows(tmp_path, "files", "file, reason")] == [
        ("transfers/a/wire.parquet", "not a digest: "),
        ("transfers/b/wire.parquet", "not a digest: "),
    ]
    assert rows(tmp_path, "cells", "wire_bytes, error") == [(None, None)] * 2
