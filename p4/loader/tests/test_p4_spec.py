"""Statements of a .spec, and the errors in it: each names its line."""

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.p4_loader import FORWARD, ethernet, frame, good, run


def changed(directory, old, new):
    """Return forward.spec with a change, and the line of the change, from 1."""
    before, _, rest = FORWARD.read_text().partition(old)
    assert rest
    return write_file(directory / "changed.spec", before + new + rest), before.count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "message", "lines"),
    [
        pytest.param(
            "bit<48> destination", "bit<49> destination", "bit<49>: not a multiple of 8 bits", 0, id="odd field"
        ),
        pytest.param("bit<48> source", "int source", "int: not the type of a field", 0, id="no type"),
        pytest.param("instanceof egress_h", "instanceof nothing_h", "nothing_h: no such struct", 0, id="no struct"),
        pytest.param("size 0x100 initval 0", "size many initval 0", "many: not a number", 0, id="no number"),
        pytest.param(
            "size 0x100 initval 0", "size 0x1000000000 initval 0", "not a number from 0 to", 0, id="too large"
        ),
        pytest.param(
            "regarray bytes size 0x100 initval 0", "regarray bytes 0x100", "regarray: malformed", 0, id="no register"
        ),
        pytest.param("m.type exact", "m.type sorted", "sorted: unknown kind of match", 0, id="no match"),
        pytest.param(
            "\tsize 0x10\n", "\tcolor blue\n", "color: unknown statement of a table", 0, id="no statement of a table"
        ),
        pytest.param(
            "metadata instanceof metadata_t",
            "extobj counter_0",
            "extobj: extern objects are not supported",
            0,
            id="no statement",
        ),
        pytest.param("metadata instanceof metadata_t", "counters 12", "counters: unknown statement", 0, id="unknown"),
        pytest.param(
            "\t\tkeep_all @defaultonly", "\t\tabsent @defaultonly", "absent: no such action", 0, id="no action"
        ),
        pytest.param(
            "\t\tkeep_all @defaultonly",
            "\t\tkeep_all @tableonly",
            "its default_action is missing, or is not one",
            -7,
            id="no default",
        ),
        pytest.param(
            "default_action keep_all args none",
            "default_action keep args none",
            "keep takes 1 values, not 0",
            0,
            id="no values",
        ),
        pytest.param(
            "action keep_all args none {", "action keep args none {", "action keep: already defined", 0, id="2 actions"
        ),
        pytest.param(
            "jmpeq DECIDED m.port_out 0x1", "jmpeq AWAY m.port_out 0x1", "AWAY: no such label", 0, id="no label"
        ),
        pytest.param("\ttable prefix", "\tDECIDED : table prefix", "DECIDED: duplicate label", 1, id="label twice"),
        pytest.param("\ttable ternary", "\tBACK : table ternary\n\tjmp BACK", "jumps back to line", 1, id="loop"),
        pytest.param("\ttx m.port_out", "\temit h.ingress", "the block does not end here", 0, id="no end"),
        pytest.param("tx m.port_out", "tx 7", "tx 7: the only ports are 0 (out) and 1 (sink)", 0, id="no port"),
        pytest.param(
            "mov m.reason 0x0", "mov m.color 0x0", "mov m.color 0x0: DPDK rejects this instruction", 0, id="no field"
        ),
        pytest.param(
            "\tregadd sequence", "\tregdivide sequence", "DPDK rejects this instruction", 0, id="no instruction"
        ),
        pytest.param(
            "\ttable exact\n\tjmp",
            "\ttable absent\n\tjmp",
            "table absent: DPDK rejects this instruction",
            0,
            id="no table",
        ),
        pytest.param(
            "jmpeq DECIDED m.port_out 0x1",
            "jmpeq DECIDED 0x1 m.port_out",
            "first operand must be a field",
            0,
            id="immediate first",
        ),
        pytest.param(
            "\tmov m.length t.bytes",
            "\textract h.ethernet",
            "extract: belongs in the apply block",
            0,
            id="in an action",
        ),
        pytest.param("mov m.reason 0x0", f"mov m.{'r' * 70} 0x0", "longer than 63 characters", 0, id="long name"),
        pytest.param("mov m.reason 0x0", "mov" + " x" * 70, "more than 64 words", 0, id="many words"),
        pytest.param("mov m.reason 0x0", "mov" + " x" * 20, "an instruction of 21 words", 0, id="wide instruction"),
        pytest.param(
            "\temit h.ethernet",
            "\temit h.ethernet\n\temit h.egress\n\temit h.egress",
            "emits a header twice",
            -30,
            id="emitted twice",
        ),
    ],
)
def test_error_in_a_spec_names_its_line(tmp_path, old, new, message, lines):
    """`lines`: number of lines from the change to the line of the message, such as that of the table or the jump."""
    spec, line = changed(tmp_path, old, new)
    done = run(tmp_path, spec, [])
    assert done.code == 2, done.error
    assert done.error.count("\n") == 1, done.error
    location, reason = done.error.split(": ", 2)[1:]
    assert location == f"{spec}:{line + lines}", done.error
    assert message in reason


