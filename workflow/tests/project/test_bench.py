"""The arithmetic and the command line of the benchmark program. No test depends on a measured time."""

import contextlib
import itertools
import json
import os
import random
import re
import sys
from collections import defaultdict
from types import SimpleNamespace

import numpy
import pytest
from acapella_bench import __main__ as main
from acapella_bench import analysis, disk, hybrid, native, programs, table
from acapella_bench.plain import collector as plain_collector
from acapella_bench.plain import kappa as plain_kappa
from acapella_bench.sending import replay_senders as senders
from acapella_bench.sending import veth, writer
from acapella_testing.collector_input import BASE, KEY, NUMBER, SLOTS, reports
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.report_frames import pcap
from acapella_testing.frames.trial_frames import disturbed, sent
from acapella_testing.native_programs import ROOT
from acapella_testing.oracles import naive_kappa
from acapella_testing.oracles.plain_collector import Pair, Plain
from acapella_testing.requirements import require


def measured(cpu_s: float, wall_s: float = 10.0, stdout: bytes = b""):
    return programs.Measured(wall_s, cpu_s, 100.0, stdout)


@pytest.fixture
def bench(tmp_path):
    """Return a benchmark that works in the temporary directory."""
    return programs.Bench.of(main.parse([]), tmp_path)


def test_shares_of_the_stages_add_up_to_the_total():
    rows = native.rows_of(10_000_000, measured(0.5), measured(8.5), {"read_s": 1.0, "dissect_s": 3.0, "digest_s": 5.0})
    shares = {row["measured"]: row["value"] for row in rows if row["measured"].startswith("share of")}
    assert sum(shares.values()) == pytest.approx(100)
    assert shares["share of writing"] == pytest.approx(100 * 3 / 8)


def test_table_aligns_values_and_shows_goals():
    rate = {"measured": "rate", "value": 1234567, "unit": "frames/s", "goal": ">= 5"}
    assert table.of([rate, {"measured": "share", "value": 12.345, "unit": "%", "note": "of it"}]).splitlines() == [
        "  rate   1,234,567 frames/s  >= 5",
        "  share      12.35 %               of it",
    ]


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (">= 8,000,000", 8_000_000, True),
        (">= 8,000,000", 7_999_999.5, False),
        ("<= 10", 10.5, False),
        ("< 300 for 100 million frames, 2 cores", 299.0, True),
        ("< 300", 300, False),
        (">= 2,500,000, aim 5,000,000", 2_500_000, True),
        ("0", 0, True),
        ("0", 1, False),
        (">= 80", None, False),
        ("aim 5,000,000", 1, None),
        ("at most twice the first", 1, None),
        ("", 1, None),
    ],
)
def test_goals_are_met_or_missed(goal, value, met):
    (row,) = table.checked([{"measured": "rate", "value": value, "goal": goal, "note": "of it"}])
    assert row.get("met") is met
    assert row["note"] == {True: "met; of it", False: "MISSED; of it", None: "of it"}[met]


def test_missed_goal_sets_the_exit_code(tmp_path, monkeypatch, capsys):
    rows = [{"measured": "rate", "value": 1, "goal": ">= 2"}]
    monkeypatch.setattr(main, "BENCHMARKS", {"kappa": (lambda _: rows, "a floor")})
    arguments = ["kappa", "--work", str(tmp_path), "--output", str(tmp_path / "results.json")]
    assert main.main(arguments) == 1
    assert capsys.readouterr().err == "missed: kappa: rate\n"
    assert main.main([*arguments, "--scale", "small"]) == 0


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), None), (programs.Failed("sh: it broke"), 1)])
def test_rows_measured_before_an_interruption_or_error_are_kept(tmp_path, monkeypatch, capsys, stop, code):
    def run(_):
        yield {"measured": "rate", "value": 3, "goal": ">= 2"}
        raise stop

    monkeypatch.setattr(main, "BENCHMARKS", {"kappa": (run, "a floor")})
    saved = tmp_path / "results.json"
    with contextlib.nullcontext() if code else pytest.raises(KeyboardInterrupt):
        assert main.main(["kappa", "--work", str(tmp_path), "--output", str(saved)]) == code
    assert "rate" in capsys.readouterr().out
    assert json.loads(saved.read_text())["results"]["kappa"][0]["met"] is True


def test_peak_memory_of_acapella_and_of_tshark_are_separate_rows():
    output = b'acapella: something\n{"own_kib": 2048, "children_kib": 3072}\n'
    ours, theirs = hybrid.peak_rows("hybrid", output, "< 512")
    assert (ours["value"], ours["goal"]) == (2.0, "< 512")
    assert (theirs["measured"].strip(), theirs["value"]) == ("its largest child", 3.0)
    assert len(hybrid.peak_rows("native", b'{"own_kib": 2048, "children_kib": 0}', "< 512")) == 1


