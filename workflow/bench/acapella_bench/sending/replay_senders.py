"""Compares how accurately programs preserve gaps when they replay the same captures over the same veth pair.

A tcpdump with the kernel's receive timestamps captures the packets of all programs. Its own noise, and the noise of the
veth pair, is measured with the plain loop, which records the time before each system call: the noise is the difference
between the gaps of these times and the receiver's gaps. No program can be measured more accurately than that.
"""

import contextlib
import json
import math
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acapella_capture.testbeds.local import replay_capture

from ..programs import ROOT, Bench, Failed, acapella, native_program
from .veth import missing, running, veth_pair

GAPS_US = (10, 100, 1000)
KAPPA_GAP_US = 100
FRAME_BYTES = 60
RUNS = 5
JITTER_NS = 1000
JITTER_RUNS = 10
NORMAL_MEDIAN = 0.67449  # median of the absolute value of a standard normal variable
T_95 = 2.262  # Student's t, two-sided 95 %, JITTER_RUNS - 1 degrees of freedom
REAL_PACKETS = 20_000
BUFFER_KIB = 32768
ARRIVE_S = 10
MAGIC_NS = 0xA1B23C4D
BUSY = "while :; do :; done"
OURS, PLAIN = "acapella replay", "sendmmsg loop"
NOT_COMPARED = {  # programs, and why
    "dpdk-testpmd": "forwards or generates frames; it reads captures through net_pcap without their gaps",
    "pktgen": "generates frames at a rate; it sends a capture without its gaps",
}


@dataclass(frozen=True)
class Capture:
    """A capture to send: the times of its frames, ns, and the size of a file with all of them."""

    name: str
    path: Path
    times: np.ndarray
    bytes: int


@dataclass(frozen=True)
class Sent:
    """One replay: the times of arrival and, for the plain loop, the times before the system calls."""

    arrived: np.ndarray
    stamps: np.ndarray | None
    path: Path


@dataclass(frozen=True)
class Errors:
    """Errors of the gaps of one replay, absolute, ns, and how much longer it took than recorded."""

    median: int
    p99: int
    largest: int
    lost: int
    drift_ppm: float
    rms: float = 0.0  # root mean square

    def words(self) -> str:
        lost = f", {self.lost} packets lost" if self.lost else ""
        return f"p99 {self.p99:,}, largest {self.largest:,}, drift {self.drift_ppm:+.2f} ppm{lost}"


def times_of(path: Path) -> np.ndarray:
    """Return the timestamps of a pcap of this machine's byte order, in ns."""
    data, at, found = path.read_bytes(), 24, []
    scale = 1 if struct.unpack_from("=I", data)[0] == MAGIC_NS else 1000
    while at + 16 <= len(data):
        seconds, fraction, length = struct.unpack_from("=III", data, at)
        found.append(seconds * 10**9 + fraction * scale)
        at += 16 + length
    return np.array(found, np.int64)


