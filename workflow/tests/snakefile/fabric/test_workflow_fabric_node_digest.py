"""Runs the whole workflow on samples that were digested on their nodes, and compares it with a run on the captures."""

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.generated.files_campaign import failed
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.release_records import write_key
from acapella_testing.requirements import require
from acapella_testing.runs.in_process import call_before
from acapella_testing.runs.workflow_run import (
    DIGESTS,
    Workplace,
    collect_in_process,
    from_ports,
    only_figures,
    rules_run,
)

from acapella.cli.main import main
from acapella.digest.acap_files import metadata_of
from acapella_capture.control import node_digest

pytestmark = pytest.mark.soak

PROGRAM = Path(sys.executable).with_name(node_digest.PROGRAM)
COLLECT = from_ports({"STAR": ["HundredGigE0/0/0/5", "HundredGigE0/0/0/15"]})
WARNING = "acapella: warning: nodes have no tshark; digest uses engine native instead of hybrid (collect.digest_on)\n"
COMPARED = (*DIGESTS, "tables/*", "figures/*.svg")


@pytest.fixture(scope="module")
def fabric(tmp_path_factory):
    require(PROGRAM.is_file(), f"no {PROGRAM.name} here: build/digest.log")
    with loopback_fabric(tmp_path_factory.mktemp("fabric")) as created:
        yield created


def configure(place: Workplace, fabric, engine: str, **changes) -> None:
    """Write a config with these sections."""
    sections = {"capture": {"sample_s": 0.5}, "collect": COLLECT, "digest": {"engine": engine}} | only_figures()
    place.configure(testbed="fabric", samples=None, fabric=asdict(fabric.settings()), **(sections | changes))


@pytest.fixture(scope="module")
def runs(fabric, tmp_path_factory):
    """Run both campaigns; return both workplaces, and the output of the first run.

    The second campaign has the captures that the nodes of the first deleted.
    """
    place, here, kept = (Workplace(tmp_path_factory.mktemp(name)) for name in ("node", "here", "kept"))

    def keep(_testbed, node, file):
        path = fabric.nodes.home(node) / f"acapella-{place.campaign.name}" / file
        if path.is_file():
            shutil.copy(path, kept.directory)

    configure(place, fabric, "hybrid", collect=COLLECT | {"digest_on": "node"})
    with pytest.MonkeyPatch.context() as patch:
        call_before(patch, node_digest, "delete_on_node", keep)
        collect_in_process(place)
    printed = place.succeed("--cores", "2")
    configure(here, fabric, "native")
    fetch_captures(place, here, kept.directory)
    here.succeed("--cores", "2")
    return place, here, printed


def fetch_captures(place: Workplace, here: Workplace, kept: Path) -> None:
    """Create the output of rule collect with captures instead of digests."""
    raw = new_directory(here.campaign / "raw")
    (here.campaign / "collect.json").touch()
    sheet = (place.campaign / "raw" / "samples.tsv").read_text(encoding="utf-8")
    for path in (place.campaign / "raw").glob("*.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        sheet = sheet.replace(manifest.pop("node_digest")["file"], manifest["file"])
        write_file(raw / path.name, json.dumps(manifest))
        shutil.copy(kept / manifest["file"], raw)
    write_file(raw / "samples.tsv", sheet)


def test_tables_and_figures_equal_those_of_fetched_captures(runs):
    place, here, _ = runs
    made = place.sha256(*COMPARED)
    assert made == here.sha256(*COMPARED)
    assert {"tables/capture_quality.csv", "figures/frame_sizes.svg"} <= made.keys()
    assert len(made) > 40
    assert (place.campaign / "report.html").is_file()


def test_no_capture_is_fetched(runs):
    place, here, _ = runs
    columns = ".zst" if shutil.which("zstd") else ".columns"
    assert {path.suffix for path in (place.campaign / "raw").iterdir()} == {".json", ".tsv", columns}
    assert {path.suffix for path in (here.campaign / "raw").iterdir()} == {".json", ".tsv", ".pcap"}


def test_engine_native_is_reported_and_recorded(runs):
    place, _, printed = runs
    assert printed.count(WARNING) == 1
    assert "digest" in rules_run(printed)
    assert [metadata_of(acap)["engine"] for acap in (place.campaign / "acap").glob("*.parquet")] == ["native"] * 2


def test_finished_campaign_is_complete(runs):
    assert "Nothing to be done" in runs[0].succeed("--cores", "1")
    assert main(["campaign", "check", str(runs[0].campaign)]) == 0


def test_commands_that_need_captures_state_that_they_were_not_fetched(runs, tmp_path, capsys):
    campaign, why = runs[0].campaign, "was not fetched: it was digested on its node (collect.digest_on)"
    assert why in failed(capsys, "extract", campaign, "--where", "true", "-o", tmp_path / "out.pcap")
    key = write_key(tmp_path / "key")
    assert why in failed(capsys, "release", campaign, "-o", tmp_path / "public", "--key-file", key)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": {"e": ["a", "b"]}}, "trials: needs captures, which collect.digest_on: node does not fetch"),
        (
            {"flowreports": {"samples": "all"}},
            "flowreports.samples: needs captures, which collect.digest_on: node does",
        ),
    ],
)
def test_stages_that_need_captures_are_rejected_before_a_request(changes, message, fabric, tmp_path):
    place, before = Workplace(tmp_path / "work"), len(fabric.orchestrator.requests)
    configure(place, fabric, "native", collect=COLLECT | {"digest_on": "node"}, **changes)
    assert place.fail("--cores", "1").splitlines()[-1].startswith(f"config error: {message}")
    assert len(fabric.orchestrator.requests) == before
