"""Let temporaries of a .spec share metadata fields.

p4c-dpdk allocates a field for each temporary, but DPDK's pipeline can address only 256 bytes of metadata (operands have
8-bit offsets, which wrap silently). Temporaries that are never live at the same time are assigned the same field here,
like a compiler allocates registers (liveness over the control flow graph, then coloring in order of appearance). Moves
from a field to itself and masks that keep all bits are removed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

METADATA_BYTES = 256
HASH_DESTINATION_BITS = 256  # DPDK casts the bit offset of a hash's destination to 8 bits
_TEMPORARY = re.compile(r"m\.\S*tmp\S*")
_FIELD = re.compile(r"^\s*bit<(\d+)> (\S+)$")
_LABEL = re.compile(r"^\s*(\w+) :\s*(.*)$")
_JUMPS = ("jmp", "jmpeq", "jmpneq", "jmplt", "jmpgt", "jmpv", "jmpnv", "jmph", "jmpnh", "jmpa", "jmpna")
_UPDATES = ("add", "sub", "and", "or", "xor", "shl", "shr", "ckadd", "cksub")
_DEFINES = ("mov", "regrd")  # write only the first operand


class UnsupportedSpecError(Exception):
    """The .spec does not fit into the pipeline, or contains an unsupported construct."""


@dataclass
class Instruction:
    """A line of the apply block: its words, the fields that it reads and writes, its successors."""

    words: list[str]
    label: str | None
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    successors: list[int] = field(default_factory=list)
    live: set[str] = field(default_factory=set)  # after it

    def text(self) -> str:
        words = " ".join(self.words)
        return f"\t{self.label} :\t{words}" if self.label else f"\t{words}"


def split(lines: list[str]) -> tuple[int, int]:
    """Return the first line of the apply block's body, and the line that closes it."""
    begin = lines.index("apply {") + 1
    return begin, next(at for at in range(begin, len(lines)) if lines[at] == "}")


def instructions(body: list[str]) -> list[Instruction]:
    found = []
    for line in body:
        labeled = _LABEL.match(line)
        words = (labeled[2] if labeled else line).split()
        if words or labeled:
            found.append(Instruction(words, labeled[1] if labeled else None))
    for instruction in found:
        effects(instruction)
    places = {one.label: at for at, one in enumerate(found) if one.label}
    for at, one in enumerate(found):
        jumps = bool(one.words) and one.words[0] in _JUMPS
        if not (one.words and one.words[0] in ("jmp", "tx", "drop", "return")) and at + 1 < len(found):
            one.successors.append(at + 1)
        if jumps:
            one.successors.append(places[one.words[1]])
    return found


def effects(one: Instruction) -> None:
    """Set the temporaries that an instruction reads and writes. Raises UnsupportedSpecError for unknown ones."""
    if not one.words:
        return
    operation, operands = one.words[0], [word for word in one.words[1:] if _TEMPORARY.fullmatch(word)]
    first = one.words[1] if len(one.words) > 1 else ""
    if operation == "hash":
        one.writes = {one.words[2]} & set(operands)
        if set(operands) - one.writes:
            raise UnsupportedSpecError(
                f"{' '.join(one.words)}: hashes must read a header, whose fields keep their order"
            )
    elif operation in _DEFINES:
        one.writes = {first} & set(operands)
        one.reads = {word for word in one.words[2:] if _TEMPORARY.fullmatch(word)}
    elif operation in _UPDATES:
        one.writes = {first} & set(operands)
        one.reads = set(operands)
    elif operation in (*_JUMPS, "regwr", "regadd", "extract", "tx"):
        one.reads = set(operands)
    elif operands:
        raise UnsupportedSpecError(f"{' '.join(one.words)}: unsupported instruction")


def find_live(body: list[Instruction]) -> None:
    changed = True
    while changed:
        changed = False
        for one in reversed(body):
            live: set[str] = set()
            for at in one.successors:
                live |= body[at].live - body[at].writes | body[at].reads
            if live != one.live:
                one.live, changed = live, True


