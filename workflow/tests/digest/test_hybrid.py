"""Tests engines hybrid and tshark: frames sent to tshark, use of its output, and reproducible tables."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import pcap_files
from acapella_testing.frames.pcapng_files import write_pcapng
from acapella_testing.frames.traces import START_NS, busy_port, cut_in_the_middle, write_pcap
from acapella_testing.generated.tiny import add_sample, flow
from acapella_testing.runs.stages import analyze_campaign, rows
from acapella_testing.soak import SOAK
from acapella_testing.svg_text import with_spaces
from acapella_testing.tshark_lines import tshark_lines
from scapy.contrib.mpls import MPLS
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.common import tshark
from acapella.digest.command import Options
from acapella.digest.command import digest as write_digest
from acapella.figures.source import Source
from acapella.report import warnings

LINK_80211 = 105
BEACON = bytes.fromhex("80000000ffffffffffff02000000000102000000000110000000000000000000640001000000")


class Digested:
    """The tables and the metadata of a digest."""

    def __init__(self, source: Path, engine: str, deep_frames: tuple = (), threads: int = 1):
        self.acap = source.with_suffix(f".{engine}.parquet")
        self.flow_table = source.with_suffix(f".{engine}.flows.parquet")
        options = Options(engine, deep_frames=deep_frames, threads=threads)
        self.metadata = write_digest([str(source)], str(self.acap), str(self.flow_table), options)

    def column(self, name: str) -> list:
        return pq.read_table(self.acap, columns=[name])[name].to_pylist()

    def flows(self, *without: str) -> list[dict]:
        return pq.read_table(self.flow_table).drop_columns(list(without)).to_pylist()

    def checksums(self) -> list[str]:
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in (self.acap, self.flow_table)]


def test_engine_tshark_has_the_exact_output_of_tshark(program, capture):
    digested = Digested(capture, "tshark")
    assert digested.column("protocols") == tshark_lines(program, capture)
    assert set(digested.column("l4_by")) == set(digested.column("app_by")) == {"tshark"}
    assert digested.metadata["tshark"]["frames_sent"] == digested.metadata["frames"] == len(busy_port())


def test_flows_are_equal_for_native_and_tshark_dissection(program, capture):
    """Keys, counts and TCP statistics are equal whether they come from native dissection or from tshark's fields."""
    native, theirs = Digested(capture, "native"), Digested(capture, "tshark")
    assert native.flows("stacks", "app", "app_by") == theirs.flows("stacks", "app", "app_by")
    assert native.column("flow") == theirs.column("flow")


def test_corpus_flows_are_equal_for_hybrid_and_tshark_dissection(program, corpus, tmp_path):
    for source in sorted((corpus / "ndpi").glob("[f-h]*.pcap"))[: 10 if SOAK else 4]:
        capture = tmp_path / source.name
        capture.symlink_to(source)
        hybrid, theirs = Digested(capture, "hybrid"), Digested(capture, "tshark")
        assert theirs.column("protocols") == tshark_lines(program, capture)
        names = ("vlan", "mpls", "src", "dst", "ip_proto", "src_port", "dst_port", "frames", "syn", "payload_bytes")
        assert [[flow[name] for name in names] for flow in hybrid.flows()] == [
            [flow[name] for name in names] for flow in theirs.flows()
        ], source


def test_hybrid_records_the_engine_of_each_decision(program, capture):
    hybrid, native = Digested(capture, "hybrid"), Digested(capture, "native")
    engines, of_tshark = hybrid.column("app_by"), hybrid.metadata["tshark"]
    assert [by == "native" for by in engines] == [by is not None for by in native.column("app_by")]
    for ours, theirs, by in zip(hybrid.column("protocols"), tshark_lines(program, capture), engines, strict=True):
        assert ours == theirs or by == "flow"
    assert hybrid.metadata["app_by"]["tshark"] == of_tshark["frames_sent"]
    assert of_tshark["contradictions"] == 0
    assert of_tshark["preferences"] == list(tshark.PREFERENCES)
    assert of_tshark["version"] == program.version


def long_flow(path: Path, segments: int) -> Path:
    """Write one direction of a connection, whose segments all start with the same bytes."""
    return write_pcap(path, cut_in_the_middle("pw2", START_NS, segments))


@pytest.mark.soak
def test_frames_of_a_long_flow_are_sent_less_frequently(program, tmp_path):
    def sent(segments: int) -> int:
        return Digested(long_flow(tmp_path / f"{segments}.pcap", segments), "hybrid").metadata["tshark"]["frames_sent"]

    short, long = sent(40), sent(2000)
    assert 2 < short < long < short + 6


def test_option_deep_frames_sends_more_frames(program, tmp_path):
    capture = long_flow(tmp_path / "flow.pcap", 300)
    default, deep = Digested(capture, "hybrid"), Digested(capture, "hybrid", (200,))
    assert deep.metadata["tshark"]["frames_sent"] > default.metadata["tshark"]["frames_sent"] + 150
    assert deep.metadata["tshark"]["deep_frames"] == [200, *default.metadata["tshark"]["deep_frames"][1:]]
    assert default.column("protocols") == deep.column("protocols")


