"""flowstats.p4, as committed in spec/, against its model: reports, reasons and registers are equal, byte by byte."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from acapella_p4_model.comparing import BASE, CARRYING, SECOND_NS, assert_same
from acapella_p4_model.epochs import TIME_LIMIT_NS
from acapella_p4_model.flow_state import HOLES
from acapella_p4_model.flowstats import ROWS
from acapella_p4_model.generated_connections import START_NS, generated_connections
from acapella_p4_model.generated_frames import generated_frames
from acapella_p4_model.running import P4


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
    assert assert_same(generated_connections(7, 1200), BASE | settings, period_ns, tmp_path, small_spec) >= seen


def test_truncated_and_damaged_encapsulations_match_the_model(small_spec, tmp_path):
    """Every 100th frame has an implausible time."""
    times = [TIME_LIMIT_NS if at % 100 == 50 else START_NS + 1_000_000 * at for at in range(3000)]
    frames = [replace(frame, timestamp_ns=ns) for frame, ns in zip(generated_frames(3, 3000), times, strict=True)]
    assert "no-flow" in assert_same(frames, BASE | {"triggers": 0x1FF, "every": 2}, SECOND_NS, tmp_path, small_spec)


def test_register_sizes_equal_the_published_sizes():
    text = (P4 / "spec" / "flowstats.spec").read_text()
    sizes = {name: int(size, 0) for name, size in re.findall(r"^regarray (\S+) size (\S+)", text, re.MULTILINE)}
    assert all(sizes[f"sketch_{what}_{row}"] == 2 * 2**20 for what in ("bytes", "packets") for row in range(ROWS))
    assert all(sizes[f"slot_hole_{end}"] == HOLES * 2**18 for end in ("start", "end"))
    assert {size for name, size in sizes.items() if name.startswith("slot") and 8 < size < HOLES * 2**18} == {2**18}
