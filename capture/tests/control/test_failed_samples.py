"""A failed sample does not affect the others and is recorded with its reason."""

import os
import sys
from pathlib import Path

import pytest
from acapella_testing.capture.fake_testbed import FakeTcpdump, FakeTestbed
from acapella_testing.csv_rows import read_rows
from acapella_testing.new_files import write_file

from acapella_capture import collect
from acapella_capture import manifest as manifests
from acapella_capture.control import coordinator, delivery, outcomes
from acapella_capture.control.outcomes import Outcome
from acapella_capture.control.sampling import Failure
from acapella_capture.settings import parse_settings


@pytest.fixture
def collected(tmp_path, monkeypatch, fake_tcpdump):
    """Return a function that runs acapella collect on a fake testbed with the given ports.

    The function returns the exit code and the testbed.
    """
    monkeypatch.setattr(collect.sandbox, "inside", lambda: True)
    config = write_file(tmp_path / "config.yaml", "campaign: test\ntestbed: local\ncapture: {sample_s: 0.01}\n")
    monkeypatch.setattr(sys, "argv", ["collect", str(tmp_path / "test"), "--config", str(config)])

    def run(*ports: str) -> tuple[int, FakeTestbed]:
        testbed = FakeTestbed(*ports)
        monkeypatch.setattr(collect, "testbed_of", lambda *_: testbed)
        return collect.main(), testbed

    return run


@pytest.fixture
def raw(tmp_path) -> Path:
    """Provide the directory of captures."""
    return tmp_path / "test" / "raw"


FAULTS = {
    "no_start": "tcpdump on listener: cannot start: no such device",
    "no_mirror": "node site: tc failed: no such device",
    "no_stop": "tcpdump on listener: failed: no space left",
    "no_match": "1 frames in the file, 9 frames captured",
}


def test_failed_samples_are_listed_and_the_others_are_taken(collected, raw, capsys):
    code, testbed = collected("first", *FAULTS, "last")
    assert code == 0
    assert [row["port"] for row in read_rows(raw / "samples.tsv")] == ["first", "last"]
    failed = read_rows(raw / "failed.tsv")
    assert list(failed[0]) == ["sample", "site", "port", "why"]
    assert [row["port"] for row in failed] == list(FAULTS)
    errors = capsys.readouterr().err
    for row, expected in zip(failed, FAULTS.values(), strict=True):
        sample = row["sample"]
        assert row["site"] == "S"
        assert row["port"] in sample
        assert expected in row["why"]
        assert f"warning: {sample} failed: " in errors
        assert not (raw / f"{sample}.json").exists()
    assert "4 samples failed: " in errors
    outcome, *_ = outcomes.read(raw.parent / "outcomes.csv")
    assert (outcome["outcome"], outcome["reason"]) == (
        "incomplete", f"4 of 6 samples failed; first failure: {FAULTS['no_start']}",
    )  # fmt: skip
    assert not FakeTcpdump.running  # even if the mirror failed after the capture started
    # captures of failed samples are fetched, too: if they stayed on the node, they would use its disk
    assert len([name for name in testbed.fetched if name.endswith(".pcap")]) == 6


def test_capture_without_counts_is_kept(collected, raw):
    assert collected("no_counts")[0] == 0
    manifest = manifests.read(next(raw.glob("*.json")))
    assert manifest["frames_captured"] == 1
    assert manifest["frames_received"] is manifest["dropped_kernel"] is manifest["dropped_interface"] is None
    assert any("counts unknown: tcpdump on listener: pcap_stats: failed" in note for note in manifest["notes"])


def test_truncated_capture_without_counts_fails_and_is_kept_unchanged(collected, raw, monkeypatch):
    gather, sizes = delivery.gather, []

    def cut(*arguments):
        path = gather(*arguments)
        sizes.append(path.stat().st_size - 1)
        os.truncate(path, sizes[-1])
        return path

    monkeypatch.setattr(delivery, "gather", cut)
    assert collected("no_counts")[0] == 2
    assert " at byte 24" in (raw / "failed.tsv").read_text()
    assert [path.stat().st_size for path in raw.glob("*.pcap")] == sizes


def test_exit_code_is_2_and_no_sheet_is_written_if_all_samples_fail(collected, raw, capsys):
    assert collected("no_start", "no_stop")[0] == 2
    assert not (raw / "samples.tsv").exists()
    assert len(read_rows(raw / "failed.tsv")) == 2
    assert "no sample could be taken; first failure: tcpdump on listener: cannot start" in capsys.readouterr().err


def test_successful_collection_removes_an_earlier_list_of_failures(collected, raw):
    assert collected("first", "no_stop")[0] == 0
    assert (raw / "failed.tsv").exists()
    assert collected("first")[0] == 0
    assert sorted(path.suffix for path in raw.iterdir() if "no_stop" not in path.name) == [".json", ".pcap", ".tsv"]
    assert manifests.read(next(raw.glob("*.json")))["frames_captured"] == 1


@pytest.mark.usefixtures("fake_tcpdump")
def test_failure_names_sample_site_port_and_reason(tmp_path):
    settings = parse_settings({"testbed": "local", "capture": {"sample_s": 0.01}})
    reported = list(coordinator.collect(FakeTestbed("no_start"), settings, tmp_path / "test"))
    assert [item for item in reported if not isinstance(item, Outcome)] == [
        Failure("run1-S-no_start-both-1", "S", "no_start", FAULTS["no_start"])
    ]
