"""Digests on a node that is a directory of this machine."""

import hashlib
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from acapella_testing.frames.pcap_files import pcap
from acapella_testing.requirements import require_built
from acapella_testing.runs.digest_run import frames

from acapella_capture.control import node_digest
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import CompletedProgram

COLLECT = parse_settings({"testbed": "local", "collect": {"digest_on": "node"}}).collect
FRAMES, CUT_BYTES = 20, 7


class Node:
    """The methods of a testbed that a digest uses, for a node whose files are in a directory."""

    allocates = True

    def __init__(self, directory: Path):
        self.directory = directory

    def run(self, node, argv, *, timeout_s=30, stdin=""):
        del node, timeout_s, stdin
        ended = subprocess.run(argv, cwd=self.directory, capture_output=True, text=True, check=False)
        return CompletedProgram(ended.returncode, ended.stdout, ended.stderr)

    def path_on_node(self, node, file):
        del node
        return file

    def put(self, node, source, file):
        del node
        shutil.copy(source, self.directory / file)
        (self.directory / file).chmod(0o700)

    def fetch(self, node, path, target):
        del node
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.directory / path, target)


@pytest.fixture
def node(tmp_path):
    require_built(node_digest.PROGRAM, "build/digest.log")
    (tmp_path / "node").mkdir()
    return Node(tmp_path / "node")


def delivered(node: Node, ended_early: str | None) -> node_digest.NodeDigest:
    """Return the digest of a capture that ends within its last frame."""
    (node.directory / "s.pcap").write_bytes(pcap(frames(FRAMES))[:-CUT_BYTES])
    place = SimpleNamespace(name="S")
    planned = SimpleNamespace(name="s", file="s.pcap", site=place, port=place)
    sample = SimpleNamespace(instance=SimpleNamespace(name="n"), planned=planned, ended_early=ended_early)
    return node_digest.deliver_digest(node, sample, node.directory.parent / "raw", COLLECT)


def test_capture_that_ended_early_is_truncated_to_whole_frames(node):
    digest = delivered(node, "the disk is full")
    whole = pcap(frames(FRAMES - 1))
    assert (digest.facts.fault, digest.facts.frames) == (None, FRAMES - 1)
    assert (digest.bytes, digest.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())


def test_capture_truncated_without_an_early_end_has_a_fault(node):
    digest = delivered(node, None)
    assert digest.facts.fault.startswith("truncated at byte ") and digest.facts.frames == FRAMES - 1


def test_program_and_vendor_lists_are_uploaded_once(node):
    for _ in range(2):
        delivered(node, None)
    lists = node_digest.preparation()[1]
    assert len(list(node.directory.iterdir())) == 1 + len(lists)  # capture and digest were deleted
