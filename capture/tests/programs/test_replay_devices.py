"""acapella-dpdk-replay over veth (net_af_packet): replay, bridge and recording between network interfaces."""

import contextlib
import re
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.oracles import naive_captures
from acapella_testing.processes import run
from acapella_testing.requirements import require_success

from acapella_capture.replay.departures import lost_in_kernel
from acapella_capture.replay.program import losses

FRAMES = dpdk.some_frames(400, seed=9, sizes=(60, 64, 128, 512, 1514))
OUT = ("--vdev", "net_af_packet0,iface=out0", "--tx", "net_af_packet0")
BRIDGE = ("--vdev", "net_af_packet0,iface=left1", "--vdev", "net_af_packet1,iface=right0")
BRIDGE += ("--bridge", "net_af_packet0,net_af_packet1")


@pytest.fixture
def capture(tmp_path):
    return replayer.write_capture(tmp_path / "in.pcap", FRAMES)


@contextlib.contextmanager
def received_by_in0(direct, capture, path, *options: object) -> Iterator[replayer.Replayer]:
    """Run the program with a capture, while tcpdump captures in0 to a file."""
    with replayer.loaded(capture, *options, prefix=direct) as program, replayer.tcpdump(direct, "in0", path):
        yield program


@pytest.mark.parametrize("driver", ["net_af_packet0,iface=out0", "net_af_xdp0,iface=out0,force_copy=1"])
def test_interface_receives_recorded_packets_in_order(tmp_path, direct, capture, driver):
    if "xdp" in driver:
        veth.af_xdp_or_skip()
    out = ("--vdev", driver, "--tx", driver.split(",")[0])
    with received_by_in0(direct, capture, tmp_path / "got.pcap", *out) as program:
        assert program.events[0]["ports"][0]["longest_bytes"] == 1514
        done = program.run(loops=2)
        assert program.end() == 0, program.messages
    assert replayer.received(tmp_path / "got.pcap") == 2 * [frame.data for frame in FRAMES]
    (port,) = done["ports"]
    assert done["sent"] == port["driver_sent"] == port["interface"]["tx_packets"] == 2 * len(FRAMES)


@pytest.mark.parametrize(
    ("down", "text"),
    [
        ("in0", "out0: no carrier; set its peer up, or connect its cable"),
        ("out0", "out0: the interface is down: ip link set out0 up"),
    ],
)
def test_link_down_at_startup_is_a_one_line_error(direct, down, text):
    run(*direct, "ip", "link", "set", down, "down", check=True)
    assert replayer.startup_error(*OUT, prefix=direct) == (1, text)


def test_missing_probes_are_a_one_line_error(bridged):
    words = ("--vdev", "net_af_packet0,iface=left0", "--tx", "net_af_packet0", "--pace", "single")
    loop = ("--vdev", "net_af_packet1,iface=right0", "--measure-lead", "net_af_packet1")
    text = "--measure-lead net_af_packet1: 0 of 10 probes of net_af_packet0 arrived; connect the ports"
    assert replayer.startup_error(*words, *loop, prefix=bridged) == (1, text)


@pytest.mark.parametrize(
    ("mtu", "options", "text"),
    [
        (9000, "", "net_af_packet0: frames of up to 9014 bytes (the MTU of left1) would be truncated to 1982"),
        (1500, ",qpairs=2", "net_af_packet1: frames of 1 of its 2 Rx queues would be lost"),
        (1500, ",framesz=64", "net_af_packet1: framesz is not a number from 128 to 1048576"),
    ],
)
def test_bridge_that_would_truncate_or_lose_frames_is_rejected(bridged, mtu, options, text):
    run(*bridged, "ip", "link", "set", "left1", "mtu", mtu, check=True)
    words = [word.replace("iface=right0", f"iface=right0{options}") for word in BRIDGE]
    status, line = replayer.startup_error(*words, prefix=bridged)
    assert status == 1
    assert text in line


def test_link_that_goes_down_ends_the_run_and_the_program(direct, capture):
    with replayer.loaded(capture, *OUT, prefix=direct) as program:
        program.ask("run 0 100 100000", "running")
        run(*direct, "ip", "link", "set", "in0", "down", check=True)
        done = replayer.checked(program.wait("done"))
        assert program.ended() == 1
    assert len(program.errors()) == 1
    assert "out0: no carrier" in program.errors()[0]
    assert done["stopped_by"] == "link_down"
    assert done["dropped"]["stopped"] > 0


