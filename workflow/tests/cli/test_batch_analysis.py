"""Tests stage analyze of `acapella campaign batch`: tables of several samples, and what the next run skips."""

import contextlib
import errno
import fcntl
import mmap
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.batch_campaign import (
    BATCH,
    SAMPLES,
    analyze,
    analyzed_samples,
    kill_itself,
    partials,
    write_campaign,
    write_digests,
)
from acapella_testing.runs.in_process import call_before
from acapella_testing.soak import SOAK

from acapella.campaign.batches import (
    STAGES,
    current_file,
    outputs_of,
    read_current,
    read_failures,
    read_plan,
    write_plan,
)
from acapella.campaign.journal import Journal, locked
from acapella.campaign.layout import Campaign
from acapella.cli import batch_analysis, entry
from acapella.cli import main as cli
from acapella.cli.check import kind_of
from acapella.common import queries
from acapella_core.errors import OUTSIDE


@pytest.fixture
def campaign(tmp_path) -> Path:
    """Return a campaign with a plan of one batch."""
    return write_campaign(tmp_path / "results")


@pytest.fixture
def digested(campaign) -> Path:
    """Return the campaign with digests and manifests."""
    return write_digests(campaign)


def test_interrupted_analysis_is_not_complete_with_the_earlier_options(campaign, monkeypatch):
    """The analysis with other options is killed after its first table. The earlier options need all tables again."""
    tables = [campaign / "batches" / "partial" / "b0001" / f"{name}.parquet" for name in queries.names("analyze")]

    def write_tables():
        for path in tables:
            write_file(path, sys.argv[-1])
            if sys.argv[-1] == "--bin-ns=2":
                kill_itself()
        return 0

    def run(bin_ns: int) -> int:
        words = [campaign, "analyze", BATCH, "-o", campaign / "batches" / "analyze" / f"{BATCH}.tsv"]
        return cli.main(["campaign", "batch", *map(str, words), "--", f"--bin-ns={bin_ns}"])

    monkeypatch.setattr(entry, "main", write_tables)
    assert [run(1), run(2), run(1)] == [0, 137, 0]
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


def remade_tables(campaign: Path, **versions: int) -> set[str]:
    """Analyze the batch with different versions of queries; return the tables whose files have changed."""
    paths = [*(campaign / "batches" / "partial" / "b0001").iterdir()]
    before = [path.stat().st_mtime_ns for path in paths]
    assert analyze(campaign, **versions) == 0
    return {path.stem for path, time_ns in zip(paths, before, strict=True) if path.stat().st_mtime_ns != time_ns}


@pytest.mark.soak
@pytest.mark.parametrize("together_bytes", [0, 1 << 30], ids=["one by one", "together"])
def test_changed_query_recreates_only_its_table(digested, monkeypatch, together_bytes):
    monkeypatch.setattr(batch_analysis, "TOGETHER_BYTES", together_bytes)
    assert analyze(digested) == 0
    files = [path.relative_to(digested) for path in digested.glob("batches/**/*.*") if path.is_file()]
    assert {kind_of(str(path)) for path in files} == {"batches", "partial"}
    before = partials(digested)
    assert remade_tables(digested) == set()
    assert analyzed_samples(digested) == []
    assert remade_tables(digested, stacks=2, congestion=2) == {"stacks", "congestion"}
    assert analyzed_samples(digested) == [*SAMPLES]
    assert partials(digested) == before
    assert remade_tables(digested, stacks=2, congestion=2) == set()
    os.utime(Campaign.at(digested).acap("s1"))  # now it is analyzed, and a different query has changed for the others
    assert remade_tables(digested, stacks=2, congestion=2, quality=2) == {*queries.names("analyze")}
    assert analyzed_samples(digested) == [*SAMPLES]
    assert partials(digested) == before
    assert remade_tables(digested, stacks=2, congestion=2, quality=2) == set()


@pytest.mark.soak
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
            kill_itself()
        return 2

    monkeypatch.setattr(entry, "main", lose_rows)
    assert remade_tables(digested, stacks=2) == {*queries.names("analyze")}
    assert partials(digested) == before


