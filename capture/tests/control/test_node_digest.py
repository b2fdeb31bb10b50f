"""Digests on a node that is a directory of this machine."""

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from acapella_testing.capture.fake_testbed import completed
from acapella_testing.frames.pcap_files import pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.requirements import require_built
from acapella_testing.runs.digest_run import frames

from acapella_capture.control import node_digest
from acapella_capture.settings import parse_settings

COLLECT = parse_settings({"testbed": "local", "collect": {"digest_on": "node"}}).collect
FRAMES, CUT_BYTES = 20, 7


class Node:
    """The methods of a testbed that a digest uses, for a node whose files are in a directory."""

    allocates = True

    def __init__(self, directory: Path):
        self.directory = directory

    def run(self, _node, argv, **_):
        return completed(argv, cwd=self.directory)

    def path_on_node(self, _node, file):
        return file

    def put(self, _node, source, file):
        shutil.copy(source, self.directory / file)
        (self.directory / file).chmod(0o700)

    def fetch(self, _node, path, target):
        write_file(target, (self.directory / path).read_bytes())


@pytest.fixture
def node(tmp_path):
    require_built(node_digest.PROGRAM, "build/digest.log")
    return Node(new_directory(tmp_path / "node"))


def delivered(node: Node, ended_early: str | None) -> node_digest.NodeDigest:
    """Return the digest of a capture that ends within its last frame."""
    write_file(node.directory / "s.pcap", pcap(frames(FRAMES))[:-CUT_BYTES])
    place = SimpleNamespace(name="S")
    planned = SimpleNamespace(name="s", file="s.pcap", site=place, port=place)
    sample = SimpleNamespace(instance=SimpleNamespace(name="n"), planned=planned, ended_early=ended_early)
    return node_digest.deliver_digest(node, sample, node.directory.parent / "raw", COLLECT)


def test_capture_that_ended_early_is_truncated_to_whole_frames(node):
    digest = delivered(node, "the disk is full")
    truncated = pcap(frames(FRAMES - 1))
    assert (digest.facts.fault, digest.facts.frames) == (None, FRAMES - 1)
    assert (digest.bytes, digest.sha256) == (len(truncated), hashlib.sha256(truncated).hexdigest())


def test_capture_truncated_without_an_early_end_has_a_fault(node):
    digest = delivered(node, None)
    assert digest.facts.fault.startswith("truncated at byte ")
    assert digest.facts.frames == FRAMES - 1


def test_program_and_vendor_lists_are_uploaded_once(node):
    for _ in range(2):
        delivered(node, None)
    # capture and digest were deleted
    assert len(list(node.directory.iterdir())) == 1 + len(node_digest.preparation()[1])
