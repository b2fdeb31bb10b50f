"""Measures acapella-dpdk-generate, into a memory ring on one core and into a veth pair.

In the veth pair, it is compared with acapella replay, iperf3, trafgen and tcpreplay: an independent receiver (tcpdump
with the kernel's timestamps) measures rate and gaps of all programs.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
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
BENCH = BUILD / "capture" / "generate" / "bench_generate"
GAP_US = 100
BUFFER_KIB = 32768
ARRIVE_S = 10
COUNT_S = 120
PORT = 5202
ADDRESSES = ("10.11.0.1", "10.11.0.2")
OURS = "acapella generate"
COUNT = """
import sys, time
path, end = "/sys/class/net/in0/statistics/rx_packets", time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    print(time.monotonic_ns(), open(path).read().strip(), flush=True)
    time.sleep(0.005)
"""
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
    """The receiver's measurements of one program: packets, packets per second, and errors of gaps in ns."""

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
    """Return the rate into a ring of packets with stamps, sequence numbers, checksums and two fields that vary.

    The ring is emptied by the same core, or by a different one.
    """
    fields = {"target": "{increment: 10.12.0.0, count: 65536}", "port": "{random: 1024, count: 32768}"}
    _, text = compiled(bench, "ring", packets=bench.scale["generate"], gap_ns=1, **fields)
    return [ring_row(bench, [*prefix, BENCH, text], name, reader) for reader in ("alone", "apart")]


def ring_row(bench: Bench, words: list, name: str, reader: str) -> dict:
    """Return the best rate of some runs. It is compared with the goal if one core does everything."""
    runs = [json.loads(bench.measure([*words, reader], keep=True, any_core=True).stdout) for _ in range(RUNS)]
    best = max(runs, key=lambda run: run["sent"] / run["duration_ns"])
    cores = "one core that also empties it" if reader == "alone" else "one core, emptied by a second core"
    return {
        "measured": f"{name}: rate into a ring, {PACKET_BYTES} B, {cores}",
        "value": round(best["sent"] / best["duration_ns"] * 1e9),
        "unit": "packets/s",
        **({"goal": f">= {FLOOR:,}"} if reader == "alone" else {}),
        "note": f"best of {RUNS}; {best['sent'] / best['cpu_ns'] * 1e3:.1f} million packets per CPU second; stamps, "
        f"checksums, two fields that vary; {best['dropped']:,} dropped; load {os.getloadavg()[0]:.1f}",
    }


class VethPath:
    """A veth pair from out0 to in0, which is in a different network namespace (`two_hosts`)."""

    def __init__(self, bench: Bench, inside: list[str], receiver: list[str]):
        self.bench = bench
        self.inside = inside
        self.receiver = receiver

    def send(self, words: Sequence[object], packets: int) -> Gaps:
        """Run a program; return the measurements of its UDP packets that arrived."""
        path = self.bench.directory / "arrived.pcap"
        tcpdump = [*self.receiver, "taskset", "-c", self.bench.other_core, "tcpdump", "-i", "in0", "-n", "-Q", "in"]
        tcpdump += ["-B", BUFFER_KIB, "-U", "--time-stamp-precision=nano", "-s", 64, "-w", "-", "udp"]
        with running(tcpdump, self.bench.directory, path):
            self.bench.measure([*self.inside, *words], any_core="--cpus" in words)
            end = time.monotonic() + ARRIVE_S
            while path.stat().st_size < 24 + packets * 80 and time.monotonic() < end:
                time.sleep(0.05)
        return gaps_of(times_of(path))

    def top_rate(self, words: Sequence[object]) -> float:
        """Run a program that sends as fast as it can; return packets per second by the counter of in0.

        The rate is measured between a tenth and nine tenths of the packets, which excludes the start and end of the
        program. sysfs shows the interfaces of the namespace in which it was mounted.
        """
        log = self.bench.directory / "counts"
        mount = 'mount -t sysfs sysfs /sys && exec "$@"'
        counter = [*self.receiver, "unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", COUNT, COUNT_S]
        with log.open("w") as out, subprocess.Popen([str(word) for word in counter], stdout=out) as process:
            try:
                self.bench.measure([*self.inside, *words], any_core="--cpus" in words)
            finally:
                process.terminate()
        samples = np.array([line.split() for line in log.read_text().splitlines()[:-1]], np.int64)
        return rate_of(samples[:, 0], samples[:, 1])


