"""Tests the memory and run time computed for jobs, and that the rules request them."""

import math
import re

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.workflow_run import ROOT, run_snakemake

from acapella.cli.batch_analysis import TOGETHER_BYTES
from acapella.common import queries
from acapella.digest import duration
from acapella.digest.command import ENGINES
from acapella.snakefile.resources import MIB, NEEDS, SNAKEMAKE_MB, TOGETHER_MIB, memory_limit, memory_mb, run_minutes

GIB = 1024


class Input(list):
    """The input of a rule: paths with sizes in MiB."""

    def __init__(self, **sizes: float):
        super().__init__(name.replace("_", ".") for name in sizes)
        self.size_files_mb = [*sizes.values()]


def test_memory_and_time_grow_with_the_input():
    memory, minutes, need = memory_mb("digest"), run_minutes("digest"), NEEDS["digest"]
    small, large = Input(a_pcap=1), Input(a_pcap=10 * GIB)
    assert memory({}, small, 1) == SNAKEMAKE_MB + need.mb + need.mb_per_mib
    assert memory({}, large, 1) == SNAKEMAKE_MB + need.mb + need.mb_per_mib * 10 * GIB
    assert minutes({}, large, 1) == math.ceil(
        need.minutes + 10 * need.minutes_per_gib + need.minutes_per_1000_samples / 1000
    )


@pytest.mark.parametrize(("attempt", "factor"), [(2, 2), (3, 4), (4, 8), (9, 8)])
def test_memory_and_time_grow_with_each_attempt(attempt, factor):
    memory, minutes, small, large = memory_mb("digest"), run_minutes("digest"), Input(a_pcap=1), Input(a_pcap=10 * GIB)
    assert memory({}, small, attempt) - SNAKEMAKE_MB == factor * (memory({}, small, 1) - SNAKEMAKE_MB)
    assert minutes({}, large, attempt) == pytest.approx(factor * minutes({}, large, 1), abs=factor)


def test_digest_memory_is_limited_by_the_config():
    assert memory_mb("digest", at_most=100)({}, Input(a_pcap=10 * GIB), 1) == SNAKEMAKE_MB + NEEDS["digest"].mb + 100


@pytest.mark.parametrize(("attempt", "samples"), [(1, 1), (2, 2), (3, 4)])
def test_batch_requests_time_for_samples_that_reach_their_limit(attempt, samples):
    assert (
        run_minutes("digest", limit_s=3600)({}, Input(a_pcap=1), attempt)
        == run_minutes("digest")({}, Input(a_pcap=1), attempt) + samples * 60
    )
    assert (ROOT / "rules" / "digest.smk").read_text().count('limit_s=config["digest"]["max_seconds"]') == 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mib", [1, 100, 10 * GIB])
def test_digest_ends_a_sample_before_its_job_reaches_the_requested_time(engine, mib):
    """A sample is ended by its own limit while the others of its batch take as long as expected."""
    limit_minutes = duration.limit_s(3600, engine, {"a.pcap.gz": mib * MIB}) / 60
    requested = {"engine": engine, "limit_s": 3600}
    assert run_minutes("digest", **requested)({}, Input(a_pcap_gz=mib), 1) >= limit_minutes + 15
    batch = {"captures": lambda _: [("a.pcap.gz", mib * MIB), ("b.pcap", 5 * GIB * MIB)]}
    others = 5 * duration.MINUTES_PER_GIB[engine]
    assert run_minutes("digest", **requested, **batch)({}, Input(), 1) >= limit_minutes + others + 15
    assert duration.limit_s(3600, engine, {"a.pcap": GIB * MIB}) < 6 * 3600, "clusters reject requests of days"


def test_digest_requests_more_time_than_slow_captures_take():
    """tshark takes 7 s for a MiB of small frames; hybrid took up to 60 times as long as for the benchmark."""
    one_gib = Input(a_pcap=GIB)
    assert run_minutes("digest", engine="tshark")({}, one_gib, 1) > 7 * GIB / 60
    assert run_minutes("digest", engine="hybrid")({}, one_gib, 1) > 60 * 11.3 / 691 * GIB / 60
    assert (ROOT / "rules" / "digest.smk").read_text().count('engine=config["digest"]["engine"]') == 2


def test_compressed_capture_counts_with_its_expected_size():
    memory = memory_mb("digest")
    assert memory({}, Input(a_pcap_zst=100), 1) == memory({}, Input(a_pcap=100 * duration.COMPRESSED), 1)


SNAKEFILE = """
from acapella.snakefile.resources import memory_mb, run_minutes

rule digest:
    input: "a.pcap"
    output: "a.acap"
    resources: mem_mb=memory_mb("digest"), runtime=run_minutes("digest")
    shell: "echo {resources.mem_mb} {resources.runtime} > {output}; test {resources.mem_mb} -gt 2000"

rule collect:
    output: "a.pcap"
    shell: "truncate -s 10M {output}"
"""


