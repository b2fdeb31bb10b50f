"""Flows of other flow meters compared with the flows of a digest."""

import gzip
import json
from types import SimpleNamespace

import pytest
from acapella_testing.frames.traces import MS, START_NS, underlay, write_pcap
from acapella_testing.new_files import write_file
from acapella_testing.requirements import skip_if
from scapy.layers.inet import IP, TCP, UDP

from acapella.cli.main import main
from acapella.common import queries
from acapella.flowreports.comparators import as_text, compare, make_table, meters
from acapella_core.errors import MISTAKE, OUTSIDE, UserError

CLIENT, SERVER = {"src": "10.0.0.1", "dst": "10.0.0.2"}, {"src": "10.0.0.2", "dst": "10.0.0.1"}


def needs(tool: str) -> None:
    """Skip with a reason if a tool is missing."""
    skip_if(meters.METERS[tool].why_unavailable())


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Return a capture of a TCP connection and a UDP flow, with labels before some UDP frames, and its flow table."""
    directory = tmp_path_factory.mktemp("comparators")
    tcp = [IP(**CLIENT) / TCP(sport=5000, dport=80, flags="A") / bytes(100 * n) for n in range(1, 4)]
    back = [IP(**SERVER) / TCP(sport=80, dport=5000, flags="A", seq=n) / bytes(10) for n in range(2)]
    udp = [IP(**CLIENT) / UDP(sport=53, dport=5353) / bytes(70)]
    frames = [underlay("plain", packet) for packet in [*tcp, *back, *udp]] + [underlay("pw", udp[0])] * 3
    capture = write_pcap(directory / "t.pcap", [(START_NS + n * MS, frame) for n, frame in enumerate(frames)], 1000)
    flows = directory / "flows.parquet"
    main(["digest", str(capture), "-o", str(directory / "t.parquet"), "--flows", str(flows), "--engine", "native"])
    return capture, flows


@pytest.fixture
def packed(seen, tmp_path):
    """Return the capture compressed by gzip."""
    return write_file(tmp_path / "t.pcap.gz", gzip.compress(seen[0].read_bytes()))


def compared(capsys, code: int, capture, flows) -> list[str]:
    """Run `acapella p4 compare` with softflowd; return the lines of its error messages and of its table."""
    needs("softflowd")
    assert main(["p4", "compare", str(capture), "--flows", str(flows), "--tool", "softflowd"]) == code
    printed = capsys.readouterr()
    return printed.err.splitlines() + printed.out.splitlines()


@pytest.mark.parametrize("tool", ["softflowd", "nfdump"])
def test_meter_counts_plain_frames_but_not_labeled_ones(tool, seen):
    needs(tool)
    result = compare(*seen, [tool])
    (found,) = result["tools"]
    plain_bytes = 3 * 40 + 600 + 2 * 50 + 98
    assert result["exact"] == {"flows": 3, "packets": 9, "ip_bytes": plain_bytes + 3 * 98}
    assert (found["flows"], found["packets"], found["ip_bytes"]) == (3, 6, plain_bytes)
    assert (found["common_flows"], found["flows_with_equal_packets"], found["flows_with_equal_bytes"]) == (3, 2, 2)
    assert found["version"][0].isdigit()
    assert {"softflowd": found["own"].get("ignored"), "nfdump": found["own"].get("unknown")}[tool] is not None


def test_only_a_meter_that_reads_files_gets_a_copy_of_at_most_half_of_the_space(seen, packed, monkeypatch):
    needs("softflowd")
    needs("nfdump")
    free = SimpleNamespace(f_bavail=1, f_frsize=2 * seen[0].stat().st_size - 200)
    monkeypatch.setattr(meters.os, "statvfs", lambda _: free)
    assert compare(packed, seen[1], ["softflowd"]) == compare(*seen, ["softflowd"])
    with pytest.raises(meters.CopyTooLargeError, match=r"t\.pcap\.gz: exceeds the decompression limits"):
        compare(packed, seen[1], ["nfdump"])


def test_nothing_is_decompressed_without_a_meter(seen, tmp_path, monkeypatch):
    """Limits and damage of the capture have no effect."""
    damaged = write_file(tmp_path / "t.pcap.gz", b"\x1f\x8b" + bytes(9))
    monkeypatch.setattr(meters, "which", lambda _: None)
    assert all("is not installed" in tool["skipped"] for tool in compare(damaged, seen[1])["tools"])


def test_meters_are_skipped_with_a_warning_if_editcap_is_missing(seen, packed, monkeypatch, capsys):
    needs("softflowd")
    which = meters.which
    monkeypatch.setattr(meters, "which", lambda program: None if program == "editcap" else which(program))
    tools = {tool["tool"]: tool["skipped"] for tool in compare(packed, seen[1])["tools"]}
    assert tools["softflowd"] == "compressed or truncated, and editcap is missing"
    assert "editcap is missing; apt-get install wireshark-common; softflowd is skipped" in capsys.readouterr().err
    assert compare(seen[0], seen[1])["tools"][0]["skipped"] is None, "uncompressed"
    assert main(["p4", "compare", str(packed), "--flows", str(seen[1]), "--tool", "softflowd"]) == OUTSIDE


@pytest.mark.parametrize(
    ("name", "script", "code"),
    [
        *(("softflowd", script, OUTSIDE) for script in ("kill -KILL $$", "exit 127", "not a script")),
        *(("editcap", script, OUTSIDE) for script in ("kill -KILL $$", "exit 127", "not a script")),
        ("softflowd", "kill -SEGV $$", MISTAKE),
    ],
)
def test_meter_that_the_machine_ends_is_no_fault_of_the_capture(seen, packed, monkeypatch, name, script, code):  # noqa: PLR0913, PLR0917
    needs("softflowd")
    file = write_file(packed.with_name(name), script if script == "not a script" else f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    which = meters.which
    monkeypatch.setattr(meters, "which", lambda program: str(file) if program == name else which(program))
    assert main(["p4", "compare", str(packed), "--flows", str(seen[1]), "--tool", "softflowd"]) == code


@pytest.mark.parametrize("tool", ["softflowd", "nfdump"])
def test_meter_reads_complete_frames_of_a_truncated_capture(tool, seen, tmp_path):
    needs(tool)
    cut = write_file(tmp_path / "cut.pcap", seen[0].read_bytes()[:-5])  # within the last frame, which is after labels
    (found,), (complete,) = (compare(capture, seen[1], [tool])["tools"] for capture in (cut, seen[0]))
    assert {**found, "own": None} == {**complete, "own": None}


def test_invalid_capture_error_has_the_tools_message(seen, tmp_path):
    needs("softflowd")
    with pytest.raises(UserError) as error:
        compare(write_file(tmp_path / "bad.pcap", seen[0].read_bytes()[:10]), seen[1], ["softflowd"])
    assert "bad.pcap" in str(error.value)
    assert "starting data collection" not in str(error.value)


def test_connection_of_zeek_is_two_flows(tmp_path):
    line = {"id.orig_h": "10.0.0.1", "id.orig_p": 5000, "id.resp_h": "10.0.0.2", "id.resp_p": 80, "proto": "tcp"}
    line |= {"orig_pkts": 3, "orig_ip_bytes": 720, "resp_pkts": 2, "resp_ip_bytes": 100}
    ping = {**line, "id.orig_h": "fe80::1", "id.resp_h": "fe80::2", "proto": "icmp", "resp_pkts": 0, "resp_ip_bytes": 0}
    log = write_file(tmp_path / "conn.log", "".join(json.dumps(row) + "\n" for row in (line, line, ping)))
    con = queries.connect()
    make_table(con, "measured", "zeek", {"log": str(log)})
    assert con.execute("from measured order by src").fetchall() == [
        ("10.0.0.1", "10.0.0.2", 6, 5000, 80, 6, 1440, 2),
        ("10.0.0.2", "10.0.0.1", 6, 80, 5000, 4, 200, 2),
        ("fe80::1", "fe80::2", 58, 0, 0, 3, 720, 1),
    ]


def test_missing_tool_is_skipped_with_a_reason(seen, monkeypatch, capsys):
    monkeypatch.setattr(meters, "which", lambda program: None)
    result = compare(*seen)
    assert [tool["tool"] for tool in result["tools"]] == ["softflowd", "nfdump", "zeek"]
    assert "softflowd: skipped: softflowd is not installed (apt-get install softflowd)" in as_text(result)
    assert main(["p4", "compare", str(seen[0]), "--flows", str(seen[1]), "--tool", "nfdump"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "acapella: error: --tool nfdump: nfpcapd is not installed (apt-get install nfdump)"


def test_invalid_capture_is_a_one_line_error(seen, tmp_path, capsys):
    bad = write_file(tmp_path / "bad.pcap", bytes.fromhex("a1b2c3d4") + b"nonsense")
    (line,) = compared(capsys, 2, bad, seen[1])
    assert line.startswith(f"acapella: error: {bad}: softflowd cannot read the capture: ")


def test_damaged_capture_is_an_error_with_the_counts_of_whole_frames(seen, packed, capsys):
    content = packed.read_bytes()
    packed.write_bytes(content[:-5] + bytes([content[-5] ^ 0xFF]) + content[-4:])  # the checksum, after all data
    error, *printed = compared(capsys, 1, packed, seen[1])
    assert error.startswith(f"acapella: error: {packed}: at byte ")
    assert "softflowd" in printed[-1]
    assert "error" not in printed[0]


def test_flow_table_without_flows_is_compared(seen, tmp_path, capsys):
    empty, flows = write_pcap(tmp_path / "empty.pcap", []), tmp_path / "empty.flows.parquet"
    assert main(["digest", str(empty), "-o", str(tmp_path / "e.parquet"), "--flows", str(flows)]) == 0
    capsys.readouterr()
    assert compared(capsys, 0, seen[0], flows)[1].split()[:4] == ["exact", "0", "0", "0"]
