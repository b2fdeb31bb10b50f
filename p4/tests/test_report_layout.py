"""The reports' headers in P4 match schemas/report_formats.tsv, and a NIC receives them as RDMA writes."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from acapella_p4_model import reports, running
from acapella_p4_model.generated_connections import generated_connections
from acapella_p4_model.running import P4
from acapella_testing.requirements import require_built, require_programs

# A field in P4 has at most 64 bits. It may be a part of a field of the layout, or combine several.
PARTS = {
    "src_high": ("src", 0, 8),
    "src_low": ("src", 8, 8),
    "dst_high": ("dst", 0, 8),
    "dst_low": ("dst", 8, 8),
    "vlans": ("vlan_0", 0, 8),
}


def header(name: str) -> list[tuple[str, int, int]]:
    """Return name, offset and length in bytes of each field of a header in P4."""
    text = (P4 / "flowstats_headers.p4").read_text()
    body = re.search(rf"^header {name} {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL)[1]
    fields, offset = [], 0
    for bits, field in re.findall(r"^\s*bit<(\d+)>\s+(\w+);", body, re.MULTILINE):
        fields.append((field, offset, int(bits) // 8))
        offset += int(bits) // 8
    return fields


@pytest.mark.parametrize(("number", "size"), [(1, 64), (2, 192)])
def test_header_matches_the_schema(number, size):
    layout = {name: (offset, length) for name, offset, length in reports.layout(number)}
    fields = header(f"report_{number}_h")
    assert sum(length for _, _, length in fields) == size
    for name, offset, length in fields:
        if number == 2 and name in PARTS:
            field, within, part = PARTS[name]
            assert (offset, length) == (layout[field][0] + within, part), name
        else:
            assert (offset, length) == layout[name], name
    named = (
        {name for name, _, _ in fields} | {field for field, _, _ in PARTS.values()} | {f"vlan_{at}" for at in range(4)}
    )
    assert set(layout) <= named


def test_reports_are_138_and_266_bytes_with_their_icrc():
    queue_pair = dict.fromkeys(("qp_number", "qp_psn", "qp_address", "qp_key"), 1)
    settings = dict.fromkeys(("report_dst_mac", "report_src_mac", "report_dst_ip", "report_src_ip"), 1)
    lengths = [len(reports.frame(settings, queue_pair, 0, reports.pack(number, {}))) + 4 for number in (1, 2)]
    assert lengths == [138, 266]


@pytest.mark.parametrize("number", [1, 2])
def test_wireshark_dissects_reports_as_rdma_writes(number, small_spec, tmp_path):
    require_built(running.LOADER.name)
    require_programs("tshark")
    control = f"register qp_number 0 0x123456\nregister format 0 {number}\nregister report_dst_ip 0 0x7f000001\n"
    ran = running.run("flowstats", generated_connections(5, 300), control, tmp_path, small_spec)
    fields = (
        "ip.checksum.status",
        "udp.dstport",
        "infiniband.bth.opcode",
        "infiniband.bth.destqp",
        "infiniband.reth.dmalen",
    )
    command = ["tshark", "-r", str(tmp_path / "out.pcap"), "-o", "ip.check_checksum:TRUE", "-T", "fields"]
    for field in (*fields, "_ws.malformed", "_ws.expert.severity"):
        command += ["-e", field]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"TZ": "UTC", "LC_ALL": "C"}
    )
    required = f"1\t4791\t42\t0x123456\t{64 if number == 1 else 192}\t\t"
    lines = done.stdout.splitlines()
    assert len(lines) == ran.statistics["reports"] > 50
    assert {line.lower() for line in lines} == {required}