def test_resources_are_recomputed_when_the_input_exists_and_for_each_attempt(tmp_path):
    """The capture does not exist when Snakemake plans the jobs. The job fails with less than 2,000 MiB."""
    write_file(tmp_path / "Snakefile", SNAKEFILE)
    ended = run_snakemake(["--cores", "1", "--retries", "2"], tmp_path, {})
    assert ended.returncode == 0, ended.stdout
    expected = [function("digest")({}, Input(a_pcap=10), 3) for function in (memory_mb, run_minutes)]
    assert (tmp_path / "a.acap").read_text().split() == [*map(str, expected)]


def test_largest_sample_of_a_batch_determines_its_memory_and_their_sum_its_time():
    need, batch = NEEDS["analyze"], {"captures": lambda batch: [(f"{batch}.pcap", size << 30) for size in (1, 3)]}
    assert (
        memory_mb("analyze", **batch, share=0.5)("b1", Input(list_tsv=1), 1)
        == SNAKEMAKE_MB + need.mb + need.mb_per_mib * 1.5 * GIB
    )
    assert run_minutes("analyze", **batch, share=0.5)("b1", Input(list_tsv=1), 1) == math.ceil(
        need.minutes + need.minutes_per_gib * 2 + need.minutes_per_1000_samples * 0.002
    )


@pytest.mark.parametrize(("samples", "mib"), [(2, 20), (200, TOGETHER_MIB)])
def test_batch_requests_memory_for_samples_that_are_analyzed_together(samples, mib):
    captures = {"captures": lambda batch: [("a.pcap", 20 * MIB)] * samples, "share": 0.5}
    assert (
        memory_mb("analyze", **captures, together_mib=TOGETHER_MIB)("b1", Input(list_tsv=1), 1)
        == SNAKEMAKE_MB + NEEDS["analyze"].mb + NEEDS["analyze"].mb_per_mib * mib
    )
    assert TOGETHER_MIB * MIB == TOGETHER_BYTES
    assert "together_mib=TOGETHER_MIB" in (ROOT / "rules" / "analyze.smk").read_text()


def test_jobs_for_the_whole_campaign_grow_with_its_samples():
    memory = memory_mb("process", samples=lambda _: 5000)({}, Input(), 1)
    assert memory == SNAKEMAKE_MB + NEEDS["process"].mb + 5 * NEEDS["process"].mb_per_1000_samples


def test_index_of_batches_requests_memory_for_all_captures():
    need = NEEDS["index"]
    captures = {"captures": lambda _: [("a.pcap", 20 * MIB)] * 500, "share": 0.5, "together_mib": float("inf")}
    assert (
        memory_mb("index", **captures)({}, Input(), 1)
        == SNAKEMAKE_MB + need.mb + need.at_most_mb + 0.5 * need.mb_per_1000_samples
        < SNAKEMAKE_MB + need.mb + need.mb_per_mib * 5000
    )
    assert 'memory_mb("index", together_mib=float("inf"), **INDEXED)' in (ROOT / "rules" / "index.smk").read_text()


@pytest.mark.parametrize(
    ("catalog_mib", "samples", "at_least_mb", "at_most_mb"),
    [(166, 200, 2201, 4000), (831, 1000, 8192, 9000), (100_000, 1000, 8192, 9000), (100_000, 100_000, 28_000, 29_000)],
)
def test_memory_of_process_covers_measured_campaigns_up_to_its_limit(catalog_mib, samples, at_least_mb, at_most_mb):
    memory = memory_mb("process", samples=lambda _: samples)({}, Input(catalog_duckdb=catalog_mib), 1)
    assert at_least_mb <= memory - SNAKEMAKE_MB <= at_most_mb


# Rule, and a small and a large input of one kind: MiB, measured memory in MiB, measured CPU time in seconds.
@pytest.mark.parametrize(
    ("rule", "small", "large"),
    [
        ("kappa", (72, 127, 0.4), (217, 239, 0.9)),
        ("kappa", (124, 326, 1.0), (369, 741, 3.0)),
        ("flowreports", (2, 332, 1.4), (111, 1095, 19)),
        ("flowreports", (11, 519, 6.0), (111, 2575, 36)),
        ("flowtables", (5.4, 329, 1.7), (82, 2585, 22)),
        ("transfer_tables", (1, 177, 0.7), (20, 200, 1.1)),
        ("transfer_tables", (0, 526, 30), (20, 1629, 110)),
        ("infrastructure", (17, 212, 0.6), (71, 429, 1.5)),
    ],
)
def test_requests_cover_measurements_and_grow_faster_than_these(rule, small, large):
    need, memory, minutes = NEEDS[rule], memory_mb(rule), run_minutes(rule)
    for mib, measured_mb, cpu_s in (small, large):
        assert memory({}, Input(a=mib), 1) - SNAKEMAKE_MB >= 1.2 * measured_mb
        assert minutes({}, Input(a=mib), 1) >= 2 * cpu_s / 60
    mib, measured_mb, cpu_s = (after - before for before, after in zip(small, large, strict=True))
    assert need.mb_per_mib >= 1.2 * measured_mb / mib
    assert need.minutes_per_gib >= 2 * cpu_s / 60 * GIB / mib


