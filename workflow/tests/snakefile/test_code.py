"""Tests the digest of a stage's code: it changes if code that the stage imports changes, and otherwise does not."""

import ast
import re
import shutil
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.source_tree import ROOT

from acapella.common import queries
from acapella.figures import registry
from acapella.snakefile import code
from acapella.snakefile.canonical import PARSING, canonical, checksums
from acapella_core.files import sha256_of

SOURCE = Path(code.__file__).parents[1]


ADDED = {".py": "\nEDITED = 1\n", ".hpp": "\ninline int edited = 1;\n"}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Copy the packages of this project so that tests can edit them; return the copy of workflow/native."""
    python = tmp_path / "workflow/native/python"
    for name in code.ACAPELLA_PACKAGES:
        shutil.copytree(code.package_directory(name), python / name)
    shutil.copytree(ROOT / "workflow/native/src", tmp_path / "workflow/native/src")
    for name in ("protocols.tsv", "report_formats.tsv", "tunnels.tsv"):
        write_file(tmp_path / "schemas" / name, (ROOT / "schemas" / name).read_bytes())
    monkeypatch.setattr(code, "package_directory", lambda top: python / top)
    yield tmp_path / "workflow/native"
    forget()  # otherwise the digests of the copy would be used for the original


def forget() -> None:
    """Clear the caches of file contents and digests."""
    files = (code.checksum, code.checksums_file, code.content, code.native_sources, code.outdated_core)
    modules = (code.directory_entries, code.imports, code.module, code.module_files)
    for cached in (code.digest, checksums, *files, *modules):
        cached.cache_clear()


def recomputed_digest() -> str:
    """Return the digest of the code of stage digest as a new process would compute it."""
    forget()
    return code.digest("acapella.digest.command", "acapella.digest.native")


def append(path: Path, text: str | None = None) -> None:
    """Append code, or a text, to a file."""
    path.write_text(path.read_text() + (text or ADDED[path.suffix]))


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("python/acapella/digest/command.py", True),
        ("python/acapella/digest/native.py", True),
        ("python/acapella_core/errors.py", True),
        ("src/frame/record.hpp", True),
        ("python/acapella/cli/doctor.py", False),
        ("python/acapella/campaign/index.py", False),
    ],
)
def test_only_edits_of_the_native_core_and_imported_modules_change_the_digest(copy, edited, changes):
    before = recomputed_digest()
    append(copy / edited)
    assert (recomputed_digest() != before) == changes


def built_from(native: Path) -> str:
    """Return the checksum that a core built in the directory ``native`` contains."""
    output, tables = native / "sources_sha256.inc", sorted((native.parents[1] / "schemas").glob("*.tsv"))
    generator = SOURCE.parents[1] / "native/generate_checksum.py"
    subprocess.run([sys.executable, generator, native / "src", *tables, output], check=True)
    return output.read_text().strip().strip('"')


def test_installed_core_was_built_from_the_sources_in_the_tree():
    assert code.outdated_core() == "", "run: make setup"


def test_core_that_was_not_rebuilt_has_a_different_digest(copy, monkeypatch):
    """Otherwise files that an outdated core wrote would count as those of the current sources."""
    append(copy / "src/frame/record.hpp")
    outdated = recomputed_digest()
    monkeypatch.setattr(code._native, "sources_sha256", built_from(copy))
    assert recomputed_digest() != outdated
    assert code.outdated_core() == ""


def test_comments_and_messages_of_the_core_need_no_build_or_rerun(copy, monkeypatch):
    monkeypatch.setattr(code._native, "sources_sha256", built_from(copy))
    before, edited = recomputed_digest(), copy / "src/flow/sha1.cpp"
    edited.write_text("// A comment.\n" + re.sub(r'(throw .*?")', r"\1edited ", edited.read_text(), count=1))
    assert edited.read_text().count("edited ") == 1
    assert recomputed_digest() == before
    assert code.outdated_core() == ""


PYTHON_CODE = '''"""A module."""

import sys  # for one function


def check(value: int) -> int:
    """Return the value."""
    if value < 0:
        raise ValueError(f"{value}: negative")
    print("checked", file=sys.stderr)
    names.report(f"note: {value}")
    print("result", file=output)
    parser.add_argument("--value", help="a value", default="zero")
    return refuse(value) or LABELS["positive"]
'''
CPP_CODE = """// A file.
#include <x>
/* comment */ int f(int a) {
  const char* name = "// not a comment";  // a comment
  if (a > 1'000) throw InputError("too; large: " + std::to_string(a));
  return a;
}
"""
SQL_CODE = "-- One row per value.\nselect /* all */ 'a -- b' as label, $$c -- d$$, $x$e -- f$x$\nfrom t -- t\n"


@pytest.mark.parametrize(
    ("name", "source", "old", "new", "changes"),
    [
        ("m.py", PYTHON_CODE, "for one function", "for it", False),
        ("m.py", PYTHON_CODE, "A module.", "Another module.", False),
        ("m.py", PYTHON_CODE, '    """Return the value."""\n', "", False),
        ("m.py", PYTHON_CODE, "negative", "less than 0", False),
        ("m.py", PYTHON_CODE, '"checked"', '"checked it"', False),
        ("m.py", PYTHON_CODE, "note: ", "remark: ", False),
        ("m.py", PYTHON_CODE, '"a value"', '"some value"', False),
        ("m.py", PYTHON_CODE, "\n\n\n", "\n\n", False),
        ("m.py", PYTHON_CODE, '"zero"', '"one"', True),
        ("m.py", PYTHON_CODE, '"positive"', '"other"', True),
        ("m.py", PYTHON_CODE, "value < 0", "value < 1", True),
        ("m.py", PYTHON_CODE, '"result"', '"outcome"', True),
        ("m.py", PYTHON_CODE, "ValueError", "KeyError", True),
        ("m.cpp", CPP_CODE, "A file.", "Another file.", False),
        ("m.cpp", CPP_CODE, "  // a comment", "", False),
        ("m.cpp", CPP_CODE, "/* comment */ ", "", False),
        ("m.cpp", CPP_CODE, "too; large: ", "above 1000; it is ", False),
        ("m.cpp", CPP_CODE, "// not a comment", "// another text", True),
        ("m.cpp", CPP_CODE, "1'000", "2'000", True),
        ("m.cpp", CPP_CODE, "return a;", "return -a;", True),
        ("m.cpp", CPP_CODE, "to_string(a)", "to_string(-a)", True),
        ("m.sql", SQL_CODE, "One row", "A row", False),
        ("m.sql", SQL_CODE, "/* all */ ", "", False),
        ("m.sql", SQL_CODE, " -- t", "", False),
        ("m.sql", SQL_CODE, "a -- b", "a -- c", True),
        ("m.sql", SQL_CODE, "c -- d", "c -- e", True),
        ("m.sql", SQL_CODE, "e -- f", "e -- g", True),
        ("m.sql", SQL_CODE, "from t", "from u", True),
        ("m.json", "1", "1", "1 ", True),
    ],
)
def test_only_code_counts_not_comments_and_messages(name, source, old, new, changes):
    assert old in source
    edited = source.replace(old, new)
    assert (canonical(Path(name), edited.encode()) != canonical(Path(name), source.encode())) == changes


def docstrings_read(path: Path) -> list[int]:
    """Return the lines of a module that read a docstring, except for the help of a command."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    parsers = [call for call in calls if name_of(call.func) in (*PARSING, "ArgumentParser")]
    texts = [keyword.value for call in parsers for keyword in call.keywords if keyword.arg == "description"]
    help_texts = {id(inner) for text in texts for inner in ast.walk(text)}
    read = [node for node in nodes if name_of(node) in ("__doc__", "getdoc", "get_docstring")]
    return [node.lineno for node in read if id(node) not in help_texts]


def name_of(node: ast.AST) -> str:
    """Return the name or attribute that a node of a syntax tree reads."""
    return getattr(node, "attr", getattr(node, "id", ""))


def test_results_do_not_depend_on_docstrings():
    """Edited docstrings do not change the digest of a stage's code."""
    paths = [path for top in code.ACAPELLA_PACKAGES for path in code.package_directory(top).rglob("*.py")]
    assert {path: lines for path in paths if (lines := docstrings_read(path))} == {}


def test_text_of_a_figure_in_the_report_counts_as_code():
    for name in registry.all_figures():
        path, about = SOURCE / "figures" / f"{name}.py", registry.figure_module(name).ABOUT
        edited = path.read_text().replace(about[:20], "Another text " + about[:20])
        assert about.endswith("."), name
        assert canonical(path, edited.encode()) != canonical(path, path.read_bytes()), name


@pytest.mark.soak
@pytest.mark.parametrize(
    ("edited", "expected"),
    [("flow_sizes", ["flow_sizes"]), ("reordering_spacing", ["reordering_spacing"]), ("theme", None)],
)
def test_edited_module_changes_only_the_digests_of_figures_that_use_it(copy, edited, expected):
    forget()
    before = {name: code.figure_digest(name) for name in registry.all_figures()}
    append(copy / "python" / "acapella" / "figures" / f"{edited}.py")
    forget()
    assert [name for name, digest in before.items() if code.figure_digest(name) != digest] == (expected or [*before])


@pytest.mark.parametrize(
    ("edited", "text", "expected"),
    [
        ("analyze/stacks", "\nlimit 1\n", {"stacks"}),
        ("analyze/stacks", "\n-- A comment.\n", set()),
        ("congestion/runs", "\nlimit 1\n", {"congestion"}),
        ("shared/thresholds", "\nlimit 1\n", {"flow_values"}),
        ("shared/innermost", "\nlimit 1\n", {"headers", "ip_versions", "stacks"}),
    ],
)
def test_edited_query_changes_only_the_digests_of_partial_tables_computed_from_it(
    tmp_path, monkeypatch, edited, text, expected
):
    monkeypatch.setattr(queries, "DIRECTORY", shutil.copytree(queries.DIRECTORY, tmp_path / "sql"))
    before = {*code.table_digests.__wrapped__()}
    append(tmp_path / "sql" / f"{edited}.sql", text)
    forget()
    assert {text.partition("=")[0] for text in {*code.table_digests.__wrapped__()} - before} == expected
    assert {text.partition("=")[0] for text in before} == {*queries.names("analyze")}


@pytest.mark.parametrize(
    ("stage", "table", "change", "changes"),
    [
        ("campaign.analyze", "congestion", {"type": "int64"}, True),
        ("campaign.analyze", "congestion", {"null": "sometimes"}, True),
        ("campaign.analyze", "congestion", {"about": "another text", "unit": "ms"}, False),
        ("campaign.analyze", "flow_sizes", {"type": "int64"}, False),
        ("digest.command", "frames", {"type": "int64"}, True),
        ("digest.command", "flows", {"name": "renamed"}, True),
        ("digest.command", "congestion", {"type": "int64"}, False),
    ],
)
def test_columns_of_named_tables_change_the_digests_of_stages(stage, table, change, changes, monkeypatch):
    """Types of unknown congestion verdicts and of columns of acaps and flow tables come from their schemas."""
    before, original = code.digest.__wrapped__(f"acapella.{stage}"), code.schemas.table
    schema = original(table)
    edited = schema | {"columns": [schema["columns"][0] | change, *schema["columns"][1:]]}
    monkeypatch.setattr(code.schemas, "table", lambda name: edited if name == table else original(name))
    assert (code.digest.__wrapped__(f"acapella.{stage}") != before) == changes


def test_heuristics_change_stage_analyze_by_their_content():
    rule = (ROOT / "rules" / "analyze.smk").read_text()
    assert "heuristics.tsv" not in rule and rule.count("heuristics=digest_of_heuristics()") == 2
    assert "--code={params.code}.{params.heuristics} " in rule
    assert code.heuristics_digest() == sha256_of(ROOT / "schemas" / "heuristics.tsv")


def test_checksums_of_sources_are_kept_and_a_damaged_file_is_ignored(copy):
    before = recomputed_digest()
    kept = copy / "python" / "acapella" / "__pycache__" / "checksums.json"
    assert kept.is_file() and recomputed_digest() == before
    kept.write_text("{")
    assert recomputed_digest() == before


def test_digest_does_not_depend_on_the_directory(copy, monkeypatch):
    elsewhere = recomputed_digest()
    monkeypatch.undo()
    assert recomputed_digest() == elsewhere


@pytest.mark.parametrize("stage", ["digest.command", "campaign.index", "cli.doctor", "snakefile.config"])
def test_closure_of_a_stage_contains_its_module(stage):
    files, _, _ = code.closure(f"acapella.{stage}")
    assert str(SOURCE / f"{stage.replace('.', '/')}.py") in {file.path for file in files}


def names_in_tree(path: Path, package: str) -> set[str]:
    """Return the names that the import statements in a module's syntax tree import."""
    found, nodes = set(), [*ast.walk(ast.parse(path.read_text()))]
    for node in (node for node in nodes if isinstance(node, ast.ImportFrom)):
        base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
        found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def test_imports_match_the_syntax_tree_of_every_module():
    modules = [(top, path) for top in code.ACAPELLA_PACKAGES for path in code.package_directory(top).rglob("*.py")]
    assert len(modules) > 200
    for top, path in modules:
        package = ".".join([top, *path.parent.relative_to(code.package_directory(top)).parts])
        assert set(code.imported_names(path.read_text(), package)) == names_in_tree(path, package), path


def test_imports_are_found_in_all_kinds_of_blocks(tmp_path):
    text = (
        "import a\nif x:\n import b\nelse:\n import c, m as n\ntry:\n import d # (\nexcept E:\n import e\nfinally:\n"
        " import f\ndef g():\n with x:\n  from h import i\nclass J:\n match x:\n  case 1:\n   from . import k\n"
        "from .. import (\n  o,  # )\n  p as q,\n)\nfrom .r.s import t\nfrom u import (v)\n"
    )
    found = set(code.imported_names(text, "top.package"))
    assert found == names_in_tree(write_file(tmp_path / "module.py", text), "top.package")
    assert {*"abcdefhm", "h.i", "top.package.k", "top", "top.p", "top.package.r.s.t", "u.v"} <= found


def test_text_that_looks_like_an_import_adds_no_module():
    text = '"""Text.\n\nimport is a word\nfrom here import\nimport\n"""\nimportant = 1\nimport_me = 2\n'
    assert not any(code.module_files(name) for name in code.imported_names(text, "acapella"))
