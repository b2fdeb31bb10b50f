"""Bytes of generated packets: stamps, patterns and checksums, as decoded by tshark and plain Python."""

import json
import re
import struct
from pathlib import Path

import pytest
from acapella_testing.capture.dpdk_writer import Frame, read_pcap
from acapella_testing.generated import traffic_models as models
from acapella_testing.generated.stamped_traffic import pattern
from acapella_testing.processes import run
from acapella_testing.requirements import require_programs
from acapella_testing.source_tree import ROOT

from acapella_core import schemas

STAMP = json.loads((schemas.root() / "stamp.json").read_text())
LAYOUT = struct.Struct(">HIIII")
GOOD, NOT_PRESENT = "1", "3"


def stamp_of(frame: Frame, offset: int | None) -> tuple[int, int, int] | None:
    """Return flow, sequence number and departure in ns; None if there is no stamp."""
    if offset is None or len(frame.data) < offset + LAYOUT.size:
        return None
    magic, flow, sequence, seconds, fraction = LAYOUT.unpack_from(frame.data, offset)
    return (flow, sequence, seconds * 10**9 + (fraction * 10**9 + 2**31 >> 32)) if magic == STAMP["magic"] else None


def flow_of(frame: Frame, flows: list[dict]) -> dict | None:
    """Return the flow of a packet, by its stamp."""
    stamps = [(stamp_of(frame, flow["stamp_offset"]), flow) for flow in flows]
    return next((flow for stamp, flow in stamps if stamp and stamp[0] == flow["flow"]), None)


def test_c_header_matches_the_schema():
    text = (ROOT / "capture" / "common" / "stamp.h").read_text()
    numbers = {name: int(value, 0) for name, value in re.findall(r"#define STAMP_(\w+) (0x\w+|\d+)\n", text)}
    assert (numbers["BYTES"], numbers["MAGIC"]) == (STAMP["bytes"], STAMP["magic"])
    fields = {field["name"]: field["offset"] for field in STAMP["fields"]}
    assert fields == {"magic": 0, **{name: numbers[f"AT_{name.upper()}"] for name in fields if name != "magic"}}
    names = re.search(r"enum pattern \{(.*)PATTERNS \}", text)[1].lower().replace("pattern_", "").replace(" ", "")
    assert names.strip(",").split(",") == [each["name"] for each in STAMP["patterns"]]
    assert [each["number"] for each in STAMP["patterns"]] == list(range(len(STAMP["patterns"])))


def test_every_packet_has_its_stamp_and_pattern(generate):
    generated = generate(models.every_template(12))
    frames, _ = read_pcap(generated.path)
    counted = dict.fromkeys(range(len(models.TEMPLATES)), 0)
    for frame in frames:
        flow = flow_of(frame, generated.document["flows"])
        number, sequence, departure = stamp_of(frame, flow["stamp_offset"])
        assert (sequence, departure) == (counted[number], frame.ts_ns)
        payload = frame.data[flow["pattern_offset"] :]
        assert payload == pattern(flow["pattern"], len(payload), number, sequence), flow["name"]
        counted[number] += 1
    assert set(counted.values()) == {12}


def tshark_rows(path: Path) -> list[list[str]]:
    """Return frame.protocols and the states of the checksums of each frame."""
    require_programs("tshark")
    argv = ["tshark", "-n", "-r", path, "-T", "fields", "-e", "frame.protocols"]
    for name in ("ip", "udp", "tcp"):
        argv += ["-o", f"{name}.check_checksum:TRUE", "-e", f"{name}.checksum.status"]
    return [line.split("\t") for line in run(*argv, check=True).stdout.splitlines()]


def test_tshark_decodes_each_template_with_good_checksums(generate):
    generated = generate(models.every_template(12))
    frames, _ = read_pcap(generated.path)
    seen = set()
    for frame, (protocols, *states) in zip(frames, tshark_rows(generated.path), strict=True):
        name = flow_of(frame, generated.document["flows"])["name"]
        assert protocols.startswith(models.TEMPLATES[name][1]), name
        found = {state for each in states for state in each.split(",") if state}
        assert found <= {GOOD} | ({NOT_PRESENT} if name == "vxlan_without_checksum" else set()), name
        seen.add(name)
    assert seen == set(models.TEMPLATES)


@pytest.mark.parametrize(("name", "column", "bad"), [("wrong_checksum", 1, 30), ("wrong_checksum", 2, 20),
                                                     ("wrong_tcp_checksum", 3, 60)])  # fmt: skip
def test_tshark_finds_the_deliberately_wrong_checksums(generate, name, column, bad):
    headers, errors = models.ERRORS[name]
    text = "\n".join(["flows:", models.flow(name, headers, 0, 60, f"  malformed: {errors}"), ""])
    states = [row[column] for row in tshark_rows(generate(text).path)]
    assert sorted(set(states)) in (["0", "1"], ["0"])
    assert states.count("0") == bad
