"""Run flowstats.p4, as committed in spec/, and its model; compare reports, reasons and registers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from acapella_p4_model import reports, running
from acapella_p4_model.epochs import Epochs
from acapella_p4_model.flowstats import QUEUE_PAIR_REGISTERS, ROWS, Flowstats
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
# Sixteen queue pairs: PSNs about to wrap around, rings for a few reports only, and one that is not set up.
QUEUE_PAIRS = {
    "qp_number": [17 + pair if pair != 3 else 0 for pair in range(16)],
    "qp_psn": [0xFFFFF0 + pair for pair in range(16)],
    "qp_address": [0x1000 * (pair + 1) for pair in range(16)],
    "qp_base": [0x1000 * (pair + 1) for pair in range(16)],
    "qp_end": [0x1000 * (pair + 1) + 0x800 for pair in range(16)],
    "qp_key": [5 + pair for pair in range(16)],
}
SECOND_NS = 10**9
# Addresses for which the checksum of an IP header has two carries (RFC 1071).
CARRYING = {"report_dst_ip": 0xFFFFFFFF, "report_src_ip": 0x39F30000}


def control_of(settings: dict[str, int], period_ns: int = 0) -> str:
    """Return control statements that set the program's registers to the model's values."""
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
    model.settings.update(settings)
    for name in QUEUE_PAIR_REGISTERS:
        model.arrays[name].update(enumerate(QUEUE_PAIRS[name]))
    return model


def run(frames: list[Frame], control: str, directory: Path, spec: Path | None) -> running.Result:
    if not running.LOADER.exists():
        pytest.skip("no acapella-p4-run: make setup builds it if libdpdk-dev and libpcap-dev are installed")
    return running.run("flowstats", frames, control, directory, spec)


def assert_same(frames: list[Frame], settings: dict[str, int], period_ns: int, directory: Path, spec: Path) -> set[str]:
    """Run the program and the model and compare; return the reasons and triggers that occurred."""
    actual = run(frames, control_of(settings, period_ns), directory, spec)
    model = model_of(settings)
    names = json.loads((P4 / "spec" / "flowstats.json").read_text())["reasons"]
    epochs = Epochs(model, period_ns)
    expected = list(epochs.run(frames))
    assert actual.statistics["dropped"]["untimed"] == epochs.untimed
    outcomes = [outcome for outcome in actual.outcomes if outcome.outcome != "untimed"]
    assert len(actual.outcomes) == len(outcomes) + epochs.untimed
    occurred = set()
    for number, (outcome, (now, result)) in enumerate(zip(outcomes, expected, strict=False)):
        where = f"result {number} of {len(expected)}, at {now}"
        assert (outcome.timestamp_ns, outcome.sequence, outcome.hash) == (now, result.sequence, result.hash), where
        if result.report is None:
            assert (outcome.outcome, outcome.reason, outcome.length) == ("sunk", names[str(result.reason)], 0), where
            occurred.add(outcome.reason)
            continue
        assert outcome.raw is not None, f"{where}: {outcome.reason}"
        assert (outcome.kind, outcome.wire_length) == ("report", len(outcome.raw)), where
        assert difference(settings, result.report, outcome.raw[:-4]) == {}, where
        occurred |= {f"trigger {bit}" for bit in range(9) if result.trigger >> bit & 1}
    assert len(outcomes) == len(expected)
    assert_same_registers(model, actual.registers)
    return occurred


def difference(settings: dict[str, int], expected: bytes, actual: bytes) -> dict[str, tuple]:
    """Return the fields in which two reports differ."""
    if expected == actual:
        return {}
    number, head = settings.get("format", 2), reports.HEADER_BYTES
    expected_fields, actual_fields = (reports.unpack(number, raw[head:]) for raw in (expected, actual))
    fields = {
        name: (expected_fields[name], actual_fields[name])
        for name in expected_fields
        if expected_fields[name] != actual_fields[name]
    }
    return fields | {"headers": (expected[:head].hex(), actual[:head].hex())}


def assert_same_registers(model: Flowstats, registers: dict[str, list[int]]) -> None:
    assert set(model.settings) | set(model.arrays) == set(registers) - {"direction"}  # added by p4c-dpdk
    for name, values in registers.items():
        expected = model.arrays.get(name, {0: model.settings.get(name, 0)})
        different = {
            index: (expected.get(index, 0), value)
            for index, value in enumerate(values)
            if expected.get(index, 0) != value
        }
        assert not different, f"{name}: {dict(list(different.items())[:5])}"
