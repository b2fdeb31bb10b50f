"""Searches for the highest rate and the longest burst without loss: simulated, and with the real programs."""

import itertools
import json
import os
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from acapella_testing import c_programs
from acapella_testing.capture import impaired_path, veth
from acapella_testing.capture.commands import ACAPELLA
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable, run
from acapella_testing.waiting import wait_until

from acapella.cli.main import main
from acapella_capture.generate import model as generator_model
from acapella_capture.generate import program as generator_program
from acapella_capture.monitor import command, expected, finished, program, result, tables, text, trials, virtual
from acapella_capture.monitor.search import Trial, highest, line_pps, longest_burst, repeat_until_reached, rows
from acapella_capture.testbeds import local
from acapella_core.errors import UserError

MAX_PPS = 1_000_000.0


@pytest.fixture
def no_senders(tmp_path, monkeypatch) -> list[trials.Link]:
    """Replace the generators of trials; provide the links for which they would have been started."""
    links: list[trials.Link] = []
    stub = Namespace(on_event=None, close=lambda: None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(trials, "Senders", lambda link, *_: links.append(link) or stub)
    return links


def device(capacity_pps: float, queue: int = 0):
    """Return a function that runs a trial of one second on a device with this capacity and this queue (packets)."""

    def trial(rate_pps: float) -> Trial:
        offered = int(rate_pps)
        return Trial(offered, max(0, offered - int(capacity_pps) - queue), rate_pps)

    return trial


@pytest.mark.parametrize("capacity", [1000.0, 123_456.0, 999_999.0])
def test_highest_rate_without_loss_is_the_capacity(capacity):
    found = highest(device(capacity), 100, MAX_PPS, 50)
    assert capacity - 50 <= found.value <= capacity + 1
    assert found.trial.good
    assert all(trial.lost == 0 for value, trial in found.trials if value <= found.value)


@pytest.mark.parametrize("near", [0, 100, 150, 40_000, 123_400, 123_456, 123_500, 500_000, MAX_PPS, 2 * MAX_PPS])
@pytest.mark.parametrize("capacity", [99.0, 100.0, 123_456.0, MAX_PPS])
def test_search_near_an_estimate_finds_the_capacity(capacity, near):
    found = highest(device(capacity), 100, MAX_PPS, 50, near)
    tried = [value for value, _ in found.trials]
    assert len(tried) == len(set(tried))
    assert all(100 <= value <= MAX_PPS for value in tried)
    if capacity < 100:
        assert (found.value, found.trial) == (None, None)
        assert 100 in tried
        return
    assert capacity - 50 <= found.value <= capacity + 1
    assert found.trial.good
    assert found.value == MAX_PPS or any(found.value < value <= found.value + 50 for value in tried)
    assert found.limit == ("range" if capacity == MAX_PPS else "loss")


def test_exact_estimate_needs_two_trials():
    assert [value for value, _ in highest(device(300_049.0), 100, MAX_PPS, 50, 300_000).trials] == [300_000, 300_050]


def test_line_rate_needs_no_search():
    found = highest(device(2 * MAX_PPS), 100, MAX_PPS, 50)
    assert (found.value, len(found.trials)) == (MAX_PPS, 1)


def test_loss_at_the_lowest_rate_gives_no_result():
    found = highest(device(10), 100, MAX_PPS, 50)
    assert (found.value, found.trial, len(found.trials)) == (None, None, 2)


@pytest.mark.parametrize(
    ("capacity", "generator", "limit"),
    [
        (300_000.0, MAX_PPS, "loss"),
        (MAX_PPS, 300_000.0, "generator"),
        (MAX_PPS, MAX_PPS, "range"),
        (400_000.0, 500_000.0, "loss"),
    ],
)
def test_result_names_its_limit(capacity, generator, limit):
    found = highest(lambda pps: replace(device(capacity)(pps), reached=pps <= generator), 100, MAX_PPS, 1000)
    assert found.limit == limit
    assert [row["limit"] for row in rows([(1, 60, "none", "throughput", found)], 1) if row["limit"]] == [limit]


@pytest.mark.parametrize(("lost", "shown"), [(1, "none is loss-free"), (0, "not reached by the generator")])
def test_search_without_a_result_names_the_reason(lost, shown):
    found = highest(lambda pps: Trial(100, lost if pps < MAX_PPS else 1 - lost, pps, reached=False), 100, MAX_PPS, 1000)
    assert found.limit is None
    assert shown in text.search_lines(list(rows([(1, 60, "none", "throughput", found)], 1)))[1]


@pytest.mark.parametrize("max_length", [1, 7, 64, 1000])
@pytest.mark.parametrize("buffer", [0, 1, 63, 64, 2000])
def test_longest_burst_fills_the_buffer(max_length, buffer):
    assert longest_burst(lambda length: Trial(length, max(0, length - buffer), MAX_PPS), max_length).value == (
        min(buffer, max_length) or None
    )


@pytest.mark.parametrize(("failures", "runs"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_trial_whose_rate_the_generator_did_not_reach_is_repeated(failures, runs):
    done = [Trial(10, 0, 5.0, reached=number >= failures) for number in range(10)]
    remaining = iter(done)
    assert repeat_until_reached(lambda: next(remaining)) is done[runs - 1]


@pytest.mark.parametrize(("packets", "last_ns", "is_good"),
                         [(100, 99_000_000, True), (100, 110_000_000, False), (50, 49_000_000, False)])  # fmt: skip
def test_trial_is_good_if_all_packets_were_sent_at_the_rate(packets, last_ns, is_good):
    sent = {"packets": packets, "dropped": 0, "first_ns": 0, "last_ns": last_ns}
    times = dict.fromkeys(("latency_min_ns", "latency_mean_ns", "latency_max_ns", "jitter_ns"))
    assert (
        trials.trial_of(expected.ExpectedFlows((sent,), "0" * 64, 1), {"lost": 0} | times, 1000.0, 100).good is is_good
    )


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.usefixtures("no_senders")
def test_packets_in_the_generator_queue_are_not_lost(tmp_path, monkeypatch, drained):
    lost, limit, shown = (100, "loss", "none is loss-free") if drained else (None, "generator", "not reached by the")
    times = dict.fromkeys(("error_median_ns", "error_p99_ns", "error_largest_ns", "clock_error_ns"))
    timing = times | {"ended": "complete", "drained": drained}
    document = traffic.expected([traffic.Flow(100, 10_000)]) | {"output": "interface", "timing": timing}

    def count(_settings, scratch, **_):
        (scratch / "sent-0.json").write_text(json.dumps(document))
        arrays = ((1, result.PORT), (0, result.INTERVAL), (0, result.FLOW))
        counts, intervals, flows = (np.zeros(length, dtype) for length, dtype in arrays)
        return program.RunResult([result.PortResult("in0", counts[0], intervals, flows)], [])

    monkeypatch.setattr(program, "count", count)
    trial = trials.run(trials.Link((("out0", "in0"),), 0.0), 60, 100_000.0, 100)
    assert (trial.offered, trial.lost, trial.reached) == (100, lost, drained)
    found = highest(lambda pps: trial if pps == MAX_PPS else Trial(100, 0, pps), 100, MAX_PPS, MAX_PPS / 2)
    assert found.limit == limit
    table = list(rows([(1, 60, "none", "throughput", highest(lambda _: trial, 100, MAX_PPS, 100))], 1))
    assert shown in text.search_lines(table)[1]
    tables.write(tmp_path, {"monitor_searches": table})
    assert [row["lost"] for row in pq.read_table(tmp_path / "monitor_searches.parquet").to_pylist()] == [lost, lost]


def test_rows_mark_the_result():
    found = highest(device(300_000.0), 100, MAX_PPS, 1000)
    table = list(rows([(1, 60, "none", "throughput", found)], 1))
    assert [row["value"] for row in table if row["result"]] == [found.value]
    assert [row["trial"] for row in table] == list(range(len(found.trials)))


def test_line_rate_includes_fcs_preamble_and_gap():
    assert round(line_pps(10e9, 60)) == 14_880_952


def test_trial_model_is_valid_for_the_generator(tmp_path):
    path = write_file(tmp_path / "model.yaml", json.dumps(trials.model(60, 12_345.4, 100)))
    (flow,) = generator_model.read(path, lambda _: ()).flows
    assert flow.packets == 100


GENERATOR = """#!/bin/sh
trap 'rm "$DIRECTORY/scratch"; exit 143' TERM
touch "$DIRECTORY/scratch"
while :; do sleep 0.05; done
"""


@pytest.fixture
def sender_of(tmp_path, monkeypatch):
    """Return a function that starts a script as the generator of a trial."""

    def start(script: str) -> trials.Senders:
        monkeypatch.setattr(sys, "executable", str(executable(tmp_path / "acapella", script).with_name("python")))
        return trials.Senders(trials.Link((("out0", "in0"),), 0.0), tmp_path, 60)

    return start


def test_terminated_generator_removes_its_files(tmp_path, monkeypatch, sender_of):
    monkeypatch.setenv("DIRECTORY", str(tmp_path))
    sender = sender_of(GENERATOR)
    sender.on_event({"event": "listening"})
    wait_until((tmp_path / "scratch").exists)
    sender.close()
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("status", [2, 75])
def test_failed_generator_ends_the_search_with_its_status(sender_of, status):
    sender = sender_of(f"#!/bin/sh\necho 'acapella: error: no memory' >&2\nexit {status}\n")
    with pytest.raises(UserError, match="acapella generate: no memory") as raised:
        wait_until(lambda: sender.on_event({}))
    sender.close()
    assert raised.value.outside is (status == 75)


class Device:
    """A device whose capacity depends on the size, and that fails with an error at trial ``fails_at``."""

    def __init__(self, fails_at: int | None = None, error: BaseException | None = None):
        self.trials: list[tuple] = []
        self._fails_at, self._error = fails_at, error

    def run(self, link, frame_bytes: int, rate_pps: float, packets: int) -> Trial:
        if len(self.trials) == self._fails_at:
            raise self._error
        self.trials.append((len(link.pairs), link.snaplen, frame_bytes, rate_pps, packets))
        capacity = 1e8 / (frame_bytes + 100) / (1 + (link.snaplen is not None)) / len(link.pairs)
        return replace(device(capacity)(rate_pps), latency_mean_ns=1 / 3)


@pytest.fixture
def search(tmp_path, monkeypatch):
    """Return a function that runs `acapella monitor --search` on a Device."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name, module in (("monitor", program), ("generate", generator_program)):
        file = write_file(tmp_path / name, "code 1")
        monkeypatch.setattr(module, "executable", lambda file=file: str(file))
    words = ["monitor", "--search", "--with-capture", "--max-rate", "1000000", "--resolution", "10000",
             "--frame-bytes", "60", "508", "--burst-packets", "9", "-o", str(tmp_path / "tables"),
             *(word for at in "01" for word in ("--send", f"out{at}", "-i", f"in{at}"))]  # fmt: skip

    def run(tested: Device, *options: str) -> int:
        monkeypatch.setattr(trials, "run", tested.run)
        return main([*words, "--trial-seconds", "0.01", *options])

    return run


def table_of(directory: Path) -> list[dict]:
    """Return the rows of the table of searches; none if it does not exist."""
    path = directory / "tables" / "monitor_searches.parquet"
    return pq.read_table(path).to_pylist() if path.exists() else []


ERRORS = ((UserError("no memory", outside=True), 75), (UserError("broken"), 2), (KeyboardInterrupt(), 130))


def count_searches(table: list[dict]) -> int:
    """Return the number of searches in a table."""
    return len({tuple(row[name] for name in ("ports", "frame_bytes", "capture", "measure")) for row in table})


def test_search_that_ends_early_keeps_its_results_and_resumes(tmp_path, search, capsys):
    """The search ends early and is resumed once for each error."""
    uninterrupted, tried = Device(), []
    assert search(uninterrupted) == 0
    wanted = table_of(tmp_path)
    assert count_searches(wanted) == wanted[0]["searches"] == 2 * 2 * 3 * 2  # ports, sizes, captures, measures
    assert not (tmp_path / "tables" / finished.NAME).exists()
    for number, (error, code) in enumerate(ERRORS, 1):
        capsys.readouterr()
        part = Device(len(uninterrupted.trials) // 4, error)
        assert search(part) == code
        tried += part.trials
        rows = table_of(tmp_path)
        assert 0 < len(rows) <= len(tried)
        assert rows == wanted[: len(rows)]
        assert 0 < count_searches(rows) < rows[0]["searches"]
        out, err = capsys.readouterr()
        assert err.splitlines()[-2:] == [
            f"monitor: finished trials: {len(tried)}; run the command again to continue the search",
            "acapella: stopped" if code == 130 else f"acapella: error: {error}",
        ]
        assert number == 1 or "508 B" in out
        assert ("monitor: continuing the search of an earlier run" in err) == (number > 1)
    rest = Device()
    assert search(rest) == 0
    assert tried + rest.trials == uninterrupted.trials
    assert table_of(tmp_path) == wanted
    assert not (tmp_path / "tables" / finished.NAME).exists()


def test_table_of_an_earlier_search_is_kept_if_a_program_is_missing(tmp_path, search, monkeypatch):
    assert search(Device()) == 0
    before = table_of(tmp_path)
    monkeypatch.setattr(generator_program, "executable", Mock(side_effect=UserError("not built")))
    assert search(Device()) == 2
    assert table_of(tmp_path) == before != []


@pytest.mark.soak
def test_trials_of_a_different_search_are_not_reused(tmp_path, search, monkeypatch):
    uninterrupted = Device()
    assert search(uninterrupted) == 0
    for change in ("duration", "program", "namespaces", "file", None):
        search(Device(5, UserError("broken")))
        if change == "program":
            (tmp_path / "generate").write_text("code 2")
        if change == "file":
            (tmp_path / "tables" / finished.NAME).write_text("{")
        again = Device()
        with monkeypatch.context() as patch:
            if change == "namespaces":
                patch.setattr(local, "__path__", [str(tmp_path)])  # without the code of the sandbox
            assert search(again, *(["--settle-seconds", "3"] if change == "duration" else [])) == 0
        assert len(again.trials) == len(uninterrupted.trials) - (0 if change else 5), change


def test_search_begins_near_the_previous_result(tmp_path, search):
    assert search(Device(), "--frame-bytes", "60", "508", "1514") == 0
    rows = [row for row in table_of(tmp_path) if row["measure"] == "throughput"]
    for place in itertools.product((1, 2), ("none", "whole", "truncated")):
        searched = [row for row in rows if (row["ports"], row["capture"]) == place]
        results = {row["frame_bytes"]: row["value"] for row in searched if row["result"]}
        first = {row["frame_bytes"]: row["value"] for row in searched if row["trial"] == 0}
        assert (first[508], first[1514]) == (results[60], results[508]), place


def test_space_for_the_packets_is_checked_before_a_search(search, monkeypatch, capsys):
    used = Device()
    monkeypatch.setattr(command.shutil, "disk_usage", lambda _: Namespace(free=2 * 10_000 * (508 + 64) - 1))
    assert (search(used), used.trials) == (75, [])
    (line,) = capsys.readouterr().err.splitlines()
    assert "--with-capture: packets of a trial need up to 0.0 GB" in line
    assert "TMPDIR" in line
    monkeypatch.setattr(command.shutil, "disk_usage", lambda _: Namespace(free=2 * 10_000 * (508 + 64)))
    assert search(used) == 0
    assert search(Device(), "--burst-packets", "10001") == 75


def test_space_is_checked_in_the_namespaces_of_the_search(tmp_path, monkeypatch):
    """The namespaces may have different file systems."""
    calls = []
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(virtual, "entered", lambda: True)
    monkeypatch.setattr(virtual, "make_pairs", lambda _: calls.append("namespaces") or (("send0", "receive0"),))
    monkeypatch.setattr(command.shutil, "disk_usage", lambda _: calls.append("space") or Namespace(free=0))
    assert main(["monitor", "--search", "--virtual", "1", "--max-rate", "500", "--with-capture"]) == 75
    assert calls == ["namespaces", "space"]


@pytest.mark.parametrize(("max_rate", "resolution", "rate_pps"), [(5000.0, None, 50), (20.0, None, 1), (20.0, 4.0, 4)])
def test_lowest_rate_is_one_that_the_generator_sends(max_rate, resolution, rate_pps):
    lowest = command.lowest(Namespace(max_rate=max_rate, resolution=resolution))
    assert lowest == trials.model(60, lowest, 2)["flows"][0]["gaps"]["packets_per_s"] == rate_pps


def test_ports_are_in_the_order_of_the_monitor(monkeypatch, no_senders):
    pairs = (("0000:01:00.0", "0000:01:00.1"), ("eth0", "eth1"), ("01:00.2", "01:00.3"), ("net_tap0", "net_tap1"))
    receiving = []

    def count(settings, *_, **__):
        receiving.extend(settings.interfaces)
        raise UserError("seen")

    monkeypatch.setattr(program, "count", count)
    with pytest.raises(UserError, match="seen"):
        trials.run(trials.Link(pairs, 0.0), 60, 100.0, 10)
    assert receiving == ["eth1", "net_tap1", "0000:01:00.1", "01:00.3"]
    assert [port for port, _ in no_senders[0].pairs] == ["eth0", "net_tap0", "0000:01:00.0", "01:00.2"]


@pytest.fixture
def search_process(tmp_path):
    """Return a function that runs a search for packets of 60 bytes, after a command prefix.

    Runs the programs built without sanitizers, because they start faster; test_monitor_ports.py runs the others.
    """
    names = ("acapella-monitor", "acapella-dpdk-generate")
    built = [str(c_programs.built_or_skip(name, c_programs.PLAIN).parent) for name in names]
    path = os.pathsep.join([*built, os.environ["PATH"]])
    words = ["--trial-seconds", 0.2, "--settle-seconds", 0.2, "--frame-bytes", 60, "--burst-packets", 0]
    words += ["--max-rate", 500, "--resolution", 400, "-o", tmp_path / "tables"]

    def search(*options: object, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        return run(*prefix, ACAPELLA, "monitor", "--search", *words, *options, env=os.environ | {"PATH": path})

    return search


def test_search_over_a_veth_measures_the_rate_and_latency(tmp_path, search_process):
    with veth.namespace(("left0", "right0")) as prefix:
        done = search_process("--send", "left0", "--interface", "right0", "--with-capture", prefix=prefix)
    assert done.returncode == 0, done.stderr
    rows = table_of(tmp_path)
    assert rows[0]["offered"] == 100
    assert {row["capture"] for row in rows} == {"none", "whole", "truncated"}
    assert {row["ports"] for row in rows} == {1}
    assert all(row["latency_min_ns"] <= row["latency_mean_ns"] <= row["latency_max_ns"] for row in rows)
    assert all(row["lost"] == 0 and row["reached"] for row in rows if row["result"])
    assert "60 B" in done.stdout
    assert "monitor: 1 port, 60 B, capture truncated, throughput: " in done.stderr


def test_ports_used_together_share_a_trial():
    idle = Trial(100, 100, 900.0, reached=False)
    busy = Trial(100, 20, 1000.0, latency_min_ns=5, latency_mean_ns=10.0, latency_max_ns=30, jitter_ns=2.0)
    other = Trial(100, 0, 1000.0, latency_min_ns=7, latency_mean_ns=19.0, latency_max_ns=20, jitter_ns=3.0)
    assert trials.combined_trial([(busy, 80), (other, 100)]) == Trial(
        200, 20, 2000.0, latency_min_ns=5, latency_mean_ns=15.0, latency_max_ns=30, jitter_ns=3.0
    )
    assert trials.combined_trial([(busy, 80), (idle, 0)]).reached is False
    assert trials.combined_trial([(busy, 80), (replace(idle, lost=None), 0)]).lost is None
    assert trials.combined_trial([(idle, 0)]) == idle


@pytest.mark.soak
def test_search_with_two_pairs_also_sends_to_both_at_once(tmp_path, search_process):
    done = search_process("--virtual", 2)
    assert done.returncode == 0, done.stderr
    rows = table_of(tmp_path)
    assert [row["offered"] for row in rows if row["trial"] == 0] == [100, 200]
    assert [row["ports"] for row in rows if row["trial"] == 0] == [1, 2]
    assert all(row["lost"] == 0 for row in rows if row["result"])


@pytest.mark.soak
def test_pairs_that_receive_each_others_packets_are_an_error(search_process):
    """A bridge floods packets to an unknown address."""
    pairs = [(end, f"bridged-{end}") for end in ("left0", "right0", "left1", "right1")]
    with veth.namespace(*pairs) as prefix:
        lines = ["add bridge0 type bridge", "set bridge0 addrgenmode none", "set bridge0 up"]
        for line in (*lines, *(f"set {port} master bridge0" for _, port in pairs)):
            impaired_path.run(prefix, "ip", "link", *line.split())
        done = search_process("--send", "left0", "-i", "right0", "--send", "left1", "-i", "right1", prefix=prefix)
    assert "monitor: 1 port, 60 B, capture none, throughput: " in done.stderr
    assert done.returncode == 2
    assert "receives duplicates, or packets of a different pair" in done.stderr


@pytest.mark.parametrize(
    "options",
    [["--send", "a"], ["--send", "a", "-i", "b", "-i", "c"], ["--send", "a", "-i", "b", "--virtual", "1"], []],
)
def test_ports_of_a_search_must_be_pairs(options, capsys):
    assert main(["monitor", "--search", "--max-rate", "500", *options]) == 2
    assert "--send" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(([*options], f"{options[0]} has no effect with --search") for options in (
            ("--rule", "udp,*,*,*,*"), ("--correct-drift",), ("--packets", "a.parquet"), ("--max-flows", "9"),
            ("--window", "1024"), ("--flows", "0"),
        )),
        (["--snaplen", "64"], "--snaplen needs --with-capture"),
        (["--with-capture", "--snaplen", "0"], "--snaplen 0: --with-capture compares"),
    ],
)  # fmt: skip
def test_option_without_effect_on_a_search_is_an_error(tmp_path, options, message, capsys):
    output = ("-o", str(tmp_path / "tables"))
    assert main(["monitor", "--search", "--max-rate", "500", "--send", "a", "-i", "b", *output, *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(([*options], f"{options[0]} needs --search") for options in (
            ("--virtual", "2"), ("--send", "a"), ("--max-rate", "5"), ("--with-capture",), ("--frame-bytes", "60"),
            ("--trial-seconds", "9"), ("--settle-seconds", "2"), ("--burst-packets", "0"),
        )),
        (["--snaplen", "0"], "--snaplen needs --write"),
        (["--expected", "a.json", "--max-flows", "9"], "--max-flows: the file of --expected contains the flows"),
    ],
)  # fmt: skip
def test_option_without_effect_on_counts_is_an_error(tmp_path, options, message, capsys):
    assert main(["monitor", "-i", "absent0", "-o", str(tmp_path / "tables"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()