def test_mtu_is_read_when_a_run_starts(tmp_path, direct, capture):
    with received_by_in0(direct, capture, tmp_path / "got.pcap", *OUT) as program:
        run(*direct, "ip", "link", "set", "out0", "mtu", 1000, check=True)
        done = program.run()
        found = program.departures(tmp_path / "d")
        assert program.end() == 0, program.messages
    long = [frame.wire > 1014 for frame in FRAMES]
    assert [each.outcome == "too_long" for each in found] == long
    assert done["dropped"]["too_long"] == sum(long) > 0
    assert replayer.received(tmp_path / "got.pcap") == [frame.data for frame in FRAMES if frame.wire <= 1014]


def test_packets_that_the_driver_could_not_send_are_not_counted_as_sent(direct, capture):
    with replayer.loaded(capture, *OUT, prefix=direct) as program:
        program.ask("run 0 100 1000000", "running")
        run(*direct, "ip", "link", "set", "out0", "down", check=True)
        done = replayer.checked(program.wait("done"))
        assert program.ended() == 1
    (port,) = done["ports"]
    assert (done["sent"], done["dropped"]["driver_error"]) == (port["driver_sent"], port["driver_errors"])


def slow_queue(prefix: tuple[str, ...], interface: str) -> None:
    """Set a rate limit of 1 Mbit/s with a queue of 3,000 bytes on an interface; skip the test without tbf."""
    require_success([*prefix, *f"tc qdisc add dev {interface} root tbf rate 1mbit burst 2kb limit 3000".split()], "tbf")


def test_interface_counter_excludes_packets_dropped_by_a_kernel_queue(tmp_path, direct, capture):
    """The driver takes these packets, so that only the interface's own count shows the loss."""
    slow_queue(direct, "out0")
    queued = ("--vdev", "net_af_packet0,iface=out0,qdisc_bypass=0", "--tx", "net_af_packet0")
    with received_by_in0(direct, capture, tmp_path / "got.pcap", *queued) as program:
        done = program.run(speed_ppm=100_000_000)
        assert program.end() == 0, program.messages
    (port,) = done["ports"]
    assert done["sent"] == port["driver_sent"] == len(FRAMES)
    assert port["interface"]["tx_packets"] <= len(replayer.received(tmp_path / "got.pcap")) < len(FRAMES)
    (line,) = lost_in_kernel(done)
    assert line.startswith("the kernel did not send all packets of ")


def run_while_forwarding(bridged, capture, tmp_path, *bridge: str) -> dict:
    """Send 20 packets on left1 while the bridge forwards the frames of a capture to it; return the event `done`."""
    slow = [dpdk.Frame(number * 50_000_000, 60, bytes(59) + bytes([number])) for number in range(20)]
    with replayer.loaded(replayer.write_capture(tmp_path / "few.pcap", slow), *bridge, prefix=bridged) as program:
        program.ask("run 0 1 1000000", "running")
        veth.send_capture(bridged, "right1", capture)
        done = replayer.checked(program.wait("done"))
        assert program.end() == 0, program.messages
    return done


def test_forwarded_frames_of_a_run_are_not_lost_packets(bridged, capture, tmp_path):
    """A veth counts what it sends: the packets of the run, and the frames that the bridge forwards during the run."""
    done = run_while_forwarding(bridged, capture, tmp_path, *BRIDGE)
    port = done["ports"][0]
    assert port["queues"] == [20]
    assert port["forwarded"] == len(FRAMES)
    assert port["interface"]["tx_packets"] >= 20 + len(FRAMES)
    assert lost_in_kernel(done) == []


def test_forwarded_frames_do_not_hide_packets_dropped_by_a_kernel_queue(bridged, capture, tmp_path):
    """The interface sends more frames than the run has packets, but fewer than the program sent."""
    slow_queue(bridged, "left1")
    queued = [word.replace("iface=left1", "iface=left1,qdisc_bypass=0") for word in BRIDGE]
    done = run_while_forwarding(bridged, capture, tmp_path, *queued)
    port = done["ports"][0]
    assert port["queues"] == [20]
    assert 20 < port["interface"]["tx_packets"] < 20 + len(FRAMES)
    (line,) = lost_in_kernel(done)
    assert line.startswith("the kernel did not send all packets of net_af_packet0: ")


