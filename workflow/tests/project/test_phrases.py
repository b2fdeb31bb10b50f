"""The phrase check finds phrases in the lines and across the line breaks of checked files."""

import re
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.source_tree import script

SETUP = Path(__file__).resolve().parents[2] / "setup"


@pytest.fixture
def phrases(monkeypatch, tmp_path):
    """Return the script as a module, for a tree and lists in `tmp_path`."""
    module = script(SETUP / "phrases.py")
    write_file(tmp_path / "phrases-allowed.tsv", "")
    write_file(tmp_path / "phrases.tsv", "# comment\n\\bis blue\\b\tis green\n")
    for name in ("HERE", "ROOT"):
        monkeypatch.setattr(module, name, tmp_path)
    return module


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is blue here.", 1),
        ("It is\nblue here.", 1),
        ("    # It is\n    # blue here.", 1),
        ("// It is\n// blue", 1),
        ("-- It is\n-- blue", 1),
        ("It is\n\nblue here.", 0),
    ],
)
def test_phrase_is_found_in_a_paragraph(phrases, tmp_path, capsys, text, found):
    write_file(tmp_path / "page.md", text)
    assert phrases.report(["page.md"]) == found
    assert capsys.readouterr().out.count("page.md:1: ") == found


def test_allowed_use_needs_its_path_and_line(phrases, tmp_path, capsys):
    write_file(tmp_path / "page.md", "The user is blue so.\nThe file is blue so.\n")
    write_file(tmp_path / "phrases-allowed.tsv", "page.md\tThe user is blue\ta person\n")
    assert phrases.report(["page.md"]) == 1
    printed = capsys.readouterr().out
    assert "page.md:2: " in printed
    assert "page.md:1: " not in printed


def test_unused_entry_of_the_allow_list_fails(phrases, tmp_path):
    write_file(tmp_path / "page.md", "Nothing here.\n")
    write_file(tmp_path / "phrases-allowed.tsv", "page.md\tThe user is blue\ta person\n")
    assert phrases.report(["page.md"]) == 1


def test_project_lists_are_well_formed():
    rows, entries = (
        [line.split("\t") for line in (SETUP / name).read_text().splitlines() if line[:1] not in ("#", "")]
        for name in ("phrases.tsv", "phrases-allowed.tsv")
    )
    assert all(len(row) == 2 and re.compile(row[0]) for row in rows)
    assert len(entries) <= 50
    assert all(len(entry) == 3 and entry[2] for entry in entries), "path, part of the line, reason"
