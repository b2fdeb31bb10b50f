"""Departures: the program's records as Parquet, summaries, and invalid files."""

import struct

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.replay import departures
from acapella_capture.replay.departures import MAGIC, NO_TIME, Lead, Origin, convert, duration, leads_of, lost_in_kernel
from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError

RECORD = struct.Struct("<IHBBQqqIHH")
T = 1_800_000_000_000_000_000


def written(path, records, tail=b""):
    path.write_bytes(MAGIC + b"".join(RECORD.pack(*record) for record in records) + tail)
    return path


def record(loop=0, packet=0, late=0, outcome=0, **others):
    flags, retries, port = (others.get(key, default) for key, default in (("flags", 3), ("retries", 0), ("port", 0)))
    requested = T + loop * 10**9 + packet * 1000
    departed = requested + late if outcome == 0 else NO_TIME
    return (loop, port, outcome, flags, packet, requested, departed, retries, others.get("queue", 0), 0)


def test_record_size_matches_the_contract():
    assert (RECORD.size, departures.RECORD.itemsize) == (40, 40)


def test_records_become_rows_with_metadata(tmp_path):
    records = [record(packet=0, late=7, flags=1 | 2), record(packet=1, outcome=1, flags=0, retries=5)]
    records += [record(packet=2, outcome=3, flags=0, port=1, queue=2), record(loop=1, late=-2, flags=1 | 4)]
    node_clock = {"source": "chrony", "offset_ns": -5, "synchronized": True}
    leads = (Lead(7300, "loopback", -5, 7400, True), Lead())
    origin = Origin(-3, 9, "round trips", "ab" * 32, 2_500_000, "single", node_clock, leads)
    summary = convert(written(tmp_path / "d", records), tmp_path / "d.parquet", origin)
    table = pq.read_table(tmp_path / "d.parquet")
    assert table.schema.equals(arrow_schema("departures"))
    assert table.to_pylist() == [
        {"loop": 0, "port": 0, "packet": 0, "requested_ns": T, "departed_ns": T + 7, "outcome": "sent",
         "resolved": True, "burst_first": True, "hardware": False, "retries": 0, "queue": 0},
        {"loop": 0, "port": 0, "packet": 1, "requested_ns": T + 1000, "departed_ns": None, "outcome": "ring_full",
         "resolved": False, "burst_first": False, "hardware": False, "retries": 5, "queue": 0},
        {"loop": 0, "port": 1, "packet": 2, "requested_ns": T + 2000, "departed_ns": None, "outcome": "too_long",
         "resolved": False, "burst_first": False, "hardware": False, "retries": 0, "queue": 2},
        {"loop": 1, "port": 0, "packet": 0, "requested_ns": T + 10**9, "departed_ns": T + 10**9 - 2, "outcome": "sent",
         "resolved": True, "burst_first": False, "hardware": True, "retries": 0, "queue": 0},
    ]  # fmt: skip
    assert table.schema.metadata == {
        b"clock_offset_ns": b"-3",
        b"clock_error_ns": b"9",
        b"receiver_clock_error_ns": b"unknown",
        b"clock_source": b"round trips",
        b"recording_sha256": b"ab" * 32,
        b"speed": b"2.5",
        b"pacing": b"single",
        b"lead_ns": b"7300,unknown",
        b"lead_source": b"loopback,unknown",
        b"lead_p5_ns": b"-5,unknown",
        b"lead_p95_ns": b"7400,unknown",
        b"lead_hardware": b"true,unknown",
        b"node_clock_source": b"chrony",
        b"node_clock_offset_ns": b"-5",
        b"node_clock_synchronized": b"true",
    }
    assert summary.lines() == [
        "4 packets, 2 sent (1 ring_full, 1 too_long)",
        "departure error: median 2 ns, 99th percentile 7 ns, largest 7 ns",
    ]
    assert (tmp_path / "d.parquet").stat().st_mode & 0o777 == 0o600


def test_missing_metadata_is_unknown():
    assert set(Origin().metadata().values()) == {"unknown", "1"}


def test_run_contains_the_leads_of_its_ports():
    measured = {"source": "loopback", "ns": 7300, "p5_ns": 7000, "p95_ns": 9000, "timestamps": "kernel"}
    found = leads_of({"leads": [measured, {"source": "unknown", "ns": None}, {"source": "option", "ns": 0}]})
    assert found == (Lead(7300, "loopback", 7000, 9000, False), Lead(), Lead(0, "option"))
    assert [str(lead) for lead in found] == ["7.3 us (loopback)", "unknown", "0 ns (option)"]
    assert leads_of({"leads": [measured | {"source": "transmit", "timestamps": "device"}]})[0].hardware is True


@pytest.mark.parametrize(
    "wrong",
    [{"p5_ns": None}, {"p95_ns": True}, {"p5_ns": 9001}, {"p5_ns": "7"}, {"p95_ns": 1 << 63}, {"source": "option"}],
)
def test_invalid_lead_time_range_is_unknown(wrong):
    measured = {"source": "loopback", "ns": 7300, "p5_ns": 7000, "p95_ns": 9000, "timestamps": "kernel"}
    (lead,) = leads_of({"leads": [measured | wrong]})
    assert lead == Lead(7300, wrong.get("source", "loopback"))
    invalid = [measured | {"timestamps": stamps} for stamps in (None, "guess", ["device"])]
    assert [lead.hardware for lead in leads_of({"leads": invalid})] == [None] * 3


