"""The arithmetic of the benchmarks of an archive and of other flow meters. No test depends on a time."""

import itertools

import pytest
from acapella_bench import page
from acapella_bench.archive import captures, runs, stages
from acapella_bench.comparators import share_row, tools
from acapella_testing.new_files import write_file

MEASURED = "s\tmax_rss\n{}\t{}\n"
SAMPLES = "sample\toutcome\tseconds\tcpu_s\tmax_rss_mb\na\tdone\t1\t1\t{}\n"


@pytest.fixture
def campaign(tmp_path):
    """Return a campaign with two batches, and benchmark files of all stages."""
    directory = tmp_path / "benchmarks"
    for name in set(stages.STAGES) - set(stages.BATCHED):
        write_file(directory / f"{name}.tsv", MEASURED.format(2, 100))
    for name, (batch, rss, memory) in itertools.product(stages.BATCHED, (("b0001", "NA", 300), ("b0002", 50, 700))):
        write_file(directory / "batches" / name / f"{batch}.tsv", MEASURED.format(10, rss))
        write_file(directory / "batches" / name / f"{batch}.samples.tsv", SAMPLES.format(memory))
    return tmp_path


def test_stages_add_up_their_batches(campaign):
    assert stages.Stage("digest", 2, 20, 700) in stages.stages_of(campaign)


def test_shares_of_all_stages_and_of_snakemake_are_100_percent(campaign):
    rows = stages.stage_rows(stages.stages_of(campaign), 50, 2)
    assert sum(row["value"] for row in rows) == pytest.approx(100)
    shares = {row["measured"]: row["value"] for row in rows}
    assert shares["share of process"] == pytest.approx(2 * shares["share of index"])  # process has two threads
    assert {row["measured"] for row in rows if not row.get("goal")} == {"share of digest", "share of Snakemake"}


def test_stage_that_did_not_run_is_an_error(campaign):
    (campaign / "benchmarks" / "process.tsv").unlink()
    with pytest.raises(FileNotFoundError, match="no benchmark of process"):
        stages.stages_of(campaign)


def test_captures_of_an_archive_have_different_connections_and_times():
    archive = captures.Archive(1000, 300_000, 6000)
    words = [archive.generator_arguments(number) for number in range(archive.captures)]
    firsts = [line[line.index("--first") + 1] for line in words]
    assert all(after - before == archive.flows // 2 for before, after in itertools.pairwise(firsts))
    assert (
        len({(*archive.row(n)[1:3], line[line.index("--start-ns") + 1]) for n, line in enumerate(words)})
        == archive.captures
    )


@pytest.mark.parametrize(("samples", "batch"), [(1000, 250), (10, 3), (1, 2)])
def test_archive_has_at_most_as_many_batches_as_jobs(samples, batch):
    assert runs.batch_of(captures.Archive(samples, 1, 2)) == batch
    assert -(-samples // batch) <= runs.JOBS


def test_connection_is_a_flow_for_each_direction_with_packets(tmp_path):
    output = b"10.0.0.1|10.0.0.2|6|1000|80|3|2\n10.0.0.3|10.0.0.4|6|1000|80|3|0\n10.0.0.3|10.0.0.4|17|1|2|3|1\n"
    assert set(tools.two_way(output, tmp_path)) == {
        ("10.0.0.1", "10.0.0.2", 6, 1000, 80),
        ("10.0.0.2", "10.0.0.1", 6, 80, 1000),
        ("10.0.0.3", "10.0.0.4", 6, 1000, 80),
    }


def test_frames_without_tcp_are_no_flows(tmp_path):
    output = b"10.0.0.1|10.0.0.2|6|1000|80\n10.0.0.1|10.0.0.2|6|1000|80\n||||\n10.0.0.1|10.0.0.2|17||\n"
    assert list(tools.one_way(output, tmp_path)) == [("10.0.0.1", "10.0.0.2", 6, 1000, 80)]


def test_share_of_flows_excludes_flows_outside_the_reference():
    reference = {("a", "b", 6, 1, 2), ("b", "a", 6, 2, 1)}
    row = share_row(tools.TOOLS[0], "fabric", reference, {("a", "b", 6, 1, 2), ("x", "y", 6, 1, 2)})
    assert (row["value"], row["note"]) == (50, "1 others")


@pytest.mark.parametrize(("scale", "noted"), [("small", True), ("full", False)])
def test_page_has_the_rows_and_the_scale_of_results(scale, noted):
    row = {"measured": "rate", "value": 1234567, "unit": "frames/s", "goal": ">= 5", "note": "met; a|b"}
    text = page.page([{"machine": {"cores": 2}, "scale": scale, "results": {"archive": [row]}}])
    assert "Machine: cores 2." in text
    assert "| rate | 1,234,567 | frames/s | >= 5 | met; a&#124;b |" in text
    assert ("results of small runs" in text) is noted
