"""Tests the state of files on a share, and programs that storage plugins need."""

import os
from types import SimpleNamespace

import pytest

from acapella.snakefile import snakemake_internals
from acapella.snakefile.storage.captures import CaptureStorage
from acapella.snakefile.storage.fs import SharedFiles
from acapella.snakefile.storage.object_state import ObjectState
from acapella_capture.testbeds.files import unreadable


@pytest.fixture
def storage(monkeypatch):
    """Return the storage with a plugin and an rsync that are never used."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(snakemake_internals, "make_copies_writable", lambda provider: None)
    return CaptureStorage(SimpleNamespace(register_storage=lambda name: None), {}, unreadable)


def test_size_and_time_identify_the_version_of_a_file(storage, tmp_path):
    (tmp_path / "a b.pcap").write_bytes(b"12345")
    os.utime(tmp_path / "a b.pcap", ns=(0, 7_000_000_009))
    (tmp_path / "link").symlink_to("a b.pcap")
    expected = ObjectState("5-7000000009", bytes=5, modified_s=7)
    assert [storage.state(f"fs:{tmp_path}/{name}") for name in ("a b.pcap", "link")] == [expected] * 2


def test_unreadable_files_have_a_fault(storage, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    faults = {"absent": "no such file", "": "is not a file", "loop": "no such file"}
    assert {name: storage.state(f"fs:{tmp_path}/{name}").fault for name in faults} == faults


@pytest.mark.usefixtures("storage")
def test_file_that_disappears_has_a_fault(tmp_path):
    files = SharedFiles(lambda name: None, fault_of=lambda path: None)
    assert files.state(f"fs:{tmp_path}/absent").fault == "cannot read: No such file or directory"


@pytest.mark.parametrize("query", ["s3://bucket/x.pcap", "fs:/share/x.pcap"])
def test_missing_plugin_is_an_error_in_one_line(monkeypatch, query):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"^error: captures in storage need .*; run make setup-storage$"):
        CaptureStorage(None, {}, unreadable).state(query)


def test_missing_rsync_is_an_error_in_one_line(storage, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SystemExit, match=r"^error: Snakemake's storage plugin fs needs rsync; apt-get install rsync$"):
        storage.input_of("fs:/share/x.pcap")