def test_peak_memory_of_a_digest_excludes_its_children(bench):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = b\"x\" * (200 << 20)'], check=True); "
    code += "from acapella_bench import peak; from acapella.cli import main; main.main = lambda argv: 0; peak.main([])"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "bench")}
    memory = json.loads(bench.measure([sys.executable, "-c", code], keep=True, env=environment).stdout)
    assert 0 < memory["own_kib"] < 200 << 10 < memory["children_kib"]


def test_unknown_benchmark_is_rejected(capsys):
    with pytest.raises(SystemExit) as ended:
        main.parse(["nosuch"])
    assert ended.value.code == 2
    assert "unknown benchmark: nosuch" in capsys.readouterr().err


def test_failed_program_error_has_its_name_and_last_line(bench):
    with pytest.raises(programs.Failed, match="sh -c: it broke"):
        bench.measure(["sh", "-c", "echo first >&2; echo it broke >&2; exit 3"])


def test_measured_run_has_its_output_and_peak_memory(bench):
    run = bench.measure(["sh", "-c", "echo out"], keep=True)
    assert run.stdout == b"out\n"
    assert run.peak_mib > 0


def test_samples_of_a_site_are_consecutive():
    first, later = analysis.Sample(3, 10), analysis.Sample(13, 10)
    assert first.site == later.site
    assert first.name != later.name
    assert later.start_ns - first.start_ns == analysis.SAMPLE_GAP_NS


def account(offered: int, refused: int, written: int, full: int = 0) -> dict:
    """Return the accounts of a run of the DPDK writer with its generator."""
    generator = {"frame_bytes": 1000, "seconds": 2.0, "offered": offered, "refused": refused, "left": 3, "behind": 0}
    frames = {"written": written, "written_bytes": written * 216, "dropped": {"writer_full": full, "write_error": 0}}
    times = {"queues": [{"cpu_ns": 1_500_000_000}], "begin_ns": 0, "end_ns": 2_500_000_000}
    return {"generator": generator, "frames": frames, **times}


def test_offered_frames_equal_written_plus_lost_frames():
    point = writer.point_of(account(8_000_000, 1_000_000, 6_999_990, full=7))
    assert point.lost == 1_000_010
    assert point.rate == 4_000_000
    assert point.row() == [1000, 4.0, 32.0, 1, 8_000_000, 6_999_990, 1_000_010, pytest.approx(12.500125)]
    with pytest.raises(programs.Failed, match="do not add up"):
        writer.point_of(account(8_000_000, 1_000_000, 6_999_990))


def test_published_tables_match_the_stored_facts():
    facts, published = ROOT.parent / "shared" / "facts" / "patchwork_numbers.csv", defaultdict(list)
    require(facts.exists(), f"no {facts}: the published numbers are not next to the project")
    row = r"^T\d\w,(\d+)B (\d+)B (\d+)Gbps (\d+) cores loss,([\d.]+),%"
    for snaplen, *numbers in re.findall(row, facts.read_text(encoding="utf-8"), re.M):
        published[int(snaplen)].append([float(number) for number in numbers])
    assert published
    assert all(writer.paper_rows(snaplen) == rows for snaplen, rows in published.items())


