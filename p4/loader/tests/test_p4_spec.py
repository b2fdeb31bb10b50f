"""Statements of a .spec, and the errors in it: each names its line."""

import pytest
from p4_loader import FORWARD, REPORTS, ethernet, frame, good, run, write_pcap

MISTAKES = {
    "odd field": ("bit<48> destination", "bit<49> destination", "bit<49>: not a multiple of 8 bits"),
    "no type": ("bit<48> source", "int source", "int: not the type of a field"),
    "no struct": ("instanceof egress_h", "instanceof nothing_h", "nothing_h: no such struct"),
    "no number": ("size 0x100 initval 0", "size many initval 0", "many: not a number"),
    "too large": ("size 0x100 initval 0", "size 0x1000000000 initval 0", "not a number from 0 to"),
    "no register": ("regarray bytes size 0x100 initval 0", "regarray bytes 0x100", "regarray: malformed"),
    "no match": ("m.type exact", "m.type sorted", "sorted: unknown kind of match"),
    "no statement of a table": ("\tsize 0x10\n", "\tcolor blue\n", "color: unknown statement of a table"),
    "no statement": ("metadata instanceof metadata_t", "extobj counter_0", "extobj: extern objects are not supported"),
    "unknown": ("metadata instanceof metadata_t", "counters 12", "counters: unknown statement"),
    "no action": ("\t\tkeep_all @defaultonly", "\t\tabsent @defaultonly", "absent: no such action"),
    "no default": ("\t\tkeep_all @defaultonly", "\t\tkeep_all @tableonly", "its default_action is missing, or none"),
    "no values": ("default_action keep_all args none", "default_action keep args none", "keep takes 1 values, not 0"),
    "twice": ("action keep_all args none {", "action keep args none {", "action keep: already defined"),
    "no label": ("jmpeq DECIDED m.port_out 0x1", "jmpeq AWAY m.port_out 0x1", "AWAY: no such label"),
    "label twice": ("\ttable prefix", "\tDECIDED : table prefix", "DECIDED: duplicate label"),
    "circle": ("\ttable ternary", "\tBACK : table ternary\n\tjmp BACK", "jumps back to line"),
    "falls out": ("\ttx m.port_out", "\temit h.ingress", "the block does not end here"),
    "no port": ("tx m.port_out", "tx 7", "tx 7: the only ports are 0 (out) and 1 (sink)"),
    "no field": ("mov m.reason 0x0", "mov m.color 0x0", "mov m.color 0x0: DPDK rejects this instruction"),
    "no instruction": ("\tregadd sequence", "\tregdivide sequence", "DPDK rejects this instruction"),
    "no table": ("\ttable exact\n\tjmp", "\ttable absent\n\tjmp", "table absent: DPDK rejects this instruction"),
    "immediate first": (
        "jmpeq DECIDED m.port_out 0x1",
        "jmpeq DECIDED 0x1 m.port_out",
        "first operand must be a field",
    ),
    "in an action": ("\tmov m.length t.bytes", "\textract h.ethernet", "extract: belongs in the apply block"),
    "long name": ("mov m.reason 0x0", f"mov m.{'r' * 70} 0x0", "longer than 63 characters"),
    "many words": ("mov m.reason 0x0", "mov" + " x" * 70, "more than 64 words"),
    "wide instruction": ("mov m.reason 0x0", "mov" + " x" * 20, "an instruction of 21 words"),
    "twice out": ("\temit h.ethernet", "\temit h.ethernet\n\temit h.egress\n\temit h.egress", "emits a header twice"),
}


def changed(directory, old, new):
    """forward.spec with a change, and the line of the change, from 1."""
    text = FORWARD.read_text()
    at = text.index(old)
    path = directory / "changed.spec"
    path.write_text(text[:at] + new + text[at + len(old) :])
    return path, text[:at].count("\n") + 1


@pytest.mark.parametrize("name", MISTAKES)
def test_error_in_a_spec_names_its_line(tmp_path, name):
    old, new, message = MISTAKES[name]
    spec, line = changed(tmp_path, old, new)
    capture = write_pcap(tmp_path / "in.pcap", [])
    done = run(tmp_path, spec, capture)
    assert done.code == 2 and done.error.count("\n") == 1, done.error
    place, found = done.error.split(": ", 2)[1:]
    lines = {
        "no default": -7,
        "circle": 1,
        "label twice": 1,
        "twice out": -30,
    }  # reported at the table, the jump, the apply
    assert place == f"{spec}:{line + lines.get(name, 0)}", done.error
    assert message in found


