"""The number of source files in each directory of the project."""

from collections import Counter
from pathlib import PurePosixPath

from acapella_testing.processes import run
from acapella_testing.source_tree import ROOT

ONE_FILE_PER_PROTOCOL_FIGURE_OR_TABLE = {
    "workflow/native/src/dissect",
    "workflow/src/acapella/figures",
    "schemas/tables",
}
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".json", ".p4", ".py", ".sh", ".smk", ".sql", ".tsv", ".yaml"}
MAX_FILES = 25


def source_files() -> list[PurePosixPath]:
    """Return the source files that git tracks, or would track, and that exist."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT, check=True).stdout
    paths = {PurePosixPath(name) for name in listed.split("\0") if (ROOT / name).is_file()}
    return [path for path in paths if path.suffix in SUFFIXES]


def test_directories_have_at_most_25_source_files():
    files = Counter(str(path.parent) for path in source_files())
    large = {directory: count for directory, count in files.items() if count > MAX_FILES}
    assert large.keys() == ONE_FILE_PER_PROTOCOL_FIGURE_OR_TABLE, large
