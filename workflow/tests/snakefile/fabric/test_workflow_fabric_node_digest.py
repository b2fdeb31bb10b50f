"""Runs the whole workflow on samples that were digested on their nodes, and compares it with a run on the captures."""

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.runs.workflow_run import DIGESTS, Workplace, collect_in_process, only_figures, rules_run

from acapella.cli.main import main
from acapella.digest.acap_files import metadata_of
from acapella_capture.control import node_digest

PROGRAM = Path(sys.executable).with_name(node_digest.PROGRAM)
PORTS = ["HundredGigE0/0/0/5", "HundredGigE0/0/0/15"]
COLLECT = {"mode": "sites", "sites": ["STAR"], "instances": 1, "port_selection": "fixed", "ports": {"STAR": PORTS}}
WARNING = "acapella: warning: nodes have no tshark; digest uses engine native instead of hybrid (collect.digest_on)\n"
COMPARED = (*DIGESTS, "tables/*", "figures/*.svg")


@pytest.fixture(scope="module")
def fabric(tmp_path_factory):
    if not PROGRAM.is_file():
        pytest.skip(f"no {PROGRAM.name} here: build/digest.log")
    with loopback_fabric(tmp_path_factory.mktemp("fabric")) as created:
        yield created


def configure(place: Workplace, fabric, engine: str, **changes) -> None:
    """Write a config with these sections."""
    sections = {"capture": {"sample_s": 0.5}, "collect": COLLECT, "digest": {"engine": engine}} | only_figures()
    place.configure(testbed="fabric", samples=None, fabric=asdict(fabric.settings()), **(sections | changes))


@pytest.fixture(scope="module")
def runs(fabric, tmp_path_factory):
    """Run both campaigns; return both workplaces, and the output of the first run.

    The second one has the captures that the nodes of the first deleted.
    """
    place, kept = Workplace(tmp_path_factory.mktemp("node")), tmp_path_factory.mktemp("kept")

    def keep(testbed, node, file):
        path = fabric.nodes.home(node) / f"acapella-{place.campaign.name}" / file
        if path.is_file():
            shutil.copy(path, kept)
        delete(testbed, node, file)

    delete = node_digest.delete_on_node
    configure(place, fabric, "hybrid", collect=COLLECT | {"digest_on": "node"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_digest, "delete_on_node", keep)
        collect_in_process(place)
    printed = place.succeed("--cores", "2")
    here = Workplace(tmp_path_factory.mktemp("here"))
    configure(here, fabric, "native")
    fetch_captures(place, here, kept)
    here.succeed("--cores", "2")
    return place, here, printed


def fetch_captures(place: Workplace, here: Workplace, kept: Path) -> None:
    """Create the output of rule collect with captures instead of digests."""
    raw = here.campaign / "raw"
    raw.mkdir(parents=True)
    (here.campaign / "collect.json").touch()
    sheet = (place.campaign / "raw" / "samples.tsv").read_text(encoding="utf-8")
    for path in (place.campaign / "raw").glob("*.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        sheet = sheet.replace(manifest.pop("node_digest")["file"], manifest["file"])
        (raw / path.name).write_text(json.dumps(manifest), encoding="utf-8")
        shutil.copy(kept / manifest["file"], raw)
    (raw / "samples.tsv").write_text(sheet, encoding="utf-8")


def files_of(place: Workplace) -> dict[str, bytes]:
    """Return the results that have to be the same in both runs, by path."""
    paths = sorted(path for pattern in COMPARED for path in place.campaign.glob(pattern))
    return {str(path.relative_to(place.campaign)): path.read_bytes() for path in paths}


def test_tables_and_figures_equal_those_of_fetched_captures(runs):
    place, here, _ = runs
    made = files_of(place)
    assert made == files_of(here)
    assert {"tables/capture_quality.csv", "figures/frame_sizes.svg"} <= made.keys() and len(made) > 40
    assert (place.campaign / "report.html").is_file()


def test_no_capture_is_fetched(runs):
    place, here, _ = runs
    fetched = {path.suffix for path in (place.campaign / "raw").iterdir()}
    assert fetched == {".json", ".tsv", ".zst" if shutil.which("zstd") else ".columns"}
    assert {path.suffix for path in (here.campaign / "raw").iterdir()} == {".json", ".tsv", ".pcap"}


def test_engine_native_is_reported_and_recorded(runs):
    place, _, printed = runs
    assert printed.count(WARNING) == 1 and "digest" in rules_run(printed)
    acaps = list((place.campaign / "acap").glob("*.parquet"))
    assert len(acaps) == 2 and {metadata_of(acap)["engine"] for acap in acaps} == {"native"}


def test_finished_campaign_is_complete(runs):
    place, _, _ = runs
    assert "Nothing to be done" in place.succeed("--cores", "1")
    assert main(["campaign", "check", str(place.campaign)]) == 0


def test_commands_that_need_captures_state_that_they_were_not_fetched(runs, tmp_path, capsys):
    place, _, _ = runs
    key = tmp_path / "key"
    assert main(["anonymize", "--new-key", str(key)]) == 0
    capsys.readouterr()
    for words in (
        ["extract", str(place.campaign), "--where", "true", "-o", str(tmp_path / "out.pcap")],
        ["release", str(place.campaign), "-o", str(tmp_path / "public"), "--key-file", str(key)],
    ):
        assert main(words) == 2
        printed = capsys.readouterr().err
        assert "was not fetched: it was digested on its node (collect.digest_on)" in printed, printed
        assert printed.count("\n") == 1


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
    place = Workplace(tmp_path / "work")
    configure(place, fabric, "native", collect=COLLECT | {"digest_on": "node"}, **changes)
    before = len(fabric.orchestrator.requests)
    ended = place.run("--cores", "1")
    assert ended.returncode == 1 and len(fabric.orchestrator.requests) == before
    assert ended.stdout.splitlines()[-1].startswith(f"config error: {message}")
