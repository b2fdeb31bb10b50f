"""flowstats.p4, as committed in spec/, against its model: reports, reasons and registers are equal, octet by octet."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from acapella_p4_model import reports, running
from acapella_p4_model.epochs import Epochs
from acapella_p4_model.flowstats import QUEUE_PAIR_REGISTERS, ROWS, Flowstats
from acapella_p4_model.made_connections import START_NS, made_connections
from acapella_p4_model.made_frames import made_frames
from acapella_p4_model.running import P4, Frame

BASE = {
    "cell_mask": 0x3F,
    "slot_mask": 0x1F,
    "qp_mask": 15,
    "slot_timeout_ns": 5_000_000_000,
    "report_dst_mac": 0x020304050607,
    "report_src_mac": 0xFEDCBA987654,
    "report_dst_ip": 0xFFFEFDFB,
    "report_src_ip": 0xF0F1F2F3,
}
# Sixteen queue pairs: PSNs about to wrap, rings that a few reports fill, and one that is not set up.
QUEUE_PAIRS = {
    "qp_number": [17 + pair if pair != 3 else 0 for pair in range(16)],
    "qp_psn": [0xFFFFF0 + pair for pair in range(16)],
    "qp_address": [0x1000 * (pair + 1) for pair in range(16)],
    "qp_base": [0x1000 * (pair + 1) for pair in range(16)],
    "qp_end": [0x1000 * (pair + 1) + 0x800 for pair in range(16)],
    "qp_key": [5 + pair for pair in range(16)],
}
SECOND_NS = 10**9
# Addresses with which the sum of an IP header's words carries twice (RFC 1071).
CARRYING = {"report_dst_ip": 0xFFFFFFFF, "report_src_ip": 0x39F30000}


def control_of(settings: dict[str, int], period_ns: int = 0) -> str:
    """The lines that bring the program and the model to the same state."""
    lines = [f"register {name} 0 {value}" for name, value in settings.items()]
    lines += [
        f"register {name} {pair} {value}" for name, values in QUEUE_PAIRS.items() for pair, value in enumerate(values)
    ]
    if period_ns:
        cells = settings["cell_mask"] + 1
        lines.append(f"epoch {period_ns}")
        lines += [f"epoch-clear sketch_{what}_{row} {cells}" for what in ("bytes", "packets") for row in range(ROWS)]
    return "\n".join(lines) + "\n"


def model_of(settings: dict[str, int]) -> Flowstats:
    model = Flowstats()
    model.one.update(settings)
    for name in QUEUE_PAIR_REGISTERS:
        model.many[name].update(enumerate(QUEUE_PAIRS[name]))
    return model


def run(frames: list[Frame], control: str, folder: Path, spec: Path | None) -> running.Ran:
    if not running.LOADER.exists():
        pytest.skip("acapella-p4-run is not there: make setup builds it where libdpdk-dev, libpcap-dev are installed")
    return running.run("flowstats", frames, control, folder, spec)


def assert_same(frames: list[Frame], settings: dict[str, int], period_ns: int, folder: Path, spec: Path) -> set[str]:
    """Runs both; the reasons and triggers that came up."""
    ran = run(frames, control_of(settings, period_ns), folder, spec)
    model = model_of(settings)
    names = json.loads((P4 / "spec" / "flowstats.json").read_text())["reasons"]
    expected = list(Epochs(model, period_ns).run(frames))
    seen = set()
    for number, (got, (now, result)) in enumerate(zip(ran.outcomes, expected, strict=False)):
        where = f"result {number} of {len(expected)}, at {now}"
        assert (got.timestamp_ns, got.sequence, got.hash) == (now, result.sequence, result.hash), where
        if result.report is None:
            assert (got.outcome, got.reason, got.length) == ("sunk", names[str(result.reason)], 0), where
            seen.add(got.reason)
            continue
        assert got.octets is not None, f"{where}: {got.reason}"
        assert (got.kind, got.wire_length) == ("report", len(got.octets)), where
        assert difference(settings, result.report, got.octets[:-4]) == {}, where
        seen |= {f"trigger {bit}" for bit in range(9) if result.trigger >> bit & 1}
    assert len(ran.outcomes) == len(expected)
    assert_same_registers(model, ran.registers)
    return seen


def difference(settings: dict[str, int], expected: bytes, got: bytes) -> dict[str, tuple]:
    """The fields in which two reports differ."""
    if expected == got:
        return {}
    number, head = settings.get("format", 2), reports.HEADER_BYTES
    one, other = (reports.unpack(number, octets[head:]) for octets in (expected, got))
    fields = {name: (one[name], other[name]) for name in one if one[name] != other[name]}
    return fields | {"headers": (expected[:head].hex(), got[:head].hex())}


def assert_same_registers(model: Flowstats, registers: dict[str, list[int]]) -> None:
    assert set(model.one) | set(model.many) == set(registers) - {"direction"}  # p4c-dpdk's own
    for name, values in registers.items():
        expected = model.many.get(name, {0: model.one.get(name, 0)})
        wrong = {at: (expected.get(at, 0), got) for at, got in enumerate(values) if expected.get(at, 0) != got}
        assert not wrong, f"{name}: {dict(list(wrong.items())[:5])}"


@pytest.mark.parametrize(
    ("settings", "period_ns", "seen"),
    [
        pytest.param(
            CARRYING, SECOND_NS, {"trigger 0", "trigger 1", "trigger 5", "trigger 6", "trigger 7"}, id="default"
        ),
        pytest.param(
            {"format": 1, "report_src_ip": 0x0A0B0C0D}, 20 * SECOND_NS, {"not-in-format", "trigger 7"}, id="published"
        ),
        pytest.param(
            {
                "rows": 3,
                "triggers": 0x1FF,
                "every": 2,
                "interval_ns": 10_000_000,
                "slot_mask": 0x3FF,
                "cell_mask": 0x7FF,
            },
            10 * SECOND_NS,
            {f"trigger {bit}" for bit in range(9)},
            id="all-triggers",
        ),
        pytest.param(
            {"rows": 2, "report_dst_ip": 0xC0A8FE03, "active_bank": 1, "epoch": 0xFFFFFFFF, "triggers": 0x142},
            0,
            {"trigger 1", "trigger 6", "trigger 8", "reverse-unknown", "no-trigger", "no-flow", "no-queue-pair"},
            id="acks",
        ),
        pytest.param(
            {"rows": 1, "report_src_ip": 0x7F0000F7, "every": 3, "triggers": 0x52, "format": 1},
            0,
            {"trigger 1", "trigger 4"},
            id="one-row",
        ),
    ],
)
def test_connections_give_the_reports_and_registers_of_the_model(settings, period_ns, seen, small_spec, tmp_path):
    frames = made_connections(7, 1200)
    assert assert_same(frames, BASE | settings, period_ns, tmp_path, small_spec) >= seen


def test_every_encapsulation_cut_and_damaged_gives_what_the_model_says(small_spec, tmp_path):
    frames = [replace(frame, timestamp_ns=START_NS + 1_000_000 * at) for at, frame in enumerate(made_frames(3, 3000))]
    settings = BASE | {"triggers": 0x1FF, "every": 2}
    assert "no-flow" in assert_same(frames, settings, SECOND_NS, tmp_path, small_spec)


def test_the_published_register_sizes_are_compiled_in():
    text = (P4 / "spec" / "flowstats.spec").read_text()
    sizes = {name: int(size, 0) for name, size in re.findall(r"^regarray (\S+) size (\S+)", text, re.MULTILINE)}
    assert all(sizes[f"sketch_{what}_{row}"] == 2 * 2**20 for what in ("bytes", "packets") for row in range(ROWS))
    assert {size for name, size in sizes.items() if name.startswith("slot_") and size > 4} == {2**18}
