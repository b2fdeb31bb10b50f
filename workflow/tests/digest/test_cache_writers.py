"""Tests processes that use the same entry of the cache of digests at the same time."""

import os
from pathlib import Path

import pytest
from acapella_testing.new_files import new_directory, write_file

from acapella.cli import main as cli
from acapella.digest import cache
from acapella_core import files


@pytest.fixture
def entry(tmp_path) -> Path:
    """Return the path of an entry in an empty cache."""
    path = cache.entries_of(tmp_path / "cache", "0" * 64)[0]
    return new_directory(path.parent) / path.name


def output(directory: Path, name: str) -> Path:
    """Return a new output with the same bytes as all others."""
    return write_file(directory / f"{name}.parquet", b"PAR1" + bytes(100) + b"PAR1")


def stored(directory: Path, entry: Path, name: str = "writer") -> Path:
    """Store a new output as an entry; return the output."""
    written = output(directory, name)
    cache.store([entry], [written])
    return written


def test_reader_between_the_steps_of_a_writer_removes_nothing(tmp_path, entry, monkeypatch, capsys):
    """The reader runs after the writer has renamed the entry, before it replaces its output with a link."""
    link, found = cache.atomic_link, []

    def read_first(source: Path, target: Path) -> None:
        monkeypatch.setattr(cache, "atomic_link", link)
        found.append(cache.fetch([entry], [tmp_path / "reader.parquet"]))
        link(source, target)

    monkeypatch.setattr(cache, "atomic_link", read_first)
    assert stored(tmp_path, entry).resolve() == (tmp_path / "reader.parquet").resolve() == entry
    assert found == [True]
    assert capsys.readouterr().err == ""
    assert cache.fault_of(entry) is None


def test_directory_created_by_another_user_at_the_same_time_keeps_its_mode(entry, monkeypatch):
    """Only the owner of a directory may set its mode."""
    entry.parent.rmdir()
    mkdir = os.mkdir

    def create_first(path: Path, mode: int) -> None:
        mkdir(path, 0o750)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", create_first)
    cache.prepare_directory(entry.parent, shared=True)
    assert entry.parent.stat().st_mode & 0o7777 == 0o750


def test_reader_does_not_remove_an_entry_that_it_cannot_use(tmp_path, entry):
    """Another process may have replaced it after it was read."""
    stored(tmp_path, entry)
    cache.sum_file(entry).write_text("")
    assert not cache.fetch([entry], [tmp_path / "reader.parquet"])
    assert entry.is_file() and cache.sum_file(entry).is_file()


def test_failed_writer_keeps_the_entry_of_another_writer(tmp_path, entry, monkeypatch):
    """The other writer stores its entry after this one has found none, and this one then fails."""
    check, first = cache.quick_fault, []

    def check_first(path: Path) -> str | None:
        fault = check(path)
        monkeypatch.setattr(cache, "quick_fault", check)
        first.append(stored(tmp_path, entry, "first"))
        return fault

    def fail(*_) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "quick_fault", check_first)
    assert not cache.fetch([entry], [tmp_path / "second.parquet"])
    monkeypatch.setattr(cache.shutil, "copyfile", fail)
    second = stored(tmp_path, entry, "second")
    assert not second.is_symlink() and second.is_file()
    assert first[0].resolve() == entry and cache.fault_of(entry) is None


def test_writer_does_not_remove_the_temporary_file_of_another_writer(tmp_path, entry, monkeypatch, capsys):
    """The other writer starts, and removes abandoned files, before this one renames its temporary file."""
    finish = files.finish

    def start_other(directory: int, name: str, mode: int) -> None:
        files.remove_abandoned(directory, entry.name)
        finish(directory, name, mode)

    monkeypatch.setattr(files, "finish", start_other)
    assert stored(tmp_path, entry).resolve() == entry
    assert capsys.readouterr().err == ""
    assert cache.fault_of(entry) is None


@pytest.mark.parametrize("verified", [False, True], ids=["used", "verified before a run"])
def test_use_of_an_entry_of_another_member_of_the_group_is_recorded(tmp_path, entry, monkeypatch, verified):
    """Only the owner of a file may set its times."""
    entry.parent.chmod(0o2770)
    stored(tmp_path, entry)
    checksum, set_times = cache.sum_file(entry), os.utime
    set_times(checksum, ns=(0, 0))
    os.chown(checksum, 4242, -1)

    def set_own_times(path: Path, **times) -> None:
        if Path(path).stat().st_uid == 4242:
            raise PermissionError(1, "Operation not permitted")
        set_times(path, **times)

    monkeypatch.setattr(os, "utime", set_own_times)
    text = checksum.read_text()
    if verified:
        assert cache.fault_since(entry) is None
        cache.record_verified()
    else:
        assert cache.fetch([entry], [tmp_path / "reader.parquet"])
    assert checksum.stat().st_mtime_ns > 0
    assert checksum.read_text() == text
    assert checksum.stat().st_mode & 0o777 == 0o640


def test_prune_removes_files_of_interrupted_writers(tmp_path, entry):
    stored(tmp_path, entry)
    old, new = (cache.sum_file(entry.with_name(f"{name * 64}_acap.parquet")) for name in "12")
    abandoned = entry.with_name(f".{entry.name}.0123abcd.part")
    with files.atomic_path(entry) as in_use:
        running = entry.with_name(in_use.name)
        for path in (old, new, abandoned):
            path.write_text("")
        os.utime(old, ns=(0, 0))
        for arguments, removed in (([], set()), (["--max-size", "1T"], {old, abandoned})):
            assert cli.main(["campaign", "cache", str(tmp_path / "cache"), *arguments]) == 0
            assert {*entry.parent.iterdir()} == {entry, cache.sum_file(entry), old, new, abandoned, running} - removed


def test_directory_of_other_files_is_not_a_cache(tmp_path, entry, capsys):
    stored(tmp_path, entry)
    assert cli.main(["campaign", "cache", str(tmp_path / "cache"), "--max-size", "1"]) == 0
    assert cli.main(["campaign", "cache", str(tmp_path / "cache")]) == 0, "a cache without digests"
    assert cli.main(["campaign", "cache", str(entry.parent.parent.parent)]) == 2
    assert "not a cache: it contains other files, and no digests; specify the directory in" in capsys.readouterr().err
