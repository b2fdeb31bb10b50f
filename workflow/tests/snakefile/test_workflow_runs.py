"""Runs the whole workflow on small captures: the output, reruns, and failures."""

import re
import shutil
import struct
import subprocess

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.runs.workflow_run import DIGESTS, RESULTS, ROOT, Workplace, rules_run, workplace


def test_run_creates_all_directories_of_a_campaign(finished):
    names = {path.name for path in finished.campaign.iterdir()}
    assert {"raw", "acap", "flows", "catalog.duckdb", "partial", "tables", "provenance"} <= names
    assert {"figures", "report.html", "logs", "benchmarks"} <= names
    assert (finished.campaign / "raw" / "alpha-p1.pcap.gz").is_symlink()
    for stage in ("collect", "digest", "analyze"):
        assert (finished.campaign / "benchmarks" / stage / "beta-p1.tsv").is_file()
        assert (finished.campaign / "logs" / stage / "beta-p1.log").is_file()


def test_results_are_accessible_only_to_their_owner(finished):
    others = [path for path in finished.campaign.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077]
    assert others == []


def test_second_run_does_nothing(again):
    before = again.sha256(*RESULTS)
    assert "Nothing to be done" in again.succeed()
    assert again.sha256(*RESULTS) == before


def test_changed_setting_reruns_only_dependent_stages(again):
    again.configure(analysis={"top_flows": 3})
    assert rules_run(again.succeed("--dry-run")) == {"process", "figures", "report"}
    again.configure(analysis={"traffic": "all"})
    assert rules_run(again.succeed("--dry-run")) == {"index", "process", "figures", "report"}
    again.configure(digest={"engine": "native"})
    assert rules_run(again.succeed("--dry-run")) == {"digest", "analyze", "index", "process", "figures", "report"}


def test_only_a_changed_capture_is_digested_again(again):
    (again.directory / "captures" / "alpha-p1.pcap.gz").write_bytes(
        (again.directory / "captures" / "beta-p1.pcap.gz").read_bytes()
    )
    printed = again.succeed("--dry-run")
    assert re.search(r"^digest +1$", printed, re.M), printed
    assert re.search(r"^analyze +1$", printed, re.M), printed


def samples_in_tables(place: Workplace) -> set[str]:
    """Return the names of the samples in the campaign's tables."""
    lines = (place.campaign / "tables" / "flows_per_sample.csv").read_text().splitlines()[1:]
    return {line.split(",")[2].strip('"') for line in lines}


def test_removed_and_excluded_samples_do_not_count(again):
    """Files of a sample that is no longer in the sheet are removed; those of an excluded sample stay.

    The campaign has a provenance file of an earlier version, which the run replaces.
    """
    sheet = again.directory / "config" / "samples.tsv"
    sheet.write_text("".join(line for line in sheet.open() if not line.startswith("beta-p1")))
    again.configure(exclude=["alpha-p2"])
    provenance = again.campaign / "provenance" / "process.json"
    earlier = provenance.rename(again.campaign / "provenance.json")
    again.succeed("process")
    assert not (again.campaign / "acap" / "beta-p1.parquet").exists()
    assert (again.campaign / "acap" / "alpha-p2.parquet").exists()
    assert samples_in_tables(again) == {"alpha-p1"}
    assert provenance.exists() and not earlier.exists()


@pytest.fixture(scope="module")
def broken(finished, tmp_path_factory) -> tuple[Workplace, subprocess.CompletedProcess]:
    """Return a campaign with good captures, a text file named .pcap and a missing file, and the result of its run.

    One of the good captures is not digested yet, and no later stage has run.
    """
    place = finished.copy(tmp_path_factory.mktemp("broken"))
    for name in ("tables", "figures", "provenance", "partial/alpha-p1"):
        shutil.rmtree(place.campaign / name)
    for name in ("catalog.duckdb", "report.html", "acap/alpha-p1.parquet", "flows/alpha-p1.parquet"):
        (place.campaign / name).unlink()
    (place.directory / "captures" / "letter.pcap").write_text("Dear reader, this is not a capture at all.\n")
    with (place.directory / "config" / "samples.tsv").open("a") as sheet:
        sheet.write("letter\talpha\tp3\t../captures/letter.pcap\nlost\talpha\tp4\t../captures/lost.pcap\n")
    return place, place.run("--keep-going", "--cores", "2")


