"""Traces the system calls of a workflow: each result is synced, then renamed, and then its directory is synced."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from acapella_testing.new_files import new_directory
from acapella_testing.processes import run
from acapella_testing.requirements import require_success
from acapella_testing.runs.workflow_run import Workplace
from acapella_testing.soak import takes_minutes

TRACED = "fsync,fdatasync,rename,renameat,renameat2,link,linkat"
STRACE = ["strace", "-ff", "-qq", "-y", "-s", "4096", "--seccomp-bpf", f"--trace={TRACED}"]
SYNC = re.compile(r"f(?:data)?sync\(\d+<(?P<path>.*)>\) += 0")
RENAME = re.compile(
    r'(?:rename|link)(?:at2?)?\((?:(?:AT_FDCWD|\d+)<(?P<from>[^>]*)>, )?"(?P<old>[^"]*)", '
    r'(?:(?:AT_FDCWD|\d+)<(?P<to>[^>]*)>, )?"(?P<new>[^"]*)".*\) += 0'
)
# Written by shells and by Snakemake: progress and costs, and the configuration that a job reads. Lines are appended to
# files in batches/done; if one is lost, its sample is processed again.
NOT_RESULTS = ("logs/", "benchmarks/", "batches/collect/b0001.json", "batches/done/", "partial/s/.snakemake_timestamp")


def faults_of(lines: Iterable[str], campaign: Path) -> tuple[set[Path], list[str]]:
    """Return the files that the calls of one thread rename into a campaign, and violations of the order."""
    synced, waiting, renamed, faults = set(), {}, set(), []
    for line in lines:
        if call := SYNC.match(line):
            synced.add(Path(call["path"]))
            waiting.pop(Path(call["path"]), None)
        elif call := RENAME.match(line):
            old, new = (Path(call[base] or "", call[name]) for base, name in (("from", "old"), ("to", "new")))
            if not new.is_relative_to(campaign):
                continue
            renamed.add(new)
            waiting.setdefault(new.parent, []).append(new)
            if old not in synced and not new.is_symlink():
                faults.append(f"{new}: not synced before it was renamed")
    faults += [f"{name}: its directory was not synced" for names in waiting.values() for name in names]
    return renamed, faults


def test_missing_sync_of_a_file_or_of_its_directory_is_found(tmp_path):
    """In turn: the file is not synced, its directory is not, and both are."""
    sync, rename = "fsync({}) = 0", f'renameat(4<{tmp_path}>, ".a.part", 4<{tmp_path}>, "a") = 0'
    of_file, of_directory = sync.format(f"5<{tmp_path}/.a.part>"), sync.format(f"4<{tmp_path}>")
    assert faults_of([rename, of_directory], tmp_path)[1] == [f"{tmp_path}/a: not synced before it was renamed"]
    assert faults_of([of_file, of_directory, rename], tmp_path)[1] == [f"{tmp_path}/a: its directory was not synced"]
    assert faults_of([of_file, rename, of_directory], tmp_path) == ({tmp_path / "a"}, [])


@takes_minutes
@pytest.mark.parametrize("batches", [{}, {"batches": {"samples": 2}}], ids=["single", "batches"])
def test_results_are_synced_before_they_get_their_names(tmp_path, batches):
    require_success(["strace", "--seccomp-bpf", "-f", "-o", os.devnull, "true"], "strace")
    (tmp_path / "cache").mkdir(mode=0o700)
    place, calls = Workplace(tmp_path), new_directory(tmp_path / "calls")
    place.configure(digest={"engine": "native", "cache": str(tmp_path / "cache")}, **batches)
    place.add_samples(["s"])
    ended = run(*STRACE, "-o", calls / "thread", *place.command("--cores", "2"), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    of_threads = [faults_of(path.read_text().splitlines(), tmp_path) for path in calls.iterdir()]
    renamed = {path for paths, _ in of_threads for path in paths}
    files = {str(path.relative_to(place.campaign)): path for path in place.campaign.rglob("*") if path.is_file()}
    results = {path for name, path in files.items() if not name.startswith(NOT_RESULTS)}
    assert [fault for _, faults in of_threads for fault in faults if Path(fault.partition(": ")[0]) in results] == []
    assert results - renamed == set()
    assert len(results) > 50
