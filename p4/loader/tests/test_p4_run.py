"""Runs of a program: tables, registers, epochs, counters, input, output, and errors."""

import contextlib
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from acapella_testing import c_programs, processes
from acapella_testing.frames.report_frames import icrc
from acapella_testing.new_files import new_directory
from acapella_testing.requirements import require_programs, require_success
from acapella_testing.runs import p4_loader as p4
from acapella_testing.runs.p4_loader import FORWARD, REPORTS, SECOND, ethernet, frame, good, run, write_pcap
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether
from scapy.packet import Raw


def sent_lengths(done) -> list[int]:
    """Return the lengths of the sent frames."""
    return [len(sent_frame.data) for sent_frame in done.frames]


def test_frames_of_any_length_pass_unchanged(tmp_path):
    sizes = [0, 1, 13, 14, 60, 511, 512, 513, 1514, 9018, 65535, 60, 3]
    frames = [frame(i * 1000 + 7, ethernet(i, size=size)) for i, size in enumerate(sizes)]
    frames.append(frame(20_000, ethernet(3, size=60), wire=1514))
    done = good(tmp_path, FORWARD, frames)
    assert done.frames == [p4.Frame(sent_frame.ts_ns, sent_frame.wire, sent_frame.data) for sent_frame in frames]
    assert done.stats["in_bytes"] == sum(sizes) + 60


def test_bytes_after_a_short_frame_are_zero(tmp_path):
    frames = [frame(1, b"\xff" * 600), frame(2, b"\xff" * 12), frame(3, b"\xff" * 2000), frame(4, b"")]
    done = good(tmp_path, FORWARD, frames)
    assert (
        done.registers["bytes"][0] == 12
    )  # the index is the last byte of the EtherType, 0 if the frame ends before it
    assert done.registers["bytes"][0xFF] == 2600


def test_exact_ternary_and_prefix_tables(tmp_path):
    control = """
        table exact add match 0x0806 action drop_for 9
        table exact add match 0x86dd action keep 20
        table ternary add match 0x020000000001/0xffffffffffff 0x0/0x0 priority 2 action drop_for 4
        table ternary add match 0x020000000001 0x020000000007 priority 1 action keep 30
        table ternary add match 0x0/0x0 0x000000000008/0x0000000000ff priority 3 action drop_for 5
        table prefix add match 0x020000000010/44 action keep 40   # 16..31
        table prefix add match 0x020000000018/48 action keep 41
        reason 4 by-destination
        reason 9 arp
    """
    frames = [
        (ethernet(7, 1, 0x0806), "arp"),
        (ethernet(20, 2, 0x86DD), 40),  # each later table may change the length: the last one does
        (ethernet(1, 1), "by-destination"),
        (ethernet(7, 1), 30),  # the lower number wins
        (ethernet(8, 2), "reason-5"),
        (ethernet(8, 1), "by-destination"),
        (ethernet(16, 2), 40),
        (ethernet(31, 2), 40),
        (ethernet(24, 2), 41),  # the longer prefix
        (ethernet(32, 2), 60),
    ]
    done = good(tmp_path, FORWARD, [frame(i, data) for i, (data, _) in enumerate(frames)], control=control)
    assert sent_lengths(done) == [result for _, result in frames if isinstance(result, int)]
    assert done.stats["sunk"] == {"arp": 1, "by-destination": 2, "reason-5": 1}
    assert [sent_frame.wire for sent_frame in done.frames] == [60] * 6


def test_copies_are_counted_separately_and_go_to_the_port_of_their_session(tmp_path):
    text = FORWARD.read_text().replace("\tmov m.reason 0x0\n", "\tmov m.reason 0x0\n\tmirror m.slot m.port_in\n")
    spec = tmp_path / "mirror.spec"
    spec.write_text(text.replace("\tbit<32> port_in\n", "\tbit<32> port_in\n\tbit<32> slot\n"))
    captures = [write_pcap(tmp_path / f"{i}.pcap", [frame(i, ethernet(i, size=100))]) for i in range(4)]
    control = "mirror 1 0\nmirror 2 0 30\nmirror 3 1"
    done = good(tmp_path, spec, *captures, control=control)
    assert done.stats["clones"] == 4 and sent_lengths(done) == [100, 100, 100, 30, 100, 100]
    assert done.stats["dropped"]["by_program"] == 1 and done.stats["sunk"] == {"reason-0": 1}


