"""acapella p4 collect, top and sql: from reports to files, and requests to a running collector."""

import errno
import json
import os
import signal
import socket
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.collector_input import BASE, CONTROL, SLOTS, reports
from acapella_testing.frames.report_frames import BYTES, frame, pcap, report
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require_success
from acapella_testing.waiting import wait_until

from acapella.cli.main import main
from acapella.collector import output_directory, rejections, top
from acapella.collector.request_handlers import Rates
from acapella.collector.request_socket import connect
from acapella.collector.settings import queue_pairs_of_control_file
from acapella_core import collector as core
from acapella_core.errors import UserError


@pytest.fixture
def control(tmp_path) -> Path:
    """Write a program's control file; return its path."""
    return write_file(tmp_path / "qp.control", CONTROL)


@pytest.fixture
def capture(tmp_path) -> Path:
    """Write 30 reports of 3 flows and a frame to an unknown queue pair."""
    stray = frame(report(2), psn=0, address=BASE, queue_pair=9)
    return write_file(tmp_path / "reports.pcap", pcap([*reports(30), stray]))


@pytest.fixture
def collect(control, tmp_path, capsys):
    """Return a function that collects a capture in `out`; it returns the exit code and the lines of standard error."""

    def run(capture, *options, out=tmp_path / "out") -> tuple[int, list[str]]:
        capsys.readouterr()
        words = ["p4", "collect", capture, "--control", control, "-o", out, *options]
        return main([str(word) for word in words]), capsys.readouterr().err.splitlines()

    return run


def counters_of(out: Path) -> dict:
    """Return the counters that a collector wrote."""
    return json.loads((out / "counters.json").read_text())


def test_capture_of_reports_becomes_flows_series_and_counters(capture, collect, tmp_path):
    out = tmp_path / "out"
    code, lines = collect(capture)
    messages = "\n".join(lines)
    assert code == 0
    assert "30 reports, 3 flows; 1 frame rejected (1 bad_qp), 0 lost (gaps" in messages
    rows = duckdb.sql(f"select src_port, bytes, handshake_rtt_ns, reports from '{out}/flows.parquet' order by all")
    assert rows.fetchall() == [(1000 + n, 10_000 * (1 + n), 1_500_000 + 1_000_000 * n, 10) for n in range(3)]
    assert duckdb.sql(f"select sum(bytes) from '{out}/series.parquet'").fetchall() == [(60_000,)]
    counters = counters_of(out)
    assert (counters["reports"]["accepted"], counters["reports"]["bad_qp"]) == (30, 1)
    assert counters["captures"] == [{"file": "reports.pcap", "records": 31, "end": "clean", "detail": ""}]
    assert "4660" not in json.dumps(counters) + messages  # the key
    assert {path.name for path in out.iterdir()} == {*output_directory.RESULTS, output_directory.LOCK}
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    assert out.stat().st_mode & 0o777 == 0o700


OUTSIDE = BASE + BYTES[2] * SLOTS + 1


@pytest.mark.parametrize(
    ("wrong", "what"),  # wrong lines of a control file, and the main reason
    [
        ("register qp_key 0 7", "30 are with a wrong key (bad_key); qp_key must be the program's: see "),
        ("register qp_number 0 7", "all are to an unknown queue pair (bad_qp); "),
        (
            f"register qp_base 0 {OUTSIDE - BYTES[2]}\nregister qp_end 0 {OUTSIDE}",
            "30 are to an address outside the ring (out_of_bounds); ",
        ),
        ("register qp_psn 0 100", "30 are with old sequence numbers (psn_duplicate); "),
    ],
)
def test_capture_without_accepted_report_is_an_error(wrong, what, capture, control, collect):
    control.write_text(f"{CONTROL}{wrong}\n")
    code, (*_, last) = collect(capture)
    assert code == 1
    assert last.startswith(f"collector: error: {capture}: none of 31 frames accepted, {what}")
    assert last.endswith("; the tables are empty; exit code 1")
    assert counters_of(capture.parent / "out")["reports"]["accepted"] == 0


VALID = pcap(reports(6))
UNREAD = ["; only the part before this was read", "6 reports, 3 flows"]


@pytest.mark.parametrize(
    ("file", "expected", "phrases"),
    [
        (
            ("other", pcap([bytes(60)])),
            1,
            ["all are not RoCEv2 (not_roce); use a file written by acapella p4 run --out"],
        ),
        (("empty", pcap([])), 0, []),
        (("cut", VALID + VALID[24:124]), 0, ["collector: cut: ", *UNREAD]),
        (("damaged", VALID + b"\xff" * 100), 1, ["collector: damaged: ", *UNREAD]),
    ],
    ids=["other frames", "empty", "cut", "damaged"],
)
def test_only_damaged_captures_and_captures_of_other_frames_exit_with_1(file, expected, phrases, collect, tmp_path):
    name, content = file
    code, lines = collect(write_file(tmp_path / name, content))
    messages = "\n".join(lines)
    assert code == expected
    assert [phrase for phrase in phrases if phrase not in messages] == []
    assert ("exit code 1" in messages) == bool(code)


