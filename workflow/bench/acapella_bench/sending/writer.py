"""Measures the DPDK writer on one core with a generator on a second one, as in Patchwork's Tables 1 and 2."""

import json
from dataclasses import dataclass
from pathlib import Path

from .. import disk, table
from ..programs import ROOT, Bench, Failed

GOAL_FPS = 5_000_000  # frames per second and core
CORES = 1
TABLES = {200: 1, 64: 2}  # tables of the paper by snap length
FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.4, 0.2)  # fractions of the rate written under overload
PAPER = ROOT / "workflow" / "conformance" / "patchwork_writer.csv"
COLUMNS = ("Frame Size (B)", "Offered (Mpps)", "Rate (Gbps)", "Cores", "Offered", "Written", "Lost", "Loss (%)")


@dataclass(frozen=True)
class Load:
    """Writer and sizes of a run, in bytes."""

    writer: str
    snaplen: int
    size: int


@dataclass(frozen=True)
class Point:
    """One run at one rate, in frames."""

    size: int
    seconds: float  # duration of the offered load
    offered: int
    written: int
    lost: int
    behind: int  # due but not offered, because the generator was late
    cpu_s: float  # CPU time of the writer thread while frames arrive
    written_bytes: int
    whole_s: float  # including data in flight to the disk after the last frame

    @property
    def rate(self) -> float:
        return self.offered / self.seconds

    @property
    def loss_percent(self) -> float:
        return 100 * self.lost / self.offered if self.offered else 0.0

    def row(self) -> list:
        """Return a row as in the paper's tables, in Gbit/s of frames without FCS, preamble and inter-frame gap."""
        gbps = self.rate * self.size * 8 / 1e9
        return [self.size, self.rate / 1e6, gbps, CORES, self.offered, self.written, self.lost, self.loss_percent]

    def facts(self) -> dict:
        return {**self.__dict__, "rate": self.rate, "loss_percent": self.loss_percent}


def point_of(counters: dict) -> Point:
    """Return the result of a run. Raises Failed unless offered frames = written frames + lost frames."""
    source_counts, frames = counters["generator"], counters["frames"]
    lost = source_counts["refused"] + source_counts["left"] + sum(frames["dropped"].values())
    if source_counts["offered"] != frames["written"] + lost:
        raise Failed(
            f"offered {source_counts['offered']}, written {frames['written']} and lost {lost} frames do not add up"
        )
    return Point(
        size=source_counts["frame_bytes"],
        seconds=source_counts["seconds"],
        offered=source_counts["offered"],
        written=frames["written"],
        lost=lost,
        behind=source_counts["behind"],
        cpu_s=sum(queue["cpu_ns"] for queue in counters["queues"]) / 1e9,
        written_bytes=frames["written_bytes"],
        whole_s=(counters["end_ns"] - counters["begin_ns"]) / 1e9,
    )


def program() -> Path:
    """Return acapella-dpdk-capture as built by make setup."""
    path = ROOT / ".venv" / "bin" / "acapella-dpdk-capture"
    if not path.exists():
        raise Failed("acapella-dpdk-capture is not installed; make setup builds it if libdpdk-dev is installed")
    return path


def huge_pages() -> list[str]:
    """Return the option for huge pages if enough of them are free."""
    free = sum(int(path.read_text()) for path in Path("/sys/kernel/mm/hugepages").glob("*-2048kB/free_hugepages"))
    return ["--huge"] if free >= 128 else []


def run_writer(bench: Bench, load: Load, rate: float | None, seconds: float, built: Path | None = None) -> Point:
    """Run the writer at ``rate`` frames per second (None: no limit). ``built``: a different build of the program."""
    capture = bench.directory / "generated.pcap"
    words = [built or program(), "--generate", load.size, "--snaplen", load.snaplen, "--writer", load.writer]
    words += [
        "--cpus",
        f"{bench.core},{bench.other_core}",
        "--write",
        capture,
        "--duration",
        seconds,
        "--spin",
        *huge_pages(),
    ]
    words += ["--rate", f"{rate:.0f}"] if rate else []
    try:
        bench.measure(words, any_core=True)
        return point_of(json.loads(capture.with_suffix(".json").read_text(encoding="utf-8")))
    finally:
        for path in bench.directory.glob("generated*"):
            path.unlink()


