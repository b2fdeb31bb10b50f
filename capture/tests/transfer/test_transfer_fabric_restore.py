"""A grid leaves nothing on the nodes of a kept slice, and undoes the changes left by a killed grid."""

import contextlib
import multiprocessing
import os
import re
import signal
import threading
import time
from unittest.mock import Mock

import pytest
from acapella_testing.fabric.network import inside
from acapella_testing.fabric.transfers import SLICE, FabricTransfers
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import run, running
from acapella_testing.runs.in_process import call_before
from acapella_testing.waiting import interrupt_when, wait_until
from fabrictestbed_extensions.fablib import node as fablib_node

from acapella_capture.testbeds.fabric.background import call_for_each
from acapella_capture.testbeds.fabric.network_slice import NetworkSlice
from acapella_capture.transfer.delay import DELAY_DEVICES, DELAY_RULE
from acapella_capture.transfer.fabric_nodes import FabricNodes, listed
from acapella_capture.transfer.node_state import DEFINE, restore_argv, set_value_argv
from acapella_core.errors import UserError

NODES = ["h1", "r1", "h2"]
END_S = 60  # reached only if the command hangs
BLOCKED_S = 20  # duration of a failing attempt to connect; the command must not wait for it
STATE = """cd /proc/sys/net/ipv4
for file in ip_forward tcp_rmem tcp_wmem tcp_no_metrics_save tcp_congestion_control conf/all/rp_filter \
    conf/default/rp_filter conf/lo/rp_filter fib_multipath_hash_policy; do echo "$file $(cat "$file")"; done
"""


def output(*argv: str) -> str:
    return run(*argv, check=True).stdout


def on_node(fabric: FabricTransfers, node: str, *argv: str) -> str:
    return output(*inside(fabric.networks._built.holders[node]), *argv)


def states(fabric: FabricTransfers) -> dict[str, str]:
    return {node: on_node(fabric, node, "sh", "-c", STATE) for node in NODES}


def leftovers(fabric: FabricTransfers) -> list[str]:
    """Return queues, rules, delaying devices and running programs of a grid."""
    found = []
    for node in NODES:
        text = on_node(fabric, node, "sh", "-c", "tc qdisc show; ip rule; ip -o link")
        found += [f"{node}: {each}" for each in re.findall(r"tbf|htb|netem|delay-(?:rev|fwd)|lookup (?:9|1\d)\d", text)]
    return found + [f"{pid}: runs" for pid in fabric.loopback.nodes.running()]


def kill_during_a_transfer(fabric: FabricTransfers) -> None:
    """Run the command in a separate process, and kill it while the transfer runs."""
    settings = {"grid": {"delay_ms": [20], "size_bytes": ["500M"]}}
    process = multiprocessing.get_context("fork").Process(target=fabric.transfer, args=("--keep",), kwargs=settings)
    process.start()
    home = fabric.loopback.nodes.home("h1")
    try:
        wait_until(lambda: list(home.rglob("wire.pcap")) and list(home.rglob("iperf3-0.json")), "no transfer")
    finally:
        process.kill()
        process.join()
    assert process.exitcode == -signal.SIGKILL, "the command had ended before"


@pytest.mark.soak
def test_next_start_undoes_the_changes_of_a_killed_grid(fabric):
    fresh = output("unshare", "--net", "sh", "-c", STATE)
    kill_during_a_transfer(fabric)
    changed = states(fabric)
    assert all(changed[node] != fresh for node in NODES)
    assert {line.rpartition(":")[0] for line in leftovers(fabric)} >= {"r1"} and fabric.loopback.nodes.running()
    status, out, err = fabric.transfer("--keep")
    assert status == 0, err + out
    assert all(re.search(rf"node {node}: undid \d+ changes of an earlier run", out) for node in NODES)
    assert states(fabric) == dict.fromkeys(NODES, fresh)
    wait_until(lambda: not fabric.loopback.nodes.running(), "programs still run")
    assert leftovers(fabric) == []