def test_analysis_of_a_batch_computes_only_missing_results(digested):
    """One acap is damaged: the others are complete. When it is repaired, only this sample is analyzed."""
    (digested / "partial" / "s0").mkdir(parents=True)
    acap = Campaign.at(digested).acap("s1")
    content = acap.read_bytes()
    acap.write_bytes(content[:-10])
    assert analyze(digested) == 2
    assert read_failures(digested / "logs" / "batches" / "analyze" / "b0001.failed.tsv") == {"s1": 2}
    assert {row["sample"] for row in partials(digested)["quality"]} == {"s0", "s2"}
    assert not (digested / "partial" / "s0").exists()
    acap.write_bytes(content)
    assert analyze(digested) == 0
    assert analyzed_samples(digested) == ["s1"]
    with_kept = partials(digested)
    shutil.rmtree(digested / "batches" / "partial")
    assert analyze(digested) == 0
    assert analyzed_samples(digested) == [*SAMPLES]
    assert partials(digested) == with_kept


@pytest.fixture
def groups_analyzed(monkeypatch) -> list[list[str]]:
    """Return a list to which the groups of samples that are analyzed will be added."""
    groups = []
    call_before(monkeypatch, batch_analysis.BatchAnalysis, "_analyze", lambda _, group, **__: groups.append([*group]))
    return groups


@pytest.mark.soak
def test_failed_group_is_halved_until_the_sample_is_found(digested, groups_analyzed):
    """Each fork rewrites all tables, so analyzing each sample alone would take too long."""
    acap = Campaign.at(digested).acap("s2")
    acap.write_bytes(acap.read_bytes()[:-10])
    assert analyze(digested) == 2
    assert groups_analyzed == [["s0", "s1", "s2"], ["s0"], ["s1", "s2"], ["s1"], ["s2"]]
    assert {row["sample"] for row in partials(digested)["quality"]} == {"s0", "s1"}


def run_until_killed(campaign: Path, is_last: Callable[[int], bool]) -> bool:
    """Analyze the batch in a process that is killed together with its fork; return whether this has happened.

    ``is_last``: called in either process before a table is renamed and before the journal changes, with the number of
    such calls so far; returns whether to kill them. The fork is confined, and cannot kill the other process itself.
    """
    with mmap.mmap(-1, 8) as shared:
        calls = memoryview(shared).cast("i")  # their number, and the process to kill
        if (job := os.fork()) == 0:
            patch_writes(calls, is_last)
            os._exit(analyze(campaign))
        while not calls[1] and os.waitpid(job, os.WNOHANG) == (0, 0):
            time.sleep(0.01)
        stopped = calls[1]
        calls.release()
    if stopped:
        for pid in dict.fromkeys((job, stopped)):  # the job first, which would process other samples
            os.kill(pid, signal.SIGKILL)
        os.waitpid(job, 0)
    return bool(stopped)


def patch_writes(calls: memoryview, is_last: Callable[[int], bool]) -> None:
    """Replace the functions that rename a table or change the journal, as `run_until_killed` describes."""

    def count(*_, **__) -> None:
        if is_last(calls[0]):
            calls[1] = os.getpid()
            time.sleep(600)
        calls[0] += 1

    call_before(pytest.MonkeyPatch(), os, "replace", count)
    call_before(pytest.MonkeyPatch(), Journal, "_append", count)


@pytest.mark.soak
def test_group_that_is_killed_with_its_job_is_divided(digested, groups_analyzed, monkeypatch):
    """The third run processes only one sample when it is killed, so that the sample that causes this is known."""
    monkeypatch.setattr(batch_analysis, "PARTS", 2)
    monkeypatch.setattr(sys, "argv", ["-o"])

    def run_with_large_sample() -> str | None:
        """Return the sample during which the job was killed; None if several were processed together."""
        assert run_until_killed(digested, lambda _: "s2" in sys.argv[: sys.argv.index("-o")])
        return read_current(current_file(digested, "analyze", BATCH))

    assert [run_with_large_sample() for _ in range(3)] == [None, None, "s2"]
    assert {row["sample"] for row in partials(digested)["quality"]} == {"s0", "s1"}
    assert analyze(digested) == 0
    assert groups_analyzed == [["s2"]]
    assert analyzed_samples(digested) == ["s2"]


def test_parts_of_a_group_contain_all_samples():
    samples = [f"s{number}" for number in range(200)]
    for number in range(1, 201):
        divided = batch_analysis.parts(samples[:number], 16)
        assert [sample for part in divided for sample in part] == samples[:number]
        sizes = {len(part) for part in divided}
        assert len(divided) == min(number, 16)
        assert max(sizes) - min(sizes) <= 1
    assert all(len(part) <= batch_analysis.PARTS for part in batch_analysis.parts(samples, batch_analysis.PARTS))


