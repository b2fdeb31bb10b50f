"""Packets sent to a network interface: they are the same as in files, and are sent at the times of the model."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing import c_programs
from acapella_testing.capture import replayer
from acapella_testing.capture.dpdk_writer import read_pcap
from acapella_testing.capture.small_disks import small_disk_or_skip
from acapella_testing.generated import traffic_models as models
from acapella_testing.new_files import write_file
from acapella_testing.processes import children_of, run, running, status_of
from acapella_testing.waiting import wait_until

from acapella_capture.generate import command as generate
from acapella_core.errors import OUTSIDE

MODEL = """
seed: 4
flows:
""" + models.flow("short", models.TEMPLATES["vxlan"][0], 0, 300).replace("1000}", "50000}")
MODEL += "\n" + models.flow("long", models.TEMPLATES["tcp6"][0], 3, 200).replace("2345.6", "70000") + "\n"
ENDLESS = MODEL.replace("packets: 300", "duration_ns: 1000000000000")


@pytest.fixture
def variables(tmp_path) -> dict[str, str]:
    """Return an environment whose PATH begins with the program that was built with the sanitizers."""
    built = c_programs.built_or_skip("acapella-dpdk-generate")
    return {**replayer.environment(), "PATH": f"{built.parent}:{os.environ['PATH']}"}


def command(tmp_path: Path, text: str, *options: object) -> list[object]:
    """Return the command line of a model."""
    return [Path(sys.executable).parent / "acapella", "generate", write_file(tmp_path / "model.yaml", text), *options]


def starts_of(path: Path) -> list[bytes]:
    """Return the first bytes of all packets, before any layer-4 checksum and stamp, and their lengths."""
    frames, _ = read_pcap(path)
    return sorted(frame.data[:38] + len(frame.data).to_bytes(2) for frame in frames)


@pytest.mark.soak
def test_interface_receives_the_packets_of_the_file(tmp_path, direct, variables):
    sent, file = tmp_path / "sent.json", tmp_path / "file.pcap"
    with replayer.tcpdump(direct, "in0", tmp_path / "got.pcap"):
        done = run(*direct, *command(tmp_path, MODEL, "--interface", "out0", "--expected", sent), env=variables)
        assert done.returncode == 0, done.stderr
    run(*command(tmp_path, MODEL, "-o", file), env=variables, check=True)
    document = json.loads(sent.read_text())
    expected = json.loads((tmp_path / "file.pcap.generated.json").read_text())
    assert [flow["packets"] for flow in document["flows"]] == [300, 200]
    assert document["dropped"] == 0
    assert [flow["bytes"] for flow in document["flows"]] == [flow["bytes"] for flow in expected["flows"]]
    assert (document["timing"]["ended"], document["timing"]["drained"]) == ("complete", True)
    assert document["output"] == "interface"
    assert starts_of(tmp_path / "got.pcap") == starts_of(file)
    assert all(document["start_ns"] <= flow["first_ns"] < flow["last_ns"] for flow in document["flows"])
    assert "500 packets" in done.stdout


# Sockets of in0 join the fanout groups that the next processes would use for out0; then the packets are generated.
GENERATE_WITH_TAKEN_GROUPS = """
import socket, subprocess, sys
from acapella.cli.main import main
from acapella_capture.generate import program
from acapella_capture.programs import dpdk
dpdk.STARTS = {starts}
once, calls = program.output_of, []
program.output_of = lambda arguments: calls.append(1) or once(arguments)
index, last = socket.if_nametoindex("out0"), subprocess.Popen(["true"]).pid
sockets = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range({groups})]
for number, taken in enumerate(sockets, 1):
    taken.bind(("in0", 3))
    taken.setsockopt(263, 18, last + number ^ index)  # SOL_PACKET, PACKET_FANOUT; packet(7)
code = main(["generate", "model.yaml", "--interface", "out0"])
print("starts:", len(calls))
sys.exit(code)
"""


@pytest.mark.soak
def test_program_starts_again_if_its_fanout_group_is_taken(tmp_path, direct, variables):
    command(tmp_path, MODEL)
    variables["ASAN_OPTIONS"] = "detect_leaks=0"  # LeakSanitizer does not find threads in a PID namespace
    for groups, starts, code in ((6, 50, 0), (100, 2, 2)):
        python = [*direct, "unshare", "--pid", "--fork", sys.executable, "-c"]
        done = run(
            *python, GENERATE_WITH_TAKEN_GROUPS.format(groups=groups, starts=starts), env=variables, cwd=tmp_path
        )
        assert done.returncode == code, done.stderr
        assert 1 < int(done.stdout.split()[-1]) <= starts
    assert "no such port" in done.stderr and "could not set PACKET_FANOUT" in done.stderr, done.stderr


def test_interrupt_ends_the_run_and_reports_sent_packets(tmp_path, direct, variables):
    sent = tmp_path / "sent.json"
    argv = [*direct, *command(tmp_path, ENDLESS, "--interface", "out0", "--expected", sent)]
    with (
        replayer.tcpdump(direct, "in0", tmp_path / "got.pcap"),
        running(argv, env=variables, stderr=subprocess.PIPE, text=True, start_new_session=True) as process,
    ):
        wait_until(lambda: sum(path.stat().st_size for path in tmp_path.glob("got.pcap")) >= 10_000, running=process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 1, process.stderr.read()
    document = json.loads(sent.read_text())
    assert document["timing"]["ended"] == "stop"
    assert document["packets"] > 0


def test_c_tests_pass_with_sanitizers():
    done = c_programs.run_tests("generate_report")
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_reasons_why_packets_were_not_sent_are_reported(capsys):
    times = dict.fromkeys(("error_median_ns", "error_p99_ns", "error_largest_ns"))
    timing = {**times, "clock_error_ns": 5, "ended": "clock_step", "drained": False}
    generate.print_summary({"flows": [{}], "packets": 9, "bytes": 900, "dropped": 1, "timing": timing}, "eth1")
    assert capsys.readouterr().err.splitlines() == [
        "acapella: warning: the driver did not accept 1 packet",
        "acapella: warning: the run ended early: clock_step",
        "acapella: warning: packets are still in the queue of the device",
    ]


def test_missing_interface_is_a_one_line_error(tmp_path, direct, variables):
    done = run(*direct, *command(tmp_path, MODEL, "--interface", "none0"), env=variables)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no interface 'none0'" in done.stderr


def handles_signals(parent: int) -> bool:
    """Return whether a child of a process is an acapella-dpdk-generate that handles signals already."""
    caught = 1 << signal.SIGINT - 1
    with contextlib.suppress(OSError):  # a child has ended
        states = map(status_of, children_of(parent))
        return any(state["Name"] == "acapella-dpdk-g" and int(state["SigCgt"], 16) & caught for state in states)
    return False


def test_full_disk_is_a_machine_error(tmp_path, variables):
    prefix = small_disk_or_skip(tmp_path / "disk", "16K")
    done = run(*prefix, *command(tmp_path, MODEL, "-o", tmp_path / "disk" / "a.pcap"), env=variables)
    assert (done.returncode, done.stderr.count("\n")) == (OUTSIDE, 1), done.stderr
    assert "a.pcap: No space left on device; free some space or write elsewhere" in done.stderr


def test_interrupt_leaves_no_file(tmp_path, variables):
    argv = command(tmp_path, ENDLESS, "-o", tmp_path / "out.pcap")
    with running(argv, env=variables, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_until(lambda: handles_signals(process.pid), running=process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    assert not list(tmp_path.glob("out.pcap*"))
