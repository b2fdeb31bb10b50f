"""Files are either complete or do not exist."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import run
from acapella_testing.waiting import wait_until

from acapella.common import queries
from acapella_core import shards
from acapella_core.errors import UserError
from acapella_core.files import (
    atomic_link,
    atomic_path,
    atomic_text,
    remove_abandoned,
    scratch_directory,
    temporary_directory,
)


def test_written_file_is_private_and_complete(tmp_path):
    atomic_text(tmp_path / "new" / "a.txt", "text")
    assert (tmp_path / "new" / "a.txt").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "new" / "a.txt").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]


def test_error_keeps_the_previous_file_and_leaves_no_temporary_file(tmp_path):
    target = write_file(tmp_path / "a.txt", "old")
    with pytest.raises(ZeroDivisionError), atomic_path(target) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_device_or_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        atomic_text(tmp_path / "pipe", "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("real")
    atomic_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"


def test_full_disk_at_standard_output_is_reported_in_one_line():
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*ACAPELLA, "doctor"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 75
    assert result.stderr.splitlines() == ["acapella: error: standard output: No space left on device"]


ACAPELLA = (sys.executable, "-m", "acapella.cli.main")
HEADER = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000")
RECORD = bytes.fromhex("01000000 00000000 3c000000 3c000000") + bytes(60)


def digest_to(directory: Path) -> list:
    """Return the command of a digest of standard input."""
    return [*ACAPELLA, "digest", "-", "-o", directory / "a", "--flows", directory / "f", "--engine", "native"]


def digest_that_waits(directory: Path) -> subprocess.Popen:
    """Start a digest of standard input; return it once it has two temporary files in the directory."""
    expected = len(list(directory.iterdir())) + 2  # both have temporary names
    process = subprocess.Popen(digest_to(directory), stdin=subprocess.PIPE)
    process.stdin.write(HEADER + 100 * RECORD)
    process.stdin.flush()
    wait_until(lambda: len(list(directory.iterdir())) == expected, f"{expected} files expected", running=process)
    return process


def test_next_digest_removes_files_of_a_killed_digest(tmp_path):
    with digest_that_waits(tmp_path) as process:
        process.kill()
    assert len(list(tmp_path.iterdir())) == 2
    subprocess.run(digest_to(tmp_path), input=HEADER + RECORD, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "f"}


def test_running_digest_keeps_its_files(tmp_path):
    with digest_that_waits(tmp_path) as first:
        with digest_that_waits(tmp_path) as second:
            second.stdin.close()
            assert second.wait(180) == 0
        assert len(list(tmp_path.iterdir())) == 4
        first.stdin.write(RECORD)
        first.stdin.close()
        assert first.wait(180) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"a", "f"}


def test_only_scratch_directories_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    child = "import sys, acapella_core.files as f; h = f.locked_directory(); (h[1] / 'x').touch(); "
    child += "print(h[1], flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", child], **pipes) as process:
        left = Path(process.stdout.readline().strip())
        target, link = new_directory(tmp_path / "target"), tmp_path / "acapella-scratch-abcdefgh"
        link.symlink_to(target)
        with scratch_directory() as ours:
            assert ours.stat().st_mode & 0o777 == 0o700
            assert (left / "x").exists()
            process.kill()
            process.wait()
            with scratch_directory():
                assert not left.exists()
            assert ours.exists()
    assert {path.name for path in tmp_path.iterdir()} == {target.name, link.name}


def test_scratch_directory_of_another_user_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "acapella-scratch-abcdefgh").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with scratch_directory():
        assert (tmp_path / "acapella-scratch-abcdefgh").exists()


def test_incomplete_files_of_another_user_are_kept(tmp_path, monkeypatch):
    (tmp_path / ".a.txt.12345678.part").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    atomic_text(tmp_path / "a.txt", "text")
    assert (tmp_path / ".a.txt.12345678.part").exists()
    monkeypatch.undo()
    atomic_text(tmp_path / "a.txt", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_links_of_killed_writers_are_removed(tmp_path):
    old, new, other = (tmp_path / name for name in (".a.01234567.link", ".a.abcdabcd.link", ".b.01234567.link"))
    for link in (old, new, other):
        link.symlink_to("/x")
        os.utime(link, (0, 0) if link != new else None, follow_symlinks=False)
    atomic_link("/y", tmp_path / "a")
    assert {path.name for path in tmp_path.iterdir()} == {"a", new.name, other.name}
    atomic_text(tmp_path / "b", "text")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", new.name}


def test_catalog_that_is_being_written_is_kept(tmp_path):
    part, other = tmp_path / ".catalog.duckdb.abcd1234.part", write_file(tmp_path / ".other.duckdb.abcd1234.part", "")
    directory = os.open(tmp_path, os.O_RDONLY)
    child = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", child, part], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        remove_abandoned(directory, "catalog.duckdb")
        assert part.exists()
        writer.kill()
    part.with_name(f"{part.name}.wal").touch()
    remove_abandoned(directory, "catalog.duckdb")
    os.close(directory)
    assert [path.name for path in tmp_path.iterdir()] == [other.name]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_interrupted_digest_leaves_no_incomplete_files(tmp_path, number, request):
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored
    request.addfinalizer(lambda: signal.signal(number, before))
    with digest_that_waits(tmp_path) as process:
        process.send_signal(number)
        process.stdin.close()
        assert process.wait(180) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_are_only_in_the_named_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    assert temporary_directory() == Path("/tmp").resolve()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_directory() == tmp_path
    (tmp_path / "named").mkdir()
    assert temporary_directory(tmp_path / "named") == tmp_path / "named"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    with pytest.raises(
        UserError, match="gone: no such directory; create it, or use a different one: --spool DIRECTORY"
    ):
        temporary_directory(tmp_path / "gone")


@pytest.mark.parametrize(
    ("unusable", "why"), [("/nonexistent", "no such directory; create it, or "), ("/proc", "cannot write: ")]
)
def test_unusable_temporary_directory_is_an_error(unusable, why, monkeypatch):
    monkeypatch.setenv("TMPDIR", unusable)
    match = f"^temporary directory {unusable}: {why}.*use a different one: TMPDIR=DIRECTORY$"
    with pytest.raises(UserError, match=match) as caught:
        temporary_directory()
    assert "free some space" not in str(caught.value)


def test_full_temporary_directory_is_rejected(tmp_path):
    """A file size limit of 0 bytes simulates the full disk: files can be created, but not written to."""
    code = (
        "import acapella_core.files as f, resource as r; r.setrlimit(r.RLIMIT_FSIZE, (0, 0)); f.temporary_directory()"
    )
    assert (
        f"UserError: temporary directory {tmp_path}: cannot write: "
        in run(sys.executable, "-c", code, env=os.environ | {"TMPDIR": str(tmp_path)}).stderr
    )


def test_database_spills_to_the_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (directory,) = queries.connect().execute("select current_setting('temp_directory')").fetchone()
    assert Path(directory).parent == tmp_path
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=f"temporary directory {tmp_path}/gone: no such directory"):
        queries.connect()


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", "capture.pcap"],
        ["digest", "capture.pcap", "-o", "acap.parquet", "--flows", "flows.parquet"],
        ["kappa", "capture.pcap", "capture.pcap"],
        ["kappa", "capture.pcap", "capture.pcap", "--spool", "/proc"],
    ],
    ids=lambda argv: argv[0],
)
def test_stages_reject_an_unusable_temporary_directory(argv, tmp_path):
    write_pcap(tmp_path / "capture.pcap", busy_port())
    directory = unusable = tmp_path / "gone"
    why = "no such directory; create it, or use a different one: TMPDIR="
    if "--spool" in argv:
        directory, unusable = tmp_path, Path("/proc")
        why = "cannot write: No such file or directory; use a different one: --spool "
    ended = run(*ACAPELLA, *argv, cwd=tmp_path, env=os.environ | {"TMPDIR": str(directory)})
    assert ended.returncode == 2 or "not compared: " in ended.stderr
    assert f"temporary directory {unusable}: {why}" in ended.stderr
    assert len([line for line in ended.stderr.splitlines() if "temporary" in line]) == 1
    assert not (tmp_path / "acap.parquet").exists()


def test_shards_of_many_samples_have_few_files():
    """A later version must assign the same shard to a sample, or it would not find the sample's files."""
    names = Counter(shards.shard_of(f"s{number:06}") for number in range(100_000))
    assert len(names) == 256
    assert max(names.values()) < 500
    assert shards.shard_of("alpha-p1") == hashlib.sha256(b"alpha-p1").hexdigest()[:2]
