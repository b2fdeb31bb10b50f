"""Tests `acapella show`: frames as lines and as named columns."""

import shutil

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.runs.digest_run import START
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from acapella.cli.main import main

MAC = {"src": "00:16:3e:00:00:01", "dst": "00:16:3e:00:00:02"}


@pytest.fixture
def campaign(tmp_path, digest):
    """Return a directory with acap/t.parquet and flows/t.parquet."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    labels = MPLS(label=16, s=0, ttl=1) / MPLS(label=17, s=1, ttl=1)
    packets = [
        Ether(**MAC) / ip / TCP(sport=1000, dport=80, flags="S", seq=7),
        Ether(**MAC) / Dot1Q(vlan=5) / labels / ip / TCP(sport=1, dport=2, flags="PA", seq=8, ack=9) / Raw(b"12345"),
        Ether(**MAC) / Dot1Q(vlan=6) / IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP(sport=3, dport=4) / Raw(b"123"),
        Ether(**MAC) / ARP(),
    ]
    frames = [(START + 1_500_000_000 * i, bytes(packet)) for i, packet in enumerate(packets)]
    frames.append((START - 1, frames[0][1][:30]))
    assert digest(write_pcap(tmp_path / "t.pcap", frames)) == 0
    return tmp_path


def show(capsys, *words) -> list[str]:
    assert main(["show", *map(str, words)]) == 0
    return capsys.readouterr().out.splitlines()


def test_summary_has_the_format_of_tshark(campaign, capsys):
    assert show(capsys, campaign / "acap" / "t.parquet") == [
        "    1   0.000000000 10.0.0.1 → 10.0.0.2 TCP 54 1000 → 80 [SYN] Seq=7 Len=0",
        "    2   1.500000000 10.0.0.1 → 10.0.0.2 TCP 71 1 → 2 [PSH, ACK] Seq=8 Ack=9 Len=5",
        "    3   3.000000000 2001:db8::1 → 2001:db8::2 UDP 69 3 → 4 Len=3",
        "    4   4.500000000 - → - ARP 42 Ethernet/ARP",
        "    5  -0.000000001 - → - IPv4 30 Ethernet/IPv4 [truncated_ipv4]",
    ]


THERE, BACK = IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.2", dst="10.0.0.1")
THERE_IPV6 = IPv6(src="2001:db8::1", dst="2001:db8::2")
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@pytest.mark.parametrize("engine", ["native", pytest.param("hybrid", marks=needs_tshark)])  # hybrid stacks end in Data
@pytest.mark.parametrize(
    ("packet", "line"),
    [
        (THERE / ICMP(id=77, seq=1) / Raw(b"a" * 40), "ICMP 82 Ethernet/IPv4/ICMP Len=40"),
        (
            BACK / ICMP(type=3, code=3) / THERE / UDP(sport=5, dport=6) / Raw(b"x" * 10),
            "ICMP 80 Ethernet/IPv4/ICMP quotes IPv4/UDP",
        ),
        (BACK / ICMP(type=11) / THERE / ICMP(), "ICMP 70 Ethernet/IPv4/ICMP quotes IPv4/ICMP"),
        (THERE_IPV6 / ICMPv6EchoRequest(data=b"hello"), "ICMPv6 67 Ethernet/IPv6/ICMPv6 Len=5"),
        (
            THERE_IPV6 / ICMPv6DestUnreach(code=4) / THERE_IPV6 / UDP(sport=1, dport=2),
            "ICMPv6 110 Ethernet/IPv6/ICMPv6 quotes IPv6/UDP",
        ),
        (
            IP(src="10.0.0.1", dst="10.0.0.2", frag=10, proto=17) / Raw(b"a" * 40),
            "IPv4 74 Ethernet/IPv4 IP protocol 17",
        ),
        (
            THERE / UDP(sport=9, dport=4789) / VXLAN(vni=7) / Ether(**MAC) / THERE / ICMP() / Raw(b"abc"),
            "ICMP 95 Ethernet/IPv4/UDP/VXLAN/Ethernet/IPv4/ICMP Len=3",
        ),
        (THERE / TCP(sport=1, dport=2, flags="A") / Raw(b"12345"), "TCP 59 1 → 2 [ACK] Seq=0 Ack=0 Len=5"),
    ],
)
def test_frame_without_ports_is_named_by_its_protocol(tmp_path, digest, capsys, packet, line, engine):  # noqa: PLR0913, PLR0917
    assert digest(write_pcap(tmp_path / "t.pcap", [(START, bytes(Ether(**MAC) / packet))]), "--engine", engine) == 0
    capsys.readouterr()
    assert [shown.split("→ ", 1)[1].split(" ", 1)[1] for shown in show(capsys, digest.acap)] == [line]


def test_columns_of_both_tables_are_printed_in_file_order(campaign, capsys):
    columns = "frame,stack,src,vlan,mpls,dst_port,tcp_ack,issue"
    assert [line.split("\t") for line in show(capsys, campaign / "acap" / "t.parquet", "--columns", columns)] == [
        ["1", "Ethernet/IPv4/TCP", "10.0.0.1", "", "", "80", "", ""],
        ["2", "Ethernet/VLAN/MPLS/MPLS/IPv4/TCP", "10.0.0.1", "5", "16,17", "2", "9", ""],
        ["3", "Ethernet/VLAN/IPv6/UDP", "2001:db8::1", "6", "", "4", "", ""],
        ["4", "Ethernet/ARP", "", "", "", "", "", ""],
        ["5", "Ethernet/IPv4", "", "", "", "", "", "truncated_ipv4"],
    ]


def test_all_columns_of_both_tables_can_be_shown(campaign, capsys):
    from acapella.common.tables import arrow_schema  # noqa: PLC0415 - what the command line does as well

    names = dict.fromkeys([*arrow_schema("frames").names, *arrow_schema("flows").names])
    lines = show(capsys, campaign / "acap" / "t.parquet", "--columns", ",".join(names))
    assert {len(line.split("\t")) for line in lines} == {len(names)}


def test_columns_of_the_frame_table_need_no_flow_table(campaign, capsys):
    (campaign / "flows" / "t.parquet").unlink()
    assert show(capsys, campaign / "acap" / "t.parquet", "--columns", "frame,flow") == [
        "1\t0",
        "2\t1",
        "3\t2",
        "4\t",
        "5\t",
    ]
    assert main(["show", str(campaign / "acap" / "t.parquet")]) == 2
    assert "--flows" in capsys.readouterr().err


def test_flow_table_is_found_next_to_the_acap_or_by_its_option(campaign, capsys):
    moved = campaign / "acap" / "t.flows.parquet"
    (campaign / "flows" / "t.parquet").rename(moved)
    beside = show(capsys, campaign / "acap" / "t.parquet")
    (campaign / "acap" / "t.parquet").rename(campaign / "acap" / "t.acap.parquet")
    assert show(capsys, campaign / "acap" / "t.acap.parquet") == beside
    (campaign / "acap" / "t.acap.parquet").rename(campaign / "acap" / "t.parquet")
    moved.rename(campaign / "x.parquet")
    assert show(capsys, campaign / "acap" / "t.parquet", "--flows", campaign / "x.parquet") == beside


def test_flow_table_of_a_different_acap_is_rejected(campaign, capsys):
    words = ["-o", str(campaign / "b.parquet"), "--flows", str(campaign / "bf.parquet"), "--site", "other"]
    main(["digest", str(campaign / "t.pcap"), *words, "--engine", "native"])
    assert main(["show", str(campaign / "b.parquet"), "--flows", str(campaign / "flows" / "t.parquet")]) == 2
    assert "a different acap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["acap/t.parquet", "--columns", "frame,color"],
            "--columns: there is no column 'color'; docs/tables.md lists ",
        ),
        (["acap/t.parquet", "--columns", "protocol"], "no column 'protocol'; did you mean protocols? docs/tables.md"),
        (["none.parquet"], "error: none.parquet: no such file\n"),
        (["."], "error: .: is a directory; specify an acap in it, such as CAMPAIGN/acap/SAMPLE.parquet\n"),
        (["t.pcap"], "not an acap"),
        (["flows/t.parquet"], "is a flow table, but show prints the frames of an acap; to print flows: acapella sql"),
        (["acap/t.parquet", "--flows", "acap/u.parquet"], "acap/u.parquet: is an acap, not a flow table"),
    ],
)
def test_usage_error_prints_one_line(campaign, capsys, monkeypatch, words, message):
    monkeypatch.chdir(campaign)
    shutil.copy("acap/t.parquet", "acap/u.parquet")
    assert main(["show", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
