"""The plan of `acapella collect --dry-run`: the resources and samples that are known in advance."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.names import pluralize

from ..settings import CaptureSettings, Settings, SignalSettings, methods_by_name
from ..testbeds import files, testbed_of
from ..testbeds.base import Rates, ResourceRequest, Site, Testbed
from ..testbeds.fabric import requirements
from .allocation import nodes_that_fit, receivers_at, site_request
from .overload import overload_lines
from .port_selection import STATIC_SELECTIONS
from .samples import SitePlan, sites_to_sample, skipped_sites, trials
from .space import max_site_bytes, space_lines

MAX_LISTED_CYCLES = 12


def sheet_plan(sheet: Path) -> str:
    """Return the number of samples of a sheet, and a line for each capture that cannot be read."""
    rows = files.read_sheet(sheet)
    lines = [f"testbed files: {pluralize(len(rows), 'sample')} in {sheet}; captures are not copied"]
    for row in rows:
        if row.query is None and (fault := files.unreadable(row.file)):
            lines.append(f"sample {row.sample} will fail: {row.file}: {fault}")
    return "\n".join([*lines, ""])


def dry_run(settings: Settings, campaign: str, directory: Path | None = None) -> str:
    """Return the plan as text. If the testbed cannot be queried without credentials, the text contains the reason.

    ``directory``: of the campaign (default: results/<campaign>), for its free space.

    Raises UserError if the config requests something that the testbed does not have, or the sample sheet is invalid.
    """
    if settings.testbed == "files":
        return sheet_plan(settings.samples)
    lines: list[str] = []
    testbed: Testbed | None = None
    try:
        testbed = testbed_of(settings, campaign)
        lines = summary(settings, testbed)
        sites = testbed.sites()
    except UserError as error:
        if settings.testbed == "local":  # everything is known locally, so the config is wrong
            raise
        lines = lines or summary(settings, testbed)
        return "\n".join([*lines, f"testbed {settings.testbed}: sites and ports are unknown: {error}", ""])
    settings = testbed.adapt(settings)
    planned = sites_to_sample(settings, sites, testbed.unavailable_sites())
    plan = plan_lines(settings, testbed, planned, directory or Path("results", campaign))
    return "\n".join([*lines, *plan, ""])


def summary(settings: Settings, testbed: Testbed | None) -> list[str]:
    """Return the resources that a collection would request; without a testbed, the parts known without FABRIC."""
    if settings.testbed != "fabric":
        return []
    if testbed is None:
        return list(fabric_summary(settings))
    notes, adapted = testbed.plan_notes(settings), settings
    with contextlib.suppress(UserError):  # reported by the collection
        adapted = testbed.adapt(settings)
    return [*fabric_summary(adapted, allocates=testbed.allocates), *notes]


def fabric_summary(settings: Settings, *, allocates: bool = True) -> Iterator[str]:
    """Yield the resources that a collection on FABRIC would request, without contacting FABRIC."""
    collect = settings.collect
    sites = {
        "all": "all sites of FABRIC",
        "sites": ", ".join(collect.sites),
        "slice": f"sites where slice {collect.slice} has ports",
    }
    request = ResourceRequest(collect.instances or 1, collect.cores, collect.ram_gb, collect.disk_gb)
    try:
        where = sites[collect.mode]
        yield from requirements.describe(settings.fabric, where, collect.instances, request, allocates=allocates)
    except UserError as error:
        yield f"testbed fabric: {error}"


def site_plans(settings: Settings, testbed: Testbed, sites: Sequence[Site]) -> list[SitePlan]:
    """Return the plan of each site with the number of receivers that it would get now."""
    plans = []
    for site in sites:
        fitting, _ = nodes_that_fit(testbed.resources(site.name), site_request(settings, site, testbed))
        plans.append(SitePlan(settings, site, receivers_at(testbed, site, fitting)))
    return plans


def plan_lines(settings: Settings, testbed: Testbed, sites: Sequence[Site], directory: Path) -> Iterator[str]:
    """Yield the plan, line by line."""
    planned = site_plans(settings, testbed, sites)
    collect = settings.collect
    yield f"testbed {testbed.name}, mode {collect.mode}: {pluralize(len(planned), 'site')}, independent of each other"
    for name, reason in skipped_sites(collect, testbed.unavailable_sites()).items():
        yield f"{name}: skipped: {reason}"
    yield from signal_lines(collect.signal)
    for plan in planned:
        yield from site_lines(settings, testbed, plan)
    for batch in trials(testbed.replay_plan(), settings.capture.format):
        yield f"then {len(batch)} trials {batch[0].name} to {batch[-1].name} at {batch[0].site.name}"
    yield from space_lines(settings, planned, directory)


def signal_lines(signal: SignalSettings | None) -> Iterator[str]:
    """Yield the signals to the user's experiment."""
    if signal is None:
        return
    start = [f"create {signal.file}"] * bool(signal.file) + [f"run {signal.start!r}"] * bool(signal.start)
    stop = [f"remove {signal.file}"] * bool(signal.file) + [f"run {signal.stop!r}"] * bool(signal.stop)
    yield f"when captures run at all sites: {' and '.join(start) or 'no signal'}"
    yield f"after the last sample: {' and '.join(stop) or 'no signal'}"