def test_entries_are_deleted_and_defaults_set(tmp_path):
    control = """
        table exact add match 0x0800 action drop_for 9
        table exact delete match 0x0800
        table prefix default action keep 25
    """
    assert sent_lengths(good(tmp_path, FORWARD, [frame(1, ethernet(1))], control=control)) == [25]


MISTAKES = {
    "register absent 0 1": "absent: the program has no such register",
    "register bytes 256 1": "bytes: index out of range; the indices are 0 to 255",
    "register bytes 250 1 7": "bytes: index out of range; the indices are 0 to 255",
    "register bytes 0 -1": "-1: not a number",
    "register bytes 0 18446744073709551616": "not a number",
    "register bytes 0 010": "010: not a number; write it as 10 or 0x0a, without a leading zero",
    "register bytes 00 1": "00: not a number",
    "register bytes": "needs NAME INDEX VALUE",
    "table absent add match 1 action keep 1": "absent: the program has no such table",
    "table exact add match 0x10000 action keep 1": "0x10000: not a number that fits into the 16 bits of m.type",
    "table exact add match 010 action keep 1": "16 bits of m.type, without a leading zero",
    "table exact add match 0x800/0xff action keep 1": "m.type is matched exactly",
    "table exact add match 0x800 action keep_all": "keep_all: not an action of table exact",
    "table exact add match 0x800 action keep": "keep: 1 values are needed; bytes is missing",
    "table exact add match 0x800 action keep 1 2": "2: more than the 1 values that keep takes",
    "table exact add match action keep 1": "table exact: 1 keys are needed",
    "table exact add action keep 1": "match and the keys are missing",
    "table ternary add match 1 2 priority x action keep 1": "x: not a number",
    "table prefix add match 1/49 action keep 1": "/49: not a prefix length of m.source, which has 48 bits",
    "table prefix add match 1/010 action keep 1": "/010: not a prefix length of m.source",
    "table exact default action drop_for 300": "300: not a number that fits into the 8 bits of",
    "table exact change match 1": "change: unknown statement of a table",
    "reason 256 many": "from 0 to 255",
    "epoch 10s": "epoch: the program has no epochs (register active_bank or epoch)",
    "epoch-clear bytes 16": "epoch-clear: the program has no epochs",
    "mirror 0 2": "port other than 0 (out) and 1 (sink)",
    "mirror 64 0": "unknown session",
    "mirror 0 0 0": "length not from 1 to",
    "color blue": "color: unknown statement",
    "register bytes 0 " + "1" * 5000: "a line of more than 4095 characters",
}


def test_invalid_control_lines_print_an_error_and_change_nothing(tmp_path):
    words = "".join(f"{line}\n" for line in MISTAKES) + "register bytes 3 0x10 2 # fine\nread bytes 2 4\n\nread bytes 3"
    done = run(tmp_path, FORWARD, [frame(1, ethernet(1))], words=words, more=("--commands",))
    output = done.output.splitlines()
    for number, (line, answer) in enumerate(zip(MISTAKES, output, strict=False), start=1):
        assert answer.startswith(f"error {number}: ") and MISTAKES[line] in answer, (line[:80], answer)
    assert output[len(MISTAKES) :] == ["ok", "ok 0 16 16 0", "ok", "ok 16"]
    assert done.code == 0 and done.registers["bytes"][3] == 16


def test_error_in_a_control_file_names_its_line(tmp_path):
    done = run(tmp_path, FORWARD, [], control="# tables\n\nregister bytes 0 1\nregister absent 0 1\n")
    assert done.code == 2 and done.frames is None
    assert done.error.startswith(f"acapella-p4-run: {tmp_path / 'control.txt'}:4: absent: "), done.error


