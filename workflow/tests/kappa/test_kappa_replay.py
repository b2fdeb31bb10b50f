"""`acapella kappa --departures`: kappa of the replayer and of the path, and errors about recordings and departures."""

import hashlib
import itertools
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_captures import START_NS, arp, kappa, packet, pair, texts
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.replay_files import (
    COUNT,
    GAP_NS,
    SCHEMA,
    TIMES,
    columns,
    write_departures,
    write_replays,
)
from acapella_testing.oracles import replay_simulation
from acapella_testing.oracles.replay_simulation import Path, Replayer, Setup

from acapella.cli.main import main
from acapella.kappa.replayed import NO_QUEUE, ONE_BURST

COMPONENTS = ("U", "O", "L", "I", "kappa")


@pytest.fixture
def replay(tmp_path):
    """Write a recording of 200 packets, and two trials with jitter, loss and reordering."""
    rng, files = random.Random(1), Files(tmp_path)
    write_pcap(files.recording, frames_at(TIMES))
    for path in files.trials:
        kept = [(ns + rng.randrange(3 * GAP_NS), n) for n, ns in enumerate(TIMES) if rng.random() < 0.95]
        write_pcap(path, [(ns, packet(n)) for ns, n in sorted(kept)])
    return files


def frames_at(times) -> list[tuple[int, bytes]]:
    """Return packets 0, 1, ... at these times."""
    return [(int(ns), packet(n)) for n, ns in enumerate(times)]


class Files:
    """The files of a replay in a directory."""

    def __init__(self, directory):
        self.directory, self.recording = directory, directory / "r.pcap"
        self.trials = [directory / f"{name}.pcap" for name in "ab"]

    def words(self, *departures, recording=None) -> list[str]:
        """Return the arguments of the command for columns of departures, or for a path."""
        paths = [
            write_departures(self.directory / f"{n}.parquet", self.recording, rows) if isinstance(rows, dict) else rows
            for n, rows in enumerate(departures)
        ]
        named = ["--recording", recording or self.recording]
        return [str(word) for word in (*self.trials, *named, "--departures", *paths)]

    def arrive(self, *trials) -> None:
        """Replace the frames of the trials by these rows of (time in ns, content), of both if only one is given."""
        for path, rows in zip(self.trials, itertools.cycle(trials), strict=False):
            write_pcap(path, rows)


def part(found: dict, end: str = "") -> dict:
    """Return kappa and its components, or their limits with the suffix `_lo` or `_hi`."""
    return {name: found[f"{name}{end}"] for name in COMPONENTS}


def test_perfect_departures_leave_the_measured_kappa(replay, capsys):
    found = pair(capsys, *replay.words(columns(), columns()))
    assert 0 < found["kappa"] < 1
    assert 0 not in [found[name] for name in COMPONENTS]
    assert [part(found["corrected"], end) for end in ("", "_lo", "_hi")] == [part(found)] * 3
    assert part(found["replayer"]) == {"U": 0, "O": 0, "L": 0, "I": 0, "kappa": 1}


def test_replay_options_do_not_change_other_results(replay, capsys):
    plain = kappa(capsys, *replay.trials)
    full = kappa(capsys, *replay.words(columns(), columns()))
    assert plain["parameters"]["replay"] is None
    digest = hashlib.sha256(replay.recording.read_bytes()).hexdigest()
    assert full["parameters"]["replay"]["recordings_sha256"] == [digest]
    assert full["pairs"][0] | {"replayer": None, "corrected": None} == plain["pairs"][0]
    assert plain["pairs"][0]["replayer"] is plain["pairs"][0]["corrected"] is None


@pytest.mark.parametrize("seed", range(4))
def test_deviation_of_a_departure_cancels_that_of_the_arrival(tmp_path, capsys, seed):
    """A known error of the replayer, however large, changes nothing in the corrected kappa."""
    a, b = replay_simulation.two_replays(Setup(packets=300, path=Path(jitter_ns=800, loss=0.03, reordered=0.05)), seed)
    rng, moved = np.random.default_rng(seed), []
    for replay in (a, b):
        deviation = rng.integers(0, 50_000, size=300)
        arrived = replay.arrived_ns + deviation[replay.number]
        order = np.argsort(arrived, kind="stable")
        changed = {"arrived_ns": arrived[order], "number": replay.number[order]}
        moved.append(replace(replay, departed_ns=replay.requested_ns + deviation, **changed))
    found = pair(capsys, *write_replays(tmp_path, *moved))
    assert part(found["corrected"]) == pytest.approx(replay_simulation.truth(a, b), rel=1e-12)
    assert found["kappa"] < found["corrected"]["kappa"]


