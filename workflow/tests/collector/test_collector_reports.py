"""Invalid reports, ICRC compared with scapy and tshark, snapshots of a running collector, and invalid options."""

import threading

import numpy as np
import pyarrow as pa
import pytest
from acapella_testing.frames.report_frames import BYTES, LAYOUTS, frame, icrc, pcap, report
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require, require_programs
from acapella_testing.waiting import in_background

from acapella_core import collector as core
from acapella_core.arrow_tables import arrow_schema
from acapella_core.collector import Collector, Options, QueuePair
from acapella_core.errors import UserError

BASE = 0x10_0000_0000
RING = [QueuePair(number=0x11, key=0x1234, base=BASE, slots=16)]
VALID = report(2, src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", report_sequence=1, timestamp=5, bytes=100, packets=1)


def counters(*frames: bytes, number: int = 2) -> dict:
    """Return the counters other than zero after these frames."""
    with Collector(RING, Options(format=number)) as collector:
        collector.feed_frames(list(frames))
        return {name: count for name, count in collector.finish().items() if count}


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("bad_key", {"key": 0x1235}),
        ("bad_qp", {"queue_pair": 0x12}),
        ("out_of_bounds", {"address": BASE + 16 * 192}),
        ("bad_opcode", {"opcode": 0x26}),
        ("bad_icrc", {"damage_icrc": True}),
        ("bad_version", {"payload": b"\3" + VALID[1:]}),
        ("bad_length", {"payload": b""}),
        ("not_roce", {"port": 4792}),
    ],
)
def test_invalid_report_is_counted_by_reason_and_discarded(reason, changes):
    assert counters(frame(**{"payload": VALID, "psn": 0, "address": BASE} | changes)) == {"frames": 1, reason: 1}


def test_truncated_frame_is_counted_as_truncated(tmp_path):
    with Collector(RING, Options(series_ns=None)) as collector:
        collector.feed(write_file(tmp_path / "cut.pcap", pcap([frame(VALID, psn=0, address=BASE)], cut=100)))
        found = collector.finish()
    assert (found["truncated"], found["accepted"], found["flows"]) == (1, 0, 0)


def test_random_bytes_are_counted_and_discarded():
    noise = np.random.default_rng(1)
    found = counters(*[noise.bytes(int(length)) for length in noise.integers(0, 400, 3000)])
    assert found["frames"] == found["not_roce"] + found.get("bad_length", 0) == 3000


def test_duplicate_and_reordered_sequence_numbers_are_distinguished():
    found = counters(*[frame(VALID, psn=psn, address=BASE) for psn in (2**24 - 1, 0, 4, 4, 2, 2)])
    assert found.items() >= {"accepted": 3, "psn_gap_lost": 3, "psn_duplicate": 2, "psn_reordered": 1}.items()


def test_columns_match_the_schemas():
    with Collector(RING, Options()) as collector:
        collector.feed_frames([frame(VALID, psn=0, address=BASE)])
        collector.finish()
        rows = pa.Table.from_batches(collector.flow_batches())
    assert rows.schema == arrow_schema("flow_reports")
    assert rows.to_pylist()[0] | {"bytes": 100, "packets": 1, "first_ns": 5, "src": "10.0.0.1"} == rows.to_pylist()[0]


def test_report_layouts_have_no_gaps():
    for number, rows in LAYOUTS.items():
        end = 0
        for row in rows:
            assert row["offset"] == end, (number, row["name"])
            end += row["bytes"]
        assert end == BYTES[number] == core.REPORT_BYTES[number]


@pytest.mark.parametrize("vlans", [(), (7,)])
def test_icrc_matches_scapy(vlans):
    packets = pytest.importorskip("scapy.layers.l2", reason="scapy is not installed")
    pytest.importorskip("scapy.contrib.roce", reason="this scapy has no RoCE")
    data = frame(VALID, psn=77, address=BASE, vlans=vlans)
    transport = packets.Ether(data)["BTH"]
    assert transport.opcode == 0x2A
    assert transport.psn == 77
    assert transport.dqpn == 0x11
    assert transport.compute_icrc(bytes(transport.payload)[:-4]) == data[-4:] == icrc(data[14 + 4 * len(vlans) : -4])


@pytest.mark.parametrize("number", [1, 2])
def test_tshark_dissects_reports_cleanly_and_shows_the_same_icrc(tmp_path, number):
    require_programs("tshark")
    created = VALID if number == 2 else report(1, timestamp=5)
    good = [frame(created, psn=n, address=BASE + n * BYTES[number], vlans=(5,) * (n % 3)) for n in range(6)]
    damaged = frame(created, psn=6, address=BASE, damage_icrc=True)
    capture = write_file(tmp_path / "r.pcap", pcap([*good, damaged]))
    names = ("bth.opcode", "bth.psn", "reth.r_key", "reth.dmalen", "invariant.crc")
    fields = [*(f"-einfiniband.{name}" for name in names), "-e_ws.malformed", "-e_ws.expert.message"]
    reported = run("tshark", "-nr", capture, "-Tfields", *fields, check=True).stdout.splitlines()
    # tshark 4.0 shows the ICRC of each frame, with its bytes in the order of the frame, but does not check it.
    crcs = [f"0x{data[-4:].hex()}" for data in (*good, damaged)]
    expected = [f"42\t{n}\t4660\t{BYTES[number]}\t{crc}\t\t" for n, crc in enumerate(crcs)]
    assert [line.replace("0x00001234", "4660") for line in reported] == expected
    assert counters(*good, damaged, number=number).items() >= {"accepted": 6, "bad_icrc": 1}.items()


def test_snapshots_are_consistent_while_reports_are_fed():
    reports = b"".join(
        report(2, src=bytes((10, 0, n % 100, 1)), dst=b"\x0a\0\0\2", report_sequence=n, timestamp=n, bytes=n)
        for n in range(1, 2000)
    )
    seen, stop = [], threading.Event()
    with Collector(options=Options(series_ns=None)) as collector:

        def look():
            while not stop.is_set():
                seen.append(collector.snapshot(limit=3))

        with in_background(look):
            for _ in range(20):
                collector.feed_reports(np.frombuffer(reports, np.uint8))
            stop.set()
        last = collector.snapshot(limit=3).to_pydict()
    assert seen
    assert all(len(batch) <= 3 for batch in seen)
    assert last["bytes"] == sorted(last["bytes"], reverse=True) == [1999, 1998, 1997]


def test_invalid_options_are_errors():
    with pytest.raises(UserError, match="queue pair 0"):
        Collector([QueuePair(0, 1, 1, 1)])
    with pytest.raises(UserError, match="24 bits"):
        Collector([QueuePair(1 << 24, 1, 1, 1)])
    with pytest.raises(UserError, match="report format 3"):
        Collector(options=Options(format=3))


def test_missing_rdma_device_is_an_error():
    require(not core.rdma_devices(), "this machine has an RDMA device")
    with (
        Collector() as collector,
        pytest.raises(UserError, match=r"no RDMA device on this machine|libibverbs") as caught,
    ):
        collector.open_rdma(core.Rdma("10.0.0.1", slots=64))
    assert "\n" not in str(caught.value)
