"""acapella collector: from reports to files, and the questions that a running one answers."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.collector_input import BASE, CONTROL, SLOTS, reports
from acapella_testing.frames.report_frames import BYTES, frame, pcap, report

from acapella.cli.main import main
from acapella.collector import place, refusals, top
from acapella.collector.answers import Rates
from acapella.collector.questions import asked
from acapella.collector.settings import from_control
from acapella_core import collector as core
from acapella_core.errors import UserError


@pytest.fixture
def control(tmp_path) -> Path:
    """A program's control file."""
    path = tmp_path / "qp.control"
    path.write_text(CONTROL)
    return path


@pytest.fixture
def capture(tmp_path) -> Path:
    """30 reports of 3 flows, and a frame to a queue pair that there is not."""
    path = tmp_path / "reports.pcap"
    stray = frame(report(2), psn=0, address=BASE, queue_pair=9)
    path.write_bytes(pcap([*reports(30), stray]))
    return path


def test_a_capture_becomes_flows_series_and_counters(capture, control, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["collector", "run", str(capture), "--control", str(control), "-o", str(out)]) == 0
    said = capsys.readouterr().err
    assert "30 reports, 3 flows; refused 1 frames (1 bad_qp), 0 lost by gaps" in said
    rows = duckdb.sql(f"select src_port, bytes, handshake_rtt_ns, reports from '{out}/flows.parquet' order by all")
    assert rows.fetchall() == [(1000 + n, 10_000 * (1 + n), 1_500_000 + 1_000_000 * n, 10) for n in range(3)]
    assert duckdb.sql(f"select sum(bytes) from '{out}/series.parquet'").fetchall() == [(60_000,)]
    counters = json.loads((out / "counters.json").read_text())
    assert (counters["reports"]["accepted"], counters["reports"]["bad_qp"]) == (30, 1)
    assert counters["captures"] == [{"file": "reports.pcap", "records": 31, "end": "clean", "detail": ""}]
    assert "4660" not in json.dumps(counters) + said  # the key
    assert {path.name for path in out.iterdir()} == {*place.RESULTS, place.LOCK}
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    assert out.stat().st_mode & 0o777 == 0o700


NOTHING_TAKEN = {  # a line of the control file that is wrong: 30 reports, and the frame of another queue pair
    "register qp_key 0 7": "30 are of a wrong key (bad_key); qp_key has to be the program's: see ",
    "register qp_number 0 7": "all are to a queue pair that there is not (bad_qp); ",
    f"register qp_base 0 {BASE + BYTES[2] * SLOTS - BYTES[2] + 1}\nregister qp_end 0 {BASE + BYTES[2] * SLOTS + 1}": (
        "30 are to an address beside the ring (out_of_bounds); "
    ),
    "register qp_psn 0 100": "30 are older than the first number (psn_duplicate); ",
}


