"""Tests runs of tshark: the user's settings have no effect, it ends when acapella ends, errors have one line."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.frames.traces import START_NS, busy_port, write_pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import executable, run, runs
from acapella_testing.runs.workflow_run import TSHARK
from acapella_testing.waiting import wait_until

from acapella.cli.main import main
from acapella.common import tshark
from acapella_core.errors import OUTSIDE, UserError

FIELDS = ("frame.number", "frame.protocols")


def output_lines(program, source) -> list[bytes]:
    with program.start(source, FIELDS) as run:
        lines = run.stdout.read().splitlines()
        run.finish()
    return lines


def test_tshark_has_every_preference(program):
    shown = run(program.path, "-G", "defaultprefs", check=True).stdout
    known = {line.removeprefix("#").partition(":")[0] for line in shown.splitlines()}
    assert {preference.partition(":")[0] for preference in tshark.PREFERENCES} <= known


def test_preferences_are_unique():
    names = [preference.partition(":")[0] for preference in tshark.PREFERENCES]
    assert len(set(names)) == len(names)


def test_settings_of_the_user_do_not_change_the_output(program, capture, tmp_path, monkeypatch):
    before = output_lines(program, capture)
    settings = tmp_path / "home" / ".config" / "wireshark"
    write_file(settings / "disabled_protos", "tcp\nudp\n")
    command = [program.path, "-r", capture, "-T", "fields", "-e", "frame.number", "-e", "frame.protocols"]
    home = os.environ | {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home" / ".config")}
    assert subprocess.run(command, capture_output=True, env=home, check=True).stdout.splitlines() != before, (
        "the settings would change the output if they were read"
    )
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, home[name])
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(settings))
    assert output_lines(program, capture) == before


def test_frames_are_read_individually_from_standard_input(program, capture):
    expected = output_lines(program, capture)
    with program.start("-", FIELDS) as run:
        run.stdin.write(capture.read_bytes())
        run.stdin.flush()
        assert run.stdout.readline() == expected[0] + b"\n"  # before the end of the input
        run.stdin.close()
        assert run.stdout.read().splitlines() == expected[1:]
        run.finish()


def test_tshark_is_terminated_at_the_end_of_the_block(program):
    with pytest.raises(RuntimeError), program.start("-", FIELDS) as run:
        raise RuntimeError
    assert run.process.returncode is not None


def test_failure_contains_the_error_of_tshark(program, tmp_path):
    with pytest.raises(UserError, match=r"notes\.pcap: tshark failed .*isn't a capture file"):
        output_lines(program, write_file(tmp_path / "notes.pcap", "no capture\n" * 10))


def test_truncated_capture_is_accepted_on_request(program, capture):
    capture.write_bytes(capture.read_bytes()[:-3])
    with program.start(capture, FIELDS) as run:
        assert len(run.stdout.read().splitlines()) == len(busy_port()) - 1
        run.finish(cut_allowed=True)
        with pytest.raises(UserError, match="cut short"):
            run.finish()


def test_warning_about_root_is_not_an_error():
    assert tshark.error_line('Running as user "root" and group "root". This could be dangerous.\n') == ""
    assert tshark.error_line('Running as user "root"...\ntshark: no room\n') == "no room"


@pytest.mark.parametrize("engine", ["hybrid", "tshark"])
def test_missing_tshark_error_names_the_fix_in_one_line(engine, capture, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["digest", str(capture), "-o", str(tmp_path / "a.parquet"), "--engine"]
    assert main([*words, engine]) == OUTSIDE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "tshark not found on the PATH" in error
    assert "--engine native" in error
    assert not (tmp_path / "a.parquet").exists()
    assert main([*words, "native"]) == 0


def path_with(program: Path) -> str:
    """Return PATH with the directory of a program first."""
    return f"{program.parent}:{os.environ['PATH']}"


# Exits with 0 on the capture of one frame that distinguishes a broken tshark from a broken capture.
UNLESS_INTACT = f"[ $(wc -c) = {len(tshark.INTACT)} ] && exit 0; "


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (UNLESS_INTACT + 'echo "tshark: out of luck" >&2; exit 3', "tshark failed (exit code 3): out of luck"),
        (
            'echo "tshark: symbol lookup error: x" >&2; exit 1',
            "(exit code 1): symbol lookup error: x; it fails on every capture",
        ),
        ("exit 127", "tshark failed (exit code 127): no error message; it fails on every capture"),
        ("cat > /dev/null", "tshark exited without printing frame 1 of those sent to it"),
        ("cat > /dev/null; printf '2\\teth\\n'", "tshark did not print frame 1 of those sent to it"),
        ("kill -9 $$", "tshark failed (ended by signal 9): no error message"),
    ],
)
def test_failed_tshark_is_reported_in_one_line_without_output(script, message, capture, monkeypatch, capsys):
    text = f'#!/bin/sh\n[ "$1" = --version ] && echo "TShark (Wireshark) 4.0.17" && exit\n{script}\n'
    monkeypatch.setenv("PATH", path_with(executable(capture.parent / "bin" / "tshark", text)))
    out = new_directory(capture.parent / "out")
    assert main(["digest", str(capture), "-o", str(out / "a.parquet")]) == (
        OUTSIDE if "kill" in script or "it fails on" in message else 2
    )
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert list(out.iterdir()) == []


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["hybrid", "tshark"])
@pytest.mark.parametrize("frames", [1, 20_000], ids=["answer", "full pipe"])
def test_interrupt_terminates_a_hanging_tshark(engine, frames, tmp_path, program):
    """The digest waits for tshark to print, or for tshark to read."""
    capture = write_pcap(tmp_path / "c.pcap", [(START_NS + at, b"\x02" * 1000) for at in range(frames)])
    seconds = f"3600.{os.getpid()}{engine == 'hybrid':d}{frames}"
    text = TSHARK.format(instead=f"exec sleep {seconds}", tshark=program.path)
    environment = os.environ | {"PATH": path_with(executable(tmp_path / "bin" / "tshark", text))}
    command = [sys.executable, "-m", "acapella.cli.main", "digest", capture, "--engine", engine]
    command += ["--tshark-timeout", "3600", "-o", tmp_path / "a.parquet", "--flows", tmp_path / "f.parquet"]
    with subprocess.Popen(command, env=environment) as digest:
        wait_until(lambda: runs("sleep", seconds), running=digest)
        digest.send_signal(signal.SIGINT)
        assert digest.wait(timeout=60) == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "c.pcap"]


@pytest.mark.parametrize("engine", ["hybrid", "tshark"])
def test_digest_that_never_ends_fails_at_its_time_limit(engine, tmp_path, monkeypatch, capsys, program):
    """tshark neither reads nor prints. The limit is 0.5 s plus a few milliseconds for the size of the capture."""
    seconds = f"3600.{os.getpid()}5{engine == 'hybrid':d}"
    text = TSHARK.format(instead=f"exec sleep {seconds}", tshark=program.path)
    monkeypatch.setenv("PATH", path_with(executable(tmp_path / "bin" / "tshark", text)))
    capture, out = write_pcap(tmp_path / "c.pcap", busy_port()), new_directory(tmp_path / "out")
    words = ["--engine", engine, "--max-seconds", "0.5", "-o", str(out / "a.parquet")]
    previous = signal.getsignal(signal.SIGALRM)
    assert main(["digest", str(capture), *words]) == OUTSIDE
    what = r"not finished after \d s; raise --max-seconds, or use --engine native"
    assert re.fullmatch(f"acapella: error: {capture}: {what}\n", capsys.readouterr().err)
    assert list(out.iterdir()) == []
    wait_until(lambda: not runs("sleep", seconds), "the end of the killed tshark")
    assert signal.getsignal(signal.SIGALRM) == previous


@pytest.mark.parametrize("before", [b"", b"first\n"])
@pytest.mark.parametrize("longest", [1000, 100_000])
def test_unterminated_line_is_stored_up_to_a_limit(longest, before, monkeypatch):
    monkeypatch.setattr(tshark, "MAX_LINE_BYTES", longest)
    assert lines_printed(before + b"x" * longest) == [*([before.rstrip(b"\n")] if before else []), b"x" * longest]
    with pytest.raises(UserError, match=f"x.pcap: tshark printed a line of more than {longest} bytes"):
        lines_printed(before + b"x" * (longest + 1), ends=False)


def lines_printed(printed: bytes, *, ends: bool = True) -> list[bytes]:
    """Return the lines that ``lines`` yields for text from a pipe, which stays open unless ``ends`` is True."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stdout, open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 18)
        pipe.write(printed)
        if ends:
            pipe.close()
        return list(tshark.Run((), None, None, "x.pcap", None, stdout).lines(answer_s=10))
