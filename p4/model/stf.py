"""Test cases as text, like the .stf files of p4c: input frames, and the expected output, byte by byte.

    # a comment                            to the end of the line
    let NAME HEX...                        define $NAME as these bytes
    register NAME INDEX VALUE ...          statements of control files, as for the loader
    table NAME ...
    packet PORT HEX... [wire N] [at NS]    a frame of N bytes on the wire
    expect HEX... [wire N] [sequence N]    the expected output for the last packet
    same [cut N] [sequence N]              expect the last packet unchanged, or its first N bytes
    drop REASON                            expect that the last packet is dropped
    report NAME=VALUE ...                  expect a report with these fields
    read NAME INDEX VALUE                  expected value of a register at the end
    end                                    end of a case: the next one starts with initial registers and tables

A case ends at `end` or the end of the file; its name is the comment in its first line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from acapella_p4_model import reports
from acapella_p4_model.running import Frame, Outcome, run


class BadCase(Exception):
    """A line is not a valid statement."""


@dataclass
class Expected:
    """The expected outcome of a packet; `raw` None: it is dropped for `reason`."""

    line: int
    raw: bytes | None
    reason: str = ""
    wire_length: int | None = None
    sequence: int | None = None
    fields: dict[str, int] | None = None  # fields of a report, instead of `raw`

    def differs(self, actual: Outcome) -> str | None:
        """Return the difference from an outcome, or None."""
        if self.raw is None:
            return self.drop_differs(actual) if self.fields is None else self.report_differs(actual)
        if actual.raw != self.raw:
            return f"expected {self.raw.hex()}, got {actual.raw.hex() if actual.raw is not None else actual.reason}"
        if self.wire_length is not None and actual.wire_length != self.wire_length:
            return f"expected {self.wire_length} bytes on the wire, got {actual.wire_length}"
        if self.sequence is not None and actual.sequence != self.sequence:
            return f"expected sequence number {self.sequence}, got {actual.sequence}"
        return None

    def drop_differs(self, actual: Outcome) -> str | None:
        if actual.raw is None and actual.reason == self.reason:
            return None
        return f"expected to be dropped as {self.reason}, was {actual.outcome} {actual.reason}"

    def report_differs(self, actual: Outcome) -> str | None:
        if actual.raw is None or actual.kind != "report":
            return f"expected a report, was {actual.outcome} {actual.reason}"
        fields = reports.unpack_frame(actual.raw)
        wrong = {name: fields.get(name) for name, value in self.fields.items() if fields.get(name) != value}
        return f"unexpected values: {', '.join(f'{name}={value}' for name, value in wrong.items())}" if wrong else None


@dataclass
class Case:
    """One run of the program."""

    file: str
    name: str
    control: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    reads: list[tuple[int, str, int, int]] = field(default_factory=list)  # line, register, index, value

    def failures(self, program: str, directory: Path, spec: Path | None = None) -> list[str]:
        """Return all unmet expectations, with their lines."""
        if len(self.expected) != len(self.frames):
            raise BadCase(f"{self.file}: {self.name}: {len(self.frames)} packets, {len(self.expected)} expectations")
        ran = run(program, self.frames, "\n".join(self.control) + "\n", directory, spec)
        found = []
        for expected, actual in zip(self.expected, ran.outcomes, strict=True):
            difference = expected.differs(actual)
            if difference:
                found.append(f"{self.file}:{expected.line}: {difference}")
        for line, register, index, value in self.reads:
            actual = ran.registers[register][index]
            if actual != value:
                found.append(f"{self.file}:{line}: expected {register}[{index}] = {value}, got {actual}")
        return found


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file. Raises BadCase with file and line."""
    reader = _Reader(path.name)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            reader.line(number, line)
        except (ValueError, IndexError, KeyError) as error:
            raise BadCase(f"{path.name}:{number}: {line.strip()}: {error}") from error
    return [case for case in reader.cases if case.frames]


class _Reader:
    def __init__(self, file: str):
        self.file = file
        self.names: dict[str, str] = {}
        self.cases: list[Case] = []
        self.open = False

    def line(self, number: int, line: str) -> None:
        text, _, comment = line.partition("#")
        if not self.open and (text.strip() or comment):
            self.cases.append(Case(self.file, comment.strip() or f"line {number}"))
            self.open = True
        words = text.split()
        if words:
            self.statement(self.cases[-1], number, words[0], words[1:], text.strip())

    def statement(self, case: Case, number: int, verb: str, words: list[str], text: str) -> None:
        if verb in ("register", "table"):
            case.control.append(text)
        elif verb == "let":
            self.names[words[0]] = self.raw(words[1:]).hex()
        elif verb == "packet":
            words, options = _options(words, ("wire", "at"))
            frame = Frame(self.raw(words[1:]), int(words[0]), options.get("wire"), options.get("at"))
            case.frames.append(frame)
        elif verb == "expect":
            words, options = _options(words, ("wire", "sequence"))
            raw = self.raw(words)
            case.expected.append(Expected(number, raw, "", options.get("wire"), options.get("sequence")))
        elif verb == "same":
            _, options = _options(words, ("cut", "sequence"))
            raw = case.frames[-1].raw[: options.get("cut")]
            case.expected.append(Expected(number, raw, sequence=options.get("sequence")))
        elif verb == "drop":
            case.expected.append(Expected(number, None, words[0]))
        elif verb == "report":
            fields = {name: int(value, 0) for name, value in (word.split("=") for word in words)}
            case.expected.append(Expected(number, None, fields=fields))
        elif verb == "read":
            case.reads.append((number, words[0], int(words[1], 0), int(words[2], 0)))
        elif verb == "end":
            self.open = False
        else:
            raise ValueError("unknown statement")

    def raw(self, words: list[str]) -> bytes:
        return bytes.fromhex("".join(self.names[word[1:]] if word.startswith("$") else word for word in words))


def _options(words: list[str], names: tuple[str, ...]) -> tuple[list[str], dict[str, int]]:
    """Remove `NAME N` pairs from the end of a line, and return them."""
    options = {}
    while len(words) > 1 and words[-2] in names:
        options[words[-2]] = int(words[-1], 0)
        words = words[:-2]
    return words, options
