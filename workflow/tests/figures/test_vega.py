"""Tests the cache file of the script for interactive charts."""

import pytest

from acapella.figures import vega


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return the path of the cache file, in the directory of the test."""
    monkeypatch.setattr(vega, "cache_file", lambda: tmp_path / "script")
    return tmp_path / "script"


def test_cached_script_is_used_unless_it_is_damaged(file, monkeypatch):
    monkeypatch.setattr(vega, "bundle", lambda: "chart()")
    vega.write()
    assert vega.cached_script() == "chart()"
    file.write_bytes(file.read_bytes()[:-1])
    assert vega.cached_script() is None
    assert vega.vega.__wrapped__() == "chart()"


@pytest.mark.soak
def test_script_cached_by_a_different_process_equals_the_bundle():
    vega.fill_cache()
    assert vega.vega() == vega.bundle()


def test_missing_cache_directory_is_not_created(file, monkeypatch):
    monkeypatch.setattr(vega, "cache_file", lambda: file / "missing" / "script")
    vega.fill_cache()
    assert vega.cached_script() is None
    assert not file.exists()
