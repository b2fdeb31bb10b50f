"""Values computed from what probes, ss and iperf3 report, and the lines of tc."""

import json
import random
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from acapella_testing.new_files import write_file

from acapella_capture.testbeds.base import CompletedProgram
from acapella_capture.transfer import emulation, routing, tcp_info
from acapella_capture.transfer.delay import Counts, flags_of_counts, is_share_off, netem
from acapella_capture.transfer.emulation import Emulation, queue
from acapella_capture.transfer.grid import plan
from acapella_capture.transfer.measurement import (
    QUEUE_ERROR_BYTES,
    Measurements,
    PathMeasurement,
    flags_of,
    measured_link,
    rate_and_queue,
)
from acapella_capture.transfer.nodes import LocalNodes
from acapella_capture.transfer.probe import FRAME
from acapella_capture.transfer.runner import Runner, extra_bytes, flight_bytes, is_background
from acapella_capture.transfer.settings import parse_transfer_settings
from acapella_capture.transfer.topology import CLIENT_PORT, SERVER_PORT, read_topology
from acapella_capture.transfer.transfer import Flow, Transfer, fault_of, read_report, start_error, start_skew, times_of
from acapella_core.errors import UserError
from acapella_core.topology import Topology, parse

RATE_BPS, QUEUE_FRAMES = 40_000_000, 66
PER_FRAME_NS = FRAME * 8 * 10**9 // RATE_BPS
TRANSIT_NS = 40_000
SETTINGS = parse_transfer_settings({"transfer": {"grid": {"delay_ms": [60], "buffer_bytes": [100_000]}}})
CELL = plan(SETTINGS)[0]
LINE = (
    "ESTAB 0 1305 10.80.0.1:40001 10.80.3.2:5201 bbr wscale:7,7 rto:264 rtt:63.5/0.5 ato:40 mss:1448 pmtu:1500 "
    "rcvmss:536 advmss:1448 cwnd:152 bytes_sent:3480068 bytes_retrans:460464 bytes_acked:3019118 segs_out:2404 "
    "bbr:(bw:38Mbps,mrtt:60.1,pacing_gain:1,cwnd_gain:2) send 27Mbps busy:716ms rwnd_limited:8ms(1.1%) "
    "sndbuf_limited:40ms(5.6%) minrtt:60.1 snd_wnd:3145728"
)


def arrivals(
    sent: int, *, frames: int = QUEUE_FRAMES, pause_ns: int = 0, stall_ns: int = 0, busy: float = 0.0
) -> list[list[int]]:
    """Return the arrivals of datagrams sent to a bucket of two frames and a queue of `frames`, at three times its rate.

    In the middle, the sender pauses or the link stalls for some time. `busy`: probability that the sender pauses before
    a datagram because it is not scheduled, for up to 5 ms; it then sends the next datagrams faster until it has caught
    up.
    """
    generator = random.Random(1)
    found, leaving, tokens_ns, sent_ns = [], [], 0, 0
    for number in range(sent):
        previous_ns = sent_ns
        due_ns = 10**9 + number * PER_FRAME_NS // 3 + (pause_ns if number > sent // 2 else 0)
        sent_ns = max(due_ns, previous_ns + TRANSIT_NS // 4)
        sent_ns += generator.randrange(5_000_000) if generator.random() < busy else 0
        leaving = [left_ns for left_ns in leaving if left_ns > sent_ns]
        if len(leaving) == frames:
            continue  # dropped
        if stall_ns and number > sent // 2:
            tokens_ns, stall_ns = tokens_ns + stall_ns, 0
        left_ns = max(sent_ns, tokens_ns - PER_FRAME_NS)
        tokens_ns = max(tokens_ns, left_ns) + PER_FRAME_NS
        leaving.append(left_ns)
        found.append([number, sent_ns, left_ns + TRANSIT_NS, previous_ns])
    return found


def with_outliers(found: list[list[int]], share: float, late_ns: int) -> list[list[int]]:
    """Return arrivals, a random share of which has late timestamps, as from a busy core."""
    generator = random.Random(1)
    delays = [generator.randrange(late_ns) if generator.random() < share else 0 for _ in found]
    return [
        [n, sent, arrived + late, previous] for (n, sent, arrived, previous), late in zip(found, delays, strict=True)
    ]


def queue_bytes(found: list[list[int]]) -> int:
    return rate_and_queue(found, where="test")[1]


@pytest.mark.parametrize("frames", [2, 8, QUEUE_FRAMES, 400])
@pytest.mark.parametrize("pause_ms", [0, 50])
def test_rate_and_queue_of_a_simulated_link_are_measured(frames, pause_ms):
    rate, size = rate_and_queue(arrivals(1500 + 2 * frames, frames=frames, pause_ns=pause_ms * 1_000_000), where="test")
    assert rate == pytest.approx(RATE_BPS, rel=1e-3)
    assert size == frames * FRAME


@pytest.mark.parametrize("frames", [2, QUEUE_FRAMES])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.2])
def test_late_arrivals_do_not_change_the_queue(frames, share):
    found = with_outliers(arrivals(3000, frames=frames), share, late_ns=100 * PER_FRAME_NS)
    delays = [arrived - sent for _, sent, arrived, _ in found]
    assert max(delays) - min(delays) > 1.5 * frames * PER_FRAME_NS, "the longest waiting time would be far too long"
    assert queue_bytes(found) == pytest.approx(frames * FRAME, abs=QUEUE_ERROR_BYTES)


