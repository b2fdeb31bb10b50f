"""Runs commands and a workflow on a disk that becomes full."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.traces import START_NS, busy_port, write_pcap
from acapella_testing.generated.tiny import add_sample
from acapella_testing.new_files import new_directory
from acapella_testing.requirements import require_success, skip_if
from acapella_testing.runs import batch_campaign
from acapella_testing.runs.stages import analyze_campaign, catalog_rows
from acapella_testing.runs.workflow_run import Workplace
from acapella_testing.soak import SOAK, takes_minutes

from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.flowreports import program
from acapella_core.errors import OUTSIDE

BATCHED = {"batches": {"samples": 2}}
COMMAND = [sys.executable, "-m", "acapella.cli.main"]
# In a separate mount namespace: run with a small disk, list its files, enlarge the disk, and run again.
RUN_TWICE = """\
{prepare}
"$@" > first.log 2>&1
echo $? > first.code
find {disk} -type f > first.files
{enlarge}
"$@" > second.log 2>&1
echo $? > second.code
cp -r {disk} kept
"""


@pytest.fixture
def run_twice(tmp_path):
    """Return a function that runs a command twice, first after ``prepare`` and then after ``enlarge``. It returns the
    output of the first run and the list of files after it. Skips the test if no file system can be mounted.
    """
    require_success(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], "file system in a namespace")

    def run(disk: str, prepare: str, enlarge: str, words: list[str], code: int) -> tuple[str, list[str]]:
        script = RUN_TWICE.format(disk=disk, prepare=prepare, enlarge=enlarge)
        command = ["unshare", "-rm", "bash", "-c", script, "runs", *words]
        subprocess.run(command, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
        log, files = ((tmp_path / name).read_text() for name in ("first.log", "first.files"))
        assert (tmp_path / "first.code").read_text() == f"{code}\n", log
        assert (tmp_path / "second.code").read_text() == "0\n", (tmp_path / "second.log").read_text()
        return log, files.splitlines()

    return run


@pytest.fixture
def place(tmp_path, request) -> Workplace:
    """Return a campaign of one sample. Parameter: further keys of the config."""
    place = Workplace(tmp_path)
    place.configure(digest={"engine": "native"}, **request.param)
    write_pcap(new_directory(tmp_path / "captures") / "s.pcap", busy_port())
    place.sheet(("s", "alpha", "p1", "../captures/s.pcap"))
    return place


@pytest.mark.soak
@pytest.mark.parametrize("place", [{}, BATCHED] if SOAK else [BATCHED], indirect=True)
def test_full_disk_ends_a_run_with_one_line_and_the_next_run_completes(place, run_twice, tmp_path):
    mount = "mkdir results && mount -t tmpfs -o size=512k none results"
    printed, files = run_twice("results", mount, "mount -o remount,size=64m results", place.command("index"), 1)
    assert "Traceback" not in printed, printed
    (line,) = [line for line in printed.splitlines() if line.startswith("  index: ")]
    assert line.endswith("No space left on device"), printed
    assert "acapella: no sample caused this failure" in printed.splitlines()
    assert "exclude" not in printed
    assert [name for name in files if name.startswith("results/tiny/acap/") and name.endswith("/s.parquet")]
    assert not [name for name in files if name.endswith((".part", ".wal", ".duckdb"))]
    assert catalog_rows(tmp_path / "kept" / "tiny", "select sample, frames from samples") == [("s", len(busy_port()))]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("place", "limit", "log"),
    [({}, "nr_inodes=1", "digest/s.log"), (BATCHED, "ro", "batches/digest/b0001.log")],
    indirect=["place"],
    ids=["full", "read-only with batches"],
)
def test_unwritable_log_ends_a_run_with_a_summary_and_excludes_no_sample(place, run_twice, tmp_path, limit, log):
    """No file can be created in the directory of logs."""
    logs = f"results/tiny/logs/{log.rpartition('/')[0]}"
    mount = f"mkdir -p {logs} && mount -t tmpfs -o {limit} none {logs}"
    # `set` replaces the second run, which is not needed here.
    printed, _ = run_twice("results", mount, "set -- true", place.command("--until", "digest", "-q"), 1)
    assert "Traceback" not in printed, printed
    cause, headlines, last = {
        "nr_inodes=1": (
            "No space left on device",
            0,
            f"acapella: the disk is full; free space in {tmp_path}, then run snakemake again",
        ),
        "ro": (
            "Read-only file system",
            1,
            "  digest: it was not started, or killed before it ended; Snakemake's message above gives the reason",
        ),
    }[limit]
    assert printed.count("acapella: no sample caused this failure\n") == headlines, printed
    assert printed.splitlines()[-1] == last, printed
    assert printed.count(f"acapella: error: results/tiny/logs/{log}: the log cannot be written: {cause}") == 1, printed
    assert "exclude" not in printed


# Leave 8 KiB free on a disk with a copy of `made`.
FILL = """\
mkdir disk
mount -t tmpfs -o size=64m none disk
cp -a made disk/
dd if=/dev/zero of=disk/filler bs=64k status=none 2> dd.log
truncate -s -8K disk/filler
"""


@pytest.fixture
def limited(run_twice):
    """Return a function that runs an acapella command twice: on a disk filled by FILL, and after space is freed."""
    return lambda *words: run_twice("disk", FILL, "rm disk/filler", [*COMMAND, *words], OUTSIDE)


@pytest.mark.parametrize("engine", ["native", "hybrid"] if SOAK else ["hybrid"])
def test_digest_on_a_full_disk_leaves_no_file_and_the_next_one_is_complete(tmp_path, limited, engine):
    write_pcap(new_directory(tmp_path / "made") / "s.pcap", busy_port() * 20)
    printed, files = limited("digest", "disk/made/s.pcap", "-o", "disk/s.parquet", "--engine", engine)
    (line,) = printed.splitlines()
    assert line.startswith("acapella: error: disk/s.")
    assert "No space left on device" in line
    assert sorted(files) == ["disk/filler", "disk/made/s.pcap"]
    assert pq.read_metadata(tmp_path / "kept" / "s.flows.parquet").num_rows > 0
    assert pq.read_metadata(tmp_path / "kept" / "s.parquet").num_rows == 20 * len(busy_port())


@pytest.mark.soak
def test_full_disk_keeps_the_earlier_tables_and_the_next_run_writes_all(tmp_path, limited):
    for name in "ab":
        add_sample(tmp_path / "made", name)
    directory = analyze_campaign(tmp_path / "made")
    tables = {path.name: path.read_bytes() for path in (directory / "tables").iterdir()}
    (directory / "tables" / "frame_sizes.csv").write_bytes(b"earlier")
    printed, files = limited("campaign", "process", "disk/made")
    (line,) = printed.splitlines()
    assert line.startswith("acapella: error: ")
    assert "/disk/made/tables/" in line
    assert "No space left on device" in line
    before = [f"disk/{path.relative_to(tmp_path)}" for path in directory.rglob("*") if path.is_file()]
    assert sorted(files) == sorted([*before, "disk/filler"])
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept" / "made" / "tables").iterdir()} == tables


@pytest.mark.parametrize(
    ("words", "pattern", "number"),  # arguments, results, and their number after the second run
    [
        ("collect disk/made --config config.json --only s", "raw/s*", 2),
        # Other tests run these stages on a full disk; figures and report take seconds to start.
        *(
            pytest.param(*stage, marks=takes_minutes)
            for stage in (
                ("campaign analyze disk/made --sample a -o disk/made/partial/a", "partial/a/*", 12),
                ("campaign index disk/made", "catalog.duckdb", 1),
                ("campaign figures disk/made --formats svg", "figures/*", 10),
                ("campaign report disk/made", "report.html", 1),
            )
        ),
    ],
)
def test_stage_on_a_full_disk_leaves_no_incomplete_file_and_is_repeated(tmp_path, run_twice, words, pattern, number):
    """Only analyze leaves complete files, in its output directory, which Snakemake deletes if the job fails."""
    add_sample(tmp_path / "made", "a")
    directory = analyze_campaign(tmp_path / "made", alone=True)
    write_pcap(tmp_path / "s.pcap", busy_port())
    (tmp_path / "samples.tsv").write_text("sample\tsite\tport\tfile\ns\talpha\tp1\ts.pcap\n")
    (tmp_path / "config.json").write_text('{"testbed": "files", "samples": "samples.tsv"}')
    for path in (results := [*directory.glob(pattern)]):
        path.unlink()
    fill = FILL.replace("-8K", "-0K") if "collect" in words else FILL  # a manifest is small
    printed, files = run_twice("disk", fill, "rm disk/filler", [*COMMAND, *words.split()], OUTSIDE)
    assert "No space left on device" in printed.splitlines()[-1], printed
    before = {f"disk/{path.relative_to(tmp_path)}" for path in directory.rglob("*") if path.is_file()}
    assert ({*files} - before - {"disk/filler"}) <= (
        {f"disk/{path.relative_to(tmp_path)}" for path in results} if "analyze" in words else set()
    )
    assert len([*(tmp_path / "kept" / "made").glob(pattern)]) == number


@pytest.mark.soak
@pytest.mark.parametrize("free_kib", [0, 4] if SOAK else [4])
@pytest.mark.parametrize("stage", ["digest", "analyze"])
def test_batch_on_a_full_disk_is_completed_without_rerunning_complete_samples(
    tmp_path, run_twice, monkeypatch, stage, free_kib
):
    """One of three captures changes. The command cannot write a file, a table, or the list of failed samples."""
    monkeypatch.chdir(tmp_path)  # the path of the campaign is part of the keys of complete samples
    campaign = batch_campaign.write_digests(batch_campaign.write_campaign(Path("disk", "made")))
    assert batch_campaign.analyze(campaign) == 0
    write_pcap(campaign.parent / "s1.pcap", busy_port() * 20)
    words = {"digest": batch_campaign.digest_arguments, "analyze": batch_campaign.analysis_arguments}
    if stage == "analyze":
        assert main(words["digest"](campaign)) == 0
    Path("disk").rename("before")
    fill = FILL.replace("made disk/", "before/. disk/").replace("-8K", f"-{free_kib}K")
    printed, files = run_twice("disk", fill, "rm disk/filler", [*COMMAND, *words[stage](campaign)], OUTSIDE)
    last = printed.splitlines()[-1]
    assert re.fullmatch(
        "acapella: error: .*disk/made/.*: No space left on device.*|.*1 of 3 samples failed: .*", last
    ), last
    assert not [name for name in files if name.endswith(".part")]
    kept = tmp_path / "kept" / "made"
    assert batch_campaign.processed_samples(kept, stage) == ["s1"]
    Path("disk").rmdir()
    Path("before").rename("disk")
    assert main(words["digest"](campaign)) == 0
    again, expected = ([Campaign.at(place).acap(n).read_bytes() for n in ("s0", "s1")] for place in (kept, campaign))
    assert again == expected
    if stage == "analyze":
        assert batch_campaign.analyze(campaign) == 0
        assert batch_campaign.partials(kept) == batch_campaign.partials(campaign)


@pytest.mark.soak
@pytest.mark.parametrize(
    "words",
    [
        ("anonymize", "made/s.pcap", "-o", "disk/s.pcap", "--key-file", "key"),
        ("kappa", "made/s.pcap", "made/s.pcap", "--memory", "1M", "--spool", "disk", "-o", "k.json"),
        ("p4", "run", "preprocess", "--pipeline", "interpreted", "--in", "made/s.pcap", "--out", "disk/out.pcap"),
        ("p4", "reports", "made/s.pcap", "-o", "disk/reports"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_commands_report_a_full_disk_as_a_fault_of_the_machine(tmp_path, limited, words):
    skip_if(words[0] == "p4" and program.why_unavailable())
    frames = [(START_NS + at * 1000, frame) for at, (_, frame) in enumerate(busy_port() * 40)]
    write_pcap(new_directory(tmp_path / "made") / "s.pcap", frames)
    assert main(["anonymize", "--new-key", str(tmp_path / "key")]) == 0
    printed, files = limited(*words)
    (line,) = printed.splitlines()
    assert line.startswith(("acapella: error: ", "acapella-p4-run: "))
    assert "No space left on device" in line
    assert not {*files} - {"disk/filler", "disk/made/s.pcap", "disk/reports/control.txt"}
