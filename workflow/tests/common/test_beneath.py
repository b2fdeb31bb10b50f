"""Checks that no file is written through a symbolic link inside a campaign's directory."""

import contextlib
import errno
import hashlib
import os
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.runs.workflow_run import workplace

from acapella.cli import main as cli
from acapella.common.links import links, refusal
from acapella_capture.control import coordinator, outcomes
from acapella_capture.testbeds import files as captures
from acapella_capture.testbeds.fabric.transfer import Transfer
from acapella_core import _native, beneath, files
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, atomic_text


@pytest.fixture
def outside(tmp_path):
    """Return a directory of the user that contains a file. Checks after the test that it is unchanged."""
    profile = write_file(tmp_path / "home" / "profile", "mine")
    yield profile.parent
    assert list(profile.parent.iterdir()) == [profile]
    assert profile.read_text() == "mine"


@pytest.fixture(params=["openat2", "stepwise"])
def way(request, monkeypatch, tmp_path):
    """Run the test with both ways to open directories: openat2, if the kernel supports it, and step by step."""
    if request.param == "stepwise":
        monkeypatch.setattr(_native, "open_beneath", Mock(side_effect=OSError(errno.ENOSYS, "not supported")))
    elif error := error_of_openat2(tmp_path, b"."):
        pytest.skip(f"openat2: {os.strerror(error)}")


