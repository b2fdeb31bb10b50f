"""The default capture of replays, and captures that users provide."""

import itertools
import struct
import tracemalloc
from types import SimpleNamespace

import pytest
from acapella_testing.capture.fake_testbed import completed
from acapella_testing.capture.pcap_records import contents, frames
from acapella_testing.frames import pcap_files
from acapella_testing.frames.pcapng_files import write_pcapng, write_stamped
from acapella_testing.frames.tunnel_frames import checksum
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.oracles import naive_captures
from acapella_testing.requirements import require_programs

from acapella_capture.scan import scan
from acapella_capture.testbeds import sent_trials
from acapella_capture.testbeds.local import replay, replay_capture
from acapella_core.errors import UserError

SOURCE, DESTINATION = "02:00:00:00:fe:01", "02:00:00:00:02:01"


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "replay.pcap"
    replay_capture.write(path, SOURCE, DESTINATION)
    return path


def test_default_capture_is_reproducible(capture, tmp_path):
    replay_capture.write(tmp_path / "again", SOURCE, DESTINATION)
    assert (tmp_path / "again").read_bytes() == capture.read_bytes()


def test_packets_differ_in_their_first_bytes_and_have_a_fixed_rate(capture):
    packets = contents(capture)
    assert len(set(packets)) == len(packets) == replay_capture.PACKETS
    assert len({packet[: 60 - 12] for packet in packets}) == len(packets)
    stamps = [stamp for stamp, _ in frames(capture)]
    assert {after - before for before, after in itertools.pairwise(stamps)} == {replay_capture.GAP_NS}


def test_addresses_lengths_and_checksums_are_valid(capture):
    sizes, services = set(), set()
    for _, frame in frames(capture):
        assert frame[:14] == bytes.fromhex("020000000201 02000000fe01 0800")
        ip, udp = frame[14:34], frame[34:]
        sizes.add(len(frame))
        services.add(ip[1])
        assert struct.unpack("!H", ip[2:4])[0] == len(frame) - 14
        assert struct.unpack("!H", udp[4:6])[0] == len(frame) - 34
        assert checksum(ip) == 0  # over a header that includes a valid checksum
        assert checksum(ip[12:20] + struct.pack("!BBH", 0, ip[9], len(udp)) + udp) == 0
        assert udp[6:8] != b"\0\0"
    assert sizes == {60, 590, 1514}
    assert services == {0, 46 << 2}


@pytest.mark.parametrize(("data", "expected"), [(b"", 0xFFFF), (b"\xff\xff", 0), (b"\x00\x01\xf2", 0x0DFE)])
def test_internet_checksum_matches_known_values(data, expected):
    assert replay_capture.checksum(data) == expected


@pytest.mark.parametrize(("order", "unit_ns"), [("<", 1000), (">", 1)])
def test_only_the_mac_addresses_of_frames_are_replaced(tmp_path, order, unit_ns):
    kept = [b"\x08\x00" + b"four" * 20, b"\x86\xdd" + b"six" * 30, b"\x81\x00\x00\x05\x86\xdd" + bytes(60)]
    old = bytes.fromhex("3333000000773333000000aa")
    form = {"unit_ns": unit_ns, "order": order}
    frames = [old + rest for rest in kept] + [b"short", b""]
    records = [pcap_files.record(10**9 + 2 * unit_ns, frame, 1000, **form) for frame in frames]
    before = pcap_files.header(65535, **form) + b"".join(records) + b"cut"
    path = write_file(tmp_path / "given.pcap", before)
    replay_capture.set_mac_addresses(path, SOURCE, DESTINATION)
    assert path.read_bytes() == before.replace(old, bytes.fromhex("02000000020102000000fe01"))
    assert before.count(old) == len(kept)


@pytest.mark.parametrize(("order", "unit_ns"), [("<", 1), (">", 1000)])
def test_capture_is_split_among_replayers_with_the_times_of_their_first_frames(tmp_path, order, unit_ns):
    path, parts = write_five(tmp_path, order, unit_ns), [tmp_path / "1", tmp_path / "2"]
    assert replay_capture.split(path, parts) == [0, 10 * unit_ns]
    content = path.read_bytes()
    packets = [content[24 + 76 * n : 100 + 76 * n] for n in range(5)]
    assert parts[0].read_bytes() == content[:24] + b"".join(packets[::2])
    assert parts[1].read_bytes() == content[:24] + b"".join(packets[1::2])
    assert replay_capture.mean_gap_ns(path) == 10 * unit_ns


@pytest.mark.parametrize(
    "use",
    [
        lambda path: replay_capture.split(path, [path.with_name(str(number)) for number in range(6)]),
        lambda path: replay_capture.write_interfaces(path, path.with_name("x"), [SOURCE] * 6),
    ],
    ids=["split", "interfaces"],
)
def test_capture_with_fewer_frames_than_replayers_is_an_error(tmp_path, use):
    with pytest.raises(UserError, match="5 frames cannot be distributed to 6 replayers"):
        use(write_five(tmp_path))


def test_capture_with_too_many_packets_is_rejected(tmp_path, monkeypatch):
    path = write_five(tmp_path)
    monkeypatch.setattr(replay_capture, "MAX_PACKETS", 5)
    replay_capture.set_mac_addresses(path, SOURCE, DESTINATION)
    monkeypatch.setattr(replay_capture, "MAX_PACKETS", 4)
    with pytest.raises(UserError, match=r"fabric\.replay\.capture: the capture has more than 4 packets"):
        replay_capture.set_mac_addresses(path, SOURCE, DESTINATION, "fabric.replay.capture")


