"""acapella-dpdk-replay on devices without a network: every packet is sent as recorded or counted."""

import itertools
import signal
import subprocess
import time
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer
from acapella_testing.capture.commands import check_c_tests
from acapella_testing.capture.replayer import NULL
from acapella_testing.frames import pcapng_files
from acapella_testing.new_files import write_file
from acapella_testing.processes import run, running

FRAMES = dpdk.some_frames(500, seed=5, sizes=(60, 64, 128, 512, 1514))


@pytest.fixture
def capture(tmp_path):
    return replayer.write_capture(tmp_path / "in.pcap", FRAMES)


@pytest.fixture
def idle():
    """Provide a program without packets, which sends to a null device."""
    with replayer.Replayer(*NULL) as program:
        yield program


@pytest.fixture
def loaded(capture):
    """Provide a program with the packets of the capture, which sends to a null device."""
    with replayer.loaded(capture, *NULL) as program:
        yield program


def to_file(tmp_path) -> tuple:
    return ("--vdev", f"net_pcap0,tx_pcap={tmp_path / 'out.pcap'}", "--tx", "net_pcap0")


def test_loops_send_the_packets_of_a_file_bit_for_bit_and_in_order(tmp_path, capture):
    with replayer.Replayer(*to_file(tmp_path)) as program:
        assert program.wait("ready")["ports"][0]["driver"] == "net_pcap"
        loaded = program.ask(f"load {capture}", "loaded")
        assert (loaded["packets"], loaded["bytes"]) == (len(FRAMES), sum(frame.wire for frame in FRAMES))
        done = program.run(loops=3)
        assert done["sent"] == done["ports"][0]["driver_sent"] == 3 * len(FRAMES)
        assert program.end() == 0, program.messages
    assert replayer.sent_to_file(tmp_path / "out.pcap") == 3 * [frame.data for frame in FRAMES]


