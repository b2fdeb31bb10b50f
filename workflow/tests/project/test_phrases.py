"""The phrase check finds phrases in the lines and across the line breaks of checked files."""

import importlib.util
import re
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file

SETUP = Path(__file__).resolve().parents[2] / "setup"


@pytest.fixture
def phrases(monkeypatch, tmp_path):
    """Return the script as a module, for a tree and lists in `tmp_path`."""
    spec = importlib.util.spec_from_file_location("phrases", SETUP / "phrases.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("phrases-allowed.tsv", "phrases-unchecked.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "phrases.tsv").write_text("# comment\n\\bis blue\\b\tis green\n")
    for name in ("HERE", "ROOT"):
        monkeypatch.setattr(module, name, tmp_path)
    return module


@pytest.mark.parametrize(
    "text",
    [
        "It is blue here.",
        "It is\nblue here.",
        "    # It is\n    # blue here.",
        "// It is\n// blue",
        "-- It is\n-- blue",
    ],
)
def test_phrase_is_found(phrases, tmp_path, capsys, text):
    (tmp_path / "page.md").write_text(text)
    assert phrases.report(["page.md"], []) == 1
    assert "page.md:1: " in capsys.readouterr().out


def test_phrase_is_not_joined_across_an_empty_line(phrases, tmp_path):
    (tmp_path / "page.md").write_text("It is\n\nblue here.")
    assert phrases.report(["page.md"], []) == 0


def test_allowed_use_needs_its_path_and_line(phrases, tmp_path, capsys):
    (tmp_path / "page.md").write_text("The user is blue so.\nThe file is blue so.\n")
    (tmp_path / "phrases-allowed.tsv").write_text("page.md\tThe user is blue\ta person\n")
    assert phrases.report(["page.md"], []) == 1
    printed = capsys.readouterr().out
    assert "page.md:2: " in printed and "page.md:1: " not in printed


def test_unused_entry_of_the_allow_list_fails(phrases, tmp_path):
    (tmp_path / "page.md").write_text("Nothing here.\n")
    (tmp_path / "phrases-allowed.tsv").write_text("page.md\tThe user is blue\ta person\n")
    assert phrases.report(["page.md"], []) == 1


def test_unchecked_paths_are_counted(phrases, tmp_path, capsys):
    write_file(tmp_path / "later" / "page.md", "It is blue here.")
    assert phrases.report(["later/page.md"], ["later"]) == 0
    assert "1 files not checked yet, later: 1" in capsys.readouterr().out


def test_lists_of_the_project_are_well_formed():
    rows = [line.split("\t") for line in (SETUP / "phrases.tsv").read_text().splitlines() if line[:1] not in ("#", "")]
    assert all(len(row) == 2 and re.compile(row[0]) for row in rows)
    allowed = (SETUP / "phrases-allowed.tsv").read_text().splitlines()
    entries = [line.split("\t") for line in allowed if line[:1] not in ("#", "")]
    assert len(entries) <= 50
    assert all(len(entry) == 3 and entry[2] for entry in entries), "path, part of the line, reason"
