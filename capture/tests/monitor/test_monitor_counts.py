"""The counts of a monitor match a known schedule of delay, loss, duplication and reordering."""

import json
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from acapella_testing.capture.commands import run_command
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.tunnel_frames import checksum
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import ENCAPSULATIONS, PATTERNS, START_NS, Flow, Schedule
from acapella_testing.new_files import write_file
from acapella_testing.oracles import naive_monitor as naive
from hypothesis import given, settings
from hypothesis import strategies as st

from acapella_capture.monitor import command, expected, tables
from acapella_capture.monitor.command import rows_of
from acapella_capture.monitor.program import Settings
from acapella_core.errors import UserError

pytestmark = pytest.mark.usefixtures("monitor_on_path")

# A flow for each pattern and each encapsulation; gaps differ, so that arrivals interleave.
FLOWS = [
    Flow(60, 9_000 + 700 * index, 24 + 11 * index, PATTERNS[index % len(PATTERNS)], encapsulation)
    for index, encapsulation in enumerate(ENCAPSULATIONS)
]


def monitored(directory: Path, **options) -> dict[str, list[dict]]:
    """Return the tables of arrived.pcap of a directory."""
    wanted = expected.read(directory / "sent.generated.json")
    return rows_of(Settings(files=(directory / "arrived.pcap",), wanted=wanted, **options), correct=False)


def check_against_naive(directory: Path, flows: list[Flow], rows: dict[str, list[dict]]) -> None:
    """Compare the tables of a monitor with the contents of both captures."""
    by_flow, times = naive.received(directory, traffic.expected(flows)["flows"])
    for index, flow in enumerate(flows):
        wanted = naive.row_of(by_flow.get(index, []), flow.packets)
        assert {name: rows["monitor_flows"][index][name] for name in wanted} == wanted, index
        check_histograms(rows, index, by_flow.get(index, []))
    assert buckets(rows, tables.WHOLE_PORT, "gap") == naive.histogram([b - a for a, b in pairwise(times)])


def check_histograms(rows: dict[str, list[dict]], flow: int, packets: list) -> None:
    """Compare the histograms of a flow."""
    latencies = [ns - departure for ns, _, departure, *_ in naive.first_copies(packets)]
    assert buckets(rows, flow, "gap") == naive.histogram([b[0] - a[0] for a, b in pairwise(packets)])
    assert buckets(rows, flow, "latency") == naive.histogram(latencies)


def buckets(rows: dict[str, list[dict]], flow: int, measure: str) -> dict[int, int]:
    """Return a histogram of the table."""
    return {row["bucket"]: row["packets"] for row in rows["monitor_histograms"]
            if (row["flow"], row["measure"]) == (flow, measure)}  # fmt: skip


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(),
        Schedule(seed=2, loss=0.2),
        Schedule(seed=3, duplication=0.3),
        Schedule(seed=4, jitter_ns=60_000),
        Schedule(seed=5, damage=0.2),
        Schedule(seed=6, jitter_ns=90_000, loss=0.1, duplication=0.2, damage=0.1, drift=25e-6),
        Schedule(seed=7, delay_ns=-3_000_000, jitter_ns=4_000_000),
    ],
    ids=["unchanged", "loss", "duplication", "reordering", "damage", "all", "clock_behind"],
)
def test_counts_match_the_schedule(tmp_path, schedule):
    _, outcome = traffic.write(tmp_path, FLOWS, schedule)
    rows = monitored(tmp_path)
    (port,) = rows["monitor_ports"]
    assert (port["lost"], port["duplicates"]) == (outcome.lost, outcome.duplicated)
    sent = sum(flow.packets for flow in FLOWS)
    assert (port["received"], port["unique"]) == (len(outcome.arrived), sent - outcome.lost)
    assert sum(row["errored_packets"] for row in rows["monitor_flows"]) == port["bit_errors"] == outcome.damaged
    assert (port["reordered"] > 0) == (schedule.jitter_ns > 0)
    check_against_naive(tmp_path, FLOWS, rows)


@settings(max_examples=15)
@given(
    flows=st.lists(st.builds(Flow, packets=st.integers(1, 25), gap_ns=st.integers(1, 5000),
                             payload_bytes=st.integers(0, 40), pattern=st.sampled_from(PATTERNS),
                             encapsulation=st.sampled_from(ENCAPSULATIONS)),
                   min_size=1, max_size=4),
    schedule=st.builds(Schedule, seed=st.integers(0, 99), delay_ns=st.integers(-10**6, 10**9),
                       jitter_ns=st.integers(0, 50_000), loss=st.sampled_from((0.0, 0.3, 1.0)),
                       duplication=st.sampled_from((0.0, 0.3)), drift=st.sampled_from((0.0, 1e-4))),
)  # fmt: skip
def test_counts_equal_naive_ones_for_any_traffic(tmp_path, flows, schedule):
    traffic.write(tmp_path, flows, schedule)
    check_against_naive(tmp_path, flows, monitored(tmp_path))


