"""Runs the whole workflow on small captures: the output, reruns, and failures."""

import re
import struct
import subprocess

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.workflow_run import DIGESTS, RESULTS, ROOT, Workplace, rules_run, workplace


def test_a_run_makes_everything_that_the_layout_names(finished):
    made = {path.name for path in finished.campaign.iterdir()}
    assert {"raw", "acap", "flows", "catalog.duckdb", "partial", "tables", "provenance"} <= made
    assert {"figures", "report.html", "logs", "benchmarks"} <= made
    assert (finished.campaign / "raw" / "alpha-p1.pcap.gz").is_symlink()
    for stage in ("collect", "digest", "analyze"):
        assert (finished.campaign / "benchmarks" / stage / "beta-p1.tsv").is_file()
        assert (finished.campaign / "logs" / stage / "beta-p1.log").is_file()


def test_what_a_run_makes_is_its_owners_alone(finished):
    others = [path for path in finished.campaign.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077]
    assert others == []


def test_a_second_run_does_nothing(again):
    before = again.sha256(*RESULTS)
    assert "Nothing to be done" in again.succeed()
    assert again.sha256(*RESULTS) == before


def test_another_setting_reruns_what_it_changes_and_nothing_else(again):
    again.configure(analysis={"top_flows": 3})
    assert rules_run(again.succeed("--dry-run")) == {"process", "figures", "report"}
    again.configure(analysis={"traffic": "all"})
    assert rules_run(again.succeed("--dry-run")) == {"index", "process", "figures", "report"}
    again.configure(digest={"engine": "native"})
    assert rules_run(again.succeed("--dry-run")) == {"digest", "analyze", "index", "process", "figures", "report"}


def test_a_capture_that_changed_is_digested_again_and_the_others_are_not(again):
    (again.directory / "captures" / "alpha-p1.pcap.gz").write_bytes(
        (again.directory / "captures" / "beta-p1.pcap.gz").read_bytes()
    )
    said = again.succeed("--dry-run")
    assert re.search(r"^digest +1$", said, re.M), said
    assert re.search(r"^analyze +1$", said, re.M), said


def tables_name(place: Workplace) -> set[str]:
    """Return the names of the samples in the campaign's tables."""
    lines = (place.campaign / "tables" / "flows_per_sample.csv").read_text().splitlines()[1:]
    return {line.split(",")[2].strip('"') for line in lines}


def test_a_sample_that_left_the_sheet_no_longer_counts_and_its_files_are_removed(again):
    sheet = again.directory / "config" / "samples.tsv"
    sheet.write_text("".join(line for line in sheet.open() if not line.startswith("beta-p1")))
    again.succeed("process")
    assert not (again.campaign / "acap" / "beta-p1.parquet").exists()
    assert tables_name(again) == {"alpha-p1", "alpha-p2"}


def test_a_sample_that_is_excluded_no_longer_counts_though_its_files_are_there(again):
    again.configure(exclude=["alpha-p2"])
    again.succeed("process")
    assert tables_name(again) == {"alpha-p1", "beta-p1"}


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> tuple[Workplace, subprocess.CompletedProcess]:
    """Return a campaign with good captures, a text file named .pcap and a missing file, and the result of its run."""
    directory = tmp_path_factory.mktemp("broken")
    place = workplace(directory)
    (directory / "captures" / "letter.pcap").write_text("Dear reader, this is not a capture at all.\n")
    sheet = directory / "config" / "samples.tsv"
    sheet.write_text(
        sheet.read_text() + "letter\talpha\tp3\t../captures/letter.pcap\nlost\talpha\tp4\t../captures/lost.pcap\n"
    )
    return place, place.run("--keep-going", "--cores", "2")


