"""What a collection would ask for and sample, as far as it is known before: `acapella collect --dry-run`."""

from collections.abc import Iterator, Sequence

from acapella_core.errors import UserError

from ..settings import CaptureSettings, Settings, methods
from ..testbeds import testbed_of
from ..testbeds.base import Site, Testbed, Want
from ..testbeds.fabric import requirements as needs
from .allocation import counted, simulated, want_of
from .port_selection import STEADY
from .samples import SitePlan, most_bytes, sites_of, trials

CYCLES_SHOWN = 12


def dry_run(settings: Settings, campaign: str) -> str:
    """The plan as text. A testbed that tells nothing without being asked with rights says so in it.

    Raises UserError where the config asks for what the testbed has not.
    """
    if settings.testbed == "files":
        return f"testbed files: the captures of {settings.samples} are described where they are\n"
    lines = list(asked_of_fabric(settings)) if settings.testbed == "fabric" else []
    try:
        testbed = testbed_of(settings, campaign)
        there = testbed.sites()
    except UserError as error:
        if settings.testbed == "local":  # all of it is known, so it is the config that is wrong
            raise
        return "\n".join([*lines, f"testbed {settings.testbed}: sites and ports are not known now: {error}", ""])
    return "\n".join([*lines, *told(settings, testbed, sites_of(settings, there)), ""])


def asked_of_fabric(settings: Settings) -> Iterator[str]:
    """What is known of a collection on FABRIC without asking it."""
    collect = settings.collect
    sites = {
        "all": "all that FABRIC has",
        "sites": ", ".join(collect.sites),
        "slice": f"those where slice {collect.slice} has ports",
    }
    want = Want(collect.instances or 1, collect.cores, collect.ram_gb, collect.disk_gb)
    try:
        yield from needs.described(settings.fabric, sites[collect.mode], collect.instances, want)
    except UserError as error:
        yield f"testbed fabric: {error}"


def plans(settings: Settings, testbed: Testbed, sites: Sequence[Site]) -> list[SitePlan]:
    """The plan of each site with the receivers that it would get now."""
    found = []
    for site in sites:
        want = want_of(settings, site, testbed.receivers_per_instance)
        room, _ = simulated(testbed.resources(site.name), want)
        found.append(SitePlan(settings, site, max(1, room) * testbed.receivers_per_instance))
    return found


def told(settings: Settings, testbed: Testbed, sites: Sequence[Site]) -> Iterator[str]:
    """The plan, line by line."""
    planned = plans(settings, testbed, sites)
    collect = settings.collect
    yield f"testbed {testbed.name}, mode {collect.mode}: {counted(len(planned), 'site')}, each on its own"
    for plan in planned:
        yield from told_of_site(settings, testbed, plan)
    for shots in trials(testbed.replays(), settings.capture.format):
        yield f"then {len(shots)} trials {shots[0].sample} to {shots[-1].sample} at {shots[0].site.name}"


def told_of_site(settings: Settings, testbed: Testbed, plan: SitePlan) -> Iterator[str]:
    """One site's part."""
    site, collect, capture = plan.site, settings.collect, settings.capture
    want = want_of(settings, site, testbed.receivers_per_instance)
    room, why = simulated(testbed.resources(site.name), want)
    yield f"{site.name}:"
    yield f"  ports: {', '.join(port.name + (f' ({port.kind})' if port.kind else '') for port in site.ports)}"
    each = f"{counted(want.cores, 'core')}, {want.ram_gb} GB of memory, {want.disk_gb} GB of disk, 1 NIC"
    yield f"  wants {counted(want.instances, 'listening node')}, each {each}"
    yield f"  asks for {room}{'' if why is None else f': {why}'}"
    if room == 0:
        yield "  nothing will be sampled here unless that changes"
        return
    cycles = "as many cycles as there is time for" if plan.cycles is None else counted(plan.cycles, "cycle")
    every = f" every {collect.sample_period_s:g} s" if collect.sample_period_s else ""
    yield f"  {cycles} of {counted(plan.samples_of_a_cycle, 'sample')} of {capture.sample_s:g} s{every} a port"
    yield f"  {counted(plan.receivers, 'port')} at once, direction {', '.join(capture.directions)}"
    yield f"  port selection {collect.port_selection}"
    yield f"  capture method {told_of_methods(capture, site.name)}"
    yield from told_of_cycles(plan)
    yield f"  about {plan.remaining_s(0):.0f} s; {expected(settings, site, plan)}"
    yield f"  a lease, where there is one, is to last {plan.remaining_s(0) + collect.lease_margin_s:.0f} s"


def told_of_methods(capture: CaptureSettings, site: str) -> str:
    """A site's capture method, and those of its nodes that have one of their own."""
    own = [f"{name}: {method}" for name, method in methods(capture.method).items() if name.startswith(f"{site}-")]
    return "; ".join([capture.at(site, site).method, *own])


def told_of_cycles(plan: SitePlan) -> Iterator[str]:
    """Which ports in which cycle, where that does not wait for what the switch counts."""
    if plan.settings.collect.port_selection not in STEADY:
        yield "  which port in which cycle: chosen then, by what the switch counts"
        return
    shown = CYCLES_SHOWN if plan.cycles is None else min(plan.cycles, CYCLES_SHOWN)
    for cycle in range(shown):
        yield f"  cycle {cycle + 1}: {', '.join(plan.choose(cycle, None, ()))}"
    if plan.cycles != shown:
        yield "  and so on"


def expected(settings: Settings, site: Site, plan: SitePlan) -> str:
    """The bytes that all samples of a site can take at line rate."""
    sizes = [most_bytes(settings, port, None) for port in site.ports]
    if None in sizes or not sizes:
        return "expected bytes: unknown, as is the rate of a port"
    cycles = plan.remaining_s(0) / (plan.sample_takes_s * plan.samples_of_a_cycle)
    ports = min(plan.receivers, len(site.ports))
    total = sum(sizes) / len(sizes) * ports * plan.samples_of_a_cycle * cycles
    return f"expected at line rate and {settings.collect.mean_frame_bytes} bytes a frame: at most {total / 1e9:.1f} GB"