def test_command_covers_the_true_kappa(tmp_path, capsys):
    path, replayer = Path(jitter_ns=1_000, loss=0.02, reordered=0.02), Replayer(2_000, burst=4, wire_ns=50, unsent=0.02)
    a, b = replay_simulation.two_replays(Setup(packets=1_500, path=path, replayer=replayer, receiver_error_ns=20), 3)
    words = write_replays(tmp_path, a, b)
    found = pair(capsys, *words, "--arrival-error", "20ns", "--burst-error", "150ns")
    truth, corrected = replay_simulation.truth(a, b), found["corrected"]
    for name in COMPONENTS:
        assert corrected[f"{name}_lo"] - 1e-12 <= truth[name] <= corrected[f"{name}_hi"] + 1e-12
        assert corrected[f"{name}_lo"] <= corrected[name] <= corrected[f"{name}_hi"]
    assert found["kappa"] < corrected["kappa_lo"]
    assert corrected["excluded_a"] == (~(a.sent & b.sent))[a.number].sum()
    assert corrected["arrived_unsent_a"] == 0
    assert corrected["unresolved_a"] == (a.sent & ~a.burst_first).sum()
    assert found["replayer"]["not_sent_a"] == {"ring_full": (~a.sent).sum()}
    # Without --burst-error a packet may depart until the next burst does: the interval is wider, not narrower.
    wide = pair(capsys, *words, "--arrival-error", "20ns")["corrected"]
    assert wide["kappa_lo"] < corrected["kappa_lo"]
    assert wide["kappa_hi"] > corrected["kappa_hi"]


def test_replayer_is_compared_like_captures_of_its_departures(tmp_path, capsys):
    a, b = replay_simulation.two_replays(Setup(packets=400, replayer=Replayer(late_ns=20_000, unsent=0.05)), 5)
    found = pair(capsys, *write_replays(tmp_path, a, b))["replayer"]
    departed = [itertools.compress(frames_at(replay.departed_ns), replay.sent) for replay in (a, b)]
    captured = pair(capsys, *(write_pcap(tmp_path / f"d{n}.pcap", sorted(rows)) for n, rows in enumerate(departed)))
    assert captured["U"] > 0
    assert captured["I"] > 0
    for name in found.keys() - {"not_sent_a", "not_sent_b", "order_a", "order_b"}:
        assert found[name] == captured[name], name


def test_packets_that_were_not_sent_are_loss_of_the_replayer_only(replay, capsys):
    outcome = np.where(np.arange(COUNT) % 10 == 3, "ring_full", "sent")
    unsent = pa.array(TIMES, mask=outcome != "sent")
    arrivals = frames_at(TIMES)
    replay.arrive(arrivals, [row for n, row in enumerate(arrivals) if outcome[n] == "sent"])
    found = pair(capsys, *replay.words(columns(), columns(outcome=outcome, departed_ns=unsent)))
    assert found["U"] == found["replayer"]["U"] == pytest.approx(20 / 380)
    assert (found["corrected"]["U"], found["corrected"]["kappa"]) == (0, 1)
    assert found["replayer"]["not_sent_b"] == {"ring_full": 20}
    assert found["replayer"]["not_sent_a"] == {}
    assert (found["corrected"]["excluded_a"], found["corrected"]["excluded_b"]) == (20, 0)


def test_arrival_of_a_packet_that_was_not_sent_is_counted(replay, capsys):
    outcome = np.where(np.arange(COUNT) == 7, "late", "sent")
    found = pair(capsys, *replay.words(columns(), columns(outcome=outcome)))["corrected"]
    assert (found["arrived_unsent_a"], found["arrived_unsent_b"]) == (0, 1)