USES = [
    replay_capture.mean_gap_ns,
    lambda path: replay_capture.split(path, [path.with_name("1")]),
    lambda path: replay_capture.write_interfaces(path, path.with_name("x"), [SOURCE]),
    lambda path: replay_capture.set_mac_addresses(path, SOURCE, DESTINATION),
    lambda path: sent_trials.keep_recording(sent_trials.Part(path, "kept.pcap"), new_directory(path.with_name("raw"))),
]


def test_captures_are_not_read_into_memory(tmp_path):
    """Each function except set_mac_addresses needs less memory than a tenth of the capture."""
    path = pcap_files.write_pcap(tmp_path / "large.pcap", ((number, b"\1" * 10**6) for number in range(60)), 2**20)
    for use in (*USES[:3], USES[4]):
        tracemalloc.start()
        use(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6 * 10**6


@pytest.mark.parametrize("use", USES[:4])
def test_empty_capture_is_an_error(tmp_path, use):
    (tmp_path / "empty.pcap").touch()
    with pytest.raises(UserError, match=r"empty\.pcap is not a pcap"):
        use(tmp_path / "empty.pcap")


@pytest.mark.parametrize(("order", "unit_ns"), [("<", 1), (">", 1000)])
def test_interfaces_of_a_pcapng_are_interleaved(tmp_path, order, unit_ns):
    path, target = write_five(tmp_path, order, unit_ns), tmp_path / "x.pcapng"
    replay_capture.write_interfaces(path, target, [SOURCE, "02:00:00:00:fe:02"])
    assert scan(target).frames == 5
    found = list(packet_blocks(target.read_bytes()))
    assert [interface for interface, _, _ in found] == [0, 1, 0, 1, 0]
    assert [ts_ns for _, ts_ns, _ in found] == [3 * 10**9 + 5 * unit_ns + 10 * unit_ns * n for n in range(5)]
    macs = [bytes.fromhex(f"02000000fe{number:02x}") for number in (1, 2, 1, 2, 1)]
    assert [frame for _, _, frame in found] == [b"\1" * 6 + mac + bytes([n]) * 48 for n, mac in enumerate(macs)]


def write_five(directory, order: str = "<", unit_ns: int = 1):
    """Write a pcap of five frames of 60 bytes, 10 units of time apart."""
    form = {"unit_ns": unit_ns, "order": order}
    stamps = [3 * 10**9 + (5 + 10 * number) * unit_ns for number in range(5)]
    records = [pcap_files.record(ns, b"\1" * 12 + bytes([n]) * 48, **form) for n, ns in enumerate(stamps)]
    return write_file(directory / "five.pcap", pcap_files.header(65535, **form) + b"".join(records))


def packet_blocks(data: bytes):
    """Yield interface, time and frame of the packet blocks of a little-endian pcapng."""
    for _, kind, body in naive_captures.blocks(data):
        if kind == naive_captures.ENHANCED:
            interface, high, low, captured, wire = struct.unpack_from("<IIIII", body)
            assert captured == wire
            yield interface, (high << 32) + low, body[20 : 20 + captured]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1), True),
        (struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1), True),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101), False),
        (struct.pack("<IHHiIII", 0x0A0D0D0A, 2, 4, 0, 0, 65535, 1), False),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)[:23], False),
        (b"", False),
    ],
)
def test_ethernet_pcaps_are_recognized(tmp_path, header, expected):
    (tmp_path / "given").write_bytes(header)
    assert replay_capture.is_ethernet_pcap(tmp_path / "given") is expected


@pytest.fixture
def replayer(tmp_path, monkeypatch):
    """Return a replayer without a network that sends with our own program."""
    require_programs("editcap")
    monkeypatch.setattr(replay, "CAPTURE", tmp_path / "replay.pcap")
    monkeypatch.setattr(replay, "run", lambda _node, argv: completed(argv))
    created = object.__new__(replay.Replayer)
    created._senders, created.settings = {"acapella"}, SimpleNamespace(capture="given")
    return created


def test_pcapng_is_replayed_with_its_nanoseconds(tmp_path, replayer):
    times = [1_700_000_000_000_000_000 + gap for gap in (0, 1, 999, 123_456_789, 123_456_790)]
    sent = [bytes(12) + replay_capture.packet(number, 60, 5001, 0) for number in range(len(times))]
    write_stamped(tmp_path / "given", list(zip(times, sent, strict=True)))
    replayer._rewrite(tmp_path / "given", SOURCE)
    assert replay_capture.is_ethernet_pcap(tmp_path / "replay.pcap")
    assert frames(tmp_path / "replay.pcap") == list(zip(times, sent, strict=True))
    assert {path.name for path in tmp_path.iterdir()} == {"replay.pcap"}


def test_capture_of_an_unsupported_link_type_is_rejected(tmp_path, replayer):
    write_pcapng(tmp_path / "given", [(101, b"E" * 40)] * 2)
    with pytest.raises(UserError, match="cannot replay given: its frames are not Ethernet"):
        replayer._rewrite(tmp_path / "given", SOURCE)
