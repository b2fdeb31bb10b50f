"""acapella-dpdk-replay with failing system calls and a full disk: one error, no incomplete file, and it continues."""

from pathlib import Path

import pytest
from acapella_testing import c_programs
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer
from acapella_testing.new_files import new_directory
from acapella_testing.requirements import require_success

FRAMES = dpdk.some_frames(300, seed=11, sizes=(60, 512, 1514))
NULL = ("--vdev", "net_null0", "--tx", "net_null0")


@pytest.fixture(scope="module")
def plain() -> Path:
    """Return the program without sanitizers, which replace malloc."""
    return c_programs.built_or_skip("acapella-dpdk-replay", c_programs.PLAIN)


def results(program: replayer.Replayer, capture: Path, directory: Path) -> list[str]:
    """Load, run and write both files; return the events, and the messages of errors."""
    lines = (
        (f"load {capture}", "loaded"),
        ("run 0 1 100000000", "done"),
        (f"save {directory / 'saved.pcapng'}", "saved"),
        (f"departures {directory / 'departures'}", "saved"),
    )
    events = [program.ask(line, kind, "error") for line, kind in lines]
    assert all(event["error_ns"] for event in events if event["event"] == "done")
    assert program.end() == 0, program.messages
    return [event.get("message", event["event"]) for event in events]


def with_fault(tmp_path: Path, preload: Path, plain: Path, call: str) -> tuple[list[str], dict[str, int]]:
    """Return the results if this call fails, and the sizes of the files."""
    capture = replayer.write_capture(tmp_path / "in.pcap", FRAMES)
    directory = new_directory(tmp_path / call)
    fault = {"LD_PRELOAD": str(preload), "ACAPELLA_FAIL": call}
    fault["ACAPELLA_FAIL_FROM"] = str(capture if call.startswith("malloc") else directory)
    with replayer.Replayer(*NULL, program=plain, variables=fault) as program:
        found = results(program, capture, directory)
    return found, {path.name: path.stat().st_size for path in directory.iterdir()}


@pytest.mark.parametrize("kind", ["sync", "rename", "malloc"])
def test_failed_call_is_an_error_event_and_leaves_no_incomplete_file(tmp_path, preload, plain, kind):
    found, complete = with_fault(tmp_path, preload, plain, f"{kind}:0")  # none fails
    assert found == ["loaded", "done", "saved", "saved"]
    assert set(complete) == {"saved.pcapng", "departures"}
    failed = 0
    for number in range(1, 12):
        found, files = with_fault(tmp_path, preload, plain, f"{kind}:{number}")
        written = [
            name for name, text in zip(("saved.pcapng", "departures"), found[2:], strict=True) if text == "saved"
        ]
        assert files == {name: complete[name] for name in written}, (number, found)
        failed += found != ["loaded", "done", "saved", "saved"]
    assert failed >= 2


def test_full_disk_is_an_error_event_and_leaves_no_file(tmp_path):
    capture = replayer.write_capture(tmp_path / "in.pcap", FRAMES)
    directory = new_directory(tmp_path / "disk")
    mount, keep = f"mount -t tmpfs -o size=64K none {directory}", f"ls -A {directory} >{tmp_path}/left"
    require_success(["unshare", "-m", *mount.split()], "tmpfs")
    script = f'{mount} && "$@"; status=$?; {keep}; exit $status'
    prefix = ("unshare", "-m", "sh", "-c", script, "sh")
    with replayer.Replayer(*NULL, prefix=prefix) as program:
        found = results(program, capture, directory)
    assert found[2] == f"{directory}/saved.pcapng: No space left on device; free some space or write elsewhere"
    assert found[3] == "saved"  # 12 KB
    assert (tmp_path / "left").read_text().split() == ["departures"]