def test_error_in_an_unfinished_block_names_its_first_line(tmp_path):
    spec = tmp_path / "cut.spec"
    text = FORWARD.read_text()
    spec.write_text(text[: text.index("\tmov m.length h.ingress.captured_length")])
    done = run(tmp_path, spec, write_pcap(tmp_path / "in.pcap", []))
    line = text[: text.index("apply {")].count("\n") + 1
    assert done.code == 2 and f"cut.spec:{line}: apply: the file ends before its }}" in done.error


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02", b"\xff" * 99, b"struct", b"}\n", b"apply {\n}\n"], ids=range(6)
)
def test_files_that_are_not_specs_are_rejected(tmp_path, content):
    spec = tmp_path / "wrong.spec"
    spec.write_bytes(content)
    done = run(tmp_path, spec, write_pcap(tmp_path / "in.pcap", []))
    assert done.code == 2 and done.error.startswith(f"acapella-p4-run: {spec}") and done.error.count("\n") == 1


def test_field_with_an_offset_above_the_limit_of_dpdk_is_rejected(tmp_path):
    wide = "".join(f"\tbit<64> wide_{i}\n" for i in range(31))
    spec, _ = changed(tmp_path, "struct metadata_t {\n", f"struct metadata_t {{\n{wide}")
    done = run(tmp_path, spec, write_pcap(tmp_path / "in.pcap", []))
    assert (
        done.code == 2
        and "m.length: is 260 bytes into struct metadata_t" in done.error
        and "DPDK can address 255" in done.error
    )


def test_hash_result_with_an_offset_above_the_limit_of_dpdk_is_rejected(tmp_path):
    spec, line = changed(tmp_path, "mov m.reason 0x0", "hash crc32 m.type h.ingress.port h.ingress.flags")
    done = run(tmp_path, spec, write_pcap(tmp_path / "in.pcap", []))
    assert done.code == 0, done.error  # 29 bytes into the metadata
    spec, line = changed(tmp_path, "mov m.reason 0x0", "hash crc32 m.late h.ingress.port h.ingress.flags")
    spec.write_text(
        spec.read_text().replace(
            "\tbit<16> type\n}\nmetadata", "\tbit<16> type\n\tbit<32> x\n\tbit<32> late\n}\nmetadata"
        )
    )
    done = run(tmp_path, spec, write_pcap(tmp_path / "in.pcap", []))
    assert done.code == 2 and f":{line + 2}: m.late: is 35 bytes into" in done.error, done.error


def test_constant_is_written_to_the_named_register(tmp_path):
    """DPDK alone writes it to the first one."""
    spec, _ = changed(tmp_path, "mov m.reason 0x0", "mov m.reason 0x0\n\tregwr bytes 0x7 0x9\n\tregadd bytes 0x6 0x2")
    capture = write_pcap(tmp_path / "in.pcap", [frame(1, ethernet(1)), frame(2, ethernet(1))])
    registers = good(tmp_path, spec, capture).registers
    assert registers["bytes"][6:8] == [4, 9] and registers["sequence"][0] == 2


def test_drop_and_unknown_ports_are_counted_separately(tmp_path):
    text = FORWARD.read_text().replace("\ttx m.port_out", "\tjmpeq AWAY m.type 0x0806\n\ttx m.port_out\n\tAWAY : drop")
    spec = tmp_path / "drop.spec"
    spec.write_text(
        text.replace("mov m.port_out 0x0\n", "mov m.port_out h.ingress.wire_length\n\tand m.port_out 0xff0\n")
    )
    frames = [frame(1, ethernet(1, kind=0x0806, size=14)), frame(2, ethernet(1)), frame(3, ethernet(1, size=15))]
    stats = good(tmp_path, spec, write_pcap(tmp_path / "in.pcap", frames)).stats
    assert stats["dropped"] == {"by_program": 1, "unknown_port": 1, "bad_egress_header": 0, "untimed": 0}
    assert stats["out"] == 1


def test_frames_sent_without_the_loaders_header_are_counted(tmp_path):
    text = FORWARD.read_text().replace("\temit h.egress\n", "").replace("\temit h.ethernet\n", "")
    spec = tmp_path / "bare.spec"
    spec.write_text(text)
    capture = write_pcap(tmp_path / "in.pcap", [frame(1, bytes(60)), frame(2, b"\xff" * 60)])
    assert good(tmp_path, spec, capture).stats["dropped"]["bad_egress_header"] == 1  # 28 bytes of 0xff: kind 255


def test_committed_specs_are_accepted(tmp_path):
    for spec in (FORWARD, REPORTS):
        assert good(tmp_path, spec, write_pcap(tmp_path / "in.pcap", [])).stats["in"] == 0