def rate_of(times_ns: np.ndarray, counts: np.ndarray) -> float:
    """Return the rate between a tenth and nine tenths of the increase of a counter."""
    counts = counts - counts[0]
    low, high = np.searchsorted(counts, [counts[-1] // 10, counts[-1] * 9 // 10])
    if high <= low:
        raise Failed("too few packets arrived")
    return float((counts[high] - counts[low]) / (times_ns[high] - times_ns[low]) * 1e9)


def gaps_of(times: np.ndarray) -> Gaps:
    """Return rate and gap errors of packets that were requested GAP_US apart."""
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
            initial, end = Path("/proc/self/ns/net").readlink(), time.monotonic() + START_S
            while Path(f"/proc/{other.pid}/ns/net").readlink() == initial and time.monotonic() < end:
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
    """Return the command line of each program."""
    path, _ = compiled(bench, "gaps", packets=packets, gap_ns=GAP_US * 1000)
    capture = bench.directory / "gaps.pcap"
    bench.measure(acapella("generate", path, "-o", capture), any_core=True)
    lengths = {"ip": PACKET_BYTES - 14, "udp": PACKET_BYTES - 34, "payload": PACKET_BYTES - 42}
    config = bench.directory / "gaps.trafgen"
    config.write_text(TRAFGEN.format(**lengths))
    payload, rate = PACKET_BYTES - 42, round((PACKET_BYTES - 42) * 8 * 1e6 / GAP_US)
    options = ("-i", "out0", "--at", "+1", "--cpus", bench.core)
    return {
        OURS: [*acapella("generate", path, *options)],
        "acapella replay": [*acapella("replay", capture, "--pace", "single", *options)],
        "tcpreplay": ["tcpreplay", "--preload-pcap", "--quiet", "--timer=nano", "--intf1=out0", capture],
        "trafgen": ["trafgen", "--dev", "out0", "--conf", config, "--gap", f"{GAP_US}us", "--num", packets,
                    "--cpus", 1],
        "iperf3 -u": ["iperf3", "-u", "-c", ADDRESSES[1], "-p", PORT, "-l", payload, "-b", rate, "-k", packets,
                      "--pacing-timer", GAP_US],
    }  # fmt: skip


def fast_senders(bench: Bench, packets: int) -> dict[str, list[object]]:
    """Return the command line of each program, without gaps."""
    path, _ = compiled(bench, "fast", packets=packets, gap_ns=1)
    capture = bench.directory / "gaps.pcap"  # of senders()
    config = bench.directory / "gaps.trafgen"
    return {
        OURS: [*acapella("generate", path, "-i", "out0", "--cpus", bench.core, "--retry-ns", 10**9)],
        "tcpreplay": ["tcpreplay", "--preload-pcap", "--quiet", "--topspeed", "--loop", max(1, packets // 2000),
                      "--limit", packets, "--intf1=out0", capture],
        "trafgen": ["trafgen", "--dev", "out0", "--conf", config, "--num", packets, "--cpus", 1],
        "iperf3 -u": ["iperf3", "-u", "-c", ADDRESSES[1], "-p", PORT, "-l", PACKET_BYTES - 42, "-b", 0, "-k", packets],
    }  # fmt: skip


def veth_rows(bench: Bench) -> list[dict]:
    """Return rate and errors of gaps of each program, and their highest rates."""
    reason = missing()
    if reason is not None:
        return [{"measured": "programs that generate", "value": "not measured", "note": reason}]
    packets = max(100, round(bench.scale["replay_s"] * 1e6 / GAP_US))
    fast_packets = bench.scale["generate"] // 10
    rows = []
    with two_hosts() as (inside, receiver):
        veth = VethPath(bench, inside, receiver)
        for name, words in senders(bench, packets).items():
            with served(name, receiver) as reason:
                rows += [absent(name, reason)] if reason else rows_of(name, veth.send(words, packets), packets)
        for name, words in fast_senders(bench, fast_packets).items():
            with served(name, receiver) as reason:
                rows.append(absent(name, reason) if reason else rate_row(name, veth.top_rate(words), fast_packets))
    return rows


def absent(name: str, reason: str) -> dict:
    """Return the row of a program that cannot run."""
    return {"measured": name, "value": "not measured", "note": reason}


def rate_row(name: str, rate: float, packets: int) -> dict:
    """Return the row of the highest rate of a program."""
    return {
        "measured": f"highest rate into the veth pair: {name}",
        "value": round(rate),
        "unit": "packets/s",
        "note": f"{packets:,} packets of {PACKET_BYTES} B",
    }


@contextlib.contextmanager
def served(name: str, receiver: list[str]) -> Iterator[str | None]:
    """Run the server that a program needs. Yield why the program cannot run; None if it can."""
    program = name.split(maxsplit=1)[0]
    if program != "acapella" and shutil.which(program) is None:
        yield f"{program} is not installed"
        return
    with server(receiver) if program == "iperf3" else contextlib.nullcontext():
        yield None


@contextlib.contextmanager
def server(receiver: list[str]) -> Iterator[None]:
    """Run an iperf3 server."""
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
            "note": f"{found.packets:,} packets arrived, {packets:,} requested",
        },
        {
            "measured": f"gaps of {GAP_US} us: {name}, median error of a gap",
            "value": found.median,
            "unit": "ns",
            "note": f"p99 {found.p99:,}, largest {found.largest:,}",
        },
    ]


def run(bench: Bench) -> list[dict]:
    """Return the rows of the ring with and without real-time priority, and the rows of the veth pair."""
    bench.run(["make", "-s", "-C", ROOT, "programs", f"PROGRAMS={BUILD}"])
    bench.run(["meson", "compile", "-C", BUILD, "bench_generate"])
    prefix = realtime()
    rows = ring_rows(bench, prefix, "SCHED_FIFO") if prefix else []
    normal = ring_rows(bench, [], "normal priority")
    if rows:
        normal[0].pop("goal")
    return rows + normal + veth_rows(bench)
