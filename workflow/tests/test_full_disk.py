"""A campaign whose disk becomes full."""

import subprocess

import duckdb
import pytest
from traces import busy_port, write_pcap
from workflow_run import Workplace

# In a separate namespace: a small disk, a run, its files, more room, and a second run.
RUNS = """\
mkdir results
mount -t tmpfs -o size=512k none results
"$@" > first.log 2>&1
echo $? > first.code
find results -type f > first.files
mount -o remount,size=64m results
"$@" > second.log 2>&1
echo $? > second.code
cp -r results kept
"""


def test_a_full_disk_ends_a_run_with_one_line_and_the_next_run_completes(tmp_path):
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if (found := subprocess.run(probe, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"no file system in a namespace: {found.stderr}")
    place = Workplace(tmp_path)
    place.configure(digest={"engine": "native"})
    (tmp_path / "captures").mkdir()
    write_pcap(tmp_path / "captures" / "s.pcap", busy_port())
    place.sheet(("s", "alpha", "p1", "../captures/s.pcap"))
    command = ["unshare", "-rm", "bash", "-c", RUNS, "runs", *place.command("index")]
    subprocess.run(command, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
    printed = (tmp_path / "first.log").read_text()
    assert (tmp_path / "first.code").read_text() == "1\n", printed
    assert "Traceback" not in printed, printed
    (line,) = [line for line in printed.splitlines() if line.startswith("  index: ")]
    assert line.endswith("No space left on device"), printed
    assert "acapella: no sample failed by itself" in printed.splitlines() and "exclude" not in printed
    files = (tmp_path / "first.files").read_text().splitlines()
    assert "results/tiny/acap/s.parquet" in files
    assert not [name for name in files if name.endswith((".part", ".wal", ".duckdb"))]
    assert (tmp_path / "second.code").read_text() == "0\n", (tmp_path / "second.log").read_text()
    with duckdb.connect(str(tmp_path / "kept" / "tiny" / "catalog.duckdb"), read_only=True) as con:
        assert con.execute("select sample, frames from samples").fetchall() == [("s", len(busy_port()))]
