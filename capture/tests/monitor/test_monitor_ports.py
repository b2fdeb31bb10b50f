"""A monitor that receives from ports: a veth, a memory ring, and a capture through DPDK's net_pcap."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing import c_programs
from acapella_testing.capture import veth
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import Flow, Schedule
from acapella_testing.oracles import naive_monitor as naive

from acapella_capture.monitor import expected, live, program, result

COMMAND = (Path(sys.executable).parent / "acapella", "monitor")
FLOWS = [
    Flow(150, 10_000, 30 + index, "prbs31", encapsulation) for index, encapsulation in enumerate(("", "vlan", "ipip"))
]
COUNTS = ("packets", "unique", "lost", "duplicates", "reordered", "discontinuities", "extent_max", "bits_checked",
          "bit_errors")  # fmt: skip


def naive_rows(directory: Path) -> list[dict]:
    """Return what has to be counted of each flow."""
    offsets = {row["flow"]: row["stamp_offset"] for row in traffic.expected(FLOWS)["flows"]}
    sent = naive.packets_sent(directory / "sent.pcap", offsets)
    by_flow, _ = naive.arrivals(directory / "arrived.pcap", sent, offsets)
    return [naive.row_of(by_flow[index], flow.packets) for index, flow in enumerate(FLOWS)]


@pytest.mark.usefixtures("monitor_on_path")
def test_packets_of_a_veth_are_counted_as_scheduled(tmp_path):
    arrived, path = traffic.write(tmp_path, FLOWS, Schedule(seed=8, jitter_ns=50_000, loss=0.1, duplication=0.1))
    with veth.namespace(("left0", "right0")) as prefix:
        argv = [*prefix, *COMMAND, "--interface", "right0", "--expected", tmp_path / "sent.generated.json",
                "--stop-when-idle", "1", "-o", tmp_path / "tables"]  # fmt: skip
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as monitor:
            try:
                assert "listening on net_af_packet0" in monitor.stderr.readline()
                veth.send_capture(prefix, "left0", arrived)
                veth.send_capture(prefix, "right0", arrived)  # not received: this machine sends it
                out, err = monitor.communicate(timeout=60)
            finally:
                monitor.kill()
    assert monitor.returncode == 0, err
    assert "right0" in out
    rows = rows_of_csv(tmp_path / "tables" / "monitor_flows.csv")
    (port,) = rows_of_csv(tmp_path / "tables" / "monitor_ports.csv")
    assert int(port["received"]) == len(path.arrived)
    assert (int(port["lost"]), int(port["duplicates"])) == (path.lost, path.duplicated)
    assert [port[name] for name in ("dropped_kernel", "missed", "foreign", "invalid")] == ["0"] * 4
    for row, wanted in zip(rows, naive_rows(tmp_path), strict=True):
        assert {name: int(row[name]) for name in COUNTS} == {name: wanted[name] for name in COUNTS}
        assert 0 < int(row["gap_min_ns"]) <= int(row["gap_max_ns"])


def rows_of_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table without quoted text."""
    head, *lines = path.read_text().splitlines()
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


@pytest.mark.usefixtures("monitor_on_path")
def test_capture_through_net_pcap_has_the_same_counts(tmp_path):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule(seed=9, jitter_ns=50_000, loss=0.1, duplication=0.1))
    wanted = expected.read(tmp_path / "sent.generated.json")
    device = f"net_pcap0,rx_pcap={arrived}"
    settings = program.Settings(interfaces=(device,), wanted=wanted, idle_s=0.3)
    (port,) = program.count(settings, tmp_path).ports
    for flow, naive_row in zip(port.flows, naive_rows(tmp_path), strict=True):
        assert [int(flow[name]) for name in ("packets", "unique", "duplicates", "reordered")] == [
            naive_row[name] for name in ("packets", "unique", "duplicates", "reordered")
        ]
        assert abs(int(flow["latency_min_ns"]) - naive_row["latency_min_ns"]) <= 1000  # in us


def test_packets_of_a_ring_are_counted(monitor_program):
    done = c_programs.run_tests("monitor_ring")
    assert done.returncode == 0, done.stdout + done.stderr


def event(received: int) -> dict:
    """Return an event with a port and a flow."""
    names = ("received", "bytes", "stamped", "duplicates", "reordered", "foreign", "malformed", "dropped")
    flow = {"flow": 3, "packets": received, "missing": 1, "duplicates": 0, "reordered": 2, "latency_ns": 1500}
    flow["jitter_ns"] = 20
    return {"event": "counts", "ports": [{"name": "eth1", **dict.fromkeys(names, received), "flows": [flow]}]}


class Terminal(io.StringIO):
    """Text that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_live_table_replaces_the_previous_one():
    out = Terminal()
    shown = live.Live(out)
    shown.show(event(1000), 0.5)
    first = out.getvalue()
    shown.show(event(3000), 0.5)
    lines = first.removeprefix(live.CLEAR).splitlines()
    second = out.getvalue().removeprefix(first)
    assert second.startswith(live.UP.format(len(lines)) + live.CLEAR)
    assert second.splitlines()[1].split()[:3] == ["eth1", "4,000", "0.0"]
    assert second.splitlines()[-1].split() == ["3", "3,000", "1", "0", "2", "1.5", "us", "20", "ns"]


def test_without_a_terminal_there_is_no_live_table():
    out = io.StringIO()
    live.Live(out).show(event(5), 1)
    assert out.getvalue() == ""


def test_lines_of_libraries_are_no_events():
    lines = iter([b"EAL: hello\n", json.dumps(event(1)).encode() + b"\n"])
    assert [each["event"] for each in program.events(lines)] == ["counts"]


def test_incomplete_result_is_an_error(tmp_path):
    path = tmp_path / "result"
    path.write_bytes(result.MAGIC + (1).to_bytes(8, "little") + bytes(100))
    with pytest.raises(Exception, match="is not a complete result"):
        result.read(path)
