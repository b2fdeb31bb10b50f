"""Tests the file with the script of interactive charts."""

import pytest

from acapella.figures import vega


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return the path of the file, in the directory of the test."""
    monkeypatch.setattr(vega, "kept_file", lambda: tmp_path / "script")
    return tmp_path / "script"


def test_script_in_the_file_is_used_unless_it_is_damaged(file, monkeypatch):
    monkeypatch.setattr(vega, "compiled", lambda: "chart()")
    vega.write()
    assert vega.kept() == "chart()"
    file.write_bytes(file.read_bytes()[:-1])
    assert vega.kept() is None
    assert vega.vega.__wrapped__() == "chart()"


def test_script_kept_by_another_process_equals_the_compiled_script():
    vega.keep()
    assert vega.vega() == vega.compiled()


def test_unwritable_directory_is_unchanged(file, monkeypatch):
    monkeypatch.setattr(vega, "kept_file", lambda: file / "missing" / "script")
    vega.keep()
    assert vega.kept() is None and not file.exists()
