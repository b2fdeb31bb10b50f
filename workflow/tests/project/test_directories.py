"""The number of source files in each directory of the project."""

from collections import Counter
from pathlib import PurePosixPath

from acapella_testing.processes import run
from acapella_testing.source_tree import ROOT

ONE_FILE_EACH = {"workflow/native/src/dissect", "workflow/src/acapella/figures", "schemas/tables"}
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".json", ".p4", ".py", ".sh", ".smk", ".sql", ".tsv", ".yaml"}


def test_directories_have_at_most_25_source_files():
    """Counts files that git tracks, or would track. Some directories have a file for each protocol, figure or table."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT, check=True).stdout
    paths = {PurePosixPath(name) for name in listed.split("\0") if (ROOT / name).is_file()}
    files = Counter(str(path.parent) for path in paths if path.suffix in SUFFIXES)
    assert {directory for directory, count in files.items() if count > 25} == ONE_FILE_EACH, files