def test_full_flow_table_is_an_error(capture, collect, tmp_path):
    code, (*_, last) = collect(capture, "--memory", "1")
    assert code == 1
    reason = "30 of 30 reports are missing from the results: the flow table was full (table_full)"
    assert last.startswith(f"collector: error: {reason}")
    assert last.endswith("increase --memory; exit code 1")
    assert counters_of(tmp_path / "out")["reports"]["table_full"] == 30


def test_other_traffic_on_an_interface_is_not_a_rejected_report():
    live = SimpleNamespace(captures=[], interface="eth9", control=None)
    counters = dict.fromkeys((*rejections.REASONS, "accepted", "from_memory"), 0) | {"not_roce": 5}
    assert rejections.explain_no_report(counters, live) is None
    assert rejections.explain_no_report(counters | {"bad_key": 2}, live) == (
        "eth9: none of 2 frames accepted, all are with a wrong key (bad_key); "
        "qp_key must be the program's: with --listen, each session has new ones"
    )
    assert rejections.explain_no_report(counters | {"bad_key": 2, "from_memory": 1}, live) is None


def test_results_are_replaced_only_with_replace(capture, collect, tmp_path):
    assert collect(capture, "--no-series")[0] == 0
    assert not (tmp_path / "out" / "series.parquet").exists()
    code, (line,) = collect(capture, "--no-series")
    assert code == 2
    assert (
        "already contains results: flows.parquet, counters.json; specify a different directory, or use --replace"
        in line
    )
    assert collect(capture, "--no-series", "--replace")[0] == 0


