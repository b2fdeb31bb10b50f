"""The plan of a collection: sites and ports of the mode, cycles, runs, names of samples. Does not query a testbed.

A *cycle* mirrors one port per receiver and takes `runs_per_cycle` runs of `samples_per_run` samples of each port. Then
the mirrors move (Patchwork, section 6.2.2, figure 8).
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from acapella_core.errors import UserError

from ..settings import CollectSettings, Settings, methods_by_name
from ..testbeds.base import Direction, Port, Rates, Replay, Site
from .port_selection import STATIC_SELECTIONS, SiteView, choose_ports, cycles_per_round, find_selection

SAMPLE_GAP_S = 5  # assumed time between two samples, to stop, start, and fetch a capture
RECORD_BYTES = {"pcap": 16, "pcapng": 72}  # bytes per frame beyond its data (pcapng: with hash and padding)
NO_SITES: Mapping[str, str] = MappingProxyType({})
LISTENER = re.compile(r"-listener\d*$")  # listening nodes are named SITE-listener, SITE-listener1, ...


class NotKnownInAdvance(UserError):
    """The samples are not known until they are taken."""


@dataclass(frozen=True)
class PlannedSample:
    """One sample to take. Trials have no `run` and `cycle` (from 1), other samples no `environment` and `trial`."""

    run: int | None
    name: str
    site: Site
    port: Port
    direction: Direction
    cycle: int | None = None
    environment: str | None = None
    trial: int | None = None
    format: str = "pcap"

    @property
    def file(self) -> str:
        """The file name of the capture on the node and, unless it is compressed there, in raw/."""
        return f"{self.name}.{self.format}"


def sites_to_sample(settings: Settings, sites: Sequence[Site], unavailable: Mapping[str, str] = NO_SITES) -> list[Site]:
    """Return the sites of the mode, each with its candidate ports; `unavailable` sites (with the reason) are skipped.

    Raises UserError for an unknown site, a slice without ports, a selection without ports, or if no site is left.
    """
    collect = settings.collect
    check_method_names(methods_by_name(settings.capture.method), [*(site.name for site in sites), *unavailable])
    if collect.mode == "sites":
        sites = named_sites(collect.sites, sites, unavailable)
    if collect.mode == "slice":
        sites = [
            replace(site, ports=tuple(port for port in site.ports if collect.slice in port.slices)) for site in sites
        ]
        sites = [site for site in sites if site.ports]
        if not sites:
            raise UserError(f"slice {collect.slice!r} uses no port of the testbed", where="collect.slice")
    if not sites:
        raise UserError("no sites", where="collect")
    if collect.port_selection == "fixed":
        check_fixed_ports(collect.ports or {}, sites, unavailable)
    sampled = [replace(site, ports=ports) for site in sites if (ports := candidate_ports(collect, site))]
    if not sampled:
        raise UserError(f"no site has ports for selection {collect.port_selection!r}", where="collect.port_selection")
    return sampled


def named_sites(names: Sequence[str], sites: Sequence[Site], unavailable: Mapping[str, str]) -> list[Site]:
    """Return the named sites that are available. Raises UserError for an unknown name, or if none is available."""
    by_name = {site.name: site for site in sites}
    missing = [name for name in names if name not in by_name and name not in unavailable]
    if missing or not names:
        fault = f"no site {missing[0]!r}; known: {', '.join(by_name)}" if missing else "no site specified"
        raise UserError(fault, where="collect.sites")
    available = [by_name[name] for name in names if name in by_name]
    if not available:
        reasons = ", ".join(f"{name}: {unavailable[name]}" for name in names)
        raise UserError(f"no site is available ({reasons})", where="collect.sites")
    return available


def skipped_sites(collect: CollectSettings, unavailable: Mapping[str, str]) -> dict[str, str]:
    """Return the unavailable sites that the mode requests, with the reason."""
    if collect.mode == "slice":
        return {}
    return {name: reason for name, reason in unavailable.items() if collect.mode == "all" or name in collect.sites}


def check_method_names(by_name: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise UserError if capture.method names an unknown site or listening node."""
    for name in by_name:
        site = LISTENER.sub("", name)
        if name != "default" and site not in known:
            near = difflib.get_close_matches(site, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise UserError(f"no site or listening node {name!r}; {hint}", where="capture.method")


def check_fixed_ports(
    ports: Mapping[str, Sequence[str]], sites: Sequence[Site], unavailable: Mapping[str, str]
) -> None:
    """Raise UserError if collect.ports is empty or names an unknown site or port."""
    by_name = {site.name: site for site in sites}
    if not ports:
        raise UserError("no port specified", where="collect.ports")
    for name, requested in ports.items():
        if name in unavailable:
            continue
        if name not in by_name:
            raise UserError(f"no site {name!r} to sample; known: {', '.join(by_name)}", where="collect.ports")
        missing = [port for port in requested if port not in {port.name for port in by_name[name].ports}]
        if missing:
            raise UserError(f"no port {missing[0]!r} to mirror at site {name!r}", where="collect.ports")


def candidate_ports(collect: CollectSettings, site: Site) -> tuple[Port, ...]:
    """Return the ports of a site that its selection chooses from; a site without any is skipped."""
    if collect.port_selection == "fixed":
        by_name = {port.name: port for port in site.ports}
        return tuple(by_name[name] for name in collect.ports.get(site.name, ()))
    if collect.port_selection == "uplinks":
        return tuple(port for port in site.ports if port.kind == "uplink")
    return site.ports


@dataclass(frozen=True)
class SitePlan:
    """The cycles of one site with a number of receivers.

    Unless the config limits cycles or time, fewer receivers take the same samples in more cycles.
    """

    settings: Settings
    site: Site
    receivers: int

    @property
    def cycles(self) -> int | None:
        """The number of cycles; None if only the time limits them."""
        collect = self.settings.collect
        if collect.cycles is not None:
            return collect.cycles
        return None if collect.total_s is not None else self.settings.runs * self._cycles_per_run()

    @property
    def sample_interval_s(self) -> float:
        """The approximate time from the start of one sample to the start of the next."""
        period = self.settings.collect.sample_period_s or 0
        return max(period, self.settings.capture.sample_s + SAMPLE_GAP_S)

    @property
    def samples_per_cycle(self) -> int:
        """The number of samples of each mirrored port in a cycle."""
        collect = self.settings.collect
        return collect.runs_per_cycle * collect.samples_per_run * len(self.settings.capture.directions)

    def remaining_s(self, cycle: int) -> float:
        """Return the approximate time from the start of a cycle (from 0) to the end of the plan."""
        total_s = self.settings.collect.total_s
        if self.cycles is None:
            return total_s + self.sample_interval_s
        remaining = (self.cycles - cycle) * self.samples_per_cycle * self.sample_interval_s
        return remaining if total_s is None else min(remaining, total_s + self.sample_interval_s)

    def _cycles_per_run(self) -> int:
        """Return the number of cycles in which every port gets its `samples_per_port`."""
        half = self._half
        steps = cycles_per_round(len(self.site.ports), half or self.receivers)
        if half:  # successive cycles share half of their ports
            steps = max(1, steps - 1)
        return self.settings.capture.samples_per_port * steps

    @property
    def _half(self) -> int:
        """The number of mirrors that move at each cycle after the first; 0: all of them."""
        return self.receivers // 2 if self.settings.collect.move_half else 0

    def choose_ports(
        self, cycle: int, rates: Mapping[str, Rates] | None, history: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Return the ports of a cycle (from 0). Raises UserError if the selection returns invalid ports.

        If half of the mirrors move at a time, the first half of the ports is the second half of the previous cycle.
        """
        half = self._half
        if not half:
            return self._select(cycle, self.receivers, rates, history)
        if cycle > 0 and history and self.settings.collect.port_selection not in STATIC_SELECTIONS:
            kept = history[-1][-half:]
        else:  # known in advance
            kept = self._select(cycle, half, rates, history)
        moved = self._select(cycle + 1, half, rates, (*history, kept))
        return (*kept, *(name for name in moved if name not in kept))

    def _select(
        self, cycle: int, receivers: int, rates: Mapping[str, Rates] | None, history: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Return the ports that the selection of the config chooses for a number of receivers."""
        collect = self.settings.collect
        view = SiteView(
            site=self.site.name,
            cycle=cycle,
            ports=self.site.ports,
            receivers=receivers,
            rates=rates or {},
            history=tuple(history),
            busiest_every=collect.busiest_every,
            idle_bps=collect.idle_bps,
            seed=collect.seed,
        )
        return choose_ports(find_selection(collect.port_selection), view)

    def batches(self, cycle: int, chosen: Sequence[str], names: Counter) -> Iterator[list[PlannedSample]]:
        """Yield lists of samples that are taken simultaneously in a cycle, in order of time.

        `names` counts the samples of each run, port and direction.
        """
        collect, capture = self.settings.collect, self.settings.capture
        by_name = {port.name: port for port in self.site.ports}
        first = 1 + cycle // self._cycles_per_run() * collect.runs_per_cycle
        for run in range(first, first + collect.runs_per_cycle):
            for _ in range(collect.samples_per_run):
                for direction in capture.directions:
                    yield [self._sample(run, cycle, by_name[name], direction, names) for name in chosen]

    def _sample(self, run: int, cycle: int, port: Port, direction: Direction, names: Counter) -> PlannedSample:
        # names of samples are file names; FABRIC's port HundredGigE0/0/0/5 is not a valid one
        series = f"run{run}-{self.site.name}-{re.sub(r'[^A-Za-z0-9._-]', '_', port.name)}-{direction}"
        names[series] += 1
        sample = f"{series}-{names[series]}"
        return PlannedSample(run, sample, self.site, port, direction, cycle + 1, format=self.settings.capture.format)

    def batches_in_advance(self) -> Iterator[list[PlannedSample]]:
        """Yield all batches if the selection does not depend on switch counters and the number of cycles is fixed.

        Raises NotKnownInAdvance otherwise.
        """
        kind = self.settings.collect.port_selection
        if kind not in STATIC_SELECTIONS or self.cycles is None:
            raise NotKnownInAdvance("the samples are only known when they are taken; see --dry-run")
        names: Counter = Counter()
        for cycle in range(self.cycles):
            yield from self.batches(cycle, self.choose_ports(cycle, None, ()), names)


def max_sample_bytes(settings: Settings, port: Port, capacity_bps: int | None) -> int | None:
    """Return the size of a sample at line rate; None if neither the port's nor the receiver's rate is known."""
    capture, mean = settings.capture, settings.collect.mean_frame_bytes
    directions = 2 if "both" in capture.directions else 1
    rates = [rate for rate in (port.rate_bps and directions * port.rate_bps, capacity_bps) if rate]
    if not rates:
        return None
    frames = min(rates) / 8 * capture.sample_s / mean / capture.one_in
    return round(frames * (min(capture.snaplen, mean) + RECORD_BYTES[capture.format]))


def next_start_ns(now_ns: int, period_s: float | None, sample_s: float) -> int:
    """Return the next start time of samples: a multiple of the period since 1970, the same at all sites.

    Without a period, it is a multiple of 1 s, or of the sample's duration if that is shorter, so that the start times
    of sites hardly differ.
    """
    grid_ns = round((period_s if period_s is not None else min(1.0, sample_s)) * 1e9)
    return -(-now_ns // grid_ns) * grid_ns


def trials(replay: Replay | None, file_format: str) -> Iterator[list[PlannedSample]]:
    """Yield the trials of each environment, in order of time."""
    for environment, repeats in replay.repeats.items() if replay else ():
        yield [
            PlannedSample(
                run=None,
                name=f"{environment}-{trial}",
                site=replay.site,
                port=replay.port,
                direction=replay.direction,
                environment=environment,
                trial=trial,
                format=file_format,
            )
            for trial in range(1, repeats + 1)
        ]
