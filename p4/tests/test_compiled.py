"""Compiled and interpreted pipelines write the same bytes. Other tests of this directory compare both, too."""

import random
import re
from pathlib import Path

import pytest
from acapella_p4_model import running
from acapella_p4_model.running import Frame, compiled_pipeline
from acapella_testing.requirements import require, require_built

from acapella.p4 import compiled


@pytest.fixture(autouse=True)
def specs(p4_directory, small_spec) -> dict[str, Path]:
    """Return the programs, which can be compiled; flowstats with small register arrays, which are quickly compared."""
    require_built(running.LOADER.name)
    require(compiled.find_source(None), f"other tests ran interpreted only: no DPDK source; {compiled.GET_SOURCE}")
    found = {"preprocess": p4_directory / "spec" / "preprocess.spec", "flowstats": small_spec}
    assert [compiled_pipeline(spec).reason for spec in found.values()] == ["", ""]
    return found


def random_frames(count: int, ports: int, seed: int) -> list[Frame]:
    """Return frames that begin like Ethernet, IPv4 and TCP, with random bytes changed and random lengths."""
    rnd, frames = random.Random(seed), []
    start = bytes.fromhex("020000000001020000000002 0800 4500 0400 0001 0000 40 06 0000 0a000001 0a000002 1234 0050")
    for _ in range(count):
        raw = bytearray(start + rnd.randbytes(rnd.choice([20, 200, 1400, 8900])))
        for _ in range(rnd.randrange(4)):
            raw[rnd.randrange(len(start))] = rnd.randrange(256)
        frames.append(Frame(bytes(raw[: rnd.randrange(len(raw) + 1)]), rnd.randrange(ports), len(raw)))
    return frames


@pytest.mark.parametrize("program", ["preprocess", "flowstats"])
@pytest.mark.parametrize("ports", [1, 3])
def test_compiled_program_gives_the_same_bytes_for_random_frames(specs, program, ports, tmp_path):
    frames = random_frames(3000, ports, ports)
    # runs both and compares
    assert running.run(program, frames, "", tmp_path, specs[program]).statistics["in"] == 3000


def test_largest_frame_passes_the_compiled_pipeline(tmp_path):
    frame = random.Random(1).randbytes(262144)
    assert [outcome.raw for outcome in running.run("preprocess", [Frame(frame)], "", tmp_path).outcomes] == [frame]


def test_frames_of_several_ports_keep_their_order_without_tables(p4_directory, tmp_path):
    spec, frames = p4_directory / "loader" / "tests" / "reports.spec", random_frames(500, 5, 7)
    assert not re.search(r"^\s*table ", spec.read_text(), re.MULTILINE), "choose a program without a table"
    assert [outcome.port for outcome in running.run("preprocess", frames, "", tmp_path, spec).outcomes] == [
        frame.port for frame in frames
    ]
