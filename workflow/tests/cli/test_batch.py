"""Tests `acapella campaign batch`: crashes, signals, and what the next run skips."""

import atexit
import errno
import faulthandler
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.generated.digests import write_manifest
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.waiting import wait_until

from acapella.campaign.batches import (
    STAGES,
    Journal,
    Member,
    current_file,
    extended,
    groups,
    locked,
    outputs_of,
    read_current,
    read_failures,
    read_plan,
    write_plan,
)
from acapella.campaign.layout import Campaign
from acapella.cli import batch, entry
from acapella.cli import main as cli
from acapella.common import queries
from acapella_core.errors import OUTSIDE
from acapella_core.shards import shard_of

SAMPLES = ("s0", "s1", "s2")
TIMEOUT_S = 60
# Runs the command in its arguments; sample s1 prints its process id and sleeps.
SLEEPER = """
import sys, time, os
from acapella.cli import entry, main
original = entry.main
def sleep_or_run():
    if "--port=s1" in sys.argv:
        print(os.getpid(), flush=True)
        time.sleep(600)
    return original()
entry.main = sleep_or_run
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.fixture
def campaign(tmp_path) -> Path:
    """Return a campaign with a plan of one batch; the port of each sample has its name."""
    captures = {name: str(write_pcap(tmp_path / f"{name}.pcap", busy_port())) for name in SAMPLES}
    directory = new_directory(tmp_path / "results")
    write_plan(directory, [Member("b0001", name, "site", name, capture) for name, capture in captures.items()])
    return directory


def words(campaign: Path, *options: str) -> list[str]:
    """Return the arguments that digest the batch."""
    output = campaign / "batches" / "digest" / "b0001.tsv"
    return ["campaign", "batch", str(campaign), "digest", "b0001", "-o", str(output), "--", "--engine=native", *options]


def outcomes(campaign: Path) -> list[str]:
    """Return the outcomes of the samples."""
    return column(campaign / "batches" / "digest" / "b0001.tsv", 1)


def column(path: Path, number: int) -> list[str]:
    """Return a column of a .tsv file."""
    return [line.split("\t")[number] for line in path.read_text().splitlines()[1:]]


def failures(campaign: Path) -> dict[str, int]:
    """Return the exit codes of the failed samples."""
    return read_failures(campaign / "logs" / "batches" / "digest" / "b0001.failed.tsv")


def end_by(number: int) -> None:
    """Send a signal to this process, without the message of pytest."""
    faulthandler.disable()
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGSEGV, 139), (signal.SIGKILL, 137)])
def test_crash_of_a_sample_does_not_affect_the_others(campaign, monkeypatch, number, code):
    original = entry.main

    def crash_or_run():
        if "--port=s1" in sys.argv:
            end_by(number)
        return original()

    monkeypatch.setattr(batch.entry, "main", crash_or_run)
    assert cli.main(words(campaign)) == code
    assert failures(campaign) == {"s1": code}
    assert sorted(path.stem for path in (campaign / "acap").glob("*/*")) == ["s0", "s2"]
    assert not (campaign / "batches" / "digest" / "b0001.tsv").exists()
    monkeypatch.undo()
    assert cli.main(words(campaign)) == 0
    assert outcomes(campaign) == ["kept", "done", "kept"] and failures(campaign) == {}


def test_exit_handlers_of_the_batch_do_not_run_in_its_forks(campaign, capfd):
    atexit.register(print_end := lambda: os.write(1, b"the batch ends\n"))
    try:
        assert cli.main(words(campaign)) == 0
    finally:
        atexit.unregister(print_end)
    assert "the batch ends" not in capfd.readouterr().out
    assert not any("the batch ends" in path.read_text() for path in (campaign / "logs" / "digest").glob("*/*"))


def test_exit_code_of_several_failures_is_the_smallest(campaign):
    (campaign.parent / "s0.pcap").unlink()
    damaged = campaign.parent / "s1.pcap"
    damaged.write_bytes(damaged.read_bytes() + b"\xff" * 100)
    assert cli.main(words(campaign)) == 1
    assert failures(campaign) == {"s0": 2, "s1": 1}


@pytest.mark.parametrize(("damage", "code"), [(b"\xff" * 100, 1), (None, 2)], ids=["damaged capture", "no capture"])
def test_failed_sample_has_no_output_not_even_an_earlier_one(campaign, damage, code):
    assert cli.main(words(campaign)) == 0
    capture = campaign.parent / "s1.pcap"
    if damage:
        capture.write_bytes(capture.read_bytes() + damage)
    else:
        capture.unlink()
    assert cli.main(words(campaign)) == code
    for kind in ("acap", "flows"):
        assert sorted(path.stem for path in (campaign / kind).glob("*/*")) == ["s0", "s2"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_stopped_batch_ends_its_sample_and_keeps_complete_ones(campaign, number, code):
    running = subprocess.Popen([sys.executable, "-c", SLEEPER, *words(campaign)], start_new_session=True)
    log = campaign / "logs" / "digest" / shard_of("s1") / "s1.log"
    wait_until(lambda: log.is_file() and log.read_text().endswith("\n"), running=running)
    sample = Path(f"/proc/{int(log.read_text())}")
    running.send_signal(number)
    assert running.wait(TIMEOUT_S) == code
    wait_until(lambda: not sample.exists() or " Z " in (sample / "stat").read_text(), "the sample is still processed")
    assert not Campaign.at(campaign).acap("s2").exists()
    assert read_current(current_file(campaign, "digest", "b0001")) == "s1"
    assert cli.main(words(campaign)) == 0
    assert outcomes(campaign) == ["kept", "done", "done"]
    processed = column(campaign / "benchmarks" / "batches" / "digest" / "b0001.samples.tsv", 0)
    assert processed == ["s2", "s1"], "the sample that was interrupted is not the last one"
    assert read_current(current_file(campaign, "digest", "b0001")) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["--memory=100M", "--threads=2", "--damaged=keep", "--progress"], "kept"), (["--max-ratio=9"], "done")],
)
def test_only_options_that_change_the_output_repeat_the_digest(campaign, options, expected):
    assert cli.main(words(campaign)) == 0
    assert cli.main(words(campaign, *options)) == 0
    assert set(outcomes(campaign)) == {expected}


def test_changed_output_is_recreated(campaign):
    assert cli.main(words(campaign)) == 0
    acap = Campaign.at(campaign).acap("s2")
    before = acap.read_bytes()
    acap.write_bytes(before[:-1])
    assert cli.main(words(campaign)) == 0
    assert outcomes(campaign) == ["kept", "kept", "done"] and acap.read_bytes() == before


def test_interrupted_analysis_is_not_complete_with_the_earlier_options(campaign, monkeypatch):
    """The analysis with other options is killed after its first table. The earlier options need all tables again."""
    tables = [campaign / "batches" / "partial" / "b0001" / f"{name}.parquet" for name in queries.names("analyze")]

    def write_tables():
        for path in tables:
            write_file(path, sys.argv[-1])
            if sys.argv[-1] == "--bin-ns=2":
                end_by(signal.SIGKILL)
        return 0

    monkeypatch.setattr(batch.entry, "main", write_tables)
    words = ["campaign", "batch", str(campaign), "analyze", "b0001", "-o", str(campaign / "b0001.tsv"), "--"]
    assert [cli.main([*words, f"--bin-ns={bin_ns}"]) for bin_ns in (1, 2, 1)] == [0, 137, 0]
    assert {path.read_text() for path in tables} == {"--bin-ns=1"}


@pytest.mark.parametrize("lost", queries.names("analyze"))
def test_analysis_without_one_of_its_tables_is_incomplete(campaign, lost):
    outputs = outputs_of(campaign, STAGES["analyze"], read_plan(campaign)[0])
    for path in outputs:
        write_file(path, "table")
    journal = Journal(campaign, "analyze", "b0001")
    journal.add({"s1": "key"}, outputs)
    assert journal.is_complete("s1", "key", outputs)
    (campaign / "batches" / "partial" / "b0001" / f"{lost}.parquet").unlink()
    assert not journal.is_complete("s1", "key", outputs)


def analyze(campaign: Path, **versions: int) -> int:
    """Analyze the batch; return the exit code. ``versions``: versions of queries that are not 1."""
    output = str(campaign / "batches" / "analyze" / "b0001.tsv")
    tables = [f"{name}={versions.get(name, 1)}" for name in queries.names("analyze")]
    return cli.main(["campaign", "batch", str(campaign), "analyze", "b0001", "-o", output, "--tables", *tables, "--"])


def partials(campaign: Path) -> dict[str, list[dict]]:
    """Return the rows of all partial tables of the batch."""
    paths = (campaign / "batches" / "partial" / "b0001").iterdir()
    return {path.stem: pq.read_table(path).to_pylist() for path in sorted(paths)}


def analyzed_samples(campaign: Path) -> list[str]:
    """Return the samples that the last run of the analysis processed."""
    return sorted(column(campaign / "benchmarks" / "batches" / "analyze" / "b0001.samples.tsv", 0))


@pytest.fixture
def digested(campaign) -> Path:
    """Return the campaign with digests and manifests."""
    assert cli.main(words(campaign)) == 0
    for name in SAMPLES:
        write_manifest(campaign, name, ("site", name), status="ok")
    return campaign


def remade_tables(campaign: Path, **versions: int) -> set[str]:
    """Analyze the batch with different versions of queries; return the tables whose files have changed."""
    paths = [*(campaign / "batches" / "partial" / "b0001").iterdir()]
    before = [path.stat().st_mtime_ns for path in paths]
    assert analyze(campaign, **versions) == 0
    return {path.stem for path, time_ns in zip(paths, before, strict=True) if path.stat().st_mtime_ns != time_ns}


@pytest.mark.parametrize("together_bytes", [0, 1 << 30], ids=["one by one", "together"])
def test_changed_query_recreates_only_its_table(digested, monkeypatch, together_bytes):
    monkeypatch.setattr(batch, "TOGETHER_BYTES", together_bytes)
    assert analyze(digested) == 0
    before = partials(digested)
    assert remade_tables(digested) == set() and analyzed_samples(digested) == []
    assert remade_tables(digested, stacks=2, congestion=2) == {"stacks", "congestion"}
    assert analyzed_samples(digested) == [*SAMPLES]
    assert partials(digested) == before
    assert remade_tables(digested, stacks=2, congestion=2) == set()
    os.utime(Campaign.at(digested).acap("s1"))  # now it is analyzed, and a different query has changed for the others
    assert remade_tables(digested, stacks=2, congestion=2, quality=2) == {*queries.names("analyze")}
    assert analyzed_samples(digested) == [*SAMPLES]
    assert partials(digested) == before
    assert remade_tables(digested, stacks=2, congestion=2, quality=2) == set()


@pytest.mark.parametrize("killed", [False, True])
def test_failed_changed_query_recreates_all_tables(digested, monkeypatch, killed):
    """The first attempt leaves a table without rows of some samples."""
    assert analyze(digested) == 0
    before, original = partials(digested), entry.main

    def lose_rows():
        if "--only" not in sys.argv:
            return original()
        path = digested / "batches" / "partial" / "b0001" / "stacks.parquet"
        pq.write_table(pq.read_table(path).slice(1), path)
        if killed:
            end_by(signal.SIGKILL)
        return 2

    monkeypatch.setattr(batch.entry, "main", lose_rows)
    assert remade_tables(digested, stacks=2) == {*queries.names("analyze")}
    assert partials(digested) == before


def test_analysis_of_a_batch_computes_only_missing_results(digested):
    """One acap is damaged: the others are complete. When it is repaired, only this sample is analyzed."""
    campaign, acap = digested, Campaign.at(digested).acap("s1")
    alone, whole = new_directory(campaign / "partial" / "s0"), acap.read_bytes()
    acap.write_bytes(whole[:-10])
    assert analyze(campaign) == 2
    assert read_failures(campaign / "logs" / "batches" / "analyze" / "b0001.failed.tsv") == {"s1": 2}
    assert {row["sample"] for row in partials(campaign)["quality"]} == {"s0", "s2"}
    assert not alone.exists()
    acap.write_bytes(whole)
    assert analyze(campaign) == 0
    assert analyzed_samples(campaign) == ["s1"]
    with_kept = partials(campaign)
    shutil.rmtree(campaign / "batches" / "partial")
    assert analyze(campaign) == 0
    assert analyzed_samples(campaign) == [*SAMPLES]
    assert partials(campaign) == with_kept


def test_failed_group_is_halved_until_the_sample_is_found(digested, monkeypatch):
    """Each fork rewrites all tables, so that analyzing each sample alone would take too long."""
    acap, groups_analyzed, original = Campaign.at(digested).acap("s2"), [], batch.analyze_group
    acap.write_bytes(acap.read_bytes()[:-10])

    def analyze_group(*arguments):
        groups_analyzed.append([*arguments[3]])
        return original(*arguments)

    monkeypatch.setattr(batch, "analyze_group", analyze_group)
    assert analyze(digested) == 2
    assert groups_analyzed == [["s0", "s1", "s2"], ["s0"], ["s1", "s2"], ["s1"], ["s2"]]
    assert {row["sample"] for row in partials(digested)["quality"]} == {"s0", "s1"}


def test_rows_of_a_failed_sample_that_leaves_the_batch_are_removed(digested):
    """Its second analysis fails before it writes a table, so that its earlier rows remain."""
    campaign, plan = digested, read_plan(digested)
    assert analyze(campaign) == 0
    before = partials(campaign)
    Campaign.at(campaign).acap("s1").write_bytes(b"PAR1, but not a table: PAR1")
    assert analyze(campaign) == 2
    assert partials(campaign) == before
    write_plan(campaign, [member for member in plan if member.sample != "s1"])
    assert analyze(campaign) == 0
    rows = {name: [row for row in table if row["sample"] != "s1"] for name, table in before.items()}
    assert partials(campaign) == rows
    assert analyze(campaign) == 0
    assert analyzed_samples(campaign) == [], "the next run does not skip the others"


def test_crash_before_the_journal_leaves_a_sample_in_one_table(digested, monkeypatch):
    """The tables of an analysis without batches are removed before the sample counts as complete."""
    alone = new_directory(digested / "partial" / "s0")

    def crash(*_):
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(batch.Journal, "add", crash)
    assert analyze(digested) == OUTSIDE
    assert not alone.exists()


def test_two_processes_do_not_analyze_a_batch_at_the_same_time(digested, monkeypatch, capsys):
    """A cluster has repeated a job that is still running, and that ends when the second job begins to wait."""
    first, original = locked(digested, "analyze", "b0001"), fcntl.flock
    first.__enter__()

    def flock(stream, operation):
        if operation == fcntl.LOCK_EX:  # waits
            assert not (digested / "batches" / "partial").exists()
            first.__exit__(None, None, None)
        original(stream, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert analyze(digested) == 0
    assert analyze(digested) == 0
    assert capsys.readouterr().err.count("waiting for a different process that runs analyze of batch b0001") == 1
    assert set(partials(digested)) == set(queries.names("analyze"))


def test_samples_of_a_group_have_at_most_its_bytes():
    sizes = {"a": 5, "b": 5, "c": 1, "d": 30, "e": 1}
    assert [*groups([*sizes], sizes, 10)] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert [*groups([], {}, 10)] == []


def test_incomplete_last_line_of_a_journal_is_ignored(campaign):
    assert cli.main(words(campaign)) == 0
    journal = Journal(campaign, "digest", "b0001").path
    journal.write_text(journal.read_text()[:-5])
    assert cli.main(words(campaign)) == 0
    assert outcomes(campaign) == ["kept", "kept", "done"]


def test_batches_are_limited_and_samples_keep_their_batch():
    sizes = {"a": 10, "b": 10, "c": 95, "d": 10, "e": 300, "f": 1}
    first = extended({}, [*sizes], sizes, most=3, most_bytes=100)
    assert first == {"a": "b0001", "b": "b0001", "c": "b0002", "d": "b0003", "e": "b0004", "f": "b0005"}
    later = {"x": "b0006", "f": "b0005", "b": "b0001", "y": "b0006"}
    assert extended(first, [*later], {}, most=3, most_bytes=100) == later
    assert [*extended({}, "abcdefg", {}, most=3, most_bytes=1).values()].count("b0001") == 3
    names = [f"s{number}" for number in range(10_000)]
    stages = 3 * len({*extended({}, names, {}, most=200, most_bytes=1).values()})
    assert stages + len(("samples", "index", "process", "figures", "report", "all")) == 156  # docs/running.md


def test_plan_round_trips(tmp_path):
    members = [Member("b0001", "a", "s\u00fcd", "p 1", "dir/x\ty.pcap", [None, 1, [["filter", "tcp"]]])]
    write_plan(tmp_path, members)
    assert read_plan(tmp_path) == members
