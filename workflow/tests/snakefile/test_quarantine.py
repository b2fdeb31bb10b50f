"""Tests samples that fail: their records, and campaigns that are completed without them (`missing: report`)."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from acapella_testing import processes
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.runs import warm_acapella
from acapella_testing.runs.in_process import call_before
from acapella_testing.runs.stages import catalog_rows
from acapella_testing.runs.workflow_run import FIGURES, LETTER, Workplace, only_figures, workplace
from acapella_testing.soak import takes_minutes
from acapella_testing.svg_text import with_spaces

from acapella.campaign.batches import (
    STAGES,
    Member,
    current_file,
    failures_file,
    outputs_of,
    recorded_as_current,
    write_failures,
    write_plan,
)
from acapella.campaign.failed_samples import read_records, record_of
from acapella.campaign.journal import Journal
from acapella.campaign.layout import Campaign
from acapella.flowreports import program
from acapella.snakefile import config as configuration
from acapella.snakefile import quarantine
from acapella.snakefile.failures import samples_that_failed
from acapella.snakefile.job_records import FailedJob, JobRecords, failures_of_samples
from acapella_core.errors import DAMAGED, MISTAKE, OUTSIDE

REPORT = configuration.checked(
    {
        **{"campaign": "mine", "samples": "s.tsv", "missing": "report"},
        **{"digest": {"engine": "native"}, "flowreports": {"samples": "all"}},
    }
)


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """Return a function that ends a run in which sample `a` failed with an exit code and a log, by default in digest.

    ``values``: the sample's values in the sample sheet.
    """
    monkeypatch.chdir(tmp_path)
    write_file(Path("a.pcap"), "capture")

    def end_run(  # noqa: PLR0913
        code: int | None,
        text: str = "acapella: error: reason",
        *,
        rule: str = "digest",
        values: tuple = (),
        stopping: bool = False,
        errno=None,
    ) -> None:
        records, log = JobRecords(), write_file(Path("a.log"), text)
        records.stopping = stopping
        records._failed[1] = [FailedJob(rule, "a", log, code, errno)]
        quarantine.record_failures("mine", REPORT, records, lambda sample: f"{sample}.pcap", lambda _: [*values])

    return end_run


def omitted(changes: dict | None = None, capture: str = "a.pcap", values: tuple = ()) -> list[str]:
    """Return the samples that a run with changes to the configuration omits; the sheet has sample `a`."""
    return quarantine.omitted_samples("mine", REPORT | (changes or {}), lambda _: {"a": capture}, lambda _: [*values])


@pytest.mark.parametrize("code", [DAMAGED, MISTAKE, 128 + signal.SIGSEGV])
def test_sample_that_fails_is_recorded_with_its_log_and_omitted(campaign, code):
    campaign(code)
    record = json.loads(Path("mine/quarantine/a.json").read_text())
    assert (record["rule"], record["exit_code"], record["reason"]) == ("digest", code, "reason")
    assert Path("mine/quarantine/a.log").read_text() == "acapella: error: reason"
    assert omitted() == ["a"]
    assert omitted({"missing": "fail"}) == []
    assert omitted({"exclude": ["a"]}) == []


@pytest.mark.parametrize(
    "content",
    ["[]", "1", "{}", "{", '{"rule": "digest"}', '{"rule": [], "exit_code": 2, "reason": "r", "runs": 1}', "[" * 10**5],
    ids=lambda content: content[:20],
)
def test_file_that_is_not_a_record_is_ignored(campaign, content):
    campaign(MISTAKE)
    write_file(Path("mine/quarantine/a.json"), content)
    assert omitted() == []
    quarantine.remove_completed("mine")
    campaign(MISTAKE)
    assert quarantine.reasons("mine", ["a"]) == ["reason"]


@pytest.mark.parametrize("code", [None, OUTSIDE, 128 + signal.SIGKILL, 128 + signal.SIGTERM])
def test_sample_that_needs_memory_or_time_is_tried_twice(campaign, code):
    campaign(code, "digest: 10 frames")
    assert omitted() == []
    campaign(code, "digest: 10 frames")
    assert omitted() == ["a"]


def test_record_of_a_sample_that_is_not_in_the_sheet_is_ignored(campaign):
    campaign(MISTAKE)
    assert quarantine.omitted_samples("mine", REPORT, lambda _: {}) == []


def test_only_captures_of_failed_samples_are_looked_up(campaign):
    """A look-up is a request to the storage, in each job."""
    captures = Mock(return_value={"a": "a.pcap"})
    assert quarantine.omitted_samples("mine", REPORT, captures) == []
    assert captures.call_count == 0
    campaign(MISTAKE)
    assert quarantine.omitted_samples("mine", REPORT, captures, lambda _: []) == ["a"]
    assert [[*call.args[0]] for call in captures.call_args_list] == [["a"]]


@pytest.mark.parametrize("code", [None, 128 + signal.SIGKILL, 128 + signal.SIGTERM])
def test_batch_that_is_killed_fails_with_the_sample_that_it_processed(tmp_path, code):
    """Slurm kills the job, so that nothing else is written. The sample has no log. Another sample failed."""
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
    ("changes", "expected"),
    [({"max_seconds": 9}, []), ({"memory_mb": 4096}, []), ({"damaged": "keep"}, []), ({"threads": 2}, ["a"])],
)
def test_sample_is_retried_with_different_options_or_limits(campaign, changes, expected):
    campaign(OUTSIDE)
    campaign(OUTSIDE)
    assert omitted({"digest": REPORT["digest"] | changes}) == expected


def test_sample_is_retried_with_different_code(campaign, monkeypatch):
    campaign(MISTAKE)
    monkeypatch.setattr(quarantine.code, "digest", lambda *_: "repaired")
    assert omitted() == []
    campaign(OUTSIDE)  # the first failure of this code
    assert omitted() == []


@pytest.mark.parametrize("rule", STAGES)
@pytest.mark.parametrize(
    ("site", "sampled", "expected"), [("WEST", "10", ["a"]), ("EAST", "10", []), ("WEST", "100", [])]
)
def test_sample_is_retried_with_different_values_in_the_sheet(campaign, rule, site, sampled, expected):
    campaign(MISTAKE, rule=rule, values=("WEST", "p1", None, ("sampling", "10")))
    assert omitted(values=(site, "p1", None, ("sampling", sampled))) == expected


@pytest.mark.parametrize(("rule", "expected"), [("digest", ["a"]), ("analyze", [])])
def test_sample_whose_analysis_failed_is_retried_with_different_heuristics(campaign, rule, expected, monkeypatch):
    campaign(MISTAKE, rule=rule)
    monkeypatch.setattr(quarantine.code, "heuristics_digest", lambda: "edited")
    assert omitted() == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"samples": ["a"]}, ["a"]), ({"samples": ["b"]}, []), ({"samples": None}, []), ({"sketch": "4x1024"}, [])],
)
def test_sample_whose_flow_report_failed_is_omitted_as_long_as_it_is_selected(campaign, changes, expected):
    campaign(MISTAKE, rule="flowreports")
    assert omitted({"flowreports": REPORT["flowreports"] | changes}) == expected


@pytest.mark.parametrize(("rule", "expected"), [("digest", []), ("flowreports", ["a"])])
def test_flow_reports_complete_a_sample_only_if_they_failed(campaign, rule, expected):
    campaign(MISTAKE, rule=rule)
    write_results(60, batched=True)
    shutil.rmtree("mine/flowreports")
    quarantine.remove_completed("mine")
    assert omitted() == expected


def test_sample_whose_flow_report_failed_is_retried_with_a_different_loader(campaign, tmp_path, monkeypatch):
    campaign(MISTAKE, rule="flowreports")
    assert omitted() == ["a"]
    monkeypatch.setattr(program, "loader", lambda: str(write_file(tmp_path / "loader", "rebuilt")))
    quarantine.code.loader_digest.cache_clear()
    assert omitted() == []
    quarantine.code.loader_digest.cache_clear()


def test_sample_whose_flow_report_failed_is_only_without_flow_reports(campaign):
    campaign(MISTAKE, rule="flowreports")
    assert quarantine.by_stage("mine", omitted()) == ([], ["a"])
    campaign(MISTAKE, rule="analyze")
    assert quarantine.by_stage("mine", omitted()) == (["a"], [])


@pytest.mark.parametrize("rules", [("analyze", "flowreports"), ("flowreports", "analyze")])
def test_sample_of_which_two_stages_fail_is_recorded_with_the_stage_that_omits_more(campaign, rules):
    records = JobRecords()
    records._failed[1] = [FailedJob(rule, "a", write_file(Path("a.log"), "error"), MISTAKE) for rule in rules]
    quarantine.record_failures("mine", REPORT, records, "{}.pcap".format)
    assert read_records(Path("mine"))["a"]["rule"] == "analyze"


def test_sample_without_a_capture_is_retried_when_it_has_one(campaign):
    Path("a.pcap").unlink()
    campaign(MISTAKE)
    assert omitted() == ["a"]
    write_file(Path("a.pcap"), "capture")
    assert omitted() == []


def test_sample_with_an_unreadable_capture_is_retried_when_it_is_readable(campaign, monkeypatch):
    def no_permission(path, *_, **__):
        if str(path) == "a.pcap":
            raise PermissionError

    with monkeypatch.context() as patched:
        call_before(patched, os, "open", no_permission)
        campaign(MISTAKE)
        assert omitted() == ["a"]
    assert omitted() == []
    assert json.loads(Path("mine/quarantine/a.json").read_text())["capture"] == {
        "path": "a.pcap",
        "state": "unreadable",
    }


@pytest.mark.parametrize("name", ["repaired.pcap", "a.pcap"])
def test_sample_with_a_different_path_or_capture_is_retried(campaign, name):
    campaign(MISTAKE)
    write_file(Path(name), "repaired capture")
    assert omitted(capture=name) == []


def write_results(seconds: int, *, batched: bool) -> None:
    """Write files as results of all stages for sample `a`, with a modification time relative to now."""
    modified, member = time.time() + seconds, Member("b0001", "a", "site", "port", "a.pcap")
    results = {stage: outputs_of(Path("mine"), STAGES[stage], member) for stage in STAGES}
    if not batched:
        results["analyze"] = [Campaign(Path("mine")).partial("a", path.stem) for path in results["analyze"]]
    for path in (path for paths in results.values() for path in paths):
        os.utime(write_file(path, "result"), (modified, modified))
    if batched:
        write_plan(Path("mine"), [member])
        Journal(Path("mine"), "analyze", "b0001").add({"a": "key"}, results["analyze"])


@pytest.mark.parametrize("batched", [False, True])
def test_earlier_results_of_a_failed_sample_do_not_complete_it(campaign, batched):
    """Both runs fail and keep the results of an earlier run, like a batch that is killed."""
    write_results(-60, batched=batched)
    campaign(OUTSIDE)
    campaign(OUTSIDE)
    quarantine.remove_completed("mine")
    assert omitted() == ["a"]
    write_results(60, batched=batched)
    quarantine.remove_completed("mine")
    assert not list(Path("mine/quarantine").iterdir())


def test_tables_of_its_batch_do_not_complete_a_sample_that_failed(campaign):
    campaign(MISTAKE)
    write_results(60, batched=True)
    Journal(Path("mine"), "analyze", "b0001").start("a")
    quarantine.remove_completed("mine")
    assert omitted() == ["a"]


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
def test_failure_without_a_cause_in_the_sample_is_not_recorded(campaign, code, options):
    campaign(code, **options)
    assert not list(Path("mine").glob("quarantine/*"))


@pytest.mark.soak
def test_run_started_in_another_directory_starts_the_next_run(tmp_path):
    place = workplace(tmp_path / "campaign", missing="report")
    write_file(place.directory / "captures" / "alpha-p2.pcap.gz", LETTER)
    command = [*place.command("process"), "--cores", "2"]
    done = processes.run(*command, cwd=tmp_path, env=os.environ | place.environment, timeout=300)
    assert done.returncode == 0, done.stdout
    assert (done.stdout + done.stderr).count("acapella: starting the next run; ") == 1


@pytest.mark.soak
@pytest.mark.parametrize(
    ("changes", "options"), [({}, ["--keep-going"]), ({"batches": {"samples": 2}}, [])], ids=["single", "batches"]
)
def test_one_run_completes_a_campaign_without_a_failed_sample(finished, tmp_path, changes, options):
    """The file of alpha-p2 is not a capture until the last command."""
    place, capture = workplace(tmp_path, missing="report", **only_figures(), **changes), "captures/alpha-p2.pcap.gz"
    place.environment |= warm_acapella.environment()  # kept, because the next run replaces the process
    write_file(tmp_path / capture, LETTER)
    run = place.start("--cores", "2", *options, output=subprocess.PIPE)
    printed, _ = run.communicate()
    assert run.returncode == 0, printed
    assert printed.count("acapella: starting the next run; ") == 1, printed
    assert "1 sample is missing from the tables, because its job failed: alpha-p2" in printed
    page = with_spaces((place.campaign / "report.html").read_text())
    assert "1 sample of 3 failed and is in no table or figure: alpha-p2 (digest: " in page
    assert "acapella: error" not in page
    figures = [with_spaces(path.read_text()) for path in place.campaign.glob("figures/*.svg")]
    assert len(figures) == len(FIGURES)
    assert all("1 sample missing because it failed" in figure for figure in figures)
    failed = catalog_rows(place.campaign, "select sample, excluded from samples where acap is null")
    assert failed == [("alpha-p2", "failed")]

    sheet = tmp_path / "config" / "samples.tsv"
    assert "Nothing to be done" in place.succeed("--dry-run", "process")
    sheet.write_text(sheet.read_text().replace("alpha-p2\talpha\t", "alpha-p2\tother\t"))
    assert "digest" in place.succeed("--dry-run", "process"), "the sample is omitted despite its changed site"
    sheet.write_text(sheet.read_text().replace("alpha-p2\tother\t", "alpha-p2\talpha\t"))

    shutil.copyfile(finished.directory / capture, tmp_path / capture)
    place.succeed("--cores", "2", "process")
    assert not list(place.campaign.glob("quarantine/**/*.*"))
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


# A tshark that crashes if the source of the first frame is 2:0:0:0:0:1, and never ends if it is 2:0:0:0:0:2. In the
# pcapng that it reads, this address ends at byte 100. The bytes are octal numbers, which printf understands.
FAILING_TSHARK = r"""start=$(dd bs=1 count=100 status=none | od -An -v -to1 | tr -d '\n')
case $start in
  *" 002 000 000 000 000 001") exit 139 ;;
  *" 002 000 000 000 000 002") exec sleep 1000 ;;