def test_departures_name_each_packet_and_its_requested_time(tmp_path, loaded):
    at_ns = replayer.soon_ns()
    done = loaded.run(loops=2, speed_ppm=2_000_000, at_ns=at_ns)
    found = loaded.departures(tmp_path / "d")
    assert loaded.end() == 0, loaded.messages
    assert [(each.loop, each.packet) for each in found] == [(loop, i) for loop in (0, 1) for i in range(len(FRAMES))]
    span = FRAMES[-1].ts_ns - FRAMES[0].ts_ns
    period = (span + span // (len(FRAMES) - 1)) * 1_000_000 // 2_000_000
    assert (done["period_ns"], done["at_ns"]) == (period, at_ns)
    for each in found:
        offset = (FRAMES[each.packet].ts_ns - FRAMES[0].ts_ns) * 1_000_000 // 2_000_000
        assert each.requested_ns == at_ns + each.loop * period + offset
        assert each.outcome == "sent"
        assert each.departed_ns >= each.requested_ns
    stamps = [each.departed_ns for each in found]
    assert stamps == sorted(stamps)
    assert (done["first_departed_ns"], done["last_departed_ns"]) == (stamps[0], stamps[-1])


def test_packets_of_a_full_ring_are_counted(tmp_path, capture):
    """net_ring0 sends to itself and nothing receives: it accepts as many packets as the ring has slots."""
    with replayer.loaded(capture, "--vdev", "net_ring0", "--tx", "net_ring0", "--retry-ns", 1000) as program:
        done = program.run(loops=4, speed_ppm=100_000_000)
        found = program.departures(tmp_path / "d")
        assert program.end() == 0, program.messages
    assert done["dropped"]["ring_full"] > 0 and done["sent"] + done["dropped"]["ring_full"] == 4 * len(FRAMES)
    assert [each.outcome for each in found] == ["sent"] * done["sent"] + ["ring_full"] * done["dropped"]["ring_full"]
    assert {each.departed_ns for each in found[done["sent"] :]} == {None}
    assert all(each.retries > 0 for each in found[done["sent"] :])


def test_second_run_is_independent_of_the_first(tmp_path, capture):
    with replayer.loaded(capture, *to_file(tmp_path)) as program:
        runs = [program.run(), program.run(loops=2)]
        assert program.end() == 0, program.messages
    assert [(done["run"], done["sent"]) for done in runs] == [(1, len(FRAMES)), (2, 2 * len(FRAMES))]


def test_file_interfaces_are_sent_to_the_ports_in_order(tmp_path, capture):
    """A recording of two ports that is saved and loaded again is sent to the same ports."""
    parts = [FRAMES[:200], FRAMES[200:300]]
    order = sorted(((f.ts_ns, port, f) for port, part in enumerate(parts) for f in part), key=lambda entry: entry[:2])
    blocks = [pcapng_files.SECTION, *2 * [pcapng_files.interface(options=pcapng_files.option(9, b"\x09"))]]
    blocks += [pcapng_files.packet_block(port, frame.ts_ns, frame.data, frame.wire) for _, port, frame in order]
    devices = [("--vdev", f"net_pcap{i},tx_pcap={tmp_path}/out{i}.pcap", "--tx", f"net_pcap{i}") for i in range(2)]
    with replayer.loaded(write_file(tmp_path / "two.pcapng", b"".join(blocks)), *devices[0], *devices[1]) as program:
        program.run(speed_ppm=10_000_000)
        program.ask(f"save {tmp_path / 'saved.pcapng'}", "saved")
        program.ask("clear", "cleared")
        assert program.ask(f"load {tmp_path / 'saved.pcapng'}", "loaded")["packets"] == 300
        program.run(speed_ppm=10_000_000)
        assert program.end() == 0, program.messages
    assert [replayer.sent_to_file(tmp_path / f"out{port}.pcap") for port in (0, 1)] == [
        2 * [frame.data for frame in part] for part in parts
    ]


def test_packets_over_the_mtu_are_rejected_before_the_start(tmp_path, capture):
    with replayer.loaded(capture, *to_file(tmp_path), "--max-frame", 1514, "--tag", "choir") as program:
        program.send("run 0 1 1000000")
        scheduled, done = program.wait("scheduled"), replayer.checked(program.wait("done"))
        found = program.departures(tmp_path / "d")
        assert program.end() == 0, program.messages
    long = [frame.wire + 16 > 1514 for frame in FRAMES]
    assert scheduled["rejected"] == {"too_long": sum(long), "too_short": 0}
    assert done["dropped"]["too_long"] == sum(long) > 0
    assert [each.outcome == "too_long" for each in found] == long
    assert [data[:-16] for data in replayer.sent_to_file(tmp_path / "out.pcap")] == [
        frame.data for frame in FRAMES if frame.wire + 16 <= 1514
    ]


@pytest.fixture(scope="module")
def patient():
    """Provide a program that receives many invalid commands."""
    with replayer.Replayer(*NULL) as program:
        yield program
        assert program.end() == 0, program.messages


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run 0 1 1000000", "nothing to replay; load a file or record first"),
        ("run 1 1 1000000", "nothing to replay; load a file or record first"),
        ("record 0 0", "only a bridge records; use --bridge"),
        ("rolling 0", "rolling: not a number of seconds from 1 to 86400"),
        ("run 0 0 1000000", "run: AT_NS is nanoseconds since 1970, LOOPS from 1 to 1000000000, SPEED_PPM from 1"),
        ("run 1 2", "usage: run AT_NS LOOPS SPEED_PPM"),
        ("record 5 4", "record: ends before it begins"),
        ("save /nonexistent/a", "nothing to save; load a file or record first"),
        ("departures d", "no run has ended since the recording was changed"),
        ("load /nonexistent", "/nonexistent: No such file or directory; specify an existing file"),
        ("load", "usage: load FILE"),
        *itertools.product(
            ("sing", ""),
            ["unknown command; use record, rolling, load, stop, clear, run, status, save, departures, answer or quit"],
        ),
        ("status\x01", "a control character in a command"),
        ("status\0quit", "a control character in a command"),
        pytest.param("x" * 9000, "a command of more than 8192 bytes", id="too long"),
    ],
)
def test_program_continues_after_an_invalid_command(patient, line, message):
    assert patient.ask(line, "error")["message"] == message
    assert patient.ask("status", "status")["state"] == "idle"


