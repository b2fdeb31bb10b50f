"""End-to-end tests of flow reports: a capture through P4 program and collector, compared with its digest."""

import contextlib
import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import traces
from acapella_testing.frames.compressed import damaged
from acapella_testing.frames.report_frames import icrc
from acapella_testing.native_programs import native_program
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import children_of, run
from acapella_testing.requirements import require, require_programs
from acapella_testing.waiting import wait_until
from scapy.utils import RawPcapReader

from acapella.cli import main as cli
from acapella.common import queries
from acapella.flowreports import program
from acapella.flowreports.settings import Settings, Sketch
from acapella_core.errors import UserError

needs_program = pytest.mark.usefixtures("data_plane")
UNDERLAY = Path(__file__).resolve().parents[4] / "shared" / "tools" / "underlay.py"
CORPUS = UNDERLAY.parents[1] / "corpus"
EXACT = ("rtt_syn", "rtt_ack", "bytes", "packets", "iat", "iat_reports")
AT_REPORTS = ("iat_reports", "packet_size", "bytes_in_flight", "acknowledged_bytes", "throughput_reports")


def table(directory: Path, name: str) -> list[dict]:
    """Return the rows of a result."""
    return pq.read_table(directory / f"{name}.parquet").to_pylist()


def reports(capture: Path, output: Path, *options: str) -> int:
    """Run `acapella p4 reports` and return its exit code."""
    return cli.main(["p4", "reports", str(capture), "-o", str(output), *options])


def counts_of(directory: Path) -> dict[tuple[str, str], int]:
    """Return the counters by stage and name."""
    return {(row["stage"], row["counter"]): row["value"] for row in table(directory, "counts")}


def by_measure(directory: Path) -> dict[str, dict]:
    """Return the rows of accuracy by measure."""
    return {row["measure"]: row for row in table(directory, "accuracy")}


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """Return the results of mixed traffic over several resets, including those of a sketch that is too small."""
    directory = tmp_path_factory.mktemp("busy")
    parts = [traces.busy_port(traces.START_NS + n * 4_000 * traces.MS, shift=n) for n in range(5)]
    capture = traces.write_pcap(directory / "busy.pcap", traces.merged(*parts), snaplen=262144)
    assert reports(capture, directory / "made", "--epoch", "3s", "--sketch", "1x8", "4x1048576") == 0
    return directory / "made"


@needs_program
@pytest.mark.parametrize("measure", EXACT)
def test_values_are_exact_with_a_large_sketch(measure, busy):
    row = by_measure(busy)[measure]
    assert row["n"] == row["equal"] > 0
    assert row["missing"] == 0


@needs_program
def test_rates_are_exact_and_a_flow_in_a_tunnel_is_outside(busy):
    found = by_measure(busy)
    assert found["throughput_reports"]["equal"] == found["throughput_reports"]["n"]
    assert found["bytes"]["outside"] == 1, "the flow inside GRE"
    tunnels = {row["ip_proto"] for row in table(busy, "compared_flows") if row["found"] == "collector"}
    assert tunnels == {47}, "the program sees only the flow of the tunnel itself"


@needs_program
def test_report_between_packets_with_the_same_time_is_exact(tmp_path):
    """The second ACK of each flow causes a report; data of the same time follows it in the capture.

    Later, data follows an acknowledgment of the same time, and at the end, an acknowledgment follows data.
    """
    trace = []
    for n in range(12):
        c = traces.Connection("vlan", traces.START_NS + n * traces.MS, ports=(40_000 + n, 443))
        c.send(0, "A", after_ns=1_100 * traces.MS).send(0, "A", after_ns=0)
        c.send(0, "PA", b"d" * 1000, after_ns=1_100 * traces.MS).send(0, "A").send(1, "A")
        c.send(0, "PA", b"e" * 500).send(1, "A", after_ns=0).send(0, "PA", b"f" * 600)
        trace += c.send(0, "PA", b"g" * 500, after_ns=0).send(1, "A").trace
    assert reports(traces.write_pcap(tmp_path / "same.pcap", traces.merged(trace), snaplen=262144), tmp_path) == 0
    found = by_measure(tmp_path)
    for measure in AT_REPORTS:
        assert found[measure]["n"] == found[measure]["equal"] > 0, measure
    sizes = Counter(row["exact"] for row in table(tmp_path, "pairs") if row["measure"] == "packet_size")
    means = [40, 1040, 40, 500 + 40, (500 + 600) / 2 + 40, 40]  # five of the client, the last one of the server
    assert sizes == {size: 12 * count for size, count in Counter(means).items()}
    ambiguous = {name: row["ambiguous"] for name, row in found.items() if row["ambiguous"]}
    assert ambiguous == {"iat_reports": 12, "bytes_in_flight": 12, "acknowledged_bytes": 12}