def interferences(body: list[Instruction]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in body:
        for name in one.writes | one.reads:
            found.setdefault(name, set())
        same = {one.words[2]} if one.words and one.words[0] == "mov" else set()
        for name in one.writes:
            for other in one.live - {name} - same:
                found[name].add(other)
                found[other].add(name)
    return found


def color(body: list[Instruction], widths: dict[str, int]) -> dict[str, str]:
    """Return a shared field for each temporary; those joined by a move use the same field if possible."""
    found = interferences(body)
    friends: dict[str, list[str]] = defaultdict(list)
    order: dict[str, None] = {}
    for one in body:
        for word in one.words:
            if word in found:
                order.setdefault(word)
        if one.words and one.words[0] == "mov" and one.words[1] in found and one.words[2] in found:
            friends[one.words[1]].append(one.words[2])
    colors: dict[str, str] = {}
    for name in order:
        width = widths[name]
        used = {colors[other] for other in found[name] if other in colors}
        candidates = [colors[one] for one in friends[name] if one in colors and widths[one] == width]
        candidates += [f"m.shared_{width}_{number}" for number in range(len(order))]
        colors[name] = next(one for one in candidates if one not in used)
    return colors


def simplified(body: list[Instruction], widths: dict[str, int]) -> list[Instruction]:
    """Remove instructions without effect; their labels move to the next instruction."""
    kept: list[Instruction] = []
    renamed: dict[str, str] = {}
    pending: list[str] = []
    for one in body:
        if one.label:
            pending.append(one.label)
        words = one.words
        idle = not words or (words[0] == "mov" and words[1] == words[2])
        if words and words[0] == "and" and words[1] in widths and re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", words[2]):
            idle = idle or int(words[2], 0) == (1 << widths[words[1]]) - 1
        if idle:
            continue
        for label in pending[1:]:
            renamed[label] = pending[0]
        one.label = pending[0] if pending else None
        pending = []
        kept.append(one)
    for one in kept:
        if one.words[0] in _JUMPS:
            one.words[1] = renamed.get(one.words[1], one.words[1])
    return kept


def fields_of(lines: list[str]) -> tuple[dict[str, int], int, int]:
    """Return name and width of the metadata's fields, and the lines that define them."""
    struct = next(line.split()[-1] for line in lines if line.startswith("metadata instanceof "))
    start = lines.index(f"struct {struct} {{") + 1
    stop = lines.index("}", start)
    fields = [_FIELD.match(line) for line in lines[start:stop]]
    widths = {f"m.{one[2]}": int(one[1]) for one in fields if one}
    if len(widths) != stop - start:
        raise UnsupportedSpecError("unsupported metadata field")
    return widths, start, stop


def fitted(text: str) -> str:
    """Fold the .spec if its metadata exceed the pipeline's limit. Raises UnsupportedSpecError if that is not enough."""
    lines = text.splitlines()
    widths, _, _ = fields_of(lines)
    if sum(widths.values()) > METADATA_BYTES * 8:
        text = folded(text)
        widths, _, _ = fields_of(text.splitlines())
    check(widths, text)
    return text


def folded(text: str) -> str:
    lines = text.splitlines()
    begin, end = split(lines)
    widths, start, stop = fields_of(lines)
    body = instructions(lines[begin:end])
    find_live(body)
    colors = color(body, widths)
    before = lines[:start] + lines[stop:begin]
    elsewhere = {name for name in colors if any(re.search(re.escape(name) + r"\b", line) for line in before)}
    if elsewhere:
        raise UnsupportedSpecError(f"{sorted(elsewhere)}: used in an action")
    for one in body:
        one.words = [colors.get(word, word) for word in one.words]
    kept = {
        name: bits
        for name, bits in widths.items()
        if name not in colors and not (_TEMPORARY.fullmatch(name) and unused(name, body, before))
    }
    for name in sorted({(-widths[old], new) for old, new in colors.items()}):
        kept[name[1]] = -name[0]
    struct = [f"\tbit<{bits}> {name[2:]}" for name, bits in kept.items()]
    new = simplified(body, kept)
    return "\n".join(lines[:start] + struct + lines[stop:begin] + [one.text() for one in new] + lines[end:]) + "\n"


def unused(name: str, body: list[Instruction], before: list[str]) -> bool:
    pattern = re.compile(re.escape(name) + r"\b")
    return not any(name in one.words for one in body) and not any(pattern.search(line) for line in before)


def check(widths: dict[str, int], text: str) -> None:
    """Check the two limits that DPDK does not check."""
    offsets, offset = {}, 0
    for name, bits in widths.items():
        offsets[name] = offset
        offset += bits
    if offset > METADATA_BYTES * 8:
        raise UnsupportedSpecError(f"{offset // 8} bytes of metadata, but only {METADATA_BYTES} are addressable")
    for name in re.findall(r"\bhash \w+ (m\.\S+)", text):
        if offsets[name] >= HASH_DESTINATION_BITS:
            raise UnsupportedSpecError(f"{name}: the result of a hash is not in the first 32 bytes of metadata")
