"""acapella-dpdk-generate: into a memory ring on one core, and into a veth pair beside iperf3, trafgen and tcpreplay.

In the veth pair, an independent receiver (tcpdump with the kernel's timestamps) measures rate and gaps of all programs.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acapella_capture.generate import model

from ..programs import ROOT, Bench, Failed, acapella
from .replay import realtime
from .replay_senders import times_of
from .veth import START_S, missing, running, veth_pair

FLOOR = 10_000_000  # packets per second
PACKET_BYTES = 64
RUNS = 5
BUILD = ROOT / "build" / "programs"
GAP_US = 100
BUFFER_KIB = 32768
ARRIVE_S = 10
PORT = 5202
ADDRESSES = ("10.11.0.1", "10.11.0.2")
OURS = "acapella generate"
MODEL = """
seed: 1
flows:
  - headers:
      - ethernet: {{src: "02:00:00:00:00:01", dst: "02:00:00:00:00:02"}}
      - ipv4: {{src: {source}, dst: {target}}}
      - udp: {{src: {port}, dst: 5001}}
    packets: {packets}
    gaps: {{constant: {{gap_ns: {gap_ns}}}}}
    sizes: {size}
"""
TRAFGEN = """{{
  0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, const16(0x0800),
  0x45, 0x00, const16({ip}), const16(0), const16(0x4000), 64, 17, csumip(14, 33),
  10, 11, 0, 1, 10, 11, 0, 2, const16(5000), const16(5001), const16({udp}), const16(0), fill(0, {payload})
}}
"""


@dataclass(frozen=True)
class Gaps:
    """What the receiver saw of one program."""

    packets: int
    rate: float
    median: int
    p99: int
    largest: int


def compiled(bench: Bench, name: str, **values: object) -> tuple[Path, Path]:
    """Write a model and its compiled form; return both paths."""
    defaults = {"source": ADDRESSES[0], "target": ADDRESSES[1], "port": 5000, "size": PACKET_BYTES}
    path = bench.directory / f"{name}.yaml"
    path.write_text(MODEL.format(**defaults | values))
    text = path.with_suffix(".model")
    text.write_text(model.read(path, lambda _: ((), ())).text())
    return path, text


def ring_rows(bench: Bench, prefix: list[str], name: str) -> list[dict]:
    """Return the rate into a ring: stamps, sequence numbers, checksums and two fields that vary."""
    fields = {"target": "{increment: 10.12.0.0, count: 65536}", "port": "{random: 1024, count: 32768}"}
    _, text = compiled(bench, "ring", packets=bench.scale["generate"], gap_ns=1, **fields)
    program = BUILD / "capture" / "generate" / "bench_generate"
    runs = [json.loads(bench.measure([*prefix, program, text], keep=True, any_core=True).stdout) for _ in range(RUNS)]
    best = max(runs, key=lambda one: one["sent"] / one["duration_ns"])
    return [
        {
            "measured": f"{name}: rate into a ring, {PACKET_BYTES} B, stamps, checksums, two fields that vary",
            "value": round(best["sent"] / best["duration_ns"] * 1e9),
            "unit": "packets/s",
            "goal": f">= {FLOOR:,}",
            "note": f"best of {RUNS}; {best['sent'] / best['cpu_ns'] * 1e3:.1f} M/s by CPU time; "
            f"{best['dropped']:,} dropped; load {os.getloadavg()[0]:.1f}",
        }
    ]


class Road:
    """A veth pair from out0 to in0, which is in another network namespace with a server of iperf3."""

    def __init__(self, bench: Bench, inside: list[str], receiver: list[str]):
        self.bench = bench
        self.inside = inside
        self.receiver = receiver

    def send(self, words: Sequence[object], packets: int) -> Gaps:
        """Run a program; return what arrived of its UDP packets."""
        path = self.bench.directory / "arrived.pcap"
        tcpdump = [*self.receiver, "taskset", "-c", self.bench.other_core, "tcpdump", "-i", "in0", "-n", "-Q", "in"]
        tcpdump += ["-B", BUFFER_KIB, "-U", "--time-stamp-precision=nano", "-s", 64, "-w", "-", "udp"]
        with running(tcpdump, self.bench.directory, path):
            self.bench.measure([*self.inside, *words], any_core="--cpus" in words)
            end = time.monotonic() + ARRIVE_S
            while path.stat().st_size < 24 + packets * 80 and time.monotonic() < end:
                time.sleep(0.05)
        return gaps_of(times_of(path))


def gaps_of(times: np.ndarray) -> Gaps:
    """Return rate and errors of gaps of packets that were to be GAP_US apart."""
    if len(times) < 3:
        raise Failed("fewer than three packets arrived")
    errors = np.sort(np.abs(np.diff(times) - GAP_US * 1000))
    span = int(times[-1] - times[0])
    return Gaps(
        len(times), (len(times) - 1) / span * 1e9, int(errors[len(errors) // 2]),
        int(errors[int(0.99 * (len(errors) - 1))]), int(errors[-1]),
    )  # fmt: skip


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[list[str], list[str]]]:
    """Yield command prefixes of the namespaces of out0 and of in0, which have addresses."""
    with veth_pair() as inside, subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as other:
        try:
            receiver = ["nsenter", f"--net=/proc/{other.pid}/ns/net"]
            own, end = Path("/proc/self/ns/net").readlink(), time.monotonic() + START_S
            while Path(f"/proc/{other.pid}/ns/net").readlink() == own and time.monotonic() < end:
                time.sleep(0.01)
            lines = [
                [*inside, "ip", "link", "set", "in0", "netns", other.pid],
                [*inside, "ip", "address", "add", f"{ADDRESSES[0]}/24", "dev", "out0"],
                [*receiver, "ip", "address", "add", f"{ADDRESSES[1]}/24", "dev", "in0"],
                [*receiver, "ip", "link", "set", "in0", "up"],
                [*receiver, "ip", "link", "set", "lo", "up"],
            ]
            for line in lines:
                done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Failed(f"{line[2:]}: {done.stderr.strip()}")
            yield inside, receiver
        finally:
            other.kill()


def senders(bench: Bench, packets: int) -> dict[str, list[object]]:
    """Return the command line of each program that is installed."""
    path, _ = compiled(bench, "gaps", packets=packets, gap_ns=GAP_US * 1000)
    capture = bench.directory / "gaps.pcap"
    bench.measure(acapella("generate", path, "-o", capture), any_core=True)
    lengths = {"ip": PACKET_BYTES - 14, "udp": PACKET_BYTES - 34, "payload": PACKET_BYTES - 42}
    config = bench.directory / "gaps.trafgen"
    config.write_text(TRAFGEN.format(**lengths))
    payload, rate = PACKET_BYTES - 42, round((PACKET_BYTES - 42) * 8 * 1e6 / GAP_US)
    seconds = packets * GAP_US / 1e6
    ours = ("-i", "out0", "--at", "+1", "--cpus", bench.core)
    return {
        OURS: [*acapella("generate", path, *ours)],
        "acapella replay": [*acapella("replay", capture, "--pace", "single", *ours)],
        "tcpreplay": ["tcpreplay", "--preload-pcap", "--quiet", "--timer=nano", "--intf1=out0", capture],
        "trafgen": ["trafgen", "--dev", "out0", "--conf", config, "--gap", f"{GAP_US}us", "--num", packets,
                    "--cpus", 1],
        "iperf3 -u": ["iperf3", "-u", "-c", ADDRESSES[1], "-p", PORT, "-l", payload, "-b", rate, "-t", f"{seconds:g}",
                      "--pacing-timer", GAP_US],
    }  # fmt: skip


def veth_rows(bench: Bench) -> list[dict]:
    """Return rate and errors of gaps of each program."""
    reason = missing()
    if reason is not None:
        return [{"measured": "programs that generate", "value": "not measured", "note": reason}]
    packets = max(100, round(bench.scale["replay_s"] * 1e6 / GAP_US))
    rows = []
    with two_hosts() as (inside, receiver):
        road = Road(bench, inside, receiver)
        for name, words in senders(bench, packets).items():
            program = name.split()[0]
            if program != "acapella" and shutil.which(program) is None:
                rows.append({"measured": name, "value": "not measured", "note": f"{program} is not installed"})
                continue
            with server(receiver) if program == "iperf3" else contextlib.nullcontext():
                rows += rows_of(name, road.send(words, packets), packets)
    return rows


@contextlib.contextmanager
def server(receiver: list[str]) -> Iterator[None]:
    """Run a server of iperf3."""
    words = [*receiver, "iperf3", "-s", "-1", "-p", str(PORT)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        try:
            yield
        finally:
            process.kill()


def rows_of(name: str, found: Gaps, packets: int) -> list[dict]:
    """Return the rows of one program."""
    requested = 1e6 / GAP_US
    return [
        {
            "measured": f"gaps of {GAP_US} us: {name}, error of the rate",
            "value": round((found.rate / requested - 1) * 1e6),
            "unit": "ppm",
            "note": f"{found.packets:,} of {packets:,} packets arrived",
        },
        {
            "measured": f"gaps of {GAP_US} us: {name}, median error of a gap",
            "value": found.median,
            "unit": "ns",
            "note": f"p99 {found.p99:,}, largest {found.largest:,}",
        },
    ]


def run(bench: Bench) -> list[dict]:
    """Return the rows of the ring with and without real-time priority, and those of the veth pair."""
    bench.run(["make", "-s", "-C", ROOT, "programs", f"PROGRAMS={BUILD}"])
    bench.run(["meson", "compile", "-C", BUILD, "bench_generate"])
    prefix = realtime()
    rows = ring_rows(bench, prefix, "SCHED_FIFO") if prefix else []
    normal = ring_rows(bench, [], "normal priority")
    if rows:
        normal[0].pop("goal")
    return rows + normal + veth_rows(bench)
