"""Settings of a run of the flow statistics program, and its control file for the loader."""

import re
from dataclasses import dataclass, field

from acapella_core.errors import UserError

SYN, ACK, FIN, RST, NTH, TIME, FIRST, PROBE, DATA_ACK = (1 << bit for bit in range(9))
PUBLISHED = SYN | ACK | FIN | RST  # triggers of the paper's program
ALL_TRIGGERS = PUBLISHED | TIME | FIRST | PROBE | DATA_ACK
MAX_ROWS, MAX_CELLS, SLOTS = 4, 1 << 20, 1 << 18  # constants of p4/sizes.p4
SKETCHES = tuple(f"sketch_{unit}_{row}" for unit in ("bytes", "packets") for row in range(MAX_ROWS))
CELL_BYTES, COUNTERS, BANKS = 8, 2, 2


@dataclass(frozen=True, order=True)
class Sketch:
    """Size of a count-min sketch: rows, and cells per row (a power of 2)."""

    rows: int = 4
    cells: int = 65_536

    @classmethod
    def of(cls, text: str) -> "Sketch":
        """Parse ``4x65536``. Raises UserError."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
        sketch = cls(*map(int, match.groups())) if match else None
        if sketch is None or sketch.rows > MAX_ROWS or sketch.cells > MAX_CELLS or sketch.cells & (sketch.cells - 1):
            fix = f"use ROWSxCELLS, such as 4x65536: up to {MAX_ROWS} rows, cells a power of 2 up to {MAX_CELLS}"
            raise UserError(f"not a sketch size: {text}", fix=fix)
        return sketch

    @property
    def memory_bytes(self) -> int:
        """The memory of both counters in both banks."""
        return self.rows * self.cells * CELL_BYTES * COUNTERS * BANKS


@dataclass(frozen=True)
class Ring:
    """The queue pair for reports. For captures any values work, because program and collector use the same ones."""

    number: int = 0x11
    key: int = 0xACA9E11A
    base: int = 0x1000_0000
    slots: int = 65_536
    psn: int = 0


@dataclass(frozen=True)
class Settings:
    """Settings of a run: sketch, time between its resets, report triggers, and slots of per-flow state."""

    sketch: Sketch = Sketch()
    epoch_ns: int = 1_000_000_000
    triggers: int = ALL_TRIGGERS
    interval_ns: int = 100_000_000
    every: int = 0
    slots: int = SLOTS
    report_format: int = 2
    report_bytes: int = 192
    ring: Ring = field(default_factory=Ring)

    @property
    def triggers_name(self) -> str:
        """The name of the triggers in tables: "published" for the paper's triggers, else "all"."""
        return "published" if self.triggers == PUBLISHED else "all"

    def control(self, reasons: dict[int, str]) -> str:
        """Return the loader's control file (p4/loader/README.md)."""
        registers = {
            "rows": self.sketch.rows,
            "cell_mask": self.sketch.cells - 1,
            "slot_mask": self.slots - 1,
            "triggers": self.triggers,
            "interval_ns": self.interval_ns,
            "every": self.every,
            "format": self.report_format,
            "report_dst_mac": 0x020000000002,
            "report_src_mac": 0x020000000001,
            "report_dst_ip": 0xC0000202,
            "report_src_ip": 0xC0000201,
            "qp_number": self.ring.number,
            "qp_psn": self.ring.psn,
            "qp_address": self.ring.base,
            "qp_base": self.ring.base,
            "qp_end": self.ring.base + self.ring.slots * self.report_bytes,
            "qp_key": self.ring.key,
        }
        if self.epoch_ns:  # after an idle epoch, all packets of a flow have been reported (docs/p4.md)
            registers["slot_timeout_ns"] = self.epoch_ns
        lines = [f"register {name} 0 {value}" for name, value in registers.items()]
        lines += [f"reason {number} {name}" for number, name in sorted(reasons.items())]
        lines += [f"epoch {self.epoch_ns}ns"] if self.epoch_ns else []
        lines += [f"epoch-clear {name} {self.sketch.cells}" for name in SKETCHES] if self.epoch_ns else []
        return "\n".join(lines) + "\n"
