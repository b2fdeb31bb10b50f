"""Lets the temporaries of a .spec share fields of the metadata.

p4c-dpdk gives each temporary a field of its own, and DPDK's pipeline reaches 256 octets of metadata (its operands have
an offset of 8 bits, which wraps without a word). Temporaries that never hold a value at the same time take the same
field here, as a compiler's registers do (liveness over the graph of jumps, then coloring in order of appearance).
Moves from a field to itself and masks that keep all bits go.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

REACHED_OCTETS = 256
HASH_REACHED_BITS = 256  # DPDK casts the offset in bits of a hash's destination to 8 bits
_TEMPORARY = re.compile(r"m\.\S*tmp\S*")
_FIELD = re.compile(r"^\s*bit<(\d+)> (\S+)$")
_LABEL = re.compile(r"^\s*(\w+) :\s*(.*)$")
_JUMPS = ("jmp", "jmpeq", "jmpneq", "jmplt", "jmpgt", "jmpv", "jmpnv", "jmph", "jmpnh", "jmpa", "jmpna")
_UPDATES = ("add", "sub", "and", "or", "xor", "shl", "shr", "ckadd", "cksub")
_DEFINES = ("mov", "regrd")  # the first operand, and nothing but it


class Unfit(Exception):
    """What of the .spec the pipeline would run wrongly, or this module does not understand."""


@dataclass
class Instruction:
    """A line of the apply block: its words, what it reads and writes, where it goes on."""

    words: list[str]
    label: str | None
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    following: list[int] = field(default_factory=list)
    live: set[str] = field(default_factory=set)  # behind it

    def text(self) -> str:
        words = " ".join(self.words)
        return f"\t{self.label} :\t{words}" if self.label else f"\t{words}"


def split(lines: list[str]) -> tuple[int, int]:
    """First line of the apply block's body, and the line that closes it."""
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
            one.following.append(at + 1)
        if jumps:
            one.following.append(places[one.words[1]])
    return found


def effects(one: Instruction) -> None:
    """What it reads and writes of the temporaries; of unknown instructions both, so that they stay alone."""
    if not one.words:
        return
    operation, operands = one.words[0], [word for word in one.words[1:] if _TEMPORARY.fullmatch(word)]
    first = one.words[1] if len(one.words) > 1 else ""
    if operation == "hash":
        one.writes = {one.words[2]} & set(operands)
        if set(operands) - one.writes:
            raise Unfit(f"{' '.join(one.words)}: hash a header, whose fields stay in their order")
    elif operation in _DEFINES:
        one.writes = {first} & set(operands)
        one.reads = {word for word in one.words[2:] if _TEMPORARY.fullmatch(word)}
    elif operation in _UPDATES:
        one.writes = {first} & set(operands)
        one.reads = set(operands)
    elif operation in (*_JUMPS, "regwr", "regadd", "extract", "tx"):
        one.reads = set(operands)
    elif operands:
        raise Unfit(f"{' '.join(one.words)}: not known here")


def find_live(body: list[Instruction]) -> None:
    changed = True
    while changed:
        changed = False
        for one in reversed(body):
            live: set[str] = set()
            for at in one.following:
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
    """A shared field for each temporary, those joined by a move in the same one where that can be."""
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
        taken = {colors[other] for other in found[name] if other in colors}
        wanted = [colors[one] for one in friends[name] if one in colors and widths[one] == width]
        wanted += [f"m.shared_{width}_{number}" for number in range(len(order))]
        colors[name] = next(one for one in wanted if one not in taken)
    return colors


def simplified(body: list[Instruction], widths: dict[str, int]) -> list[Instruction]:
    """Without what does nothing; its label goes to the instruction behind it."""
    kept: list[Instruction] = []
    renamed: dict[str, str] = {}
    waiting: list[str] = []
    for one in body:
        if one.label:
            waiting.append(one.label)
        words = one.words
        idle = not words or (words[0] == "mov" and words[1] == words[2])
        if words and words[0] == "and" and words[1] in widths and re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", words[2]):
            idle = idle or int(words[2], 0) == (1 << widths[words[1]]) - 1
        if idle:
            continue
        for label in waiting[1:]:
            renamed[label] = waiting[0]
        one.label = waiting[0] if waiting else None
        waiting = []
        kept.append(one)
    for one in kept:
        if one.words[0] in _JUMPS:
            one.words[1] = renamed.get(one.words[1], one.words[1])
    return kept


def fields_of(lines: list[str]) -> tuple[dict[str, int], int, int]:
    """Name and width of the metadata's fields, and the lines that they are on."""
    struct = next(line.split()[-1] for line in lines if line.startswith("metadata instanceof "))
    start = lines.index(f"struct {struct} {{") + 1
    stop = lines.index("}", start)
    fields = [_FIELD.match(line) for line in lines[start:stop]]
    widths = {f"m.{one[2]}": int(one[1]) for one in fields if one}
    if len(widths) != stop - start:
        raise Unfit("a field of the metadata is not known here")
    return widths, start, stop


def fitted(text: str) -> str:
    """The .spec, folded where its metadata are more than the pipeline reaches; Unfit where that is not enough."""
    lines = text.splitlines()
    widths, _, _ = fields_of(lines)
    if sum(widths.values()) > REACHED_OCTETS * 8:
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
        raise Unfit(f"{sorted(elsewhere)}: in an action, too")
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
    """The two limits that DPDK does not check."""
    offsets, offset = {}, 0
    for name, bits in widths.items():
        offsets[name] = offset
        offset += bits
    if offset > REACHED_OCTETS * 8:
        raise Unfit(f"{offset // 8} octets of metadata, of which {REACHED_OCTETS} are reached")
    for name in re.findall(r"\bhash \w+ (m\.\S+)", text):
        if offsets[name] >= HASH_REACHED_BITS:
            raise Unfit(f"{name}: the result of a hash is not in the first 32 octets of metadata")
