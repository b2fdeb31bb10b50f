"""acapella-dpdk-replay with several queues: flows keep their order, and the counters of the queues add up."""

import random
import signal
import struct
import time
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.frames.tunnel_frames import Packet, ethernet, ipv4, udp
from acapella_testing.processes import run
from acapella_testing.waiting import wait_until

FLOWS = 24
QUEUES = 3


def flow_frames(count: int, seed: int) -> list[dpdk.Frame]:
    """Return numbered UDP frames of several flows, 10 to 100 us apart."""
    choose, frames, at_ns = random.Random(seed), [], 1_700_000_000_000_000_000
    for number in range(count):
        flow = choose.randrange(FLOWS)
        datagram = udp(Packet(struct.pack(">II", flow, number) + bytes(choose.randrange(12, 400))), 9, 4000 + flow)
        data = ethernet(ipv4(datagram, 17, (f"10.{seed}.0.{flow}", f"10.{seed}.1.{flow}"))).raw
        frames.append(dpdk.Frame(at_ns, len(data), data))
        at_ns += choose.randrange(10_000, 100_000)
    return frames


def by_flow(frames: list[bytes]) -> dict[bytes, list[bytes]]:
    """Return the frames of each flow in their order; others, such as IPv6 of the kernel, are omitted."""
    ours = [data for data in frames if data[12:14] == b"\x08\0"]
    return {flow: [data for data in ours if data[26:34] == flow] for flow in {data[26:34] for data in ours}}


def saved_frames(path, received: list[int]) -> list[bytes]:
    """Return the frames of a saved recording, whose times must be in order and whose queues must match ``received``."""
    frames = dpdk.read_pcapng(path).frames
    times = [frame.ts_ns for frame in frames]
    assert times == sorted(times)
    assert [sum(frame.queue == queue for frame in frames) for queue in range(QUEUES)] == received
    return [frame.data for frame in frames]


def bridge_words(pairs: int, queues: int) -> list[object]:
    devices = [f"net_af_packet{number},iface={name},qpairs={pairs}" for number, name in enumerate(("left1", "right0"))]
    return ["--vdev", devices[0], "--vdev", devices[1], "--bridge", "net_af_packet0,net_af_packet1", "--queues", queues]


def test_bridge_with_several_queues_keeps_the_order_of_flows(tmp_path, bridged):
    """The kernel distributes flows to the queues (PACKET_FANOUT)."""
    frames = flow_frames(600, seed=1)
    expected = by_flow([frame.data for frame in frames])
    with replayer.Replayer(*bridge_words(QUEUES, QUEUES), prefix=bridged) as program:
        assert [port["rx_queues"] for port in program.wait("ready")["ports"]] == [QUEUES, QUEUES]
        program.ask("record 0 0", "recording")
        with replayer.tcpdump(bridged, "right1", tmp_path / "live.pcap"):
            veth.send_capture(bridged, "left0", replayer.write_capture(tmp_path / "in.pcap", frames))
        port, _ = program.ask("status", "status")["ports"]
        assert program.ask("stop", "recorded")["packets"] == len(frames)
        program.ask(f"save {tmp_path / 'saved.pcapng'}", "saved")
        with replayer.tcpdump(bridged, "right1", tmp_path / "replayed.pcap"):
            done = program.run()
        departed = program.departures(tmp_path / "departures")
        assert program.end() == 0, program.messages
    assert by_flow(replayer.received(tmp_path / "live.pcap")) == expected
    assert by_flow(replayer.received(tmp_path / "replayed.pcap")) == expected
    assert [each.queue for each in departed] == [
        frame.queue for frame in dpdk.read_pcapng(tmp_path / "saved.pcapng").frames
    ]
    received = [queue["received"] for queue in port["queues"]]
    assert sum(received) == port["received"] == len(frames)
    assert min(received) > 0
    assert by_flow(saved_frames(tmp_path / "saved.pcapng", received)) == expected
    assert received == [queue["forwarded"] + sum(queue["dropped"].values()) for queue in port["queues"]]
    assert done["ports"][1]["queues"] == received
    assert done["ports"][0]["queues"] == [0] * QUEUES


