"""Tests `acapella campaign batch`: crashes, signals, and what the next run skips."""

import atexit
import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.new_files import write_file
from acapella_testing.processes import content_of
from acapella_testing.runs.batch_campaign import BATCH, digest_arguments, kill_itself, processed_samples, write_campaign
from acapella_testing.runs.in_process import call_before
from acapella_testing.waiting import wait_until

from acapella.campaign.batches import (
    Member,
    current_file,
    extended,
    groups,
    read_current,
    read_failures,
    read_plan,
    recorded_as_current,
    write_plan,
)
from acapella.campaign.journal import MAX_LINES, NO_LOCKS, Journal, locked
from acapella.campaign.layout import Campaign
from acapella.cli import entry
from acapella.cli import main as cli
from acapella_core.errors import OUTSIDE
from acapella_core.shards import shard_of

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
    """Return a campaign with a plan of one batch."""
    return write_campaign(tmp_path / "results")


def outcomes(campaign: Path) -> list[str]:
    """Return the outcomes of the samples."""
    return [row["outcome"] for row in read_rows(campaign / "batches" / "digest" / "b0001.tsv")]


def failures(campaign: Path) -> dict[str, int]:
    """Return the exit codes of the failed samples."""
    return read_failures(campaign / "logs" / "batches" / "digest" / "b0001.failed.tsv")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGSEGV, 139), (signal.SIGKILL, 137)])
def test_crash_of_a_sample_does_not_affect_the_others(campaign, monkeypatch, number, code):
    original = entry.main
    monkeypatch.setattr(entry, "main", lambda: kill_itself(number) if "--port=s1" in sys.argv else original())
    assert cli.main(digest_arguments(campaign)) == code
    assert failures(campaign) == {"s1": code}
    assert sorted(path.stem for path in (campaign / "acap").glob("*/*")) == ["s0", "s2"]
    assert not (campaign / "batches" / "digest" / "b0001.tsv").exists()
    monkeypatch.undo()
    assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == ["kept", "done", "kept"]
    assert failures(campaign) == {}


def test_exit_handlers_of_the_batch_do_not_run_in_its_forks(campaign, capfd, request):
    atexit.register(print_end := lambda: os.write(1, b"the batch ends\n"))
    request.addfinalizer(lambda: atexit.unregister(print_end))
    assert cli.main(digest_arguments(campaign)) == 0
    assert "the batch ends" not in capfd.readouterr().out
    assert not any("the batch ends" in path.read_text() for path in (campaign / "logs" / "digest").glob("*/*"))


def test_exit_code_of_several_failures_is_the_smallest(campaign):
    (campaign.parent / "s0.pcap").unlink()
    with (campaign.parent / "s1.pcap").open("ab") as damaged:
        damaged.write(b"\xff" * 100)
    assert cli.main(digest_arguments(campaign)) == 1
    assert failures(campaign) == {"s0": 2, "s1": 1}


@pytest.mark.parametrize(
    ("damage", "code"),
    [(lambda path: path.write_bytes(path.read_bytes() + b"\xff" * 100), 1), (Path.unlink, 2)],
    ids=["damaged capture", "no capture"],
)
def test_failed_sample_has_no_output_not_even_an_earlier_one(campaign, damage, code):
    assert cli.main(digest_arguments(campaign)) == 0
    damage(campaign.parent / "s1.pcap")
    assert cli.main(digest_arguments(campaign)) == code
    assert sorted(path.stem for path in (campaign / "acap").glob("*/*")) == ["s0", "s2"]
    assert sorted(path.stem for path in (campaign / "flows").glob("*/*")) == ["s0", "s2"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_stopped_batch_ends_its_sample_and_keeps_complete_ones(campaign, number, code):
    running = subprocess.Popen([sys.executable, "-c", SLEEPER, *digest_arguments(campaign)], start_new_session=True)
    log = campaign / "logs" / "digest" / shard_of("s1") / "s1.log"
    wait_until(lambda: log.is_file() and log.read_text().endswith("\n"), running=running)
    sample = int(log.read_text())
    running.send_signal(number)
    assert running.wait(300) == code
    wait_until(lambda: content_of(Path(f"/proc/{sample}/stat")).partition(") ")[2][:1] in ("", "Z"), "still processed")
    assert not Campaign.at(campaign).acap("s2").exists()
    assert read_current(current_file(campaign, "digest", "b0001")) == "s1"
    assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == ["kept", "done", "done"]
    assert processed_samples(campaign, "digest") == ["s2", "s1"], "the sample that was interrupted is not the last one"
    assert read_current(current_file(campaign, "digest", "b0001")) is None


def test_job_waits_for_another_job_of_its_batch_and_keeps_its_digests(campaign, monkeypatch, capsys):
    """Snakemake was killed, its job continues, and the next run submits the job again. Other batches do not wait."""
    current, other = current_file(campaign, "digest", BATCH), contextlib.ExitStack()
    other.enter_context(locked(campaign, "digest", BATCH))
    other.enter_context(recorded_as_current(current, "s1"))

    def end_other_job(_, operation):
        if operation == fcntl.LOCK_EX:  # waits
            assert read_current(current) == "s1"
            assert not (campaign / "acap").exists()
            other.close()
            assert cli.main(digest_arguments(campaign)) == 0
            assert outcomes(campaign) == ["done"] * 3

    call_before(monkeypatch, fcntl, "flock", end_other_job)
    with locked(campaign, "digest", "b0002"), locked(campaign, "analyze", BATCH):
        assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == ["kept"] * 3
    assert capsys.readouterr().err.count("waiting for another process that runs digest of batch b0001") == 1


@pytest.mark.parametrize("number", NO_LOCKS)
def test_batch_does_not_run_on_a_file_system_without_locks(campaign, monkeypatch, capsys, number):
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(number, os.strerror(number))))
    assert cli.main(digest_arguments(campaign)) == OUTSIDE
    assert re.fullmatch(r"acapella: error: .*b0001\.lock: .* no locks .*; mount it .*\n", capsys.readouterr().err)
    assert not (campaign / "acap").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["--memory=100M", "--threads=2", "--damaged=keep", "--progress"], "kept"), (["--max-ratio=9"], "done")],
)
def test_only_options_that_change_the_output_repeat_the_digest(campaign, options, expected):
    assert cli.main(digest_arguments(campaign)) == 0
    assert cli.main(digest_arguments(campaign, *options)) == 0
    assert set(outcomes(campaign)) == {expected}


