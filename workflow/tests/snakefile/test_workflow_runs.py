"""Runs the whole workflow on small captures: the output, reruns, and failures."""

import json
import os
import re
import shutil
import struct

import pytest
from acapella_testing.frames.traces import busy_port
from acapella_testing.new_files import write_file
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import DIGESTS, RESULTS, ROOT, Workplace, jobs, rules_run, workplace

from acapella_core.files import sha256_of


def test_run_creates_all_directories_of_a_campaign(finished):
    names = {path.name for path in finished.campaign.iterdir()}
    assert {"raw", "acap", "flows", "catalog.duckdb", "partial", "tables", "provenance"} <= names
    assert {"figures", "report.html", "logs", "benchmarks"} <= names
    assert (finished.campaign / "raw" / "alpha-p1.pcap.gz").is_symlink()


@pytest.mark.parametrize("stage", ["collect", "digest", "analyze"])
def test_each_stage_of_a_sample_has_a_log_and_costs(finished, stage):
    assert (finished.campaign / "benchmarks" / stage / "beta-p1.tsv").is_file()
    assert (finished.campaign / "logs" / stage / "beta-p1.log").is_file()


def test_results_are_accessible_only_to_their_owner(finished):
    assert [
        path for path in finished.campaign.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077
    ] == []


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
    shutil.copyfile(*(again.directory / "captures" / f"{name}-p1.pcap.gz" for name in ("beta", "alpha")))
    planned = jobs(again.succeed("--dry-run"))
    assert planned["digest"] == 1
    assert planned["analyze"] == 1


def test_capture_replaced_by_an_older_file_is_processed_again(again):
    """mv, cp -p and rsync -a keep the modification time. A run that stops after the first jobs is completed later."""
    capture = again.directory / "captures" / "alpha-p1.pcap.gz"
    capture.touch()
    assert "Nothing to be done" in again.succeed("--dry-run"), "the content of the small file is unchanged"
    before = again.sha256(*DIGESTS)
    older = shutil.copyfile(capture.with_name("beta-p1.pcap.gz"), again.directory / "older")
    os.utime(older, (1, 1))
    older.rename(capture)
    planned = jobs(again.succeed("--dry-run"))
    assert (planned["collect"], planned["digest"], planned["analyze"]) == (1, 1, 1)
    again.succeed("results/tiny/raw/alpha-p1.json")
    manifest = json.loads((again.campaign / "raw" / "alpha-p1.json").read_text())
    assert manifest["sha256"] == sha256_of(capture)
    planned = jobs(again.succeed("process"))
    assert "collect" not in planned
    assert (planned["digest"], planned["analyze"]) == (1, 1)
    assert {name for name, sha256 in again.sha256(*DIGESTS).items() if sha256 != before[name]} == {
        "acap/alpha-p1.parquet",
        "flows/alpha-p1.parquet",
    }
    again.succeed()
    assert "Nothing to be done" in again.succeed("--dry-run")


def test_removed_and_excluded_samples_do_not_count(again):
    """Files of a sample that is no longer in the sheet are removed; those of an excluded sample stay.

    The campaign has a provenance file of an earlier version, which the run replaces.
    """
    sheet = again.directory / "config" / "samples.tsv"
    write_file(sheet, "".join(line for line in sheet.open() if not line.startswith("beta-p1")))
    again.configure(exclude=["alpha-p2"])
    provenance = again.campaign / "provenance" / "process.json"
    earlier = provenance.rename(again.campaign / "provenance.json")
    again.succeed("process")
    assert not (again.campaign / "acap" / "beta-p1.parquet").exists()
    assert (again.campaign / "acap" / "alpha-p2.parquet").exists()
    assert {row["sample"] for row in rows(again.campaign, "flows_per_sample")} == {"alpha-p1"}
    assert provenance.exists()
    assert not earlier.exists()


@pytest.mark.soak
def test_broken_samples_do_not_affect_others(again, finished):
    """One sample is a text file (.pcap), one has no file, one is not digested yet; no stage of the campaign has run."""
    for name in ("tables", "figures", "provenance", "partial/alpha-p1"):
        shutil.rmtree(again.campaign / name)
    for name in ("catalog.duckdb", "report.html", "acap/alpha-p1.parquet", "flows/alpha-p1.parquet"):
        (again.campaign / name).unlink()
    again.add_letter(("lost", "alpha", "p4", "../captures/lost.pcap"))
    printed = again.fail("--keep-going", "--cores", "2")
    assert again.sha256(*DIGESTS) == finished.sha256(*DIGESTS)
    assert re.search(r"acapella: error: .*letter\.pcap: ", printed), printed
    assert re.search(r"acapella: error: .*samples\.tsv line 6: .*lost\.pcap: no such file", printed), printed
    assert {path.name for path in (again.campaign / "partial").iterdir()} == {"alpha-p1", "alpha-p2", "beta-p1"}
    assert not list(again.campaign.glob("*/.*.part")), "no incomplete file stays"
    assert not (again.campaign / "acap" / "letter.parquet").exists()
    assert not (again.campaign / "tables").exists(), "tables of some samples only are not written"
    assert re.search(r"^  letter: (?!acapella).*letter\.pcap: ", printed, re.M), printed
    assert "\n  exclude: [letter, lost]" in printed


@pytest.mark.soak
def test_frames_before_the_damage_are_kept_if_configured(tmp_path):
    """One capture has a record with an impossible length after its frames. The intact sample is not digested again."""
    place = Workplace(tmp_path)
    place.configure(digest={"engine": "native"})
    place.add_samples(["intact", "wild"])
    with (tmp_path / "captures" / "wild.pcap").open("ab") as wild:
        wild.write(struct.pack("<IIII", 1, 1, 2**28, 2**28) + bytes(100))
    printed = place.fail("--keep-going", "process")
    assert "before the damage in wild, with this line:\n  digest: {damaged: keep}" in printed, printed
    intact = place.campaign / "acap" / "intact.parquet"
    modified_ns = intact.stat().st_mtime_ns
    place.configure(digest={"engine": "native", "damaged": "keep"})
    place.succeed("process")
    assert intact.stat().st_mtime_ns == modified_ns
    quality = {row["sample"]: row for row in rows(place.campaign, "capture_quality")}
    assert {name: row["file_unread_bytes"] for name, row in quality.items()} == {"intact": 0, "wild": 116}
    assert quality["wild"]["frames"] == len(busy_port())


def test_digests_of_another_campaign_are_taken_from_the_cache(finished, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    first, second = (workplace(tmp_path / name, digest={"cache": str(cache)}) for name in ("first", "second"))
    second.sheet(("other-name", "alpha", "p1", "../captures/alpha-p1.pcap.gz"))
    for place in (first, second):
        place.succeed("--until", "digest")
        assert len(list(cache.glob("??/*"))) == 12, "two entries per sample, each with a checksum"
    assert first.sha256(*DIGESTS) == finished.sha256(*DIGESTS)
    for kind in ("acap", "flows"):
        link = second.campaign / kind / "other-name.parquet"
        assert link.is_symlink()
        assert link.resolve().parent.parent == cache
        assert link.read_bytes() == (finished.campaign / kind / "alpha-p1.parquet").read_bytes()
    assert f": from the cache {cache}" in (second.campaign / "logs" / "digest" / "other-name.log").read_text()


def test_snakemake_report_has_captions(again):
    again.succeed("--report", "report.zip")
    assert (again.directory / "report.zip").stat().st_size > 0
    assert {path.stem for path in (again.campaign / "figures").glob("*.svg")} <= {
        path.stem for path in (ROOT / "workflow" / "report").glob("*.rst")
    }
