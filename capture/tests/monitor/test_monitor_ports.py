"""A monitor that receives from ports: a veth, a memory ring, and a capture through DPDK's net_pcap."""

import io
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing import c_programs
from acapella_testing.capture import impaired_path, veth
from acapella_testing.capture.commands import monitors
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated import traffic_models
from acapella_testing.generated.stamped_traffic import Flow, Schedule
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.oracles import naive_monitor as naive
from acapella_testing.waiting import wait_until

from acapella.cli.main import main
from acapella_capture.generate import model
from acapella_capture.generate import program as generator
from acapella_capture.monitor import expected, live, program, result, trials
from acapella_capture.programs.dpdk import FANOUT
from acapella_core.errors import UserError

BOTH_PORTS = ("-i", "right0", "-i", "right1")
FLOWS = [
    Flow(150, 10_000, 30 + index, "prbs31", encapsulation) for index, encapsulation in enumerate(("", "vlan", "ipip"))
]
CLOCK_NS = 10_000_000  # CLOCK_STEP_NS: a clock that differs more from the system clock is set, and counted
COUNTS = ("packets", "unique", "lost", "duplicates", "reordered", "discontinuities", "extent_max", "bits_checked",
          "bit_errors")  # fmt: skip


def naive_rows(directory: Path) -> list[dict]:
    """Return the expected counts of each flow."""
    by_flow, _ = naive.received(directory, traffic.expected(FLOWS)["flows"])
    return [naive.row_of(by_flow[index], flow.packets) for index, flow in enumerate(FLOWS)]


@pytest.mark.soak
@pytest.mark.usefixtures("monitor_on_path")
def test_packets_of_two_ports_are_counted_as_scheduled(tmp_path):
    schedules = Schedule(8, jitter_ns=50_000, loss=0.1, duplication=0.1), Schedule(9, jitter_ns=30_000, loss=0.3)
    directories = [new_directory(tmp_path / str(port)) for port in range(2)]
    captures, outcomes = zip(*map(traffic.write, directories, [FLOWS] * 2, schedules), strict=True)
    with veth.namespace(("left0", "right0"), ("left1", "right1")) as prefix:
        words = [*BOTH_PORTS, "--expected", directories[0] / "sent.generated.json", "-o", tmp_path / "tables"]
        with monitors(prefix, words) as (monitor,):
            veth.send_capture(prefix, "right0", captures[0])  # not received: this machine sends it
            with ThreadPoolExecutor() as senders:
                list(senders.map(veth.send_capture, [prefix] * 2, ("left0", "left1"), captures))
            sizes = [len(outcome.arrived) for outcome in outcomes]
            wait_until(lambda: [impaired_path.arrived(prefix, f"right{n}") for n in (0, 1)] == sizes, running=monitor)
    assert "right1" in monitor.output
    rows = read_rows(tmp_path / "tables" / "monitor_flows.csv")
    ports = read_rows(tmp_path / "tables" / "monitor_ports.csv")
    assert [port["name"] for port in ports] == ["right0", "right1"]
    for number, (port, outcome) in enumerate(zip(ports, outcomes, strict=True)):
        assert int(port["received"]) == len(outcome.arrived)
        assert (int(port["lost"]), int(port["duplicates"])) == (outcome.lost, outcome.duplicated)
        assert [port[name] for name in ("dropped_kernel", "missed", "foreign", "invalid")] == ["0"] * 4
        own = [row for row in rows if row["port"] == str(number)]
        for row, wanted in zip(own, naive_rows(directories[number]), strict=True):
            assert {name: int(row[name]) for name in COUNTS} == {name: wanted[name] for name in COUNTS}
            assert 0 < int(row["gap_min_ns"]) <= int(row["gap_max_ns"])


def models(directory: Path) -> list[Path]:
    """Write two models with different seeds, flows, gaps and sizes."""
    written = []
    for seed, mean_ns, packets in ((3, 1_000_000, (150, 40)), (4, 1_400_000, (60, 90, 120))):
        shape = {"sizes": "{uniform: [100, 300]}", "mean_ns": mean_ns}
        flows = [traffic_models.udp_flow(f"{n}", count, port=6000 + n, **shape) for n, count in enumerate(packets)]
        written.append(write_file(directory / f"model{seed}.yaml", "\n".join([f"seed: {seed}", "flows:", *flows, ""])))
    return written


@pytest.mark.soak
@pytest.mark.usefixtures("monitor_on_path")
def test_simultaneous_generators_are_counted_separately(tmp_path, monkeypatch):
    """A monitor counts the packets of both generators at two ports, a second monitor those of the second generator."""
    built = c_programs.built_or_skip("acapella-dpdk-generate", c_programs.PLAIN)  # starts faster
    monkeypatch.setattr(generator, "executable", lambda: str(built))
    files, wanted = models(tmp_path), []
    for number, path in enumerate(files):
        assert main(["generate", str(path), "-o", str(tmp_path / f"{number}.pcap")]) == 0
        wanted.append(json.loads((tmp_path / f"{number}.pcap.generated.json").read_text()))
    assert wanted[0]["seed"] != wanted[1]["seed"]
    with veth.namespace(("left0", "right0"), ("left1", "right1")) as prefix:
        both_words = [*BOTH_PORTS, "--pattern", "prbs31", "-o", tmp_path / "both"]
        second_words = ["-i", "right1", "--expected", tmp_path / "1.pcap.generated.json", "-o", tmp_path / "one"]
        for wait_s in (2, 8, 32):
            with monitors(prefix, both_words, second_words) as counting:
                at_ns = time.time_ns() + wait_s * 10**9
                if generate_at(prefix, files, at_ns):
                    break
        else:
            pytest.fail("the generators did not start in time")
    assert all("right1" in monitor.output for monitor in counting)
    for directory, port, sent in (("both", 0, wanted[0]), ("both", 1, wanted[1]), ("one", 0, wanted[1])):
        rows = pq.read_table(tmp_path / directory / "monitor_flows.parquet").to_pylist()
        own = [row for row in rows if row["port"] == port]
        names = ("packets", "unique", "bytes", "lost", "duplicates", "reordered", "bit_errors")
        assert [[row[name] for name in names] for row in own] == [
            [flow["packets"], flow["packets"], flow["bytes"], 0, 0, 0, 0] for flow in sent["flows"]
        ]
        counted = pq.read_table(tmp_path / directory / "monitor_ports.parquet").to_pylist()[port]
        assert (counted["received"], counted["bytes"], counted["invalid"]) == (sent["packets"], sent["bytes"], 0)
        for row, flow in zip(own, sent["flows"], strict=True):
            assert row["first_ns"] >= at_ns + flow["start_ns"] - sent["start_ns"] - CLOCK_NS
            assert row["latency_min_ns"] >= -CLOCK_NS


