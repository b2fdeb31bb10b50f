"""Fixtures of the tests of `acapella generate`: the program, built with ASan and UBSan, and captures that it wrote."""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acapella_testing import c_programs

from acapella_capture.generate import command, model, program
from acapella_capture.generate.compiled import Compiled


@dataclass(frozen=True)
class Generated:
    """A capture, its list of flows, and the model."""

    path: Path
    document: dict[str, Any]
    model: Compiled
    table: Path


@pytest.fixture
def generator(monkeypatch) -> None:
    """Let the command run the program with the sanitizers; skip the test if it cannot be built."""
    built = str(c_programs.built_or_skip("acapella-dpdk-generate"))
    monkeypatch.setattr(program, "executable", lambda: built)


@pytest.fixture
def generate(generator, tmp_path) -> Callable[..., Generated]:
    """Return a function that runs the command with the text of a model."""

    def run(text: str, name: str = "out", *options: str) -> Generated:
        path = tmp_path / "model.yaml"
        path.write_text(text)
        target, table = tmp_path / f"{name}.pcap", tmp_path / f"{name}.flows.parquet"
        parser = command.register_parser(argparse.ArgumentParser().add_subparsers())
        args = parser.parse_args([str(path), "-o", str(target), "--flow-table", str(table), *options])
        assert command.run(args) == 0
        document = json.loads((tmp_path / f"{name}.pcap.generated.json").read_text())
        return Generated(target, document, model.read(path, program.read_trace), table)

    return run