@pytest.mark.parametrize("frames", [2, QUEUE_FRAMES])
@pytest.mark.parametrize("busy", [0.01, 0.05])
def test_sender_that_is_often_not_scheduled_does_not_change_the_queue(frames, busy):
    found = arrivals(3000, frames=frames, busy=busy)
    late = sum(sent - previous > 1_000_000 for _, sent, _, previous in found[1:])
    assert late > 10, "the queue was often not full, although the predecessor was dropped"
    assert queue_bytes(found) == frames * FRAME


@pytest.mark.parametrize("busy", [0.0, 0.1])
def test_machine_on_which_no_datagram_is_sent_in_time_measures_a_quantile(busy):
    slow = [[number, sent, arrived, sent - 10**7] for number, sent, arrived, _ in arrivals(3000, busy=busy)]
    assert queue_bytes(slow) == pytest.approx(QUEUE_FRAMES * FRAME, abs=QUEUE_ERROR_BYTES)


def test_link_stall_does_not_change_the_queue():
    stalled = arrivals(3000, stall_ns=30_000_000)
    assert max(arrived - sent for _, sent, arrived, _ in stalled) > 2 * QUEUE_FRAMES * PER_FRAME_NS
    assert queue_bytes(stalled) == QUEUE_FRAMES * FRAME


def slower(found: list[list[int]], rate_bps: int) -> list[list[int]]:
    """Return arrivals of datagrams that were sent at a rate and did not wait."""
    step = FRAME * 8 * 10**9 // rate_bps
    return [[n, 10**9 + n * step, 10**9 + n * step + TRANSIT_NS, 10**9 + (n - 1) * step] for n in range(len(found))]


def test_link_that_is_faster_than_the_probe_has_a_lower_bound():
    found = slower(arrivals(1000), 30_000_000)
    assert measured_link(found, RATE_BPS, where="test") == (None, None, pytest.approx(30_000_000, rel=1e-3))
    with pytest.raises(UserError, match="did not fill the queue"):
        measured_link(slower(arrivals(1000), 60_000_000), RATE_BPS, where="the link has no limit")
    full = arrivals(3000)
    assert measured_link(full, RATE_BPS, where="test") == rate_and_queue(full, where="test")
    *values, bound = measured_link(full, 3 * RATE_BPS, where="a probe of 3 x 40 Mbit/s for 120 Mbit/s")
    assert values == [*rate_and_queue(full, where="test")]
    assert bound == pytest.approx(RATE_BPS, rel=0.05)


