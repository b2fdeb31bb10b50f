"""A monitor on the real clock, after a link that delays, loses, duplicates and reorders packets by a known schedule.

The link holds packets for longer than the generator sends, so that their order is that of the schedule,
however busy the machine is; a run in which this does not hold is repeated with a longer delay.
"""

import os
import statistics
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing import c_programs
from acapella_testing.capture import impaired_path, replayer
from acapella_testing.capture.commands import ACAPELLA, monitors, run_command
from acapella_testing.capture.impaired_path import CLEAN, EARLY_NS, IMPAIRED, ROUTER_MAC, Impairments
from acapella_testing.frames import pcap_files
from acapella_testing.generated import traffic_models as models
from acapella_testing.new_files import write_file
from acapella_testing.oracles import naive_captures
from acapella_testing.oracles import naive_monitor as naive
from acapella_testing.processes import run
from acapella_testing.soak import SOAK
from acapella_testing.waiting import wait_until

from acapella_capture.monitor import command

PACKETS = 400  # fewer than the queues of the kernel and of the monitor contain
STAMP_AT = 42
ATTEMPTS = 5  # to measure delays: other programs may delay packets
CLOCK_NS = 10_000_000  # CLOCK_STEP_NS: a clock that differs more from the system clock is set, and counted
COUNTS = ("packets", "unique", "lost", "duplicates", "reordered", "discontinuities", "extent_known", "extent_max",
          "unclassified", "bit_errors")  # fmt: skip
TIMES = ("latency_min_ns", "latency_mean_ns", "latency_max_ns", "late_max_ns", "jitter_ns", "gap_min_ns", "gap_max_ns")

pytestmark = pytest.mark.usefixtures("monitor_on_path")


@dataclass(frozen=True)
class Measured:
    """The tables of a monitor, and by flow the packets that it wrote: arrival, sequence number, departure."""

    directory: Path
    rows: list[dict]
    port: dict
    packets: dict[int, list]


def model(directory: Path) -> Path:
    """Write a model with a flow for each path."""
    mac = f'{{src: "02:00:00:00:00:01", dst: "{ROUTER_MAC}"}}'
    flows = [models.udp_flow(net, PACKETS, mac=mac, src="10.8.0.1", dst=f"{net}.1") for net in (CLEAN, IMPAIRED)]
    return write_file(directory / "model.yaml", "\n".join(["seed: 3", "flows:", *flows, ""]))


def measure(prefix: tuple[str, ...], link: impaired_path.Link, directory: Path) -> Measured:
    """Send the packets of the model and monitor them; capture the sent and the arriving packets."""
    before, earlier = link.counts(), impaired_path.arrived(prefix)

    def all_arrived() -> bool:
        counts = {name: value - before[name] for name, value in link.counts().items()}
        through_link = counts["received"] == PACKETS and counts["queued"] == 0
        return through_link and impaired_path.arrived(prefix) - earlier >= PACKETS + counts["sent"]

    path = f"{c_programs.built_or_skip('acapella-dpdk-generate').parent}:{os.environ['PATH']}"
    variables = {**replayer.environment(), "PATH": path}
    tables, wanted = directory / "tables", directory / "wanted.pcap.generated.json"
    generate = [ACAPELLA, "generate", model(directory)]
    run(*generate, "-o", directory / "wanted.pcap", env=variables, check=True)
    words = ["--interface", "arrived0", "--expected", wanted, "--write", directory / "arrived.pcapng", "--snaplen", "0"]
    with (
        monitors(prefix, [*words, "-o", tables], env=variables) as (monitor,),
        replayer.tcpdump(prefix, "router0", directory / "sent.pcap"),
    ):
        done = run(*prefix, *generate, "--interface", "sent0", env=variables)
        assert done.returncode == 0, done.stderr
        wait_until(all_arrived, running=monitor)
    (port,) = pq.read_table(tables / "monitor_ports.parquet").to_pylist()
    rows = pq.read_table(tables / "monitor_flows.parquet").to_pylist()
    return Measured(directory, rows, port, packets_of(directory / "arrived.pcapng"))


def packets_of(path: Path) -> dict[int, list]:
    """Return by flow (arrival, sequence, departure, sent payload, payload, wire bytes), as in naive_monitor."""
    found: dict[int, list] = {0: [], 1: []}
    for packet in naive_captures.packets(path):
        flow, sequence, seconds, fraction = struct.unpack_from(">4I", packet.frame, STAMP_AT + 2)
        departure = seconds * 10**9 + round(fraction * 10**9 / 2**32)
        payload = packet.frame[STAMP_AT + 18 :]
        found[flow].append((int(packet.time_s * 10**9), sequence, departure, payload, payload, packet.wire_len))
    return found


def latencies(packets: list) -> list[int]:
    """Return arrival minus departure of packets."""
    return [ns - departure for ns, _, departure, *_ in packets]


