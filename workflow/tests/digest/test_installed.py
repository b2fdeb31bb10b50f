"""Tests the key of `acapella digest --cache` without --cache-key: it depends on the installed program."""

import shutil
from pathlib import Path

import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import write_file

from acapella.cli import main as cli
from acapella.digest import installed


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Copy the directories of the program so that tests can edit their files."""
    program = tmp_path / "program"
    copies = [shutil.copytree(directory, program / directory.name) for directory in installed.directories()]
    monkeypatch.setattr(installed, "directories", lambda: tuple(copies))
    yield program
    installed.code_sha256.cache_clear()


def digest_of(directory: Path, name: str) -> Path:
    """Digest a capture with a cache, and return the entry of its frame table."""
    installed.code_sha256.cache_clear()
    capture = write_pcap(directory / "x.pcap", busy_port())
    output = directory / f"{name}.parquet"
    words = ["digest", str(capture), "--engine", "native", "--cache", str(directory / "cache"), "-o", str(output)]
    assert cli.main(words) == 0
    return output.resolve()


@pytest.mark.parametrize(
    "edited", ["digest/native.py", "common/vendors.py", "acapella_core/names.py", "schemas/tables/frames.yaml"]
)
def test_edited_program_does_not_use_entries_of_the_original(tmp_path, copy, edited):
    before = digest_of(tmp_path, "a")
    assert digest_of(tmp_path, "b") == before
    path = copy / edited
    path.write_bytes(path.read_bytes() + b"\n# edited\n")
    assert digest_of(tmp_path, "c") != before


def test_different_core_does_not_use_the_entries_of_this_one(tmp_path, copy, monkeypatch):
    before = digest_of(tmp_path, "a")
    monkeypatch.setattr(installed._native, "__file__", str(write_file(tmp_path / "core.so", b"another core")))
    assert digest_of(tmp_path, "b") != before


def test_different_pyarrow_does_not_use_the_entries_of_this_one(tmp_path, monkeypatch):
    before = digest_of(tmp_path, "a")
    monkeypatch.setattr(installed, "version", lambda package: f"{package} 0.0")
    assert digest_of(tmp_path, "b") != before


def test_compiled_modules_do_not_change_the_key(copy):
    installed.code_sha256.cache_clear()
    before = installed.code_sha256()
    installed.code_sha256.cache_clear()
    write_file(copy / "digest" / "__pycache__" / "new.pyc", b"code")
    assert installed.code_sha256() == before
