"""Campaigns whose samples are processed in batches: results, reruns, and failures."""

import re
from pathlib import Path

import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.runs.workflow_run import DIGESTS, Workplace, rules_run, workplace

from acapella.campaign.batches import log_of, read_plan
from acapella.campaign.layout import Campaign
from acapella.snakefile import cleanup

SAMPLES = [f"s{number}" for number in range(5)]
BATCHED = {"batches": {"samples": 2}, "digest": {"engine": "native"}}


def add_samples(place: Workplace, names: list[str]) -> None:
    """Write captures, each with different bytes, and a sheet with these samples."""
    (place.directory / "captures").mkdir(exist_ok=True)
    for number, name in enumerate(names):
        path = place.directory / "captures" / f"{name}.pcap"
        if not path.exists():
            write_pcap(path, [(ts_ns + number, frame) for ts_ns, frame in busy_port()])
    place.sheet(*((name, "alpha", "p1", f"../captures/{name}.pcap") for name in names))


def jobs(printed: str) -> dict[str, int]:
    """Return the number of jobs of each rule in the plan of a run."""
    table = printed.partition("Job stats:")[2].partition("total")[0]
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.M) if rule != "all"}


def outcomes(place: Workplace, stage: str) -> dict[str, str]:
    """Return the outcome of each sample in the last run of a stage."""
    lines = [
        line
        for path in sorted((place.campaign / "batches" / stage).glob("*.tsv"))
        for line in path.read_text().splitlines()[1:]
    ]
    return dict(line.split("\t") for line in lines)


def times(place: Workplace) -> dict[str, int]:
    """Return the modification times of all acaps."""
    return {path.stem: path.stat().st_mtime_ns for path in (place.campaign / "acap").glob("*/*")}


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory) -> Workplace:
    """Return a campaign of five samples in batches of two, after all stages for samples."""
    place = Workplace(tmp_path_factory.mktemp("batched"))
    place.configure(**BATCHED)
    add_samples(place, SAMPLES)
    assert jobs(place.succeed("--until", "analyze")) == {"collect": 3, "digest": 3, "analyze": 3}
    return place


@pytest.fixture
def batched(analyzed, tmp_path) -> Workplace:
    """Return a copy of this campaign."""
    return analyzed.copy(tmp_path)


def test_dry_run_with_batches_writes_no_plan(tmp_path):
    place = Workplace(tmp_path)
    place.configure(**BATCHED)
    add_samples(place, SAMPLES)
    place.succeed("--dry-run")
    assert not place.campaign.exists()


def test_batches_have_the_results_of_single_jobs(finished, tmp_path):
    place = workplace(tmp_path, batches={"samples": 2})
    place.succeed("--cores", "2", "process")
    assert place.sha256(*DIGESTS, "tables/*", "provenance/*") == finished.sha256(*DIGESTS, "tables/*", "provenance/*")


