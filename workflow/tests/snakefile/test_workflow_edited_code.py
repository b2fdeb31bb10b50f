"""Which stages Snakemake repeats after edits of the code, in a copy of the workflow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.runs.workflow_run import ROOT, Workplace, rules_run

COPIED = ("Snakefile", "rules", "config", "schemas", "profiles", "workflow/src", "workflow/sql", "workflow/report")
LINKED = ("p4", "capture", "workflow/conformance", "workflow/native")
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
    return directory


@pytest.fixture(scope="module")
def complete(finished, tmp_path_factory) -> Workplace:
    """Return a copy of the finished campaign, in which only dry runs start."""
    return finished.copy(tmp_path_factory.mktemp("complete"))


def planned(place: Workplace, tree: Path) -> str:
    """Return the plan of a dry run with the workflow in ``tree``; paths of its files do not count."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(tree / "Snakefile"), "--dry-run"]
    triggers = ["--rerun-triggers", "code", "mtime", "params", "software-env"]
    environment = os.environ | {"PYTHONPATH": str(tree / "workflow/src")}
    ended = subprocess.run(
        [*command, *triggers, "--directory", str(place.directory)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"src/acapella/figures/flow_sizes.py": "\nEDITED = 1\n"}, AFTER_TABLES),
        ({"sql/process/flow_sizes.sql": "\nlimit 1\n"}, {"process", *AFTER_TABLES}),
        ({"sql/analyze/stacks.sql": "\nlimit 1\n"}, {"analyze", "process", *AFTER_TABLES}),
        ({"src/acapella/digest/hybrid.py": "\nEDITED = 1\n"}, {"digest", *AFTER_DIGESTS}),
        (
            {
                "src/acapella/figures/flow_sizes.py": "\n# A comment.\n",
                "src/acapella/campaign/process.py": '\n"""A text."""\n',
                "src/acapella/digest/hybrid.py": "\n# A comment.\n",
                "sql/analyze/stacks.sql": "\n-- A comment.\n",
                "sql/index/samples.sql": "\n/* A comment. */\n",
                "sql/process/flow_sizes.sql": "\n\n",
            },
            set(),
        ),
    ],
    ids=["figure", "query of tables", "query of an analysis", "dissector", "comments"],
)
def test_edited_code_repeats_only_stages_that_it_changes(complete, tree, edits, expected):
    originals = {tree / "workflow" / name: (tree / "workflow" / name).read_text() for name in edits}
    try:
        for path, text in originals.items():
            path.write_text(text + edits[str(path.relative_to(tree / "workflow"))])
        assert rules_run(planned(complete, tree)) == expected
    finally:
        for path, text in originals.items():
            path.write_text(text)


def test_other_version_of_the_program_repeats_the_digest(complete, tree):
    """The metadata of acaps contain the version."""
    metadata = tree / "workflow/src/acapella-99.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: acapella\nVersion: 99.0\n")
    try:
        assert rules_run(planned(complete, tree)) == {"digest", *AFTER_DIGESTS}
    finally:
        shutil.rmtree(metadata.parent)