def test_corrected_kappa_is_unknown_without_departure_times(replay, capsys):
    nothing = columns(departed_ns=pa.nulls(COUNT, pa.int64()))
    found = pair(capsys, *replay.words(columns(), nothing))
    assert found["replayer"] is found["corrected"] is None
    assert found["corrected_unknown"] == "trial B: departures were not measured"
    assert main(["kappa", *replay.words(columns(), nothing)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "corrected" in line]
    assert lines == ["  path        corrected kappa unknown: trial B: departures were not measured"]
    named = pair(capsys, *replay.words(nothing, nothing), "--name", "first", "second")
    assert named["corrected_unknown"] == "trial first: departures were not measured"


def test_packets_sent_at_an_unknown_time_are_excluded(replay, capsys):
    found = pair(capsys, *replay.words(columns(), columns(departed_ns=pa.array(TIMES, mask=np.arange(COUNT) % 4 == 1))))
    assert (found["replayer"]["n_common"], found["replayer"]["kappa"]) == (COUNT * 3 // 4, 1)
    assert found["corrected"]["arrived_unsent_b"] == 0 < found["corrected"]["excluded_b"]


def test_single_burst_has_no_bound_without_burst_error(replay, capsys):
    first = np.arange(COUNT) == 0
    rows = columns(departed_ns=np.full(COUNT, START_NS), resolved=first, burst_first=first)
    found = pair(capsys, *replay.words(rows, rows))
    assert found["corrected"] is None
    assert found["replayer"]["kappa"] == 1
    assert found["corrected_unknown"] == f"trial A: {ONE_BURST}"
    assert pair(capsys, *replay.words(rows, rows), "--burst-error", "1us")["corrected"]["kappa_hi"] > 0


def in_bursts(size: int) -> dict:
    """Return columns of departures in bursts, of which only the first packet has a separate time."""
    first = np.arange(COUNT) % size == 0
    stamps = columns()["requested_ns"][np.arange(COUNT) // size * size]
    return columns(resolved=first, burst_first=first, departed_ns=stamps)


def test_interval_widened_by_bursts_is_a_warning(replay, capsys):
    """There is no warning if the interval is narrow, or wide for a different reason."""

    def text(rows, *options):
        return texts(pair(capsys, *replay.words(rows, rows), *options), "wide_interval")

    (line,) = text(in_bursts(8))
    assert "because 175 packets of trial A and 175 packets of trial B left in bursts" in line
    assert "--pace single" in line
    assert text(in_bursts(8), "--burst-error", "1ns") == []
    assert text(columns(), "--arrival-error", "10us") == []


def test_nothing_sent_has_no_corrected_kappa(replay, capsys):
    nothing = columns(outcome=["late"] * COUNT, departed_ns=pa.nulls(COUNT, pa.int64()))
    found = pair(capsys, *replay.words(nothing, columns()))
    assert found["corrected"]["kappa"] is found["corrected"]["kappa_lo"] is None
    assert found["replayer"]["U"] == 1
    assert found["replayer"]["kappa"] == 0
    assert main(["kappa", *replay.words({name: rows[:0] for name, rows in columns().items()}, columns())]) == 0
    assert "corrected kappa undefined" in capsys.readouterr().out


def test_packets_in_no_recording_are_kept_in_the_trial(replay, capsys):
    """A duplicate made by the path, and frames of other hosts, count as in the measured kappa."""
    rows = frames_at(TIMES)
    extra = [(TIMES[50] + 100, packet(50)), (TIMES[90] + 7, arp(1)), (TIMES[20] - 3, arp(2))]
    replay.arrive(sorted([*rows, extra[1]]), sorted([*rows, *extra]))
    found = pair(capsys, *replay.words(columns(), columns()))
    assert (found["corrected"]["other_a"], found["corrected"]["other_b"]) == (1, 3)
    assert found["n_common"] == found["corrected"]["n_common"] == 201
    (text,) = texts(found, "not_in_recording")
    assert text.startswith("not in the recording: 1 packet of trial A and 3 packets of trial B. ")
    assert "Turn off IPv6" in text
    assert part(found["corrected"]) == part(found)


def test_trailers_after_the_packet_do_not_change_the_matching(replay, capsys):
    replay.arrive([(ns, packet(n) + bytes(14) + b"\x65\x87") for n, ns in enumerate(TIMES)])
    found = pair(capsys, *replay.words(columns(), columns()))["corrected"]
    assert (found["other_a"], found["n_common"], found["kappa"]) == (0, COUNT, 1)


def test_equal_packets_are_matched_by_their_occurrence(replay, capsys):
    write_pcap(replay.recording, [(ns, packet(n % 7)) for n, ns in enumerate(TIMES)])
    replay.arrive([(ns + n * n % 500, packet(n % 7)) for n, ns in enumerate(TIMES)])
    found = pair(capsys, *replay.words(columns(), columns()))
    assert part(found["corrected"]) == part(found)


def test_recording_not_in_timestamp_order_is_matched_by_place(replay, capsys):
    """Packets are numbered by their place in the file."""
    frames = frames_at(TIMES)
    write_pcap(replay.recording, frames[::-1])
    late = 1_000_000 * (np.arange(COUNT) % 2)  # of frame n of the file
    requested = np.array(TIMES[::-1])
    rows = columns(requested_ns=requested, departed_ns=requested + late)
    replay.arrive(frames, sorted((ns + int(late[n]), content) for n, (ns, content) in enumerate(frames[::-1])))
    found = pair(capsys, *replay.words(columns(requested_ns=requested, departed_ns=requested), rows))
    assert found["kappa"] < 1
    assert found["corrected"]["kappa"] == found["corrected"]["kappa_lo"] == 1


def test_loops_are_numbered_after_each_other(replay, capsys):
    second, twice = np.arange(2 * COUNT) >= COUNT, {name: np.tile(values, 2) for name, values in columns().items()}
    requested = twice["requested_ns"] + second * 10**9
    departed = requested + 300 * (np.arange(2 * COUNT) % 3)
    twice |= {"loop": second.astype(np.int32), "requested_ns": requested, "departed_ns": departed}
    replay.arrive([(int(ns), packet(n % COUNT)) for n, ns in enumerate(departed)])
    found = pair(capsys, *replay.words(twice, twice))
    assert found["corrected"]["n_common"] == found["replayer"]["n_common"] == 2 * COUNT
    assert found["corrected"]["kappa"] == 1
    assert pair(capsys, *replay.words(twice, columns()))["corrected"]["excluded_a"] == COUNT


def test_clock_difference_of_two_replayers_widens_the_interval(tmp_path, capsys):
    """Each replayer has its own recording and departures. The difference of their clocks widens the interval."""
    sent = [[(ns + 600 * source, packet(1_000 * source + n)) for n, ns in enumerate(TIMES)] for source in range(2)]
    recordings = [write_pcap(tmp_path / f"r{source}.pcap", rows) for source, rows in enumerate(sent)]
    words, departures = [], []
    for side, late_ns in (("a", [0, 0]), ("b", [0, 40])):
        arrivals = [(ns + late_ns[source], content) for source, rows in enumerate(sent) for ns, content in rows]
        words.append(write_pcap(tmp_path / f"{side}.pcap", sorted(arrivals)))
        paths = [tmp_path / f"{side}{source}.parquet" for source in range(2)]
        departures.append(",".join(map(str, paths)))
        for path, recording, rows, late in zip(paths, recordings, sent, late_ns, strict=True):
            requested = np.array([ns for ns, _ in rows])
            source_columns = columns(requested_ns=requested, departed_ns=requested + late)
            write_departures(path, recording, source_columns, clock_error_ns="25")
    found = pair(capsys, *words, "--recording", *recordings, "--departures", *departures)
    assert found["kappa"] < 1
    assert found["replayer"]["kappa"] == found["kappa"]
    corrected = found["corrected"]
    assert corrected["kappa_lo"] < 1 == corrected["kappa_hi"]
    assert corrected["U"] == corrected["O"] == 0
    assert corrected["L_hi"] > 50 / (GAP_NS * COUNT)


def test_unknown_error_against_the_receiver_is_bounded_by_the_largest_adjustment(replay, capsys):
    """Replayers that share a clock, without any error between them, may still drift from a remote receiver."""
    words = replay.words(columns(), columns())
    exact = pair(capsys, *words)["corrected"]
    for path in words[-2:]:
        write_departures(path, replay.recording, columns(), receiver_clock_error_ns="unknown")
    found = pair(capsys, *words)["corrected"]
    assert found["drift_a_ns"] == pytest.approx(500e-6 * GAP_NS * COUNT, rel=0.05)
    assert 0 < exact["I"] - found["I_lo"] < 0.001
    assert 0 < found["L_hi"] - exact["L"] < 0.005


def test_trials_are_compared_with_the_first(replay, capsys):
    replay.trials.append(replay.trials[0])
    found = kappa(capsys, *replay.words(columns(), columns(), columns()))["pairs"]
    assert [entry["corrected"]["kappa"] for entry in found] == [found[0]["kappa"], 1]


def test_rounding_of_a_coarse_clock_is_the_default_error(replay, capsys):
    replay.arrive([(ns // 1000 * 1000, packet(n)) for n, ns in enumerate(TIMES)])
    words = replay.words(columns(), columns())
    assert pair(capsys, *words)["corrected"]["sigma_a_ns"] == pytest.approx(1000 / 12**0.5)
    errors = ("--arrival-error", "30ns", "--departure-error", "40ns")
    assert pair(capsys, *words, *errors)["corrected"]["sigma_b_ns"] == 50


def test_text_has_a_line_for_replayer_and_path(replay, capsys):
    late = columns(departed_ns=columns()["requested_ns"] + 50 * (np.arange(COUNT) % 2))
    assert main(["kappa", *replay.words(columns(), late), "--arrival-error", "20ns"]) == 0
    lines = capsys.readouterr().out.splitlines()
    replayer, path = (line for line in lines if line.startswith(("  replayer ", "  path ")))
    assert replayer.startswith("  replayer    kappa 0.9")
    assert "I 0.0" in replayer
    assert " to " in path
    assert path.endswith("(95 %)")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"packet": np.arange(COUNT) + 1}, "packet 200 is out of range: the recording has 200 frames"),
        ({"packet": np.arange(COUNT) - 1}, "a packet or loop number is out of range"),
        ({"packet": np.arange(COUNT) // 2}, "rows are not in the order of loop and packet, or a packet occurs twice"),
        ({"loop": 3 - np.arange(COUNT, dtype=np.int32) // 50}, "rows are not in the order of loop and packet"),
        ({"departed_ns": columns()["requested_ns"] - 4 * 10**17}, "departed more than a year from the requested time"),
        ({"requested_ns": np.full(COUNT, -1)}, "a time is before 1970"),
    ],
)
def test_impossible_departures_are_errors(replay, capsys, changed, message):
    assert message in failed(capsys, "kappa", *replay.words(columns(), columns(**changed)))


def test_departures_of_a_different_recording_are_an_error(replay, capsys):
    other = write_pcap(replay.directory / "other.pcap", [(START_NS, packet(0))])
    words = replay.words(columns(), columns(), recording=other)
    assert "0.parquet: departures of a different recording: SHA-256 " in failed(capsys, "kappa", *words)


def rewrite(path, change) -> None:
    """Change the table of a file of departures."""
    pq.write_table(change(pq.read_table(path)), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["resolved"]), "not a file of departures: no column resolved"),
        (lambda table: table.cast(SCHEMA.set(2, pa.field("packet", pa.int32()))), "column packet is int32, not int64"),
        (lambda table: table.replace_schema_metadata({}), "metadata has no recording_sha256"),
        (
            lambda table: table.replace_schema_metadata({**table.schema.metadata, b"recording_sha256": b"unknown"}),
            "the recording of these departures is unknown; save the recording before it is replayed",
        ),
        (
            lambda table: table.replace_schema_metadata({**table.schema.metadata, b"clock_error_ns": b"soon"}),
            "metadata clock_error_ns: 'soon' is not a whole number",
        ),
        (
            lambda table: table.set_column(0, pa.field("loop", pa.int32()), pa.array([None] * COUNT, pa.int32())),
            "column loop has a null",
        ),
    ],
)
def test_files_in_a_different_format_are_errors(replay, capsys, change, message):
    words = replay.words(columns(), columns())
    rewrite(words[-1], change)
    assert message in failed(capsys, "kappa", *words)


def test_capture_in_place_of_departures_is_rejected(replay, capsys):
    assert "not a file of departures" in failed(capsys, "kappa", *replay.words(columns(), replay.trials[1]))
    assert "no such file" in failed(capsys, "kappa", *replay.words(columns(), replay.directory / "missing"))


def test_trial_with_different_traffic_is_an_error(replay, capsys):
    write_pcap(replay.trials[1], [(START_NS + n, packet(1_000 + n)) for n in range(5)])
    assert "no packet of the trial is in the recording" in failed(capsys, "kappa", *replay.words(columns(), columns()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--flow", "10.0.0.1,10.0.0.2"], "--flow cannot be combined with --departures"),
        (["--filter", "tcp"], "--departures; select the packets first: tshark -r TRIAL -Y FILTER -w NEW"),
        (["--from", "1ms"], "--from cannot be combined with --departures"),
        (["--identity", "tag"], "--identity tag cannot be combined with --departures"),
        (["--arrival-error=-1ns"], "an error must not be negative"),
        (["--arrival-error", "x"], "'x' is not a time"),
    ],
)
def test_contradictory_options_are_errors(replay, capsys, words, message):
    assert message in failed(capsys, "kappa", *replay.words(columns(), columns()), *words)


def test_replay_options_require_each_other(replay, capsys):
    words = replay.words(columns(), columns())
    place = words.index("--departures")
    assert "require --departures" in failed(capsys, "kappa", *words[:place])
    assert "--departures requires --recording" in failed(capsys, "kappa", *words[:2], *words[place:])
    assert "1 departures for 2 trials" in failed(capsys, "kappa", *words[:-1])
    assert "the same recording is given twice" in failed(
        capsys, "kappa", *words[: place - 1], words[2 + 1], *words[place - 1 :]
    )


def test_trials_of_different_speeds_are_an_error(replay, capsys):
    words = replay.words(columns(), columns())
    write_departures(words[-1], replay.recording, columns(), speed="500000")
    assert "replayed at different speeds: 1000000, 500000" in failed(capsys, "kappa", *words)


def test_recording_without_the_identity_is_an_error(replay, capsys):
    write_pcap(replay.recording, [(START_NS + n, packet(n)[:60]) for n in range(COUNT)], snaplen=30)
    assert "frames of the recording cannot be matched" in failed(capsys, "kappa", *replay.words(columns(), columns()))


def test_correction_memory_limit_error_names_its_option(replay, capsys):
    assert main(["kappa", *replay.words(columns(), columns()), "--memory", "50k"]) == 75
    (message,) = capsys.readouterr().err.splitlines()
    assert "raise --memory" in message


def test_several_ports_are_bounded_separately(replay, capsys):
    """A packet may depart at any time until the next burst of its port."""
    port, first = (np.arange(COUNT) % 2).astype(np.int16), np.arange(COUNT) % 8 < 2
    stamps = columns()["requested_ns"][np.arange(COUNT) // 8 * 8 + port]
    rows = columns(port=port, burst_first=first, resolved=first, departed_ns=stamps)
    found = pair(capsys, *replay.words(rows, rows))["corrected"]
    assert found["unresolved_a"] == COUNT * 6 // 8
    assert found["kappa_lo"] < found["kappa"] < found["kappa_hi"]


def test_full_driver_queue_is_a_warning(replay, capsys):
    """This also applies if the retried packet was not sent: others waited in the queue before it."""
    retried = np.where(np.arange(COUNT) % 50 == 7, 3, 0)
    outcome = np.where(np.arange(COUNT) == 7, "ring_full", "sent")
    found = pair(capsys, *replay.words(columns(), columns(retries=retried, outcome=outcome)))
    assert (found["corrected"]["retried_a"], found["corrected"]["retried_b"]) == (0, 4)
    (text,) = texts(found, "full_queue")
    assert text.startswith("the driver's queue was full for 4 packets of trial B: ")
    assert texts(pair(capsys, *replay.words(columns(), columns())), "full_queue") == []


def test_departures_without_queues_need_a_burst_error(replay, capsys):
    """Files of older versions have no queues. Queues are needed only if the departures of some packets are unknown."""

    def without_queues(rows):
        words = replay.words(rows, rows)
        for path in words[-2:]:
            rewrite(path, lambda table: table.drop_columns(["queue"]))
        return words

    assert pair(capsys, *without_queues(columns()))["corrected"] is not None
    words = without_queues(in_bursts(4))
    assert pair(capsys, *words)["corrected_unknown"] == f"trial A: {NO_QUEUE}"
    assert pair(capsys, *words, "--burst-error", "1us")["corrected"]["kappa_hi"] > 0
