"""Invalid models are rejected with a one-line error; no content of a file raises any other exception."""

import contextlib
import itertools
import math
import random
import signal
import subprocess

import numpy as np
import pytest
import yaml
from acapella_testing.capture.commands import run_command
from acapella_testing.capture.interrupted_reading import interrupted
from acapella_testing.generated import traffic_models as models
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.soak import SOAK

from acapella_capture.generate import command, expected, model, program
from acapella_capture.generate.compiled import Gaps
from acapella_core.errors import UserError

FLOW = """
flows:
  - headers: [ethernet, {ipv4: {src: 10.0.0.1, dst: 10.0.0.2}}, {udp: {src: 1, dst: 2}}]
    packets: 3
    gaps: {constant: {gap_ns: 10}}
    sizes: 60
"""


def read(tmp_path, text: str | bytes):
    """Read a model."""
    return model.read(write_file(tmp_path / "model.yaml", text), lambda _: ((5, 6), (70, 80)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "expected a mapping"),
        ("", "expected a mapping"),
        ("flows: []", "expected a list"),
        ("seed: -1\nflows: [1]", "expected an integer from 0"),
        ("flows: [{headers: [ethernet]}]", "gaps is missing"),
        (FLOW.replace("    packets: 3\n", ""), "packets or duration_ns is missing"),
        ("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n", "aliases are not supported"),
        ("a: 1\na: 2", "a key occurs twice"),
        ("[" * 5000, "not YAML"),
        ("x: 2024-99-99", "not YAML"),
        (FLOW + "    unknown: 1\n", "unknown key 'unknown'"),
        (FLOW.replace("sizes: 60", "sizes: 59"), "59 bytes are too few: headers and stamp need 60 bytes"),
        (FLOW.replace("sizes: 60", "sizes: {weighted: {60: 1, '60': 2}}"), "weighted: a key occurs twice"),
        (FLOW.replace("{udp:", "{vxlan: {vni: 1}}, {udp:"), "vxlan cannot follow ipv4"),
        (FLOW.replace("10.0.0.2", "10.0.0.256"), "expected an ipv4 address"),
        (FLOW.replace("src: 1,", "src: 65536,"), "expected an integer from 0 to 65535"),
        (FLOW.replace("src: 1,", "src: {increment: 65535, count: 2},"), "expected an integer from 1 to 1"),
        (FLOW.replace("src: 1,", "src: {random: 1, often: 2},"), "unknown key 'often'"),
        (FLOW.replace("[ethernet,", "[ethernet, {bytes: 0123},"), "bytes in hexadecimal, in quotes, found 83"),
        (FLOW.replace("gap_ns: 10", "gap_ns: 0"), "expected an integer from 1"),
        (FLOW.replace("gap_ns: 10", "gap_ns: .nan"), "expected an integer"),
        (FLOW.replace("{constant: {gap_ns: 10}}", "{trace: /nonexistent/file}"), "cannot be read"),
        (FLOW.replace("[ethernet,", "[udp,"), "src is missing"),
        (FLOW + "    malformed: [{checksum: tcp}]\n", "no header 'tcp' with this field"),
        (FLOW + "    stamp: 41\n", "expected an integer from 42"),
        (FLOW + "table: missing.csv\n", "cannot read"),
    ],
    ids=itertools.count(),
)
def test_invalid_model_is_rejected_in_one_line(tmp_path, text, message):
    with pytest.raises(UserError, match=message) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


VALUES = ["", "0", "-1", "1e400", ".inf", "null", "[]", "{}", "true", "'\\0'", "zeros", "[1, 2]", "{a: 1}", "2" * 5000]


def mutated(text: str, chance: random.Random) -> str:
    """Return a text with some random changes of values, lines and characters."""
    for _ in range(chance.randint(1, 2)):
        kind, lines = chance.randrange(4), text.split("\n")
        line = chance.randrange(len(lines))
        if kind == 0:
            head, colon, _ = lines[line].partition(": ")
            lines[line] = head + colon + chance.choice(VALUES)
        elif kind == 1:
            del lines[line]
        elif kind == 2:
            lines.insert(line, chance.choice(lines))
        elif lines[line]:
            at = chance.randrange(len(lines[line]))
            lines[line] = lines[line][:at] + chance.choice("{}[]:,-&*!|>'\"%@` \t0x\0é") + lines[line][at + 1 :]
        text = "\n".join(lines)
    return text


def test_mutated_models_are_accepted_or_rejected(tmp_path):
    chance = random.Random(19)
    accepted = rejected = 0
    texts = [models.flow(name, headers, at, 5) for at, (name, (headers, _)) in enumerate(models.TEMPLATES.items())]
    texts += [
        models.flow(name, headers, 0, 5, f"  malformed: {errors}") for name, (headers, errors) in models.ERRORS.items()
    ]
    for _ in range(400):
        try:
            compiled = read(tmp_path, mutated("flows:\n" + chance.choice(texts) + "\n", chance))
        except UserError as error:
            assert "\n" not in str(error)
            rejected += 1
        else:
            assert compiled.text().startswith("acapella-model 1\n")
            accepted += 1
    assert accepted > 20
    assert rejected > 200


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_signal_stops_reading_a_trace(generator, tmp_path, name):
    argv = [program.executable(), "--trace", tmp_path / "fifo"]
    code, errors = interrupted(signal.Signals[f"SIG{name}"], tmp_path / "fifo", *argv)
    assert code == 1
    assert f"interrupted by SIG{name}" in errors