def test_bridge_of_tap_devices_uses_their_queues(tmp_path, direct):
    """The kernel selects the queue of a flow. It may also send other frames on the interfaces."""
    frames = flow_frames(300, seed=4)
    words = ("--vdev", "net_tap0,iface=left", "--vdev", "net_tap1,iface=right", "--bridge", "net_tap0,net_tap1")
    with replayer.Replayer(*words, "--queues", QUEUES, prefix=direct) as program:
        program.ask("record 0 0", "recording")
        with replayer.tcpdump(direct, "right", tmp_path / "live.pcap"):
            veth.send_capture(direct, "left", replayer.write_capture(tmp_path / "in.pcap", frames))
        (port, _) = program.ask("status", "status")["ports"]
        recorded = program.ask("stop", "recorded")
        with replayer.tcpdump(direct, "right", tmp_path / "replayed.pcap"):
            done = program.run()
        assert program.end() == 0, program.messages
    assert by_flow(replayer.received(tmp_path / "live.pcap")) == by_flow([frame.data for frame in frames])
    assert by_flow(replayer.received(tmp_path / "replayed.pcap")) == by_flow([frame.data for frame in frames])
    assert all(queue["received"] == queue["forwarded"] + sum(queue["dropped"].values()) > 0 for queue in port["queues"])
    assert sum(queue["received"] for queue in port["queues"]) == port["received"] >= len(frames)
    assert sum(sum(port["queues"]) for port in done["ports"]) == done["sent"] == recorded["packets"]


def test_interface_with_several_tx_queues_receives_flows_in_order(tmp_path, direct):
    """Measures the lead time with probes, which are not counted as packets of the run."""
    frames = flow_frames(300, seed=3)
    capture = replayer.write_capture(tmp_path / "in.pcap", frames)
    words = sender_to(f"net_af_packet0,iface=out0,qpairs={QUEUES}")
    words += ["--vdev", f"net_af_packet1,iface=in0,qpairs={QUEUES}", "--measure-lead", "net_af_packet1"]
    with replayer.Replayer(*words, "--pace", "single", prefix=direct) as program:
        (port,) = program.wait("ready")["ports"]
        assert (port["tx_queues"], port["lead"]["source"]) == (QUEUES, "loopback")
        program.ask(f"load {capture}", "loaded")
        with replayer.tcpdump(direct, "in0", tmp_path / "got.pcap"):
            done = program.run(loops=2)
        assert program.end() == 0, program.messages
    flows = by_flow([frame.data for frame in frames])
    assert by_flow(replayer.received(tmp_path / "got.pcap")) == {flow: 2 * data for flow, data in flows.items()}
    sent = done["ports"][0]["queues"]
    assert sum(sent) == done["sent"] == 2 * len(frames)
    assert min(sent) > 0


@pytest.mark.parametrize(
    ("pairs", "queues", "why"),
    [
        (1, 2, "net_af_packet0: has 1 Rx queues, not 2; lower --queues, or add queues to the device (qpairs=)"),
        (3, 2, "net_af_packet0: frames of 1 of its 3 Rx queues would be lost; use --queues 3"),
    ],
)
def test_unsupported_number_of_queues_is_a_one_line_error(bridged, pairs, queues, why):
    assert replayer.startup_error(*bridge_words(pairs, queues), prefix=bridged) == (1, why)


def test_more_queues_than_a_file_has_are_a_one_line_error(tmp_path):
    status, line = replayer.startup_error(*sender_to(f"net_pcap0,tx_pcap={tmp_path / 'out.pcap'}"))
    assert status == 1
    assert f"net_pcap0: has 1 Tx queues, not {QUEUES}; lower --queues" in line


def memif(role: str, path) -> str:
    return f"net_memif0,role={role},socket={path},socket-abstract=no,rsize=10"


def wait_for(socket: Path, program: replayer.Replayer) -> None:
    """Wait until a server listens on a socket of memif."""
    wait_until(socket.exists, program.messages, running=program.process)


