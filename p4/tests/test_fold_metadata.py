"""Folding changes the fields of temporaries, but not the behavior of a program."""

from __future__ import annotations

import random

import fold_metadata
import pytest
from acapella_p4_model.running import P4

TEMPORARIES = [f"m.MainControlT_tmp_{number}" for number in range(12)]
KEPT = [f"m.local_metadata_{letter}" for letter in "abcd"]
MASK = 0xFFFFFFFF
OPERATIONS = {
    "mov": lambda _, value: value,
    "add": lambda old, value: old + value & MASK,
    "sub": lambda old, value: old - value & MASK,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
}
JUMPS = {"jmpeq": int.__eq__, "jmpneq": int.__ne__, "jmplt": int.__lt__}


def made_spec(seed: int) -> str:
    """Return a program with forward jumps whose temporaries are written before they are read."""
    rnd = random.Random(seed)
    lines, known = [f"mov {name} {rnd.randrange(99):#x}" for name in KEPT], [*KEPT]
    targets: dict[int, list[str]] = {}
    for at in range(len(lines), 60):
        lines += [f"{label} :\tmov {rnd.choice(KEPT)} {rnd.choice(known)}" for label in targets.pop(at, [])]
        if rnd.random() < 0.25:
            name, goal = f"LABEL_{at}", rnd.randrange(at + 1, 61)
            targets.setdefault(goal, []).append(name)
            lines.append(f"{rnd.choice(list(JUMPS))} {name} {rnd.choice(known)} {rnd.choice(known)}")
            known = [*KEPT, *[name for name in known if name in TEMPORARIES]]
        elif rnd.random() < 0.5 and not targets:
            name = rnd.choice(TEMPORARIES)
            lines.append(f"mov {name} {rnd.choice(known)}")
            known.append(name)
        else:
            operands = [rnd.choice(known), rnd.choice([*known, "0xFFFFFFFF", "0x7"])]
            lines.append(f"{rnd.choice(list(OPERATIONS))} {' '.join(operands)}")
    lines += [f"{label} :\tmov {KEPT[0]} {KEPT[1]}" for labels in targets.values() for label in labels]
    return spec_of([f"bit<32> {name[2:]}" for name in [*KEPT, *TEMPORARIES]], [*lines, f"tx {KEPT[0]}"])


def spec_of(fields: list[str], lines: list[str]) -> str:
    """Return a program with these fields of the metadata and these instructions."""
    struct, body = ("".join(f"\t{line}\n" for line in part) for part in (fields, lines))
    return f"struct metadata_t {{\n{struct}}}\nmetadata instanceof metadata_t\n\napply {{\n{body}}}\n"


def executed(spec: str) -> list[int]:
    """Return the final values of the fields that are not temporaries."""
    lines = spec.splitlines()
    body = fold_metadata.instructions(lines[slice(*fold_metadata.find_apply_body(lines))])
    indices = {instruction.label: index for index, instruction in enumerate(body) if instruction.label}
    values, at = {}, 0
    while body[at].words[0] != "tx":
        operation, target, *operands = body[at].words
        at += 1
        read = [values[word] if word.startswith("m.") else int(word, 0) for word in operands]
        if operation not in JUMPS:
            values[target] = OPERATIONS[operation](values.get(target, 0), *read)
        elif JUMPS[operation](*read):
            at = indices[target]
    return [values[name] for name in KEPT]


@pytest.mark.parametrize("seed", range(60))
def test_folded_program_is_equivalent(seed):
    folded = fold_metadata.folded(made_spec(seed))
    assert executed(folded) == executed(made_spec(seed))
    assert not any(name in folded for name in TEMPORARIES)


def test_committed_programs_fit_into_the_pipelines_metadata():
    for path in sorted((P4 / "spec").glob("*.spec")):
        text = path.read_text()
        assert fold_metadata.fitted(text) == text


def test_hash_result_beyond_32_bytes_is_an_error():
    fields = [f"bit<32> local_metadata_{at}" for at in range(9)]
    spec = spec_of(fields, ["hash jhash m.local_metadata_8  h.key.a h.key.b", "tx m.local_metadata_0"])
    with pytest.raises(fold_metadata.UnsupportedSpecError, match="first 32 bytes"):
        fold_metadata.fitted(spec)
    assert fold_metadata.fitted(spec.replace("m.local_metadata_8 ", "m.local_metadata_7 "))


def test_too_much_metadata_is_an_error():
    with pytest.raises(fold_metadata.UnsupportedSpecError, match="264 bytes"):
        fold_metadata.fitted(spec_of([f"bit<64> local_metadata_{at}" for at in range(33)], ["tx m.local_metadata_0"]))
