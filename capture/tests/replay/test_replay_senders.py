"""What the senders of trials report: gaps, skew, and how their threads are scheduled."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import new_directory, write_file

from acapella_capture.replay import actions
from acapella_capture.replay import local as replay_local
from acapella_capture.replay.clocks import Offset
from acapella_capture.replay.departures import MAGIC, NO_TIME, RECORD, median_gap_ns
from acapella_capture.replay.program import PROGRAM
from acapella_capture.testbeds.fabric import replay as fabric_replay
from acapella_capture.testbeds.local import replay_sender, replay_tcpreplay
from acapella_capture.testbeds.local.processes import PRIORITY
from acapella_capture.testbeds.local.replay_path import Endpoint
from acapella_capture.testbeds.local.replay_sender import WAKE_NS, AcapellaSender, deviations_of
from acapella_capture.testbeds.sent_trials import Part

HERE = Endpoint("site1-host1", "eth0")
THERE = Endpoint("site1-replayer2", "replay2")


@pytest.mark.parametrize(
    ("requested", "expected"),
    [([], None), ([5], None), ([5, 5], None), ([5, 7], 2), ([9, 5, 5, 6, 20], 3), ([0, 1, 3], 1)],
)
def test_median_gap_counts_packets_at_the_same_time_once(requested, expected):
    assert median_gap_ns(np.array(requested, np.int64)) == expected


def test_deviation_of_each_port_is_measured_separately():
    records = np.zeros(6, RECORD)
    records["port"] = [0, 1, 0, 1, 0, 1]
    records["requested_ns"] = [0, 10, 20, 30, 40, 50]
    records["departed_ns"] = [1, 110, 22, 134, 43, NO_TIME]
    first, second = deviations_of(records, [HERE, THERE], 7)
    assert (first.name, first.median_ns) == ("site1-host1:eth0", 2)
    assert (second.name, second.median_ns) == ("site1-replayer2:replay2", 100)
    assert first.error_ns >= 7


@pytest.mark.parametrize(
    ("allowed", "mean_gap_ns", "expected"),
    [
        (True, 2 * WAKE_NS, {"priority": PRIORITY, "wake_ns": WAKE_NS}),
        (True, 2 * WAKE_NS - 1, {}),
        (False, 2 * WAKE_NS, {}),
    ],
)
def test_real_time_priority_needs_permission_and_time_to_sleep(monkeypatch, allowed, mean_gap_ns, expected):
    monkeypatch.setattr(replay_sender, "priority_allowed", lambda node: allowed)
    assert AcapellaSender([HERE], [Part(Path("x"), "x")], 1500, 1, mean_gap_ns)._scheduling(HERE.node) == expected


class FakeProgram:
    """A program that records commands and rejects one of them."""

    received = 0

    def __init__(self, refuses: str | None = None, **done: object):
        self._done = done
        self.commands: list[tuple] = []
        self._refuses = refuses

    def command(self, name, *arguments):
        self.commands.append((name, *arguments))
        if name == "departures":
            arguments[0].write_bytes(MAGIC + np.zeros(1, RECORD).tobytes())
        if name == self._refuses:
            raise replay_sender.UserError("refused", where=PROGRAM)

    def wait(self, event, after):
        assert (event, after) == ("done", 0)
        return {"sent": 3, "dropped": {"ring_full": 0}, **self._done}


def sender_of(*programs: FakeProgram) -> AcapellaSender:
    """Return a sender at double speed with a process for each program; the second part starts 1 ms later."""
    endpoints = [HERE, THERE][: len(programs)]
    parts = [Part(Path("x"), "x", number * 1_000_000) for number in range(len(programs))]
    sender = AcapellaSender(endpoints, parts, 1500, 2, 500_000)
    sender._processes = [*map(replay_sender.Process, parts, zip(endpoints), programs)]
    return sender


def test_replayers_get_the_same_absolute_start_plus_the_offset_of_their_part():
    programs = [FakeProgram(), FakeProgram()]
    assert sender_of(*programs).send() == 6
    (first,), (second,) = (program.commands for program in programs)
    assert first[0] == second[0] == "run"
    assert second[1] - first[1] == 500_000
    assert first[2:] == second[2:] == (1, 2_000_000)


def test_single_replayer_starts_at_once():
    program = FakeProgram()
    sender_of(program).send()
    assert program.commands == [("run", 0, 1, 2_000_000)]


@pytest.mark.parametrize(
    ("interface", "fault"),
    [
        ({"tx_packets": 3, "tx_dropped": 0}, None),
        ({"tx_packets": 5, "tx_dropped": 0}, None),  # with forwarded frames or replies
        ({"tx_packets": 5, "tx_dropped": 2}, "2 dropped"),
        ({"tx_packets": 2, "tx_dropped": 0}, "1 of 3 not sent at the end of the run"),
        (None, None),  # a DPDK device
    ],
)
def test_trial_whose_packets_the_kernel_dropped_is_an_error(interface, fault):
    program = FakeProgram(ports=[{"name": "eth0", "queues": [1, 2], "interface": interface}])
    if fault is None:
        assert sender_of(program).send() == 3
        return
    with pytest.raises(replay_sender.UserError, match=f"the kernel did not send all packets of eth0: {fault}"):
        sender_of(program).send()


def test_replayers_are_stopped_if_one_cannot_start():
    programs = [FakeProgram(), FakeProgram(refuses="run")]
    with pytest.raises(replay_sender.UserError, match="refused"):
        sender_of(*programs).send()
    assert [[command[0] for command in program.commands] for program in programs] == [["run", "stop"], ["run", "stop"]]


# The clock of the program was off by 700 ns in the middle of a run, and by 20 ns at its end.
DONE = {"clock": {"error_ns": 20, "largest_error_ns": 700}}


@pytest.mark.parametrize(("clock", "expected"), [(DONE["clock"], 700), ({"error_ns": 20}, 20)])
def test_replayer_clock_error_is_the_largest_of_the_run(monkeypatch, tmp_path, clock, expected):
    monkeypatch.setattr(replay_sender, "SPOOL", tmp_path)
    part = Part(write_file(tmp_path / "part.pcap", b"frames"), "replayed.pcap")
    sender = AcapellaSender([HERE], [part], 1500, 1, 500_000)
    sender._processes = [replay_sender.Process(sender._parts[0], (HERE,), FakeProgram(), {"clock": clock})]
    sender.deliver("single-1", new_directory(tmp_path / "raw"))
    metadata = pq.read_schema(tmp_path / "raw" / "single-1.departures.parquet").metadata
    assert metadata[b"clock_error_ns"] == metadata[b"receiver_clock_error_ns"] == str(expected).encode()
    assert actions.program_clock(Offset(5, 1_000), {"clock": clock}) == Offset(5, 1_000 + expected)


def chrony(error_ns: int | None) -> dict[str, object]:
    """Return the state of a clock that chrony synchronizes."""
    return {"source": "chrony", "offset_ns": 5, "synchronized": True, "error_ns": error_ns}


@pytest.mark.parametrize(("system_ns", "expected"), [(1_000, b"1700"), (None, b"unknown")])
def test_single_replayer_clock_error_includes_the_program(monkeypatch, tmp_path, system_ns, expected):
    monkeypatch.setattr(replay_local, "own_clock", lambda: chrony(system_ns))
    recording = replay_local.Recording(tmp_path / "x.pcap", 1, "ab" * 32)
    replay_local.departures(FakeProgram(), recording, tmp_path / "d.parquet", DONE | {"speed_ppm": 1_000_000}, "bursts")
    assert pq.read_schema(tmp_path / "d.parquet").metadata[b"clock_error_ns"] == expected


def test_single_replayer_clock_error_on_a_node_includes_the_program(tmp_path):
    replayer = fabric_replay.Replayer.__new__(fabric_replay.Replayer)
    replayer._senders = [SimpleNamespace(done=DONE, clock_state=lambda: chrony(1_000))]
    replayer._parts = [Part(write_file(tmp_path / "part.pcap", b"frames"), "replayed.pcap")]
    replayer._speed_ppm = 1_000_000
    (origin,) = replayer._origins([])
    assert (origin.clock_offset_ns, origin.clock_error_ns, origin.receiver_clock_error_ns) == (5, 1_700, None)


@pytest.mark.parametrize(
    ("speed", "rate_pps", "expected"),
    [(1, 2000, "--pps=2000"), (2, 2000, "--pps=4000"), (1, None, None), (2.5, None, "--multiplier=2.5")],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_tcpreplay_has_the_speed_and_the_priority(monkeypatch, speed, rate_pps, expected, allowed):
    monkeypatch.setattr(replay_tcpreplay, "priority_allowed", lambda node: allowed)
    sender = replay_tcpreplay.TcpreplaySender(HERE, Path("x.pcap"), speed, rate_pps)
    argv = sender.argv()
    assert (argv[0] == "chrt") == allowed
    assert argv[-2:] == ["--intf1=eth0", "x.pcap"]
    assert [word for word in argv if word.startswith(("--pps", "--multiplier"))] == ([expected] if expected else [])
    report = sender.deliver("quiet-1", Path())
    assert report["priority"] == (PRIORITY if allowed else 0)
    assert report["largest_gap_ns"] is None