@needs_program
def test_measures_per_report_are_counted_by_bins(busy):
    expected = Counter(
        (row["measure"], *(round(20 * math.log10(row[name])) for name in ("exact", "measured")))
        for row in table(busy, "pairs")
        if row["measure"] in AT_REPORTS and row["exact"] and row["measured"] and not row["ambiguous"]
    )
    con = queries.connect()
    con.read_parquet(str(busy / "pairs.parquet")).create_view("pairs")
    rows = con.sql(queries.text("flowreports", "by_report")).fetchall()
    assert {row[:3]: row[3] for row in rows} == expected
    assert {row[0] for row in rows} == set(AT_REPORTS)


@needs_program
def test_sketch_resets_lose_no_bytes(busy):
    counts = json.loads((busy / "program.json").read_text())
    assert counts["epochs"] >= 6
    assert counts["probes"] > 0
    assert max(row["reports"] or 0 for row in table(busy, "compared_flows")) > 3


@needs_program
def test_small_sketch_never_undercounts(busy):
    rows = {(row["rows"], row["cells"], row["measure"]): row for row in table(busy, "memory")}
    assert {key[:2] for key in rows} == {(1, 8), (4, 65536), (4, 1 << 20)}
    small, large = rows[1, 8, "bytes"], rows[4, 1 << 20, "bytes"]
    assert small["equal"] < small["n"]
    assert large["equal"] == large["n"]
    assert small["error_median"] > 0
    assert small["load"] > 1 > large["load"]
    assert small["memory_bytes"] == 8 * 32


@needs_program
def test_windows_without_a_reason_are_exact_with_a_small_sketch(busy, tmp_path):
    """Some windows are wrong, and all of these have reason sketch_load."""
    assert reports(busy.parent / "busy.pcap", tmp_path, "--epoch", "1s", "--size", "2x32") == 0
    windows = table(tmp_path, "judged_windows")
    known, shared = ([row for row in windows if row["reason"] == reason] for reason in (None, "sketch_load"))
    assert known
    assert all(row["bytes"] == row["bytes_measured"] for row in known)
    assert any(row["bytes"] < row["bytes_measured"] for row in shared)
    assert all(row["bytes"] <= row["bytes_high"] and row["bytes_low"] is None for row in shared)


@needs_program
def test_counters_account_for_all_reports(busy):
    counts = counts_of(busy)
    without = sum(value for (stage, name), value in counts.items() if stage == "program" and "no_report" in name)
    assert counts["program", "in"] + counts["program", "probes"] == counts["program", "reports"] + without
    sent = counts["balance", "reports_sent"]
    assert sent == counts["program", "reports"] == counts["collector", "frames"]
    assert sent == counts["balance", "reports_accepted"] + counts["balance", "reports_not_taken"]
    assert counts["balance", "reports_not_taken"] == counts["collector", "bad_icrc"] == 0
    seconds = table(busy, "seconds")
    assert sum(row["reports"] + row["probes"] for row in seconds) == sent
    probes = program.report_times(busy / "reports.pcap", Settings())["probe"].to_pylist()
    assert sum(row["probes"] for row in seconds) == sum(probes)


