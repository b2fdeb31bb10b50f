"""The committed .spec files match their sources, and avoid constructs that p4c-dpdk and DPDK handle wrongly."""

import hashlib
import importlib.machinery
import importlib.util
import itertools
import json
import re
import subprocess
import sys

import pytest
from acapella_p4_model.running import P4
from acapella_testing import processes
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_programs

# DPDK stores the offset of an operand in its struct in 8 bits, in bytes (larger ones wrap around), and that of a hash
# result in 8 bits, in bits.
REACHED_BITS = 256 * 8
HASH_DESTINATION_BITS = 256


LOADER = importlib.machinery.SourceFileLoader("acapella_p4_compile", str(P4 / "compile"))
COMPILE = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(COMPILE)
PROGRAMS = COMPILE.programs()


def spec_of(program: str) -> str:
    return (P4 / "spec" / f"{program}.spec").read_text()


def fields(spec: str) -> dict[str, dict[str, tuple[int, int]]]:
    """Return offset and width of each field in bits, by struct and field."""
    structs = {}
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\}", spec, re.MULTILINE | re.DOTALL):
        found = [(field, int(width)) for width, field in re.findall(r"(?:bit|varbit)<(\d+)> (\w+)", body)]
        offsets = itertools.accumulate((width for _, width in found), initial=0)
        structs[name] = {field: (offset, width) for (field, width), offset in zip(found, offsets, strict=False)}
    return structs


def metadata(spec: str) -> dict[str, tuple[int, int]]:
    return fields(spec)[re.search(r"^metadata instanceof (\w+)", spec, re.MULTILINE)[1]]


def out_of_reach(spec: str) -> list[str]:
    """Return operands whose offsets DPDK would truncate without an error."""
    structs = fields(spec).items()
    offsets = [(f"{struct}.{name}", at) for struct, members in structs for name, (at, _) in members.items()]
    results, reached = re.findall(r"\bhash \w+ m\.(\w+)", spec), metadata(spec)
    far = [f"hash into m.{result}" for result in results if reached[result][0] >= HASH_DESTINATION_BITS]
    return [name for name, at in offsets if at >= REACHED_BITS] + far


def sources_without_comments(program: str) -> dict[str, str]:
    """Return the text of each source of a program, without comments."""
    return {name: re.sub(r"//.*|/\*.*?\*/", "", (P4 / name).read_text()) for name in COMPILE.sources(program)}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("program", PROGRAMS)
def test_spec_json_has_the_checksums_of_the_sources(program):
    sidecar = json.loads((P4 / "spec" / f"{program}.json").read_text())
    code = {name: COMPILE.code_of((P4 / name).read_text()) for name in COMPILE.sources(program)}
    assert sidecar["sources"] == {name: sha256(text.encode()) for name, text in code.items()}, (
        "stale: run p4/compile on a machine that has p4c-dpdk"
    )
    assert sidecar["spec_sha256"] == sha256(spec_of(program).encode()), "edited by hand"
    assert sidecar["compiler"].startswith("p4c-dpdk Version")
    assert sidecar["reasons"] == COMPILE.reasons(program)


def test_code_without_comments_keeps_everything_else():
    text = '#include "a//b.p4"\n\n// one\nbit<8> x = 8w1/* two\n*/+ 8w2;  \n'
    assert COMPILE.code_of(text) == '#include "a//b.p4"\nbit<8> x = 8w1 + 8w2;\n'
    assert COMPILE.code_of(text.replace("one", "three")) == COMPILE.code_of(text)
    assert COMPILE.code_of(text.replace("8w2", "8w3")) != COMPILE.code_of(text)


def test_specs_have_programs():
    assert {path.stem for path in (P4 / "spec").iterdir()} == set(PROGRAMS) >= {"preprocess"}


def test_nested_includes_are_sources():
    assert {"parser/vlan_tag.p4", "controls/preprocess/level/ipv4.p4", "sizes.p4"} <= set(COMPILE.sources("preprocess"))


def inputs_of_compiling() -> str:
    """Return everything that determines the result of compiling again."""
    sources = {P4 / name for program in PROGRAMS for name in COMPILE.sources(program)}
    paths = sorted({P4 / "compile", P4 / "fold_metadata.py", *sources, *(P4 / "spec").iterdir()})
    lines = [f"{path.relative_to(P4)} {sha256(path.read_bytes())}" for path in paths]
    return sha256("\n".join([COMPILE.compiler_version(), *lines]).encode())


