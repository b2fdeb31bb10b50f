"""Campaigns whose samples are processed in batches: results, reruns, and failures."""

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.frames import pcap_files
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import write_file, write_json
from acapella_testing.runs.workflow_run import DIGESTS, LETTER, ROOT, Workplace, jobs, rules_run, workplace
from acapella_testing.svg_text import with_spaces

from acapella.campaign.batches import STAGES, Member, log_of, outputs_of, read_plan
from acapella.campaign.failed_samples import read_records, record_of
from acapella.campaign.layout import Campaign
from acapella.flowreports import program
from acapella.snakefile import cleanup
from acapella_core import shards

SAMPLES = [f"s{number}" for number in range(5)]
LOST = ("raw/??/s1.json", "acap/??/s1.parquet", "flows/??/s1.parquet", "batches/partial/b0001/quality.parquet")
BATCHED = {"batches": {"samples": 2}, "digest": {"engine": "native"}}
SELECTED = ["s0", "raw", "s1"]
REPORTED = BATCHED | {"flowreports": {"samples": [*SELECTED, "s4"]}, "missing": "report"}
REPORTS = ("tables/flowreport_*", "flowreports/*/*.parquet", "flowreports/*/reports.pcap")
ONLY_RAW = {
    **{"flowreports": {"samples": ["raw"]}, "missing": "report"},
    "figures": {"only": ["frame_sizes", "flowreport_rate"], "formats": ["svg"]},
}
needs_program = pytest.mark.skipif(
    program.why_unavailable() is not None, reason="the P4 program cannot run: no flow reports"
)


def outcomes(place: Workplace, stage: str) -> dict[str, str]:
    """Return the outcome of each sample in the last run of a stage."""
    rows = [row for path in (place.campaign / "batches" / stage).glob("*.tsv") for row in read_rows(path)]
    return {row["sample"]: row["outcome"] for row in rows}


def samples_in(place: Workplace, table: str) -> set[str]:
    """Return the samples of a table."""
    return {row["sample"] for row in read_rows(place.campaign / "tables" / f"{table}.csv")}


def figure_text(place: Workplace, name: str) -> str:
    """Return the text of a figure."""
    return with_spaces((place.campaign / "figures" / f"{name}.svg").read_text())


def times(place: Workplace) -> dict[str, int]:
    """Return the modification times of all acaps."""
    return {path.stem: path.stat().st_mtime_ns for path in (place.campaign / "acap").glob("*/*")}


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory) -> Workplace:
    """Return a campaign of five samples in batches of two, after all stages for samples."""
    place = campaign_of(tmp_path_factory.mktemp("batched"), SAMPLES)
    assert jobs(place.succeed("--until", "analyze")) == {"collect": 3, "digest": 3, "analyze": 3}
    return place


@pytest.fixture
def batched(analyzed, tmp_path) -> Workplace:
    """Return a copy of the analyzed campaign."""
    return analyzed.copy(tmp_path)


def campaign_of(directory: Path, samples: list[str], **changes) -> Workplace:
    """Return a campaign of samples in batches of two before its first run."""
    place = Workplace(directory)
    place.configure(**BATCHED | changes)
    place.add_samples(samples)
    return place


def test_dry_run_with_batches_writes_no_plan(tmp_path):
    place = campaign_of(tmp_path, SAMPLES)
    place.succeed("--dry-run")
    assert not place.campaign.exists()


def test_batches_have_the_results_of_single_jobs(finished, tmp_path):
    place = workplace(tmp_path, batches={"samples": 2})
    place.succeed("--cores", "2", "process")
    assert place.sha256(*DIGESTS, "tables/*", "provenance/*") == finished.sha256(*DIGESTS, "tables/*", "provenance/*")