@pytest.mark.parametrize("numbers", [["0"], ["1", "2", "3", "4"], ["2", "9999999"]])
def test_invalid_deep_frames_are_rejected(program, digest, numbers, capture, capsys):
    assert digest(capture, "--engine", "hybrid", "--deep-frames", *numbers) == 2
    assert "--deep-frames" in capsys.readouterr().err
    assert not digest.acap.exists()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["hybrid", "tshark"])
def test_output_is_identical_with_threads_and_from_a_pipe(program, engine, capture):
    expected = Digested(capture, engine).checksums()
    assert Digested(capture, engine).checksums() == expected
    assert Digested(capture, engine, threads=2).checksums() == expected
    piped = [capture.with_name(name) for name in ("piped.parquet", "piped.flows.parquet")]
    command = [sys.executable, "-m", "acapella.cli.main", "digest", "-", "--engine", engine]
    with capture.open("rb") as stream:
        subprocess.run([*command, "-o", piped[0], "--flows", piped[1]], stdin=stream, check=True)
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in piped] == expected


def test_capture_of_a_link_type_known_only_to_tshark_is_sent_completely(program, tmp_path):
    capture = pcap_files.write_pcap(tmp_path / "air.pcap", [(START_NS + 5000, BEACON)] * 3, link_type=LINK_80211)
    hybrid = Digested(capture, "hybrid")
    assert hybrid.column("protocols") == tshark_lines(program, capture)
    assert hybrid.column("l4_by") == ["tshark"] * 3
    assert hybrid.column("issue") == [None] * 3
    assert hybrid.column("ts_ns") == [START_NS + 5000] * 3


@pytest.mark.soak
def test_private_link_type_is_a_warning_and_counted(program, tmp_path, capsys):
    """tshark has a name for LINKTYPE_USER0, so the frames have no issue."""
    add_sample(tmp_path, "known", ("WEST", "p1"), (0, 20), [flow(1, 2)])
    add_sample(tmp_path, "user", ("WEST", "p1"), (0, 20), [])
    capture = write_pcapng(tmp_path / "user.pcapng", [(147, b"abcd"), (147, b"efgh"), (147, b"ijkl")])
    outputs = [str(tmp_path / kind / "user.parquet") for kind in ("acap", "flows")]
    options = ["--flows", outputs[1], "--site", "WEST", "--port", "p1"]
    assert main(["digest", str(capture), "-o", outputs[0], *options]) == 0
    assert "link type 147 is for private use and is not dissected" in capsys.readouterr().err
    found = {row["sample"]: row["undissected_frames"] for row in rows(analyze_campaign(tmp_path), "capture_quality")}
    assert found == {"known": 0, "user": len(tshark_lines(program, capture))}
    assert "3 frames (60.0 %) of a link type that is not dissected, in user: " in with_spaces(
        " ".join(warnings.collect(Source(Campaign(tmp_path))))
    )


@pytest.mark.parametrize("engine", ["hybrid", "tshark"])
@pytest.mark.parametrize("link_type", [265, 9999])
def test_unknown_link_type_is_rejected(program, digest, capsys, engine, link_type):
    capture = write_pcapng(digest.directory / "x.pcapng", [(link_type, b"abcd"), (link_type, b"")])
    assert digest(capture, "--engine", engine) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert str(capture) in stderr
    assert f"nor tshark supports link type {link_type}" in stderr
    assert digest.written() == [capture.name]


def test_unknown_link_type_among_others_is_an_issue(program, digest, tmp_path, capsys):
    capture = write_pcapng(tmp_path / "x.pcapng", [(1, busy_port()[0][1]), (9999, b"abcd"), (LINK_80211, BEACON)])
    assert digest(capture, "--engine", "hybrid") == 0
    assert [row["protocols"] for row in digest.rows()] == tshark_lines(program, capture)
    assert [row["issue"] for row in digest.rows()] == [None, "unsupported_link_type", None]
    assert "1 of 3 frames have a link type that neither the core nor tshark supports" in capsys.readouterr().err


def test_empty_capture_sends_no_frames(program, tmp_path):
    digested = Digested(write_pcap(tmp_path / "empty.pcap", []), "hybrid")
    assert digested.metadata["frames"] == digested.metadata["tshark"]["frames_sent"] == 0


def test_pseudowire_misread_by_tshark_has_its_application(program, tmp_path):
    """tshark mistakes the zeros of a control word before this address for a vendor's prefix. Frames are sent to tshark
    without the zeros.
    """
    query = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=40000, dport=53) / DNS(rd=1, qd=DNSQR(qname="example.org"))
    inner = bytes(Ether(dst="02:00:00:1b:21:01", src="02:00:00:00:00:02") / query)
    outer = bytes(Ether(dst="00:56:2b:0a:0b:0c", src="00:56:2b:01:02:03", type=0x8847) / MPLS(label=20, s=1, ttl=64))
    capture = write_pcap(tmp_path / "misread.pcap", [(START_NS, outer + bytes(4) + inner)])
    assert "pwethnocw" in tshark_lines(program, capture)[0]
    hybrid = Digested(capture, "hybrid")
    assert hybrid.column("protocols") == ["eth:ethertype:mpls:pwethheuristic:pwethcw:eth:ethertype:ip:udp:dns"]
    assert hybrid.column("app_by") == ["tshark"]
    assert hybrid.column("l4_by") == ["native"]
    assert hybrid.metadata["tshark"]["contradictions"] == 0
