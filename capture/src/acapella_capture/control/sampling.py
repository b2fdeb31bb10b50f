"""Takes the samples of one batch: sets up mirrors, starts captures, monitors them, stops them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ..plan.samples import PlannedSample
from ..programs.dpdk import Dpdk, Fpga
from ..programs.tcpdump import Counts, Tcpdump
from ..settings import CaptureSettings, Settings
from ..testbeds.base import Instance, Mirror, MirrorCounters, MirrorRequest, Telemetry, Testbed
from . import congestion
from .experiment import ExperimentSignal
from .outcomes import OutcomeTable
from .watchdog import MB, NodeHistory, Watchdog, disk_shortage

PROGRAMS = {"tcpdump": Tcpdump, "dpdk": Dpdk, "fpga": Fpga}  # by capture.method
STEP_S = 0.5  # interval of checks for a stop during a sample


class SharedTraffic:
    """The testbed's own traffic during samples, shared by sites that sample independently.

    It starts with the first sample and ends when no site is sampling.
    """

    def __init__(self, testbed: Testbed):
        self._testbed = testbed
        self._lock = threading.Lock()
        self._samples = 0
        self._sending = contextlib.ExitStack()

    @contextlib.contextmanager
    def __call__(self, seconds: float) -> Iterator[None]:
        """Send traffic within the context. Raises UserError if the testbed cannot."""
        with self._lock:
            if self._samples == 0:
                self._sending.enter_context(self._testbed.traffic("sample", seconds))
            self._samples += 1
        try:
            yield
        finally:
            with self._lock:
                self._samples -= 1
                if self._samples == 0:
                    self._sending.close()


@dataclass(frozen=True)
class Collection:
    """State shared by the jobs of all sites; `emit` receives events: manifests, failures, outcomes, progress."""

    testbed: Testbed
    settings: Settings
    campaign: Path
    outcome_table: OutcomeTable
    emit: Callable[[Any], None]
    traffic: SharedTraffic
    signal: ExperimentSignal
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Failure:
    """A planned sample that could not be taken, and why. Port `-` stands for all or the remaining samples of a site."""

    sample: str
    site: str
    port: str
    why: str


@dataclass(frozen=True)
class Progress:
    """A step of the preparation of a node, which takes minutes."""

    text: str


@dataclass
class ActiveSample:
    """A sample in progress: its node, mirror, capture, times, and the first fault.

    A `fault` fails the sample; `ended_early` is the reason why it ended before its time; its complete frames are kept.
    """

    planned: PlannedSample
    capture_settings: CaptureSettings
    instance: Instance
    receiver: str
    watchdog: Watchdog | None = None
    expected_bytes: int = 0
    mirror: Mirror | None = None
    capture: Tcpdump | Dpdk | None = None
    counts: Counts | None = None
    mirrored: MirrorCounters = field(default_factory=MirrorCounters)
    requested_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    fault: str | None = None
    ended_early: str | None = None
    history: NodeHistory = field(default_factory=NodeHistory)
    congestion: dict[str, Any] | None = None
    traffic: list[dict[str, Any]] | None = None  # traffic of the testbed until the end of this sample
    replayed: int | None = None  # frames replayed in a trial
    replay: dict[str, Any] | None = None  # manifest keys of a trial's sender

    @contextlib.contextmanager
    def recording_fault(self) -> Iterator[None]:
        """Record an error within the context as the fault of this sample."""
        try:
            yield
        except UserError as error:
            self.fault = self.fault or str(error)

    def replay_keys(self) -> dict[str, Any]:
        """Return the manifest keys that describe how a trial was sent."""
        return self.replay or {}

    def failure(self) -> Failure:
        """Return the record of a failed sample."""
        return Failure(
            self.planned.name, self.planned.site.name, self.planned.port.name, self.fault or self.ended_early or ""
        )


@contextlib.contextmanager
def running_samples(
    testbed: Testbed, samples: Sequence[ActiveSample], wait: Callable[[], Any] = bool
) -> Iterator[list[ActiveSample]]:
    """Run mirrors and captures of simultaneous samples; yield those that started, and read counts at the end.

    `wait` returns at their start time; it is called after the mirrors are set up.
    """
    ready = [sample for sample in samples if not sample.fault]
    testbed.prepare_mirrors(
        [
            MirrorRequest(sample.instance, sample.receiver, sample.planned.port.name, sample.planned.direction)
            for sample in ready
        ]
    )
    for sample in ready:
        with sample.recording_fault():
            point_mirror(testbed, sample)
    wait()
    for_each_node([sample for sample in samples if not sample.fault], lambda sample: start_capture(testbed, sample))
    started = [sample for sample in samples if not sample.fault]
    requested_ns = time.time_ns()
    for sample in started:
        sample.requested_ns = requested_ns
    in_parallel(started, start_mirror)
    try:
        yield started
    finally:
        for_each_node(started, stop_capture)


def for_each_node(samples: Sequence[ActiveSample], function: Callable[[ActiveSample], None]) -> None:
    """Apply a function to each sample: nodes in parallel, the samples of a node one after the other."""
    nodes: dict[str, list[ActiveSample]] = {}
    for sample in samples:
        nodes.setdefault(sample.instance.name, []).append(sample)

    def process_node(node_samples: list[ActiveSample]) -> None:
        for sample in node_samples:
            with sample.recording_fault():
                function(sample)

    if len(nodes) < 2:
        process_node(list(samples))
        return
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(process_node, nodes.values()))


def point_mirror(testbed: Testbed, sample: ActiveSample) -> None:
    """Point the receiver's mirror at the port and check the node's free disk space. Raises UserError."""
    planned = sample.planned
    sample.mirror = testbed.mirror(sample.instance, sample.receiver, planned.port.name, planned.direction)
    if sample.watchdog is None:
        return
    probe_node(sample)
    if sample.history.last is None:
        raise UserError(f"node unreachable: {sample.history.probe_error}", where=f"node {sample.instance.name}")
    shortage = disk_shortage(sample.history.last, sample.watchdog.reserve_bytes)
    if shortage:
        raise UserError(shortage, where=f"node {sample.instance.name}")
    free = sample.history.last.free_bytes
    if free is not None and free < sample.expected_bytes:
        need = sample.expected_bytes // MB
        sample.history.notes.append(f"{free // MB} MB free on {sample.instance.name}, up to {need} MB needed")


def in_parallel(samples: Sequence[ActiveSample], function: Callable[[ActiveSample], None]) -> None:
    """Apply a function to all samples in parallel, including those of the same node."""

    def call(sample: ActiveSample) -> None:
        with sample.recording_fault():
            function(sample)

    with ThreadPoolExecutor(max_workers=max(1, len(samples))) as threads:
        list(threads.map(call, samples))


def start_mirror(sample: ActiveSample) -> None:
    """Start mirroring."""
    sample.start_ns = time.time_ns()  # before the first frame, as `end_ns` is after the last
    sample.mirror.start()


def start_capture(testbed: Testbed, sample: ActiveSample) -> None:
    """Start the capture program on the receiver."""
    mirror = sample.mirror
    program = PROGRAMS[sample.capture_settings.method]
    sample.capture = program(testbed, mirror.instance, mirror.interface, sample.capture_settings, sample.planned.file)
    sample.capture.start()


def stop_capture(sample: ActiveSample) -> None:
    """Stop the capture program and keep its counts; a program that ended early may not have any."""
    try:
        sample.counts = sample.capture.stop()
        if sample.counts is None:
            sample.history.notes.append(f"counts unknown: {sample.capture.where}: {sample.capture.message()}")
    except UserError as error:
        if sample.ended_early is None:
            sample.fault = sample.fault or str(error)
        else:
            sample.history.notes.append(f"counts unknown: {error}")
    sample.mirrored = sample.mirror.counters()  # before the mirror moves


def stop_mirrors(samples: Sequence[ActiveSample]) -> None:
    """Stop all mirrors in parallel. Sequentially, the last mirrors would copy longer than the first."""
    in_parallel([sample for sample in samples if sample.end_ns == 0], stop_mirror)


def stop_mirror(sample: ActiveSample) -> None:
    """Stop mirroring."""
    sample.mirror.stop()
    sample.end_ns = time.time_ns()


def probe_node(sample: ActiveSample) -> None:
    """Query the watchdog; if the node does not reply, note it and continue the sample."""
    try:
        sample.history.add(sample.watchdog.probe(sample.planned.file, sample.receiver))
    except UserError as error:
        sample.history.probe_error = str(error)


def wait_while_watching(started: Sequence[ActiveSample], until_ns: int, every_s: float, stop: threading.Event) -> None:
    """Check samples every `every_s`. Return at `until_ns`, when all have ended, or when the collection stops."""
    active = list(started)
    next_ns = time.time_ns() + round(every_s * 1e9)
    while active and not stop.is_set() and (remaining_s := (until_ns - time.time_ns()) / 1e9) > 0:
        if time.time_ns() >= next_ns:
            active = [sample for sample in active if not check_early_end(sample)]
            next_ns = time.time_ns() + round(every_s * 1e9)
            continue
        stop.wait(max(0, min(remaining_s, STEP_S, (next_ns - time.time_ns()) / 1e9)))


def check_early_end(sample: ActiveSample) -> bool:
    """Check a sample, and end it if it cannot continue. Return whether it has ended."""
    if sample.watchdog is not None:
        probe_node(sample)
        if sample.history.probe_error is None:
            sample.ended_early = disk_shortage(sample.history.last, sample.watchdog.reserve_bytes)
    if sample.ended_early is None and not sample.capture.alive():
        sample.ended_early = "the capture program exited unexpectedly"
    if sample.ended_early:
        stop_mirrors([sample])
    return sample.ended_early is not None


def take_samples(shared: Collection, samples: Sequence[ActiveSample], wait: Callable[[], Any]) -> None:
    """Take the samples of one batch at one site; a failed sample does not delay the others."""
    settings = shared.settings
    seconds = settings.capture.sample_s
    with running_samples(shared.testbed, samples, wait) as started:
        if not started:
            return
        if not all(sample.fault for sample in started):
            shared.signal.sampling(started[0].planned.site.name)
        try:
            with shared.traffic(seconds):
                until_ns = time.time_ns() + round(seconds * 1e9)  # starts once all captures are running
                wait_while_watching(started, until_ns, settings.collect.watch_s, shared.stop)
                stop_mirrors(started)
                # read immediately; the interval includes the start and the stop of the mirrors
                record_congestion(shared.testbed, started, (time.time_ns() - started[0].requested_ns) / 1e9)
        except UserError as error:
            for sample in started:
                sample.fault = sample.fault or f"traffic of the testbed failed: {error}"
        report = shared.testbed.traffic_report()  # before samples at other sites start more traffic
        for sample in started:
            sample.traffic = report
            if sample.watchdog is not None and sample.ended_early is None:
                check_early_end(sample)  # while the program still runs


def record_congestion(testbed: Testbed, started: Sequence[ActiveSample], seconds: float) -> None:
    """Compare port counters over the last `seconds` with the capacity of the mirrors; without mirrors, do nothing."""
    if testbed.ports_by_node(started[0].planned.site.name) is not None:
        return
    telemetry, reason = None, None
    try:
        telemetry = testbed.telemetry(started[0].planned.site.name, seconds)
    except UserError as error:
        reason = str(error)
    for sample in started:
        with sample.recording_fault():
            sample.congestion = congestion_of(testbed, sample, telemetry)
            if reason:
                sample.history.notes.append(f"no telemetry: {reason}")


def congestion_of(testbed: Testbed, sample: ActiveSample, telemetry: Telemetry | None) -> dict[str, Any]:
    """Return manifest key `congestion` of a finished sample. Raises UserError for an unknown receiver."""
    port = congestion.MirrorPort.of(testbed, testbed.mirror_capacity_bps(sample.instance, sample.receiver))
    planned, span_ns = sample.planned, (sample.start_ns, sample.end_ns)
    return congestion.verdict(telemetry, planned.port.name, planned.direction, port, span_ns)


def complete_congestion(testbed: Testbed, sample: ActiveSample, wait_s: float, stop: threading.Event) -> None:
    """Wait for the first counter reading after the sample, for at most `wait_s`, and update `congestion`."""
    if sample.congestion is None or sample.congestion["capacity_bps"] is None:
        return
    until_ns = sample.end_ns + round(wait_s * 1e9)
    while not congestion.covers(sample.congestion, sample.end_ns):
        try:
            telemetry = testbed.telemetry(sample.planned.site.name, (time.time_ns() - sample.start_ns) / 1e9)
        except UserError:  # already noted when the sample ended
            return
        if telemetry is not None:
            sample.congestion = congestion_of(testbed, sample, telemetry)
        if congestion.covers(sample.congestion, sample.end_ns) or time.time_ns() >= until_ns or stop.wait(STEP_S):
            return
