"""Tests the digest of a stage's code: it changes if code that the stage imports changes, and otherwise does not."""

import ast
import shutil
from importlib.util import resolve_name
from pathlib import Path

import pytest

from acapella.snakefile import code

SOURCE = Path(code.__file__).parents[1]


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Copy the packages of this project so that tests can edit them."""
    for name in code.OURS:
        shutil.copytree(code.package_directory(name), tmp_path / "workflow/native/python" / name)
    root = SOURCE.parents[2]
    shutil.copytree(root / "workflow/native/src", tmp_path / "workflow/native/src")
    (tmp_path / "schemas").mkdir()
    for name in ("protocols.tsv", "report_formats.tsv", "tunnels.tsv"):
        shutil.copy(root / "schemas" / name, tmp_path / "schemas" / name)
    monkeypatch.setattr(code, "package_directory", lambda top: tmp_path / "workflow/native/python" / top)
    yield tmp_path / "workflow/native"
    forget()  # otherwise the digests of the copy would be used for the original


def forget() -> None:
    """Clear the caches of file contents and digests."""
    code.digest.cache_clear()
    code.content.cache_clear()
    code.imports.cache_clear()
    code.module_files.cache_clear()
    code.native_sources.cache_clear()


def fresh(*stages: str) -> str:
    """Return the digest as a new process would compute it."""
    forget()
    return code.digest(*stages)


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "\n# edited\n")


@pytest.mark.parametrize(
    "edited", ["acapella/digest/command.py", "acapella/digest/native.py", "acapella_core/errors.py"]
)
def test_edit_of_an_imported_module_changes_the_digest(copy, edited):
    before = fresh("acapella.digest.command", "acapella.digest.native")
    edit(copy / "python" / edited)
    assert fresh("acapella.digest.command", "acapella.digest.native") != before


def test_edit_of_the_native_core_changes_the_digest(copy):
    before = fresh("acapella.digest.command", "acapella.digest.native")
    edit(copy / "src/frame/record.hpp")
    assert fresh("acapella.digest.command", "acapella.digest.native") != before


def test_edit_of_another_stage_keeps_the_digest(copy):
    before = fresh("acapella.digest.command", "acapella.digest.native")
    edit(copy / "python/acapella/cli/doctor.py")
    edit(copy / "python/acapella/campaign/index.py")
    assert fresh("acapella.digest.command", "acapella.digest.native") == before


def test_digest_does_not_depend_on_the_directory(copy, monkeypatch):
    elsewhere = fresh("acapella.digest.command", "acapella.digest.native")
    monkeypatch.undo()
    assert fresh("acapella.digest.command", "acapella.digest.native") == elsewhere


def test_all_stages_are_found():
    for stage in ("digest.command", "campaign.index", "cli.doctor", "snakefile.config"):
        files, _, _ = code.closure(f"acapella.{stage}")
        assert SOURCE / f"{stage.replace('.', '/')}.py" in files


def names_in_tree(path: Path, package: str) -> set[str]:
    """Return the names that the import statements in a module's syntax tree import."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


def test_imports_match_the_syntax_tree_of_every_module():
    count = 0
    for top in code.OURS:
        directory = code.package_directory(top)
        for path in directory.rglob("*.py"):
            package = ".".join([top, *path.parent.relative_to(directory).parts])
            assert set(code.imported_names(path.read_text(), package)) == names_in_tree(path, package), path
            count += 1
    assert count > 200


def test_imports_are_found_in_all_kinds_of_blocks(tmp_path):
    text = (
        "import a\nif x:\n import b\nelse:\n import c, m as n\ntry:\n import d # (\nexcept E:\n import e\nfinally:\n"
        " import f\ndef g():\n with x:\n  from h import i\nclass J:\n match x:\n  case 1:\n   from . import k\n"
        "from .. import (\n  o,  # )\n  p as q,\n)\nfrom .r.s import t\nfrom u import (v)\n"
    )
    found = set(code.imported_names(text, "top.package"))
    (tmp_path / "module.py").write_text(text)
    assert found == names_in_tree(tmp_path / "module.py", "top.package")
    assert {*"abcdefhm", "h.i", "top.package.k", "top", "top.p", "top.package.r.s.t", "u.v"} <= found


def test_text_that_looks_like_an_import_adds_no_module():
    text = '"""Text.\n\nimport is a word\nfrom here import\nimport\n"""\nimportant = 1\nimport_me = 2\n'
    assert not any(code.module_files(name) for name in code.imported_names(text, "acapella"))
