"""The lines of `tc` that delay packets with netem, parsed by the installed `tc`; the kernel need not have netem.

tc parses a line before it asks the kernel. Without netem, the kernel's answer to a valid line is UNKNOWN; tc itself
rejects an invalid line with a different message.
"""

import json
import os
import re
import subprocess
from dataclasses import replace
from unittest.mock import Mock

import pytest
from acapella_testing.capture.callers import Caller, namespaces_or_skip
from acapella_testing.processes import run

from acapella_capture.testbeds.base import CompletedProgram
from acapella_capture.transfer.delay import Counts, NetemDelays, has_netem, netem
from acapella_capture.transfer.grid import Cell, plan
from acapella_capture.transfer.nodes import LocalNodes
from acapella_capture.transfer.settings import parse_transfer_settings
from acapella_capture.transfer.topology import read_topology
from acapella_core.errors import UserError
from acapella_core.topology import parse

UNKNOWN = "Error: Specified qdisc kind is unknown."
CELL = plan(parse_transfer_settings({"transfer": {"grid": {"delay_ms": [60], "buffer_bytes": [100_000]}}}))[0]


class LoopbackNodes(LocalNodes):
    """Nodes whose programs run in a new network namespace each; every interface is the loopback interface there.

    A line that only the kernel rejects, because it has no netem, counts as successful.
    """

    device = Mock(return_value="lo")

    def __init__(self) -> None:
        self.batches: list[tuple[str, str]] = []

    def run(self, node, argv, *, timeout_s=30, stdin=""):
        done = in_namespace(" ".join(argv), stdin, timeout_s)
        if "-batch" in argv:
            self.batches.append((node, stdin))
            if done.stderr.splitlines()[:1] == [UNKNOWN]:
                return CompletedProgram(0, "", "")
        return CompletedProgram(done.returncode, done.stdout, done.stderr)


@pytest.fixture(autouse=True)
def namespaces() -> None:
    """Skip the tests, with the reason, if there are no network namespaces or no tc."""
    namespaces_or_skip(Caller())


@pytest.fixture
def nodes() -> LoopbackNodes:
    return LoopbackNodes()


def in_namespace(script: str, stdin: str, timeout_s: float = 30) -> subprocess.CompletedProcess:
    environment = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "LC_ALL": "C"}
    argv = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script]
    return run(*argv, input=stdin, env=environment, timeout=timeout_s)


def answer(line: str) -> tuple[str, list[dict]]:
    """Return the first line that `tc` prints as an error, and the queueing disciplines that are then set."""
    done = in_namespace("tc -batch -; tc -j qdisc show dev lo", f"{line}\n")
    return (done.stderr.splitlines() or [""])[0], json.loads(done.stdout)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delay_ns": 0, "loss_percent": 0.5},
        {"delay_ns": 500, "reorder_percent": 2},
        {"delay_ns": 60 * 10**9},
        {"loss_percent": 0.0001, "reorder_percent": 99.5},
        {"loss_percent": 100},
    ],
    ids=str,
)
def test_tc_accepts_the_line_of_every_setting(changes):
    cell: Cell = replace(CELL, **changes)
    error, qdiscs = answer(netem("lo", cell.delay_ns, cell))
    if error:
        assert error == UNKNOWN, "tc rejected the line before it asked the kernel"
        return
    (options,) = [each["options"] for each in qdiscs if each["kind"] == "netem"]
    assert options["limit"] == 1_000_000
    assert options.get("delay", {"delay": 0})["delay"] == pytest.approx(cell.delay_ns / 1e9, abs=2e-6)
    if cell.loss_percent:
        assert options["loss-random"]["loss"] == pytest.approx(cell.loss_percent / 100, rel=1e-3)


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("losss 1%", 'What is "losss"?'),
        ("loss", "Command line is not complete. Try option"),
        ("loss x", "Unknown loss parameter: x"),
    ],
)
def test_tc_rejects_an_invalid_line_with_a_different_error(ending, error):
    assert answer(f"{netem('lo', CELL.delay_ns, CELL)} {ending}")[0].startswith(error)


def test_each_delayed_router_gets_its_share_of_the_delay(nodes):
    NetemDelays(nodes, read_topology("linear"), "both").apply(CELL)
    line = "qdisc replace dev lo root netem limit 1000000 delay 30000us\n"
    assert nodes.batches == [("r3", line), ("r1", line)]


LAST_LINK = {
    "nodes": {"h1": {"role": "host"}, "r1": {"role": "router"}, "h2": {"role": "host"}},
    "links": {"access": {"between": ["h1", "r1"]}, "bottleneck": {"between": ["h2", "r1"], "emulated": True}},
    "paths": {"main": ["h1", "r1", "h2"]},
}


def test_netem_does_not_replace_the_queue_of_an_emulated_link(nodes):
    """Both would be the root queueing discipline of the same interface of the last router."""
    topology = parse(LAST_LINK, name="last", where="test")
    with pytest.raises(UserError, match=r"delay_on: both: .* emulated link bottleneck, which ends at h2") as caught:
        NetemDelays(nodes, topology, "both")
    assert "\n" not in str(caught.value)
    assert nodes.batches == []
    NetemDelays(nodes, topology, "return").apply(CELL)
    assert nodes.batches == [("r1", "qdisc replace dev lo root netem limit 1000000 delay 60000us\n")]


def test_line_that_tc_rejects_is_an_error(nodes):
    with pytest.raises(
        UserError, match=r'^node r1: tc failed: What is "losss"\? \(qdisc replace dev lo .* losss 1%\)$'
    ):
        nodes.batch("r1", "tc", [f"{netem('lo', CELL.delay_ns, CELL)} losss 1%"])


def test_lost_packets_equal_the_drops_of_netem(nodes, monkeypatch):
    asked, queue = [], {"kind": "tbf", "packets": 7, "drops": 7, "qlen": 7}
    shown = [queue, {"kind": "netem", "packets": 950, "drops": 40, "qlen": 10}]
    monkeypatch.setattr(nodes, "checked", lambda node, argv: asked.append((node, argv)) or json.dumps(shown))
    assert NetemDelays(nodes, read_topology("linear"), "return").counts() == {
        "delay-rev": Counts(packets=1000, lost=40, reordered=None, dropped=0, late_p99_ns=None, early_p99_ns=None)
    }
    assert NetemDelays(nodes, read_topology("linear"), "return").environment()["by"] == "netem"
    assert asked == [("r1", ["tc", "-s", "-j", "qdisc", "show", "dev", "lo"])]


def test_nothing_is_removed_without_a_delay():
    NetemDelays(LoopbackNodes(), read_topology("linear"), "both").remove()


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        (UNKNOWN, ""),
        ("RTNETLINK answers: No such file or directory", ""),
        ("RTNETLINK answers: Operation not permitted", "node r1: netem is not used: RTNETLINK answers: Operation not"),
        ("", "node r1: netem is not used: exit status 2, no message"),
    ],
)
def test_reason_why_netem_is_not_used_is_printed_unless_the_kernel_has_no_netem(
    nodes, monkeypatch, capsys, message, printed
):
    monkeypatch.setattr(nodes, "run", lambda node, argv: CompletedProgram(2, "", message))
    assert not has_netem(nodes, "r1")
    error = capsys.readouterr().err
    assert printed in error and bool(error) == bool(printed)


def test_kernel_without_netem_is_recognized_by_its_answer():
    error, _ = answer("qdisc add dev lo root netem delay 1us")
    assert has_netem(LoopbackNodes(), "r1") == (error == "")
    assert re.fullmatch(f"|{re.escape(UNKNOWN)}", error)