def bridge_to_nowhere(device: str) -> list[object]:
    """Return the arguments of a bridge that records what arrives at a device."""
    pair = f"{device.partition(',')[0]},net_null0"
    return ["--vdev", device, "--vdev", "net_null0,no-rx=1", "--bridge", pair, "--queues", QUEUES]


def sender_to(device: str) -> list[object]:
    return ["--vdev", device, "--tx", device.partition(",")[0], "--queues", QUEUES]


def check_that_queues_carry_flows(tmp_path, sending: replayer.Replayer, receiving: replayer.Replayer) -> None:
    """Replay flows from one program to the other. The Tx queue of each flow must be its Rx queue at the other end."""
    frames = flow_frames(500, seed=2)
    receiving.ask("record 0 0", "recording")
    sending.ask(f"load {replayer.write_capture(tmp_path / 'in.pcap', frames)}", "loaded")
    done = sending.run()
    wait_until(lambda: receiving.ask("status", "status")["ports"][0]["received"] >= len(frames))
    (port, _) = receiving.ask("status", "status")["ports"]
    assert receiving.ask("stop", "recorded")["packets"] == len(frames)
    receiving.ask(f"save {tmp_path / 'saved.pcapng'}", "saved")
    received = [queue["received"] for queue in port["queues"]]
    assert by_flow(saved_frames(tmp_path / "saved.pcapng", received)) == by_flow([frame.data for frame in frames])
    assert received == done["ports"][0]["queues"]
    assert sum(received) == done["sent"] == len(frames)
    assert min(received) > 0


def test_memif_carries_the_queues_of_a_replayer_to_those_of_a_bridge(tmp_path):
    """Both ends wait for their link. The bridge ends first, because it would report that its link is down."""
    with replayer.Replayer(*bridge_to_nowhere(memif("server", tmp_path / "memif"))) as receiving:
        wait_for(tmp_path / "memif", receiving)
        with replayer.Replayer(*sender_to(memif("client", tmp_path / "memif"))) as sending:
            check_that_queues_carry_flows(tmp_path, sending, receiving)
            assert receiving.end() == 0, receiving.messages


@pytest.mark.parametrize("direction", ["receive", "send"])
def test_af_xdp_queues_carry_flows(tmp_path, direct, direction):
    """The other end is the program that created the tap device: a veth interface offers AF_XDP only one queue."""
    veth.af_xdp_or_skip()
    tap, xdp = "net_tap0,iface=tap", f"net_af_xdp0,iface=tap,start_queue=0,queue_count={QUEUES},force_copy=1"
    # the kernel would send its IPv6 frames to the tap device
    run(*direct, "sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1", check=True)
    tap_words, xdp_words = bridge_to_nowhere(tap), sender_to(xdp)
    if direction == "receive":
        tap_words, xdp_words = sender_to(tap), bridge_to_nowhere(xdp)
    with replayer.Replayer(*tap_words, prefix=direct) as owner:
        owner.wait("ready")
        with replayer.Replayer(*xdp_words, prefix=direct) as other:
            check_that_queues_carry_flows(tmp_path, *(owner, other) if direction == "receive" else (other, owner))
            assert other.end() == 0, other.messages
            assert owner.end() == 0, owner.messages


@pytest.mark.soak
def test_link_that_stays_down_is_a_one_line_error(tmp_path):
    words = ("--vdev", memif("server", tmp_path / "memif"), "--tx", "net_memif0")
    assert replayer.startup_error(*words) == (1, "net_memif0: the link is down; connect it")


def test_interrupted_wait_for_a_link_is_a_one_line_error(tmp_path):
    with replayer.Replayer("--vdev", memif("server", tmp_path / "memif"), "--tx", "net_memif0") as program:
        wait_for(tmp_path / "memif", program)
        time.sleep(0.3)
        assert program.end(signal.SIGTERM) == 1
        message = "net_memif0: received SIGTERM while waiting for the link"
        assert program.errors() == [f"acapella-dpdk-replay: error: {message}"]