def test_full_table_is_an_error(tmp_path):
    control = "".join(f"table exact add match {i} action keep 1\n" for i in range(300))
    done = run(tmp_path, FORWARD, [], control=control)
    assert done.code == 2, done.error
    assert "table" in done.error
    assert "size" in done.error


def test_several_captures_are_ports_merged_by_time(tmp_path):
    first = write_pcap(tmp_path / "a.pcap.gz", [frame(SECOND + i * 10, ethernet(1, size=20 + i)) for i in range(5)])
    second = write_pcap(tmp_path / "b.pcap", [frame(SECOND + i * 10 + 5, ethernet(2, size=40 + i)) for i in range(3)])
    done = good(tmp_path, FORWARD, first, second, write_pcap(tmp_path / "c.pcap", []))
    assert sent_lengths(done) == [20, 40, 21, 41, 22, 42, 23, 24]
    assert [port["in"] for port in done.stats["ports"]] == [5, 3, 0]
    assert done.registers["sequence"][:3] == [5, 3, 0]
    assert [sent_frame.ts_ns for sent_frame in done.frames] == sorted(sent_frame.ts_ns for sent_frame in done.frames)


def traffic(count: int) -> list[p4.Frame]:
    """Return frames of five flows, 10 ms apart, of increasing length."""
    return [frame(SECOND + i * 10_000_000, ethernet(i % 5, size=60 + i % 700)) for i in range(count)]


@pytest.mark.parametrize(
    ("spec", "line", "message"),
    [
        (REPORTS, "epoch 10 years", "epoch: needs a duration"),
        (REPORTS, "epoch 0s", "epoch: needs a duration"),
        (REPORTS, "epoch-clear bytes 17", "two banks of at most 16"),
        (REPORTS, "epoch-clear absent 1", "absent: the program has no such register"),
        (FORWARD, "epoch 10s", "the program has no epochs"),
    ],
    ids=str,
)
def test_error_in_an_epoch_statement_names_its_line(tmp_path, spec, line, message):
    done = run(tmp_path, spec, [], control=f"# the second line\n{line}\n")
    assert done.code == 2, done.error
    assert "control.txt:2: " in done.error
    assert message in done.error
    assert done.error.count("\n") == 1
    assert done.frames is None


def test_epochs_lose_no_byte(tmp_path):
    """The probes of each flow report all bytes that it sent in the ended epochs."""
    frames = traffic(400)
    control = "epoch 500ms\nepoch-clear bytes 16\nreason 1 counted\n"
    done = good(tmp_path, REPORTS, frames, control=control)
    assert (done.stats["epochs"], done.stats["probes"], done.stats["reports"]) == (8, 40, 80)
    assert done.stats["sunk"] == {"counted": 360}
    sent, totals = Counter(), Counter()
    for sent_frame in frames:
        flow = sent_frame.data[11] & 15
        sent[flow] += sent_frame.wire
    for i, report in enumerate(done.frames):
        count, flow, _ = struct.unpack(">QII", report.data[70:86])
        assert struct.unpack_from(">I", report.data, 50)[0] == i  # PSN
        if i % 10 >= 5:  # five first reports, then five probes, epoch after epoch
            totals[flow] += count
    assert totals == sent
    assert not any(done.registers["bytes"]) and done.registers["epoch"] == [8]
    assert [sent_frame.ts_ns for sent_frame in done.frames] == sorted(sent_frame.ts_ns for sent_frame in done.frames)


def test_icrc_of_reports_matches_scapy(tmp_path):
    done = good(tmp_path, REPORTS, traffic(12), control="epoch 50ms\n")
    assert len(done.frames) > 10 and len({report.data[-4:] for report in done.frames}) == len(done.frames)
    for report in done.frames:
        assert report.wire == len(report.data) == 90 and report.data[-4:] == icrc(report.data[14:-4])
        packet = Ether(report.data)
        packet[BTH].remove_payload()
        packet[BTH].add_payload(Raw(report.data[54:-4]))
        assert packet[BTH].compute_icrc(b"") == report.data[-4:]