def test_compiling_reproduces_the_committed_spec():
    """Compiling a program takes at least ten seconds of CPU time, so it is done once for the same inputs."""
    require_programs("p4c-dpdk")
    known, inputs = P4.parent / "build" / "p4" / "compiled-again", inputs_of_compiling()
    if known.exists() and known.read_text() == inputs:
        return
    runs = [subprocess.Popen([P4 / "compile", "--check", program], stderr=subprocess.PIPE, text=True)
            for program in PROGRAMS]  # fmt: skip
    message = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * len(PROGRAMS), message
    write_file(known, inputs)


@pytest.mark.parametrize("program", PROGRAMS)
def test_p4test_accepts_program_with_generic_pna(program):
    """p4test uses pna.p4 as specified, without the names that p4c-dpdk adds."""
    require_programs("p4test")
    done = processes.run("p4test", "-I", ".", f"{program}.p4", cwd=P4)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_sources_are_independent_of_a_target(program):
    text = "".join(sources_without_comments(program).values())
    assert set(re.findall(r"PNA_HashAlgorithm_t\.(\w+)", text)) == {"TARGET_DEFAULT"}
    assert set(re.findall(r"#include\s+<([^>]+)>", text)) == {"core.p4", "pna.p4"}


def test_results_named_crc_are_crc32_and_all_others_jhash():
    hashes = re.findall(r"\bhash (\w+) m\.(\w+)", "".join(map(spec_of, PROGRAMS)))
    assert {"crc32", "jhash"} == {algorithm for algorithm, _ in hashes}
    assert all((algorithm == "crc32") == field.endswith("_crc") for algorithm, field in hashes)


def test_compile_without_a_compiler_is_a_one_line_error(tmp_path):
    done = processes.run(sys.executable, P4 / "compile", env={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr == (
        "p4/compile: p4c-dpdk is not on PATH; build it from p4lang/p4c, or use the committed .spec\n"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_operands_are_addressable_by_dpdk(program):
    assert out_of_reach(spec_of(program)) == []


def test_unaddressable_operands_are_detected():
    filler = "".join(f"\tbit<64> filler_{number}\n" for number in range(20))
    wider = spec_of("preprocess").replace("struct metadata_t {\n", f"struct metadata_t {{\n{filler}")
    assert any(name.startswith("hash into") for name in out_of_reach(wider))
    assert any(name.startswith("metadata_t.") for name in out_of_reach(wider))


@pytest.mark.parametrize("program", PROGRAMS)
def test_fields_are_at_most_64_bits_wide(program):
    assert max(int(width) for width in re.findall(r"bit<(\d+)>", re.sub(r"varbit<\d+>", "", spec_of(program)))) <= 64


@pytest.mark.parametrize("program", PROGRAMS)
def test_hashes_read_headers_in_network_order(program):
    """Hashes of metadata would depend on the machine's byte order and include bytes between the fields."""
    hashes = re.findall(r"\bhash (\w+) m\.\w+ +(\S+) +(\S+)", spec_of(program))
    assert hashes
    assert {algorithm for algorithm, *_ in hashes} <= {"jhash", "crc32"}
    headers = [[re.fullmatch(r"h\.(\w+)\.\w+", end)[1] for end in ends] for _, *ends in hashes]
    assert all(first == last for first, last in headers)


@pytest.mark.parametrize("program", PROGRAMS)
def test_packets_are_sent_to_the_sink_instead_of_dropped(program):
    assert not re.search(r"\bdrop\b", spec_of(program))
    assert [name for name, text in sources_without_comments(program).items() if "drop_packet" in text] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_sources_avoid_constructs_that_p4c_dpdk_miscompiles(program):
    for name, text in sources_without_comments(program).items():
        assert "const entries" not in text, f"{name}: p4c-dpdk leaves them out"
        assert "TOEPLITZ" not in text, name
        for condition in re.findall(r"\bif \((.*)\) \{", text):
            strict = re.search(r"(?<![<>])[<>](?![<>=])", re.sub(r"bit<\d+>", "", condition))
            assert not (strict and ("&&" in condition or "||" in condition)), f"{name}: if ({condition})"