def test_broken_samples_do_not_affect_others(broken):
    broken, ended = broken
    assert ended.returncode != 0
    assert re.search(r"acapella: error: .*letter\.pcap: ", ended.stdout), ended.stdout
    assert re.search(r"acapella: error: .*samples\.tsv line 6: .*lost\.pcap: no such file", ended.stdout), ended.stdout
    partial = {path.name for path in (broken.campaign / "partial").iterdir()}
    assert partial == {"alpha-p1", "alpha-p2", "beta-p1"}
    assert not list(broken.campaign.glob("*/.*.part")), "no incomplete file stays"
    assert not (broken.campaign / "acap" / "letter.parquet").exists()
    assert not (broken.campaign / "tables").exists(), "tables of some samples only are not written"
    assert re.search(r"^  letter: acapella: error: .*letter\.pcap: ", ended.stdout, re.M), ended.stdout
    assert "\n  exclude: [letter, lost]" in ended.stdout


def test_campaign_completes_without_excluded_samples(broken, finished, tmp_path_factory):
    place = broken[0].copy(tmp_path_factory.mktemp("without"))
    place.configure(exclude=["letter", "lost"])
    place.succeed("process")
    ours, theirs = place.sha256(*DIGESTS), finished.sha256(*DIGESTS)
    assert ours == theirs
    assert place.sha256("tables/frame_sizes.csv") == finished.sha256("tables/frame_sizes.csv")


def test_frames_before_the_damage_are_kept_if_configured(tmp_path):
    """One capture has a record with an impossible length after its frames. The intact sample is not digested again."""
    place = Workplace(tmp_path)
    place.configure(digest={"engine": "native"})
    (tmp_path / "captures").mkdir()
    write_pcap(tmp_path / "captures" / "intact.pcap", busy_port())
    wild = write_pcap(tmp_path / "captures" / "wild.pcap", busy_port(shift=1))
    wild.write_bytes(wild.read_bytes() + struct.pack("<IIII", 1, 1, 2**28, 2**28) + bytes(100))
    place.sheet(*((name, "alpha", name, f"../captures/{name}.pcap") for name in ("intact", "wild")))
    ended = place.run("--keep-going", "process")
    assert ended.returncode != 0
    assert "before the damage in wild, with this line:\n  digest: {damaged: keep}" in ended.stdout, ended.stdout
    intact = place.campaign / "acap" / "intact.parquet"
    modified_ns = intact.stat().st_mtime_ns
    place.configure(digest={"engine": "native", "damaged": "keep"})
    place.succeed("process")
    assert intact.stat().st_mtime_ns == modified_ns
    rows = pq.read_table(place.campaign / "tables" / "capture_quality.parquet").to_pylist()
    assert {row["sample"]: row["file_unread_bytes"] for row in rows} == {"intact": 0, "wild": 116}
    assert [row["frames"] for row in rows if row["sample"] == "wild"] == [len(busy_port())]


def test_digests_are_taken_from_the_cache_of_another_campaign(finished, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    first, second = workplace(tmp_path / "first"), workplace(tmp_path / "second")
    second.sheet(*(("other-name", "alpha", "p1", "../captures/alpha-p1.pcap.gz"),))
    for place in (first, second):
        place.configure(digest={"cache": str(cache)})
    first.succeed("--until", "digest")
    assert len(list(cache.glob("??/*"))) == 12, "two entries per sample, each with a checksum"
    assert first.sha256(*DIGESTS) == finished.sha256(*DIGESTS)
    second.succeed("--until", "digest")
    assert len(list(cache.glob("??/*"))) == 12
    for kind in ("acap", "flows"):
        link = second.campaign / kind / "other-name.parquet"
        assert link.is_symlink() and link.resolve().parent.parent == cache
        assert link.read_bytes() == (finished.campaign / kind / "alpha-p1.parquet").read_bytes()
    assert f": from the cache {cache}" in (second.campaign / "logs" / "digest" / "other-name.log").read_text()


def test_snakemake_report_has_captions(again):
    again.succeed("--report", "report.zip")
    assert (again.directory / "report.zip").stat().st_size > 0
    captions = {path.stem for path in (ROOT / "workflow" / "report").glob("*.rst")}
    assert {path.stem for path in (again.campaign / "figures").glob("*.svg")} <= captions
