"""What is said after a run that ended early."""

import pytest

from acapella.failures import how_to_go_on

BROKEN = "acapella: error: a.pcap: not a capture"


def after(folder, monkeypatch, **logs) -> str:
    """What is said where jobs ended with these logs, ``stage__sample``."""
    monkeypatch.chdir(folder)
    said = ""
    for name, text in logs.items():
        path = folder.joinpath("results", "mine", "logs", *name.split("__")).with_suffix(".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        said += f"Error in rule x:\n    log: {path.relative_to(folder)} (check log file(s) for error details)\n"
    return how_to_go_on(said, "results/mine", ["b"])


@pytest.mark.parametrize("stage", ["digest__a", "process", "analyze__a"])
def test_a_job_that_was_stopped_is_no_broken_sample(stage, tmp_path, monkeypatch):
    said = after(tmp_path, monkeypatch, **{stage: "digest: 10 frames\nacapella: stopped\n"})
    assert said == "acapella: stopped; run snakemake again to go on"


def test_a_collection_that_was_stopped_starts_anew(tmp_path, monkeypatch):
    said = after(tmp_path, monkeypatch, collect="alpha-1: 10 frames\nacapella: stopped\n")
    assert said.startswith("acapella: stopped; run snakemake again to go on; the collection starts anew")


def test_a_full_disk_is_no_broken_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = how_to_go_on("Error recording metadata: [Errno 28] No space left on device", "results/mine", [])
    assert said == f"acapella: the disk is full; make room in {tmp_path}, then run snakemake again"
    elsewhere = "acapella: error: folder of temporary files /other: cannot write: No space left on device"
    assert "no sample failed by itself" in how_to_go_on(elsewhere, "results/mine", [])


def test_a_sample_that_broke_before_the_stop_is_named_alone(tmp_path, monkeypatch):
    said = after(tmp_path, monkeypatch, digest__a=BROKEN, digest__c="acapella: stopped\n", analyze__d="")
    assert said.splitlines()[1:3] == [f"  a: {BROKEN}", "  d: its log is empty"]
    assert said.endswith("exclude: [a, b, d]")


def test_a_stage_of_the_whole_campaign_names_no_sample(tmp_path, monkeypatch):
    assert "no sample failed by itself" in after(tmp_path, monkeypatch, process=BROKEN, index="acapella: stopped")
    assert "no sample failed by itself" in after(tmp_path, monkeypatch)