@pytest.mark.parametrize(
    ("rate", "size", "bound", "flags"),
    [
        (None, None, 30_000_000, ["probe_limited"]),
        (
            30_000_000,
            50_000,
            30_000_000,
            ["probe_limited"],
        ),  # after a slow probe, values that are too small are not evidence
        (50_000_000, 200_000, 45_000_000, ["buffer_off", "probe_limited", "rate_off"]),
        (None, None, 45_000_000, ["probe_limited", "rate_off"]),  # the rate is at least the bound
        (30_000_000, 50_000, None, ["buffer_off", "rate_off"]),
        (40_000_000, 100_000, None, []),
    ],
)
def test_values_of_a_slow_probe_are_flagged_as_such(rate, size, bound, flags):
    found = PathMeasurement("main", 0, CELL.delay_ns, rate, size, bound)
    assert flags_of(CELL, read_topology("linear"), [found]) == flags


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (arrivals(3), "only 3 datagrams"),
        ([[n, n * 10**6, n * 10**6 + 5, (n - 1) * 10**6] for n in range(100)], "did not fill the queue"),
    ],
    ids=["few", "slow"],
)
def test_probe_that_does_not_fill_the_queue_is_an_error(found, why):
    with pytest.raises(UserError, match=why):
        rate_and_queue(found, where="test")


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, []),
        ({"rate_bps": 37_900_000}, ["rate_off"]),
        ({"rate_bps": 38_100_000, "rtt_ns": 62_900_000}, []),
        ({"rtt_ns": 63_200_000}, ["delay_off"]),
        ({"rtt_ns": 56_000_000}, ["delay_off"]),
        ({"buffer_bytes": 94_000}, ["buffer_off"]),
        ({"buffer_bytes": 104_900}, []),
    ],
)
def test_values_off_by_more_than_five_percent_are_flagged(changes, flags):
    exact = PathMeasurement("main", rtt_base_ns=100_000, rtt_ns=60_100_000, rate_bps=RATE_BPS, buffer_bytes=100_000)
    assert flags_of(CELL, read_topology("linear"), [replace(exact, **changes)]) == flags


def test_tcp_info_is_read_from_a_line_of_ss():
    assert tcp_info.parse(LINE, 1, 5) == {
        "flow": 0, "t_ns": 5, "min_rtt_ns": 60_100_000, "rtt_ns": 63_500_000, "cwnd_segments": 152,
        "snd_wnd_bytes": 3_145_728, "busy_ns": 716_000_000, "rwnd_limited_ns": 8_000_000,
        "sndbuf_limited_ns": 40_000_000, "bytes_acked": 3_019_118, "bytes_retrans": 460_464,
    }  # fmt: skip


@pytest.mark.parametrize("port", [33222, 40002, 45200])
def test_control_connection_is_not_a_flow(port):
    """The kernel selects its port from a range that contains those of the flows."""
    assert tcp_info.parse(LINE.replace(":40001", f":{port}"), 1, 5) is None


@pytest.mark.parametrize("line", ["", "ESTAB 0 0 10.80.0.1:40001", "Cannot open netlink socket"])
def test_line_without_two_addresses_is_not_a_flow(line):
    assert tcp_info.parse(line, 1, 5) is None


def test_sender_that_waits_for_a_window_is_recognized_by_its_last_sample():
    limited = tcp_info.parse(LINE, 1, 1)
    assert tcp_info.is_window_limited([limited])
    assert not tcp_info.is_window_limited([limited, limited | {"t_ns": 2, "busy_ns": 1_716_000_000}])
    assert not tcp_info.is_window_limited([])


def test_bucket_holds_two_frames_or_in_mode_published_the_whole_queue():
    (line,) = queue("eth1", 1000, 50_000, "clean")
    assert "burst 3028 limit 50000" in line
    assert "burst 50000 limit 50000" in queue("eth1", 1000, 50_000, "published")[-1]


def test_netem_gets_delay_loss_and_reordering():
    assert netem("eth1", 30_000_000, replace(CELL, loss_percent=0.5, reorder_percent=2)).endswith(
        "limit 1000000 delay 30000us loss 0.5% reorder 2%"
    )