def test_tshark_dissects_reports_without_errors(tmp_path):
    require_programs("tshark")
    done = good(tmp_path, REPORTS, traffic(5))
    fields = ("infiniband.bth.opcode", "infiniband.reth.dmalen", "infiniband.invariant.crc", "_ws.expert")
    shown = [word for field in fields for word in ("-e", field)]
    argv = ["tshark", "-r", tmp_path / "out.pcap", "-o", "ip.check_checksum:TRUE", "-T", "fields", *shown]
    for line, report in zip(processes.run(*argv, check=True).stdout.splitlines(), done.frames, strict=True):
        # tshark 4.0 shows the ICRC, most significant byte first, and does not check it
        assert line.split("\t") == ["42", "16", f"0x{report.data[-4:].hex()}", ""]


def test_pcapng_round_trips(tmp_path):
    done = run(tmp_path, FORWARD, traffic(20), more=("--out", str(tmp_path / "first.pcapng")))
    assert done.code == 0, done.error
    assert good(tmp_path, FORWARD, tmp_path / "first.pcapng").frames == traffic(20)


def start_paced_run(directory, frames) -> subprocess.Popen:
    """Start a paced run of frames that are far apart in time; return it once it has begun."""
    argv = [*p4.command(directory, FORWARD, frames), "--pace", "--commands"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(argv, **pipes, text=True, env=p4.ENVIRONMENT)
    while True:  # the first frame went through
        process.stdin.write("read sequence 0\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if answer != "ok 0\n":
            assert answer == "ok 1\n", process.stderr.read()
            return process


def test_signal_ends_a_run_with_complete_files(tmp_path):
    frames = [frame(0, ethernet(1)), frame(3600 * SECOND, ethernet(2))]
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start_paced_run(tmp_path, frames)
        process.send_signal(number)
        output, error = process.communicate(timeout=p4.LIMIT_S)
        done = p4.ended(tmp_path, process.returncode, error, output)
        assert done.code == 0 and done.stats["stopped_by"] == number.name, error
        assert done.frames == frames[:1] and done.stats["in"] == 1


def test_killed_run_leaves_no_output(tmp_path):
    process = start_paced_run(tmp_path, [frame(0, ethernet(1)), frame(3600 * SECOND, ethernet(2))])
    process.kill()
    process.communicate(timeout=p4.LIMIT_S)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".txt") == ["in.pcap"]


def test_full_disk_is_an_error_and_leaves_no_file(tmp_path):
    max_bytes = 128 << 20  # beyond DPDK's own memory, which is a file to the kernel
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))  # noqa: E731
    capture = write_pcap(tmp_path / "in.pcap", [frame(i, bytes(262_000)) for i in range(9)])
    done = run(tmp_path, FORWARD, *[capture] * 64, preexec_fn=limit)
    assert done.code == 75
    assert "out.pcap: File too large" in done.error
    assert done.error.count("\n") == 1
    assert done.frames is None
    assert done.stats is None


def test_truncated_capture_is_used_up_to_its_last_whole_record(tmp_path):
    capture = write_pcap(tmp_path / "in.pcap", traffic(10))
    capture.write_bytes(capture.read_bytes()[:-5])
    done = good(tmp_path, FORWARD, capture)
    assert done.stats["in"] == 9 and done.stats["ports"][0]["end"] == "truncated"


def test_dpdk_leaves_no_directory_if_the_user_is_not_root(tmp_path):
    require_success(["unshare", "--user", "true"], "user namespace, in which root is another user,")
    temporary = new_directory(tmp_path / "tmp")
    environment = p4.ENVIRONMENT | {"TMPDIR": str(temporary)}
    processes.run("unshare", "--user", *p4.command(tmp_path, FORWARD, traffic(10)), env=environment, check=True)
    assert list(temporary.iterdir()) == []


def test_capture_is_read_from_a_descriptor_under_its_name(tmp_path):
    capture = write_pcap(tmp_path / "in.pcap", traffic(10))
    through_file = good(tmp_path, FORWARD, capture)
    content = capture.read_bytes()
    capture.write_bytes(b"decompressed by another program")
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    words = [*p4.command(tmp_path, FORWARD, capture), "--descriptor", str(reading)]
    subprocess.run(words, env=p4.ENVIRONMENT, pass_fds=[reading], check=True)
    os.close(reading)
    (port,) = json.loads((tmp_path / "stats.json").read_text())["ports"]
    assert (port["file"], port["in"], port["end"]) == ("in.pcap", 10, "clean")
    assert through_file.stats["ports"] == [port]