TABLE = """template,name,packets,rate_bps,1.dst,2.src,sizes
web,first,7,,10.0.0.9,"{increment: 5, count: 4}",
web,second,,1000000,,,"{uniform: [100, 200]}"
"""
TEMPLATE = "templates:\n  web:\n" + FLOW.split("- ", 1)[1].replace("headers", "    headers", 1) + "table: flows.csv\n"


def test_rows_of_a_table_replace_values_of_their_template(tmp_path):
    (tmp_path / "flows.csv").write_text(TABLE)
    first, second = read(tmp_path, TEMPLATE).flows
    assert (first.name, first.packets, first.sizes.minimum) == ("first", 7, 60)
    assert (second.name, second.packets, second.rate_bps, second.sizes.kind) == ("second", 3, 1_000_000, "uniform")
    assert {(row["dst"], row["src_port"]) for row in expected.flow_table(read(tmp_path, TEMPLATE)).to_pylist()} == {
        *(("10.0.0.9", port) for port in (5, 6, 7, 8)),
        ("10.0.0.2", 1),
    }


def test_header_bytes_of_a_template_have_no_fields(tmp_path):
    text = TEMPLATE.replace("{udp: {src: 1, dst: 2}}", "{udp: {src: 1, dst: 2}}, {bytes: '0a'}").replace("60", "61")
    (tmp_path / "flows.csv").write_text("template,2.src\nweb,9\n")
    (flow,) = read(tmp_path, text).flows
    assert flow.template.endswith(b"\x00\x00\x0a")
    (tmp_path / "flows.csv").write_text("template,3.src\nweb,9\n")
    with pytest.raises(UserError, match=r"unknown column '3\.src'"):
        read(tmp_path, text)


@pytest.mark.parametrize(("table", "message"), [
    ("name\nx\n", "expected a header with column template"),
    ("template,9.src\nweb,1\n", "unknown column '9.src'"),
    ("template,packet\nweb,1\n", "unknown column 'packet'; did you mean packets"),
    ("template,name\nnone,1\n", "unknown template 'none'"),
    ("template,name\nwebs,1\n", "unknown template 'webs'; did you mean web"),
    ("template,name\nweb\n", "line 2: expected 2 cells, found 1"),
    ("template,packets\nweb,[\n", "line 2: packets: not YAML"),
    ('template,name\nweb,"x', "not CSV"),
])  # fmt: skip
def test_invalid_table_is_rejected_with_its_line(tmp_path, table, message):
    (tmp_path / "flows.csv").write_text(table)
    with pytest.raises(UserError, match=message):
        read(tmp_path, TEMPLATE)


def test_digest_of_the_model_includes_its_table(tmp_path):
    write_file(tmp_path / "flows.csv", TABLE)
    before = read(tmp_path, TEMPLATE).sha256
    write_file(tmp_path / "flows.csv", TABLE.replace("first", "other"))
    assert read(tmp_path, TEMPLATE).sha256 != before
    assert yaml.safe_load(TEMPLATE)["table"] == "flows.csv"


@pytest.mark.parametrize("end", ["packets: 5000", "duration_ns: 50000"])
def test_flow_table_with_too_many_packets_is_rejected(tmp_path, monkeypatch, end):
    monkeypatch.setattr(expected, "MAX_PACKETS", 4999)
    with pytest.raises(UserError, match="a flow with more than 4999 packets"):
        expected.flow_table(read(tmp_path, FLOW.replace("packets: 3", end)))


def test_packets_shorter_than_an_ethernet_header_are_rejected_for_an_interface(tmp_path):
    path = write_file(tmp_path / "model.yaml", FLOW + "    malformed: [{truncate: 13, every: 100}]\n")
    with pytest.raises(UserError, match="flow 'flow0': packets of 13 bytes"):
        run_command(command, path, "--interface", "none0")


def test_model_does_not_depend_on_the_math_library(tmp_path, monkeypatch):
    text = FLOW.replace("sizes: 60", "sizes: {exponential: {least: 60, most: 90, scale_bytes: 7}}")
    compiled = read(tmp_path, text).text()
    for name in ("exp", "expm1", "log", "log1p", "pow"):
        monkeypatch.setattr(math, name, lambda *_: 0.5)
    assert read(tmp_path, text).text() == compiled


def test_times_at_a_rate_do_not_overflow():
    packets, size, rate = 3_000_000, 65_535, 10**13
    gaps = expected.gaps_of(Gaps("rate", denominator=rate), np.arange(packets), np.full(packets, size))
    assert gaps.min() >= 52 and gaps.max() <= 53
    assert gaps.sum() == packets * size * 8 * 10**9 // rate


WORDS = ["", "0", "-1", "3", "8", "65535", "65536", "4294967296", "0x1p+70", "nan", "list", "x"]
WORDS += [str(2**63), str(2**64 - 1)]


def damaged(text: str, chance: random.Random) -> str:
    """Return a compiled model with some words replaced, or a line removed or repeated."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines) - 1)
        words = lines[at].split(" ")
        words[chance.randrange(len(words))] = chance.choice(WORDS)
        lines[at : at + 1] = chance.choice(([" ".join(words)], [" ".join(words)], [], [lines[at], lines[at]]))
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(400 if SOAK else 8))
def test_damaged_compiled_model_is_executed_or_rejected_in_one_line(generator, tmp_path, seed):
    chance = random.Random(seed)
    path = write_file(tmp_path / "model", damaged(read(tmp_path, models.random_model(seed, 4)).text(), chance))
    argv = [program.executable(), "--model", path, "--output", tmp_path / "out.pcap", "--start-ns", "1"]
    with contextlib.suppress(subprocess.TimeoutExpired):  # the model has too many packets; `run` kills the program
        done = run(*argv, timeout=10)
        assert (done.returncode, done.stderr.count("\n")) in ((0, 0), (1, 1)), done.stderr
