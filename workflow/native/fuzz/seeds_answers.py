"""Seeds of fuzz_answers: lines as tshark prints them, in both layouts. Usage: seeds_answers.py DIRECTORY.

The fields and columns are those of tshark_output.hpp and tshark_columns.hpp.
"""

import re
from pathlib import Path

import seed_files

HYBRID = Path(__file__).resolve().parents[1] / "src" / "hybrid"
FIELDS = dict(re.findall(r'X\((\w+), +"([\w.]+)"\)', (HYBRID / "tshark_output.hpp").read_text(encoding="utf-8")))
COLUMNS = [
    re.findall(r"Field::(\w+)", line)
    for line in re.findall(
        r"^    TsharkColumn\{(.*)\},", (HYBRID / "tshark_columns.hpp").read_text(encoding="utf-8"), re.M
    )
]
FRAMES = (
    {"protocols": "eth:ethertype:ip:tcp:tls", "ip_src": "10.0.0.1", "ip_dst": "10.0.0.2", "ip_proto": "6",
     "ip_len": "99", "ip_id": "0x1234", "ip_hdr_len": "20", "tcp_src": "443", "tcp_dst": "50000", "tcp_flags": "0x0018",
     "tcp_seq": "4294967295", "tcp_ack": "7", "tcp_window": "501", "tcp_len": "41", "tcp_urgent": "0"},
    {"protocols": "eth:ethertype:ip:udp:vxlan:eth:ethertype:ipv6:udp:dns", "ip_src": "10.0.0.1", "ip_dst": "10.0.0.2",
     "ip_proto": "17", "ip_len": "150", "ip_id": "0x0001", "ip_hdr_len": "20", "udp_src": "5000,53",
     "udp_dst": "4789,5353", "udp_length": "130,60", "vxlan_flags": "0x0800", "vxlan_vni": "7",
     "ipv6_src": "2001:db8::1", "ipv6_dst": "2001:db8::2", "ipv6_nxt": "17", "ipv6_plen": "60"},
    {"protocols": "eth:ethertype:ieee8021ad:vlan:ethertype:mpls:ip:icmp:ip:udp", "service_vlan": "100", "vlan": "101",
     "label": "17,18", "label_bottom": "0,1", "ip_src": "10.0.0.1,10.0.0.9", "ip_dst": "10.0.0.2,10.0.0.8",
     "ip_proto": "1,17", "ip_len": "84,56", "ip_hdr_len": "20,20", "udp_src": "5000", "udp_dst": "53"},
    {"protocols": "eth:ethertype:ip:gre:erspan:eth:ethertype:ip:sctp", "gre_flags": "0x1000", "gre_proto": "0x88be",
     "erspan_session": "5", "ip_src": "10.0.0.1,10.1.0.1", "ip_dst": "10.0.0.2,10.1.0.2", "ip_proto": "47,132",
     "ip_len": "120,80", "ip_hdr_len": "20,24", "sctp_src": "1", "sctp_dst": "2"},
    {"protocols": "eth:ethertype:ip:udp:gtp:ip:ah:ipv6", "gtp_flags": "0x32", "gtp_message": "0xff", "gtp_teid": "0x7",
     "ip_src": "1.2.3.4,5.6.7.8", "ip_dst": "4.3.2.1,8.7.6.5", "ah_nxt": "41", "dstopts_nxt": "59", "fraghdr_nxt": "6",
     "fraghdr_offset": "1480", "routing_nxt": "0", "hopopts_nxt": "60"},
)  # fmt: skip


def line(number: int, frame: dict[str, str], *, columns: bool) -> bytes:
    """Return the line of one frame."""
    found = {"number": str(number), "encap": "1"} | frame
    if columns:
        cells = [",".join(found[name] for name in ("number", "encap", "protocols"))]
        cells += [",".join(found[name] for name in column if name in found) for column in COLUMNS]
    else:
        cells = [found.get(name, "") for name in FIELDS]
    return "\t".join(cells).encode() + b"\n"


def seeds() -> dict[str, bytes]:
    """Return the seeds: a byte of choices, then lines."""
    assert len(COLUMNS) > 20 and set().union(*FRAMES) <= set(FIELDS)
    created = {}
    for choice in (0, 1, 2, 3):
        lines = [line(number, frame, columns=bool(choice & 1)) for number, frame in enumerate(FRAMES, 1)]
        created[f"all-{choice}"] = bytes((choice,)) + b"".join(lines)
        for number, frame_line in enumerate(lines):
            created[f"frame-{number}-{choice}"] = bytes((choice,)) + frame_line
    return created


if __name__ == "__main__":
    seed_files.write(seeds())