def error_of_openat2(directory: Path, path: bytes) -> int:
    """Return the error number of opening a path beneath a directory with openat2(2); 0 if it succeeds."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(_native.open_beneath(descriptor, path))
    except OSError as error:
        return error.errno
    finally:
        os.close(descriptor)
    return 0


@pytest.fixture
def results(tmp_path, way):
    """Return a protected directory. Tests that use it run with both ways to open directories."""
    new_directory(tmp_path / "results" / "tables")
    beneath.protect(tmp_path / "results")
    return tmp_path / "results"


def write_path(target):
    with atomic_path(target) as temporary:
        temporary.write_text("text")


WRITERS = {"text": partial(atomic_text, text="text"), "path": write_path, "directory": beneath.make_directory}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("place", ["tables", "tables/inner", "new"])
def test_directory_link_is_not_followed(writer, place, results, outside):
    shutil.rmtree(results / place, ignore_errors=True)
    (results / place).symlink_to(outside)
    with pytest.raises(UserError, match="is a symbolic link") as error:
        WRITERS[writer](results / place / "deep" / "profile")
    assert str(error.value).startswith(f"{results / place}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("target", ["profile", "missing"])
def test_file_link_is_not_followed(writer, target, results, outside):
    (results / "tables" / "throughput.csv").symlink_to(outside / target)
    with pytest.raises(UserError, match=r"tables/throughput\.csv: is a symbolic link"):
        WRITERS[writer](results / "tables" / "throughput.csv")


def test_openat2_rejects_links_and_paths_outside_the_directory(results, outside, monkeypatch):
    """Checks openat2(2) itself, without the step-by-step implementation."""
    monkeypatch.undo()
    (results / "tables" / "link").symlink_to(results)
    expected = {b"tables": 0, b"tables/link": errno.ELOOP, b"none": errno.ENOENT}
    expected |= dict.fromkeys((b"..", b"tables/../..", os.fsencode(outside)), errno.EXDEV)
    assert {path: error_of_openat2(results, path) for path in expected} == expected


def replaced_by_link(directory: Path, outside: Path) -> Path:
    """Replace a directory with a link; return the new path of the directory."""
    moved = directory.with_name(f"{directory.name}.moved")
    directory.rename(moved)
    directory.symlink_to(outside)
    return moved


def test_file_is_written_to_the_opened_directory_if_its_name_is_replaced(results, outside):
    (results / "tables" / "inner").mkdir()
    with atomic_path(results / "tables" / "inner" / "profile") as temporary:
        moved = replaced_by_link(results / "tables" / "inner", outside)
        temporary.write_text("text")
    assert [(path.name, path.read_text()) for path in moved.iterdir()] == [("profile", "text")]


STEPS = [(beneath, name) for name in ("located", "refuse_link", "open_below", "open_inner")]
STEPS += [(files, name) for name in ("remove_abandoned", "locked_temporary", "finish")]


def test_directory_replaced_between_any_two_steps_is_not_followed(results, outside, monkeypatch):
    """The directory is replaced after the first step, after the second, and so on. The file is either written to the
    directory, which has moved, or there is an error.
    """
    inner, written, steps = results / "tables" / "inner", [], []

    def counted(step):
        def after(*words, **more):
            found = step(*words, **more)
            steps.append(step)
            if len(steps) == len(written):
                written[-1] = replaced_by_link(inner, outside) / "profile"
            return found

        return after

    for module, name in STEPS:
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    while not written or written[-1] is not None:
        shutil.rmtree(results / "tables")
        inner.mkdir(parents=True)
        written.append(None)
        steps.clear()
        with contextlib.suppress(UserError):
            atomic_text(inner / "profile", "text")
    assert (inner / "profile").read_text() == "text"  # in the last round, the directory was not replaced
    assert len(written) > 3


def test_path_that_leaves_the_directory_is_outside(results, outside):
    atomic_text(results / "tables" / ".." / "tables" / "a.txt", "text")
    assert (results / "tables" / "a.txt").read_text() == "text"
    assert beneath.root_of(results / ".." / "home" / "profile") is None
    assert beneath.root_of(f"{results}-other/file") is None


def test_campaign_directory_can_be_a_link(results, tmp_path, monkeypatch):
    (tmp_path / "demo").symlink_to(results)
    monkeypatch.chdir(tmp_path)
    beneath.protect("demo")
    atomic_text("demo/new/a.txt", "text")
    assert (results / "new" / "a.txt").read_text() == "text"
    assert sorted(path.name for path in (results / "new").iterdir()) == ["a.txt"]
    monkeypatch.chdir(results)
    atomic_text("b.txt", "text")


def test_jobs_read_the_directory_from_the_environment(tmp_path, outside, monkeypatch):
    acap = new_directory(tmp_path / "campaign") / "acap"
    acap.symlink_to(outside)
    monkeypatch.setenv(beneath.VARIABLE, str(acap.parent))
    with pytest.raises(UserError, match="is a symbolic link"):
        atomic_text(acap / "profile", "text")


def test_captures_are_linked_except_into_a_linked_directory(results, outside):
    for _ in range(2):
        captures.link(outside / "profile", results / "raw" / "a.pcap")
        assert (results / "raw" / "a.pcap").read_text() == "mine"
    replaced_by_link(results / "raw", outside)
    with pytest.raises(UserError, match="is a symbolic link"):
        captures.link(outside / "profile", results / "raw" / "b.pcap")


def test_fetched_capture_does_not_follow_links(results, outside):
    raw, content, sha256 = new_directory(results / "raw"), b"captured", hashlib.sha256(b"captured").hexdigest()
    parts = {"checksums": [sha256], "size": len(content), "sha256": sha256}
    replies = {"checksums": parts, "extract_part": {"path": "part"}, "remove": {}}
    node = SimpleNamespace(call=lambda _node, command, **_: replies[command])
    transfer = Transfer(node, lambda _node, _path, length: content[:length], 100)
    transfer.fetch("node", "a.pcap", raw / "a.pcap")
    assert [(path.name, path.read_bytes()) for path in raw.iterdir()] == [("a.pcap", b"captured")]
    (raw / ".b.pcap.partial").symlink_to(outside / "profile")
    with pytest.raises(UserError, match=r"\.b\.pcap\.partial: is a symbolic link"):
        transfer.fetch("node", "b.pcap", raw / "b.pcap")
    assert "raw/.b.pcap.partial is a symbolic link" in refusal(results)
    replaced_by_link(raw, outside)
    with pytest.raises(UserError, match="is a symbolic link"):
        transfer.fetch("node", "a.pcap", raw / "a.pcap")


def test_locks_and_incomplete_files_of_a_collection_do_not_follow_links(results, outside):
    (results / ".collect.lock").symlink_to(outside / "profile")
    with pytest.raises(UserError, match=r"\.collect\.lock: is a symbolic link"), coordinator.campaign_lock(results):
        pass
    (results.parent / ".outcomes.csv.lock").symlink_to(outside / "profile")
    with pytest.raises(UserError, match=r"\.outcomes\.csv\.lock: is a symbolic link"):
        outcomes.merge(results.parent / "outcomes.csv", [])
    part = write_file(results / "raw" / ".a.pcap.part", "")
    coordinator.remove_parts(results / "raw")
    assert list((results / "raw").iterdir()) == []
    part.touch()
    replaced_by_link(results / "raw", results / "raw.moved")
    with pytest.raises(UserError, match="raw: is a symbolic link"):
        coordinator.remove_parts(results / "raw")
    assert part.exists()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("index", "catalog.duckdb"),
        ("index", "logs"),
        ("process", "tables/throughput.csv"),
        ("process", "tables/flows_per_sample.parquet"),
        ("process", "tables"),
        ("process", "provenance/process.json"),
        ("process", "provenance"),
        ("figures", "figures/throughput.svg"),
    ],
)
def test_commands_reject_links_in_results_of_another_user(command, place, campaign, outside, capsys):
    directory = shutil.copytree(campaign, outside.parent / "copy")
    if command == "index":  # index removes samples that are not in the sheet and lists them in logs/
        first = min(path.stem for path in (directory / "acap").iterdir())
        write_file(directory / "raw" / "samples.tsv", f"sample\tsite\tport\tfile\n{first}\tSITE00\tp0\tx.pcap\n")
    target = directory / place
    if target.exists():
        target.rename(outside.parent / "before")
    new_directory(target.parent)
    target.symlink_to(outside if "." not in target.name else outside / "profile")
    more = ["--only", "throughput", "--formats", "svg"] if command == "figures" else []
    assert cli.main(["campaign", command, str(directory), *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{target}: is a symbolic link" in line


def test_snakemake_does_not_start_in_a_campaign_with_links(tmp_path, outside):
    """The shells of Snakemake's jobs would write their logs through the links."""
    started = workplace(tmp_path)
    (new_directory(started.campaign) / "logs").symlink_to(outside)
    ended = started.run("--dry-run", "--quiet")
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[1:] == [
        f"acapella: error: results/tiny/logs is a symbolic link to {outside}, "
        f"and Acapella does not write through links; {beneath.FIX}"
    ]


