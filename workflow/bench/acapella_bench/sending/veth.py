"""Sends the same frames over a veth pair to tcpdump and to both writers of the DPDK program, one after the other."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_capture.programs import dpdk, tcpdump

from .. import table
from ..programs import Bench, Failed, native_program
from .writer import program

SNAPLEN = 200
BUFFER_KIB = 32768  # per receiver: value of tcpdump's -B on FABRIC
MTU = 1500
FRACTIONS = (0.9, 0.75, 0.5, 0.3, 0.15)  # fractions of the rate offered without a limit
RECEIVERS = ("tcpdump", "buffered", "direct")
START_S, DRAIN_S, STOP_S = 20, 10, 60
IDLE_S = 1.0
DIFFERENT_FRAMES = 1000
COLUMNS = ("Receiver", "Frame Size (B)", "Offered (k/s)", "Rate (Gbps)", "Offered", "Written", "Lost", "Loss (%)")
LINK = (
    "ip link set lo up",
    "ip link add out0 type veth peer name in0",
    "ip link set out0 addrgenmode none",
    "ip link set in0 addrgenmode none",
    "ip link set out0 up",
    "ip link set in0 up",
)


@dataclass(frozen=True)
class Point:
    """One run. ``offered``: frames transmitted by the sender's interface."""

    receiver: str
    size: int
    seconds: float
    offered: int
    written: int

    @property
    def lost(self) -> int:
        return self.offered - self.written

    @property
    def rate(self) -> float:
        return self.offered / self.seconds

    def row(self) -> list:
        loss_percent = 100 * self.lost / self.offered if self.offered else 0.0
        gbps = self.rate * self.size * 8 / 1e9
        return [self.receiver, self.size, self.rate / 1e3, gbps, self.offered, self.written, self.lost, loss_percent]