def test_sql_queries_results_of_a_finished_collector(capture, collect, tmp_path, capsys):
    collect(capture)
    query = "select max(bytes) as most, (select value from counters where name = 'bad_qp') as bad from flows"
    assert main(["p4", "sql", str(tmp_path / "out"), query, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "most,bad\n30000,1\n"


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select * from flow", "Table with name flow does not exist"),
        ("select", "Parser Error"),
        ("drop table flows", "only reading is permitted"),
        ("select 1; select 2", "expected one statement"),
    ],
)
def test_invalid_query_is_a_one_line_error(capture, collect, tmp_path, capsys, query, what):  # noqa: PLR0913, PLR0917
    collect(capture)
    assert main(["p4", "sql", str(tmp_path / "out"), query]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert what in line
    assert "catalog" not in line
    assert "acapella campaign index" not in line


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["sql", ".", "select 1"], "no collector is running here, and there are no results"),
        (["top", "."], "no collector is running"),
        (["top", "none"], "no such directory"),
    ],
)
def test_top_and_sql_fail_without_a_collector(tmp_path, capsys, monkeypatch, arguments, what):
    monkeypatch.chdir(tmp_path)
    assert main(["p4", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert what in line


@pytest.fixture
def lingering(monkeypatch):
    """Make captures endless like an interface, until the collector is stopped."""
    feed = core.Collector.feed

    def linger(self, path, attend, *limits):
        end = feed(self, path, attend, *limits)
        wait_until(attend)
        return end

    monkeypatch.setattr(core.Collector, "feed", linger)


def then_stop(do) -> None:
    """Call ``do``, then send SIGTERM to this process, even if ``do`` fails."""
    try:
        do()
    finally:
        for _ in range(2):  # as Snakemake does after Ctrl-C: nothing is lost
            os.kill(os.getpid(), signal.SIGTERM)


def client_of(out: Path, flows: int):
    """Return a client of the collector in a directory, once it has a number of flows."""

    def client():
        ask = connect(out) if out.is_dir() else None
        return ask if ask and ask("state")["state"]["reports"]["flows"] >= flows else None

    return wait_until(client, out)


def test_running_collector_responds_to_requests_and_writes_results_on_sigterm(
    capture, control, tmp_path, lingering, capsys
):
    out = tmp_path / ("a" * 120)  # longer than the path of a socket may be
    again = ["p4", "collect", str(capture), "--control", str(control), "-o", str(out)]
    shown = {}

    def update():
        with client_of(out, 3) as ask:
            shown["by rtt"] = [flow["src_port"] for flow in ask("top", by="rtt", count=2)["flows"]]
            for request in ({"ask": "nothing"}, {"ask": "top", "count": True}, {"ask": "top", "by": []}):
                with pytest.raises(UserError, match=r"(ask|by) must be one of|count must be"):
                    ask(**request)
        query = "select count(*) n from flows"
        for arguments in (["top", out, "-n", "1"], ["sql", out, query, "--format", "csv"], again[1:]):
            shown[arguments[0]] = run(sys.executable, "-m", "acapella.cli.main", "p4", *arguments)
        shown["mode"] = (out / output_directory.SOCKET).stat().st_mode & 0o777

    with ThreadPoolExecutor() as pool:
        updated = pool.submit(then_stop, update)
        assert main(again) == 0
    assert updated.result() is None, "it raises what update raised"
    assert shown["by rtt"] == [1002, 1001]
    line = shown["top"].stdout.splitlines()[-1].split()
    assert line == ["30k", "10", "0b/s", "3.5ms", "10", "10.0.0.1:1002", "→", "10.0.0.2:80", "TCP"]
    assert shown["sql"].stdout == "n\n3\n"
    assert shown["collect"].returncode == 2
    assert shown["collect"].stderr.startswith(f"acapella: error: {out}: a collector is running in this directory")
    assert shown["mode"] == 0o600
    assert {path.name for path in out.iterdir()} == {*output_directory.RESULTS, output_directory.LOCK}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "expected one of captures, --interface and --rdma-device"),
        (
            ["--interface", "none0", "--listen", "127.0.0.1:0"],
            "interface none0: no such interface; list interfaces with ip link",
        ),
        (["--rdma-device", "mlx5_9", "--listen", "127.0.0.1:0"], "an RDMA device chooses the queue pair numbers"),
        (["--rdma-device", "mlx5_9", "--rdma-peer", "10.0.0.1", "--listen", "127.0.0.1:0"], "RDMA device mlx5_9: "),
        (["none.pcap"], "none.pcap: no such file"),
        (["--interface", "lo"], "no queue pair"),
        (["--interface", "lo", "--listen", "0.0.0.0"], "is not HOST:PORT"),
        (["--interface", "lo", "--listen", "127.0.0.1:0", "--queue-pairs", "3"], "3 is not a power of two"),
        (["--interface", "lo", "--control", "none"], "none: cannot read"),
        (["--interface", "lo", "--listen", "127.0.0.1:0", "--window=-1s"], "a window cannot be negative"),
        (
            ["--interface", "lo", "--listen", "127.0.0.1:0", "--format", "3"],
            "--format 3: must be a whole number from 1",
        ),
        (["--interface", "lo", "--listen", "127.0.0.1:0", "--threads", "99"], "--threads 99: must be a whole number"),
    ],
)
def test_usage_error_prints_one_line_and_creates_nothing(arguments, what, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["p4", "collect", *arguments, "-o", "out"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert what in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("register qp_number 16 1", ":8: queue pair indices are 0 to 15"),
        ("register qp_number 0 x", ":8: x: not a number; use a number such as 10 or 0x0a"),
        ("register qp_number 0 010", ":8: 010: not a number; use a number such as 10 or 0x0a, without a leading zero"),
        ("register qp_end 0 0x10001", "of queue pair 0 is 1, not a positive multiple of the report size (192 bytes)"),
        ("register qp_end 0 0x10000", "of queue pair 0 is 0, not a positive multiple of the report size (192 bytes)"),
        ("register qp_end 0 0x10000000000000000", "qp_end of queue pair 0 is not an unsigned 64-bit number"),
        ("register qp_key 0 0x100000000", "qp_key of queue pair 0 is not an unsigned 32-bit number"),
        ("register qp_key 0 -1", ":8: -1: not a number"),
        ("register qp_number 0 0 16", "no queue pair"),
    ],
)
def test_inconsistent_control_file_is_an_error(line, what, control):
    control.write_text(f"{CONTROL}{line}\n")
    with pytest.raises(UserError) as error:
        queue_pairs_of_control_file(control, 192)
    assert what in str(error.value)


def test_top_abbreviates_numbers():
    numbers = {0: "0", 999: "999", 1000: "1k", 12_345: "12.3k", 999_999: "1M", 10**9: "1G"}
    assert {number: top.short(number) for number in numbers} == numbers


def test_rates_are_relative_to_the_previous_request():
    rates, names = Rates(), ("flow", "bytes", "last_ns", "throughput_bps")

    def rates_after(*rows):
        batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
        return [row["rate_bps"] for row in rates.add_rates(batch)]

    assert rates_after((0, 1000, 10**9, 5), (1, 10, 10**9, None)) == [5, 0]
    assert rates_after((1, 10, 10**9, None), (2, 7, 0, 9), (0, 3000, 3 * 10**9, 6)) == [0, 9, 8000]


