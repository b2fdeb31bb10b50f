"""Takes the samples of one moment: aims mirrors, starts captures, watches them, ends them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ..plan.samples import Shot
from ..programs.dpdk import Dpdk, Fpga
from ..programs.tcpdump import Counts, Tcpdump
from ..settings import CaptureSettings, Settings
from ..testbeds.base import Aim, Instance, Mirror, MirrorCounters, Telemetry, Testbed
from . import congestion
from .outcomes import Ledger
from .watchdog import MB, Watch, Watchdog, short_of

PROGRAMS = {"tcpdump": Tcpdump, "dpdk": Dpdk, "fpga": Fpga}  # by capture.method
STEP_S = 0.5  # how often a stop is looked for while a sample is taken


class SharedTraffic:
    """What the testbed itself sends during samples, for sites that sample at their own times.

    It starts with the first sample and ends when no site is sampling.
    """

    def __init__(self, testbed: Testbed):
        self._testbed = testbed
        self._lock = threading.Lock()
        self._samples = 0
        self._sending = contextlib.ExitStack()

    @contextlib.contextmanager
    def __call__(self, seconds: float) -> Iterator[None]:
        """Send while within. Raises UserError where the testbed does."""
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
    """What the jobs of all sites share; `emit` takes what a reader is told: manifests, failures, outcomes."""

    testbed: Testbed
    settings: Settings
    campaign: Path
    ledger: Ledger
    emit: Callable[[Any], None]
    traffic: SharedTraffic
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Failure:
    """A sample of the plan that could not be taken, and why; or all or the rest of a site, then its port is `-`."""

    sample: str
    site: str
    port: str
    why: str


@dataclass
class Taking:
    """A sample being taken: where, its mirror, its capture, when they ran, and the first thing that went wrong.

    ``fault`` fails it; ``ended`` is why it ended before its time, with what is whole kept.
    """

    shot: Shot
    how: CaptureSettings
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
    ended: str | None = None
    watch: Watch = field(default_factory=Watch)
    congestion: dict[str, Any] | None = None
    traffic: list[dict[str, Any]] | None = None  # the testbed's, as of this sample's end
    replayed: int | None = None  # frames, of a trial

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """What goes wrong within fails this sample alone."""
        try:
            yield
        except UserError as error:
            self.fault = self.fault or str(error)

    def failure(self) -> Failure:
        """The record of a sample that failed."""
        return Failure(self.shot.sample, self.shot.site.name, self.shot.port.name, self.fault or self.ended or "")


@contextlib.contextmanager
def running(testbed: Testbed, takings: Sequence[Taking], wait: Callable[[], Any] = bool) -> Iterator[list[Taking]]:
    """Mirrors and captures of samples taken at the same time, and at the end their counts; those that began.

    ``wait`` returns at the moment when they are to begin: the mirrors are aimed by then.
    """
    sound = [taking for taking in takings if not taking.fault]
    testbed.foresee([Aim(t.instance, t.receiver, t.shot.port.name, t.shot.direction) for t in sound])
    for taking in sound:
        with taking.noted():
            aim(testbed, taking)
    wait()
    side_by_side([taking for taking in takings if not taking.fault], lambda taking: begin_capture(testbed, taking))
    begun = [taking for taking in takings if not taking.fault]
    requested_ns = time.time_ns()
    for taking in begun:
        taking.requested_ns = requested_ns
    at_once(begun, start_mirror)
    try:
        yield begun
    finally:
        side_by_side(begun, stop_capture)


def side_by_side(takings: Sequence[Taking], do: Callable[[Taking], None]) -> None:
    """Do something to each sample: all nodes at once, the samples of a node one after the other."""
    nodes: dict[str, list[Taking]] = {}
    for taking in takings:
        nodes.setdefault(taking.instance.name, []).append(taking)

    def on_a_node(own: list[Taking]) -> None:
        for taking in own:
            with taking.noted():
                do(taking)

    if len(nodes) < 2:
        on_a_node(list(takings))
        return
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(on_a_node, nodes.values()))


def aim(testbed: Testbed, taking: Taking) -> None:
    """Point the receiver's mirror at the port, and see that the node has room. Raises UserError where it has not."""
    shot = taking.shot
    taking.mirror = testbed.mirror(taking.instance, taking.receiver, shot.port.name, shot.direction)
    if taking.watchdog is None:
        return
    look_at(taking)
    if taking.watch.last is None:
        raise UserError(f"the node does not answer: {taking.watch.unseen}", where=f"node {taking.instance.name}")
    short = short_of(taking.watch.last, taking.watchdog.reserve_bytes)
    if short:
        raise UserError(short, where=f"node {taking.instance.name}")
    free = taking.watch.last.free_bytes
    if free is not None and free < taking.expected_bytes:
        need = taking.expected_bytes // MB
        taking.watch.notes.append(f"{free // MB} MB were free on {taking.instance.name}, up to {need} MB expected")


def at_once(takings: Sequence[Taking], do: Callable[[Taking], None]) -> None:
    """Do something to all samples, also to those of one node, at once."""

    def noted(taking: Taking) -> None:
        with taking.noted():
            do(taking)

    with ThreadPoolExecutor(max_workers=max(1, len(takings))) as threads:
        list(threads.map(noted, takings))


def start_mirror(taking: Taking) -> None:
    """Begin to copy."""
    taking.start_ns = time.time_ns()  # before the first frame, as `end_ns` is after the last
    taking.mirror.start()


