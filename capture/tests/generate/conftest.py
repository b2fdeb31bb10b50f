"""Fixtures of the tests of `acapella generate`: the program, built with ASan and UBSan, and captures that it wrote."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acapella_testing.capture.commands import run_command
from acapella_testing.new_files import write_file

from acapella_capture.generate import command, model, program
from acapella_capture.generate.compiled import CompiledModel


@dataclass(frozen=True)
class Generated:
    """A capture, its list of flows, the model, and the expected flow table."""

    path: Path
    document: dict[str, Any]
    model: CompiledModel
    table: Path


@pytest.fixture
def generate(generator, tmp_path) -> Callable[..., Generated]:
    """Return a function that runs the command with the text of a model."""

    def run(text: str, name: str = "out", *options: str) -> Generated:
        path = write_file(tmp_path / "model.yaml", text)
        target, table = tmp_path / f"{name}.pcap", tmp_path / f"{name}.flows.parquet"
        assert run_command(command, path, "-o", target, "--flow-table", table, *options) == 0
        document = json.loads((tmp_path / f"{name}.pcap.generated.json").read_text())
        return Generated(target, document, model.read(path, program.read_trace), table)

    return run