def test_file_that_is_not_a_capture_is_an_error(collect, tmp_path):
    bad = write_file(tmp_path / "bad.pcap", b"no capture at all, but long enough to be looked at")
    code, (*_, last) = collect(bad)
    assert code == 2
    assert f"acapella: error: {bad}: " in last
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("lingering")
def test_used_port_is_an_error(capture, collect, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code, (*_, last) = collect(capture, "--listen", address)
    assert code == 2
    assert f"acapella: error: --listen {address}: cannot listen: " in last
    assert not (tmp_path / "out").exists()


FULL_DISK = """\
import pathlib, shutil, subprocess, sys
from acapella.cli.main import main
directory, size, *arguments = sys.argv[1:]
pathlib.Path(directory).mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", directory], check=True)
code = main(["p4", "collect", *arguments, "-o", f"{directory}/out"])
shutil.copytree(f"{directory}/out", f"{directory}.kept", ignore=shutil.ignore_patterns(".*"))
sys.exit(code)
"""


@pytest.fixture
def full_disk(control, tmp_path):
    """Return a function that runs a collector with many flows and a series row per report on a disk of a given size."""
    require_success(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], "file system in a namespace")
    capture = write_file(tmp_path / "many.pcap", pcap(reports(40_000, flows=20_000)))

    def run_on(size: str) -> tuple:
        arguments = [tmp_path / size, size, capture, "--control", control, "--window", "0"]
        done = run("unshare", "-rm", sys.executable, "-c", FULL_DISK, *arguments)
        return done.returncode, done.stderr.splitlines(), tmp_path / f"{size}.kept"

    return run_on


def rows(path: Path) -> int:
    """Return the number of rows of a Parquet file; 0 if there is none."""
    return pq.read_metadata(path).num_rows if path.exists() else 0


@pytest.mark.soak
def test_full_disk_keeps_rows_that_fit_and_reports_the_others(full_disk):
    """Uses a file system without room for all of the series, and one without room for the flows."""
    code, messages, kept = full_disk("64m")
    assert (code, rows(kept / "flows.parquet"), rows(kept / "series.parquet")) == (0, 20_000, 40_000), messages
    series = (kept / "series.parquet").stat().st_size
    fitted = []
    for size in (core.FLOW_BYTES * 20_000 + series // 2, series // 2):
        code, messages, kept = full_disk(str(size // 4096 * 4096))
        assert code == 75, messages
        found = {name: rows(kept / f"{name}.parquet") for name in ("flows", "series")}
        lost = {"flows": 20_000 - found["flows"], "series": 40_000 - found["series"]}
        lines = [line for line in messages if line.startswith("collector: error: ")]
        for name, count in lost.items():
            line = f"collector: error: {name}.parquet: {found[name]:,} of {found[name] + count:,} rows written: "
            assert any(each.startswith(line) and "No space left on device" in each for each in lines) == bool(count)
        if (kept / "counters.json").exists():
            assert counters_of(kept)["not_written"] == {name: count for name, count in lost.items() if count}
        else:
            assert any("counters.json: cannot write: No space left on device" in line for line in lines)
        assert not [line for line in messages if "Traceback" in line]
        fitted.append((found["flows"], found["series"]))
    assert fitted[0][0] == 20_000 > fitted[1][0] > 0, "space is reserved for the flows"
    assert 40_000 > fitted[0][1] > fitted[1][1] == 0


def test_failed_first_allocation_keeps_the_magic_number(monkeypatch, capture, collect, tmp_path):
    """The allocation for the first row group is undone and repeated with less; the magic number precedes it."""
    allocate, failed = os.posix_fallocate, []

    def fail_once(descriptor, offset, size):
        if not failed:
            failed.append(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", fail_once)
    assert collect(capture)[0] == 0
    assert failed
    for name in ("flows", "series"):
        content = (tmp_path / "out" / f"{name}.parquet").read_bytes()
        assert content[:4] == content[-4:] == b"PAR1", name


def test_failed_sync_of_a_directory_is_an_error_but_loses_no_row(monkeypatch, capture, collect, tmp_path):
    sync = os.fsync

    def fail_for_directories(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_directories)
    code, lines = collect(capture)
    errors = [line for line in lines if "error: " in line]
    assert code == 75
    assert len(errors) == 3
    assert all("cannot sync its directory: Input/output error; the file is complete" in line for line in errors)
    assert counters_of(tmp_path / "out")["not_written"] == {}
    assert (rows(tmp_path / "out" / "flows.parquet"), rows(tmp_path / "out" / "series.parquet")) == (3, 35)