def test_error_in_an_unfinished_block_names_its_first_line(tmp_path):
    text = FORWARD.read_text().partition("\tmov m.length h.ingress.captured_length")[0]
    done = run(tmp_path, write_file(tmp_path / "changed.spec", text), [])
    line = text.partition("apply {")[0].count("\n") + 1
    assert done.code == 2
    assert f"changed.spec:{line}: apply: the file ends before its }}" in done.error


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02", b"\xff" * 99, b"struct", b"}\n", b"apply {\n}\n"], ids=range(6)
)
def test_files_that_are_not_specs_are_rejected(tmp_path, content):
    spec = write_file(tmp_path / "wrong.spec", content)
    done = run(tmp_path, spec, [])
    assert done.code == 2
    assert done.error.startswith(f"acapella-p4-run: {spec}")
    assert done.error.count("\n") == 1


def test_field_with_an_offset_above_the_limit_of_dpdk_is_rejected(tmp_path):
    wide = "".join(f"\tbit<64> wide_{i}\n" for i in range(31))
    spec, _ = changed(tmp_path, "struct metadata_t {\n", f"struct metadata_t {{\n{wide}")
    done = run(tmp_path, spec, [])
    assert done.code == 2
    assert "m.length: is 260 bytes into struct metadata_t" in done.error
    assert "DPDK can address 255" in done.error


def test_hash_result_with_an_offset_above_the_limit_of_dpdk_is_rejected(tmp_path):
    spec, line = changed(tmp_path, "mov m.reason 0x0", "hash crc32 m.type h.ingress.port h.ingress.flags")
    done = run(tmp_path, spec, [])
    assert done.code == 0, done.error  # 29 bytes into the metadata
    spec, line = changed(tmp_path, "mov m.reason 0x0", "hash crc32 m.late h.ingress.port h.ingress.flags")
    fields = "\tbit<16> type\n"
    spec.write_text(spec.read_text().replace(f"{fields}}}\nmeta", f"{fields}\tbit<32> x\n\tbit<32> late\n}}\nmeta"))
    done = run(tmp_path, spec, [])
    assert done.code == 2 and f":{line + 2}: m.late: is 35 bytes into" in done.error, done.error


def test_constant_is_written_to_the_named_register(tmp_path):
    """DPDK without the loader writes it to the first register."""
    spec, _ = changed(tmp_path, "mov m.reason 0x0", "mov m.reason 0x0\n\tregwr bytes 0x7 0x9\n\tregadd bytes 0x6 0x2")
    registers = good(tmp_path, spec, [frame(1, ethernet(1)), frame(2, ethernet(1))]).registers
    assert registers["bytes"][6:8] == [4, 9]
    assert registers["sequence"][0] == 2


def test_drop_and_unknown_ports_are_counted_separately(tmp_path):
    text = FORWARD.read_text().replace("\ttx m.port_out", "\tjmpeq AWAY m.type 0x0806\n\ttx m.port_out\n\tAWAY : drop")
    text = text.replace("mov m.port_out 0x0\n", "mov m.port_out h.ingress.wire_length\n\tand m.port_out 0xff0\n")
    frames = [frame(1, ethernet(1, kind=0x0806, size=14)), frame(2, ethernet(1)), frame(3, ethernet(1, size=15))]
    stats = good(tmp_path, write_file(tmp_path / "changed.spec", text), frames).stats
    assert stats["dropped"] == {"by_program": 1, "unknown_port": 1, "bad_egress_header": 0, "untimed": 0}
    assert stats["out"] == 1


def test_frames_sent_without_the_loaders_header_are_counted(tmp_path):
    text = FORWARD.read_text().replace("\temit h.egress\n", "").replace("\temit h.ethernet\n", "")
    spec = write_file(tmp_path / "changed.spec", text)
    stats = good(tmp_path, spec, [frame(1, bytes(60)), frame(2, b"\xff" * 60)]).stats
    assert stats["dropped"]["bad_egress_header"] == 1  # 28 bytes of 0xff: kind 255
