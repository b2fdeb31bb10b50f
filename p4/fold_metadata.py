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


def find_apply_body(lines: list[str]) -> tuple[int, int]:
    """Return the first line of the apply block's body, and the line that closes it."""
    begin = lines.index("apply {") + 1
    return begin, next(at for at in range(begin, len(lines)) if lines[at] == "}")


def instructions(body: list[str]) -> list[Instruction]:
    result = []
    for line in body:
        label = _LABEL.match(line)
        words = (label[2] if label else line).split()
        if words or label:
            result.append(Instruction(words, label[1] if label else None))
    for instruction in result:
        set_effects(instruction)
    index_of_label = {instruction.label: index for index, instruction in enumerate(result) if instruction.label}
    for index, instruction in enumerate(result):
        jumps = bool(instruction.words) and instruction.words[0] in _JUMPS
        if not (instruction.words and instruction.words[0] in ("jmp", "tx", "drop", "return")) and index + 1 < len(
            result
        ):
            instruction.successors.append(index + 1)
        if jumps:
            instruction.successors.append(index_of_label[instruction.words[1]])
    return result


def set_effects(instruction: Instruction) -> None:
    """Set the temporaries that an instruction reads and writes. Raises UnsupportedSpecError if it is unknown."""
    if not instruction.words:
        return
    operation, operands = instruction.words[0], [word for word in instruction.words[1:] if _TEMPORARY.fullmatch(word)]
    first = instruction.words[1] if len(instruction.words) > 1 else ""
    if operation == "hash":
        instruction.writes = {instruction.words[2]} & set(operands)
        if set(operands) - instruction.writes:
            raise UnsupportedSpecError(
                f"{' '.join(instruction.words)}: hashes must read a header, whose fields keep their order"
            )
    elif operation in _DEFINES:
        instruction.writes = {first} & set(operands)
        instruction.reads = {word for word in instruction.words[2:] if _TEMPORARY.fullmatch(word)}
    elif operation in _UPDATES:
        instruction.writes = {first} & set(operands)
        instruction.reads = set(operands)
    elif operation in (*_JUMPS, "regwr", "regadd", "extract", "tx"):
        instruction.reads = set(operands)
    elif operands:
        raise UnsupportedSpecError(f"{' '.join(instruction.words)}: unsupported instruction")


def find_live(body: list[Instruction]) -> None:
    changed = True
    while changed:
        changed = False
        for instruction in reversed(body):
            live: set[str] = set()
            for successor in instruction.successors:
                live |= body[successor].live - body[successor].writes | body[successor].reads
            if live != instruction.live:
                instruction.live, changed = live, True


def interferences(body: list[Instruction]) -> dict[str, set[str]]:
    neighbors: dict[str, set[str]] = defaultdict(set)
    for instruction in body:
        for name in instruction.writes | instruction.reads:
            neighbors.setdefault(name, set())
        source = {instruction.words[2]} if instruction.words and instruction.words[0] == "mov" else set()
        for name in instruction.writes:
            for other in instruction.live - {name} - source:
                neighbors[name].add(other)
                neighbors[other].add(name)
    return neighbors


def color(body: list[Instruction], widths: dict[str, int]) -> dict[str, str]:
    """Return a shared field for each temporary; those joined by a move use the same field if possible."""
    neighbors = interferences(body)
    preferred: dict[str, list[str]] = defaultdict(list)
    order: dict[str, None] = {}
    for instruction in body:
        words = instruction.words
        for word in words:
            if word in neighbors:
                order.setdefault(word)
        if words and words[0] == "mov" and words[1] in neighbors and words[2] in neighbors:
            preferred[words[1]].append(words[2])
    colors: dict[str, str] = {}
    for name in order:
        width = widths[name]
        used = {colors[other] for other in neighbors[name] if other in colors}
        candidates = [colors[other] for other in preferred[name] if other in colors and widths[other] == width]
        candidates += [f"m.shared_{width}_{number}" for number in range(len(order))]
        colors[name] = next(candidate for candidate in candidates if candidate not in used)
    return colors


def simplified(body: list[Instruction], widths: dict[str, int]) -> list[Instruction]:
    """Remove instructions without effect; their labels move to the next instruction."""
    result: list[Instruction] = []
    renamed: dict[str, str] = {}
    pending: list[str] = []
    for instruction in body:
        if instruction.label:
            pending.append(instruction.label)
        words = instruction.words
        has_no_effect = not words or (words[0] == "mov" and words[1] == words[2])
        if words and words[0] == "and" and words[1] in widths and re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", words[2]):
            has_no_effect = has_no_effect or int(words[2], 0) == (1 << widths[words[1]]) - 1
        if has_no_effect:
            continue
        for label in pending[1:]:
            renamed[label] = pending[0]
        instruction.label = pending[0] if pending else None
        pending = []
        result.append(instruction)
    for instruction in result:
        if instruction.words[0] in _JUMPS:
            instruction.words[1] = renamed.get(instruction.words[1], instruction.words[1])
    return result


def fields_of(lines: list[str]) -> tuple[dict[str, int], int, int]:
    """Return name and width of the metadata's fields, and the lines that define them."""
    struct = next(line.split()[-1] for line in lines if line.startswith("metadata instanceof "))
    start = lines.index(f"struct {struct} {{") + 1
    stop = lines.index("}", start)
    fields = [_FIELD.match(line) for line in lines[start:stop]]
    widths = {f"m.{match[2]}": int(match[1]) for match in fields if match}
    if len(widths) != stop - start:
        raise UnsupportedSpecError("unsupported metadata field")
    return widths, start, stop


def fitted(text: str) -> str:
    """Fold a .spec whose metadata exceeds the pipeline's limit. Raises UnsupportedSpecError if that is not enough."""
    lines = text.splitlines()
    widths, _, _ = fields_of(lines)
    if sum(widths.values()) > METADATA_BYTES * 8:
        text = folded(text)
        widths, _, _ = fields_of(text.splitlines())
    check(widths, text)
    return text


def folded(text: str) -> str:
    lines = text.splitlines()
    begin, end = find_apply_body(lines)
    widths, start, stop = fields_of(lines)
    body = instructions(lines[begin:end])
    find_live(body)
    colors = color(body, widths)
    before = lines[:start] + lines[stop:begin]
    in_actions = {name for name in colors if any(re.search(re.escape(name) + r"\b", line) for line in before)}
    if in_actions:
        raise UnsupportedSpecError(f"{sorted(in_actions)}: used in an action")
    for instruction in body:
        instruction.words = [colors.get(word, word) for word in instruction.words]
    fields = {
        name: bits
        for name, bits in widths.items()
        if name not in colors and not (_TEMPORARY.fullmatch(name) and unused(name, body, before))
    }
    for name in sorted({(-widths[old], new) for old, new in colors.items()}):
        fields[name[1]] = -name[0]
    struct = [f"\tbit<{bits}> {name[2:]}" for name, bits in fields.items()]
    texts = [instruction.text() for instruction in simplified(body, fields)]
    return "\n".join(lines[:start] + struct + lines[stop:begin] + texts + lines[end:]) + "\n"


def unused(name: str, body: list[Instruction], before: list[str]) -> bool:
    pattern = re.compile(re.escape(name) + r"\b")
    in_body = any(name in instruction.words for instruction in body)
    return not in_body and not any(pattern.search(line) for line in before)


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
