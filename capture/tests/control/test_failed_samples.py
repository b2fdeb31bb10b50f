"""A failed sample does not affect the others and is recorded with its reason."""

import os
import sys

import pytest
from acapella_testing.capture.fake_testbed import FakeTcpdump, FakeTestbed

from acapella_capture import collect
from acapella_capture import manifest as manifests
from acapella_capture.control import coordinator, outcomes, sampling
from acapella_capture.control import delivery as describe
from acapella_capture.control.outcomes import Outcome
from acapella_capture.control.sampling import Failure
from acapella_capture.settings import parse_settings

CONFIG = "campaign: test\ntestbed: local\ncapture: {sample_s: 0.01}\n"


@pytest.fixture
def paper(monkeypatch):
    """Return a function that creates the fake testbed of collect, with ports of these names."""
    monkeypatch.setitem(sampling.PROGRAMS, "tcpdump", FakeTcpdump)
    monkeypatch.setattr(collect.sandbox, "inside", lambda: True)

    def make(*ports: str) -> FakeTestbed:
        created = FakeTestbed(*ports)
        monkeypatch.setattr(collect, "testbed_of", lambda *_: created)
        return created

    return make


def run(directory, monkeypatch) -> int:
    """Run acapella collect into directory/test and return its exit code."""
    (directory / "config.yaml").write_text(CONFIG)
    monkeypatch.setattr(sys, "argv", ["collect", str(directory / "test"), "--config", str(directory / "config.yaml")])
    return collect.main()


FAULTS = {
    "no_start": "tcpdump on listener: cannot start: no such device",
    "no_mirror": "node site: tc failed: no such device",
    "no_stop": "tcpdump on listener: failed: no space left",
    "no_match": "1 frames in the file, 9 frames captured",
}


def test_failed_samples_are_listed_and_the_others_are_taken(paper, tmp_path, monkeypatch, capsys):
    testbed = paper("first", *FAULTS, "last")
    assert run(tmp_path, monkeypatch) == 0
    raw = tmp_path / "test" / "raw"
    good = [line.split("\t")[2] for line in (raw / "samples.tsv").read_text().splitlines()]
    assert good == ["port", "first", "last"]
    failed = [line.split("\t") for line in (raw / "failed.tsv").read_text().splitlines()]
    assert failed[0] == ["sample", "site", "port", "why"]
    assert [row[2] for row in failed[1:]] == list(FAULTS)
    errors = capsys.readouterr().err
    for (sample, site, port, why), expected in zip(failed[1:], FAULTS.values(), strict=True):
        assert site == "S" and port in sample
        assert expected in why
        assert f"warning: {sample} failed: " in errors
        assert not (raw / f"{sample}.json").exists()
    assert "4 samples failed: " in errors
    outcome, *_ = outcomes.read(tmp_path / "test" / "outcomes.csv")
    assert (outcome["outcome"], outcome["reason"]) == (
        "incomplete", f"4 of 6 samples failed; first failure: {FAULTS['no_start']}",
    )  # fmt: skip
    assert not FakeTcpdump.running  # even if the mirror failed after the capture started
    assert (
        len([name for name in testbed.fetched if name.endswith(".pcap")]) == 6
    )  # captures left on a node use its disk


def test_capture_without_counts_is_kept(paper, tmp_path, monkeypatch):
    paper("no_counts")
    assert run(tmp_path, monkeypatch) == 0
    (path,) = (tmp_path / "test" / "raw").glob("*.json")
    manifest = manifests.read(path)
    assert manifest["frames_captured"] == 1
    assert manifest["frames_received"] is manifest["dropped_kernel"] is manifest["dropped_interface"] is None
    assert any("counts unknown: tcpdump on listener: pcap_stats: failed" in note for note in manifest["notes"])


def test_truncated_capture_without_counts_fails_and_is_kept_unchanged(paper, tmp_path, monkeypatch):
    fetched, sizes = describe.gather, []

    def cut(*arguments):
        path = fetched(*arguments)
        sizes.append(path.stat().st_size - 1)
        os.truncate(path, sizes[-1])
        return path

    monkeypatch.setattr(describe, "gather", cut)
    paper("no_counts")
    assert run(tmp_path, monkeypatch) == 2
    raw = tmp_path / "test" / "raw"
    assert " at byte 24" in (raw / "failed.tsv").read_text()
    assert [path.stat().st_size for path in raw.glob("*.pcap")] == sizes


def test_exit_code_is_2_and_no_sheet_is_written_if_all_samples_fail(paper, tmp_path, monkeypatch, capsys):
    paper("no_start", "no_stop")
    assert run(tmp_path, monkeypatch) == 2
    raw = tmp_path / "test" / "raw"
    assert not (raw / "samples.tsv").exists()
    assert len((raw / "failed.tsv").read_text().splitlines()) == 3
    assert (
        "no sample could be taken; reason of the first failure: tcpdump on listener: cannot start"
        in capsys.readouterr().err
    )


def test_successful_collection_removes_an_earlier_list_of_failures(paper, tmp_path, monkeypatch):
    paper("first", "no_stop")
    assert run(tmp_path, monkeypatch) == 0
    paper("first")
    assert run(tmp_path, monkeypatch) == 0
    assert sorted(path.suffix for path in (tmp_path / "test" / "raw").iterdir() if "no_stop" not in path.name) == [
        ".json", ".pcap", ".tsv",
    ]  # fmt: skip
    assert manifests.read(next((tmp_path / "test" / "raw").glob("*.json")))["frames_captured"] == 1


def test_failure_names_sample_site_port_and_reason(paper, tmp_path):
    settings = parse_settings({"testbed": "local", "capture": {"sample_s": 0.01}})
    reported = list(coordinator.collect(paper("no_start"), settings, tmp_path / "test"))
    found = [item for item in reported if not isinstance(item, Outcome)]
    assert found == [Failure("run1-S-no_start-both-1", "S", "no_start", FAULTS["no_start"])]