def test_foreign_and_malformed_packets_are_counted(tmp_path):
    good = with_stamp(b"foreign packet of another program", 99)
    changes = ((24, b"\0\0"), (14, b"\x65"), (16, b"\xff\xff"), (14, b"\x42"))  # checksum, version, length, header
    wrong = [good[:at] + value + good[at + len(value) :] for at, value in changes]
    nested = traffic.MACS + b"\x81\x00" + struct.pack(">HH", 1, 0x8100) * 40
    others = [good, *wrong, good[:20], good[:9], nested, b""]
    times = [(START_NS + 50 * index, frame) for index, frame in enumerate(others)]
    traffic.write(tmp_path, FLOWS[:1], Schedule(), times)
    (port,) = monitored(tmp_path)["monitor_ports"]
    reasons = {name.removeprefix("malformed_"): value for name, value in port.items() if name.startswith("malformed_")}
    assert reasons == {"truncated": 3, "version": 1, "length": 2, "checksum": 1, "nested": 1}
    assert (port["foreign"], port["stamped"], port["lost"]) == (len(others), 60, 0)


def test_stamp_of_an_unknown_flow_or_sequence_number_is_invalid(tmp_path):
    traffic.write(tmp_path, FLOWS[:2], Schedule())
    stamps = [traffic.stamp(2, 0, START_NS), traffic.stamp(1, 60, START_NS)]
    write_pcap(tmp_path / "arrived.pcap", [(START_NS, with_stamp(stamp, 6000)) for stamp in stamps])
    (port,) = monitored(tmp_path)["monitor_ports"]
    assert (port["received"], port["invalid"], port["stamped"], port["lost"]) == (2, 2, 0, 120)


def test_stamps_at_many_offsets_of_unknown_headers_are_found(tmp_path):
    flows = [Flow(1)] * 40
    document = traffic.expected(flows)
    for index, flow in enumerate(document["flows"]):
        flow["stamp_offset"], flow["pattern_offset"] = 200 - index, 300
    (tmp_path / "sent.generated.json").write_text(json.dumps(document))
    head = traffic.MACS + b"\x88\xb5"  # local experimental EtherType
    frames = [(head + bytes(300))[: 200 - index] + traffic.stamp(index, 0, START_NS) for index in range(len(flows))]
    write_pcap(tmp_path / "arrived.pcap", [(START_NS, frame) for frame in frames])
    (port,) = monitored(tmp_path)["monitor_ports"]
    assert (port["stamped"], port["foreign"], port["lost"]) == (40, 0, 0)


def later_fragment(packet: bytes) -> bytes:
    """Return an IPv4 packet as a later fragment, whose first bytes are no ports."""
    head = packet[:6] + b"\x00\x05" + packet[8:10] + b"\0\0" + packet[12 : traffic.IPV4]
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + packet[traffic.IPV4 :]


# Packets without ports, from 10.0.0.9 and 10.0.0.10, within VXLAN, whose outer UDP header has ports.
WITHOUT_PORTS = [
    traffic.framed("vxlan", traffic.ipv4(1, b"\x08\0\xf7\xff" + bytes(60), 9)),
    traffic.framed("vxlan", later_fragment(traffic.ipv4(17, traffic.udp(bytes(60), 6003), 10))),
]


@pytest.mark.parametrize(
    ("rule", "flows", "others"),
    [
        ("udp,*,*,*,*", set(range(7)), 1),
        ("icmp,*,*,*,*", set(), 1),
        ("tcp,*,*,*,*", set(), 0),
        ("*,10.0.0.0/30,*,*,*", {0, 1, 2, 3}, 0),
        ("*,10.0.0.8/29,*,*,*", set(), 2),
        ("17,10.0.0.5,5000,10.1.0.0/16,6005", {5}, 0),
        ("udp,*,*,*,6002-6004", {2, 3, 4}, 0),
        ("*,10.0.0.0/8,*,*,4789", set(), 0),
        ("*,*,5000,*,*", set(range(7)), 0),
        ("udp,::/0,*,*,*", set(), 0),
    ],
)
def test_rule_selects_by_the_innermost_headers(tmp_path, rule, flows, others):
    traffic.write(tmp_path, FLOWS, Schedule(), [(START_NS, frame) for frame in WITHOUT_PORTS])
    rows = monitored(tmp_path, rules=(rule,))
    assert {row["flow"] for row in rows["monitor_flows"] if row["packets"] == 60} == flows
    (port,) = rows["monitor_ports"]
    assert port["filtered"] == 60 * (len(FLOWS) - len(flows)) + len(WITHOUT_PORTS) - others
    assert (port["foreign"], port["malformed_checksum"]) == (others, 0)


def trace_of(sequences: list[int]) -> list[tuple[int, bytes]]:
    """Return packets of flow 0 with these sequence numbers, 1 us apart and 10 us late."""
    stamps = [traffic.stamp(0, sequence, START_NS + 1000 * place) for place, sequence in enumerate(sequences)]
    return [(START_NS + 1000 * place + 10_000, with_stamp(stamp)) for place, stamp in enumerate(stamps)]