@pytest.mark.soak
def test_each_sample_of_a_batch_has_a_log_and_costs(analyzed):
    assert set(outcomes(analyzed, "digest")) == set(SAMPLES)
    for stage in ("collect", "digest", "analyze"):
        assert {path.stem for path in (analyzed.campaign / "logs" / stage).glob("*/*")} == set(SAMPLES)
    assert "digest: " in log_of(analyzed.campaign, "digest", "s0").read_text()
    costs = read_rows(analyzed.campaign / "benchmarks" / "batches" / "digest" / "b0001.samples.tsv")
    assert [(row["sample"], row["outcome"]) for row in costs] == [("s0", "done"), ("s1", "done")]


def test_second_run_of_batches_does_nothing(batched):
    assert jobs(batched.succeed("--until", "analyze")) == {}


def test_added_sample_forms_a_batch_and_only_it_is_processed(batched):
    before, batches = times(batched), {member.sample: member.batch for member in read_plan(batched.campaign)}
    batched.add_samples(["a0", *SAMPLES])
    assert jobs(batched.succeed("--until", "analyze")) == {"collect": 1, "digest": 1, "analyze": 1}
    assert before.items() <= times(batched).items()
    assert {member.sample: member.batch for member in read_plan(batched.campaign)} == batches | {"a0": "b0004"}


def test_only_the_sample_with_a_changed_capture_is_processed_again(batched):
    before = times(batched)
    write_pcap(batched.directory / "captures" / "s2.pcap", busy_port(shift=9))
    assert jobs(batched.succeed("--until", "analyze")) == {"collect": 1, "digest": 1, "analyze": 1}
    assert {name for name, _ in times(batched).items() - before.items()} == {"s2"}
    for stage in ("collect", "digest", "analyze"):
        assert {name for name, outcome in outcomes(batched, stage).items() if outcome == "kept"} == {"s3"}


@pytest.mark.soak
def test_lost_results_of_a_batch_are_recreated(batched):
    before = batched.sha256(*LOST)
    for pattern in LOST:
        (path,) = batched.campaign.glob(pattern)
        path.unlink()
        batched.succeed("--until", "analyze")
        assert path.is_file(), pattern
    assert batched.sha256(*LOST) == before


def test_results_move_if_batches_are_introduced_or_omitted(batched):
    """Results of earlier versions with batches were not in shards, either."""

    def captures(pattern: str) -> dict[str, Path]:
        return {path.name: path.resolve() for path in batched.campaign.glob(pattern)}

    before, links = times(batched), captures("raw/??/*.pcap")
    assert len(before) == len(links) == len(SAMPLES)
    cleanup.arrange(str(batched.campaign), [])
    assert {path.stem for path in batched.campaign.glob("acap/*.parquet")} == set(SAMPLES)
    assert captures("raw/*.pcap") == links
    assert {path.stem for path in batched.campaign.glob("logs/digest/*.log")} == set(SAMPLES)
    assert jobs(batched.succeed("--until", "analyze")) == {}
    assert times(batched) == before
    assert captures("raw/??/*.pcap") == links


def test_all_files_of_samples_move_to_shards_and_back(tmp_path):
    """The files of a collection from a testbed with replays; a sample may have the name of a shard."""
    assert shards.shard_of("s401") == "3f"
    for sample in ("s401", "3f"):
        replay = {"departures": [{"file": f"{sample}.{n}.departures.parquet"} for n in (1, 2)]}
        manifest = {"acapella_manifest": 1, "sample": sample, "file": f"{sample}.pcap", "replay": replay}
        write_json(tmp_path / "raw" / f"{sample}.json", manifest)
        names = [f"raw/{sample}.pcap", *(f"raw/{file['file']}" for file in replay["departures"])]
        names += [f"generated/{sample}/monitor_ports.parquet", f"flowreports/{sample}/reports.pcap"]
        names += [f"quarantine/{sample}.{suffix}" for suffix in ("json", "log")]
        names += [f"acap/{sample}.parquet", f"logs/flowreports/{sample}.log", f"benchmarks/flowreports/{sample}.tsv"]
        for name in names:
            write_file(tmp_path / name, sample)
    for name in ("samples.tsv", "failed.tsv", "replayed.pcap"):
        write_file(tmp_path / "raw" / name, name)

    def files() -> dict[str, str]:
        found = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path.relative_to(tmp_path)): path.read_text() for path in found}

    before = files()
    cleanup.arrange(str(tmp_path), shards.STAGES.values())
    moved = files()
    assert before.keys() & moved.keys() == {"raw/samples.tsv", "raw/failed.tsv", "raw/replayed.pcap"}
    layout = Campaign.at(tmp_path)
    assert layout.capture("3f", "3f.2.departures.parquet").is_file()
    assert layout.flowreport("3f", "reports.pcap").is_file() and layout.generated("s401", "monitor_ports").is_file()
    assert record_of(tmp_path, "3f").is_file()
    cleanup.arrange(str(tmp_path), [])
    assert files() == before
    empty = [path for path in tmp_path.rglob("*") if path.is_dir() and not any(path.iterdir())]
    assert empty == [tmp_path / "batches" / "sharded"]


