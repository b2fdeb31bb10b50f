"""Tests which directories of a cache a confined `acapella digest` can write to."""

from pathlib import Path

import pytest
from acapella_testing.new_files import new_directory, write_file

from acapella.cli.commands import build_parser
from acapella.common import confined
from acapella.digest import command
from acapella_core.confinement import existing


def writable(monkeypatch, directory: Path, cache: Path) -> set[Path]:
    """Return the directories that a digest with a cache can write to, except that of temporary files."""
    paths, output = [], new_directory(directory / "out") / "a.parquet"
    monkeypatch.setattr(confined, "confine_self", lambda *written, **_: paths.extend(written))
    words = ["digest", "x.pcap", "-o", str(output), "--cache", str(cache)]
    command.confine(build_parser(words).parse_args(words))
    return {existing(Path(path).absolute().parent) for path in paths if path}


@pytest.mark.parametrize("exists", [False, True])
def test_confined_digest_cannot_write_to_the_parent_of_its_cache(tmp_path, monkeypatch, exists):
    cache = new_directory(tmp_path / "home") / "cache"
    if exists:
        cache.mkdir(mode=0o700)
    assert writable(monkeypatch, tmp_path, cache) == {tmp_path / "out", cache}
    assert cache.stat().st_mode & 0o7777 == 0o700


def test_cache_that_cannot_be_created_makes_no_directory_writable(tmp_path, monkeypatch):
    assert writable(monkeypatch, tmp_path, write_file(tmp_path / "file", "") / "cache") == {tmp_path / "out"}
