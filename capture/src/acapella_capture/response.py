"""Capture two iperf3 flows whose rates change in steps, over background traffic (P4/RDMA paper, figure 6).

    acapella measure response -o study/response.json
    acapella measure response -o study/response.json --step-s 10

The command creates two network namespaces, joined by a link, and removes them at the end. Each flow has a separate
htb class at the sender (tc), with a token bucket of one frame and a changing rate; slow TCP streams and a UDP stream
share a third class. The receiver's interface is captured to the directory of FILE, under the same name with
suffix .pcap. FILE lists the rates, and the times at which they were set. If a program is missing, FILE contains the
reason, the capture is empty, and the exit code is 0.
"""

import argparse
import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

from acapella_core.arguments import output_file
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, atomic_text

from .testbeds.local import sandbox
from .testbeds.local.network import disable_offloads, make_namespace, tear_down
from .testbeds.local.processes import NAMESPACES, SPOOL, LocalJob, run_checked, start, terminate_all, wait_until

STEPS = ((40, 10), (10, 40), (60, 20), (5, 60), (30, 30))  # Mbit/s of each flow
PORTS, BACKGROUND_PORT = (5201, 5202), 5203
BACKGROUND_MBPS = 4  # per stream
BACKGROUND_STREAMS = {"tcp": 4, "udp": 1}
BACKGROUND_LIMIT_MBPS = 40  # rate of all streams together
ADDRESSES = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}
SNAPLEN = 128
QUEUE_BYTES = 150_000
START_S = 20  # timeout for a program to listen
SPARE_S = 3600  # margin for setting rates on a slow machine; senders are stopped at the end
BURST_BYTES = 1600  # one frame: a larger burst would be sent back to back
PROGRAMS = {"iperf3": "iperf3", "tc": "iproute2", "tcpdump": "tcpdump", "ethtool": "ethtool"}
EMPTY = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN, 1)  # a pcap without frames


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella measure response`."""
    parser = subparsers.add_parser(
        "response", help="capture flows with changing rates", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "-o",
        "--output",
        type=output_file("JSON", Path),
        required=True,
        metavar="FILE",
        help="result in JSON; the capture is in the same directory",
    )
    parser.add_argument(
        "--step-s", type=float, default=3.0, metavar="S", help="seconds between rate changes (default: %(default)s)"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Measure; outside the sandbox, start the same command inside one."""
    if args.step_s <= 0:
        raise UserError("--step-s must be larger than 0")
    if sandbox.inside():
        sandbox.enter()
        measure(args.output, args.step_s)
        return 0
    args.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        for program, package in PROGRAMS.items():
            sandbox.require(program, package)
        sandbox.unshare_argv()
    except UserError as missing:
        write_capture(args.output, EMPTY)
        write(args.output, skipped=str(missing))
        print(f"measure response: skipped: {missing}")
        return 0
    arguments = ("-o", str(args.output.resolve()), "--step-s", str(args.step_s))
    return sandbox.call(sandbox.python_argv("acapella_capture.response", *arguments))


def write(output: Path, **values: Any) -> None:
    """Write the result file."""
    flows = [{"name": f"flow {number}", "dst_port": port} for number, port in enumerate(PORTS, 1)]
    background = {
        **{f"background_{kind}_streams": number for kind, number in BACKGROUND_STREAMS.items()},
        "background_stream_bps": BACKGROUND_MBPS * 10**6,
        "background_limit_bps": BACKGROUND_LIMIT_MBPS * 10**6,
    }
    result = {"version": 1, "skipped": None, "flows": flows, "background": background, "steps": [], **values}
    atomic_text(output, json.dumps(result, indent=1) + "\n")


def write_capture(output: Path, content: bytes) -> None:
    """Write the capture to the directory of the result file."""
    with atomic_path(output.with_suffix(".pcap")) as part:
        part.write_bytes(content)


def measure(output: Path, step_s: float) -> None:
    """Build both ends, start all programs, change the rates. Raises UserError if a program fails."""
    for directory in (NAMESPACES, SPOOL):
        directory.mkdir()
    try:
        build()
        capture = SPOOL / "response.pcap"
        recording = start("receiver", ["tcpdump", "-i", "eth0", "-s", str(SNAPLEN), "-B", "16384", "-w", str(capture),
                                       "--time-stamp-precision=nano", "-U", "-Z", "root"])  # fmt: skip
        if not all_printed([recording], "listening on"):
            raise UserError(f"tcpdump: {recording.last_line()}")
        steps = send_traffic(step_s)
        recording.signal("INT")
        recording.wait(START_S)
        write_capture(output, capture.read_bytes())
        write(output, steps=steps, kernel_dropped=dropped_frames(recording))
    finally:
        terminate_all()
        tear_down()


def build() -> None:
    """Build sender and receiver, a link, and the traffic classes of the flows and of the background traffic."""
    for node in ADDRESSES:
        make_namespace(node, ipv6=False)
    ends = [f"netns {NAMESPACES / node}" for node in ADDRESSES]
    run_checked("sender", ["ip", "-batch", "-"], stdin=f"link add eth0 {ends[0]} type veth peer name eth0 {ends[1]}\n")
    for node, address in ADDRESSES.items():
        # TCP passes segments of up to 64 KiB to the queue even without offloads; htb would send them as one burst.
        lines = (
            "link set eth0 gso_max_segs 1",
            f"address add {address}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
        )
        run_checked(node, ["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
        disable_offloads(node, "eth0")
    tc = ["qdisc add dev eth0 root handle 1: htb default 3"]
    for number, rate in enumerate((*STEPS[0], BACKGROUND_LIMIT_MBPS), 1):
        tc.append(f"class add dev eth0 parent 1: classid 1:{number} htb {class_parameters(rate)}")
        tc.append(f"qdisc add dev eth0 parent 1:{number} bfifo limit {QUEUE_BYTES}")
    tc += [
        f"filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport {port} 0xffff flowid 1:{number}"
        for number, port in enumerate(PORTS, 1)
    ]
    run_checked("sender", ["tc", "-batch", "-"], stdin="\n".join(tc) + "\n")


def all_printed(jobs: list[LocalJob], text: str) -> bool:
    """Wait until all programs have printed a text; return False if one ends first, or after a timeout."""

    def is_done() -> bool:
        return all(text in job.log() for job in jobs) or any(job.poll() is not None for job in jobs)

    return wait_until(is_done, timeout_s=START_S) and all(text in job.log() for job in jobs)


def class_parameters(rate_mbps: int) -> str:
    """Return the parameters of a traffic class."""
    return f"rate {rate_mbps}mbit burst {BURST_BYTES} cburst {BURST_BYTES} quantum 1514"


def send_traffic(step_s: float) -> list[dict]:
    """Send traffic through all steps; return the time and the rates of each step."""
    ports = (*PORTS, BACKGROUND_PORT, BACKGROUND_PORT + 1)
    servers = [start("receiver", ["iperf3", "-s", "--forceflush", "-p", str(port)]) for port in ports]
    if not all_printed(servers, "listening"):
        raise UserError(f"iperf3: {servers[0].last_line()}")
    seconds = str(round(step_s * len(STEPS)) + SPARE_S)
    send = ["iperf3", "-c", ADDRESSES["receiver"], "-t", seconds, "-p"]
    limit = ["-b", f"{BACKGROUND_MBPS}M"]
    clients = [start("sender", [*send, str(BACKGROUND_PORT), "-P", str(BACKGROUND_STREAMS["tcp"]), *limit])]
    udp = ["-u", "-l", "1200", "-P", str(BACKGROUND_STREAMS["udp"])]
    clients += [start("sender", [*send, str(BACKGROUND_PORT + 1), *udp, *limit])]
    clients += [start("sender", [*send, str(port)]) for port in PORTS]
    steps = [{"at_ns": time.time_ns(), "rates_bps": [rate * 10**6 for rate in STEPS[0]]}]
    for rates in STEPS[1:]:
        wait(clients, step_s)
        lines = [
            f"class change dev eth0 parent 1: classid 1:{number} htb {class_parameters(rate)}"
            for number, rate in enumerate(rates, 1)
        ]
        run_checked("sender", ["tc", "-batch", "-"], stdin="\n".join(lines) + "\n")
        steps.append({"at_ns": time.time_ns(), "rates_bps": [rate * 10**6 for rate in rates]})
    wait(clients, step_s)
    steps.append({"at_ns": time.time_ns(), "rates_bps": None})
    return steps


def wait(clients: list[LocalJob], seconds: float) -> None:
    """Let the clients send. Raises UserError if one has ended."""
    time.sleep(seconds)
    for client in clients:
        if client.poll() is not None:
            raise UserError(f"iperf3 ended early: {client.last_line()}")


def dropped_frames(recording: LocalJob) -> int | None:
    """Return the number of frames dropped by the kernel, as tcpdump reports it at the end."""
    for line in recording.log().splitlines():
        if "dropped by kernel" in line:
            return int(line.split()[0])
    return None


if __name__ == "__main__":  # inside the sandbox
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--step-s", type=float)
    try:
        run(parser.parse_args())
    except (UserError, OSError) as error:
        sys.exit(f"acapella: error: {error}")
