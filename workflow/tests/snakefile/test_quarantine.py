"""Tests samples that fail: their records, and campaigns that are completed without them (`missing: report`)."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest
from acapella_testing.runs.workflow_run import workplace

from acapella.campaign.batches import (
    STAGES,
    Journal,
    Member,
    current_file,
    failures_file,
    outputs_of,
    recorded_as_current,
    write_failures,
    write_plan,
)
from acapella.campaign.layout import Campaign
from acapella.snakefile import config as configuration
from acapella.snakefile import quarantine
from acapella.snakefile.failures import samples_that_failed
from acapella.snakefile.job_records import FailedJob, JobRecords, failures_of_samples
from acapella_core.errors import DAMAGED, MISTAKE, OUTSIDE

REPORT = configuration.checked(
    {"campaign": "mine", "samples": "s.tsv", "missing": "report", "digest": {"engine": "native"}}
)


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """Return a function that ends a run in which the digest of sample `a` failed with an exit code and a log."""
    monkeypatch.chdir(tmp_path)
    Path("a.pcap").write_bytes(b"capture")

    def end_run(code: int | None, text: str = "acapella: error: reason", *, stopping: bool = False, errno=None) -> None:
        Path("a.log").write_text(text)
        records = JobRecords()
        records.stopping = stopping
        records._failed[1] = [FailedJob("digest", "a", Path("a.log"), code, errno)]
        quarantine.record_failures("mine", REPORT, records, lambda sample: f"{sample}.pcap")

    return end_run


@pytest.mark.parametrize("code", [DAMAGED, MISTAKE, 128 + signal.SIGSEGV])
def test_sample_that_fails_is_recorded_with_its_log_and_omitted(campaign, code):
    campaign(code)
    record = json.loads(Path("mine/quarantine/a.json").read_text())
    assert (record["rule"], record["exit_code"], record["reason"]) == ("digest", code, "acapella: error: reason")
    assert Path("mine/quarantine/a.log").read_text() == "acapella: error: reason"
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == ["a"]
    assert quarantine.omitted_samples("mine", REPORT | {"missing": "fail"}, lambda: {"a": "a.pcap"}) == []
    assert quarantine.omitted_samples("mine", REPORT | {"exclude": ["a"]}, lambda: {"a": "a.pcap"}) == []


@pytest.mark.parametrize(
    "content",
    ["[]", "1", "{}", "{", '{"rule": "digest"}', '{"rule": [], "exit_code": 2, "reason": "r", "runs": 1}', "[" * 10**5],
    ids=lambda content: content[:20],
)
def test_file_that_is_no_record_is_ignored(campaign, content):
    campaign(MISTAKE)
    Path("mine/quarantine/a.json").write_text(content)
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []
    quarantine.remove_completed("mine")
    campaign(MISTAKE)
    assert quarantine.reasons("mine", ["a"]) == ["acapella: error: reason"]


@pytest.mark.parametrize("code", [None, OUTSIDE, 128 + signal.SIGKILL, 128 + signal.SIGTERM])
def test_sample_that_needs_memory_or_time_is_tried_twice(campaign, code):
    campaign(code, "digest: 10 frames")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []
    campaign(code, "digest: 10 frames")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == ["a"]


def test_record_of_a_sample_that_left_the_sheet_counts_in_no_table(campaign):
    campaign(MISTAKE)
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"b": "a.pcap"}) == []


@pytest.mark.parametrize("code", [None, 128 + signal.SIGKILL, 128 + signal.SIGTERM])
def test_batch_that_is_killed_fails_with_the_sample_that_it_processed(tmp_path, code):
    """Slurm kills the job, so that nothing else is written. The log of the sample is empty. Another sample failed."""
    log = tmp_path / "logs" / "batches" / "digest" / "b0001.log"
    write_failures(failures_file(tmp_path, "digest", "b0001"), {"a": MISTAKE})
    with pytest.raises(SystemExit), recorded_as_current(current_file(tmp_path, "digest", "b0001"), "b"):
        raise SystemExit
    first, second = failures_of_samples(FailedJob("digest", None, log, code))
    assert (first.sample, first.exit_code, second.sample, second.exit_code) == ("a", MISTAKE, "b", code)
    assert second.log == tmp_path / "logs" / "digest" / "b.log"
    assert [job.sample for job, _ in samples_that_failed([second], stopping=False)] == ["b"]
    assert samples_that_failed([second], stopping=True) == []


def test_error_of_a_batch_itself_is_attributed_to_no_sample(tmp_path):
    job = FailedJob("digest", None, tmp_path / "logs" / "batches" / "digest" / "b0001.log", OUTSIDE)
    with pytest.raises(OSError, match="full"), recorded_as_current(current_file(tmp_path, "digest", "b0001"), "b"):
        raise OSError("disk full")
    assert failures_of_samples(job) == [job]


@pytest.mark.parametrize(
    ("changes", "omitted"),
    [({"max_seconds": 9}, []), ({"memory_mb": 4096}, []), ({"damaged": "keep"}, []), ({"threads": 2}, ["a"])],
)
def test_sample_is_tried_again_with_other_options_or_limits(campaign, changes, omitted):
    campaign(OUTSIDE)
    campaign(OUTSIDE)
    config = REPORT | {"digest": REPORT["digest"] | changes}
    assert quarantine.omitted_samples("mine", config, lambda: {"a": "a.pcap"}) == omitted


def test_sample_is_tried_again_with_other_code(campaign, monkeypatch):
    campaign(MISTAKE)
    monkeypatch.setattr(quarantine.code, "digest", lambda *_: "repaired")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []
    campaign(OUTSIDE)  # the first failure of this code
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []


def test_sample_without_a_capture_is_tried_again_when_it_has_one(campaign):
    Path("a.pcap").unlink()
    campaign(MISTAKE)
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == ["a"]
    Path("a.pcap").write_bytes(b"capture")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []


def test_sample_with_an_unreadable_capture_is_tried_again_when_it_is_readable(campaign, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(quarantine.os, "access", lambda *_: False)
        campaign(MISTAKE)
        assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == ["a"]
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []


def test_sample_with_another_path_in_the_sheet_is_tried_again(campaign):
    campaign(MISTAKE)
    Path("repaired.pcap").write_bytes(b"capture")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "repaired.pcap"}) == []


def test_sample_with_another_capture_is_tried_again(campaign):
    campaign(MISTAKE)
    Path("a.pcap").write_bytes(b"repaired capture")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == []


def write_results(seconds: int, *, batched: bool) -> None:
    """Write files as results of all stages for sample `a`, with a modification time relative to now."""
    modified, member = time.time() + seconds, Member("b0001", "a", "site", "port", "a.pcap")
    results = {stage: outputs_of(Path("mine"), STAGES[stage], member) for stage in STAGES}
    if not batched:
        results["analyze"] = [Campaign(Path("mine")).partial("a", path.stem) for path in results["analyze"]]
    for path in (path for paths in results.values() for path in paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("result")
        os.utime(path, (modified, modified))
    if batched:
        write_plan(Path("mine"), [member])
        Journal(Path("mine"), "analyze", "b0001").add({"a": "key"}, results["analyze"])


@pytest.mark.parametrize("batched", [False, True])
def test_earlier_results_of_a_failed_sample_do_not_complete_it(campaign, batched):
    """Both runs fail and leave the results of a run before them, as a batch that is killed."""
    write_results(-60, batched=batched)
    campaign(OUTSIDE)
    campaign(OUTSIDE)
    quarantine.remove_completed("mine")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == ["a"]
    write_results(60, batched=batched)
    quarantine.remove_completed("mine")
    assert not list(Path("mine/quarantine").iterdir())


def test_tables_of_its_batch_do_not_complete_a_sample_that_failed(campaign):
    campaign(MISTAKE)
    write_results(60, batched=True)
    Journal(Path("mine"), "analyze", "b0001").start("a")
    quarantine.remove_completed("mine")
    assert quarantine.omitted_samples("mine", REPORT, lambda: {"a": "a.pcap"}) == ["a"]


@pytest.mark.parametrize(
    ("code", "options"),
    [
        pytest.param(130, {}, id="interrupted"),
        pytest.param(143, {"stopping": True}, id="stopped"),
        pytest.param(128 + signal.SIGKILL, {"stopping": True}, id="killed while the run is stopped"),
        pytest.param(127, {}, id="no program"),
        pytest.param(70, {}, id="fault of the program"),
        pytest.param(None, {"text": ""}, id="not started"),
        pytest.param(OUTSIDE, {"errno": 28}, id="disk full"),
    ],
)
def test_failure_of_the_machine_is_not_recorded(campaign, code, options):
    campaign(code, **options)
    assert not list(Path("mine").glob("quarantine/*"))


@pytest.mark.parametrize("changes", [{}, {"batches": {"samples": 2}}], ids=["single", "batches"])
def test_one_run_completes_a_campaign_without_a_failed_sample(finished, tmp_path, changes):
    """The file of alpha-p2 is not a capture until the second run. The first stops at the failure: no --keep-going."""
    place = workplace(tmp_path, missing="report", **changes)
    capture = tmp_path / "captures" / "alpha-p2.pcap.gz"
    intact = capture.read_bytes()
    capture.write_text("Dear reader, this is not a capture at all.\n")
    run = place.start("--cores", "2", output=subprocess.PIPE)
    printed, _ = run.communicate()
    assert run.returncode == 0 and printed.count("acapella: starting the next run\n") == 1, printed
    assert "1 sample is missing in the tables, because its job failed: alpha-p2" in printed
    page = (place.campaign / "report.html").read_text().replace("\xa0", " ")
    assert "1 sample of 3 failed and is in no table or figure: alpha-p2 (digest: acapella: error: " in page
    figures = [path.read_text().replace("\xa0", " ") for path in place.campaign.glob("figures/*.svg")]
    assert figures and all("1 sample missing because it failed" in figure for figure in figures)
    with duckdb.connect(str(place.campaign / "catalog.duckdb"), read_only=True) as con:
        query = "select sample, excluded from samples where acap is null"
        assert con.execute(query).fetchall() == [("alpha-p2", "failed")]

    capture.write_bytes(intact)
    place.succeed("--cores", "2", "process")
    assert not list(place.campaign.glob("quarantine/*"))
    assert place.sha256("tables/*.csv") == finished.sha256("tables/*.csv")


@pytest.mark.parametrize(
    ("failed", "changes", "earlier", "continued"),
    [
        ([("digest", "a", MISTAKE)], {}, [], ["a"]),
        ([("digest", "a", OUTSIDE)], {}, ["a"], ["a", "a"]),  # tried twice
        ([("digest", "a", OUTSIDE)], {}, ["a", "a"], []),
        ([("digest", "a", MISTAKE)], {"missing": "fail"}, [], []),
        ([("digest", "b", MISTAKE)], {}, [], []),  # without a record
        ([("digest", "a", MISTAKE), ("process", None, MISTAKE)], {}, [], []),
        ([("digest", "a", 130)], {}, [], []),
    ],
)
def test_next_run_starts_only_if_it_can_make_progress(campaign, failed, changes, earlier, continued):
    campaign(MISTAKE)
    records = JobRecords()
    records._failed[1] = [FailedJob(rule, sample, Path("a.log"), code) for rule, sample, code in failed]
    assert quarantine.progress("mine", REPORT | changes, records, earlier) == continued