def test_broken_samples_fail_alone_and_say_why_while_the_rest_is_finished(broken):
    broken, ended = broken
    assert ended.returncode != 0
    assert re.search(r"acapella: error: .*letter\.pcap: ", ended.stdout), ended.stdout
    assert re.search(r"acapella: error: .*samples\.tsv line 6: .*lost\.pcap: no such file", ended.stdout), ended.stdout
    partial = {path.name for path in (broken.campaign / "partial").iterdir()}
    assert partial == {"alpha-p1", "alpha-p2", "beta-p1"}
    assert not list(broken.campaign.glob("*/.*.part")), "nothing half written stays"
    assert not (broken.campaign / "acap" / "letter.parquet").exists()
    assert not (broken.campaign / "tables").exists(), "tables are not made of what happens to be there"
    assert re.search(r"^  letter: acapella: error: .*letter\.pcap: ", ended.stdout, re.M), ended.stdout
    assert "\n  exclude: [letter, lost]" in ended.stdout


def test_a_campaign_goes_on_without_samples_that_the_config_excludes(broken, finished, tmp_path_factory):
    place = broken[0].copy(tmp_path_factory.mktemp("without"))
    place.configure(exclude=["letter", "lost"])
    place.succeed("process")
    ours, theirs = place.sha256(*DIGESTS), finished.sha256(*DIGESTS)
    assert ours == theirs
    assert place.sha256("tables/frame_sizes.csv") == finished.sha256("tables/frame_sizes.csv")


def test_a_campaign_keeps_what_is_before_the_damage_in_a_capture(tmp_path):
    """One capture has a record with an impossible length after its frames. The intact sample is not digested again."""
    place = Workplace(tmp_path)
    place.configure(digest={"engine": "native"})
    (tmp_path / "captures").mkdir()
    write_pcap(tmp_path / "captures" / "whole.pcap", busy_port())
    wild = write_pcap(tmp_path / "captures" / "wild.pcap", busy_port(shift=1))
    wild.write_bytes(wild.read_bytes() + struct.pack("<IIII", 1, 1, 2**28, 2**28) + bytes(100))
    place.sheet(*((name, "alpha", name, f"../captures/{name}.pcap") for name in ("whole", "wild")))
    ended = place.run("--keep-going", "process")
    assert ended.returncode != 0
    assert "before the damage in wild, by this one:\n  digest: {damaged: keep}" in ended.stdout, ended.stdout
    whole = place.campaign / "acap" / "whole.parquet"
    made_ns = whole.stat().st_mtime_ns
    place.configure(digest={"engine": "native", "damaged": "keep"})
    place.succeed("process")
    assert whole.stat().st_mtime_ns == made_ns
    rows = pq.read_table(place.campaign / "tables" / "capture_quality.parquet").to_pylist()
    assert {row["sample"]: row["file_unread_bytes"] for row in rows} == {"whole": 0, "wild": 116}
    assert [row["frames"] for row in rows if row["sample"] == "wild"] == [len(busy_port())]


def test_digests_come_from_the_cache_of_another_campaign(finished, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    first, second = workplace(tmp_path / "first"), workplace(tmp_path / "second")
    second.sheet(*(("other-name", "alpha", "p1", "../captures/alpha-p1.pcap.gz"),))
    for place in (first, second):
        place.environment["SNAKEMAKE_OUTPUT_CACHE"] = str(cache)
    first.succeed("--cache", "--until", "digest")
    assert len(list(cache.iterdir())) == 12, "two entries per sample, a checksum beside each"
    assert first.sha256(*DIGESTS) == finished.sha256(*DIGESTS)
    second.succeed("--cache", "--until", "digest")
    assert len(list(cache.iterdir())) == 12
    for kind in ("acap", "flows"):
        link = second.campaign / kind / "other-name.parquet"
        assert link.is_symlink() and link.resolve().parent == cache
        assert link.read_bytes() == (finished.campaign / kind / "alpha-p1.parquet").read_bytes()
    logs = list((second.campaign / "logs" / "digest").glob("*.log"))  # Snakemake creates it; a digest would write to it
    assert not any(log.read_text() for log in logs), "a digest ran although the cache had it"


def test_snakemake_makes_its_own_report_with_captions(again):
    again.succeed("--report", "report.zip")
    assert (again.directory / "report.zip").stat().st_size > 0
    captions = {path.stem for path in (ROOT / "workflow" / "report").glob("*.rst")}
    assert {path.stem for path in (again.campaign / "figures").glob("*.svg")} <= captions