def begin_capture(testbed: Testbed, taking: Taking) -> None:
    """Start the capture behind the mirror."""
    mirror = taking.mirror
    program = PROGRAMS[taking.how.method]
    taking.capture = program(testbed, mirror.instance, mirror.interface, taking.how, taking.shot.file)
    taking.capture.start()


def stop_capture(taking: Taking) -> None:
    """End the capture and keep its counts; one that had to end early may have none."""
    try:
        taking.counts = taking.capture.stop()
        if taking.counts is None:
            taking.watch.notes.append(f"counts unknown: {taking.capture.where}: {taking.capture.message()}")
    except UserError as error:
        if taking.ended is None:
            taking.fault = taking.fault or str(error)
        else:
            taking.watch.notes.append(f"counts unknown: {error}")
    taking.mirrored = taking.mirror.counters()  # before it moves on


def stop_mirrors(takings: Sequence[Taking]) -> None:
    """Copy no more; all at once, for each takes a moment in which the others would go on."""
    at_once([taking for taking in takings if taking.end_ns == 0], stop_mirror)


def stop_mirror(taking: Taking) -> None:
    """Copy no more."""
    taking.mirror.stop()
    taking.end_ns = time.time_ns()


def look_at(taking: Taking) -> None:
    """Have the watchdog look; a node that does not answer is noted, the sample goes on."""
    try:
        taking.watch.add(taking.watchdog.look(taking.shot.file, taking.receiver))
    except UserError as error:
        taking.watch.unseen = str(error)


def watched(begun: Sequence[Taking], until_ns: int, every_s: float, stop: threading.Event) -> None:
    """Return at that time, or when all samples have ended before, or at a stop."""
    going = list(begun)
    next_ns = time.time_ns() + round(every_s * 1e9)
    while going and not stop.is_set() and (left_s := (until_ns - time.time_ns()) / 1e9) > 0:
        if time.time_ns() >= next_ns:
            going = [taking for taking in going if not ends_early(taking)]
            next_ns = time.time_ns() + round(every_s * 1e9)
            continue
        stop.wait(max(0, min(left_s, STEP_S, (next_ns - time.time_ns()) / 1e9)))


def ends_early(taking: Taking) -> bool:
    """Look at a sample and end it where it cannot go on."""
    if taking.watchdog is not None:
        look_at(taking)
        if taking.watch.unseen is None:
            taking.ended = short_of(taking.watch.last, taking.watchdog.reserve_bytes)
    if taking.ended is None and not taking.capture.alive():
        taking.ended = "the capture program ended by itself"
    if taking.ended:
        stop_mirrors([taking])
    return taking.ended is not None


def take(shared: Collection, takings: Sequence[Taking], wait: Callable[[], Any]) -> None:
    """Take the samples of one moment at one site; one that fails does not hold up the others."""
    settings = shared.settings
    seconds = settings.capture.sample_s
    with running(shared.testbed, takings, wait) as begun:
        if not begun:
            return
        try:
            with shared.traffic(seconds):
                until_ns = time.time_ns() + round(seconds * 1e9)  # from when all is running, however long that took
                watched(begun, until_ns, settings.collect.watch_s, shared.stop)
                stop_mirrors(begun)
                # at once, and of all the time that they copied, which takes a while to begin and to end
                judge_congestion(shared.testbed, begun, (time.time_ns() - begun[0].requested_ns) / 1e9)
        except UserError as error:
            for taking in begun:
                taking.fault = taking.fault or f"the testbed's traffic: {error}"
        sent = shared.testbed.traffic_facts()  # before the other sites' next samples start more
        for taking in begun:
            taking.traffic = sent
            if taking.watchdog is not None and taking.ended is None:
                ends_early(taking)  # before it has written the last


def judge_congestion(testbed: Testbed, begun: Sequence[Taking], seconds: float) -> None:
    """Ask the switch what passed the ports in the last seconds, and compare it with what the receivers take."""
    telemetry, why = None, None
    try:
        telemetry = testbed.telemetry(begun[0].shot.site.name, seconds)
    except UserError as error:
        why = str(error)
    for taking in begun:
        with taking.noted():
            taking.congestion = judged(testbed, taking, telemetry)
            if why:
                taking.watch.notes.append(f"no telemetry: {why}")


def judged(testbed: Testbed, taking: Taking, telemetry: Telemetry | None) -> dict[str, Any]:
    """Return manifest key `congestion` of a sample that has ended. Raises UserError for an unknown receiver."""
    port = congestion.MirrorPort.of(testbed, testbed.mirror_capacity_bps(taking.instance, taking.receiver))
    shot, span_ns = taking.shot, (taking.start_ns, taking.end_ns)
    return congestion.verdict(telemetry, shot.port.name, shot.direction, port, span_ns)


def complete_congestion(testbed: Testbed, taking: Taking, wait_s: float, stop: threading.Event) -> None:
    """Add the first reading after the sample, if the switch's counters had none when it ended; wait for it so long."""
    if taking.congestion is None or taking.congestion["capacity_bps"] is None:
        return
    until_ns = taking.end_ns + round(wait_s * 1e9)
    while not congestion.covers(taking.congestion, taking.end_ns):
        try:
            telemetry = testbed.telemetry(taking.shot.site.name, (time.time_ns() - taking.start_ns) / 1e9)
        except UserError:  # noted when the sample ended
            return
        if telemetry is not None:
            taking.congestion = judged(testbed, taking, telemetry)
        if congestion.covers(taking.congestion, taking.end_ns) or time.time_ns() >= until_ns or stop.wait(STEP_S):
            return