esac
{ printf "$(echo "$start" | sed 's/ /\\/g')"; exec cat; } | TSHARK "$@"
"""


def write_failing_captures(directory: Path) -> None:
    """Write captures: a good one, two with which tshark crashes or hangs, and one that needs too much memory."""
    new_directory(directory)
    (start, first), *_ = frames = busy_port()
    for sender, name in enumerate(("good", "crash", "hang")):
        marked = first[:6] + bytes([2, 0, 0, 0, 0, sender]) + first[12:]
        write_pcap(directory / f"{name}.pcap", [(start - sender, marked), *frames])
    udp = bytes.fromhex("0200000000060200000000070800 4500001c000000004011 0000 0a000001 0a000002 0000 0009 0008 0000")
    flows = (udp[:26] + number.to_bytes(4, "big") + udp[30:] for number in range(1 << 24, (1 << 24) + 100_000))
    write_pcap(directory / "memory.pcap", [(start + number, frame) for number, frame in enumerate(flows)])


@takes_minutes
def test_samples_that_crash_or_hang_tshark_or_need_too_much_memory_do_not_affect_others(tmp_path):
    """All are in one batch. The second run repeats those that may have needed only more time or memory."""
    settings = {"batches": {"samples": 10}, "digest": {"engine": "tshark", "memory_mb": 16, "max_seconds": 60}}
    reasons = {"crash": "tshark", "hang": "not finished after", "memory": "memory"}
    place, alone = Workplace(tmp_path), Workplace(tmp_path / "alone")
    place.configure(missing="report", **settings)
    write_failing_captures(tmp_path / "captures")
    place.sheet(*((name, "alpha", name, f"../captures/{name}.pcap") for name in ("good", *reasons)))
    with tempfile.TemporaryDirectory() as programs:  # confined tshark runs as another user, who may not read tmp_path
        Path(programs).chmod(0o755)
        place.replace_tshark(Path(programs), FAILING_TSHARK.replace("TSHARK", shutil.which("tshark") or ""))
        for _ in range(2):
            place.fail("--keep-going")
        records = read_records(place.campaign)
        assert {name: record["rule"] for name, record in records.items()} == dict.fromkeys(reasons, "digest")
        for name, words in reasons.items():
            assert words in record_of(place.campaign, name, ".log").read_text(), name
            assert words in records[name]["reason"], (name, records[name])
        printed = place.succeed("--cores", "2")
    assert "3 samples are missing from the tables" in printed, printed
    page = with_spaces((place.campaign / "report.html").read_text())
    assert "3 samples of 4 failed" in page
    assert all(f"{name} (digest: " in page for name in reasons)
    assert "acapella: error" not in page
    alone.configure(**settings | {"missing": "fail"})
    alone.sheet(("good", "alpha", "good", "../../captures/good.pcap"))
    alone.succeed("process")
    same = ("acap/good.parquet", "tables/frame_sizes.csv")
    assert place.sha256(*same) == alone.sha256(*same)