@pytest.mark.parametrize("complete", [True, False])
def test_capture_from_a_descriptor_without_its_end_byte_is_rejected(tmp_path, complete):
    """A killed writer leaves complete frames, but no end byte."""
    (reading, writing), (ending, marking) = os.pipe(), os.pipe()
    os.write(writing, write_pcap(tmp_path / "in.pcap", traffic(10)).read_bytes())
    if complete:
        os.write(marking, b".")
    os.close(writing)
    os.close(marking)
    words = [*p4.command(tmp_path, FORWARD, tmp_path / "in.pcap"), "--descriptor", f"{reading}:{ending}"]
    done = processes.run(*words, env=p4.ENVIRONMENT, pass_fds=[reading, ending])
    os.close(reading)
    os.close(ending)
    assert done.returncode == (0 if complete else 1), done.stderr
    assert ("in.pcap: the program that decompressed it was killed" in done.stderr) == (not complete)
    assert [(tmp_path / name).exists() for name in ("out.pcap", "stats.json")] == [complete, complete]


def opened_by(pid: int) -> list[Path]:
    """Return the files that a process has opened."""
    with contextlib.suppress(FileNotFoundError):  # it has just closed one
        return [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir()]
    return []


def test_loader_exits_with_its_parent(tmp_path):
    words = [*p4.command(tmp_path, FORWARD, [p4.frame(time, ethernet(1)) for time in (0, 600 * SECOND)]), "--pace"]
    script = "import os, subprocess, sys; print(subprocess.Popen([*sys.argv[1:], '--parent', str(os.getpid())]).pid)"
    script += "; sys.stdout.flush(); sys.stdin.read()"
    argv = [sys.executable, "-c", script, *words]
    parent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=p4.ENVIRONMENT)
    pid = int(parent.stdout.readline())
    loader = os.pidfd_open(pid)
    try:
        while tmp_path / "in.pcap" not in opened_by(pid):
            assert not select.select([loader], [], [], 0.05)[0], "the loader ended before it opened the capture"
        assert not select.select([loader], [], [], 0.5)[0], "the loader ended before its parent"
        parent.kill()
        assert select.select([loader], [], [], 20)[0], "the loader runs without its parent"
    finally:
        parent.kill()
        parent.wait()
        os.close(loader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.pcap"]


def test_parent_that_has_exited_is_an_error(tmp_path):
    done = run(tmp_path, FORWARD, traffic(1), more=("--parent", "1"))
    assert done.code == 1 and "--parent 1: not the parent of this process" in done.error


@pytest.mark.parametrize(("frames", "code"), [(10, 2), (2000, 1)])  # before the first frame, and in the middle
def test_error_names_damaged_gzip_data(tmp_path, frames, code):
    capture = write_pcap(tmp_path / "in.pcap.gz", traffic(frames))
    damaged = bytearray(capture.read_bytes())
    damaged[-6] ^= 1  # a bit of its checksum
    capture.write_bytes(damaged)
    done = run(tmp_path, FORWARD, capture)
    assert done.code == code and "in.pcap.gz: its gzip data is damaged" in done.error, done.error


@pytest.mark.parametrize("content", [b"", b"no capture", struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 9000, 101)])
def test_files_that_are_not_ethernet_captures_are_rejected(tmp_path, content):
    (tmp_path / "in.pcap").write_bytes(content)
    done = run(tmp_path, FORWARD, tmp_path / "in.pcap")
    assert done.code == 2 and done.error.count("\n") == 1 and "in.pcap: " in done.error, done.error