@pytest.mark.parametrize(
    "lead",
    [
        *(7, None, {}, {"ns": 7}),
        *({"ns": ns, "source": "option"} for ns in (-1, True, 1 << 63, "7")),
        *({"ns": 7, "source": source} for source in (["option"], "guess", None)),
    ],
)
def test_invalid_lead_is_unknown(lead):
    assert leads_of({"leads": [lead]}) == (Lead(),)
    assert leads_of({"leads": lead}) == () == leads_of({})


@pytest.mark.parametrize(
    ("tx_packets", "fault"),
    [
        (112, []),
        (150, []),  # another program sent frames
        (111, ["the kernel did not send all packets of eth1: 1 of 112 not sent at the end of the run"]),
        (100, ["the kernel did not send all packets of eth1: 12 of 112 not sent at the end of the run"]),
    ],
)
def test_forwarded_frames_and_replies_are_not_packets_of_the_run(tx_packets, fault):
    counted = {"tx_packets": tx_packets, "tx_errors": 0, "tx_dropped": 0}
    port = {"name": "eth1", "queues": [60, 40], "forwarded": 10, "answered": 2, "interface": counted}
    assert lost_in_kernel({"ports": [port]}) == fault


def test_rows_are_sorted_and_reproducible(tmp_path, monkeypatch):
    monkeypatch.setattr(departures, "ROWS_AT_ONCE", 7)
    records = [record(loop, packet, late=packet) for loop in range(3) for packet in range(11)]
    convert(written(tmp_path / "sorted", records), tmp_path / "a.parquet", Origin())
    convert(written(tmp_path / "shuffled", records[::-1]), tmp_path / "b.parquet", Origin())
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert [(row["loop"], row["packet"]) for row in pq.read_table(tmp_path / "b.parquet").to_pylist()] == [
        (loop, packet) for loop in range(3) for packet in range(11)
    ]


@given(st.lists(st.integers(-(10**6), 10**12), min_size=1, max_size=300))
def test_error_quantiles_use_the_nearest_rank(tmp_path, errors):
    path = written(tmp_path / "d", [record(packet=number, late=late) for number, late in enumerate(errors)])
    summary = convert(path, None, Origin())
    ordered = sorted(map(abs, errors))
    for share in (0.5, 0.99, 1):
        found = summary.error_ns(share)
        assert sum(error <= found for error in ordered) >= share * len(ordered)
        assert sum(error < found for error in ordered) < share * len(ordered)


def test_run_that_sent_nothing_has_no_error(tmp_path):
    summary = convert(written(tmp_path / "d", [record(outcome=6)]), tmp_path / "d.parquet", Origin())
    assert summary.error_ns(0.5) is None
    assert summary.lines() == ["1 packet, 0 sent (1 stopped)"]
    empty = convert(written(tmp_path / "e", []), tmp_path / "e.parquet", Origin())
    assert (empty.packets, pq.read_table(tmp_path / "e.parquet").num_rows) == (0, 0)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a complete file"),
        (b"ACDEPv2\0", "not a complete file"),
        (MAGIC + b"\0" * 39, "not a complete file"),
        (MAGIC + RECORD.pack(0, 0, 7, 0, 0, T, T, 0, 0, 0), "unknown outcome"),
        (MAGIC + RECORD.pack(0, 0, 0, 0, 0, T, NO_TIME, 0, 0, 0), "does not fit its time"),
        (MAGIC + RECORD.pack(0, 0, 1, 0, 0, T, T, 0, 0, 0), "does not fit its time"),
        (MAGIC + RECORD.pack(1 << 31, 0, 0, 0, 0, T, T, 0, 0, 0), "too large"),
        (MAGIC + RECORD.pack(0, 1 << 15, 0, 0, 0, T, T, 0, 0, 0), "too large"),
        (MAGIC + RECORD.pack(0, 0, 0, 0, 1 << 63, T, T, 0, 0, 0), "too large"),
        (MAGIC + RECORD.pack(0, 0, 0, 0, 0, T, T, 1 << 31, 0, 0), "too large"),
        (MAGIC + RECORD.pack(0, 0, 0, 0, 0, T, T, 0, 1 << 15, 0), "too large"),
    ],
)
def test_invalid_departures_are_a_one_line_error_and_no_file_is_written(tmp_path, content, why):
    (tmp_path / "d").write_bytes(content)
    with pytest.raises(UserError, match=why) as raised:
        convert(tmp_path / "d", tmp_path / "d.parquet", Origin())
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@given(st.binary(max_size=200))
def test_any_bytes_are_departures_or_an_error(tmp_path, content):
    (tmp_path / "d").write_bytes(MAGIC + content)
    try:
        assert convert(tmp_path / "d", None, Origin()).packets == len(content) // 40
    except UserError as error:
        assert str(tmp_path) in str(error)


def test_durations_are_readable():
    assert [duration(ns) for ns in (0, 999, 1000, 12_345_678, 3 * 10**9)] == [
        "0 ns",
        "999 ns",
        "1 us",
        "12.35 ms",
        "3 s",
    ]


def test_records_are_mapped_as_a_numpy_array(tmp_path):
    found = departures.read(written(tmp_path / "d", [record(packet=5, late=3, retries=2)]))
    assert found.dtype == departures.RECORD
    assert isinstance(found, np.memmap)
    assert (found["packet"][0], found["departed_ns"][0], found["retries"][0]) == (5, T + 5003, 2)
