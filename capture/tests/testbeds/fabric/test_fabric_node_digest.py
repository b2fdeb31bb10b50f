"""Captures that are digested on their nodes of a FABRIC on loopback: only the digests are fetched."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.fabric.collection_runs import ONE, collected

from acapella_capture.control import delivery, node_digest
from acapella_capture.manifest import read
from acapella_capture.testbeds.fabric.nodes import programs
from acapella_capture.testbeds.fabric.transfer import Transfer
from acapella_core.errors import UserError

ON_NODE = ONE | {"digest_on": "node"}
NODE = "UTAH-listener1"
PART_BYTES = 300


@pytest.fixture(autouse=True)
def program():
    """Require the program for the nodes."""
    path = Path(sys.executable).with_name(node_digest.PROGRAM)
    if not path.is_file():
        pytest.skip(f"no {path.name} here: build/digest.log")
    return path


@pytest.fixture
def replace_program(monkeypatch, tmp_path):
    """Return a function that has a shell script uploaded instead of the program."""

    def replace(script: str) -> None:
        path = tmp_path / node_digest.PROGRAM
        path.write_text(f"#!/bin/sh\n{script}\n")
        monkeypatch.setattr(node_digest, "digest_program", lambda: path)

    return replace


def manifest_of(campaign: Path) -> dict:
    (path,) = (campaign / "raw").glob("*.json")
    return read(path)


def captures_on_node(fabric) -> list[str]:
    return [path.name for path in fabric.nodes.home(NODE).rglob("*.pcap*")]


def test_only_the_digest_is_fetched(fabric, capsys, monkeypatch):
    captures = {}

    def keep(testbed, node, file):
        path = fabric.nodes.home(node) / "acapella-first" / file
        if path.is_file():
            captures[file] = path.read_bytes()
        delete(testbed, node, file)

    delete = node_digest.delete_on_node
    monkeypatch.setattr(node_digest, "delete_on_node", keep)
    status, campaign = collected(fabric, collect=ON_NODE)
    assert status == 0, capsys.readouterr().err
    manifest = manifest_of(campaign)
    capture = captures[manifest["file"]]
    assert manifest["frames_captured"] > 0 and manifest["file"].endswith(".pcap")
    assert (manifest["bytes"], manifest["sha256"]) == (len(capture), hashlib.sha256(capture).hexdigest())
    digest = manifest["node_digest"]
    content = (campaign / "raw" / digest["file"]).read_bytes()
    assert (digest["bytes"], digest["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert sorted(path.name for path in (campaign / "raw").iterdir()) == sorted(
        [digest["file"], f"{manifest['sample']}.json", "samples.tsv"]
    )
    assert (campaign / "raw" / "samples.tsv").read_text().splitlines()[1].endswith(f"\t{digest['file']}")
    assert captures_on_node(fabric) == [] and not list(fabric.nodes.home(NODE).rglob("*.columns*"))
    assert not fabric.orchestrator.alive()


def test_interrupted_transfer_of_a_digest_resumes(fabric, capsys, monkeypatch):
    fetch, fetched, received = Transfer.fetch, [], []

    def interrupted(self, node, path, target):
        fabric.nodes.cut_downloads_after = None if fetched else 5 * PART_BYTES // 2
        fetched.append(path)
        partial = target.with_name(f".{target.name}.partial")
        received.append(partial.stat().st_size if partial.exists() else 0)
        fetch(self, node, path, target)

    monkeypatch.setattr(programs, "MB", PART_BYTES)
    monkeypatch.setattr(Transfer, "fetch", interrupted)
    status, campaign = collected(fabric, collect=ON_NODE)
    assert status == 0, capsys.readouterr().err
    digest = manifest_of(campaign)["node_digest"]
    assert fetched[:2] == [digest["file"]] * 2 and received[:2] == [0, 2 * PART_BYTES]
    assert hashlib.sha256((campaign / "raw" / digest["file"]).read_bytes()).hexdigest() == digest["sha256"]
    assert not list((campaign / "raw").glob(".*"))


# Fails in a different way for each sample.
FAILING = """echo >> "$HOME/samples"
case $(wc -l < "$HOME/samples") in
    1) echo 'acapella-digest: error: x: No space left on device; free some space' >&2; exit 75 ;;
    2) kill -9 $$ ;;
    *) echo nonsense ;;
esac"""


def test_capture_is_fetched_if_its_node_cannot_digest(fabric, capsys, replace_program):
    replace_program(FAILING)
    status, campaign = collected(fabric, collect=ON_NODE | {"samples_per_run": 3})
    printed, notes = capsys.readouterr(), []
    assert status == 0, printed.err
    for manifest in map(read, (campaign / "raw").glob("*.json")):
        assert "node_digest" not in manifest
        notes += [note for note in manifest["notes"] if "cannot digest" in note]
        assert f"note: {notes[-1]}" in printed.out
        assert (campaign / "raw" / manifest["file"]).stat().st_size == manifest["bytes"]
    assert len(notes) == 3
    for reason in ("No space left", "exit status", "printed no facts"):
        assert len([note for note in notes if reason in note]) == 1, notes
    assert captures_on_node(fabric) == []


def test_sample_fails_if_its_capture_can_neither_be_digested_nor_fetched(fabric, capsys, monkeypatch, replace_program):
    replace_program("echo 'acapella-digest: error: x: No space left on device' >&2; exit 75")
    monkeypatch.setattr(delivery, "free_bytes", lambda _: 10**6)
    status, campaign = collected(fabric, collect=ON_NODE)
    printed = capsys.readouterr().err
    assert status == 2 and not list((campaign / "raw").glob("*.pcap*"))
    (line,) = [line for line in printed.splitlines() if line.startswith("warning: run1-UTAH-")]
    assert "neither digested nor fetched: " in line and "No space left on device" in line
    assert "fetching the capture needs 64 MB here, 1 MB is free" in line
    assert captures_on_node(fabric) == [], "later samples need the space"


def test_capture_is_deleted_on_its_node_if_its_digest_cannot_be_fetched(fabric, capsys, monkeypatch):
    fetch = Transfer.fetch

    def fails(self, node, path, target):
        if ".columns" in path:
            raise UserError("no connection", where=f"node {node}")
        fetch(self, node, path, target)

    monkeypatch.setattr(Transfer, "fetch", fails)
    status, _ = collected(fabric, collect=ON_NODE)
    printed = capsys.readouterr().err
    assert status == 2 and "no connection" in printed
    assert captures_on_node(fabric) == [] and not list(fabric.nodes.home(NODE).rglob("*.columns*"))


def test_missing_program_is_reported_before_a_request(fabric, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    status, _ = collected(fabric, collect=ON_NODE)
    assert status == 2 and not fabric.orchestrator.slices
    assert "collect.digest_on: acapella-digest, which is needed on the nodes, is missing" in capsys.readouterr().err


def test_node_without_zstd_is_sufficient(fabric, capsys, program):
    """The program is linked statically; without zstd, the digest is fetched uncompressed."""
    zstd = fabric.nodes.program("zstd")
    zstd.write_text("#!/bin/sh\nexit 127\n")
    zstd.chmod(0o755)
    status, campaign = collected(fabric, collect=ON_NODE)
    assert status == 0, capsys.readouterr().err
    assert manifest_of(campaign)["node_digest"]["file"].endswith(".columns")
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in dynamic and "FLAGS_1" in dynamic
