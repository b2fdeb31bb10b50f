"""One site of a collection, from allocation to outcome. Each site has its own thread.

A site waits for other sites only before its first sample, and only if the config has collect.signal.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from acapella_core.errors import UserError

from ..plan.allocation import SiteAllocation, allocate_with_backoff, receivers_at, site_request
from ..plan.port_selection import STATIC_SELECTIONS, assign_receivers
from ..plan.samples import PlannedSample, SitePlan, max_sample_bytes, next_start_ns
from ..testbeds.base import Instance, Rates, Site
from . import outcomes
from .delivery import deliver
from .sampling import ActiveSample, Collection, Failure, Progress, complete_congestion, take_samples
from .watchdog import Watchdog


def log_directory(campaign: Path) -> Path:
    """Return the directory of logs from nodes."""
    return campaign / "logs" / "collect"


class SiteJob:
    """The samples of one site. `run` never raises; an internal error is kept in `crash`."""

    def __init__(self, shared: Collection, site: Site):
        self.shared = shared
        self.site = site
        self.crash: Exception | None = None
        self.ended = threading.Event()
        self._request = site_request(shared.settings, site, shared.testbed)
        self._allocation = SiteAllocation((), self._request.instances)
        self._first: tuple[str, ...] | None = None  # ports of the first cycle, if announced
        self._watchdogs: dict[str, Watchdog] = {}
        self._succeeded = self._failed = 0
        self._first_failure: str | None = None  # reason of the first failed sample
        self._warnings: list[str] = []  # errors that did not end the site
        self._to_gather: list[ActiveSample] = []  # samples whose captures were not gathered yet
        self._lease_ns = 0

    def run(self) -> None:
        """Allocate, sample, release, and record the outcome in any case."""
        try:
            self._run()
        except Exception as error:  # for example, the table of outcomes cannot be written
            self.crash = self.crash or error
        finally:
            self.ended.set()

    def _run(self) -> None:
        self._record_outcome("incomplete", "interrupted before completion")
        reason: str | None = None
        try:
            reason = self._collect()
        except UserError as error:
            reason = str(error)
        except Exception as error:  # an internal error at one site: finish the others, then raise it
            self.crash = error
            reason = f"{type(error).__name__}: {error}"
        finally:
            self._finish(reason)

    def _collect(self) -> str | None:
        """Take the site's samples. Return why it ended before the end of its plan, or None."""
        testbed, site = self.shared.testbed, self.site.name
        if testbed.mirrors_at_creation:
            self._announce_mirrors()
        self._allocation = allocate_with_backoff(testbed, site, self._request)
        if not self._allocation.instances:
            return self._allocation.reason
        nodes = self._reachable(self._allocation.instances)
        if not nodes:
            return self._warnings[0]
        self._allocation = SiteAllocation(tuple(nodes), self._request.instances, self._allocation.reason)
        self.shared.signal.prepared(site, self.shared.stop)
        try:
            return self._cycles()
        finally:
            self.shared.signal.ended(site)
            self._gather()
            self._stop_watchdogs()

    def _announce_mirrors(self) -> None:
        """Choose the ports of the first cycle before allocation, so that the testbed can create nodes with mirrors."""
        receivers = self._request.instances * self.shared.testbed.receivers_per_instance
        self._first = SitePlan(self.shared.settings, self.site, receivers).choose_ports(0, self._rates(), ())
        direction = self.shared.settings.capture.directions[0]
        self.shared.testbed.announce_mirrors(self.site.name, [(port, direction) for port in self._first])

    def _choose_ports(self, plan: SitePlan, cycle: int, history: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """Return the ports of a cycle; for the first one, the announced ports if all requested nodes were allocated."""
        receivers = self._request.instances * self.shared.testbed.receivers_per_instance
        if cycle == 0 and self._first is not None and plan.receivers == receivers:
            return self._first
        return plan.choose_ports(cycle, self._rates(), history)

    def _reachable(self, instances: Sequence[Instance]) -> list[Instance]:
        """Return the nodes that are prepared for their method, and on which a watchdog could be started."""
        with ThreadPoolExecutor(len(instances)) as pool:
            faults = dict(zip(instances, pool.map(self._prepare, instances), strict=True))
        self._warnings += [fault for fault in faults.values() if fault is not None]
        nodes = []
        for instance in [instance for instance, fault in faults.items() if fault is None]:
            watchdog = Watchdog(self.shared.testbed, instance, self.shared.settings.collect)
            try:
                watchdog.start()
            except UserError as error:
                self._warnings.append(str(error))
                continue
            self._watchdogs[instance.name] = watchdog
            nodes.append(instance)
        return nodes

    def _prepare(self, instance: Instance) -> str | None:
        """Prepare a node for its capture method. Return the reason if that fails."""
        method = self.shared.settings.capture.for_node(instance.site, instance.name).method
        try:
            self.shared.testbed.prepare_capture(
                instance, method, log_directory(self.shared.campaign), lambda text: self.shared.emit(Progress(text))
            )
        except UserError as error:
            return str(error)
        return None

    def _cycles(self) -> str | None:
        """Run the cycles. Return the reason if they stopped early, or None at the end of the plan."""
        receivers = {f"{node.name} {name}": (node, name) for node, name in self._allocation.receivers()}
        own_ports = self._own_receivers()
        receiver_count = len(receivers) if own_ports is None else receivers_at(self.shared.testbed, self.site, 0)
        plan = SitePlan(self.shared.settings, self.site, receiver_count)
        deadline_ns = self._deadline_ns()
        history: list[tuple[str, ...]] = []
        names: Counter = Counter()
        assigned: dict[str, str] = {}
        for cycle in count() if plan.cycles is None else range(plan.cycles):
            chosen = self._without_listeners(self._choose_ports(plan, cycle, history))
            if own_ports is not None:
                chosen = tuple(port for port in chosen if port in own_ports)
            history.append(chosen)
            assigned = {} if own_ports is not None else assign_receivers(chosen, list(receivers), assigned)
            by_port = own_ports or {port: receivers[key] for key, port in assigned.items()}
            self._extend_lease(plan, cycle)
            for batch in plan.batches(cycle, chosen, names):
                if time.time_ns() >= deadline_ns:
                    return None
                self._sample(batch, by_port)
                if self.shared.stop.is_set():
                    return "stopped"
            if not chosen and self.shared.stop.wait(plan.sample_interval_s):
                return "stopped"
            if not chosen and time.time_ns() >= deadline_ns:
                return None
        return None

    def _own_receivers(self) -> dict[str, tuple[Instance, str]] | None:
        """Return node and receiver of each port if nodes capture at their own interfaces; None if mirrors are used."""
        nodes = self.shared.testbed.ports_by_node(self.site.name)
        if nodes is None:
            return None
        return {
            port: (instance, receiver)
            for instance in self._allocation.instances
            for port, receiver in zip(nodes[instance.name], instance.receivers, strict=True)
        }

    def _without_listeners(self, chosen: Sequence[str]) -> tuple[str, ...]:
        """Return the chosen ports that do not lead to listening nodes; warn that the others are skipped."""
        listener_ports = self.shared.testbed.listener_ports(self.site.name)
        self._warnings += [
            f"{port} leads to one of our listening nodes and is skipped" for port in chosen if port in listener_ports
        ]
        return tuple(port for port in chosen if port not in listener_ports)

    def _deadline_ns(self) -> int:
        """Return the latest start time of a sample."""
        total_s = self.shared.settings.collect.total_s
        return time.time_ns() + round(total_s * 1e9) if total_s is not None else 2**63

    def _rates(self) -> dict[str, Rates]:
        """Return recent rates of the ports if the selection uses them; empty without telemetry."""
        collect = self.shared.settings.collect
        if collect.port_selection in STATIC_SELECTIONS:
            return {}
        try:
            telemetry = self.shared.testbed.telemetry(self.site.name, collect.telemetry_s)
        except UserError as error:  # without rates, no port counts as idle
            self._warnings.append(f"no telemetry: {error}")
            return {}
        return dict(telemetry.ports) if telemetry else {}

    def _extend_lease(self, plan: SitePlan, cycle: int) -> None:
        """Extend the lease to the end of the plan plus a margin, unless it already lasts long enough."""
        margin_ns = round(self.shared.settings.collect.lease_margin_s * 1e9)
        needed_ns = time.time_ns() + round(plan.remaining_s(cycle) * 1e9) + margin_ns // 2
        if needed_ns > self._lease_ns:
            until_ns = needed_ns + margin_ns - margin_ns // 2
            try:
                self.shared.testbed.extend(self.site.name, until_ns)
            except UserError as error:  # the current lease may suffice; the next cycle retries
                self._warnings.append(f"lease not extended: {error}")
            else:
                self._lease_ns = until_ns

    def _sample(self, batch: list[PlannedSample], by_port: dict[str, tuple[Instance, str]]) -> None:
        """Take the samples of one batch and, unless they are gathered at the end, gather them."""
        settings = self.shared.settings
        samples = []
        for planned in batch:
            node, receiver = by_port[planned.port.name]
            expected = max_sample_bytes(settings, planned.port, self._capacity_bps(node, receiver))
            capture_settings = settings.capture.for_node(node.site, node.name)
            samples.append(
                ActiveSample(
                    planned, capture_settings, node, receiver, self._watchdogs[node.name], expected_bytes=expected or 0
                )
            )
        take_samples(self.shared, samples, self._wait)
        if self.shared.stop.is_set():
            return  # interrupted samples are discarded
        self._to_gather += samples
        if settings.collect.gather == "sample":
            self._gather()

    def _capacity_bps(self, node: Instance, receiver: str) -> int | None:
        with contextlib.suppress(UserError):  # the sample reports the error
            return self.shared.testbed.mirror_capacity_bps(node, receiver)
        return None

    def _wait(self) -> None:
        """Wait for the next start time of samples."""
        settings = self.shared.settings
        start_ns = next_start_ns(time.time_ns(), settings.collect.sample_period_s, settings.capture.sample_s)
        self.shared.stop.wait(max(0, (start_ns - time.time_ns()) / 1e9))

    def _gather(self) -> None:
        """Fetch the captures taken so far and emit their results."""
        samples, self._to_gather = self._to_gather, []
        for sample in samples:
            wait_s = self.shared.settings.collect.telemetry_wait_s
            complete_congestion(self.shared.testbed, sample, wait_s, self.shared.stop)
            event = deliver(self.shared.testbed, self.shared.settings, self.shared.campaign, sample)
            if isinstance(event, Failure):
                self._failed += 1
                self._first_failure = self._first_failure or event.why
            self._succeeded += not isinstance(event, Failure)
            self.shared.emit(event)

    def _stop_watchdogs(self) -> None:
        """Stop the watchdogs and fetch their logs; warn about a log that cannot be fetched."""
        directory = log_directory(self.shared.campaign)
        for name, watchdog in self._watchdogs.items():
            try:
                watchdog.stop(directory / f"{name}.jsonl")
            except UserError as error:
                self._warnings.append(f"log of {name}: {error}")

    def _finish(self, reason: str | None) -> None:
        """Release the resources and record the outcome."""
        self.shared.signal.ended(self.site.name)
        if reason is not None:
            self.shared.emit(
                Failure(f"{'rest' if self._succeeded else 'all'} of {self.site.name}", self.site.name, "-", reason)
            )
        allocated = len(self._allocation.instances)
        outcome, reason = outcomes.verdict(self._request.instances, allocated, self._succeeded, self._failed, reason)
        if outcome == "degraded":
            reason = self._allocation.reason or reason
        try:
            self.shared.testbed.release(self.site.name)
        except UserError as error:
            self._warnings.append(f"not released: {error}")
        fault = self._first_failure and f"first failure: {self._first_failure}"
        self._record_outcome(
            outcome, "; ".join(dict.fromkeys(filter(None, [reason, fault, *self._warnings]))), final=True
        )

    def _record_outcome(self, outcome: outcomes.Verdict, reason: str, *, final: bool = False) -> None:
        line = self.shared.outcome_table.record(
            self.site.name,
            outcome,
            reason,
            instances_requested=self._request.instances,
            instances=len(self._allocation.instances),
            samples=self._succeeded,
            samples_failed=self._failed,
        )
        if final:
            self.shared.emit(line)
