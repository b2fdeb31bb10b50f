"""Captures that are digested on their nodes of a FABRIC on loopback: only the digests are fetched."""

import hashlib
import sys
from pathlib import Path

import pytest
from acapella_testing.fabric.collection_runs import ONE
from acapella_testing.processes import executable, run
from acapella_testing.requirements import require_built
from acapella_testing.runs.in_process import call_before

from acapella_capture.control import delivery, node_digest
from acapella_capture.testbeds.fabric.nodes import programs
from acapella_capture.testbeds.fabric.transfer import Transfer
from acapella_core.errors import UserError

ON_NODE = ONE | {"digest_on": "node"}
NODE = "UTAH-listener1"
PART_BYTES = 300


@pytest.fixture(autouse=True)
def _program() -> None:
    require_built(node_digest.PROGRAM, "build/digest.log has the reason")


@pytest.fixture
def replace_program(monkeypatch, tmp_path):
    """Return a function that has a shell script uploaded instead of the program."""

    def replace(script: str) -> None:
        path = executable(tmp_path / node_digest.PROGRAM, f"#!/bin/sh\n{script}\n")
        monkeypatch.setattr(node_digest, "digest_program", lambda: path)

    return replace


def captures_on_node(fabric) -> list[str]:
    return [path.name for path in fabric.nodes.home(NODE).rglob("*.pcap*")]


def test_only_the_digest_is_fetched(fabric, collection, monkeypatch):
    captures = {}

    def keep(_testbed, node, file):
        path = fabric.nodes.home(node) / "acapella-first" / file
        if path.is_file():
            captures[file] = path.read_bytes()

    call_before(monkeypatch, node_digest, "delete_on_node", keep)
    done = collection(collect=ON_NODE)
    assert done.status == 0, done.err
    (manifest,) = done.manifests()
    capture = captures[manifest["file"]]
    assert manifest["frames_captured"] > 0 and manifest["file"].endswith(".pcap")
    assert (manifest["bytes"], manifest["sha256"]) == (len(capture), hashlib.sha256(capture).hexdigest())
    digest = manifest["node_digest"]
    content = (done.raw / digest["file"]).read_bytes()
    assert (digest["bytes"], digest["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert {path.name for path in done.raw.iterdir()} == {digest["file"], f"{manifest['sample']}.json", "samples.tsv"}
    assert (done.raw / "samples.tsv").read_text().splitlines()[1].endswith(f"\t{digest['file']}")
    assert captures_on_node(fabric) == [] and not list(fabric.nodes.home(NODE).rglob("*.columns*"))
    assert not fabric.slices


@pytest.mark.soak
def test_interrupted_transfer_of_a_digest_resumes_also_from_a_node_without_zstd(fabric, collection, monkeypatch):
    """The program is linked statically; without zstd, the digest is fetched uncompressed."""
    executable(fabric.nodes.program("zstd"), "#!/bin/sh\nexit 127\n")
    fetched, received = [], []

    def interrupt(_transfer, _node, path, target):
        fabric.nodes.cut_downloads_after = None if fetched else 5 * PART_BYTES // 2
        fetched.append(path)
        partial = target.with_name(f".{target.name}.partial")
        received.append(partial.stat().st_size if partial.exists() else 0)

    monkeypatch.setattr(programs, "MB", PART_BYTES)
    call_before(monkeypatch, Transfer, "fetch", interrupt)
    done = collection(collect=ON_NODE)
    assert done.status == 0, done.err
    digest = done.manifests()[0]["node_digest"]
    assert fetched[:2] == [digest["file"]] * 2 and received[:2] == [0, 2 * PART_BYTES]
    assert hashlib.sha256((done.raw / digest["file"]).read_bytes()).hexdigest() == digest["sha256"]
    assert not list(done.raw.glob(".*")) and digest["file"].endswith(".columns")
    dynamic = run("readelf", "-d", Path(sys.executable).with_name(node_digest.PROGRAM), check=True).stdout
    assert "NEEDED" not in dynamic and "FLAGS_1" in dynamic


# Fails in a different way for each sample.
FAILING = """echo >> "$HOME/samples"
case $(wc -l < "$HOME/samples") in
    1) echo 'acapella-digest: error: x: No space left on device; free some space' >&2; exit 75 ;;
    2) kill -9 $$ ;;
    *) echo nonsense ;;
esac"""


@pytest.mark.soak
def test_capture_is_fetched_if_its_node_cannot_digest(fabric, collection, replace_program):
    replace_program(FAILING)
    done, notes = collection(collect=ON_NODE | {"samples_per_run": 3}), []
    assert done.status == 0, done.err
    for manifest in done.manifests():
        assert "node_digest" not in manifest
        notes += [note for note in manifest["notes"] if "cannot digest" in note]
        assert f"note: {notes[-1]}" in done.out
        assert (done.raw / manifest["file"]).stat().st_size == manifest["bytes"]
    assert len(notes) == 3
    reasons = ("No space left", "exit status", "printed no facts")
    assert [sum(reason in note for note in notes) for reason in reasons] == [1, 1, 1], notes
    assert captures_on_node(fabric) == []


@pytest.mark.soak
def test_sample_fails_if_its_capture_can_neither_be_digested_nor_fetched(
    fabric, collection, monkeypatch, replace_program
):
    replace_program("echo 'acapella-digest: error: x: No space left on device' >&2; exit 75")
    monkeypatch.setattr(delivery, "free_bytes", lambda _: 10**6)
    done = collection(collect=ON_NODE)
    assert done.status == 2 and not list(done.raw.glob("*.pcap*"))
    assert done.error.startswith("acapella: error: ")
    (line,) = [line for line in done.err.splitlines() if line.startswith("warning: run1-UTAH-")]
    assert "neither digested nor fetched: " in line and "No space left on device" in line
    assert "fetching the capture needs 64 MB here, 1 MB is free" in line
    assert captures_on_node(fabric) == [], "later samples need the space"


@pytest.mark.soak
def test_capture_is_deleted_on_its_node_if_its_digest_cannot_be_fetched(fabric, collection, monkeypatch):
    def fail(_transfer, node, path, _target):
        if ".columns" in path:
            raise UserError("no connection", where=f"node {node}")

    call_before(monkeypatch, Transfer, "fetch", fail)
    done = collection(collect=ON_NODE)
    assert done.status == 2 and "no connection" in done.err
    assert done.error.startswith("acapella: error: ")
    assert captures_on_node(fabric) == [] and not list(fabric.nodes.home(NODE).rglob("*.columns*"))


def test_missing_program_is_reported_before_a_slice_is_created(fabric, collection, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    done = collection(collect=ON_NODE)
    assert done.status == 2 and not fabric.orchestrator.slices
    assert done.error.startswith("acapella: error: ")
    assert "collect.digest_on: acapella-digest, which is needed on the nodes, is missing" in done.err
