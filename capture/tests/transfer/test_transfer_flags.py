"""Flags of runs whose conditions really exist: other traffic, frames lost by tcpdump or before acapella-link, and
segments longer than the MTU.

All runs have the same settings on one slice. Each has one condition, except the first.
"""

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from acapella_testing.capture.callers import IN_SANDBOX
from acapella_testing.capture.local_transfers import environment
from acapella_testing.processes import run

from acapella_capture.testbeds.base import Job
from acapella_capture.testbeds.local.network import disable_offloads
from acapella_capture.testbeds.local.processes import wait_until
from acapella_capture.transfer import runner as grid_runner
from acapella_capture.transfer.delay import RETURN, TUN_PACKETS
from acapella_capture.transfer.grid import plan
from acapella_capture.transfer.nodes import LocalNodes
from acapella_capture.transfer.results import Results
from acapella_capture.transfer.settings import parse_transfer_settings

TESTED = ("background", "capture_loss", "link_loss", "frames_over_mtu")
RATE_MBPS = 50
END_S = 120  # reached only if a run hangs
CONTROL_PACKETS = 50  # more than iperf3's control connection needs before the data
GRID = {
    "algorithm": ["reno"], "delay_ms": [20], "buffer_bytes": ["50K"], "rate_mbps": [RATE_MBPS], "size_bytes": ["3M"]
}  # fmt: skip


@pytest.fixture(scope="module")
def cells(tmp_path_factory) -> dict[str, dict]:
    """Return `cell.json` of a run with each condition, and of one without."""
    directory = tmp_path_factory.mktemp("flags")
    done = run(sys.executable, "-c", IN_SANDBOX, sys.executable, __file__, directory, env=environment(), timeout=END_S)
    assert done.returncode == 0, done.stderr
    return json.loads((directory / "cells.json").read_text())


@pytest.mark.soak
def test_run_without_a_condition_has_none_of_the_flags(cells):
    cell = cells["no_condition"]
    assert cell["error"] is None and not {*TESTED} & {*cell["flags"]}, cell["flags"]
    assert (cell["capture"]["dropped"], cell["measured"]["frames_over_mtu"]) == (0, 0)
    assert cell["environment"]["testbed"] == "local"
    assert cell["environment"]["delay"]["by"] == "acapella-link"
    assert all(isinstance(cell["environment"]["delay"][name], bool) for name in ("realtime", "reserved", "steered"))
    delayed = cell["measured"]["delayed"][RETURN]
    assert delayed["packets"] > 0 and (delayed["lost"], delayed["reordered"], delayed["dropped"]) == (0, 0, 0)


@pytest.mark.parametrize("condition", TESTED)
def test_run_has_the_flag_of_its_condition_and_no_other(cells, condition):
    cell = cells[condition]
    assert cell["error"] is None
    assert {*TESTED} & {*cell["flags"]} == {condition}


def test_flags_agree_with_the_counts(cells):
    assert cells["background"]["measured"]["background_bps"] > 0.001 * RATE_MBPS * 1_000_000
    assert cells["capture_loss"]["capture"]["dropped"] > 0
    assert cells["link_loss"]["measured"]["delayed"][RETURN]["dropped"] > 0
    assert cells["frames_over_mtu"]["measured"]["frames_over_mtu"] > 0
    assert all(cell["capture"]["frames"] > 0 for cell in cells.values())


def no_condition(_runner: grid_runner.Runner, _nodes: LocalNodes) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


@contextlib.contextmanager
def background(runner: grid_runner.Runner, nodes: LocalNodes) -> Iterator[None]:
    """Send other packets over the emulated link."""
    settings = runner._topology
    before = runner._emulation.counters()
    job = nodes.start(settings.sender, ["ping", "-i", "0.02", "-s", "1400", settings.address(settings.receiver)])
    assert wait_until(lambda: runner._emulation.counters() != before, timeout_s=END_S)
    try:
        yield
    finally:
        job.signal("KILL")
        job.wait(END_S)


