"""Which stages Snakemake repeats after edits of the code, in a copy of the workflow."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.runs.workflow_run import ROOT, Workplace, rules_run

from acapella_core import _native

COPIED = ("Snakefile", "rules", "config", "schemas", "profiles", "workflow/src", "workflow/sql", "workflow/report")
COPIED += ("workflow/native/src", "workflow/native/python")
LINKED = ("p4", "capture", "workflow/conformance")
# The installed acapella_core is found by an import hook, before PYTHONPATH. Python runs this module at its start.
SITE = """import sys
sys.meta_path[:] = [hook for hook in sys.meta_path if type(hook).__name__ != "ScikitBuildRedirectingFinder"]
"""
AFTER_TABLES = {"figures", "report"}
AFTER_DIGESTS = {"analyze", "index", "process", *AFTER_TABLES}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """Return a directory with the files of the workflow, which tests may edit."""
    directory = tmp_path_factory.mktemp("tree")
    (directory / "workflow").mkdir()
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, directory / name)
    for name in LINKED:
        (directory / name).symlink_to(ROOT / name)
    core = directory / "workflow/native/python"
    (core / "sitecustomize.py").write_text(SITE)
    (core / "acapella_core" / Path(_native.__file__).name).symlink_to(_native.__file__)
    return directory


@pytest.fixture(scope="module")
def complete(finished, tmp_path_factory) -> Workplace:
    """Return a copy of the finished campaign, in which only dry runs start."""
    return finished.copy(tmp_path_factory.mktemp("complete"))


def run(place: Workplace, tree: Path, *arguments: str) -> str:
    """Run Snakemake with the workflow in ``tree``, and return its output. Paths of its files do not count."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(tree / "Snakefile"), *arguments]
    triggers = ["--rerun-triggers", "code", "mtime", "params", "software-env"]
    paths = os.pathsep.join(str(tree / name) for name in ("workflow/src", "workflow/native/python"))
    ended = subprocess.run(
        [*command, *triggers, "--directory", str(place.directory)],
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@contextlib.contextmanager
def edited(tree: Path, edits: dict[str, str]) -> Iterator[None]:
    """Append texts to files of the tree; restore the files at the end."""
    originals = {tree / "workflow" / name: (tree / "workflow" / name).read_text() for name in edits}
    try:
        for name, text in edits.items():
            with (tree / "workflow" / name).open("a") as file:
                file.write(text)
        yield
    finally:
        for path, text in originals.items():
            path.write_text(text)


FIGURE = {"src/acapella/figures/flow_sizes.py": "\nEDITED = 1\n"}
ANALYSIS = {"sql/analyze/stacks.sql": "\nlimit 1\n"}
DISSECTOR = {"native/src/dissect/ethertypes.cpp": "\nint edited();\n"}
COMMENTS = {
    "src/acapella/figures/flow_sizes.py": "\n# A comment.\n",
    "src/acapella/campaign/process.py": '\n"""A text."""\n',
    "src/acapella/digest/hybrid.py": "\n# A comment.\n",
    "native/src/dissect/ethertypes.cpp": "\n// A comment.\n",
    "sql/analyze/stacks.sql": "\n-- A comment.\n",
    "sql/index/samples.sql": "\n/* A comment. */\n",
    "sql/process/flow_sizes.sql": "\n\n",
}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (FIGURE, AFTER_TABLES),
        ({"sql/process/flow_sizes.sql": "\nlimit 1\n"}, {"process", *AFTER_TABLES}),
        (ANALYSIS, {"analyze", "process", *AFTER_TABLES}),
        ({"src/acapella/digest/hybrid.py": "\nEDITED = 1\n"}, {"digest", *AFTER_DIGESTS}),
        (DISSECTOR, {"collect", "samples", "digest", *AFTER_DIGESTS}),  # a collection uses the core, too
        (COMMENTS, set()),
    ],
    ids=["figure", "query of tables", "query of an analysis", "engine", "dissector", "comments"],
)
def test_edited_code_repeats_only_stages_that_it_changes(complete, tree, edits, expected):
    with edited(tree, edits):
        assert rules_run(run(complete, tree, "--dry-run")) == expected


def test_other_version_of_the_program_repeats_the_digest(complete, tree):
    """The metadata of acaps contain the version."""
    metadata = tree / "workflow/src/acapella-99.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: acapella\nVersion: 99.0\n")
    try:
        assert rules_run(run(complete, tree, "--dry-run")) == {"digest", *AFTER_DIGESTS}
    finally:
        shutil.rmtree(metadata.parent)