def test_a_capture_in_which_every_report_was_refused_is_an_error(capture, control, tmp_path, capsys):
    for number, (wrong, what) in enumerate(NOTHING_TAKEN.items()):
        out = tmp_path / str(number)
        control.write_text(f"{CONTROL}{wrong}\n")
        assert main(["collector", "run", str(capture), "--control", str(control), "-o", str(out)]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith(f"collector: error: {capture}: none of 31 frames was taken, {what}")
        assert last.endswith("; the tables are empty; exit code 1")
        assert json.loads((out / "counters.json").read_text())["reports"]["accepted"] == 0


def test_a_capture_of_no_reports_is_an_error_and_one_of_no_frames_is_none(control, tmp_path, capsys):
    for name, frames, code in (("other", [b"\0" * 60], 1), ("empty", [], 0)):
        (tmp_path / name).write_bytes(pcap(frames))
        words = ["--control", str(control), "-o", str(tmp_path / f"{name}.out")]
        assert main(["collector", "run", str(tmp_path / name), *words]) == code
    said = capsys.readouterr().err.splitlines()
    assert "all are no RoCEv2 (not_roce); name a file that acapella p4 run --out wrote" in said[-3]


def test_a_capture_whose_bytes_are_damaged_is_exit_code_1_and_one_that_is_cut_a_warning(control, tmp_path, capsys):
    good = pcap(reports(6))
    record = good[24:]  # as a header whose length cannot be
    for name, rest, code in (("cut", record[:100], 0), ("damaged", b"\xff" * 100, 1)):
        (tmp_path / name).write_bytes(good + rest)
        out = tmp_path / f"{name}.out"
        assert main(["collector", "run", str(tmp_path / name), "--control", str(control), "-o", str(out)]) == code
        said = capsys.readouterr().err
        assert f"collector: {name}: " in said and "; what is whole before it was read" in said
        assert ("exit code 1" in said) == bool(code)
        assert "6 reports, 3 flows" in said


def test_flows_that_the_table_has_no_room_for_are_an_error(capture, control, tmp_path, capsys):
    words = ["--control", str(control), "-o", str(tmp_path / "out"), "--memory", "1"]
    assert main(["collector", "run", str(capture), *words]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        "collector: error: 30 of 30 reports are of flows that found no room in the table (table_full)"
    )
    assert last.endswith("give --memory more; exit code 1")
    assert json.loads((tmp_path / "out" / "counters.json").read_text())["reports"]["table_full"] == 30


def test_other_traffic_of_an_interface_is_no_report_that_was_refused():
    live = SimpleNamespace(captures=[], interface="eth9", control=None)
    counters = dict.fromkeys((*refusals.VERDICTS, "accepted", "from_memory"), 0) | {"not_roce": 5}
    assert refusals.nothing_taken(counters, live) is None
    assert refusals.nothing_taken(counters | {"bad_key": 2}, live) == (
        "eth9: none of 2 frames was taken, all are of a wrong key (bad_key); "
        "qp_key has to be the program's: those of --listen are new with each session"
    )
    assert refusals.nothing_taken(counters | {"bad_key": 2, "from_memory": 1}, live) is None


def test_results_are_replaced_only_where_that_is_said(capture, control, tmp_path, capsys):
    words = ["collector", "run", str(capture), "--control", str(control), "-o", str(tmp_path / "out"), "--no-series"]
    assert main(words) == 0
    assert not (tmp_path / "out" / "series.parquet").exists()
    capsys.readouterr()
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "has results already: flows.parquet, counters.json; name another directory, or say --replace" in line
    assert main([*words, "--replace"]) == 0


def test_sql_asks_a_collector_that_has_ended(capture, control, tmp_path, capsys):
    out = str(tmp_path / "out")
    main(["collector", "run", str(capture), "--control", str(control), "-o", out])
    capsys.readouterr()
    query = "select max(bytes) as most, (select value from counters where name = 'bad_qp') as bad from flows"
    assert main(["collector", "sql", out, query, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "most,bad\n30000,1\n"
    for bad, what in {
        "select * from flow": "Table with name flow does not exist",
        "select": "Parser Error",
        "drop table flows": "read only",
        "select 1; select 2": "one statement, please",
    }.items():
        assert main(["collector", "sql", out, bad]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert what in line
        assert "catalog" not in line and "acapella index" not in line


def test_where_nothing_ran_top_and_sql_say_so(tmp_path, capsys):
    for words, what in (
        (["sql", str(tmp_path), "select 1"], "no collector runs here, and none has ended here"),
        (["top", str(tmp_path)], "no collector runs there"),
        (["top", str(tmp_path / "none")], "there is no such directory"),
    ):
        assert main(["collector", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert what in line


@pytest.fixture
def lingering(monkeypatch):
    """Captures do not end for the collector until it is told to stop, as an interface does not."""
    feed = core.Collector.feed

    def linger(self, path, attend, *limits):
        end = feed(self, path, attend, *limits)
        while not attend():
            time.sleep(0.01)
        return end

    monkeypatch.setattr(core.Collector, "feed", linger)


def meanwhile(do):
    """Do something in a thread once a collector in this one runs, then end that by SIGTERM; what went wrong."""
    failures = []

    def attempt():
        try:
            do()
        except BaseException as failure:
            failures.append(failure)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # once more, as Snakemake does behind a Ctrl-C: nothing is lost

    thread = threading.Thread(target=attempt)
    thread.start()
    return thread, failures


def when_it_answers(out: Path, flows: int):
    """A connection to the collector of a directory, once it has so many flows."""
    deadline = time.monotonic() + 180  # never reached but where it hangs
    while time.monotonic() < deadline:
        ask = asked(out) if out.is_dir() else None
        if ask and ask("state")["state"]["reports"]["flows"] >= flows:
            return ask
        time.sleep(0.01)
    raise TimeoutError(out)


def test_a_running_collector_answers_and_ends_with_its_results(capture, control, tmp_path, lingering, capsys):
    out = tmp_path / ("a" * 120)  # longer than the path of a socket may be
    again = ["collector", "run", str(capture), "--control", str(control), "-o", str(out)]
    shown = {}

    def look():
        with when_it_answers(out, 3) as ask:
            shown["by rtt"] = [flow["src_port"] for flow in ask("top", by="rtt", count=2)["flows"]]
            for question in ({"ask": "nothing"}, {"ask": "top", "count": True}, {"ask": "top", "by": []}):
                with pytest.raises(UserError, match=r"ask is none of|count is not|by is none of"):
                    ask(**question)
        query = "select count(*) n from flows"
        for words in (["top", out, "-n", "1"], ["sql", out, query, "--format", "csv"], again[1:]):
            command = [sys.executable, "-m", "acapella.cli.main", "collector", *map(str, words)]
            shown[words[0]] = subprocess.run(command, capture_output=True, text=True, check=False)
        shown["mode"] = (out / place.SOCKET).stat().st_mode & 0o777

    thread, failures = meanwhile(look)
    assert main(again) == 0
    thread.join()
    assert not failures, failures
    assert shown["by rtt"] == [1002, 1001]
    line = shown["top"].stdout.splitlines()[-1].split()
    assert line == ["30k", "10", "0b/s", "3.5ms", "10", "10.0.0.1:1002", "→", "10.0.0.2:80", "TCP"]
    assert shown["sql"].stdout == "n\n3\n"
    assert shown["run"].returncode == 2
    assert shown["run"].stderr.startswith(f"acapella: error: {out}: a collector runs in this directory")
    assert shown["mode"] == 0o600
    assert {path.name for path in out.iterdir()} == {*place.RESULTS, place.LOCK}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "reports come from captures, or --interface, or --rdma-device"),
        (
            ["--interface", "none0", "--listen", "127.0.0.1:0"],
            "interface none0: there is no such interface; see ip link",
        ),
        (["--rdma-device", "mlx5_9", "--listen", "127.0.0.1:0"], "an RDMA device gives numbers of its own"),
        (["--rdma-device", "mlx5_9", "--rdma-peer", "10.0.0.1", "--listen", "127.0.0.1:0"], "RDMA device mlx5_9: "),
        (["none.pcap"], "none.pcap: there is no such file"),
        (["--interface", "lo"], "no queue pair"),
        (["--interface", "lo", "--listen", "0.0.0.0"], "is not HOST:PORT"),
        (["--interface", "lo", "--listen", "127.0.0.1:0", "--queue-pairs", "3"], "3 is no power of two"),
        (["--interface", "lo", "--control", "none"], "none: cannot read"),
        (["--interface", "lo", "--listen", "127.0.0.1:0", "--window=-1s"], "a window is not negative"),
        (["--interface", "lo", "--listen", "127.0.0.1:0", "--format", "3"], "'3' is not a format of reports"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(words, what, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["collector", "run", *words, "-o", "out"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert what in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("register qp_number 16 1", ":8: there are 16 queue pairs, from 0"),
        ("register qp_number 0 x", ":8: not a number; write it as 10 or 0x0a"),
        ("register qp_end 0 0x10001", "qp_end - qp_base of queue pair 0 is 1, not a multiple of a report's 192 bytes"),
        ("register qp_key 0 0x100000000", "qp_key of queue pair 0 has more than 32 bits"),
        ("register qp_number 0 0 16", "sets up no queue pair"),
    ],
)
def test_a_control_file_that_contradicts_itself_is_one_line(line, what, control):
    control.write_text(f"{CONTROL}{line}\n")
    with pytest.raises(UserError) as error:
        from_control(control, 192)
    assert what in str(error.value)


def test_numbers_for_people_are_short():
    assert [top.short(value) for value in (0, 999, 1000, 12_345, 999_999, 10**9)] == [
        "0",
        "999",
        "1k",
        "12.3k",
        "1M",
        "1G",
    ]


def test_rates_are_since_the_look_before():
    schema = pa.schema(
        [("flow", pa.uint32()), ("bytes", pa.uint64()), ("last_ns", pa.int64()), ("throughput_bps", pa.uint64())]
    )

    def look(*rows):
        return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    rates = Rates()
    assert [row["rate_bps"] for row in rates.beside(look((0, 1000, 10**9, 5), (1, 10, 10**9, None)))] == [5, 0]
    later = look((1, 10, 10**9, None), (2, 7, 0, 9), (0, 3000, 3 * 10**9, 6))
    assert [row["rate_bps"] for row in rates.beside(later)] == [0, 9, 8000]


def test_a_capture_that_is_none_is_one_line(control, tmp_path, capsys):
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"no capture at all, but long enough to be looked at")
    assert main(["collector", "run", str(bad), "--control", str(control), "-o", str(tmp_path / "out")]) == 2
    assert f"acapella: error: {bad}: " in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_port_that_is_taken_is_one_line(capture, control, tmp_path, capsys, lingering):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        words = ["--control", str(control), "--listen", address, "-o", str(tmp_path / "out")]
        assert main(["collector", "run", str(capture), *words]) == 2
    assert f"acapella: error: --listen {address}: cannot listen: " in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


FULL_DISK = """\
import pathlib, shutil, subprocess, sys
from acapella.cli.main import main
directory, size, *words = sys.argv[1:]
pathlib.Path(directory).mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", directory], check=True)
code = main(["collector", "run", *words, "-o", f"{directory}/out"])
shutil.copytree(f"{directory}/out", f"{directory}.kept", ignore=shutil.ignore_patterns(".*"))
sys.exit(code)
"""


@pytest.fixture
def full_disk(control, tmp_path):
    """A run of many flows, and of a row of the series per report, into a file system of a size; skips where none is."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if (found := subprocess.run(probe, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"no file system in a namespace: {found.stderr}")
    capture = tmp_path / "many.pcap"
    capture.write_bytes(pcap(reports(40_000, flows=20_000)))

    def run(size: str) -> tuple:
        directory = tmp_path / size
        words = [str(directory), size, str(capture), "--control", str(control), "--window", "0"]
        command = ["unshare", "-rm", sys.executable, "-c", FULL_DISK, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.splitlines(), directory.with_name(f"{size}.kept")

    return run


def rows(path: Path) -> int:
    """Rows of a Parquet file; 0 if there is none."""
    return pq.read_metadata(path).num_rows if path.exists() else 0


def test_on_a_full_disk_what_fits_is_kept_and_the_rest_is_named(full_disk):
    """In a file system without room for all of the series, and in one without room for the flows."""
    code, said, kept = full_disk("64m")
    assert (code, rows(kept / "flows.parquet"), rows(kept / "series.parquet")) == (0, 20_000, 40_000), said
    series = (kept / "series.parquet").stat().st_size
    fitted = []
    for size in (core.FLOW_BYTES * 20_000 + series // 2, series // 2):
        code, said, kept = full_disk(str(size // 4096 * 4096))
        assert code == 75, said
        found = {name: rows(kept / f"{name}.parquet") for name in ("flows", "series")}
        lost = {"flows": 20_000 - found["flows"], "series": 40_000 - found["series"]}
        lines = [line for line in said if line.startswith("collector: error: ")]
        for name, count in lost.items():
            line = f"collector: error: {name}.parquet: {found[name]:,} of {found[name] + count:,} rows are written: "
            assert any(each.startswith(line) and "No space left on device" in each for each in lines) == bool(count)
        if (kept / "counters.json").exists():
            assert json.loads((kept / "counters.json").read_text())["not_written"] == {
                k: v for k, v in lost.items() if v
            }
        else:
            assert any("counters.json: cannot write: No space left on device" in line for line in lines)
        assert not [line for line in said if "Traceback" in line]
        fitted.append((found["flows"], found["series"]))
    assert fitted[0][0] == 20_000 > fitted[1][0] > 0, "the flows have their space kept free"
    assert 40_000 > fitted[0][1] > fitted[1][1] == 0