def missing() -> str | None:
    """Return why the benchmark cannot run on this machine; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces require root"
    absent = [name for name in ("ip", "unshare", "nsenter", "tcpdump") if shutil.which(name) is None]
    return f"{absent[0]} is not installed" if absent else None


@contextlib.contextmanager
def veth_pair() -> Iterator[list[str]]:
    """Yield a command prefix that runs a command in a temporary network namespace in which out0 sends to in0."""
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as holder:
        try:
            inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
            initial, end = Path("/proc/self/ns/net").readlink(), time.monotonic() + START_S
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == initial:
                if holder.poll() is not None or time.monotonic() > end:
                    raise Failed("unshare --net: network namespaces are not available")
                time.sleep(0.01)
            for line in LINK:
                done = subprocess.run([*inside, *line.split()], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Failed(f"{line}: {done.stderr.strip()}")
            yield inside
        finally:
            holder.kill()


def transmitted_frames(inside: list[str]) -> int:
    """Return the number of frames transmitted by out0."""
    text = subprocess.run([*inside, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"^\s*out0:(.*)$", text, re.MULTILINE)[1].split()[9])


def send(bench: Bench, inside: list[str], size: int, rate: float | None, seconds: float) -> tuple[int, float]:
    """Run acapella-send. Return the number of frames and the duration in seconds. ``rate`` None: no limit."""
    words = [*inside, "taskset", "-c", bench.other_core, native_program("acapella-send"), "out0"]
    words += [frames_of(bench, size), seconds, *([f"{rate:.0f}"] if rate else [])]
    before = transmitted_frames(inside)
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["acapella-send: no message"])[-1])
    return transmitted_frames(inside) - before, json.loads(done.stdout)["seconds"]


def frames_of(bench: Bench, size: int) -> Path:
    """Return a capture of frames of this size. It is generated only once."""
    path = bench.directory / f"sent{size}.pcap"
    if not path.exists():
        words = [program(), "--generate", size, "--rate", 1e5, "--frames", DIFFERENT_FRAMES, "--writer", "buffered"]
        bench.measure([*words, "--write", path], any_core=True)
    return path


@contextlib.contextmanager
def running(words: list[str], directory: Path, output: Path | None) -> Iterator[tuple[subprocess.Popen, Path]]:
    """Run a receiver; yield it and its log once it listens. It is always killed at the end."""
    log = directory / "receiver.log"
    output_stream = output.open("wb") if output else contextlib.nullcontext(subprocess.DEVNULL)
    with output_stream as stdout, log.open("wb") as stderr:
        receiver = subprocess.Popen([str(word) for word in words], stdout=stdout, stderr=stderr)
    try:
        wait_for(lambda: "listening on" in log.read_text(), receiver, START_S)
        yield receiver, log
    finally:
        receiver.kill()
        receiver.wait()


def wait_for(condition: Callable[[], bool], receiver: subprocess.Popen, seconds: float) -> None:
    """Wait until a condition holds. Raises Failed on timeout or if the receiver ends."""
    end = time.monotonic() + seconds
    while not condition():
        if receiver.poll() is not None or time.monotonic() > end:
            raise Failed(f"ended, or took more than {seconds:.0f} s: {' '.join(receiver.args)}")
        time.sleep(0.05)


def to_tcpdump(bench: Bench, inside: list[str], traffic: Callable[[], tuple[int, float]], size: int) -> Point:
    """Run tcpdump with the options of `acapella collect`; ``written`` is the number of records in its file."""
    path = bench.directory / "received.pcap"
    words = [*inside, "taskset", "-c", str(bench.core), "tcpdump", "-i", "in0", "-n", "-B", str(BUFFER_KIB)]
    words += ["-s", str(SNAPLEN), "--time-stamp-precision=nano", "-w", "-"]
    with running(words, bench.directory, path) as (receiver, log):
        offered, seconds = traffic()

        def empty() -> bool:
            receiver.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            counts = tcpdump.last_counts(log.read_text())
            return counts is not None and counts.held <= 0

        wait_for(empty, receiver, DRAIN_S)
        receiver.send_signal(signal.SIGINT)
        receiver.wait(STOP_S)
        counts = tcpdump.last_counts(log.read_text())
    records, rest = divmod(path.stat().st_size - 24, 16 + min(size, SNAPLEN))
    path.unlink()
    if rest or records != counts.captured:
        raise Failed(
            f"tcpdump: its file has {records} records and {rest} bytes, but it reports {counts.captured} packets"
        )
    return Point("tcpdump", size, seconds, offered, records)


def to_writer(writer: str) -> Callable:
    """Return a function that runs a writer of the DPDK program over net_af_packet, as `acapella collect` does."""

    def received(bench: Bench, inside: list[str], traffic: Callable[[], tuple[int, float]], size: int) -> Point:
        path = bench.directory / "received.pcap"
        device, _ = dpdk.device("in0", MTU, BUFFER_KIB)
        words = [*inside, program(), "--vdev", device, "--snaplen", SNAPLEN, "--writer", writer]
        words += ["--cpus", bench.core, "--stop-when-idle", IDLE_S, "--write", path]
        with running(words, bench.directory, None) as (receiver, log):
            offered, seconds = traffic()
            if receiver.wait(STOP_S):
                raise Failed(f"{writer}: {log.read_text().strip().splitlines()[-1]}")
        counters = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        for file in bench.directory.glob("received*"):
            file.unlink()
        return Point(writer, size, seconds, offered, counters["frames"]["written"])

    return received


def sweep(bench: Bench, inside: list[str], receiver: str, size: int) -> list[Point]:
    """Measure at the maximum rate of the sender, then at decreasing rates until no frame is lost."""
    receive = to_tcpdump if receiver == "tcpdump" else to_writer(receiver)
    seconds, points, highest = bench.scale["veth_s"], [], None
    for fraction in (None, *FRACTIONS):
        rate = highest * fraction if fraction else None
        point = receive(bench, inside, lambda rate=rate: send(bench, inside, size, rate, seconds), size)
        if point.lost < 0:
            raise Failed(f"{receiver}: more frames written ({point.written}) than sent ({point.offered})")
        points.append(point)
        highest = highest or point.rate
        if point.lost == 0:
            break
    return points


def row_of(points: list[Point]) -> dict:
    """Return the highest rate without loss, and whether sender or receiver limited it."""
    lossless = max((point.rate for point in points if point.lost == 0), default=0.0)
    full = points[0]
    limit = "sender" if full.lost == 0 else "receiver"
    return {
        "measured": f"{full.receiver}, frames of {full.size} B",
        "value": round(lossless),
        "unit": "frames/s",
        "note": f"without loss, {lossless * full.size * 8 / 1e9:.2f} Gbit/s; limited by the {limit}; "
        f"{100 * full.lost / full.offered:.2f} % lost at the maximum rate of {full.rate:,.0f} frames/s",
        "limited_by": limit,
        "sweep": [{**point.__dict__, "lost": point.lost, "rate": point.rate} for point in points],
    }


def run(bench: Bench) -> list[dict]:
    """Measure the sender alone and the three receivers for each frame size."""
    reason = missing()
    if reason:
        return [{"measured": "skipped", "value": reason}]
    rows, printed = [], []
    with veth_pair() as inside:
        for size in bench.scale["veth_sizes"]:
            offered, seconds = send(bench, inside, size, None, bench.scale["veth_s"])
            note = f"acapella-send, without a receiver; {offered / seconds * size * 8 / 1e9:.2f} Gbit/s"
            sender_row = {"measured": f"sender alone, frames of {size} B", "value": round(offered / seconds)}
            rows.append({**sender_row, "unit": "frames/s", "note": note})
            sweeps = [sweep(bench, inside, receiver, size) for receiver in RECEIVERS]
            printed += [point.row() for points in sweeps for point in points]
            rows += [row_of(points) for points in sweeps]
    print(table.format_table(COLUMNS, printed), "\n", flush=True)
    return rows
