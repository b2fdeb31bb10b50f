"""Fixtures of the tests of acapella monitor."""

import os
from pathlib import Path

import pytest
from acapella_testing import c_programs


@pytest.fixture(scope="session")
def monitor_program() -> Path:
    """Build acapella-monitor with ASan and UBSan; skip the test if its libraries are not installed."""
    return c_programs.built_or_skip("acapella-monitor")


@pytest.fixture
def monitor_on_path(monitor_program, monkeypatch) -> None:
    """Let `acapella monitor` find that program first."""
    monkeypatch.setenv("PATH", f"{monitor_program.parent}{os.pathsep}{os.environ['PATH']}")