def errors_of(requested: np.ndarray, measured: np.ndarray) -> Errors:
    """Return the errors of gaps. If packets were lost, only their number is meaningful: the gaps are then unknown."""
    lost = len(requested) - len(measured)
    if lost or len(requested) < 2:
        return Errors(0, 0, 0, lost, 0.0)
    errors = np.sort(np.abs(np.diff(measured) - np.diff(requested)))
    rank = max(0, int(np.ceil(0.99 * len(errors))) - 1)
    duration = int(requested[-1] - requested[0])
    drift = (int(measured[-1] - measured[0]) - duration) / duration * 1e6 if duration else 0.0
    rms = float(np.sqrt(np.mean(np.square(errors.astype(np.float64)))))
    return Errors(int(errors[(len(errors) - 1) // 2]), int(errors[rank]), int(errors[-1]), lost, drift, rms)


def constant_gaps(directory: Path, gap_us: int, seconds: float) -> Capture:
    """Return a capture of small packets at a constant gap."""
    times = np.arange(max(3, round(seconds * 1e6 / gap_us)), dtype=np.int64) * gap_us * 1000
    return write_capture(directory / f"gaps-{gap_us}-{seconds:g}.pcap", f"gaps of {gap_us:,} us", times)


def jittered(directory: Path, capture: Capture) -> Capture:
    """Return the same packets with each time changed by at most JITTER_NS, uniformly distributed."""
    jitter = np.random.default_rng(1).integers(-JITTER_NS, JITTER_NS, len(capture.times), endpoint=True)
    jitter[0] = 0  # the first packet is the origin of all times
    return write_capture(directory / "jitter.pcap", f"jitter of {JITTER_NS:,} ns", capture.times + jitter)


def write_capture(path: Path, name: str, times: np.ndarray) -> Capture:
    """Write a capture of small packets with these times, in ns after the first packet."""
    addresses = replay_capture.mac_bytes("02:00:00:00:00:02", "02:00:00:00:00:01")
    with path.open("wb") as stream:
        stream.write(struct.pack("=IHHiIII", MAGIC_NS, 2, 4, 0, 0, 65535, 1))
        for number, time_ns in enumerate((times - times[0]).tolist()):
            frame = addresses + replay_capture.packet(number, FRAME_BYTES, 5001, 0)
            seconds, rest = divmod(time_ns, 10**9)
            stream.write(struct.pack("=IIII", 1_700_000_000 + seconds, rest, len(frame), len(frame)) + frame)
    return Capture(name, path, times_of(path), path.stat().st_size)


def real_traffic(directory: Path) -> Capture | None:
    """Return the first packets of the largest capture of `make demo`; None if there is none, or without editcap."""
    found = sorted((ROOT / "results" / "demo" / "raw").glob("*.pcap*"), key=lambda path: path.stat().st_size)
    if not found or shutil.which("editcap") is None:
        return None
    path = directory / "real.pcap"
    words = ["editcap", "-F", "nsecpcap", "-r", found[-1], path, f"1-{REAL_PACKETS}"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode or not replay_capture.is_ethernet_pcap(path):
        return None
    return Capture("the demo's traffic", path, times_of(path), path.stat().st_size)


class VethPath:
    """The veth pair: runs a program that sends a capture, and returns the times at the receiver."""

    def __init__(self, bench: Bench, inside: list[str]):
        self._bench = bench
        self._inside = inside
        self.stamps = bench.directory / "stamps"

    def send(self, words: Sequence[object], capture: Capture, name: str = "arrived") -> Sent:
        """Send a capture once. Raises Failed if the program fails.

        A program with one thread has one core; acapella replay assigns that core to its sending thread only (--cpus).
        """
        path = self._bench.directory / f"{name}.pcap"
        receiver = [*self._inside, "taskset", "-c", self._bench.other_core, "tcpdump", "-i", "in0", "-n", "-Q", "in"]
        receiver += ["-B", BUFFER_KIB, "-U", "--time-stamp-precision=nano", "-w", "-"]
        self.stamps.unlink(missing_ok=True)
        with running(receiver, self._bench.directory, path):
            self._bench.measure([*self._inside, *words], any_core="--cpus" in words)
            end = time.monotonic() + ARRIVE_S
            while path.stat().st_size < capture.bytes and time.monotonic() < end:
                time.sleep(0.05)
        stamps = np.fromfile(self.stamps, np.int64) if self.stamps.exists() else None
        return Sent(times_of(path), stamps, path)


def plain_words(veth: VethPath, capture: Capture) -> list[object]:
    """Return the command line of the plain loop."""
    return [native_program("acapella-send-gaps"), "out0", capture.path, veth.stamps]


def acapella_arguments(bench: Bench) -> Callable[[VethPath, Capture], list[object]]:
    """Return the function that returns the command line of `acapella replay` for a capture."""

    def words(_: VethPath, capture: Capture) -> list[object]:
        return acapella("replay", capture.path, "-i", "out0", "--at", "+1", "--pace", "single", "--cpus", bench.core)

    return words


def tcpreplay_words(prefix: list[str], timer: str) -> Callable[[VethPath, Capture], list[object]]:
    """Return the function that returns the command line of tcpreplay with a timer for a capture."""

    def words(_: VethPath, capture: Capture) -> list[object]:
        return [*prefix, "tcpreplay", "--preload-pcap", "--quiet", f"--timer={timer}", "--intf1=out0", capture.path]

    return words


def best_tcpreplay(veth: VethPath, capture: Capture) -> tuple[str, Callable[[VethPath, Capture], list[object]]]:
    """Return tcpreplay with the timer and priority whose median error is the smallest."""
    realtime = ["chrt", "--fifo", "50"]
    allowed = subprocess.run([*realtime, "true"], capture_output=True, check=False).returncode == 0
    tried = {
        f"tcpreplay, {timer}{', SCHED_FIFO' if prefix else ''}": tcpreplay_words(prefix, timer)
        for prefix in ([], realtime if allowed else [])[: 1 + allowed]
        for timer in ("nano", "gtod", "select")
        if not (prefix and timer == "gtod")  # polls: the kernel would stop it for 50 ms of each second
    }
    medians = {}
    for name, words in tried.items():
        with contextlib.suppress(Failed):  # this build has no such timer
            found = errors_of(capture.times, veth.send(words(veth, capture), capture).arrived)
            if not found.lost:
                medians[name] = found.median
    if not medians:
        raise Failed("tcpreplay: no timer works")
    best = min(medians, key=medians.__getitem__)
    return best, tried[best]


@contextlib.contextmanager
def load(programs: int) -> Iterator[None]:
    """Keep all cores busy with programs of normal priority."""
    with contextlib.ExitStack() as busy:
        for _ in range(programs):
            process = subprocess.Popen(["sh", "-c", BUSY])
            busy.callback(process.wait)
            busy.callback(process.kill)
        yield


def kappa_of(paths: Sequence[Path], directory: Path) -> list[float]:
    """Return kappa of the first trial with each of the others."""
    output = directory / "kappa.json"
    done = subprocess.run(
        [str(word) for word in acapella("kappa", *paths, "--json", "-o", output)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"acapella kappa: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return [pair["kappa"] for pair in json.loads(output.read_text())["pairs"]]


def run(bench: Bench) -> list[dict]:
    """Return the rows of the comparison."""
    reason = missing() or (None if shutil.which("tcpreplay") else "tcpreplay is not installed")
    if reason is not None:
        return [{"measured": "programs that replay", "value": "not measured", "note": reason}]
    seconds, drift_s = bench.scale["replay_s"], bench.drift_s or bench.scale["replay_drift_s"]
    captures = [constant_gaps(bench.directory, gap, seconds) for gap in GAPS_US]
    real = real_traffic(bench.directory)
    rows = [{"measured": name, "value": "not compared", "note": reason} for name, reason in NOT_COMPARED.items()]
    if real is None:
        rows.append({"measured": "the demo's traffic", "value": "not measured", "note": "run make demo first"})
    with veth_pair() as inside:
        veth = VethPath(bench, inside)
        peer, peer_words = best_tcpreplay(veth, captures[1])
        senders = {OURS: acapella_arguments(bench), peer: peer_words, PLAIN: plain_words}
        floor = noise_floor(veth, captures[1])
        rows.append({
            "measured": "noise of receiver and veth", "value": floor.median, "unit": "ns",
            "note": f"median error of gaps; p99 {floor.p99:,}, largest {floor.largest:,}",
        })  # fmt: skip
        rows += arrival_rows(floor)
        for capture in [*captures, *([real] if real else [])]:
            rows += gap_rows(veth, capture, senders, floor)
        rows += drift_rows(veth, constant_gaps(bench.directory, GAPS_US[-1], drift_s), senders, drift_s)
        rows += jitter_rows(bench, veth, captures[GAPS_US.index(KAPPA_GAP_US)])
        for name, programs in (("idle", 0), ("loaded", 2 * len(os.sched_getaffinity(0)))):
            with load(programs):
                rows += kappa_rows(bench, veth, captures[GAPS_US.index(KAPPA_GAP_US)], senders, name)
    return rows


def noise_floor(veth: VethPath, capture: Capture) -> Errors:
    """Return the differences between the gaps of the plain loop's own times and the receiver's gaps."""
    sent = veth.send(plain_words(veth, capture), capture)
    found = errors_of(sent.stamps, sent.arrived)
    if found.lost:
        raise Failed(f"the receiver lost {found.lost} packets of {capture.name}")
    return found


def arrival_error_ns(floor: Errors) -> int:
    """Return the standard deviation of timestamps whose gaps have these errors, if normal and independent.

    The error of a gap is the difference of two errors. Outliers, which are caused by delays in the kernel, are
    excluded.
    """
    return math.ceil(floor.median / (NORMAL_MEDIAN * math.sqrt(2)))


def arrival_rms_ns(floor: Errors) -> int:
    """Return the root mean square of the errors of timestamps, if independent, including all outliers."""
    return math.ceil(floor.rms / math.sqrt(2))


def arrival_rows(floor: Errors) -> list[dict]:
    """Return the rows for consistency.arrival_error_ns: the median ignores outliers, the root mean square does not."""
    values = {"standard deviation": arrival_error_ns(floor), "root mean square": arrival_rms_ns(floor)}
    notes = {
        "standard deviation": "from the median error of gaps, if errors are normal; without outliers",
        "root mean square": "with outliers; use the larger of both for consistency.arrival_error_ns",
    }
    return [
        {"measured": f"{name} of arrival timestamps", "value": value, "unit": "ns", "note": notes[name]}
        for name, value in values.items()
    ]


def gap_rows(veth: VethPath, capture: Capture, senders: dict, floor: Errors) -> list[dict]:
    """Return the errors of the gaps of one capture for each program, and the goal for acapella replay."""
    found = {
        name: errors_of(capture.times, veth.send(words(veth, capture), capture).arrived)
        for name, words in senders.items()
    }
    rows = [
        {
            "measured": f"{capture.name}: {name}, median error",
            "value": None if errors.lost else errors.median,
            "unit": "ns",
            "note": f"{errors.lost} packets lost" if errors.lost else errors.words(),
        }
        for name, errors in found.items()
    ]
    peer = next(errors for name, errors in found.items() if name.startswith("tcpreplay"))
    rows[0]["goal"] = f"<= {max(peer.median // 5, 2 * floor.median)}"
    return rows


def drift_rows(veth: VethPath, capture: Capture, senders: dict, seconds: float) -> list[dict]:
    """Return how much longer than recorded each program takes."""
    rows = []
    for name, words in senders.items():
        errors = errors_of(capture.times, veth.send(words(veth, capture), capture).arrived)
        value = None if errors.lost else errors.drift_ppm * seconds
        note = f"{errors.lost} packets lost" if errors.lost else f"{errors.drift_ppm:+.3f} ppm"
        rows.append({"measured": f"drift over {seconds:g} s: {name}", "value": value, "unit": "us", "note": note})
    return rows


def kappa_rows(bench: Bench, veth: VethPath, capture: Capture, senders: dict, state: str) -> list[dict]:
    """Return kappa of several replays for each program."""
    rows = []
    for name, words in senders.items():
        trials = [veth.send(words(veth, capture), capture, f"trial{number}").path for number in range(RUNS)]
        found = sorted(kappa_of(trials, bench.directory))
        rows.append({
            "measured": f"kappa of {RUNS} replays, {state}: {name}",
            "value": f"{found[(len(found) - 1) // 2]:.6f}",  # more digits than the table prints
            "note": f"{capture.name}; {found[0]:.6f} to {found[-1]:.6f}, load {os.getloadavg()[0]:.1f}",
        })  # fmt: skip
    return rows


def jitter_rows(bench: Bench, veth: VethPath, capture: Capture) -> list[dict]:
    """Return kappa of a replay and one with an injected jitter, over several runs, and kappa of the schedules alone.

    On a simulated clock, both are equal (capture/replay/tests); the difference is due to the real clock.
    """
    changed, words = jittered(bench.directory, capture), acapella_arguments(bench)
    (injected,) = kappa_of([capture.path, changed.path], bench.directory)
    found = []
    for _ in range(JITTER_RUNS):
        trials = [veth.send(words(veth, each), each, f"jitter-{at}").path for at, each in enumerate((capture, changed))]
        found += kappa_of(trials, bench.directory)
    mean, deviation = float(np.mean(found)), float(np.std(found, ddof=1))
    half = T_95 * deviation / JITTER_RUNS**0.5
    return [
        {
            "measured": f"kappa with an injected {changed.name}, {JITTER_RUNS} runs: {OURS}",
            "value": f"{mean:.6f}",
            "note": f"95 % confidence interval {mean - half:.6f} to {mean + half:.6f}; of the schedules alone "
            f"{injected:.6f}",
        }
    ]