@pytest.mark.parametrize(
    ("percent", "total", "found", "flagged"),
    [
        (0, 10_000, 0, False),
        (0, 10_000, 1, True),
        (5, 10_000, 0, True),  # nothing is lost although it was requested
        (5, 10_000, 500, False),
        (5, 10_000, 610, False),  # 5 %, and four standard deviations of 22
        (5, 10_000, 620, True),
        (5, 10_000, 380, True),
        (0.01, 1_000, 2, False),
        (0.01, 1_000, 5, True),
        (100, 1_000, 1_000, False),
        (5, 0, 0, False),
    ],
)
def test_number_of_lost_packets_is_compared_with_the_requested_share(percent, total, found, flagged):
    assert is_share_off(found, total, percent) == flagged


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, []),
        ({"lost": 0}, ["loss_off"]),
        ({"reordered": 0}, ["reorder_off"]),
        ({"reordered": None, "late_p99_ns": None}, []),  # netem
        ({"dropped": 1}, ["link_loss"]),
        ({"late_p99_ns": 3_000_001}, ["delay_late"]),
    ],
)
def test_counts_of_a_delayed_direction_that_differ_from_the_settings_are_flagged(changes, flags):
    cell = replace(CELL, loss_percent=10, reorder_percent=20)
    exact = Counts(packets=10_000, lost=1_000, reordered=1_800, dropped=0, late_p99_ns=100_000, early_p99_ns=9)
    assert flags_of_counts(cell, {"delay-fwd": exact, "delay-rev": replace(exact, **changes)}) == flags


def test_bytes_in_flight_fill_the_path_and_the_queue():
    round_trip = CELL.delay_ns
    assert flight_bytes(CELL, read_topology("linear"), round_trip) == 300_000 + 100_000
    assert flight_bytes(replace(CELL, ratio=2.0), read_topology("multipath"), round_trip) == 600_000 + 100_000
    assert flight_bytes(CELL, with_rates(80), round_trip) == 600_000 + 100_000
    assert flight_bytes(CELL, with_rates(4), round_trip) == 30_000 + 100_000


class DistantNodes:
    """Nodes that are 90 ms apart, and check the ports of the probes."""

    def apply(self, cell) -> None:
        self.emulated_ns = cell.delay_ns

    def python(self, node, script) -> list[str]:
        return [node, script.name]

    def run(self, node, argv, *, timeout_s):
        """Return what the probe of flow n prints: round trips of 90 + n ms plus the emulated delay."""
        server, client = int(argv[4]), int(argv[5])
        assert client - CLIENT_PORT == server - SERVER_PORT
        own_ns = 90_000_000 + 1_000_000 * (server - SERVER_PORT)
        return CompletedProgram(0, json.dumps([own_ns + self.emulated_ns] * 3), "")


def measured(name: str, cells: list, monkeypatch) -> Measurements:
    nodes = DistantNodes()
    found = Measurements(nodes, read_topology(name), nodes.apply, None)
    monkeypatch.setattr(found, "_fill", lambda cell, path: (cell.rate_bps, cell.buffer_bytes))
    found.measure(cells)
    return found


def test_round_trip_of_each_path_is_measured_with_the_flow_of_its_number(monkeypatch):
    found = measured("multipath", [CELL], monkeypatch).of(CELL)
    assert {each.path: each.rtt_base_ns for each in found} == {
        "red": 90_000_000, "green": 91_000_000, "blue": 92_000_000,
    }  # fmt: skip
    assert [each.rtt_ns - each.rtt_base_ns for each in found] == [CELL.delay_ns] * 3


@pytest.mark.parametrize("delay_ns", [0, 60_000_000])
def test_bytes_in_flight_include_the_round_trip_of_the_slice(monkeypatch, delay_ns):
    cell = replace(CELL, delay_ns=delay_ns, rate_bps=300_000_000)
    flight = 300_000_000 * (90_000_000 + delay_ns) // (8 * SECOND) + 100_000
    windows = []
    runner = Runner.__new__(Runner)
    runner._settings, runner._topology, runner._runs = SETTINGS, SETTINGS.topology, [cell]
    runner._hosts = SimpleNamespace(set_window=windows.append)
    for runs in ([cell], [replace(cell, delay_ns=5_000_000)]):  # the second start measures other delays
        runner._measurements = measured("linear", runs, monkeypatch)
        runner.set_buffers()
        assert extra_bytes(cell, runner._flight_bytes(cell)) >= flight
    assert windows == [flight, flight]