def sweep(bench: Bench, load: Load) -> list[Point]:
    """Measure at the maximum rate, then at decreasing rates until no frame is lost; with a sink, also at GOAL_FPS."""
    seconds = bench.scale["writer_s"]
    points = [run_writer(bench, load, None, seconds)]
    written_fps = points[0].written / points[0].whole_s
    rates = [written_fps * fraction for fraction in FRACTIONS]
    if load.writer == "sink":
        points.append(run_writer(bench, load, GOAL_FPS, seconds))
        rates = [] if points[-1].lost == 0 and written_fps <= GOAL_FPS else rates
    for rate in rates:
        points.append(run_writer(bench, load, rate, seconds))
        if points[-1].lost == 0:
            break
    return points


def row_of(writer: str, snaplen: int, points: list[Point]) -> dict:
    """Return the table row of a sweep. The JSON output also contains all points of the sweep."""
    full = points[0]
    lossless_rate = max((point.rate for point in points if point.lost == 0), default=0.0)
    notes = [f"without loss up to {lossless_rate / 1e6:.2f} Mpps"]
    if writer == "sink":
        at_goal = points[1]
        notes.append(f"{at_goal.loss_percent:.2f} % loss at {at_goal.rate / 1e6:.2f} Mpps")
        notes.append(f"{full.written / full.cpu_s / 1e6:.2f} million frames per CPU second")
    else:
        notes.append(f"{full.written_bytes / full.whole_s / 1e6:,.0f} MB/s")
    return {
        "measured": f"{writer}, {snaplen} B of {full.size} B",
        "value": round(full.written / full.whole_s),
        "unit": "frames/s",
        "goal": f"{GOAL_FPS:,}" if writer == "sink" else "",
        "note": "; ".join(notes),
        "without_loss": lossless_rate,
        "cores": CORES,
        "sweep": [point.facts() for point in points],
    }


def run(bench: Bench) -> list[dict]:
    """Measure both snap lengths and all sizes, into a sink and to disk, then whole frames and the speed of the disk."""
    pages = "huge pages" if huge_pages() else "no huge pages"
    rows = [{"measured": "packet memory", "value": pages, "note": "sysctl vm.nr_hugepages"}]
    for writer in ("sink", "direct"):
        for snaplen in bench.scale["writer_snaplens"]:
            sweeps = [sweep(bench, Load(writer, snaplen, size)) for size in bench.scale["writer_sizes"]]
            print(f"\n  Table {TABLES[snaplen]}: {snaplen} B truncation; in the paper, from a 100 Gbit/s NIC to files:")
            print(table.format_table(COLUMNS[:1] + COLUMNS[2:4] + COLUMNS[-1:], paper_rows(snaplen)))
            print(f"  here, from a ring, writer {writer}:")
            print(table.format_table(COLUMNS, [point.row() for points in sweeps for point in points]), flush=True)
            rows += [row_of(writer, snaplen, points) for points in sweeps]
    print()
    return rows + measure_disk(bench)


def paper_rows(snaplen: int) -> list[list]:
    """Return the paper's rows for a snap length."""
    lines = [line.split(",") for line in PAPER.read_text(encoding="utf-8").splitlines()[1:]]
    return [[int(size), float(rate), int(cores), float(loss)]
            for cut, size, rate, cores, loss in lines if int(cut) == snaplen]  # fmt: skip


def measure_disk(bench: Bench) -> list[dict]:
    """Measure writers with whole frames of 1514 bytes at a rate above that of the disk, between two runs of fio."""
    seconds = bench.scale["disk_s"]
    fio = {"before the run": disk.speed(bench.directory, seconds)}
    points = {writer: run_writer(bench, Load(writer, 0, 1514), None, seconds) for writer in ("direct", "buffered")}
    fio["after the run"] = disk.speed(bench.directory, seconds)
    best = max(speed.bytes_per_s for speed in fio.values())
    one_write = disk.speed(bench.directory, seconds, disk.ONE_WRITE)
    rows = [
        {"measured": f"fio {name}", "value": speed.bytes_per_s / 1e6, "unit": "MB/s", "note": speed.note}
        for name, speed in (fio | {"after the run, one write at a time": one_write}).items()
    ]
    for writer, point in points.items():
        speed = point.written_bytes / point.whole_s
        share = f"{100 * speed / best:.0f} % of fio's throughput" if best else "fio's throughput is unknown"
        rows.append(
            {
                "measured": f"{writer}, whole frames of 1514 B",
                "value": speed / 1e6,
                "unit": "MB/s",
                "goal": "fio's throughput" if writer == "direct" else "",
                "note": f"{share}; {point.written:,} of {point.offered:,} offered frames, {point.lost:,} lost",
                "sweep": [point.facts()],
            }
        )
    return rows
