"""Tests which stages Snakemake reruns after code edits, in a copy of the workflow."""

import contextlib
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing import processes
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.runs.warm_python import WarmPython
from acapella_testing.runs.workflow_run import ROOT, Workplace, rules_run
from acapella_testing.soak import takes_minutes

from acapella_core import _native

COPIED = ("Snakefile", "rules", "config", "schemas", "profiles", "workflow/src", "workflow/sql", "workflow/report")
COPIED += ("workflow/native/src", "workflow/native/python")
LINKED = ("p4", "capture", "workflow/conformance")
# Removes the import hook that finds the installed acapella_core before PYTHONPATH. Python runs this module at start.
SITE = """import sys
sys.meta_path[:] = [hook for hook in sys.meta_path if type(hook).__name__ != "ScikitBuildRedirectingFinder"]
"""
# Runs in a fork of an interpreter that has imported Snakemake, but no module of the tree.
FORKED = f"""import os
from snakemake.cli import main
{SITE}
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
main(sys.argv[1:])
"""
SAMPLES = 1000
BATCH = 50
AFTER_TABLES = {"figures", "report"}
AFTER_DIGESTS = {"analyze", "index", "process", *AFTER_TABLES}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Iterator[Path]:
    """Return a directory with the files of the workflow, which tests may edit, and a `python3` that forks."""
    directory = tmp_path_factory.mktemp("tree")
    new_directory(directory / "workflow")
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, directory / name)
    for name in LINKED:
        (directory / name).symlink_to(ROOT / name)
    core = directory / "workflow/native/python"
    write_file(core / "sitecustomize.py", SITE)
    (core / "acapella_core" / Path(_native.__file__).name).symlink_to(_native.__file__)
    warm = WarmPython(directory, "snakemake.cli", "snakemake.executors.dryrun", "snakemake.report")
    yield directory
    warm.close()


@pytest.fixture(scope="module")
def complete(finished, tmp_path_factory) -> Workplace:
    """Return a copy of the finished campaign, used only for dry runs."""
    return finished.copy(tmp_path_factory.mktemp("complete"))


def run(place: Workplace, tree: Path, *arguments: str) -> str:
    """Run Snakemake with the workflow in ``tree``, and return its output. File paths do not trigger reruns."""
    command = [tree / "python3", "-IS", "-c", FORKED, "--snakefile", tree / "Snakefile", *arguments]
    triggers = ["--rerun-triggers", "code", "mtime", "params", "software-env"]
    paths = os.pathsep.join(str(tree / name) for name in ("workflow/src", "workflow/native/python"))
    environment = os.environ | {"PYTHONPATH": paths, "WARM_PYTHON": str(tree), "REAL_PYTHON": sys.executable}
    ended = processes.run(*command, *triggers, "--directory", place.directory, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@contextlib.contextmanager
def edited(tree: Path, *edits: dict[str, str | tuple[str, str]]) -> Iterator[None]:
    """Append text to files of the tree, or replace text (given as a pair); restore the files at the end."""
    originals = {tree / "workflow" / name: (tree / "workflow" / name).read_text() for each in edits for name in each}
    try:
        for name, change in (item for changes in edits for item in changes.items()):
            path = tree / "workflow" / name
            before = path.read_text()
            path.write_text(before + change if isinstance(change, str) else before.replace(*change))
            assert path.read_text() != before, (name, change)
        yield
    finally:
        for path, text in originals.items():
            path.write_text(text)


FIGURE = {"src/acapella/figures/flow_sizes.py": "\nEDITED = 1\n"}
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
MESSAGES = {
    "src/acapella/campaign/process.py": ("cannot be merged", "cannot be combined"),
    "src/acapella/digest/command.py": ("print frames and rate", "print rate and frames"),
    "native/src/input/pcap_reader.cpp": ("reserved bits of the pcap link type are set", "reserved bits are set"),
    "sql/index/samples.sql": ("-- One row per", "-- A row per"),
}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([FIGURE], AFTER_TABLES),
        ([{"sql/process/flow_sizes.sql": "\nlimit 1\n"}], {"process", *AFTER_TABLES}),
        ([{"sql/analyze/stacks.sql": "\nlimit 1\n"}], {"analyze", "process", *AFTER_TABLES}),
        # Restored later with another modification time.
        ([{"../schemas/heuristics.tsv": "edited\ttcp\t-\n"}], {"analyze", "process", *AFTER_TABLES}),
        ([{"src/acapella/digest/hybrid.py": "\nEDITED = 1\n"}], {"digest", *AFTER_DIGESTS}),
        ([DISSECTOR], {"collect", "samples", "digest", *AFTER_DIGESTS}),  # a collection uses the core, too
        ([COMMENTS, MESSAGES], set()),
    ],
    ids=[
        "figure",
        "query of tables",
        "query of an analysis",
        "heuristics",
        "engine",
        "dissector",
        "comments and messages",
    ],
)
def test_code_edit_reruns_only_affected_stages(complete, tree, edits, expected):
    with edited(tree, *edits):
        assert rules_run(run(complete, tree, "--dry-run")) == expected