def entries(paths: Iterable[Path]) -> Counter:
    """Return the number of entries of each directory that contains files with these paths."""
    return Counter(path.parent for path in {above for path in paths for above in (path, *path.parents)})


def files_of_jobs(place: Workplace, printed: str) -> set[Path]:
    """Return the files that all jobs write. ``printed``: dry run with the commands of the jobs, which name the logs."""
    outputs = re.findall(r"^(results/[^\t]+)\t", place.succeed("--summary"), re.M)
    logs = re.findall(r"(?:>|tee) (results/tiny/logs/\S+\.log)", printed)
    assert len(logs) > 3 * 40, "a log for each batch in each stage"
    benchmarks = [log.replace("/logs/", "/benchmarks/").replace(".log", ".tsv") for log in logs]
    return {place.directory / name for name in (*outputs, *logs, *benchmarks)}


def files_in_batches(layout: Campaign, member: Member) -> Iterator[Path]:
    """Yield the files of a sample that are not outputs of rules."""
    for name, stage in STAGES.items():
        yield from outputs_of(layout.directory, stage, member)
        yield log_of(layout.directory, name, member.sample)
    yield layout.capture(member.sample, f"{member.sample}.pcap")
    yield layout.generated(member.sample, "monitor_ports")
    yield record_of(layout.directory, member.sample)


def test_benchmark_of_each_rule_has_the_path_of_its_log():
    text = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    pairs = re.findall(r"^ +log:\n +(.+),\n +benchmark:\n +(.+)$", text, re.M)
    assert len(pairs) == text.count("benchmark:") > 30
    others = {
        benchmark
        for log, benchmark in pairs
        if log.replace("logs/", "benchmarks/").replace(".log", ".tsv") != benchmark
    }
    assert others == {'"results/dashboard/logs/dashboard.tsv"'}


