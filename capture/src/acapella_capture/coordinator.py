"""Takes the samples of a plan on any testbed: mirror, capture, count, fetch, describe."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from . import manifest as manifests
from .dpdk import Dpdk
from .plan import Shot, plan, trials
from .scan import scan
from .settings import CaptureSettings, Settings
from .tcpdump import Counts, Tcpdump
from .testbeds.base import Mirror, Testbed, Want

PROGRAMS = {"tcpdump": Tcpdump, "dpdk": Dpdk}  # by capture.method
WHOLE_FRAMES = 262144  # snap length of a trial: two trials can be compared by what was kept of each packet


@dataclass(frozen=True)
class Failure:
    """A sample of the plan that could not be taken, and why."""

    sample: str
    site: str
    port: str
    why: str


@dataclass
class Taking:
    """A sample being taken: its mirror, its capture, when they ran, and the first thing that went wrong."""

    shot: Shot
    how: CaptureSettings
    mirror: Mirror | None = None
    capture: Tcpdump | Dpdk | None = None
    counts: Counts | None = None
    requested_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    fault: str | None = None

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """What goes wrong within fails this sample alone."""
        try:
            yield
        except UserError as error:
            self.fault = self.fault or str(error)

    def failure(self) -> Failure:
        """The record of a sample that failed."""
        return Failure(self.shot.sample, self.shot.site.name, self.shot.port.name, self.fault or "")


def collect(testbed: Testbed, settings: Settings, campaign: Path) -> Iterator[dict[str, Any] | Failure]:
    """Take every sample of the plan; yield each one's manifest as soon as it is written, or why it could not be taken.

    Raises UserError where the testbed fails; samples already yielded stay.
    """
    moments = list(plan(settings, testbed.sites()))
    environments = list(trials(testbed.replays()))
    for shot in (shot for shots in moments + environments for shot in shots):
        for left in (campaign / "raw").glob(f".{shot.file}.*.part"):  # of a collection that was killed as it fetched
            left.unlink()
    with testbed:
        for site in testbed.sites():
            testbed.allocate(site.name, Want(instances=1))
        for _, group in groupby(moments, key=lambda shots: shots[0].run):
            run = list(group)
            # a client that crosses all samples of a run also crosses the pauses between them
            with testbed.traffic("run", len(run) * (settings.capture.sample_s + 5)):
                for shots in run:
                    for taking in take(testbed, settings.capture, shots):
                        yield delivered(testbed, campaign, taking)
        for shots in environments:
            with contextlib.closing(take_trials(testbed, settings.capture, shots)) as takings:
                for taking in takings:
                    yield delivered(testbed, campaign, taking)


def take(testbed: Testbed, how: CaptureSettings, shots: list[Shot]) -> list[Taking]:
    """Take the samples of one moment, all sites side by side; one that fails does not hold up the others."""
    takings = [Taking(shot, how) for shot in shots]
    with running(testbed, takings) as begun:
        if begun:
            with testbed.traffic("sample", how.sample_s):
                time.sleep(max(0, how.sample_s - (time.time_ns() - begun[0].requested_ns) / 1e9))
                stop_mirrors(begun)
    return takings


def take_trials(testbed: Testbed, how: CaptureSettings, shots: list[Shot]) -> Iterator[Taking]:
    """Take the trials of one environment, one after the other; where it cannot be had, all of them fail."""
    how = replace(how, filter=testbed.replays().filter, snaplen=WHOLE_FRAMES)
    takings = [Taking(shot, how) for shot in shots]
    with contextlib.ExitStack() as environment:
        fault = None
        try:
            environment.enter_context(testbed.environment(shots[0].environment))
        except UserError as error:
            fault = str(error)
        for taking in takings:
            taking.fault = fault
            with running(testbed, [taking]) as begun:
                for trial in begun:
                    with trial.noted():
                        testbed.replay()
                    stop_mirrors(begun)
            yield taking


@contextlib.contextmanager
def running(testbed: Testbed, takings: list[Taking]) -> Iterator[list[Taking]]:
    """Mirrors and captures of samples taken at the same time, and at the end their counts; those that began."""
    for taking in takings:
        if not taking.fault:
            with taking.noted():
                aim(testbed, taking)
    begun = [taking for taking in takings if not taking.fault]
    requested_ns = time.time_ns()
    for taking in begun:
        with taking.noted():
            taking.requested_ns = requested_ns
            taking.start_ns = time.time_ns()  # before the first frame, as `end_ns` is after the last
            taking.mirror.start()
    yield begun
    for taking in begun:
        with taking.noted():
            taking.counts = taking.capture.stop()


def stop_mirrors(takings: list[Taking]) -> None:
    """Copy no more."""
    for taking in takings:
        with taking.noted():
            taking.mirror.stop()
            taking.end_ns = time.time_ns()


def aim(testbed: Testbed, taking: Taking) -> None:
    """Point the site's mirror at the port and start the capture behind it."""
    shot = taking.shot
    instance = testbed.instances(shot.site.name)[0]
    taking.mirror = testbed.mirror(instance, instance.receivers[0], shot.port.name, shot.direction)
    mirror = taking.mirror
    program = PROGRAMS[taking.how.method]
    taking.capture = program(testbed, mirror.instance, mirror.interface, taking.how, shot.file)
    taking.capture.start()