def generate_at(prefix: tuple[str, ...], files: list[Path], at_ns: int) -> bool:
    """Send the packets of two models to left0 and left1; return whether both started at the given time."""
    running = []
    for number, path in enumerate(files):
        compiled = write_file(path.with_suffix(".compiled"), model.read(path, lambda _: ()).text())
        argv = [*prefix, generator.executable(), "--model", str(compiled), "--start-ns", str(at_ns)]
        argv += generator.port_arguments(f"left{number}", mtu=1500)
        running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    messages = [process.communicate()[1] for process in running]
    # a monitor may use the fanout group of a generator, whose number is derived from its process id
    failed = [trials.TOO_LATE in message or FANOUT in message for message in messages]
    assert all(process.returncode == 0 or known for process, known in zip(running, failed, strict=True)), messages
    return not any(failed)


@pytest.mark.usefixtures("monitor_on_path")
def test_capture_through_net_pcap_has_the_same_counts(tmp_path):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule(seed=9, jitter_ns=50_000, loss=0.1, duplication=0.1))
    wanted = expected.read(tmp_path / "sent.generated.json")
    settings = program.Settings(interfaces=(f"net_pcap0,rx_pcap={arrived}",), wanted=wanted, idle_s=0.3)
    (port,) = program.count(settings, tmp_path).ports
    names = ("packets", "unique", "duplicates", "reordered")
    for flow, naive_row in zip(port.flows, naive_rows(tmp_path), strict=True):
        assert [int(flow[name]) for name in names] == [naive_row[name] for name in names]
        assert abs(int(flow["latency_min_ns"]) - naive_row["latency_min_ns"]) <= 1000  # net_pcap has microseconds


@pytest.mark.soak
def test_packets_of_a_ring_are_counted(monitor_program):
    done = c_programs.run_tests("monitor_ring")
    assert done.returncode == 0, done.stdout + done.stderr


def event(received: int) -> dict:
    """Return an event with a port and a flow."""
    names = ("received", "bytes", "stamped", "duplicates", "reordered", "foreign", "malformed", "dropped")
    flow = {"flow": 3, "packets": received, "missing": 1, "duplicates": 0, "reordered": 2}
    port = {"name": "net_af_packet0", **dict.fromkeys(names, received)}
    return {"event": "counts", "ports": [port | {"flows": [flow | {"latency_ns": 1500, "jitter_ns": 20}]}]}


class Terminal(io.StringIO):
    """A text buffer that reports being a terminal."""

    def isatty(self) -> bool:
        return True


def test_live_table_replaces_the_previous_one():
    out = Terminal()
    shown = live.Live(["eth1"], out)
    shown.show(event(1000), 0.5)
    first = out.getvalue()
    shown.show(event(3000), 0.5)
    second = out.getvalue().removeprefix(first)
    assert second.startswith(live.UP.format(len(first.removeprefix(live.CLEAR).splitlines())) + live.CLEAR)
    assert second.splitlines()[1].split()[:3] == ["eth1", "4,000", "0.0"]
    assert second.splitlines()[-1].split() == ["3", "3,000", "1", "0", "2", "1.5", "us", "20", "ns"]


def test_ports_have_their_names_in_the_order_of_the_program(monkeypatch, capsys):
    """The program opens virtual devices, including network interfaces, before PCI devices."""

    def count(settings, _scratch, on_event, **_):
        on_event({"event": "listening", "ports": [{} for _ in settings.interfaces]})
        raise UserError("seen")

    monkeypatch.setattr(program, "count", count)
    words = [word for port in ("0000:01:00.0", "eth0", "01:00.1", "net_null0") for word in ("-i", port)]
    assert main(["monitor", *words]) == 2
    assert "listening on eth0, net_null0, 0000:01:00.0, 01:00.1\n" in capsys.readouterr().err


def test_without_a_terminal_there_is_no_live_table():
    out = io.StringIO()
    live.Live(["eth1"], out).show(event(5), 1)
    assert out.getvalue() == ""


def test_library_output_is_not_an_event():
    lines = iter([b"EAL: hello\n", json.dumps(event(1)).encode() + b"\n"])
    assert [each["event"] for each in program.events(lines)] == ["counts"]


def test_incomplete_result_is_an_error(tmp_path):
    with pytest.raises(Exception, match="not a complete result"):
        result.read(write_file(tmp_path / "result", result.MAGIC + (1).to_bytes(8, "little") + bytes(100)))