@contextlib.contextmanager
def meanwhile(nodes: LocalNodes, action: Callable[[dict[str, Job]], None]) -> Iterator[None]:
    """Call a function in a thread once the client of the transfer runs, with the jobs of tcpdump and of the client."""
    jobs: dict[str, Job] = {}
    original = nodes.start

    def start(node, argv, *, output=None):
        small = ["4" if before == "-B" else word for before, word in zip(("", *argv), argv, strict=False)]
        name = "tcpdump" if argv[0] == "tcpdump" else "client" if "-c" in argv and "iperf3" in argv else "other"
        jobs[name] = original(node, small if name == "tcpdump" and action is lose_frames else argv, output=output)
        if name == "client":
            thread.start()
        return jobs[name]

    thread = threading.Thread(target=action, args=(jobs,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "start", start)
        yield
        thread.join()


def lose_frames(jobs: dict[str, Job]) -> None:
    """Stop tcpdump, whose buffer has the minimum size of libpcap (256 KiB), until the transfer has ended."""
    jobs["tcpdump"].signal("STOP")
    jobs["client"].wait(END_S)
    jobs["tcpdump"].signal("CONT")


def capture_loss(_runner: grid_runner.Runner, nodes: LocalNodes) -> contextlib.AbstractContextManager[None]:
    return meanwhile(nodes, lose_frames)


@contextlib.contextmanager
def link_loss(runner: grid_runner.Runner, nodes: LocalNodes) -> Iterator[None]:
    """Let acapella-link pause while packets wait in a queue of two packets until the kernel has dropped one."""
    (direction,) = runner._delays._directions
    link = runner._delays._link._process
    begin = sent(nodes, direction.router)["packets"]

    def pause(jobs: dict[str, Job]) -> None:
        wait_until(lambda: sent(nodes, direction.router)["packets"] > begin + CONTROL_PACKETS, timeout_s=END_S)
        link.send_signal(signal.SIGSTOP)
        wait_until(lambda: sent(nodes, direction.router)["dropped"] > 0, timeout_s=END_S)
        link.send_signal(signal.SIGCONT)

    nodes.checked(direction.router, ["ip", "link", "set", RETURN, "txqueuelen", "2"])
    try:
        with meanwhile(nodes, pause):
            yield
    finally:
        nodes.checked(direction.router, ["ip", "link", "set", RETURN, "txqueuelen", str(TUN_PACKETS)])


def sent(nodes: LocalNodes, router: str) -> dict[str, int]:
    """Return the kernel's counts of packets to acapella-link."""
    return json.loads(nodes.checked(router, ["ip", "-s", "-j", "link", "show", "dev", RETURN]))[0]["stats64"]["tx"]


@contextlib.contextmanager
def frames_over_mtu(runner: grid_runner.Runner, nodes: LocalNodes) -> Iterator[None]:
    """Let the sender hand segments to its interface that are longer than the MTU."""
    sender = runner._topology.sender
    device = nodes.device(sender, "r1")
    nodes.checked(sender, ["ethtool", "-K", device, "tx", "on", "sg", "on", "tso", "on", "gso", "on"])
    nodes.checked(sender, ["ip", "link", "set", device, "gso_max_segs", "65535"])
    try:
        yield
    finally:
        disable_offloads(sender, device)
        nodes.checked(sender, ["ip", "link", "set", device, "gso_max_segs", "1"])


def run_all(directory: Path) -> None:
    """Run the transfers inside the sandbox and write their cells."""
    grid_runner.has_netem = lambda *_: False  # link_loss is a flag of acapella-link
    conditions = (no_condition, background, capture_loss, link_loss, frames_over_mtu)
    settings = parse_transfer_settings({"transfer": {"grid": GRID, "repetitions": len(conditions)}})
    runs = plan(settings)
    results = Results(directory)
    results.prepare()
    cells = {}
    with (
        results.part() as spool,
        contextlib.closing(LocalNodes(settings.topology, spool)) as nodes,
        grid_runner.Runner(nodes, settings, runs, spool) as runner,
    ):
        runner.prepare(runs)
        for cell, condition in zip(runs, conditions, strict=True):
            with condition(runner, nodes):
                cells[condition.__name__] = runner.run(cell, results)
    (directory / "cells.json").write_text(json.dumps(cells))


if __name__ == "__main__":
    run_all(Path(sys.argv[1]))