def check_usage_error(message: str, words: str, **options) -> None:
    """Check that the program rejects these words in one line."""
    done = processes.run(p4.built_or_skip(), *words.split(), env=p4.ENVIRONMENT, **options)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "--spec: missing"),
        ("--spec x", "--in: missing"),
        ("--spec x --in y", "x: No such file or directory; specify an existing file"),
        (f"--spec {FORWARD} --in y", "y: No such file or directory; specify an existing file"),
        (f"--spec {FORWARD} --in y --control c", "c: No such file or directory; specify an existing "),
        ("--spec x --in y --burst x", "--burst x: must be a number from 1 to 4096"),
        ("--spec x --in y --out z.txt", "must end in .pcap"),
        ("--spec x --in - --commands", "standard input"),
        ("--spec x --in y --burst 0", "--burst 0"),
        ("--color", "--color: unknown"),
        (f"--spec {FORWARD} --descriptor 3 --in x", "must be N or N:END, after the --in to which it belongs"),
        (f"--spec {FORWARD} --in x --descriptor x", "must be N or N:END, after the --in to which it belongs"),
    ],
)
def test_usage_errors_are_rejected(words, message):
    check_usage_error(message, words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--out link.pcap", "--out link.pcap: out.pcap.part is also an input; use another file"),
        ("--out out.pcap", "--out out.pcap: out.pcap.part is also an input"),  # the output until it is complete
        ("--stats ./out.pcap.part", "--stats ./out.pcap.part: out.pcap.part is also an input"),
        ("--frames ../here/c.txt", "c.txt is also an input"),
        ("--out new.pcap --frames ./new.pcap", "--out new.pcap: is also the output of --frames; use another file"),
        ("--stats s --dump-registers s", "--stats s: is also the output of --dump-registers"),
        ("--frames s.part --stats s", "--frames s.part: is also the output of --stats"),  # until it is complete
        ("--stats t.part --dump-registers ./t", "--stats t.part: is also the output of --dump-registers"),
    ],
)
def test_output_that_is_an_input_or_another_output_is_rejected(tmp_path, words, message):
    here = new_directory(tmp_path / "here")
    capture = write_pcap(here / "out.pcap.part", [frame(1, ethernet(1))])
    (here / "link.pcap").symlink_to(capture)
    (here / "c.txt").write_text("")
    before = capture.read_bytes()
    check_usage_error(message, f"--spec {FORWARD} --in out.pcap.part --control c.txt {words}", cwd=here)
    assert capture.read_bytes() == before
    assert {path.name for path in here.iterdir()} == {"out.pcap.part", "link.pcap", "c.txt"}


def test_list_of_frames_does_not_follow_a_link(tmp_path):
    (tmp_path / "other").write_text("of another user")
    (tmp_path / "f.tsv.part").symlink_to(tmp_path / "other")
    good(tmp_path, FORWARD, traffic(2), more=("--frames", str(tmp_path / "f.tsv")))
    assert (tmp_path / "other").read_text() == "of another user"


def test_frames_are_sent_on_an_interface(tmp_path):
    own = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    require_success([*own, "true"], "separate network namespace")
    argv = [*p4.command(tmp_path, FORWARD, traffic(50)), "--out-interface", "lo"]
    script = 'ip link set lo up && "$@" && cat /proc/net/dev'
    done = processes.run(*own, "sh", "-c", script, "sh", *argv, env=p4.ENVIRONMENT)
    ended = p4.ended(tmp_path, done.returncode, done.stderr, done.stdout)
    assert ended.code == 0, ended.error
    assert (ended.stats["out"], ended.stats["interface_refused"]) == (50, 0)
    assert len(ended.frames) == 50
    counted = next(line.split() for line in ended.output.splitlines() if line.strip().startswith("lo:"))
    assert counted[1:3] == [str(ended.stats["out_bytes"] - 50 * 14), "50"]  # without Ethernet headers


def test_unknown_interface_is_an_error(tmp_path):
    done = run(tmp_path, FORWARD, [], more=("--out-interface", "nowhere0"))
    assert done.code == 2
    assert "nowhere0: no such interface" in done.error
    assert done.frames is None


def test_library_tests_in_c_pass():
    p4.built_or_skip()
    done = c_programs.run_tests("library")
    assert done.returncode == 0, done.stdout + done.stderr