def test_each_sample_of_a_batch_has_a_log_and_costs(analyzed):
    assert set(outcomes(analyzed, "digest")) == set(SAMPLES)
    for stage in ("collect", "digest", "analyze"):
        assert {path.stem for path in (analyzed.campaign / "logs" / stage).glob("*/*")} == set(SAMPLES)
    assert "digest: " in log_of(analyzed.campaign, "digest", "s0").read_text()
    costs = (analyzed.campaign / "benchmarks" / "batches" / "digest" / "b0001.samples.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in costs[1:]] == [["s0", "done"], ["s1", "done"]]


def test_second_run_of_batches_does_nothing(batched):
    assert jobs(batched.succeed("--until", "analyze")) == {}


def test_added_sample_forms_a_batch_and_only_it_is_processed(batched):
    before, batches = times(batched), {member.sample: member.batch for member in read_plan(batched.campaign)}
    add_samples(batched, ["a0", *SAMPLES])
    printed = batched.succeed("--until", "analyze")
    assert jobs(printed) == {"collect": 1, "digest": 1, "analyze": 1}
    assert {name: time for name, time in times(batched).items() if name in SAMPLES} == before
    now = {member.sample: member.batch for member in read_plan(batched.campaign)}
    assert now == batches | {"a0": "b0004"}


def test_changed_capture_costs_only_its_sample(batched):
    before = times(batched)
    write_pcap(batched.directory / "captures" / "s2.pcap", busy_port(shift=9))
    assert jobs(batched.succeed("--until", "analyze")) == {"collect": 1, "digest": 1, "analyze": 1}
    assert {name for name, time in times(batched).items() if time != before[name]} == {"s2"}
    for stage in ("collect", "digest", "analyze"):
        assert {name for name, outcome in outcomes(batched, stage).items() if outcome == "kept"} == {"s3"}


@pytest.mark.parametrize(
    "lost", ["raw/??/s1.json", "acap/??/s1.parquet", "flows/??/s1.parquet", "batches/partial/b0001/quality.parquet"]
)
def test_lost_result_of_a_batch_is_recreated(batched, lost):
    before = batched.sha256(lost)
    (path,) = batched.campaign.glob(lost)
    path.unlink()
    batched.succeed("--until", "analyze")
    assert batched.sha256(lost) == before and path.is_file()


def test_results_move_if_batches_are_introduced_or_omitted(batched):
    """Those of an earlier version with batches were not in shards, either."""
    before, links = times(batched), {path.name: path.resolve() for path in batched.campaign.glob("raw/??/*.pcap")}
    assert len(before) == len(links) == len(SAMPLES)
    cleanup.arrange(str(batched.campaign), [])
    assert {path.stem for path in batched.campaign.glob("acap/*.parquet")} == set(SAMPLES)
    assert {path.name: path.resolve() for path in batched.campaign.glob("raw/*.pcap")} == links
    assert {path.stem for path in batched.campaign.glob("logs/digest/*.log")} == set(SAMPLES)
    assert jobs(batched.succeed("--until", "analyze")) == {}
    assert times(batched) == before
    assert {path.name: path.resolve() for path in batched.campaign.glob("raw/??/*.pcap")} == links


def test_changed_analysis_runs_no_digest(batched):
    batched.configure(**BATCHED, analysis={"throughput_bin_s": 2})
    assert jobs(batched.succeed("--until", "analyze")) == {"analyze": 3}
    assert set(outcomes(batched, "analyze").values()) == {"done"}


def test_failed_sample_of_a_batch_costs_only_itself(tmp_path):
    """One capture is a text and one does not exist. The next run, without them, digests no other sample again."""
    place = Workplace(tmp_path)
    place.configure(**BATCHED | {"batches": {"samples": 10}})
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "letter.pcap").write_text("Dear reader, this is not a capture at all.\n")
    add_samples(place, ["s0", "letter", "s1"])
    ended = place.run("--keep-going", "process")
    assert ended.returncode == 1
    assert re.search(r"^  letter: acapella: error: .*letter\.pcap: ", ended.stdout, re.M), ended.stdout
    assert "\n  exclude: [letter]" in ended.stdout
    assert set(times(place)) == {"s0", "s1"}
    before = times(place)
    place.configure(**BATCHED | {"batches": {"samples": 10}, "exclude": ["letter"]})
    place.succeed("process")
    assert outcomes(place, "digest") == {"s0": "kept", "s1": "kept"}
    assert times(place) == before


def test_missing_capture_of_a_batch_fails_only_its_sample(batched):
    (batched.directory / "captures" / "s0.pcap").unlink()
    ended = batched.run("--keep-going", "--until", "analyze")
    assert ended.returncode == 1
    assert re.search(r"^  s0: acapella: error: .*s0\.pcap: no such file", ended.stdout, re.M), ended.stdout
    assert Campaign.at(batched.campaign).acap("s1").exists()


def test_damaged_frames_are_kept_without_a_new_digest_of_others(tmp_path):
    place = Workplace(tmp_path)
    place.configure(**BATCHED)
    add_samples(place, ["s0", "s1"])
    wild = tmp_path / "captures" / "s1.pcap"
    wild.write_bytes(wild.read_bytes()[:24] + b"\xff" * 200)
    ended = place.run("--until", "digest")
    assert "before the damage in s1, with this line:\n  digest: {damaged: keep}" in ended.stdout, ended.stdout
    before = times(place)["s0"]
    place.configure(**BATCHED | {"digest": {"engine": "native", "damaged": "keep"}})
    place.succeed("--until", "digest")
    assert outcomes(place, "digest") == {"s0": "kept", "s1": "done"}
    assert times(place)["s0"] == before


def test_plan_of_a_third_party_is_rejected(batched):
    plan = Path(batched.campaign / "batches" / "plan.jsonl")
    plan.write_text('{"batch": "b0001", "sample": "../x", "site": "a", "port": "b", "capture": "c"}\n')
    ended = batched.run("--dry-run")
    assert ended.returncode == 1
    assert "sample '../x'" in ended.stdout and "Traceback" not in ended.stdout, ended.stdout


def test_rules_after_the_samples_run_for_a_changed_batch(batched):
    add_samples(batched, [*SAMPLES, "s5"])
    assert {"index", "process", "figures", "report"} <= rules_run(batched.succeed("--dry-run"))