@needs_program
def test_lost_reports_are_counted(busy, tmp_path):
    """Remove records from the file of reports: the collector's counters show the gap."""
    from acapella_core.collector import Collector, Options, QueuePair  # noqa: PLC0415

    content, record = (busy / "reports.pcap").read_bytes(), 16 + 70 + 192 + 4
    (tmp_path / "cut.pcap").write_bytes(content[: 24 + 5 * record] + content[24 + 9 * record :])
    ring = Settings().ring
    with Collector(
        [QueuePair(ring.number, ring.key, ring.base, ring.slots, ring.psn)], Options(series_ns=None)
    ) as collector:
        collector.feed(tmp_path / "cut.pcap")
        counters = collector.finish()
    assert (counters["accepted"], counters["psn_gap_lost"]) == ((len(content) - 24) // record - 4, 4)


@needs_program
def test_tshark_dissects_reports_and_their_icrc(busy):
    """tshark 4.0 shows the ICRC but does not check it, so it is compared with one computed by zlib."""
    require_programs("tshark")
    fields = ("frame.protocols", "infiniband.bth.opcode", "_ws.malformed", "_ws.expert.message", "ip.checksum.status")
    command = ["tshark", "-r", str(busy / "reports.pcap"), "-T", "fields", "-o", "ip.check_checksum:TRUE"]
    command += [word for field in (*fields, "infiniband.invariant.crc") for word in ("-e", field)]
    lines = run(*command, check=True).stdout.splitlines()
    dissected, found = zip(*(line.rsplit("\t", 1) for line in lines), strict=True)
    assert set(dissected) == {"eth:ethertype:ip:udp:infiniband:data\t42\t\t\t1"}, "1: the IPv4 checksum is good"
    with RawPcapReader(str(busy / "reports.pcap")) as reader:
        expected = [f"0x{icrc(data[14:-4]).hex()}" for data, _ in reader]
    assert list(found) == expected


@pytest.mark.parametrize(
    ("script", "code"),
    [
        *[("#!/bin/sh\nkill -KILL $$\n", 75), ("#!/bin/sh\nexit 127\n", 75), ("not a program", 75)],
        *[("#!/bin/sh\nkill -SEGV $$\n", 2), ("#!/bin/sh\nexit 2\n", 2)],
    ],
    ids=["out of memory", "no library", "not executable", "crash", "error"],
)
def test_program_that_the_machine_ends_is_no_fault_of_the_capture(tmp_path, monkeypatch, script, code):
    loader = write_file(tmp_path / "loader", script)
    loader.chmod(0o755)
    monkeypatch.setattr(program, "loader", lambda: str(loader))
    assert reports(traces.write_pcap(tmp_path / "a.pcap", traces.busy_port()), tmp_path / "made") == code


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["ends", "ignores SIGTERM"])
def test_program_that_never_ends_is_stopped_at_the_time_limit(tmp_path, monkeypatch, capsys, trap):
    loader = write_file(tmp_path / "loader", f"#!/bin/sh\n{trap}while :; do read line < /dev/zero; done\n")
    loader.chmod(0o755)
    monkeypatch.setattr(program, "loader", lambda: str(loader))
    monkeypatch.setattr(program, "TERMINATION_S", 0.5)
    capture = traces.write_pcap(tmp_path / "a.pcap", traces.busy_port())
    assert reports(capture, tmp_path / "made", "--max-seconds", "2") == 75
    assert "a: not finished after 2 s; raise --max-seconds" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["5x16", "4x100", "4", "4x0", "1x2097152", "-1x4"])