def test_stop_after_the_end_is_not_an_error(idle):
    assert idle.ask("stop", "stopped", "error") == {"event": "stopped", "run": None}
    assert idle.ask("status", "status", "error")["state"] == "idle"
    assert idle.end() == 0, idle.messages


def test_start_in_the_past_and_second_recording_are_rejected(capture, loaded):
    assert "ns in the past" in loaded.ask("run 1 1 1000000", "error")["message"]
    assert loaded.ask(f"load {capture}", "error")["message"] == "the recording has 500 packets; clear it first"
    missing = "/nonexistent/a: No such file or directory; create the directory first"
    assert loaded.ask("save /nonexistent/a", "error")["message"] == missing
    assert "raise --departures" in loaded.ask("run 0 1000000 1000000", "error")["message"]
    loaded.ask("clear", "cleared")
    assert loaded.ask(f"load {capture}", "loaded")["packets"] == len(FRAMES)
    assert loaded.end() == 0, loaded.messages


def test_file_larger_than_memory_is_rejected(capture):
    with replayer.Replayer(*NULL, "--packets", 100) as program:
        message = f"{capture}: more than 100 packets; raise --packets"
        assert program.ask(f"load {capture}", "error")["message"] == message
        assert program.ask("status", "status")["packets"] == 0
        assert program.end() == 0, program.messages


def test_stopped_run_reports_packets_not_sent(tmp_path, loaded):
    loaded.ask("run 0 100 1000", "running")  # 1000 times as slow: 8 minutes
    done = replayer.checked(loaded.ask("stop", "done"))
    found = loaded.departures(tmp_path / "d")
    assert loaded.end() == 0, loaded.messages
    assert done["stopped_by"] == "stop"
    assert done["dropped"]["stopped"] > 0
    assert sum(each.outcome == "stopped" for each in found) == done["dropped"]["stopped"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, "quit", "end of input"])
def test_program_that_ends_during_a_run_reports_it_and_leaves_nothing(tmp_path, capture, how):
    before = leftovers()
    with replayer.loaded(capture, *NULL) as program:
        program.ask("run 0 100 1000", "running")
        assert program.end(how) == 0, program.messages
        assert program.errors() == []
    events = {event["event"]: event for event in program.events}
    assert replayer.checked(events["done"])["stopped_by"] == "stop"
    assert events["quit"]["reason"] == getattr(how, "name", how)
    assert leftovers() == before


def test_killed_program_leaves_nothing(tmp_path, capture):
    before = leftovers()
    with replayer.loaded(capture, *NULL) as program:
        program.ask("run 0 100 1000", "running")
        program.process.kill()
        assert program.process.wait() == -signal.SIGKILL
    assert leftovers() == before
    assert [path.name for path in tmp_path.iterdir()] == ["in.pcap"]


def leftovers() -> set[str]:
    """Return the files that DPDK programs may leave: runtime directories and huge page files."""
    directories = ("/var/run/dpdk", "/dev/hugepages", "/dev/shm", "/tmp/dpdk")
    return {str(path) for directory in directories for path in Path(directory).rglob("*") if not path.is_dir()}


