"""Limits of a digest on its node, which are lower on nodes that the user needs for other work."""

import subprocess
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from acapella_capture.control import node_digest
from acapella_capture.control.node_digest import MEMORY_BYTES, CannotDigest, digest, memory_limit
from acapella_capture.testbeds.base import CompletedProgram

SETTINGS = SimpleNamespace(ram_gb=1)
PLANNED = SimpleNamespace(file="a.pcap", site=SimpleNamespace(name="STAR"), port=SimpleNamespace(name="p"))


def node_with(meminfo: str, *, allocates: bool = False) -> SimpleNamespace:
    """Return a testbed whose nodes print this as /proc/meminfo."""
    return SimpleNamespace(
        allocates=allocates, path_on_node=lambda _, file: file, run=lambda *_, **__: CompletedProgram(0, meminfo, "")
    )


def test_digest_may_use_half_of_the_memory_of_a_listening_node():
    assert memory_limit(node_with("", allocates=True), "n1", SETTINGS) == 500_000_000


@pytest.mark.parametrize(("available_kib", "expected"), [(400_000, 102_400_000), (1 << 30, MEMORY_BYTES)])
def test_digest_may_use_a_share_of_the_available_memory_of_an_own_node(available_kib, expected):
    printed = f"MemTotal:       99999999 kB\nMemAvailable:   {available_kib} kB\n"
    assert memory_limit(node_with(printed), "n1", SETTINGS) == expected


def test_own_node_whose_memory_is_unknown_does_not_digest():
    with pytest.raises(CannotDigest, match="no MemAvailable"):
        memory_limit(node_with("MemTotal: 3 kB\n"), "n1", SETTINGS)


def test_digest_on_an_own_node_has_low_priority(monkeypatch):
    started: list[Sequence[str]] = []

    def run(_, argv: Sequence[str], **__: object) -> CompletedProgram:
        started.append(argv)
        return CompletedProgram(0, "MemAvailable: 1000000 kB\n", "")

    own = node_with("")
    own.run = run
    monkeypatch.setattr(node_digest, "preparation", lambda: ({}, {}))
    print_limits = ["sh", "-c", "cat /proc/self/oom_score_adj; nice; echo $4"]
    monkeypatch.setattr(node_digest, "programs_on_node", lambda *_: ("the-program", []))
    with pytest.raises(CannotDigest, match="printed no facts"):
        digest(own, "n1", PLANNED, "a.columns", SETTINGS)
    argv = [*started[-1]]
    at = argv.index("the-program")
    argv[at : at + 1] = print_limits
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["1000", "19", "256000000"]
