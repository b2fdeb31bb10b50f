"""Takes the samples of a plan on any testbed: one thread per site, then the trials.

Each result is yielded as soon as it is available.
"""

import contextlib
import fcntl
import fnmatch
import os
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acapella_core import beneath, shards
from acapella_core.errors import UserError
from acapella_core.files import locked

from ..plan.samples import PlannedSample, SitePlan, sites_to_sample, skipped_sites, trials
from ..settings import CaptureSettings, Settings
from ..testbeds.base import ResourceRequest, Site, Testbed
from .delivery import deliver
from .experiment import ExperimentSignal, Notice
from .outcomes import Outcome, OutcomeTable
from .sampling import ActiveSample, Collection, Failure, Progress, SharedTraffic, running_samples, stop_mirrors
from .site_job import SiteJob, log_directory

MAX_SNAPLEN = 262144  # snap length of trials, so that whole packets can be compared
POLL_S = 0.2  # interval of checks for finished sites
DAY_S = 86400
LOCK = ".collect.lock"

Event = dict[str, Any] | Failure | Outcome | Notice | Progress


def collect(testbed: Testbed, settings: Settings, campaign: Path) -> Iterator[Event]:
    """Take every sample of the plan. Yield each manifest once it is written, or the reason for a failure.

    A site's outcome follows its samples. Raises UserError if the testbed fails or another process is collecting
    the campaign. Samples that were already yielded are kept.
    """
    settings = testbed.adapt(settings)
    sites = sites_to_sample(settings, testbed.sites(), testbed.unavailable_sites())
    with campaign_lock(campaign), testbed:
        for directory in (campaign / "raw", *shards.directories(campaign / "raw", in_shards=True)):
            remove_parts(directory)
        yield from collect_sites(testbed, settings, campaign, sites)
        testbed.resume_waits()
        for batch in trials(testbed.replay_plan(), settings.capture.format):
            with contextlib.closing(take_trials(testbed, settings.capture, batch, campaign)) as samples:
                for sample in samples:
                    yield deliver(testbed, settings, campaign, sample)


def remove_parts(raw: Path) -> None:
    """Remove incomplete files of a killed collection. Raises UserError if `raw` is a symbolic link."""
    with beneath.parent(raw / LOCK) as directory:
        for entry in [] if directory is None else [*os.scandir(directory)]:
            if fnmatch.fnmatch(entry.name, ".*.part"):
                os.unlink(entry.name, dir_fd=directory)


@contextlib.contextmanager
def campaign_lock(campaign: Path, file: str = LOCK, activity: str = "is collecting this campaign") -> Iterator[None]:
    """Prevent other processes from collecting this campaign. Raises UserError if one is already doing so.

    With `file` and `activity`, the lock is for an activity other than a collection.

    The kernel releases the lock when the process ends, even after SIGKILL.
    """
    descriptor = beneath.open_file(campaign / file, os.O_RDWR | os.O_CREAT)
    try:
        if locked(descriptor, fcntl.flock) is False:
            fix = "wait until it ends or stop it; a killed Snakemake leaves its jobs running"
            raise UserError(f"another process {activity}", where=campaign, fix=fix)
        yield
    finally:
        os.close(descriptor)


def collect_sites(testbed: Testbed, settings: Settings, campaign: Path, sites: Sequence[Site]) -> Iterator[Event]:
    """Collect all sites in parallel. If this ends early, every site releases its resources first."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    outcome_table = OutcomeTable(campaign, time.time_ns())
    stop, failures = threading.Event(), []  # reasons why the signal failed

    def fail(reason: str) -> None:
        failures.append(reason)
        stop.set()

    signal = ExperimentSignal(settings.collect.signal, [site.name for site in sites], fail, events.put)
    shared = Collection(testbed, settings, campaign, outcome_table, events.put, SharedTraffic(testbed), signal, stop)
    for name, reason in skipped_sites(settings.collect, testbed.unavailable_sites()).items():
        yield outcome_table.record(name, "failed", f"skipped: {reason}")
    jobs = [SiteJob(shared, site) for site in sites]
    threads = [threading.Thread(target=job.run, name=job.site.name, daemon=True) for job in jobs]
    # clients of span `run` also send between samples
    with testbed.traffic("run", traffic_duration_s(testbed, settings, sites)):
        try:
            for thread in threads:
                thread.start()
            yield from events_until_done(threads, events)
        finally:
            shared.stop.set()
            testbed.interrupt_waits()
            wait_for_sites([job for job, thread in zip(jobs, threads, strict=True) if thread.ident is not None])
    for crash in (job.crash for job in jobs if job.crash):
        raise crash
    if failures:
        raise UserError(failures[0])


def wait_for_sites(jobs: Sequence[SiteJob]) -> None:
    """Wait until all sites have ended, and thus released their resources, even if Ctrl-C is pressed again.

    After an interrupted Thread.join, Python 3.11 regards a running thread as finished, so this function waits for the
    event `ended` instead.
    """
    interrupt: KeyboardInterrupt | None = None
    for job in jobs:
        while not job.ended.is_set():
            try:
                job.ended.wait()
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt


def events_until_done(threads: Sequence[threading.Thread], events: queue.SimpleQueue) -> Iterator[Event]:
    """Yield events from all sites until every site has finished."""
    while True:
        ended = not any(thread.is_alive() for thread in threads)
        try:
            while True:
                yield events.get(timeout=0 if ended else POLL_S)
        except queue.Empty:
            if ended:
                return


def traffic_duration_s(testbed: Testbed, settings: Settings, sites: Sequence[Site]) -> float:
    """Return the duration of the background traffic, at most a day.

    It is a minute plus twice the time that the slowest site takes with one receiver.
    """
    plans = [SitePlan(settings, site, 1) for site in sites]
    return min(DAY_S, 60 + 2 * max(plan.remaining_s(0) for plan in plans))


def take_trials(
    testbed: Testbed, capture_settings: CaptureSettings, batch: list[PlannedSample], campaign: Path
) -> Iterator[ActiveSample]:
    """Take the trials of one environment, one after the other. If it cannot be set up, all of them fail."""
    node = testbed.allocate(batch[0].site.name, ResourceRequest(instances=1))[0]
    capture_settings = replace(
        capture_settings.for_node(node.site, node.name),
        filter=testbed.replay_plan().filter,
        snaplen=MAX_SNAPLEN,
        one_in=1,
    )
    samples = [ActiveSample(planned, capture_settings, node, node.receivers[0]) for planned in batch]
    with contextlib.ExitStack() as environment:
        fault = None
        try:
            testbed.prepare_capture(node, capture_settings.method, log_directory(campaign), lambda _: None)
            environment.enter_context(testbed.environment(batch[0].environment))
        except UserError as error:
            fault = str(error)
        for sample in samples:
            sample.fault = fault
            with running_samples(testbed, [sample]) as started:
                for trial in started:
                    with trial.recording_fault():
                        trial.replayed = testbed.replay()
                    stop_mirrors(started)
                    trial.traffic = testbed.traffic_report()
            yield sample
