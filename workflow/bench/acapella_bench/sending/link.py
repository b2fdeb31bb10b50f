"""Measures acapella-link in a linear slice: acknowledgments of a TCP transfer, delayed in the return direction.

tcpdump captures them at both interfaces of the router that delays them. The error of a packet is the difference between
its two times in the kernel, minus the delay: it includes reading, waiting, routing, and the kernel's own queues. The
stacks of all nodes run on the cores of this machine, so the benchmark needs an idle machine. wakeups.py measures how
late the kernel wakes a different program on the same processor, before and during the transfer: acapella-link cannot be
more accurate.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from acapella_capture.testbeds.base import Job
from acapella_capture.testbeds.local import sandbox
from acapella_capture.testbeds.local.processes import wait_until
from acapella_capture.transfer.grid import plan
from acapella_capture.transfer.link_process import LinkProcess
from acapella_capture.transfer.nodes import LocalNodes
from acapella_capture.transfer.runner import Runner
from acapella_capture.transfer.settings import parse_transfer_settings
from acapella_capture.transfer.transfer import Transfer

from ..programs import Bench, Failed
from .veth import missing

MAX_ERROR_US = 100
DELAY_MS = 60
RATE_MBPS = 300
SECONDS = 8
QUIET_S = 2
ETHERNET, START_S = 14, 20


def run(bench: Bench) -> list[dict]:
    """Return percentiles of the error of the delay."""
    del bench
    if reason := missing():
        return [{"measured": "error of the delay, p99", "value": "not measured", "note": reason}]
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "errors.json"
        if sandbox.call(sandbox.python_argv(f"{__package__}.link", str(output))) != 0:
            raise Failed("the transfer over acapella-link failed")
        found = json.loads(output.read_text())
    priority = "SCHED_FIFO" if found["realtime"] else "normal priority"
    conditions = f"{DELAY_MS} ms on the return direction at {RATE_MBPS} Mbit/s, {priority}"
    counts = f"{found['packets']:,} packets, {found['unmatched']:,} of them seen once, {found['dropped']:,} dropped"
    return [
        {"measured": f"{conditions}: error, p99", "value": found["p99_us"], "unit": "us", "goal": f"< {MAX_ERROR_US}",
         "note": counts},
        {"measured": f"{conditions}: error, median", "value": found["p50_us"], "unit": "us"},
        {"measured": f"{conditions}: error, largest", "value": found["max_us"], "unit": "us"},
        {"measured": f"{conditions}: written after it was due, p99", "value": found["late_us"], "unit": "us",
         "note": f"without the kernel's queues; load of the machine {found['load']:.1f}"},
        {"measured": "wake-up of a sleeping program on the processor of acapella-link, p99",
         "value": found["noise"]["p99_us"], "unit": "us",
         "note": f"during the transfer; before it {found['quiet']['p99_us']:.1f} us"},
        {"measured": f"{conditions}: rate of the transfer", "value": found["mbps"], "unit": "Mbit/s"},
    ]  # fmt: skip


def measure(output: Path) -> None:
    """Run a transfer inside the sandbox and write the errors."""
    grid = {"algorithm": ["bbr"], "delay_ms": [DELAY_MS], "buffer_bytes": ["5M"], "rate_mbps": [RATE_MBPS],
            "size_bytes": [RATE_MBPS * 125_000 * SECONDS]}  # fmt: skip
    settings = parse_transfer_settings({"transfer": {"grid": grid}})
    (cell,) = plan(settings)
    nodes = LocalNodes(settings.topology, output.parent)
    try:
        with Runner(nodes, settings, [cell], output.parent) as runner:
            runner.set_buffers()
            runner._emulation.apply(cell)
            link: LinkProcess = runner._delays._link
            quiet = json.loads(wakeups(link, QUIET_S).communicate()[0])
            captures = [capture(nodes, peer) for peer in ("r2", "h1")]
            with wakeups(link, SECONDS) as measurement:
                outcome = Transfer(nodes, settings.topology, cell, 1, 0).run()
                noise = json.loads(measurement.communicate()[0])
            for job in captures:
                job.signal("INT")
                job.wait(START_S)
            late_us = link.statistics()["delay-rev"]["late_p99_ns"] / 1000
            dropped = sum(each.dropped for each in runner._delays.counts().values())
            times = [times_of(Path(nodes.path("r1", f"{peer}.pcap"))) for peer in ("r2", "h1")]
            flow = outcome.flows[0]
            mbps = cell.size_bytes * 8e3 / (flow.ended_ns - flow.started_ns)
            found = {"realtime": link.realtime, "dropped": dropped, "mbps": mbps,
                     "late_us": late_us, "load": os.getloadavg()[0], "quiet": quiet, "noise": noise}  # fmt: skip
    finally:
        nodes.close()
    output.write_text(json.dumps(found | errors_of(*times)))


def wakeups(link: LinkProcess, seconds: float) -> subprocess.Popen:
    """Start the measurement of wake-ups on the last processor that acapella-link may use."""
    processor = max(os.sched_getaffinity(link.pid))
    argv = [sys.executable, "-m", "acapella_bench.sending.wakeups", f"{seconds}", f"{processor}"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def capture(nodes: LocalNodes, peer: str) -> Job:
    """Start a capture of the packets to the sender at an interface of the first router."""
    argv = ["tcpdump", "-i", f"to-{peer}", "-n", "-B", "16384", "-s", "100", "--time-stamp-precision=nano", "-w", "-"]
    job = nodes.start("r1", [*argv, "--", "tcp and dst port 40001"], output=f"{peer}.pcap")
    if not wait_until(lambda: "listening on" in job.log(), timeout_s=START_S):
        raise Failed(f"tcpdump: {job.log()}")
    return job


def times_of(path: Path) -> dict[tuple[bytes, bytes], int]:
    """Return the times in ns of the packets of a capture, by their identities: IPv4 identification, TCP header."""
    content = path.read_bytes()
    offset, found = 24, {}
    while offset + 16 <= len(content):
        seconds, fraction, kept, _ = struct.unpack_from("=IIII", content, offset)
        packet = content[offset + 16 + ETHERNET : offset + 16 + kept]
        found.setdefault((packet[4:6], packet[20:40]), seconds * 10**9 + fraction)
        offset += 16 + kept
    return found


def errors_of(before: dict, after: dict) -> dict[str, float | int]:
    """Return percentiles of the errors in us, and the numbers of packets."""
    errors = sorted(abs(after[key] - before[key] - DELAY_MS * 10**6) / 1000 for key in before.keys() & after.keys())
    if not errors:
        raise Failed("no packet was captured twice")
    return {
        "p50_us": errors[len(errors) // 2],
        "p99_us": errors[len(errors) * 99 // 100],
        "max_us": errors[-1],
        "packets": len(errors),
        "unmatched": len(before.keys() ^ after.keys()),
    }


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
