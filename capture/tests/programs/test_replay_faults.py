"""acapella-dpdk-replay continues after failed system calls and on a full disk: one error, no incomplete file."""

from pathlib import Path

import pytest
from acapella_testing import c_programs
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer
from acapella_testing.capture.replayer import NULL
from acapella_testing.capture.small_disks import small_disk_or_skip
from acapella_testing.new_files import new_directory
from acapella_testing.soak import SOAK

FRAMES = dpdk.some_frames(300, seed=11, sizes=(60, 512, 1514))
FILES = ("saved.pcapng", "departures")
EVENTS = ["loaded", "done", "saved", "saved"]  # events without a fault


@pytest.fixture(scope="module")
def plain() -> Path:
    """Return the program without sanitizers, which replace malloc."""
    return c_programs.built_or_skip("acapella-dpdk-replay", c_programs.PLAIN)


def results(program: replayer.Replayer, capture: Path, directory: Path) -> list[str]:
    """Load, run and write both files; return the events, and the messages of errors."""
    lines = [f"load {capture}", "run 0 1 100000000", f"save {directory}/saved.pcapng"]
    lines.append(f"departures {directory}/departures")
    events = [program.ask(line, kind, "error") for line, kind in zip(lines, EVENTS, strict=True)]
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


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "max_calls"), [("sync", 11), ("rename", 11), ("malloc", 11 if SOAK else 5)])
def test_failed_call_is_an_error_event_and_leaves_no_incomplete_file(tmp_path, preload, plain, kind, max_calls):
    found, complete = with_fault(tmp_path, preload, plain, f"{kind}:0")  # none fails
    assert found == EVENTS
    assert set(complete) == set(FILES)
    failed = 0
    for number in range(1, max_calls + 1):
        found, files = with_fault(tmp_path, preload, plain, f"{kind}:{number}")
        assert files == {
            name: complete[name] for name, text in zip(FILES, found[2:], strict=True) if text == "saved"
        }, (number, found)
        failed += found != EVENTS
        if found == EVENTS and kind != "malloc":  # there are fewer calls; memory may be optional
            break
    assert failed >= 2


def test_full_disk_is_an_error_event_and_leaves_no_file(tmp_path):
    directory = tmp_path / "disk"
    with replayer.Replayer(*NULL, prefix=small_disk_or_skip(directory, "64K")) as program:
        found = results(program, replayer.write_capture(tmp_path / "in.pcap", FRAMES), directory)
    assert found[2] == f"{directory}/saved.pcapng: No space left on device; free some space or write elsewhere"
    assert found[3] == "saved"  # 12 KB
    assert [path.name for path in (tmp_path / "left").iterdir()] == ["departures"]