def test_closed_standard_output_ends_the_program_with_one_line():
    argv = [replayer.built_or_skip(), *map(str, replayer.SMALL), *NULL]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with running(argv, **pipes, env=replayer.environment(), text=True, bufsize=1) as process:
        assert '"event": "ready"' in process.stdout.readline()
        process.stdout.close()
        process.stdin.write("status\n")
        assert process.wait(dpdk.LIMIT_S) == 1
        assert [line for line in process.stderr if "error: " in line] == [
            "acapella-dpdk-replay: error: standard output cannot be written\n"
        ]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "no ports: use --tx or --bridge; see --help"),
        (["--tx", "net_null0"], 2, "no devices: use --vdev or --pci; see --help"),
        (["--vdev", "net_null0", "--tx", "nothing"], 1, "nothing: no such port; specify a device of --vdev or --pci"),
        (["--vdev", "net_null0", "--bridge", "net_null0"], 2, "--bridge net_null0: not two ports"),
        (["--vdev", "net_null0", "--bridge", "net_null0,net_null0"], 1, "net_null0: named twice"),
        ([*NULL, "--burst", "65"], 2, "--burst 65: not a whole number from 1 to 64"),
        (
            [*NULL, "--cpus", "0,9999"],
            1,
            "--cpus 0,9999: this machine has no CPU 9999; nproc --all prints the number of CPUs",
        ),
        ([*NULL, "--lead-ns", "5"], 2, "--lead-ns: applies to --pace single only"),
        (
            ["--vdev", "net_null0", "--bridge", "net_null0,net_null1", "--pace", "single", "--measure-lead", "tx"],
            2,
            "--measure-lead: applies to --tx, not to --bridge",
        ),
        ([*NULL, "--packets", "1G", "--max-frame", "9000"], 1, "lower --packets, --max-frame or --departures"),
        ([*NULL, "--packets", "65536", "--memory-mb", "64"], 1, "lower --packets, or raise --memory-mb"),
        ([*NULL, "surplus"], 2, "surplus: not an option"),
    ],
)
def test_startup_errors_are_one_line(arguments, status, message):
    done = run(replayer.built_or_skip(), *arguments, timeout=dpdk.LIMIT_S, env=replayer.environment())
    assert done.returncode == status, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "error: " in line)
    assert line.startswith("acapella-dpdk-replay: error: ")
    assert message in line
    assert done.stdout == ""


def test_real_time_priority_is_used_or_rejected_at_startup(capture):
    with replayer.Replayer(*NULL, "--priority", 1) as program:
        program.send(f"load {capture}")
        program.send("run 0 1 1000000")
        program.send("quit")
        if program.ended():
            pytest.skip(f"no real-time priority here: {program.errors()}")
    assert replayer.checked(next(event for event in program.events if event["event"] == "done"))["priority"] == 1


def test_clock_is_synchronized_repeatedly(idle):
    first = idle.wait("ready")["clock"]
    time.sleep(0.5)
    later = idle.ask("status", "status")["clock"]
    assert idle.end() == 0, idle.messages
    assert later["updates"] > first["updates"]
    assert later["steps"] == 0
    assert later["error_ns"] >= abs(later["offset_ns"])
    assert later["tsc_hz"] == first["tsc_hz"]


def test_c_tests_pass_with_sanitizers():
    check_c_tests("queues", "lead", "replay", "bridge", "command", "session")


@pytest.mark.parametrize(("pace", "resolved", "bursts"), [("bursts", 0, 20), ("single", 80, 80)])
def test_simultaneous_packets_are_one_burst_unless_paced_singly(tmp_path, pace, resolved, bursts):
    frames = [dpdk.Frame(FRAMES[i // 4].ts_ns, FRAMES[i].wire, FRAMES[i].data) for i in range(80)]
    capture = replayer.write_capture(tmp_path / "bursts.pcap", frames)
    with replayer.Replayer(*NULL, "--pace", pace) as program:
        assert program.ask(f"load {capture}", "loaded")["bursts"] == 20
        program.run()
        found = program.departures(tmp_path / pace)
        assert program.end() == 0, program.messages
    assert sum(each.flags & 1 for each in found) == resolved
    assert sum(each.flags >> 1 & 1 for each in found) == bursts
    assert pace == "single" or all(
        len({each.departed_ns for each in found[at : at + 4]}) == 1 for at in range(0, 80, 4)
    )
