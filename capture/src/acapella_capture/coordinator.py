"""Takes the samples of a plan on any testbed: mirror, capture, count, fetch, describe."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from . import manifest as manifests
from .plan import Shot, plan
from .scan import scan
from .settings import Settings
from .tcpdump import Counts, Tcpdump
from .testbeds.base import Mirror, Testbed


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
    mirror: Mirror | None = None
    capture: Tcpdump | None = None
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
    for shot in (shot for shots in moments for shot in shots):
        for left in (campaign / "raw").glob(f".{shot.file}.*.part"):  # of a collection that was killed as it fetched
            left.unlink()
    with testbed:
        for _, group in groupby(moments, key=lambda shots: shots[0].run):
            run = list(group)
            # a client that crosses all samples of a run also crosses the pauses between them
            with testbed.traffic("run", len(run) * (settings.capture.sample_s + 5)):
                for shots in run:
                    for taking in take(testbed, settings, shots):
                        yield delivered(testbed, settings, campaign, taking)


def take(testbed: Testbed, settings: Settings, shots: list[Shot]) -> list[Taking]:
    """Take the samples of one moment, all sites side by side; one that fails does not hold up the others."""
    takings = [Taking(shot) for shot in shots]
    for taking in takings:
        with taking.noted():
            aim(testbed, settings, taking)
    running = [taking for taking in takings if not taking.fault]
    if not running:
        return takings
    requested_ns = time.time_ns()
    for taking in running:
        with taking.noted():
            taking.requested_ns = requested_ns
            taking.start_ns = time.time_ns()  # before the first frame, as `end_ns` is after the last
            taking.mirror.start()
    with testbed.traffic("sample", settings.capture.sample_s):
        time.sleep(max(0, settings.capture.sample_s - (time.time_ns() - requested_ns) / 1e9))
        for taking in running:
            with taking.noted():
                taking.mirror.stop()
                taking.end_ns = time.time_ns()
    for taking in running:
        with taking.noted():
            taking.counts = taking.capture.stop()
    return takings


def aim(testbed: Testbed, settings: Settings, taking: Taking) -> None:
    """Point the site's mirror at the port and start the capture behind it."""
    shot = taking.shot
    taking.mirror = testbed.mirror(shot.site.name, shot.port.name, shot.direction)
    mirror = taking.mirror
    taking.capture = Tcpdump(testbed, mirror.instance, mirror.interface, settings.capture, shot.file)
    taking.capture.start()


def delivered(testbed: Testbed, settings: Settings, campaign: Path, taking: Taking) -> dict[str, Any] | Failure:
    """The manifest of a sample that is in raw/ now, or why it failed; what there is of its capture is fetched anyway.

    Left where it is, it would take the node's memory from the samples after it.
    """
    manifest = None
    with taking.noted():
        if taking.capture is not None:
            testbed.fetch(taking.mirror.instance, taking.shot.file, campaign / "raw" / taking.shot.file)
        if not taking.fault:
            manifest = describe(testbed, settings, campaign, taking)
    return manifest or taking.failure()


def describe(testbed: Testbed, settings: Settings, campaign: Path, taking: Taking) -> dict[str, Any]:
    """Read a fetched capture and write its manifest. Raises UserError where it holds other than what was counted."""
    shot, counts, raw = taking.shot, taking.counts, campaign / "raw"
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
        "method": settings.capture.method,
        "file": shot.file,
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
        "snaplen": settings.capture.snaplen,
        "filter": settings.capture.filter,
        "requested": {
            "start_ns": taking.requested_ns,
            "end_ns": taking.requested_ns + round(settings.capture.sample_s * 1e9),
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
    }
    manifests.write(raw, manifest)
    return manifest
