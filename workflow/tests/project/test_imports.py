"""Imports among the packages of acapella: a package imports only packages below it."""

import ast
from pathlib import Path

import pytest

import acapella

SOURCE = Path(acapella.__file__).parent
LAYERS = (  # from below; packages of one layer do not import each other
    {"common"},
    {"digest"},
    {"kappa", "verify"},
    {"campaign"},
    {"collector", "flowreports", "infrastructure", "papers", "release", "transfer"},
    {"p4", "figures"},
    {"report"},
    {"dashboard"},
    {"snakefile", "cli"},
)
BELOW = {name: set().union(*LAYERS[:place]) for place, layer in enumerate(LAYERS) for name in layer}


def packages_imported(path: Path) -> set[str]:
    """Return the packages of acapella that a module imports, including relative imports from other packages."""
    package, names = ["acapella", *path.relative_to(SOURCE).parts[:-1]], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = [*above, *(node.module.split(".") if node.module else [])]
            names += [[*base, alias.name] for alias in node.names]
    return {name[1] for name in names if name[0] == "acapella" and len(name) > 1} & BELOW.keys()


def test_packages_are_in_a_layer():
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} == BELOW.keys()


@pytest.mark.parametrize("package", sorted(BELOW))
def test_package_imports_only_packages_below(package):
    imported = {path: packages_imported(path) for path in (SOURCE / package).rglob("*.py")}
    assert {path: names for path, names in imported.items() if names - BELOW[package] - {package}} == {}