@needs_program
@pytest.mark.parametrize("testbed", ["files", "local"])
def test_no_directory_has_an_entry_for_each_sample(tmp_path, testbed):
    """The plan contains the outputs, logs and benchmarks of all rules."""
    names, place = ["quiet-1", "quiet-2", *(f"s{number:04}" for number in range(9998))], Workplace(tmp_path)
    settings = {"batches": {"samples": 250}, "flowreports": {"samples": "all"}, "trials": {"quiet": names[:2]}}
    if testbed == "local":
        settings |= {"testbed": "local", "samples": None, "local": {"replay": {"environments": ["quiet"]}}}
    place.configure(**BATCHED | settings)
    cleanup.arrange(str(place.campaign), shards.STAGES.values())
    layout = Campaign.at(place.campaign)
    captures = [tmp_path / "captures" / f"{name}.pcap" for name in names]
    place.sheet(*((path.stem, "alpha", "p1", f"../captures/{path.name}") for path in captures))
    if testbed == "local":  # a collection that is complete
        captures = [layout.capture(name, f"{name}.pcap") for name in names]
        rows = "".join(f"{name}\talpha\tp1\t{name}.pcap\n" for name in names)
        write_file(layout.directory / "raw" / "samples.tsv", f"sample\tsite\tport\tfile\n{rows}")
        for path in (layout.directory / "collect.json", *map(layout.manifest, names)):
            write_file(path, "{}")
    for path in captures:
        write_file(path, pcap_files.header())
    printed = place.succeed("--dry-run", "--printshellcmds")
    planned_jobs = jobs(printed)
    assert planned_jobs.items() >= {"digest": 40, "analyze": 40, "kappa": 1, "flowreports": 40, "flowtables": 1}.items()
    assert sum(planned_jobs.values()) < 200, "docs/running.md: at most 200 jobs for 10,000 samples"
    commands = re.findall(r"\bacapella (?:p4|campaign|digest|collect) .*", printed)
    assert any("p4 tables" in command for command in commands)
    assert max(map(len, commands)) < 5000, "a command has the names of all samples"
    planned = files_of_jobs(place, printed)
    members = [Member(f"b{number // 250:04}", name, "", "", "") for number, name in enumerate(names[:400])]
    counts = entries([*planned, *(path for member in members for path in files_in_batches(layout, member))])
    assert layout.directory / "acap" in counts and layout.directory / "logs" in counts
    assert {str(path): count for path, count in counts.items() if count > 256} == {}  # the number of shards


def test_changed_analysis_runs_no_digest(batched):
    batched.configure(**BATCHED, analysis={"throughput_bin_s": 2})
    assert jobs(batched.succeed("--until", "analyze")) == {"analyze": 3}
    assert set(outcomes(batched, "analyze").values()) == {"done"}


def test_failed_sample_of_a_batch_does_not_affect_the_others(tmp_path):
    """One capture is a text file. The next run, without it, digests no other sample again."""
    write_file(tmp_path / "captures" / "letter.pcap", LETTER)
    place = campaign_of(tmp_path, ["s0", "letter", "s1"], batches={"samples": 10})
    printed = place.fail("--keep-going", "process")
    assert re.search(r"^  letter: (?!acapella).*letter\.pcap: ", printed, re.M), printed
    assert "\n  exclude: [letter]" in printed
    before = times(place)
    assert set(before) == {"s0", "s1"}
    place.configure(**BATCHED | {"batches": {"samples": 10}, "exclude": ["letter"]})
    place.succeed("process")
    assert outcomes(place, "digest") == {"s0": "kept", "s1": "kept"}
    assert times(place) == before


def test_missing_capture_of_a_batch_fails_only_its_sample(batched):
    (batched.directory / "captures" / "s0.pcap").unlink()
    printed = batched.fail("--keep-going", "--until", "analyze")
    assert re.search(r"^  s0: (?!acapella).*s0\.pcap: no such file", printed, re.M), printed
    assert Campaign.at(batched.campaign).acap("s1").exists()


def test_damaged_frames_are_kept_without_a_new_digest_of_others(tmp_path):
    place, damaged = campaign_of(tmp_path, ["s0", "s1"]), tmp_path / "captures" / "s1.pcap"
    write_file(damaged, damaged.read_bytes()[:24] + b"\xff" * 200)
    printed = place.fail("--until", "digest")
    assert "before the damage in s1, with this line:\n  digest: {damaged: keep}" in printed, printed
    before = times(place)["s0"]
    place.configure(**BATCHED | {"digest": {"engine": "native", "damaged": "keep"}})
    place.succeed("--until", "digest")
    assert outcomes(place, "digest") == {"s0": "kept", "s1": "done"}
    assert times(place)["s0"] == before


def test_plan_with_an_invalid_sample_name_is_rejected(batched):
    plan = '{"batch": "b0001", "sample": "../x", "site": "a", "port": "b", "capture": "c"}\n'
    write_file(batched.campaign / "batches" / "plan.jsonl", plan)
    printed = batched.fail("--dry-run")
    assert "sample '../x'" in printed
    assert "Traceback" not in printed, printed