def delivered(testbed: Testbed, campaign: Path, taking: Taking) -> dict[str, Any] | Failure:
    """The manifest of a sample that is in raw/ now, or why it failed; what there is of its capture is fetched anyway.

    Left where it is, it would take the node's memory from the samples after it.
    """
    manifest = None
    with taking.noted():
        if taking.capture is not None:
            testbed.fetch(taking.mirror.instance, taking.shot.file, campaign / "raw" / taking.shot.file)
        if not taking.fault:
            manifest = describe(testbed, campaign, taking)
    return manifest or taking.failure()


def describe(testbed: Testbed, campaign: Path, taking: Taking) -> dict[str, Any]:
    """Read a fetched capture and write its manifest. Raises UserError where it holds other than what was counted."""
    shot, how, counts, raw = taking.shot, taking.how, taking.counts, campaign / "raw"
    path = raw / shot.file
    facts = scan(path)
    if facts.fault or facts.frames != counts.captured:
        raise UserError(f"{facts.fault or facts.frames} read, {counts.captured} frames captured", where=path)
    manifest = manifests.empty() | {
        "campaign": campaign.resolve().name,
        "run": shot.run,
        "sample": shot.sample,
        "testbed": testbed.name,
        "site": shot.site.name,
        "instance": taking.mirror.instance,
        "port": shot.port.name,
        "direction": shot.direction,
        "method": how.method,
        "file": shot.file,
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
        "snaplen": how.snaplen,
        "filter": how.filter,
        "requested": {
            "start_ns": taking.requested_ns,
            # a trial ends when the replay does
            "end_ns": taking.requested_ns + round(how.sample_s * 1e9) if shot.trial is None else None,
        },
        "actual": {"start_ns": taking.start_ns, "end_ns": taking.end_ns},
        "frames_received": counts.received,
        "frames_captured": counts.captured,
        "dropped_kernel": counts.dropped_kernel,
        "dropped_interface": counts.dropped_interface,
        "mirror": asdict(taking.mirror.counters()),
        "clock_resolution_ns": facts.clock_resolution_ns,
        "port_rate_bps": shot.port.rate_bps,
        "notes": testbed.notes(),
        **extra(testbed, shot),
    }
    manifests.write(raw, manifest)
    return manifest


def extra(testbed: Testbed, shot: Shot) -> dict[str, Any]:
    """Keys that not every manifest has."""
    keys = {}
    traffic = testbed.traffic_facts()
    if traffic is not None:
        keys["traffic"] = traffic
    if shot.trial is not None:
        keys |= {"environment": shot.environment, "trial": shot.trial}
        keys["notes"] = [*testbed.notes(), testbed.replays().note]
    return keys
