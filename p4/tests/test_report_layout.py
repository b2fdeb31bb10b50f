"""The reports' headers in P4 match schemas/report_formats.tsv, and Wireshark dissects reports as RDMA writes."""

from __future__ import annotations

import itertools
import os
import re

import pytest
from acapella_p4_model import reports, running
from acapella_p4_model.generated_connections import generated_connections
from acapella_p4_model.running import P4
from acapella_testing import processes
from acapella_testing.requirements import require_built, require_programs

# A field in P4 has at most 64 bits. It may be a part of a field of the layout, or combine several.
PARTS = {f"{end}_{half}": (end, at, 8) for end in ("src", "dst") for half, at in (("high", 0), ("low", 8))}
PARTS["vlans"] = ("vlan_0", 0, 8)
FIELDS = ("ip.checksum.status", "udp.dstport", "infiniband.bth.opcode", "infiniband.bth.destqp")
FIELDS += ("infiniband.reth.dmalen", "_ws.malformed", "_ws.expert.severity")


def header(name: str) -> list[tuple[str, int, int]]:
    """Return name, offset and length in bytes of each field of a header in P4."""
    text = (P4 / "flowstats_headers.p4").read_text()
    body = re.search(rf"^header {name} {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL)[1]
    found = [(field, int(bits) // 8) for bits, field in re.findall(r"^\s*bit<(\d+)>\s+(\w+);", body, re.MULTILINE)]
    offsets = itertools.accumulate((size for _, size in found), initial=0)
    return [(field, offset, size) for (field, size), offset in zip(found, offsets, strict=False)]


@pytest.mark.parametrize(("number", "size"), [(1, 64), (2, 192)])
def test_header_matches_the_schema(number, size):
    layout = {name: (offset, length) for name, offset, length in reports.layout(number)}
    fields, combined = header(f"report_{number}_h"), PARTS if number == 2 else {}
    assert sum(length for _, _, length in fields) == size
    for name, offset, length in fields:
        field, within, part = combined.get(name, (name, 0, layout.get(name, (0, 0))[1]))
        assert (offset, length) == (layout[field][0] + within, part), name
    named = {name for name, _, _ in fields} | {field for field, _, _ in PARTS.values()}
    assert set(layout) <= named | {f"vlan_{at}" for at in range(4)}


def test_reports_are_138_and_266_bytes_with_their_icrc():
    queue_pair = dict.fromkeys(("qp_number", "qp_psn", "qp_address", "qp_key"), 1)
    settings = dict.fromkeys(("report_dst_mac", "report_src_mac", "report_dst_ip", "report_src_ip"), 1)
    sizes = [len(reports.frame(settings, queue_pair, 0, reports.pack(number, {}))) for number in (1, 2)]
    assert sizes == [138 - 4, 266 - 4]


@pytest.mark.parametrize("number", [1, 2])
def test_wireshark_dissects_reports_as_rdma_writes(number, small_spec, tmp_path):
    require_built(running.LOADER.name)
    require_programs("tshark")
    control = f"register qp_number 0 0x123456\nregister format 0 {number}\nregister report_dst_ip 0 0x7f000001\n"
    ran = running.run("flowstats", generated_connections(5, 300), control, tmp_path, small_spec)
    words = ["-r", tmp_path / "out.pcap", "-o", "ip.check_checksum:TRUE", "-T", "fields"]
    words += [word for field in FIELDS for word in ("-e", field)]
    done = processes.run("tshark", *words, check=True, env=os.environ | {"TZ": "UTC", "LC_ALL": "C"})
    lines = done.stdout.splitlines()
    assert len(lines) == ran.statistics["reports"] > 50
    assert {line.lower() for line in lines} == {f"1\t4791\t42\t0x123456\t{64 if number == 1 else 192}\t\t"}