def with_stamp(stamp: bytes, port: int = 1) -> bytes:
    """Return a UDP packet with a stamp."""
    return traffic.framed("", traffic.ipv4(17, traffic.udp(stamp, port), 1))


def flow_of(tmp_path: Path, sequences: list[int], **options) -> dict:
    """Return the row of a flow, without a list of expected flows."""
    path = write_pcap(tmp_path / "arrived.pcap", trace_of(sequences))
    return rows_of(Settings(files=(path,), **options), correct=False)["monitor_flows"][0]


def test_sequence_numbers_wrap(tmp_path):
    top = 2**32
    row = flow_of(tmp_path, [top - 3, top - 1, top - 2, 1, 0, 1])
    assert (row["unique"], row["lost"], row["reordered"], row["duplicates"]) == (5, 0, 2, 1)
    assert (row["first_sequence"], row["last_sequence"]) == (top - 3, top + 1)


def test_packet_older_than_the_window_is_unclassified(tmp_path):
    row = flow_of(tmp_path, [*range(100), 35, 36, 200, 5], window=64)
    assert (row["duplicates"], row["unclassified"], row["unique"]) == (1, 2, 101)
    assert (row["reordered"], row["lost"]) == (0, 200 + 1 - 101 - 2)


def test_extent_beyond_the_latest_discontinuities_is_unknown(tmp_path):
    row = flow_of(tmp_path, [*list(range(0, 80, 2)), 1, 77])
    assert (row["reordered"], row["extent_known"], row["extent_max"]) == (2, 1, 2)


def test_truncated_packets_are_counted_with_their_wire_length(tmp_path):
    trace = traffic.sent(FLOWS[:1])
    path = write_pcap(tmp_path / "arrived.pcap", trace, snaplen=64)
    rows = rows_of(Settings(files=(path,), pattern="zeros"), correct=False)
    (row,) = rows["monitor_flows"]
    assert (row["packets"], row["bytes"]) == (60, 60 * len(trace[0][1]))
    assert row["bits_checked"] == 60 * 8 * (64 - 60)
    assert rows["monitor_ports"][0]["malformed_truncated"] == 0


def test_truncated_file_is_reported(tmp_path, capsys):
    path, _ = traffic.write(tmp_path, FLOWS[:1], Schedule())
    path.write_bytes(path.read_bytes()[:-1])
    (port,) = monitored(tmp_path)["monitor_ports"]
    assert (port["received"], port["lost"]) == (59, 1)
    assert capsys.readouterr().err == f"acapella: warning: {path}: truncated; its complete packets are counted\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "expected captures or --interface"),
        (("a.pcap", "--interface", "eth0"), "expected captures or --interface"),
        (("a.pcap", "--expected", "missing.json"), "missing.json: cannot read: No such file"),
        (("a.pcap", "--expected", "a.pcap"), "a.pcap: cannot read: not JSON"),
        (("a.pcap", "--sent", "missing.parquet"), "missing.parquet: no such file"),
        (("missing.pcap",), "missing.pcap: No such file or directory"),
        (("a.pcap", "--rule", "udp"), "--rule udp: not PROTOCOL,SRC"),
        (("a.pcap", "--duration", "3"), "need --interface"),
        (("--interface", "eth0", "--correct-drift"), "needs a capture"),
        (("--search", "--send", "eth0", "--interface", "eth1"), "--search needs"),
        (
            ("--search", "--send", "eth0", "--interface", "eth1", "--max-rate", "5", "--resolution", "5"),
            "less than --max-rate",
        ),
        (
            ("--search", "--send", "eth0", "--interface", "eth1", "--max-rate", "5", "--frame-bytes", "60", "90", "60"),
            "--frame-bytes: a size occurs twice",
        ),
        (("a.pcap", "--packets", "missing/packets.parquet"), "no such directory"),
        (("a.pcap", "--output", "/proc/none/tables"), "cannot create the directory"),
    ],
)
def test_usage_errors_are_reported_in_one_line(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    write_pcap(tmp_path / "a.pcap", [])
    with pytest.raises(UserError) as error:
        run_command(command, *options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["packets", "dropped", "stamp_offset", "pattern_offset"])
def test_too_large_numbers_in_the_expected_list_are_rejected(tmp_path, name):
    document = traffic.expected(FLOWS[:1])
    document["flows"][0][name] = 2**64
    with pytest.raises(UserError, match=str(2**64)):
        expected.read(write_file(tmp_path / "sent.json", json.dumps(document))).records()


def test_capture_without_packets_has_a_row_for_its_port_only(tmp_path):
    rows = rows_of(Settings(files=(write_pcap(tmp_path / "a.pcap", []),)), correct=False)
    assert (rows["monitor_ports"][0]["received"], rows["monitor_ports"][0]["first_ns"]) == (0, None)
    assert [rows[table] for table in tables.TABLES[1:]] == [[], [], [], []]
