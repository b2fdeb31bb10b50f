"""Kills the workflow with SIGKILL at random moments: no file is incomplete, and the next run creates the same bytes.

ACAPELLA_SOAK_SEED determines the moments.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from acapella_testing.release_records import text_of
from acapella_testing.runs.workflow_run import RESULTS, Workplace, workplace
from acapella_testing.soak import SEED, takes_minutes

from acapella.campaign.journal import Journal

pytestmark = takes_minutes
KILLS = 20
PARTS = 4  # tests, which can run at the same time; every other one uses batches
EVENTS = 14  # a run is killed after up to this number of starts and ends of jobs
DELAY_S = 2.0  # and after a random part of this time


def kill_in_analysis(place: Workplace) -> None:
    """Start a run and kill it with its jobs when a group of samples of a batch has written one table."""
    pause = place.pause_analysis()
    running = place.start("--cores", "2")
    while not place.tables_of_batch():
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    pause.unlink()
    place.environment.clear()


def kill_at_random(place: Workplace, choice: random.Random) -> bool:
    """Start a run and kill it at a random moment, with or without its jobs; return False if it ended before."""
    events, delay_s, with_jobs = choice.randint(1, EVENTS), choice.uniform(0, DELAY_S), choice.random() < 0.5
    running, lines = place.start("--cores", "2", output=subprocess.PIPE), []
    while events and (line := running.stdout.readline()):
        lines.append(line)
        events -= line.startswith(("Job ", "Finished jobid: "))
    if events:
        assert running.wait() == 0, "".join(lines)
        return False
    time.sleep(delay_s)
    (os.killpg if with_jobs else os.kill)(running.pid, signal.SIGKILL)
    running.stdout.close()
    running.wait()
    return True


def check_files(place: Workplace) -> int:
    """Read every result to its end; return their number. Files of killed writers have names that end in .part."""
    readers = {".parquet": pq.read_table, ".svg": ElementTree.parse, ".duckdb": text_of}
    results = [path for path in place.campaign.rglob("*") if path.is_file() and path.suffix in readers]
    for path in results:
        readers[path.suffix](path)
    return len(results)


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_runs_leave_complete_files_and_the_next_run_has_the_same_bytes(finished, tmp_path, part):
    """A run that ends before the kill is compared, and the campaign starts over.

    If Snakemake is killed alone, its jobs continue, and the next run writes the same files at the same time.
    """
    choice, batches = random.Random(f"{SEED} {part}"), {"batches": {"samples": 2}} if part % 2 else {}
    place, kills, read = workplace(tmp_path / "place", **batches), 0, 0
    if batches:
        kill_in_analysis(place)
        assert Journal(place.campaign, "analyze", "b0001").started_groups(["alpha-p1", "alpha-p2"]) == [
            ["alpha-p1", "alpha-p2"]
        ]
        read = check_files(place)
        place.succeed("--unlock")
    while kills < KILLS // PARTS:
        if kill_at_random(place, choice):
            kills += 1
            read += check_files(place)
            place.succeed("--unlock")
        else:
            assert place.sha256(*RESULTS) == finished.sha256(*RESULTS)
            shutil.rmtree(place.campaign)
    place.succeed("--cores", "2")
    assert place.sha256(*RESULTS) == finished.sha256(*RESULTS)
    assert read, "every kill was before the first result"
    assert not list(place.campaign.rglob("*.part"))