def with_rates(*rates_mbps: float) -> Topology:
    """Return a topology with an emulated link, and a path, per rate."""
    links = {f"l{n}": {"between": ["r1", f"s{n}"], "emulated": True, "rate_mbps": r} for n, r in enumerate(rates_mbps)}
    ends = {f"e{n}": {"between": [f"s{n}", "r2"]} for n in range(len(rates_mbps))}
    names = ["r1", "r2", *(f"s{n}" for n in range(len(rates_mbps)))]
    values = {
        "nodes": {"h1": {"role": "host"}, "h2": {"role": "host"}, **{name: {"role": "router"} for name in names}},
        "links": {"access": {"between": ["h1", "r1"]}, **links, **ends, "exit": {"between": ["r2", "h2"]}},
        "paths": {f"p{n}": ["h1", "r1", f"s{n}", "r2", "h2"] for n in range(len(rates_mbps))},
    }
    return parse(values, name="rates", where="test")


def test_other_traffic_is_compared_with_the_rate_of_its_own_link():
    topology = with_rates(4, 400)
    assert not is_background(CELL, topology, {"l0": 3_999, "l1": 399_000})
    assert is_background(CELL, topology, {"l0": 4_001, "l1": 0})
    assert is_background(CELL, topology, {"l0": 0, "l1": 400_001})


def test_transfer_over_a_slow_link_gets_the_time_that_this_link_needs():
    cell = replace(CELL, size_bytes=10_000_000)
    seconds = [Transfer(None, with_rates(rate), cell, 1, 0).timeout_s for rate in (1, 40)]
    assert seconds == [20 * (80 + 0.6) + 60, 20 * (2 + 0.6) + 60]


@pytest.mark.parametrize(
    ("text", "exit_code", "fault"),
    [
        ('{"end": {"sender_tcp_congestion": "bbr", "sum_sent": {"bytes": 1000}}}', 0, None),
        ('{"end": {"sender_tcp_congestion": "bbr", "sum_sent": {"bytes": 999}}}', 0, "sent 999 of 1000 bytes"),
        ('{"end": {"sender_tcp_congestion": "cubic", "sum_sent": {"bytes": 1000}}}', 0, "cubic, not bbr"),
        ('{"end": {"sender_tcp_congestion": "bbr", "sum_sent": {"bytes": 1000}}}', 1, "exit code 1"),
        ('{"end": {}, "error": "control socket\\nhas closed"}', 1, "iperf3: control socket has closed"),
        ('{"end": {"sum_sent"', 1, "not JSON"),
        ("[]", 0, "not an object"),
    ],
)
def test_failed_flow_is_named_with_its_reason(tmp_path, text, exit_code, fault):
    output = write_file(tmp_path / "iperf3-3.json", text)
    flow = Flow(3, "main", 40004, 5204, 1000, 50, output.name, exit_code=exit_code)
    found = fault_of(flow, read_report(output), "bbr")
    assert found is None if fault is None else found.startswith("flow 3: ") and fault in found


SECOND = 10**9
BEGIN_NS = 1_000 * SECOND + 900_000_000
REPORT = {"start": {"timestamp": {"timesecs": 1_001}}, "end": {"sum_sent": {"seconds": 2.5}}}


def started(number: int, *, after_ns: int = 0, lasts_ns: int | None = 3 * SECOND) -> Flow:
    """Return a flow whose client ran for some time. ``lasts_ns`` is None if it did not print its end."""
    flow = Flow(number, "main", 40001, 5201, 1000, 0, "iperf3-0.json", started_ns=BEGIN_NS + after_ns)
    flow.ended_ns = None if lasts_ns is None else flow.started_ns + lasts_ns
    return flow


@pytest.mark.parametrize(
    ("flow", "report", "error"),
    [
        (started(0), REPORT, 500_000_000),
        (started(0, lasts_ns=None), REPORT, "the sender did not print the times of the client"),
        (started(0), {"start": {}, "error": "no route"}, "iperf3 reports no time"),
        (started(0), {"start": None, "end": []}, "iperf3 reports no time"),
        (started(0, lasts_ns=2 * SECOND), REPORT, "the clock of the sender was set during the transfer"),
        (started(0, after_ns=-2 * SECOND, lasts_ns=3 * SECOND), REPORT, 500_000_000),
        (started(0, after_ns=-4 * SECOND), REPORT, "the clock of the sender was set during the transfer"),
    ],
)
def test_error_of_a_start_is_the_time_of_the_client_without_its_data(flow, report, error):
    assert start_error(flow, report) == ((error, None) if isinstance(error, int) else (None, error))


