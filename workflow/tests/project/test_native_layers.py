"""The layers of the C++ core, listed in its CMakeLists.txt."""

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
SOURCE = NATIVE / "src"
LAYERS = [*map(str.split, re.findall(r"^#   layer: (.+)$", (NATIVE / "CMakeLists.txt").read_text(), re.MULTILINE))]
LOWER = {name: set().union(*LAYERS[:place]) for place, layer in enumerate(LAYERS) for name in layer}


def test_sources_are_in_a_layer():
    assert {path.name for path in SOURCE.iterdir()} == LOWER.keys()


@pytest.mark.parametrize("name", sorted(LOWER))
def test_directory_includes_only_lower_layers(name):
    text = "".join(path.read_text() for path in (SOURCE / name).rglob("*.[ch]pp"))
    assert set(re.findall(r'^#include "(\w+)/', text, re.MULTILINE)) - {name} <= LOWER[name]


def test_includes_name_their_directory():
    assert not {
        f"{path.relative_to(SOURCE)}: {header}"
        for path in SOURCE.rglob("*.[ch]pp")
        for header in re.findall(r'^#include "([^/"]+)"', path.read_text(), re.MULTILINE)
        if not header.endswith(".inc")  # generated
    }
