"""Limits the memory of a digest to 512 MiB for up to a million flows, without the memory of tshark.

test_flow_memory.cpp limits the memory of the flows (310 MiB, 355 MiB with engine hybrid). These tests limit the rest,
and the total of engine native, extrapolated from the cost per flow.
"""

import json
import os
import subprocess
import sys

import pytest
from acapella_testing.native_programs import ROOT, native_program
from acapella_testing.processes import run
from acapella_testing.requirements import required

from acapella.common import tshark

GOAL_MIB = 512
FLOWS_MIB = {"native": 310, "hybrid": 355}


def peak_mib(directory, engine: str, flows: int, *options: str) -> float:
    """Return the peak memory of `acapella digest` itself, reading one frame per flow from standard input."""
    generator = [native_program("acapella-generate"), "--profile", "single", "--frames", flows, "--flows", flows]
    words = ["digest", "-", "-o", directory / "a", "--flows", directory / "f", "--engine", engine, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "bench")}
    with subprocess.Popen([str(word) for word in generator], stdout=subprocess.PIPE) as frames:
        measure = (sys.executable, "-m", "acapella_bench.peak")
        output = run(*measure, *words, stdin=frames.stdout, env=environment, check=True).stdout
    return json.loads(output.splitlines()[-1])["own_kib"] / 1024


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["native", "hybrid"])
def test_fixed_memory_leaves_room_for_a_million_flows(tmp_path, engine):
    if engine == "hybrid":
        required(tshark.find)
    few = peak_mib(tmp_path, engine, 20_000, "--threads", "2")  # one thread needs less
    assert few > 30, "less than Python alone: the measurement is broken"
    assert few + FLOWS_MIB[engine] < GOAL_MIB


@pytest.mark.soak
def test_memory_per_flow_allows_a_million_flows(tmp_path):
    few, many = peak_mib(tmp_path, "native", 50_000), peak_mib(tmp_path, "native", 200_000)
    assert many > few
    assert many + (1_000_000 - 200_000) * (many - few) / 150_000 < GOAL_MIB