def test_memory_of_kappa_is_limited_by_the_config():
    need, limit = NEEDS["kappa"], 2048
    assert memory_mb("kappa", at_most=limit)({}, Input(a_pcap=100 * GIB), 1) == SNAKEMAKE_MB + need.mb + limit
    rule = (ROOT / "rules" / "consistency.smk").read_text()
    assert 'memory_mb("kappa", at_most=COMPARED["memory_mb"] + TSHARK_MB)' in rule
    assert 'run_minutes("kappa", engine="tshark" if COMPARED["filter"] else None)' in rule


def test_catalog_does_not_determine_the_memory_of_the_report():
    large, larger = (memory_mb("report")({}, Input(catalog_duckdb=mib), 1) for mib in (3000, 100_000))
    assert large == larger < 3200


def test_index_and_process_receive_the_memory_that_their_jobs_request():
    index, process = ((ROOT / "rules" / f"{rule}.smk").read_text() for rule in ("index", "process"))
    assert 'mem_mb=memory_mb("process", samples=SAMPLES.number_for_job)' in process
    assert all("--memory {resources.mem_mb}M" in rule for rule in (index, process))
    assert queries.SNAKEMAKE_BYTES == SNAKEMAKE_MB * MIB


def test_stages_that_others_wait_for_start_first():
    rules = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    parts = re.findall(r"^ *rule (\w+):\n(.*?)(?=^ *(?:rule|checkpoint|else|elif)\b|\Z)", rules, re.M | re.S)
    found = {(name, *map(int, re.findall(r"^ +priority: (\d+)$", text, re.M))) for name, text in parts}
    assert {rule for rule in found if len(rule) > 1} == {
        *(("flowreports", 3), ("digest", 2), ("index", 2), ("collect", 1))
    }
    assert ("analyze",) in found


def test_rules_request_the_memory_and_time_of_the_table():
    """Other rules read tables or JSON files, compare or copy files one by one, or run for a configured time."""
    rules = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    parts = re.findall(
        r"^ *(?:rule|checkpoint) (\w+):\n(.*?)(?=^ *(?:rule|checkpoint|else|elif)\b|\Z)", rules, re.M | re.S
    )
    constant = {name for name, text in parts if re.search(r"mem_mb=(\d|constant_memory_mb)", text)}
    assert constant == {
        *("collect", "transfer", "measure_collector", "measure_response", "measure_search", "measure_storage"),
        *("conformance", "dashboard", "flowreports_published", "flowstudy", "monitor", "outcomes", "papers", "trials"),
        *("record", "released_digests", "reproduce", "search", "storage", "storage_tables"),
    }
    assert {name for name in NEEDS if f'mem_mb=memory_mb("{name}"' in rules} == {*NEEDS}
    assert {name for name in NEEDS if re.search(rf'runtime=run_minutes\(\s*"{name}"', rules)} == {*NEEDS}


def test_memory_of_a_job_grows_with_the_campaign_that_snakemake_reads():
    """A job has two processes of Snakemake. Each used 209 MiB with 1,000 samples, and 441 MiB with 100,000.

    In addition, collect used 92 MiB with 10,000 samples, and 179 MiB with 100,000.
    """
    of_campaign = [memory_mb("collect", campaign=lambda _, n=n: n)({}, Input(a_pcap=1), 1) for n in (1000, 100_000)]
    assert of_campaign[0] >= 2 * 209 + 92
    assert of_campaign[1] >= 2 * 441 + 179
    assert "resources.memory_mb, campaign=NUMBER_OF_SAMPLES" in (ROOT / "rules" / "samples.smk").read_text()


def test_memory_limit_of_a_digest_grows_with_each_attempt():
    limit = memory_limit(256)
    assert [limit({}, attempt) for attempt in (1, 2, 3, 4, 5)] == ["256M", "512M", "1024M", "2048M", "2048M"]
    assert (ROOT / "rules" / "digest.smk").read_text().count('memory=memory_limit(config["digest"]["memory_mb"])') == 2