@pytest.mark.parametrize("slots", [64, 4096])
def test_frames_that_a_bridge_did_not_receive_in_a_dense_run_are_counted(bridged, capture, tmp_path, slots):
    """The gaps are shorter than the guard, so that the bridge receives only when the run has ended."""
    dense = [dpdk.Frame(number * 20_000, 60, bytes(60)) for number in range(100)]
    path = replayer.write_capture(tmp_path / "dense.pcap", dense)
    small = [word.replace("iface=left1", f"iface=left1,blocksz=4096,framecnt={slots}") for word in BRIDGE]
    with replayer.loaded(path, *small, "--departures", 2_000_000, prefix=bridged) as program:
        program.ask("run 0 20000 1000000", "running")
        veth.send_capture(bridged, "left0", capture)
        done = replayer.checked(program.ask("stop", "done"))
        status = program.ask("status", "status")
        assert program.end() == 0, program.messages
    left, right = (port["reception"] for port in done["ports"])
    assert done["stopped_by"] == "stop" and left["interface_packets"] >= len(FRAMES)
    assert left["received"] + left["kernel_dropped"] >= len(FRAMES)
    assert left.get("not_received", 0) == right.get("not_received", 0) == right["kernel_dropped"] == 0
    assert status["ports"][0]["reception"]["kernel_dropped"] == left["kernel_dropped"]
    if slots == 64:
        assert left["kernel_dropped"] >= len(FRAMES) - slots - 10  # some were received before or after the run
        (line,) = losses(done)
        assert line.startswith("net_af_packet0: packets were not received during the run: ")
    else:
        assert left["received"] >= len(FRAMES)
        assert (left["kernel_dropped"], losses(done)) == (0, [])


def with_tag(frame: dpdk.Frame) -> dpdk.Frame:
    """Return a frame with a VLAN tag, which the kernel removes at reception and the driver restores."""
    data = frame.data[:12] + b"\x81\0\0\x07" + frame.data[12:]
    return dpdk.Frame(frame.ts_ns, len(data), data)


def test_bridge_forwards_records_and_replays_both_directions(tmp_path, bridged, capture):
    """The bridge ignores frames that the machine itself sends on the interfaces."""
    tagged = [with_tag(frame) if frame.wire <= 512 else frame for frame in FRAMES[100:200]]
    parts = {"left0": FRAMES[:98] + dpdk.fragments() + tagged, "right1": FRAMES[200:]}
    files = {name: replayer.write_capture(tmp_path / f"{name}-in.pcap", frames) for name, frames in parts.items()}
    with replayer.Replayer(*BRIDGE, prefix=bridged) as program:
        program.ask("record 0 0", "recording")
        veth.send_capture(bridged, "left1", capture)
        with received_by_both(bridged, tmp_path, ".pcap"):
            before = time.time_ns()
            for name, path in files.items():
                veth.send_capture(bridged, name, path)
        after = time.time_ns()
        recorded = program.ask("stop", "recorded")
        status = program.ask("status", "status")
        program.ask(f"save {tmp_path / 'saved.pcapng'}", "saved")
        with received_by_both(bridged, tmp_path, "2.pcap"):
            done = program.run(loops=1)
        assert program.end() == 0, program.messages
    expected = {"left": [frame.data for frame in parts["right1"]], "right": [frame.data for frame in parts["left0"]]}
    assert {side: replayer.received(tmp_path / f"{side}.pcap") for side in expected} == expected
    assert {side: replayer.received(tmp_path / f"{side}2.pcap") for side in expected} == expected
    assert recorded["packets"] == done["sent"] == len(FRAMES)
    assert recorded["timestamps"] == "burst"
    assert recorded["unresolved"] == len(FRAMES) - recorded["bursts"]
    assert before < recorded["first_ns"] < recorded["last_ns"] < after
    assert lost_in_kernel(done) == []
    assert [(port["received"], port["forwarded"]) for port in status["ports"]] == [(200, 200)] * 2
    assert [sum(port["dropped"].values()) for port in status["ports"]] == [0, 0]
    check_saved(tmp_path / "saved.pcapng", expected, recorded)


@contextlib.contextmanager
def received_by_both(bridged, directory, ending: str) -> Iterator[None]:
    """Capture left0 and right1 to files."""
    left, right = directory / f"left{ending}", directory / f"right{ending}"
    with replayer.tcpdump(bridged, "left0", left), replayer.tcpdump(bridged, "right1", right):
        yield


