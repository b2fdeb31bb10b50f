"""Imports among the packages of Acapella: a package imports only packages below it."""

import ast
from functools import cache
from pathlib import Path

import pytest

import acapella
import acapella_capture
import acapella_core

SOURCES = {package.__name__: Path(package.__file__).parent for package in (acapella_core, acapella, acapella_capture)}
PERMITTED = {"acapella_core": set(), "acapella": {"acapella_core"}, "acapella_capture": {"acapella_core"}}
# From below. Packages of one layer do not import each other. A module belongs to the longest name that contains it.
LAYERS = {
    "acapella_core": ({""},),
    "acapella": (
        {"common"},
        {"digest"},
        {"kappa", "verify"},
        {"campaign"},
        {"collector", "flowreports", "infrastructure", "papers", "release", "transfer"},
        {"p4", "figures"},
        {"report"},
        {"dashboard"},
        {"snakefile", "cli"},
    ),
    "acapella_capture": (
        {"settings", "scan", "testbeds.file_names", "testbeds.nic_settings", "testbeds.stored_captures"},
        {"testbeds.base"},
        {"manifest", "programs", "plan", "control.gather", "control.watchdog"},
        {"replay", "storage"},
        {"generate"},
        {"monitor"},
        {"testbeds.files", "testbeds.sent_trials", "testbeds.telemetry", "testbeds.uploads"},
        {"control", "testbeds.local.replay_capture", "testbeds.local.sandbox"},
        {"testbeds.fabric", "testbeds.local.processes"},
        {"transfer.link_process"},
        {"testbeds.local"},
        {"testbeds"},
        {"monitor.finished", "monitor.virtual", "plan.dry_run", "precheck", "response", "transfer"},
        {"collect", "monitor.command"},
    ),
}


def unit_of(package: str, name: str) -> str | None:
    """Return the longest name in the table of layers that is a module or contains it, or None."""
    units = set().union(*LAYERS[package])
    return max((unit for unit in units if f"{name}.".startswith(f"{unit}." if unit else "")), key=len, default=None)


@cache
def modules(package: str) -> dict[str, Path]:
    """Return the modules of a package: dotted name below the package, path."""
    found = {path: path.relative_to(SOURCES[package]).with_suffix("") for path in SOURCES[package].rglob("*.py")}
    return {".".join(name.parts).removesuffix("__init__").rstrip("."): path for path, name in found.items()}


@cache
def imported(package: str, path: Path) -> set[tuple[str, str]]:
    """Return (package, dotted name below it) of what a module imports from the packages of Acapella."""
    inside, names = [package, *path.relative_to(SOURCES[package]).parts[:-1]], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else []
            base = [*above, *(node.module.split(".") if node.module else [])]
            names += [[*base, alias.name] for alias in node.names]
    return {(name[0], ".".join(name[1:])) for name in names if name[0] in SOURCES}


@pytest.mark.parametrize("package", SOURCES)
def test_distributions_import_only_the_core(package):
    others = {path: {other for other, _ in imported(package, path)} - {package} for path in modules(package).values()}
    assert {path: names for path, names in others.items() if names - PERMITTED[package]} == {}


@pytest.mark.parametrize("package", SOURCES)
def test_modules_are_in_a_layer(package):
    assert {unit_of(package, name) for name in modules(package) if name or "" in LAYERS[package][0]} == set().union(
        *LAYERS[package]
    )


@pytest.mark.parametrize(
    ("package", "unit"),
    [(package, unit) for package, layers in LAYERS.items() for unit in sorted(set().union(*layers))],
)
def test_package_imports_only_packages_below(package, unit):
    place = next(place for place, layer in enumerate(LAYERS[package]) if unit in layer)
    permitted = {unit, None}.union(*LAYERS[package][:place])
    paths = [path for name, path in modules(package).items() if unit_of(package, name) == unit]
    own = [(path, name) for path in paths for other, name in imported(package, path) if other == package]
    assert [(path, name) for path, name in own if unit_of(package, name) not in permitted] == []