def test_disk_speed_is_unknown_without_fio(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert disk.speed(tmp_path, 1) == disk.Speed(0, "not measured: fio is not installed; apt-get install fio")


@pytest.mark.parametrize(
    ("written", "limit", "highest"),
    [([1000], "sender", 500), ([900, 800], "receiver", 400), ([900, 799], "receiver", 0)],
)
def test_sender_is_the_limit_if_nothing_is_lost_at_its_highest_rate(written, limit, highest):
    points = [veth.Point("direct", 128, 2.0, offered, got) for offered, got in zip((1000, 800), written, strict=False)]
    row = veth.row_of(points)
    assert (row["limited_by"], row["value"]) == (limit, highest)
    assert all(point["offered"] == point["written"] + point["lost"] for point in row["sweep"])


def test_sweep_reports_its_highest_lossless_rate_and_the_loss_at_the_goal():
    sweep = [account(80_000_000, 70_000_000, 9_999_997), account(10_000_000, 999_997, 9_000_000)]
    sweep += [account(8_000_003, 0, 8_000_000), account(6_000_000, -3, 6_000_000)]
    row = writer.row_of("sink", 200, [writer.point_of(each) for each in sweep])
    assert (row["value"], row["without_loss"]) == (3_999_999, 3_000_000)
    assert row["note"] == "without loss up to 3.00 Mpps; 10.00 % loss at 5.00 Mpps; 6.67 million frames per CPU second"
    assert [point["lost"] for point in row["sweep"]] == [70_000_003, 1_000_000, 3, 0]


# The programs with which benchmarks compare the core (acapella_bench.plain) agree with the tests' references.
@pytest.mark.parametrize("size", range(1, 7))
def test_plain_kappa_moves_the_same_packets_as_the_naive_reference(size):
    for ranks in itertools.permutations(range(size)):
        moved, inversions = plain_kappa.order(list(ranks))
        assert sorted(moved) == sorted(naive_kappa.moved(list(ranks)))
        assert inversions == naive_kappa.inversions(list(ranks))


@pytest.mark.parametrize("seed", range(5))
def test_plain_kappa_equals_the_naive_reference(tmp_path, seed):
    draw = random.Random(seed)
    packets = sent(150, draw, kinds=120)
    trials = {"a.pcap": packets, "b.pcap": disturbed(packets, draw)}
    paths = [write_pcap(tmp_path / name, trial) for name, trial in trials.items()]
    (a, counts_a), (b, counts_b) = map(plain_kappa.read, paths)
    plain = plain_kappa.compare(a, b)
    naive = naive_kappa.compare(*naive_kappa.read_trials([[path] for path in paths]))
    for name in ("n_a", "n_b", "n_common", "offset_ns", "duration_a_ns", "duration_b_ns"):
        assert plain[name] == naive[name], name
    assert (counts_a["ambiguous"], counts_b["ambiguous"]) == (naive["ambiguous_a"], naive["ambiguous_b"])
    assert counts_a["ambiguous"] > 0
    for name in ("median", "p99", "largest"):
        assert plain["latency"][name] == naive["latency_delta_ns"][name], name
        assert plain["gap"][name] == naive["iat_delta_ns"][name], name
    assert plain["moves"]["count"] == naive["moves"]["count"] > 10
    for name in ("count", "longest"):
        assert plain["bursts"][name] == naive["bursts"][name]


def test_plain_collector_equals_the_reference():
    frames, reference = reports(30), Plain([Pair(NUMBER, KEY, BASE, SLOTS, 5)])
    for frame in frames:
        reference.frame(frame)
    plain = plain_collector.collect("default", pcap(frames))
    assert len(plain) == 3
    assert [flow[:3] for flow in plain] == [(flow.newest[1], *flow.size()) for flow in reference.flows.values()]
    assert plain_collector.collect("default", pcap([*frames[:-1], frames[-1][:-1] + b"?"])) != plain


def test_gap_errors_and_drift_are_computed_from_arrival_times(tmp_path):
    capture = senders.constant_gaps(tmp_path, 100, 0.001)
    assert list(numpy.diff(capture.times)) == [100_000] * 9
    assert capture.path.stat().st_size == capture.bytes
    late = capture.times + 10**9
    late[[5, 9]] += (700, 90)  # both gaps of packet 5 change
    found = senders.errors_of(capture.times, late)
    assert (found.median, found.p99, found.largest, found.lost) == (0, 700, 700, 0)
    assert found.drift_ppm == pytest.approx(100)
    assert senders.errors_of(capture.times, late[1:]).lost == 1


def test_arrival_error_excludes_outliers():
    times = numpy.arange(20_000, dtype=numpy.int64) * 10**6
    errors = numpy.random.default_rng(1).normal(0, 200, len(times)).astype(numpy.int64)
    errors[::100] += 10**5
    found = senders.errors_of(times, times + errors)
    assert senders.arrival_error_ns(found) == pytest.approx(200, rel=0.05)
    rms = float(numpy.sqrt(numpy.mean(numpy.square(errors - errors.mean()))))
    rows = {row["measured"]: row["value"] for row in senders.arrival_rows(found)}
    assert rows["root mean square of arrival timestamps"] == pytest.approx(rms, rel=0.05), "includes the outliers"
    assert rows["standard deviation of arrival timestamps"] < rms / 40


@pytest.mark.parametrize(("noise", "goal"), [(15, "<= 40"), (25, "<= 50")])
def test_goal_of_the_replayer_is_a_fifth_of_tcpreplay_or_twice_the_noise(noise, goal):
    times, jitter = numpy.arange(5) * 1000, numpy.array([0, 1, 0, 1, 0])
    veth = SimpleNamespace(send=lambda words, capture: senders.Sent(times + jitter * words, None, None))
    programs = {senders.OURS: lambda *_: 30, "tcpreplay, nano": lambda *_: 200, senders.PLAIN: lambda *_: 10}
    floor = senders.Errors(noise, noise, noise, 0, 0.0)
    rows = senders.gap_rows(veth, senders.Capture("gaps", None, times, 0), programs, floor)
    assert [row["value"] for row in rows] == [30, 200, 10]
    assert (rows[0]["goal"], [row.get("goal") for row in rows[1:]]) == (goal, [None, None])