def test_rules_after_the_samples_run_for_a_changed_batch(batched):
    batched.add_samples([*SAMPLES, "s5"])
    assert {"index", "process", "figures", "report"} <= rules_run(batched.succeed("--dry-run"))


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> tuple[Workplace, str]:
    """Return a campaign with flow reports in batches after two runs, and the output of the first one.

    Flow reports of sample `raw` fail, because the P4 program only reads Ethernet. Sample s2 has none.
    """
    directory = tmp_path_factory.mktemp("reported")
    frames = [(ts_ns, frame[14:]) for ts_ns, frame in busy_port()]
    pcap_files.write_pcap(write_file(directory / "captures" / "raw.pcap", ""), frames, link_type=101)
    place = campaign_of(directory, [*SELECTED, "s2"], **REPORTED | {"flowreports": {"samples": SELECTED}})
    printed = place.fail("--keep-going", "flowtables")
    place.succeed("flowtables")
    return place, printed


@needs_program
def test_failed_flow_report_of_a_batch_does_not_affect_the_other_samples(reported):
    place, printed = reported
    assert re.search(r"^  raw: .*raw\.pcap: link type 12; only Ethernet", printed, re.M), printed
    assert read_records(place.campaign)["raw"]["rule"] == "flowreports"
    assert outcomes(place, "flowreports") == {"s0": "kept", "s1": "done"}
    assert samples_in(place, "flowreport_counts") == {"s0", "s1"}
    assert samples_in(place, "capture_quality") == {"s0", "s1", "s2", "raw"}, "only its flow reports are omitted"
    assert "only Ethernet" in log_of(place.campaign, "flowreports", "raw").read_text()


@needs_program
def test_failed_flow_report_of_a_single_job_omits_no_other_result(reported, tmp_path):
    """Without any flow report, the tables flowreport_* are empty."""
    shutil.copytree(reported[0].directory / "captures", tmp_path / "captures")
    place = campaign_of(tmp_path, ["s0", "raw"], batches={"samples": 1}, **ONLY_RAW)
    assert "the next run creates tables of flow reports without them" in place.fail("flowtables")
    assert "1 sample is missing from the tables of flow reports, because its job failed: raw" in place.succeed("all")
    assert (samples_in(place, "capture_quality"), samples_in(place, "flowreport_counts")) == ({"s0", "raw"}, set())
    page = with_spaces((place.campaign / "report.html").read_text())
    assert "Flow reports of 1 sample of 2 failed and are in no table or figure: raw (flowreports: " in page
    note = "1 sample missing because it failed"
    assert note in figure_text(place, "flowreport_rate") and note not in figure_text(place, "frame_sizes")


@needs_program
def test_flow_reports_of_batches_are_those_of_single_jobs(reported, tmp_path):
    shutil.copytree(reported[0].directory / "captures", tmp_path / "captures")
    place = campaign_of(tmp_path, ["s0", "s1", "s2"], batches={"samples": 1}, flowreports={"samples": ["s1", "s0"]})
    assert jobs(place.succeed("flowtables"))["flowreports"] == 2
    assert place.sha256(*REPORTS) == reported[0].sha256(*REPORTS)


@needs_program
def test_only_flow_reports_of_an_added_sample_are_computed(reported, tmp_path):
    place = reported[0].copy(tmp_path)

    def of_samples() -> dict[str, int]:
        return {path.parent.name: path.stat().st_mtime_ns for path in place.campaign.glob("flowreports/*/*/pairs.*")}

    before = of_samples()
    place.configure(**REPORTED)
    place.add_samples(["s4", *SELECTED, "s2"])
    assert jobs(place.succeed("--dry-run", "flowtables"))["flowreports"] == 1
    place.succeed("flowtables")
    after = of_samples()
    assert before.items() <= after.items() and {*after} == {"s0", "s1", "s4"}
    lost = Campaign.at(place.campaign).flowreport("s0", "pairs.parquet")
    lost.unlink()
    assert jobs(place.succeed("--dry-run", "flowtables"))["flowreports"] == 1