def check_saved(path, expected: dict[str, list[bytes]], recorded: dict) -> None:
    """Check that the saved file has the frames of each direction, and marks those after the first one of a burst."""
    kinds, interfaces, unresolved = [], {0: [], 1: []}, 0
    for _, kind, body in naive_captures.blocks(path.read_bytes()):
        kinds.append(kind)
        if kind == 1:
            options = dpdk.options(body[8:])
            assert options[3] == b"times of transmission by the TSC, one per burst"
            assert options[9] == b"\x09"
        if kind == 6:
            interface, _, _, kept, wire = struct.unpack_from("<5I", body)
            assert kept == wire
            interfaces[interface].append(body[20 : 20 + kept])
            unresolved += dpdk.options(body[20 + (kept + 3) // 4 * 4 :]).get(1) == b"unresolved"
    assert kinds == [0x0A0D0D0A, 1, 1] + [6] * recorded["packets"]
    assert interfaces == {0: expected["left"], 1: expected["right"]}
    assert unresolved == recorded["unresolved"]


def promiscuity(prefix: tuple[str, ...]) -> list[tuple[str, bool, int]]:
    """Return the name, the promiscuous flag and the promiscuity count of each interface of a bridge."""
    shown = run(*prefix, "ip", "-d", "link", check=True).stdout
    found = re.findall(r"^\d+: (left1|right0)@\S+ <(\S+)>.*?promiscuity (\d+)", shown, re.MULTILINE | re.DOTALL)
    return sorted((name, "PROMISC" in flags, int(count)) for name, flags, count in found)


@pytest.mark.parametrize("how", ["quit", "kill"])
def test_bridge_restores_promiscuous_mode_of_its_interfaces(bridged, how):
    run(*bridged, "ip", "link", "set", "left1", "promisc", "on", check=True)
    before = promiscuity(bridged)
    with replayer.Replayer(*BRIDGE, prefix=bridged) as program:
        program.wait("ready")
        during = promiscuity(bridged)
        assert how == "kill" or program.end() == 0, program.messages
    assert before == promiscuity(bridged) == [("left1", True, 1), ("right0", False, 0)]
    assert during == [("left1", True, 2), ("right0", False, 1)]


def test_packets_before_a_recording_are_not_counted_in_it(bridged, tmp_path):
    """They wait in the ring of the driver while the program is stopped."""
    ring = [word.replace("iface=left1", "iface=left1,blocksz=4096,framecnt=4096") for word in BRIDGE]
    with replayer.Replayer(*ring, prefix=bridged) as program:
        program.wait("ready")
        program.process.send_signal(signal.SIGSTOP)
        veth.send_capture(bridged, "left0", replayer.write_capture(tmp_path / "many.pcap", 8 * FRAMES))
        program.send("record 0 0")
        program.process.send_signal(signal.SIGCONT)
        program.wait("recording")
        left, _ = program.ask("stop", "recorded")["ports"]
        assert program.ask("status", "status")["ports"][0]["received"] == 8 * len(FRAMES)
        assert program.end() == 0, program.messages
    assert left["reception"]["received"] == left["reception"]["interface_packets"] == 0


def polling_sleeps(program: replayer.Replayer) -> int:
    """Return how often the polling thread has slept so far."""
    states = [path.read_text() for path in Path(f"/proc/{program.process.pid}/task").glob("*/status")]
    (polling,) = (state for state in states if "worker" in state.splitlines()[0])
    return int(re.search(r"^voluntary_ctxt_switches:\t(\d+)", polling, re.M)[1])


def test_rolling_recording_is_bounded_by_time(bridged, capture):
    with replayer.Replayer(*BRIDGE, prefix=bridged) as program:
        program.ask("rolling 1", "recording")
        veth.send_capture(bridged, "left0", capture)
        sleeps = polling_sleeps(program)
        time.sleep(1.5)
        assert polling_sleeps(program) - sleeps < 10  # without a recording, it sleeps every 20 us
        assert program.ask("stop", "recorded")["packets"] == 0
        program.ask("rolling 60", "recording")
        veth.send_capture(bridged, "left0", capture)
        time.sleep(0.3)
        recorded = program.ask("stop", "recorded")
        assert recorded["packets"] == len(FRAMES)
        left, right = (port["reception"] for port in recorded["ports"])
        assert left["interface_packets"] + right["interface_packets"] >= len(FRAMES)
        assert not any(left[key] or right[key] for key in ("missed", "no_mbuf", "interface_dropped"))
        assert program.end() == 0, program.messages


def test_recording_between_two_times_ends_by_itself(bridged):
    with replayer.Replayer(*BRIDGE, prefix=bridged) as program:
        program.wait("ready")
        until = replayer.soon_ns(200_000_000)
        program.ask(f"record {until - 100_000_000} {until}", "recording")
        assert program.wait("recorded")["stopped_by"] == "until"
        assert program.end() == 0, program.messages


def test_jumbo_frames_are_replayed_over_a_larger_mtu(tmp_path, direct):
    for name in ("out0", "in0"):
        run(*direct, "ip", "link", "set", name, "mtu", 9000, check=True)
    frames = dpdk.some_frames(50, seed=3, sizes=(60, 9000, 9014))
    capture = replayer.write_capture(tmp_path / "in.pcap", frames)
    device = "net_af_packet0,iface=out0,framesz=16384,blocksz=65536,framecnt=512"
    words = ("--vdev", device, "--tx", "net_af_packet0", "--max-frame", 16384, "--packets", 1024)
    with received_by_in0(direct, capture, tmp_path / "got.pcap", *words) as program:
        assert program.run()["sent"] == len(frames)
        assert program.end() == 0, program.messages
    assert replayer.received(tmp_path / "got.pcap") == [frame.data for frame in frames]


def lead_of_run(tmp_path, direct, *lead: object) -> dict:
    """Replay frames from out0 to in0; return the lead time of `ready`. Order, content and accounting are checked."""
    capture = replayer.write_capture(tmp_path / "in.pcap", FRAMES[:50])
    with replayer.Replayer(*OUT, "--pace", "single", *lead, prefix=direct) as program:
        (port,) = program.wait("ready")["ports"]
        with replayer.tcpdump(direct, "in0", tmp_path / "got.pcap"):
            program.ask(f"load {capture}", "loaded")
            done = program.run()
            found = program.departures(tmp_path / "d")
        assert program.end() == 0, program.messages
    arrived, _ = dpdk.read_pcap(tmp_path / "got.pcap")
    assert [frame.data for frame in arrived] == [frame.data for frame in FRAMES[:50]]
    assert all(each.departed_ns >= each.requested_ns for each in found)
    (used,) = done["leads"]
    assert {key: value for key, value in port["lead"].items() if key not in ("probes", "timestamped")} == used
    assert all(each.flags & 4 == 0 for each in found), "a veth has no hardware timestamps"
    return port["lead"]


def test_lead_time_is_measured_by_loopback_to_the_peer(tmp_path, direct):
    """The lead of net_af_packet, which has no timestamps, is measured by the kernel's timestamps at the peer."""
    lead = lead_of_run(tmp_path, direct, *("--vdev", "net_af_packet1,iface=in0", "--measure-lead", "net_af_packet1"))
    assert (lead["source"], lead["timestamps"]) == ("loopback", "kernel")
    assert lead["probes"] == 201
    assert 100 < lead["timestamped"] <= 201
    assert lead["p5_ns"] <= lead["ns"] <= lead["p95_ns"]


def test_port_that_sends_and_receives_probes_is_not_promiscuous_afterwards(tmp_path, direct):
    """Both ends of a veth are Tx ports, and each receives the probes of the other one."""
    words = [*OUT, "--vdev", "net_af_packet1,iface=in0", "--tx", "net_af_packet1", "--pace", "single"]
    words += ["--measure-lead", "net_af_packet1", "--measure-lead", "net_af_packet0"]
    with replayer.Replayer(*words, prefix=direct) as program:
        ports = program.wait("ready")["ports"]
        shown = run(*direct, "ip", "-d", "link", check=True).stdout
        assert program.end() == 0, program.messages
    assert [port["lead"]["source"] for port in ports] == ["loopback", "loopback"]
    assert "PROMISC" not in shown and re.findall(r"promiscuity (\d+)", shown) == ["0"] * 3


@pytest.mark.parametrize("words", [(), ("--measure-lead", "tx")])
def test_lead_time_without_transmit_timestamps_is_zero_and_unknown(tmp_path, direct, words):
    assert lead_of_run(tmp_path, direct, *words) == {"source": "unknown", "ns": None}