def site_lines(settings: Settings, testbed: Testbed, plan: SitePlan) -> Iterator[str]:
    """Yield the plan of one site."""
    site, collect, capture = plan.site, settings.collect, settings.capture
    request = site_request(settings, site, testbed)
    fitting, reason = nodes_that_fit(testbed.resources(site.name), request)
    yield f"{site.name}:"
    if site.limits:
        yield f"  {site.limits}"
    yield f"  ports: {', '.join(port.name + (f' ({port.kind})' if port.kind else '') for port in site.ports)}"
    if testbed.ports_by_node(site.name) is not None:
        yield f"  captures on {pluralize(request.instances, 'node')} of your slice; allocates nothing"
    else:
        node_text = (
            f"{pluralize(request.cores, 'core')}, {request.ram_gb} GB of memory, {request.disk_gb} GB of disk, 1 NIC"
        )
        yield f"  needs {pluralize(request.instances, 'listening node')}, each {node_text}"
        yield f"  requests {fitting}{'' if reason is None else f': {reason}'}"
    if fitting == 0:
        yield "  no sample can be taken with these resources"
        return
    cycles = "as many cycles as the time allows" if plan.cycles is None else pluralize(plan.cycles, "cycle")
    period_text = f" every {collect.sample_period_s:g} s" if collect.sample_period_s else ""
    yield f"  {cycles} of {pluralize(plan.samples_per_cycle, 'sample')} of {capture.sample_s:g} s{period_text} per port"
    moves = "; half of the mirrors move at a time" if collect.move_half and plan.receivers > 1 else ""
    yield f"  {pluralize(plan.receivers, 'port')} at once, direction {', '.join(capture.directions)}{moves}"
    yield f"  port selection {collect.port_selection}"
    yield f"  capture method {method_summary(capture, site.name)}"
    yield from cycle_lines(plan)
    yield from expected_overload(settings, testbed, site, replace(request, instances=fitting))
    yield f"  about {plan.remaining_s(0):.0f} s; {expected_bytes(settings, site, plan)}"
    yield f"  lease duration, if leases apply: {plan.remaining_s(0) + collect.lease_margin_s:.0f} s"


def expected_overload(settings: Settings, testbed: Testbed, site: Site, request: ResourceRequest) -> Iterator[str]:
    """Yield the overload that a site can expect, from line rates and recent rates of its ports."""
    method = settings.capture.for_node(site.name, site.name).method
    capacity_bps = testbed.planned_capacity_bps(site.name, request)

    @functools.cache
    def read_rates() -> Mapping[str, Rates] | None:
        with contextlib.suppress(UserError):
            telemetry = testbed.telemetry(site.name, settings.collect.telemetry_s)
            return telemetry.ports if telemetry else None
        return None

    for line in overload_lines(settings.capture, method, site.ports, capacity_bps, read_rates):
        yield f"  expected overload: {line}" if not line.startswith(" ") else f"  {line}"


def method_summary(capture: CaptureSettings, site: str) -> str:
    """Return the capture method of a site, and of the nodes for which the config sets one."""
    node_methods = [
        f"{name}: {method}" for name, method in methods_by_name(capture.method).items() if name.startswith(f"{site}-")
    ]
    return "; ".join([capture.for_node(site, site).method, *node_methods])


def cycle_lines(plan: SitePlan) -> Iterator[str]:
    """Yield the ports of each cycle if the selection does not depend on switch counters."""
    if plan.settings.collect.port_selection not in STATIC_SELECTIONS:
        yield "  ports of each cycle: chosen at run time from switch counters"
        return
    listed_cycles = MAX_LISTED_CYCLES if plan.cycles is None else min(plan.cycles, MAX_LISTED_CYCLES)
    for cycle in range(listed_cycles):
        yield f"  cycle {cycle + 1}: {', '.join(plan.choose_ports(cycle, None, ()))}"
    if plan.cycles != listed_cycles:
        yield "  ..."


def expected_bytes(settings: Settings, site: Site, plan: SitePlan) -> str:
    """Return a description of the size of all samples of a site at line rate."""
    total = max_site_bytes(settings, site, plan)
    if total is None:
        return "expected size unknown: the rate of a port is unknown"
    return f"at most {total / 1e9:.1f} GB at line rate with {settings.collect.mean_frame_bytes} bytes per frame"
