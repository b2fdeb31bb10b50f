"""acapella-dpdk-capture after a P4 program: frames that it sends are written, others are counted."""

from dataclasses import replace

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture.dpdk_writer import FORWARD
from acapella_testing.new_files import write_file

CONTROL = f"{dpdk.DROP_ARP}table exact add match 0x0800 action keep 100\n"


def some_traffic(count: int) -> list[dpdk.Frame]:
    """Return a mix of IPv4, ARP and IPv6 frames; one of them needs many mbufs."""
    types = [0x0806 if n % 3 == 0 else 0x86DD if n % 5 == 0 else 0x0800 for n in range(count)]
    frames = dpdk.some_frames(count)
    frames[1] = dpdk.some_frames(1, sizes=(20000,))[0]
    data = [frame.data[:12] + kind.to_bytes(2) + frame.data[14:] for frame, kind in zip(frames, types, strict=True)]
    return [replace(frame, data=each) for frame, each in zip(frames, data, strict=True)]


def test_frames_sent_by_the_program_are_written_and_others_counted(tmp_path):
    frames = some_traffic(1000)
    words = ["--p4", FORWARD, "--p4-control", write_file(tmp_path / "control", CONTROL), "--filter", "ip"]
    run = dpdk.capture_of(tmp_path, frames, *words, "--sample", 2, name="c.pcapng")
    assert run.status == 0, run.stderr
    sent = [(n, frame) for n, frame in enumerate(frames) if frame.data[12:14] != b"\x08\x06"]
    passed = [(n, frame) for n, frame in sent if frame.data[12:14] == b"\x08\x00"]
    assert [(f.number, f.wire, f.data) for f in dpdk.read_pcapng(tmp_path / "c.pcapng").frames] == [
        (n, f.wire, f.data[:100]) for n, f in passed[::2]
    ]
    assert run.accounts["p4"]["sunk"] == {"no-arp": 1000 - len(sent)}
    assert run.counts["preprocessed"] == 1000 - len(sent)
    assert run.counts["filtered"] == len(sent) - len(passed)
    assert (run.counts["received"], run.counts["added"], run.accounts["p4"]["balanced"]) == (1000, 0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--p4", FORWARD, "--queues", "2"), "--p4: supports one queue, not 2; use --queues 1"),
        (("--p4-control", "control"), "--p4-control: needs a program; use --p4"),
        (("--p4", "absent.spec"), "absent.spec: "),
        (("--p4", FORWARD, "--p4-control", "control"), "control:2: "),
    ],
)
def test_impossible_options_are_rejected_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "control", "# of no such table\ntable other add match 1 action keep 1\n")
    run = dpdk.capture_of(tmp_path, dpdk.some_frames(5), *arguments)
    assert run.status in (1, 2)
    assert [message in line for line in run.stderr.splitlines() if "error: " in line] == [True], run.stderr
    assert not list(tmp_path.glob("c.*"))
