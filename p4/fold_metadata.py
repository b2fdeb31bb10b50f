"""Lets the temporaries of a .spec share fields of the metadata: `fold_metadata.py IN.spec OUT.spec`.

p4c-dpdk gives each temporary a field of its own, and DPDK's pipeline reaches 256 octets of metadata (its operands have
an offset of 8 bits, which wraps without a word). Temporaries that never hold a value at the same time take the same
field here, as a compiler's registers do (liveness over the graph of jumps, then colouring in order of appearance).
Moves from a field to itself and masks that keep all bits go. Exit 2 where what is left does not fit.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

REACHED_OCTETS = 256
HASH_REACHED_BITS = 256  # DPDK casts the offset in bits of a hash's destination to 8 bits
_TEMPORARY = re.compile(r"m\.\S*tmp\S*")
_FIELD = re.compile(r"^\s*bit<(\d+)> (\S+)$")
_LABEL = re.compile(r"^\s*(\w+) :\s*(.*)$")
_JUMPS = ("jmp", "jmpeq", "jmpneq", "jmplt", "jmpgt", "jmpv", "jmpnv", "jmph", "jmpnh", "jmpa", "jmpna")
_UPDATES = ("add", "sub", "and", "or", "xor", "shl", "shr", "ckadd", "cksub")
_DEFINES = ("mov", "regrd")  # the first operand, and nothing but it


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


def fail(what: str) -> None:
    print(f"fold_metadata.py: {what}", file=sys.stderr)
    raise SystemExit(2)


def split(lines: list[str]) -> tuple[int, int]:
    """First line of the apply block's body, and the line that closes it."""
    begin = lines.index("apply {") + 1
    return begin, next(at for at in range(begin, len(lines)) if lines[at] == "}")


def instructions(body: list[str]) -> list[Instruction]:
    found = []
    for line in body:
        labelled = _LABEL.match(line)
        words = (labelled[2] if labelled else line).split()
        if words or labelled:
            found.append(Instruction(words, labelled[1] if labelled else None))
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
            fail(f"{' '.join(one.words)}: hash a header, whose fields stay in their order")
    elif operation in _DEFINES:
        one.writes = {first} & set(operands)
        one.reads = {word for word in one.words[2:] if _TEMPORARY.fullmatch(word)}
    elif operation in _UPDATES:
        one.writes = {first} & set(operands)
        one.reads = set(operands)
    elif operation in (*_JUMPS, "regwr", "regadd", "extract", "tx"):
        one.reads = set(operands)
    elif operands:
        fail(f"{' '.join(one.words)}: not known here")


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


def colour(body: list[Instruction], widths: dict[str, int]) -> dict[str, str]:
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
    colours: dict[str, str] = {}
    for name in order:
        width = widths[name]
        taken = {colours[other] for other in found[name] if other in colours}
        wanted = [colours[one] for one in friends[name] if one in colours and widths[one] == width]
        wanted += [f"m.shared_{width}_{number}" for number in range(len(order))]
        colours[name] = next(one for one in wanted if one not in taken)
    return colours


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


def folded(text: str) -> str:
    lines = text.splitlines()
    begin, end = split(lines)
    start = lines.index("struct metadata_t {") + 1
    stop = lines.index("}", start)
    fields = [_FIELD.match(line) for line in lines[start:stop]]
    widths = {f"m.{one[2]}": int(one[1]) for one in fields if one}
    if len(widths) != stop - start:
        fail("a field of the metadata is not known here")
    body = instructions(lines[begin:end])
    find_live(body)
    colours = colour(body, widths)
    elsewhere = set(_TEMPORARY.findall("\n".join(lines[:begin])))
    if elsewhere & set(colours):
        fail(f"{sorted(elsewhere & set(colours))}: in an action, too")
    for one in body:
        one.words = [colours.get(word, word) for word in one.words]
    shared = sorted({(widths[name], colours[name]) for name in colours}, reverse=True)
    kept = [
        (bits, name) for name, bits in widths.items() if name not in colours and not dropped(name, body, lines, begin)
    ]
    kept += shared
    check(kept, body)
    struct = [f"\tbit<{bits}> {name[2:]}" for bits, name in kept]
    new = simplified(body, {name: bits for bits, name in kept})
    out = lines[:start] + struct + lines[stop:begin] + [one.text() for one in new] + lines[end:]
    return "\n".join(out) + "\n"


def dropped(name: str, body: list[Instruction], lines: list[str], begin: int) -> bool:
    """Declared for nobody: a temporary that only p4c knew of."""
    if not _TEMPORARY.fullmatch(name):
        return False
    pattern = re.compile(re.escape(name) + r"\b")
    return not any(name in one.words for one in body) and not any(pattern.search(line) for line in lines[:begin])


def check(fields: list[tuple[int, str]], body: list[Instruction]) -> None:
    offsets, offset = {}, 0
    for bits, name in fields:
        offsets[name] = offset
        offset += bits
    if offset > REACHED_OCTETS * 8:
        fail(f"{offset // 8} octets of metadata, of which {REACHED_OCTETS} are reached")
    for one in body:
        if one.words and one.words[0] == "hash" and offsets.get(one.words[2], 0) >= HASH_REACHED_BITS:
            fail(f"{one.words[2]}: the result of a hash is not in the first 32 octets of metadata")


def main() -> None:
    if len(sys.argv) != 3:
        fail("usage: fold_metadata.py IN.spec OUT.spec")
    Path(sys.argv[2]).write_text(folded(Path(sys.argv[1]).read_text()))


if __name__ == "__main__":
    main()