def test_different_program_version_reruns_the_digest(complete, tree, request):
    """The metadata of acaps contain the version."""
    text = "Metadata-Version: 2.1\nName: acapella\nVersion: 99.0\n"
    metadata = write_file(tree / "workflow/src/acapella-99.0.dist-info/METADATA", text)
    request.addfinalizer(lambda: shutil.rmtree(metadata.parent))
    assert rules_run(run(complete, tree, "--dry-run")) == {"digest", *AFTER_DIGESTS}


def executed(printed: str) -> Counter:
    """Return the number of jobs of each rule that a run has finished."""
    return Counter(rule for rule in re.findall(r"^Finished jobid: \d+ \(Rule: (\w+)\)", printed, re.M) if rule != "all")


def times(place: Workplace, pattern: str) -> dict[Path, int]:
    """Return the modification times of files of the campaign."""
    return {path: path.stat().st_mtime_ns for path in place.campaign.glob(pattern)}


BATCHES = SAMPLES // BATCH
STAGES = dict.fromkeys(("collect", "digest", "analyze"), BATCHES)
DRAWN = {"figures": 1, "report": 1}
TABLES = {"process": 1, **DRAWN}
ONCE = {"samples": 1, "index": 1, **TABLES}


@takes_minutes
def test_each_change_of_a_large_campaign_runs_only_dependent_jobs(tree, tmp_path):
    """The core is not built again, so that all runs write the same digests."""
    place, names = Workplace(tmp_path), [f"s{sample:04}" for sample in range(SAMPLES + 1)]
    place.configure(batches={"samples": BATCH}, digest={"engine": "native"})
    place.add_samples(names[:-1])

    def jobs() -> Counter:
        return executed(run(place, tree, "--cores", "2"))

    assert jobs() == STAGES | ONCE
    with edited(tree, COMMENTS, MESSAGES):
        assert jobs() == {}
    with edited(tree, FIGURE):
        assert jobs() == DRAWN
        log = (place.campaign / "logs" / "figures.log").read_text()
        assert re.findall(r"^figures: \S+/(\w+) \(svg\)", log, re.M) == ["flow_sizes"]
    assert jobs() == DRAWN
    assert jobs() == {}
    digests, partials = place.sha256("acap/*", "flows/*"), times(place, "batches/partial/*/*")
    with edited(tree, {"sql/analyze/stacks.sql": "\norder by all\n"}):
        assert jobs() == TABLES | {"analyze": BATCHES}
        made = [path.stem for path, _ in times(place, "batches/partial/*/*").items() - partials.items()]
        assert made == ["stacks"] * BATCHES
    with edited(tree, DISSECTOR):
        assert jobs() == STAGES | ONCE
        before = times(place, "acap/*/*")
        assert len(before) == SAMPLES
        place.add_samples(names)
        assert jobs() == ONCE | {"collect": 1, "digest": 1, "analyze": 1}
        assert before.items() <= times(place, "acap/*/*").items()
    now = place.sha256("acap/*", "flows/*")
    assert len(now) == 2 * (SAMPLES + 1)
    assert digests.items() <= now.items()
