"""Model of the loader's epochs: two banks, and a probe for every flow with packets in an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from acapella_p4_model.flowstats import ROWS, T_FIRST, Flowstats, Result
from acapella_p4_model.parsing import parse
from acapella_p4_model.running import Frame

PROBE_BYTES = 256  # maximum length of a flow's probe, from the start of its first frame
TIME_LIMIT_NS = 2**32 * 10**9 - 1  # the first implausible time, in the year 2106


@dataclass
class Epochs:
    """Yields the results of frames and probes; `period_ns` in packet time, 0: no epochs."""

    program: Flowstats
    period_ns: int = 0
    next_ns: int = 0
    last_ns: int = 0
    probes: list[Frame] = field(default_factory=list)
    untimed: int = 0  # frames with implausible times, which a program with epochs does not receive

    def run(self, frames: Iterable[Frame]) -> Iterator[tuple[int, Result]]:
        """Yield time and result of each frame and probe, in order."""
        started = False
        for frame in frames:
            now = frame.timestamp_ns
            if self.period_ns and not 0 <= now < TIME_LIMIT_NS:
                self.untimed += 1
                continue
            self.last_ns = max(self.last_ns, now)
            if not started:
                started = True
                self.next_ns = (now // self.period_ns + 1) * self.period_ns if self.period_ns else 0
            if self.period_ns and now >= self.next_ns:
                boundary = self.next_ns
                self.next_ns += ((now - boundary) // self.period_ns + 1) * self.period_ns
                yield from self._switch_banks(boundary)
            result = self._frame(frame, now)
            if result.trigger & T_FIRST:  # even if it could not be sent, because another report may be sent
                self.probes.append(Frame(frame.raw[:PROBE_BYTES], frame.port, frame.wire))
            yield now, result
        if self.period_ns and started:
            yield from self._switch_banks(self.last_ns)

    def _frame(self, frame: Frame, now: int, *, probe: bool = False) -> Result:
        parsed = parse(frame.raw, frame.wire)
        return self.program.frame(parsed, timestamp_ns=now, port=frame.port, probe=probe)

    def _switch_banks(self, now: int) -> Iterator[tuple[int, Result]]:
        settings = self.program.settings
        ended_bank = settings["active_bank"]
        settings["active_bank"], settings["epoch"] = 1 - ended_bank, settings["epoch"] + 1
        probes, self.probes = self.probes, []
        for frame in probes:
            yield now, self._frame(frame, now, probe=True)
        cells = settings["cell_mask"] + 1
        for row in range(ROWS):
            for what in ("bytes", "packets"):
                register = self.program.arrays[f"sketch_{what}_{row}"]
                for cell in [at for at in register if at // cells == ended_bank]:
                    del register[cell]