def shell(argv: list[str], directory) -> str:
    done = run(*argv, cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_record_has_the_value_before_the_first_change_of_this_boot(tmp_path):
    """The values are in files instead of /proc/sys. A restored value has the white space that the kernel prints."""
    (tmp_path / "settings-of-another-boot").write_text(f"{tmp_path}/a 99\n")
    for name, value in (("a", "1\t2\t3"), ("ab", "0"), ("gone", "5")):
        (tmp_path / name).write_text(f"{value}\n")
    for name, value in (("ab", "7"), ("a", "4 5 6"), ("a", "7 8 9"), ("gone", "6")):
        shell(set_value_argv(str(tmp_path / name), value), tmp_path)
    assert (tmp_path / "a").read_text() == "7 8 9\n"
    (tmp_path / "gone").unlink()  # as the file of an interface that no longer exists
    assert shell(restore_argv([]), tmp_path).splitlines() == [f"restored {tmp_path}/ab", f"restored {tmp_path}/a"]
    assert [(tmp_path / name).read_text() for name in ("a", "ab")] == ["1\t2\t3\n", "0\n"]
    assert list(tmp_path.glob("settings-*")) == []
    assert shell(restore_argv([]), tmp_path) == ""


def test_only_programs_in_the_directory_of_the_node_are_ended(tmp_path):
    """After a reboot, a process id in the directory of a job may belong to another program.

    Commands (run-N) are ended only if they set values.
    """
    directory, other = new_directory(tmp_path / "node"), new_directory(tmp_path / "other")
    sleep, setting = ["sleep", "1000"], ["sh", "-c", f"{DEFINE}sleep 1000; true"]
    started = {"ours": (directory, sleep), "run-2": (directory, setting), "run-1": (directory, sleep)}
    new_directory(directory / "jobs" / "run-3")  # the command that restores is itself a job
    restore = ["sh", "-c", 'echo $$ > jobs/run-3/pid; exec "$@"', "sh", *restore_argv([])]
    with contextlib.ExitStack() as stack:
        processes = {}
        for name, (place, argv) in (started | {"theirs": (other, sleep)}).items():
            processes[name] = stack.enter_context(running(argv, cwd=place, start_new_session=True))
            write_file(directory / "jobs" / name / "pid", str(processes[name].pid))
        assert shell(restore, directory) == "ended sleep\nended sh\n"
        assert [processes[name].wait(END_S) for name in ("ours", "run-2")] == [-signal.SIGKILL, -signal.SIGKILL]
        assert [processes[name].poll() for name in ("theirs", "run-1")] == [None, None]


def interrupted(fabric: FabricTransfers, monkeypatch, *words: str) -> str:
    """Interrupt the command while SSH connections are being opened; return what it printed.

    The client holds the lock of the node meanwhile.
    """
    opening, ended = threading.Event(), threading.Event()

    def open_slowly(node, **_):
        with node._ssh_lock:
            opening.set()
            time.sleep(BLOCKED_S)
            ended.set()
        raise OSError("timed out")

    monkeypatch.setattr(fablib_node.Node, "_get_ssh_connection", open_slowly)
    before = set(threading.enumerate())
    with interrupt_when(opening.is_set):
        status, out, err = fabric.transfer(*words, grid={"algorithm": ["cubic"]})
    assert status == 130, err + out
    assert not ended.is_set(), "the command waited for a connection"
    assert not [thread for thread in set(threading.enumerate()) - before if not thread.daemon], "Python waits for them"
    return out


def test_interrupt_does_not_wait_for_nodes_that_are_not_reached(fabric, monkeypatch):
    interrupted(fabric, monkeypatch)
    assert fabric.orchestrator.slices and fabric.slices == []


def test_interrupt_ends_a_wait_that_the_signal_did_not_wake():
    """The main thread blocks the signal, so another thread receives it; the main thread calls its handler."""
    started, done, waited = threading.Event(), threading.Event(), threading.Event()

    def work(_: str) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # a thread starts with the mask of its creator
        started.set()
        if not done.wait(BLOCKED_S):
            waited.set()

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with pytest.raises(KeyboardInterrupt), interrupt_when(started.is_set):
            call_for_each(work, NODES)
        assert not waited.is_set(), "the call waited for its threads"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        done.set()


@pytest.mark.soak
def test_kept_slice_has_no_changes_and_is_named_after_an_error_or_interrupt(fabric, monkeypatch):
    fresh = output("unshare", "--net", "sh", "-c", STATE)
    assert fabric.transfer("--keep")[0] == 0
    status, out, err = fabric.transfer("--keep", grid={"algorithm": ["nosuch"]})
    assert status == 2 and "no congestion control nosuch" in err and f"slice {SLICE} is kept" in out
    assert "undid" not in out, "a grid that ends leaves nothing to undo"
    call_before(monkeypatch, NetworkSlice, "close", lambda _: os.kill(os.getpid(), signal.SIGINT))  # a second signal
    out = interrupted(fabric, monkeypatch, "--keep")
    assert "warning: nodes h1, r1, h2 may have changed settings; the next start restores them" in out
    assert f"slice {SLICE} is kept; delete it with the same command and --release" in out
    assert states(fabric) == dict.fromkeys(NODES, fresh) and leftovers(fabric) == [] and fabric.slices == [SLICE]


@pytest.mark.parametrize(("changes", "number"), [("", 2), ("removed a queue\n", 3)])
def test_removed_rules_and_devices_are_reported(changes, number):
    nodes = Mock(spec=FabricNodes, _ending=False, _report=Mock(), **{"_devices_of.return_value": []})
    nodes.checked.side_effect = [changes, f'[{{"priority": {DELAY_RULE}}}]', f'[{{"ifname": "{DELAY_DEVICES[0]}"}}]']
    FabricNodes._restore(nodes, "r1")
    nodes._report.assert_called_once_with(f"transfer: node r1: undid {number} changes of an earlier run")


@pytest.mark.parametrize("printed", ["", "3", "[3]", "[{}]", "[" * 100_000, '{"a": 1}'])
def test_malformed_output_of_a_node_is_an_error(printed):
    assert listed("h1", '[{"ifname": "lo"}, {"ifname": "x"}]', "ifname") == ["lo", "x"]
    with pytest.raises(UserError, match=r"^node h1: ip printed "):
        listed("h1", printed, "ifname")
