"""Limits of a digest on its node, which are lower on nodes that the user needs for other work."""

from types import SimpleNamespace

import pytest
from acapella_testing.processes import run

from acapella_capture.control import node_digest
from acapella_capture.control.node_digest import MEMORY_BYTES, CannotDigest, digest, memory_limit
from acapella_capture.testbeds.base import CompletedProgram

SETTINGS = SimpleNamespace(ram_gb=1)
PLANNED = SimpleNamespace(file="a.pcap", site=SimpleNamespace(name="STAR"), port=SimpleNamespace(name="p"))


def node_with(meminfo: str, *, allocates: bool = False) -> SimpleNamespace:
    """Return a testbed whose nodes print this as /proc/meminfo."""
    reply = CompletedProgram(0, meminfo, "")
    return SimpleNamespace(allocates=allocates, path_on_node=lambda _, file: file, run=lambda *_, **__: reply)


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
    started: list[list[str]] = []
    own = node_with("MemAvailable: 1000000 kB\n")
    reply = own.run()
    own.run = lambda _, argv, **__: started.append([*argv]) or reply
    monkeypatch.setattr(node_digest, "preparation", lambda: ({}, {}))
    monkeypatch.setattr(node_digest, "programs_on_node", lambda *_: ("the-program", []))
    with pytest.raises(CannotDigest, match="printed no facts"):
        digest(own, "n1", PLANNED, "a.columns", SETTINGS)
    at = started[-1].index("the-program")
    started[-1][at : at + 1] = ["sh", "-c", "cat /proc/self/oom_score_adj; nice; echo $4"]
    assert run(*started[-1], check=True).stdout.split() == ["1000", "19", "256000000"]