def test_skew_is_between_the_first_and_the_last_start_and_null_with_a_reason():
    flows = [started(0, after_ns=7), started(1), started(2, after_ns=30, lasts_ns=2_600_000_000)]
    for flow in flows:
        flow.start_error_ns, flow.start_unknown = start_error(flow, REPORT)
    assert start_skew(flows) == {"skew_ns": 30, "error_ns": 500_000_000, "reason": None}
    assert start_skew(flows[:1]) == {"skew_ns": 0, "error_ns": 500_000_000, "reason": None}
    flows[1].start_error_ns, flows[1].start_unknown = start_error(started(1, lasts_ns=None), REPORT)
    reason = "flow 1: the sender did not print the times of the client"
    assert start_skew(flows) == {"skew_ns": None, "error_ns": None, "reason": reason}


@pytest.mark.parametrize(
    ("log", "times"),
    [("", (None, None)), ("12\n", (12, None)), ("12\niperf3: error - 5\n34\n", (12, 34)), ("%N\n", (None, None))],
)
def test_client_times_are_the_numbers_in_its_log(log, times):
    assert times_of(log) == times


@pytest.mark.parametrize(("topology", "streams", "flows"), [("multipath", 1, 3), ("multipath", 5, 5), ("linear", 1, 1)])
def test_every_path_has_routes_even_with_fewer_flows_than_paths(monkeypatch, tmp_path, topology, streams, flows):
    """The probe of a path uses the ports of the flow with its number."""
    settings = parse_transfer_settings({"transfer": {"topology": topology, "grid": {"streams": [streams]}}})
    configure = Mock(side_effect=UserError("enough"))
    monkeypatch.setattr(routing, "configure", configure)
    with pytest.raises(UserError, match="enough"):
        Runner(None, settings, plan(settings), tmp_path)
    assert [each.args[2] for each in configure.call_args_list] == [flows]


def test_flow_sends_as_many_extra_bytes_as_can_be_left_in_the_send_buffer():
    # 384 KiB unsent; in flight: 300 kB of 40 Mbit/s x 60 ms and a queue of 100 kB
    unsent, flight = 3 * 128 * 1024, 400_000
    sizes = {count: extra_bytes(replace(CELL, streams=count), flight) for count in (1, 2, 8)}
    assert sizes == {1: unsent + flight, 2: unsent + flight, 8: unsent + flight // 4}
    assert extra_bytes(replace(CELL, mode="published"), flight) == 4 << 20, "the default of the kernel"


def test_queues_are_removed_even_if_a_delay_cannot_be(monkeypatch):
    remove_root, topology = Mock(), read_topology("multipath")
    monkeypatch.setattr(emulation, "remove_root", remove_root)
    with pytest.raises(UserError, match="node r1: no reply"):
        Emulation(Mock(), topology, Mock(**{"remove.side_effect": UserError("no reply", where="node r1")})).remove()
    assert remove_root.call_count == len(topology.emulated()) > 1


def test_programs_are_killed_if_one_cannot_start():
    nodes, job = LocalNodes.__new__(LocalNodes), Mock()
    nodes.start = Mock(side_effect=[job, UserError("no memory", where="h1")])
    with pytest.raises(UserError, match="h1: no memory"):
        nodes.start_all("h1", [(["iperf3"], "0.json"), (["iperf3"], "1.json"), (["iperf3"], "2.json")])
    assert job.signal.call_args_list == [call("KILL")]


def test_queues_are_empty_before_they_are_created_again():
    runner = Runner.__new__(Runner)
    runner._emulation = Mock(**{"is_empty.side_effect": [False, False, True], "apply.side_effect": UserError("enough")})
    with pytest.raises(UserError, match="enough"):
        runner._transfer(CELL, None)
    assert runner._emulation.method_calls == [call.is_empty()] * 3 + [call.apply(CELL)]