@pytest.mark.parametrize("samples", [1, 200, 256, 257, 1000, 9999, 10_000])
def test_two_divisions_of_a_batch_result_in_single_samples(samples):
    number = batch_analysis.number_of_parts(samples)
    for part in batch_analysis.parts([str(sample) for sample in range(samples)], number):
        assert {len(single) for single in batch_analysis.parts(part, number)} == {1}


WRITES = range(80)  # of three samples that are analyzed one by one


@pytest.mark.soak
@pytest.mark.parametrize("at", WRITES if SOAK else random.Random(16).sample(WRITES, 3))
def test_analysis_that_is_killed_at_any_write_is_completed(digested, monkeypatch, at):
    monkeypatch.setattr(batch_analysis, "TOGETHER_BYTES", 0)
    assert run_until_killed(digested, lambda number: number == at)
    assert analyze(digested) == 0
    assert analyze(digested) == 0
    assert analyzed_samples(digested) == []
    assert not [*digested.rglob("*.part")]
    killed = partials(digested)
    shutil.rmtree(digested / "batches" / "partial")
    assert analyze(digested) == 0
    assert partials(digested) == killed


def without(sample: str, tables: dict[str, list[dict]]) -> dict[str, list[dict]]:
    """Return the rows of tables without those of a sample."""
    return {name: [row for row in rows if row["sample"] != sample] for name, rows in tables.items()}


def exclude(campaign: Path, sample: str) -> None:
    """Remove a sample from the plan."""
    write_plan(campaign, [member for member in read_plan(campaign) if member.sample != sample])


@pytest.mark.parametrize("damaged", [None, "acap", "manifest"])
def test_removal_of_a_sample_from_the_batch_analyzes_no_other_sample(digested, damaged):
    """If the second analysis of the sample has failed, its earlier rows remain until it leaves the batch."""
    assert analyze(digested) == 0
    before = partials(digested)
    if damaged:
        getattr(Campaign.at(digested), damaged)("s1").write_bytes(b"PAR1, but not a table: PAR1")
        assert analyze(digested) == 2
        assert partials(digested) == before
    exclude(digested, "s1")
    assert analyze(digested) == 0
    assert analyzed_samples(digested) == []
    assert partials(digested) == without("s1", before)
    assert remade_tables(digested) == set(), "the next run removes it again"


def test_changed_queries_are_recreated_when_a_sample_leaves_the_batch(digested):
    assert analyze(digested) == 0
    before = partials(digested)
    exclude(digested, "s1")
    assert analyze(digested, stacks=2) == 0
    assert analyzed_samples(digested) == ["s0", "s2"]
    assert partials(digested) == without("s1", before)
    assert remade_tables(digested, stacks=2) == set()


@pytest.mark.parametrize("fault", ["no rows are removed", "damaged journal"])
def test_all_samples_are_analyzed_if_the_rows_of_others_cannot_be_removed(digested, monkeypatch, fault):
    assert analyze(digested) == 0
    before, original = partials(digested), entry.main
    exclude(digested, "s1")
    if fault == "damaged journal":
        path = Journal(digested, "analyze", BATCH).path
        path.write_bytes(path.read_bytes().replace(b"s1\t", b"\0\0\xff"))
    else:
        monkeypatch.setattr(entry, "main", lambda: original() if "--sample" in sys.argv else 75)
    assert analyze(digested) == 0
    assert analyzed_samples(digested) == ["s0", "s2"]
    assert partials(digested) == without("s1", before)
    assert remade_tables(digested) == set()


def test_crash_before_the_journal_entry_leaves_no_second_tables_of_a_sample(digested, monkeypatch):
    """The tables of an analysis without batches are removed before the sample counts as complete."""
    (digested / "partial" / "s0").mkdir(parents=True)

    monkeypatch.setattr(Journal, "add", Mock(side_effect=OSError(errno.EIO, "the disk fails")))
    assert analyze(digested) == OUTSIDE
    assert not (digested / "partial" / "s0").exists()


def test_two_processes_do_not_analyze_a_batch_at_the_same_time(digested, monkeypatch, capsys):
    """A cluster has started a job again while the first is running; the first ends when the second begins to wait."""
    first = contextlib.ExitStack()
    first.enter_context(locked(digested, "analyze", BATCH))

    def end_first_job(_, operation):
        if operation == fcntl.LOCK_EX:  # waits
            assert not (digested / "batches" / "partial").exists()
            first.close()

    call_before(monkeypatch, fcntl, "flock", end_first_job)
    assert analyze(digested) == 0
    assert analyze(digested) == 0
    assert capsys.readouterr().err.count("waiting for another process that runs analyze of batch b0001") == 1
    assert set(partials(digested)) == set(queries.names("analyze"))