def is_ordered(measured: Measured, immediate: set[int], delay_ns: int) -> bool:
    """Return whether all packets without delay arrived before the first delayed one could."""
    packets = measured.packets[1]
    last_immediate = max(ns for ns, sequence, *_ in packets if sequence in immediate)
    return last_immediate < min(departure for _, _, departure, *_ in packets) + delay_ns - EARLY_NS - CLOCK_NS


@pytest.mark.soak
def test_counts_match_the_schedule_and_delays_are_not_shorter(tmp_path, capsys):
    impairments = Impairments(10**9, loss_ppm=100_000, reorder_ppm=60_000, duplicate_ppm=150_000, seed=9)
    immediate, later, lost = impaired_path.schedule(impairments, PACKETS)
    with impaired_path.path(c_programs.built_or_skip("acapella-link")) as (prefix, link):
        for attempt in range(4):
            link.set(replace(impairments, delay_ns=impairments.delay_ns << 2 * attempt))
            before = link.counts()
            measured = measure(prefix, link, tmp_path / str(attempt))
            if is_ordered(measured, set(immediate), impairments.delay_ns << 2 * attempt):
                break
        counts = {name: value - before[name] for name, value in link.counts().items()}
    assert (counts["received"], counts["lost"], counts["full"], counts["unsent"]) == (PACKETS, len(lost), 0, 0)
    assert [sequence for _, sequence, *_ in measured.packets[1]] == immediate + later
    clean, impaired = measured.rows
    assert [clean[name] for name in COUNTS[:6]] == [PACKETS, PACKETS, 0, 0, 0, 0]
    check_row(impaired, measured.packets[1])
    check_row(clean, measured.packets[0])
    assert (
        impaired["lost"]
        == len(lost)
        == len(set(range(PACKETS)) - {sequence for _, sequence, *_ in measured.packets[1]})
    )
    assert impaired["duplicates"] == counts["duplicated"] == len(immediate + later) - len(set(immediate + later))
    assert impaired["reordered"] == len({sequence for sequence in later if sequence < max(immediate)})
    delayed = [packet for packet in measured.packets[1] if packet[1] in set(later)]
    assert min(latencies(delayed)) >= impairments.delay_ns - EARLY_NS - CLOCK_NS
    assert (measured.port["dropped_kernel"], measured.port["missed"], measured.port["clock_steps"]) == (0, 0, 0)
    check_loss_events(measured, lost)


def check_row(row: dict, packets: list) -> None:
    """Compare a flow with the capture of the monitor."""
    wanted = naive.row_of(packets, PACKETS)
    for name in (*COUNTS, *TIMES):
        assert row[name] == (pytest.approx(wanted[name]) if isinstance(wanted[name], float) else wanted[name]), name


def check_loss_events(measured: Measured, lost: list[int]) -> None:
    """Find the lost packets by their hashes, in captures of both ends of the path."""
    sent, output = measured.directory / "sent.pcap", measured.directory / "losses"
    run_command(command, measured.directory / "arrived.pcapng", "--sent", sent, "-o", output)
    rows = pq.read_table(output / "monitor_losses.parquet").to_pylist()
    frames = [frame for _, _, frame in pcap_files.records(sent.read_bytes())]
    assert len(frames) == 2 * PACKETS
    found = [number for row in rows for number in range(row["first_packet"], row["last_packet"] + 1)]
    assert [struct.unpack_from(">2I", frames[number], STAMP_AT + 2) for number in found] == [
        (1, sequence) for sequence in lost
    ]


@pytest.mark.skipif(not SOAK, reason="compares times: make soak")
@pytest.mark.parametrize("delay_ns", [2_000_000, 20_000_000, 200_000_000])
def test_delays_are_within_the_measured_noise_floor(tmp_path, delay_ns):
    """Repeats the measurement if other programs delayed more packets than in the measurement of the noise floor."""
    for attempt in range(ATTEMPTS):
        late_ns, noise_ns = delays_beyond(delay_ns, tmp_path / str(attempt))
        print(f"later than {delay_ns} ns by {late_ns} ns, noise {noise_ns} ns")
        if abs(late_ns) <= noise_ns:
            return
    pytest.fail(f"{ATTEMPTS} of {ATTEMPTS} measurements exceed the noise")


def delays_beyond(delay_ns: int, directory: Path) -> tuple[float, int]:
    """Measure a path without and with a delay; return the difference of medians minus the delay, and the noise (ns)."""
    with impaired_path.path(c_programs.built_or_skip("acapella-link")) as (prefix, link):
        link.set(Impairments())
        floor = sorted(latencies(measure(prefix, link, directory / "floor").packets[1]))
        link.set(Impairments(delay_ns))
        measured = measure(prefix, link, directory / "delayed")
        late_ns = link.counts()["late_p50_ns"]
    found = sorted(latencies(measured.packets[1]))
    assert [measured.rows[1][name] for name in COUNTS[:6]] == [PACKETS, PACKETS, 0, 0, 0, 0]
    noise_ns = floor[len(floor) * 99 // 100] - floor[0] + EARLY_NS + late_ns
    assert found[0] >= floor[0] + delay_ns - noise_ns
    return statistics.median(found) - statistics.median(floor) - delay_ns, noise_ns