CACHED = "0" * 64
LINKS = {
    "benchmarks/digest": "/tmp",
    "raw/samples.tsv": "mine",
    "raw/a.json": "mine",
    "raw/a": "/tmp",
    "tables/throughput.csv": "mine",
    "acap/a.parquet": "mine.parquet",
    "flows/a.parquet": f"../{CACHED}_acap.parquet",
    "acap/inner/a.parquet": f"../{CACHED}_acap.parquet",
}
OURS = {"raw/a.pcap": "../mine.pcap", "acap/b.parquet": f"/cache/{CACHED}_acap.parquet"}


def test_links_created_by_the_workflow_are_accepted(tmp_path):
    for place, target in (LINKS | OURS).items():
        (new_directory((tmp_path / place).parent) / Path(place).name).symlink_to(target)
    assert {str(place): what for place, what in links(tmp_path)} == {
        place: f"is a symbolic link to {target}" for place, target in LINKS.items()
    }


@pytest.mark.parametrize(
    "command", [["index"], ["analyze", "--sample", "a"], ["process"], ["report"], ["check"]], ids=lambda words: words[0]
)
@pytest.mark.parametrize("below", ["", "demo", "demo/tables"])
def test_file_in_place_of_a_campaign_is_reported_in_one_line(tmp_path, below, command, capsys):
    (tmp_path / "results").write_text("not a directory")
    campaign, expected = tmp_path / "results" / below, f"{tmp_path / 'results'}: is a file, not a directory"
    with pytest.raises(UserError, match=expected):
        beneath.protect(campaign)
    assert refusal(campaign).startswith(expected), "the Snakefile ends with this line"
    assert cli.main(["campaign", command[0], str(campaign), *command[1:]]) == 2
    reason = expected if below else f"{campaign}: a file, not the directory of a campaign"
    assert capsys.readouterr().err.startswith(f"acapella: error: {reason}")


def test_error_of_a_file_contains_its_path(tmp_path):
    """The file is opened by its name in an open directory."""
    with pytest.raises(IsADirectoryError) as raised:
        beneath.open_file(tmp_path, os.O_WRONLY)
    assert raised.value.filename == str(tmp_path)
