"""Files that are whole or not there."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acapella_core.errors import UserError
from acapella_core.files import atomic_path, atomic_text


def test_a_file_is_private_and_whole(tmp_path):
    atomic_text(tmp_path / "new" / "a.txt", "text")
    assert (tmp_path / "new" / "a.txt").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "new" / "a.txt").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]


def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(target) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_device_or_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is not a regular file"):
        atomic_text(tmp_path / "pipe", "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("real")
    atomic_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"


def test_a_full_disk_behind_standard_output_is_one_line():
    command = [sys.executable, "-m", "acapella.cli", "doctor", "--json"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.splitlines() == ["acapella: error: [Errno 28] No space left on device"]


def test_a_digest_asked_to_stop_leaves_nothing_half_written(tmp_path):
    command = [sys.executable, "-m", "acapella.cli", "digest", "-", "-o", tmp_path / "a", "--flows", tmp_path / "f"]
    with subprocess.Popen([*command, "--engine", "native"], stdin=subprocess.PIPE) as process:
        header = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000")
        record = bytes.fromhex("01000000 00000000 3c000000 3c000000") + bytes(60)
        process.stdin.write(header + 100 * record)
        process.stdin.flush()
        for _ in range(100):
            if len(list(tmp_path.iterdir())) == 2:  # both under temporary names
                break
            time.sleep(0.1)
        assert len(list(tmp_path.iterdir())) == 2
        process.terminate()
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