def test_changed_output_is_recreated(campaign):
    assert cli.main(digest_arguments(campaign)) == 0
    acap = Campaign.at(campaign).acap("s2")
    before = acap.read_bytes()
    acap.write_bytes(before[:-1])
    assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == ["kept", "kept", "done"]
    assert acap.read_bytes() == before


def test_repaired_capture_is_digested_again_if_the_attributes_of_the_old_one_are_cached(campaign, monkeypatch):
    """As on NFS: stat() returns an earlier state, and fstat() that of the file that was opened."""
    assert cli.main(digest_arguments(campaign)) == 0
    capture = campaign.parent / "s1.pcap"
    cached, original = capture.stat(), os.stat
    with capture.open("ab") as stream:
        stream.write(capture.read_bytes()[24:])

    def stat(path, *arguments, **options):
        return cached if str(path) == str(capture) else original(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat)
    assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == ["kept", "done", "kept"]


def test_groups_of_several_samples_do_not_exceed_the_byte_limit():
    sizes = {"a": 5, "b": 5, "c": 1, "d": 30, "e": 1}
    assert [*groups([*sizes], sizes, 10)] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert [*groups([], {}, 10)] == []


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda text: text[:-5], ["kept", "kept", "done"]),
        (lambda text: text.replace(b"s1\t", b"\xff\0\t"), ["kept", "done", "kept"]),
        (lambda text: text.replace(b"s1", b"\0\0\0\0\n\xc3"), ["kept", "done", "kept"]),
        (lambda text: text.replace(b"[[", b"[{"), ["done", "done", "done"]),
        (lambda _: b"\0" * 100, ["done", "done", "done"]),
    ],
)
def test_damaged_lines_of_a_journal_are_ignored(campaign, damage, expected):
    assert cli.main(digest_arguments(campaign)) == 0
    journal = Journal(campaign, "digest", BATCH).path
    journal.write_bytes(damage(journal.read_bytes()))
    assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == expected
    assert cli.main(digest_arguments(campaign)) == 0
    assert outcomes(campaign) == ["kept"] * 3, "lines that follow the damage cannot be read"


def test_long_journal_is_replaced(tmp_path):
    """The new journal keeps the last line of each sample, and the lines that other processes need."""
    output = write_file(tmp_path / "output", "")
    journal, longest = Journal(tmp_path, "analyze", BATCH), 0
    journal.start("left")
    for number in range(100):
        journal.start("a", "b")
        journal.add({"a": f"key {number}"}, [output])
        if number == 50:
            journal.remove(["left"])
        longest = max(longest, len(journal.path.read_text().splitlines()))
        read = Journal(tmp_path, "analyze", BATCH)
        assert read.is_complete("a", f"key {number}", [output])
        assert read.started_groups("ab") == [["b"]]
        assert read.left("ab") == ({"left"} if number < 50 else set())
    assert 2 * MAX_LINES < longest <= 3 * MAX_LINES
    assert not read.damaged
    assert [path.name for path in journal.path.parent.iterdir()] == [journal.path.name]


def test_batches_are_limited_and_samples_keep_their_batch():
    sizes = {"a": 10, "b": 10, "c": 95, "d": 10, "e": 300, "f": 1}
    first = extended({}, [*sizes], sizes, max_samples=3, max_bytes=100)
    assert first == {"a": "b0001", "b": "b0001", "c": "b0002", "d": "b0003", "e": "b0004", "f": "b0005"}
    assert extended(first, ["x", "f", "b", "y"], {}, max_samples=3, max_bytes=100) == {
        "x": "b0006",
        "f": "b0005",
        "b": "b0001",
        "y": "b0006",
    }
    assert [*extended({}, "abcdefg", {}, max_samples=3, max_bytes=1).values()].count("b0001") == 3
    of_all = extended({}, [f"s{number}" for number in range(10_000)], {}, max_samples=250, max_bytes=1)
    batches, others = len({*of_all.values()}), len(("samples", "index", "process", "figures", "report", "all"))
    assert 3 * batches + others == 126  # docs/running.md
    assert 4 * batches + others + len(("flowtables",)) == 167  # with flow reports


def test_plan_round_trips(tmp_path):
    members = [Member("b0001", "a", "s\u00fcd", "p 1", "dir/x\ty.pcap", [None, 1, [["filter", "tcp"]]])]
    write_plan(tmp_path, members)
    assert read_plan(tmp_path) == members