def test_invalid_sketch_size_is_an_error(text):
    with pytest.raises(UserError, match=re.escape(f"not a sketch size: {text}")):
        Sketch.of(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([".", "-o", "made"], ".: is a directory, not a capture"),
        (["none.pcap", "--acap=a", "--flows=f", "-o", "made"], "a: no such file; run acapella digest first"),
        (["none.pcap", "-o", "none.pcap"], "none.pcap: not a directory; specify a directory with -o"),
    ],
)
def test_wrong_types_of_paths_are_errors(tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    capture = traces.write_pcap(tmp_path / "none.pcap", [])
    assert cli.main(["p4", "reports", *words]) == 2
    assert capsys.readouterr().err == f"acapella: error: {message}\n"
    assert list(tmp_path.iterdir()) == [capture]


@pytest.mark.soak
@needs_program
def test_truncated_capture_is_reported_on_up_to_its_end(busy, tmp_path):
    """Other flow meters do not prevent this, although softflowd fails on a truncated capture."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((busy.parent / "busy.pcap").read_bytes()[:-5])
    assert reports(cut, tmp_path / "made") == 0
    seen, complete = ({row["tool"]: row for row in table(path, "tools")} for path in (tmp_path / "made", busy))
    assert 0 < seen["digest"]["packets"] <= complete["digest"]["packets"]
    assert {name: row["skipped"] for name, row in seen.items()} == {
        name: row["skipped"] for name, row in complete.items()
    }


def check_damage(busy, capture: Path, capsys, error: str) -> None:
    """Check that the reports of a capture damaged after all frames equal those of `busy`, but the command fails."""
    assert reports(capture, capture.parent / "made", "--epoch", "3s") == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.startswith(error)
    assert last_line.endswith("; exit code 1")
    found = [row | {"sample": "busy"} for row in table(capture.parent / "made", "compared_flows")]
    assert found == table(busy, "compared_flows")


@pytest.mark.soak
@needs_program
def test_damaged_capture_is_reported_on_up_to_the_damage(busy, tmp_path, capsys):
    """The damage is a record of impossible length after all frames. With an existing digest, the exit code is 0."""
    wild, acap, flows = tmp_path / "wild.pcap", str(tmp_path / "a.parquet"), str(tmp_path / "f.parquet")
    valid = (busy.parent / "busy.pcap").read_bytes()
    wild.write_bytes(valid + struct.pack("<IIII", 1, 1, 2**28, 2**28) + bytes(100))
    check_damage(busy, wild, capsys, f"acapella: error: wild: at byte {len(valid)}: ")
    assert cli.main(["digest", str(wild), "-o", acap, "--flows", flows, "--engine", "native", "--damaged", "keep"]) == 0
    assert reports(wild, tmp_path / "kept", "--epoch", "3s", "--acap", acap, "--flows", flows) == 0
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.startswith("acapella: warning: wild: at byte ")
    assert re.search(r"; the reports cover only the \d+ complete frames before it$", last_line)


def loader_runs(parent: int) -> bool:
    """Return whether a child of a process is the loader and has opened its (still unnamed) output file."""
    for child in children_of(parent):  # a separate thread starts the loader
        with contextlib.suppress(OSError):  # it has ended, or has not become the loader yet
            links = [path.readlink().name for path in Path(f"/proc/{child}/fd").iterdir()]
            if Path(f"/proc/{child}/exe").resolve().name == program.LOADER:
                return any(link.startswith("#") or link == "reports.pcap.part" for link in links)
    return False


@pytest.mark.soak
@needs_program
def test_damaged_compression_is_an_error(busy, tmp_path, capsys):
    valid = (busy.parent / "busy.pcap").read_bytes()
    path = damaged(tmp_path / "wild.pcap.zst", "zstd", valid, valid)
    check_damage(busy, path, capsys, f"acapella: error: wild: at byte {len(valid)} of the decompressed data: zstd: ")


@pytest.mark.soak
@needs_program
@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_stopped_run_leaves_no_incomplete_reports(busy, tmp_path, number, times):
    long, created = tmp_path / "long.pcap", tmp_path / "made"
    header, records = (content := (busy.parent / "busy.pcap").read_bytes())[:24], content[24:]
    long.write_bytes(header + records * (2**25 // len(records)))
    scratch = new_directory(tmp_path / "tmp")
    command = [sys.executable, "-m", "acapella.cli.main", "p4", "reports", long, "-o", created]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:
        wait_until(lambda: loader_runs(running.pid), running=running)
        for _ in range(times):
            running.send_signal(number)
            time.sleep(0.01)
        assert (running.communicate()[1], running.returncode) == ("acapella: stopped\n", 128 + number)
    assert ([path.name for path in created.iterdir()], list(scratch.iterdir())) == (["control.txt"], [])


@needs_program
def test_outputs_are_private(busy):
    assert (busy / "control.txt").is_file()
    assert {oct(path.stat().st_mode & 0o777) for path in busy.iterdir()} == {"0o600"}


@pytest.mark.soak
@needs_program
def test_accuracy_has_rows_for_the_papers_triggers(tmp_path, capsys):
    """A run with both has the rows of separate runs; the paper's triggers report no UDP flow."""
    capture = traces.write_pcap(tmp_path / "busy.pcap", traces.busy_port(), snaplen=262144)
    for name in ("all", "published", "both"):
        assert reports(capture, tmp_path / name, "--triggers", name, "--sketch", "1x64") == 0
    lines = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    apart = {name: table(tmp_path / name, "accuracy") for name in ("all", "published")}
    together = table(tmp_path / "both", "accuracy")
    for name, rows in apart.items():
        assert {row["triggers"] for row in rows} == {name}
        assert {row["measure"]: row for row in together if row["triggers"] == name} == {
            row["measure"]: row for row in rows
        }
    assert len(together) == len(apart["all"]) + len(apart["published"])
    packets = {row["triggers"]: row for row in together if row["measure"] == "packets"}
    without = sum(row["ip_proto"] != 6 for row in table(tmp_path / "both", "compared_flows") if row["found"] == "both")
    assert packets["published"]["missing"] >= without > packets["all"]["missing"] == 0
    assert [words for words in lines if words[0] == "published"] and ["all", "packets"] in lines
    flows = [row for row in table(tmp_path / "published", "compared_flows") if row["iat_measured_ns"] is not None]
    assert all(row["iat_measured_ns"] == row["iat_at_report_ns"] for row in flows)
    early = [row for row in flows if row["iat_measured_ns"] != row["iat_ns"]]
    assert early and {row["report_reason"] for row in early} == {"earlier_report"}
    for part in ("compared_flows", "judged_windows", "counts", "memory"):  # those of the run with all triggers
        assert table(tmp_path / "both", part) == table(tmp_path / "all", part), part


@needs_program
def test_empty_capture_has_no_flows(tmp_path):
    assert reports(traces.write_pcap(tmp_path / "none.pcap", []), tmp_path / "made") == 0
    assert table(tmp_path / "made", "compared_flows") == table(tmp_path / "made", "seconds") == []


@pytest.mark.soak
@needs_program
def test_wrapped_corpus_agrees_at_the_papers_sketch_size(tmp_path):
    """R2 above 0.99 on values and on logarithms, over at least six resets of 10 s."""
    require(CORPUS.is_dir(), f"no corpus at {CORPUS}")
    capture, created = tmp_path / "wrapped.pcap", tmp_path / "made"
    spread = ["--frames", "60000", "--snaplen", "200", "--seed", "7", "--mean-gap-ns", "1200000"]
    run(sys.executable, UNDERLAY, *spread, "-o", capture, CORPUS / "ndpi", check=True)
    assert reports(capture, created) == 0
    assert json.loads((created / "program.json").read_text())["epochs"] >= 7
    found = by_measure(created)
    for measure in ("rtt_syn", "bytes", "packets"):
        row = found[measure]
        assert row["r2"] > 0.99 and row["r2_log"] > 0.99, (measure, row)
        assert row["error_median"] == row["error_p99"] == 0, (measure, row)
        assert row["missing"] < 0.03 * row["n"], (measure, row)
    for measure in ("iat", "iat_reports", "bytes_in_flight", "acknowledged_bytes"):
        assert found[measure]["equal"] == found[measure]["n"] > 0, (measure, found[measure])
    assert found["loss"]["covered_share"] == found["retransmitted"]["covered_share"] == 1
    compared = table(created, "compared_flows")
    for row in [row for row in compared if row["found"] == "both" and not row["outside"]]:
        exact, measured = row["acknowledged_bytes"], row["acknowledged_measured_bytes"]
        assert exact is None or (measured == exact) == (row["acknowledged_reason"] is None), row
        assert None in (exact, measured) or measured <= exact, row
    assert found["throughput"]["r2"] > 0.99, found["throughput"]
    assert found["throughput"]["r2_log"] > 0.99, found["throughput"]
    assert found["throughput"]["error_median"] == 0, found["throughput"]
    reasons = {row["reason"]: row for row in table(created, "window_reasons")}
    assert reasons["none"]["within"] >= 0.99 * reasons["none"]["windows"]
    windows = table(created, "judged_windows")
    assert sum(row["windows"] for row in reasons.values()) == len(windows)
    seen = [row for row in windows if row["reason"] not in ("outside", "extra")]
    within = sum(abs(row["bytes_measured"] - row["bytes"]) <= row["bytes"] / 10 for row in seen)
    assert within >= 0.99 * len(seen), reasons
    for row in windows:
        bounded = row["reason"] in (None, "no_slot", "straddle")
        assert (row["bytes_low"] is not None) == (row["bytes_high"] is not None) == bounded
        assert not bounded or row["bytes_low"] <= row["bytes"] <= row["bytes_high"], row
    assert all(row["held"] == row["bounded"] for row in reasons.values())
    assert sum(row["bounded"] for row in reasons.values()) == sum(row["bytes_high"] is not None for row in windows)
    flows = {row["flow"]: row["bytes_measured"] for row in compared if row["found"] != "exact"}
    sums = Counter()
    for row in windows:
        sums[row["flow"]] += row["bytes_measured"]
    assert {flow: sums[flow] for flow in flows} == flows
    assert counts_of(created)["balance", "reports_not_taken"] == 0


@pytest.mark.soak
@needs_program
def test_long_flows_at_the_papers_sketch_size_are_exact(tmp_path):
    """Bulk TCP over at least six epochs: ACKs trigger many reports of each flow."""
    capture, created = tmp_path / "long.pcap", tmp_path / "made"
    shape = ["--profile", "iperf", "--frames", "20000", "--flows", "8"]
    run(native_program("acapella-generate"), *shape, "-o", capture, check=True)
    assert reports(capture, created, "--epoch", "3ms", "--interval", "1ms") == 0
    assert json.loads((created / "program.json").read_text())["epochs"] >= 6
    found = by_measure(created)
    for measure in (*EXACT, "throughput_reports"):
        assert found[measure]["equal"] == found[measure]["n"] > 0, measure
        assert found[measure]["missing"] == found[measure]["extra"] == 0, measure
    assert found["bytes"]["r2"] in (None, 1)
    assert found["packets"]["r2"] in (None, 1)
