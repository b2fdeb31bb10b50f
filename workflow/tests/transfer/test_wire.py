"""Compares values measured for each TCP stream in a capture with values computed by hand."""

import pytest
from acapella_testing.generated.generated_wire import ACK, CLIENT, HEADERS, MS, SERVER, Capture

from acapella.transfer.wire import COOKIE_BYTES, RequestedStream, measure_streams


def row_of(tmp_path, capture: Capture, *, sender_ms: int = 10_000, size: int = 3500, cut: bool = False) -> dict:
    """Return the measured values of the only stream of a capture."""
    stream = RequestedStream(0, 0, CLIENT, SERVER, COOKIE_BYTES, sender_ms * MS, size)
    (row,) = measure_streams(*capture.write(tmp_path, cut=cut), [stream])
    return row


def complete_capture(first: int = 1000) -> Capture:
    """Return a capture of four segments at 100 to 103 ms, acknowledged 20, 30, 40 and 50 ms later."""
    capture = capture_of(range(4), first)
    for place in range(4):
        capture.acknowledge(100 + place + 20 + 10 * place, place + 1)
    return capture


def capture_of(numbers, first: int = 1000) -> Capture:
    """Return a capture of these segments; segment n is sent at 100 + n ms."""
    capture = Capture(first)
    for number in numbers:
        capture.send(100 + number, number)
    return capture


def test_values_of_a_stream_without_loss_match_values_computed_by_hand(tmp_path):
    row = row_of(tmp_path, complete_capture())
    assert (row["bytes"], row["retransmitted_bytes"], row["missing_bytes"], row["retransmits"]) == (4000, 0, 0, 0)
    assert (row["syn_ns"], row["start_ns"], row["end_ns"]) == (0, 100 * MS, 153 * MS)
    assert row["ip_bytes"] == 4000 + COOKIE_BYTES + 5 * HEADERS
    assert row["frame_bytes"] == 4000 + COOKIE_BYTES + 5 * (HEADERS + 14)
    # The cookie was acknowledged after 20 ms, the segments after 20, 30, 40, 50 ms.
    assert (row["rtts"], row["rtt_min_ns"], row["rtt_mean_ns"]) == (5, 20 * MS, 32 * MS)
    assert (row["rtt_p99_ns"], row["cut"]) == (50 * MS, False)


def test_transfer_is_done_when_the_last_requested_byte_is_acknowledged(tmp_path):
    done = {
        size: row_of(tmp_path, complete_capture(), size=size)["done_ns"] for size in (1, 1000, 3000, 3001, 4000, 4001)
    }
    third, last = 142 * MS, 153 * MS
    assert done == {1: 120 * MS, 1000: 120 * MS, 3000: third, 3001: last, 4000: last, 4001: None}


@pytest.mark.parametrize("first", [2**32 - 1, 2**32 - 40, 2**32 - 2000])
def test_sequence_numbers_wrap(tmp_path, first):
    assert row_of(tmp_path, complete_capture(first)) == row_of(tmp_path, complete_capture())


def test_retransmission_counts_once_and_gives_no_round_trip(tmp_path):
    capture = capture_of(range(4))
    capture.acknowledge(120, 1)  # 20 ms after segment 0
    capture.acknowledge(123, 1)  # duplicate
    capture.send(130, 1)  # retransmission of segment 1
    capture.acknowledge(150, 4)  # ends the recovery: segment 3 was sent 47 ms ago
    row = row_of(tmp_path, capture)
    assert (row["bytes"], row["retransmitted_bytes"], row["retransmits"]) == (4000, 1000, 1)
    assert (row["rtts"], row["rtt_min_ns"], row["rtt_p99_ns"]) == (2, 20 * MS, 20 * MS)
    assert row["end_ns"] == 150 * MS


def test_retransmission_after_the_end_of_the_test_is_late(tmp_path):
    capture = complete_capture()
    capture.send(300, 3)
    assert row_of(tmp_path, capture, sender_ms=150)["retransmits_late"] == 1
    assert row_of(tmp_path, capture, sender_ms=250)["retransmits_late"] == 0


def test_frames_that_the_capture_lost_are_missing_bytes(tmp_path):
    capture = capture_of((0, 3))
    capture.acknowledge(150, 4)
    row = row_of(tmp_path, capture, cut=True)
    assert (row["bytes"], row["missing_bytes"], row["retransmits"], row["cut"]) == (2000, 2000, 0, True)


def test_retransmission_whose_first_transmission_the_capture_lost_counts(tmp_path):
    row = row_of(tmp_path, capture_of((0, 2, 1)))
    assert (row["bytes"], row["missing_bytes"], row["retransmits"], row["retransmitted_bytes"]) == (3000, 0, 1, 0)


def test_more_than_two_to_the_31_bytes_are_counted(tmp_path):
    capture = Capture(2**32 - 5, opened=False)
    step = 2**30
    for place in range(6):  # segments of 1 GiB: no real frame, but the same arithmetic
        capture.frame(100 + place, 0, ACK, step, seq=place * step)
        capture.frame(100 + place + 20, 1, ACK, 0, ack=(place + 1) * step)
    row = row_of(tmp_path, capture)
    assert row["bytes"] == 6 * step - COOKIE_BYTES
    assert (row["missing_bytes"], row["retransmits"], row["rtts"], row["rtt_mean_ns"]) == (0, 0, 6, 20 * MS)


def test_stream_that_is_not_in_the_capture_has_no_row(tmp_path):
    assert (
        measure_streams(
            *complete_capture().write(tmp_path), [RequestedStream(0, 1, CLIENT + 1, SERVER, COOKIE_BYTES, 10**9)]
        )
        == []
    )


def test_capture_of_the_handshake_alone_has_no_row(tmp_path):
    assert (
        measure_streams(*Capture().write(tmp_path), [RequestedStream(0, 0, CLIENT, SERVER, COOKIE_BYTES, 10**9)]) == []
    )


def test_bytes_in_flight_are_sent_and_not_acknowledged(tmp_path):
    row = row_of(tmp_path, complete_capture())
    assert (row["flight_max_bytes"], row["flight_p95_bytes"]) == (4000, 4000)
    capture = Capture()
    for place in range(100):  # never more than two segments in flight
        capture.send(100 + 10 * place, place)
        if place:
            capture.acknowledge(105 + 10 * place, place)
    row = row_of(tmp_path, capture)
    assert (row["flight_max_bytes"], row["flight_p95_bytes"]) == (2000, 2000)


def test_segments_received_out_of_order_are_in_flight(tmp_path):
    capture = capture_of(range(4))
    for ms in (121, 122, 123):  # segment 0 was lost: duplicates
        capture.acknowledge(ms, 0)
    capture.send(130, 0)
    assert row_of(tmp_path, capture)["flight_max_bytes"] == 4000
