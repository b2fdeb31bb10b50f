"""Testbed `local`: sites built from network namespaces, switches with real port mirrors, real traffic."""

import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from ...settings import LocalSettings
from ..base import (
    CompletedProgram,
    Direction,
    Host,
    Instance,
    Job,
    Mirror,
    Replay,
    ResourceRequest,
    Site,
    Span,
    Telemetry,
    Testbed,
)
from ..telemetry import Prometheus
from . import processes, sandbox, snmp
from .bridge import TBF_BURST_BYTES, TBF_LIMIT_BYTES, BridgeSwitches
from .counters import Counters
from .inventory import Inventory
from .network import PATHS, Network, kernel_has, tear_down
from .ovs import OvsSwitches
from .slices import slices_of
from .switch import LocalMirror
from .traffic import Traffic, resolve

PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool", "nsenter": "util-linux", "sh": "dash"}
MIN_SNMP_S = 5 * snmp.EVERY_S
SWITCHES = {"bridge": BridgeSwitches, "ovs": OvsSwitches}


class LocalTestbed(Testbed):
    """The testbed of this machine. `prepare` only works inside the sandbox: see sandbox.call."""

    name = "local"
    capacity_overhead_bytes = 0  # tbf and the kernel's counters exclude FCS and preamble
    counter_overhead_bytes = 0
    mirror_buffer_bytes = TBF_BURST_BYTES + TBF_LIMIT_BYTES

    def __init__(self, settings: LocalSettings):
        ovs = settings.switch == "ovs"
        if settings.slices is not None and not ovs:
            raise UserError("kernel bridges have no slices", where="local.slices", fix="local.switch: ovs")
        self.network = Network(
            sites=settings.sites,
            hosts_per_site=settings.hosts_per_site,
            mtu=settings.mtu,
            port_rate_bps=int(settings.port_rate_mbps * 1e6),
            mirror_rate_bps=int(settings.mirror_rate_mbps * 1e6) if settings.mirror_rate_mbps else None,
            slices=slices_of(settings.slices, settings.sites, settings.hosts_per_site) if ovs else (),
            resources=settings.resources,
        )
        self._switches = SWITCHES[settings.switch](self.network)
        self.receivers_per_instance = self._switches.receivers
        self._snmp = settings.telemetry == "snmp" or (settings.telemetry == "auto" and ovs and snmp.installed())
        self._counters_s = settings.counters_s
        self._min_snmp_s = 0 if settings.telemetry == "snmp" else MIN_SNMP_S
        self._prometheus: dict[str, Prometheus] = {}  # by site, like _counters
        self._counters: dict[str, Counters] = {}
        self._items = resolve(self.network, settings.traffic)
        self._replayer = None
        if settings.replay:
            from .replay import Replayer  # noqa: PLC0415 - imports numpy and pyarrow

            self._replayer = Replayer(self.network, settings.replay, bridges=not ovs)
        self._generator = None
        if settings.generate:
            from .generate import Generator  # noqa: PLC0415 - imports numpy and pyarrow

            self._generator = Generator(self.network, settings.generate, bridges=not ovs)
        self._trials: Any = None  # the replayer or generator of the current environment
        self._traffic: Traffic | None = None
        self._mirrors: dict[tuple[str, str], LocalMirror] = {}  # by instance and receiver
        self._lock = threading.RLock()  # each site is used by its own thread
        self._reset()

    def sites(self) -> tuple[Site, ...]:
        return tuple(self.network.site(number) for number in range(1, self.network.sites + 1))

    def prepare(self) -> None:
        for program, package in (PROGRAMS | self._switches.programs()).items():
            sandbox.require(program, package)
        if self._snmp:
            snmp.require()
        for trials in (self._replayer, self._generator):
            if trials:
                trials.require()
        sandbox.enter()
        required = {"standard", *(item.path for item in self._items)}
        paths = tuple(path for path in PATHS if path in required and kernel_has(path))
        replace(self.network, paths=paths).build(self._switches)
        names = [site.name for site in self.sites()]
        if self._snmp:
            self._prometheus = snmp.serve(names)
        self._counters = {name: Counters(name, self._counters_s) for name in names}
        for counters in self._counters.values():
            counters.start()
        if self._replayer:
            self._replayer.prepare()
        self._traffic = Traffic(self._items, paths)
        self._traffic.start_servers()

    def resources(self, site: str) -> tuple[Host, ...]:
        self.site(site)
        with self._lock:
            return self._inventories[site].free()

    def telemetry(self, site: str, seconds: float) -> Telemetry | None:
        """Return SNMP rates if they cover at least half as much time as the rates from the switch counters, otherwise
        the latter.

        Unless the config requires SNMP, rates of short intervals come from the switch counters, because SNMP readings
        are a second apart.
        """
        names = [port.name for port in self.site(site).ports]
        own_rates = self._counters[site].telemetry(seconds, names) if site in self._counters else None
        if site in self._prometheus and seconds >= self._min_snmp_s:
            with contextlib.suppress(UserError):
                snmp_rates = self._prometheus[site].telemetry(seconds, names)
                if snmp_rates and (own_rates is None or snmp_rates.seconds >= own_rates.seconds / 2):
                    return snmp_rates
        return own_rates

    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        self.site(site)
        with self._lock:
            existing = self._instances[site]
            added: list[Instance] = []
            try:
                while (number := len(existing) + len(added) + 1) <= request.instances:
                    added.append(self._add_instance(site, number, request))
            except BaseException:
                for number in range(len(existing) + 1, len(existing) + len(added) + 1):
                    self._remove_instance(site, number)
                raise
            self._instances[site] = (*existing, *added)
            return self._instances[site][: request.instances]

    def _add_instance(self, site: str, number: int, request: ResourceRequest) -> Instance:
        """Add the site's n-th instance. Raises InsufficientResources if the site has too few free resources."""
        self._inventories[site].allocate(self._switches.node(site, number), request)
        try:
            return self._switches.attach(site, number)
        except BaseException:
            self._remove_instance(site, number)
            raise

    def _remove_instance(self, site: str, number: int) -> None:
        """Remove an instance with its programs and mirrors."""
        node = self._switches.node(site, number)
        for key in [key for key in self._mirrors if key[0] == node]:
            self._mirrors.pop(key).remove()
        processes.terminate_all(node)
        self._switches.detach(site, number)
        self._inventories[site].release(node)

    def instances(self, site: str) -> tuple[Instance, ...]:
        self.site(site)
        with self._lock:
            return self._instances[site]

    def release(self, site: str | None = None) -> None:
        """Release a site or, by default, everything. The latter removes the network, as the end of the sandbox does."""
        if site is not None:
            with self._lock:
                for number in range(len(self.instances(site)), 0, -1):
                    self._remove_instance(site, number)
                self._instances[site] = ()
            return
        with self._lock:
            self._mirrors, self._prometheus = {}, {}
            while self._counters:
                self._counters.popitem()[1].stop()
            processes.terminate_all()
            tear_down()
            self._reset()

    def _reset(self) -> None:
        """Mark everything as free."""
        self._instances = dict.fromkeys((site.name for site in self.sites()), ())
        self._inventories = {
            site.name: Inventory(site.name, self._switches.hardware(site.name)) for site in self.sites()
        }

    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> Mirror:
        self.receiver(instance, receiver)
        self.port(instance.site, port)
        if direction not in ("rx", "tx", "both"):
            raise UserError(f"no direction {direction!r}; rx, tx or both", where=f"testbed {self.name}")
        key = (instance.name, receiver)
        if key in self._mirrors:
            self._mirrors.pop(key).remove()
        self._mirrors[key] = self._switches.mirror(instance, receiver, port, direction)
        return self._mirrors[key]

    def mirror_capacity_bps(self, instance: Instance, receiver: str) -> int | None:
        self.receiver(instance, receiver)
        return self.network.mirror_rate_bps

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        return processes.run(node, argv, timeout_s=timeout_s, stdin=stdin)

    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        return processes.start(node, argv, output=output and str(processes.spool_path(node, output)))

    def path_on_node(self, node: str, file: str) -> str:
        return str(processes.spool_path(node, file))

    def fetch(self, node: str, path: str, target: Path) -> None:
        source = processes.spool_path(node, path)
        if not source.is_file():
            raise UserError(f"no file {path!r}", where=f"node {node}")
        with atomic_path(target) as temporary:
            shutil.copyfile(source, temporary)

    def put(self, node: str, source: Path, file: str) -> None:
        target = processes.spool_path(node, file)
        try:
            with atomic_path(target) as temporary:
                shutil.copyfile(source, temporary)
            target.chmod(0o700)
        except OSError as error:
            raise UserError(f"cannot copy it to {node}: {error.strerror}", where=source) from error

    @contextlib.contextmanager
    def traffic(self, span: Span, seconds: float) -> Iterator[None]:
        with self._traffic.running(span, seconds):
            yield

    def traffic_report(self) -> list[dict[str, Any]] | None:
        return self._traffic.facts() if self._traffic else None

    def replay_plan(self) -> Replay | None:
        plans = [trials.replay_plan() for trials in (self._replayer, self._generator) if trials]
        return combine_plans(plans) if plans else None

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        generated = self._generator and name in self._generator.environments
        self._trials = self._generator if generated else self._replayer
        with self._trials.environment(name):
            yield

    def replay(self) -> int:
        return self._trials.play()

    def deliver_replay(self, sample: str, raw: Path) -> dict[str, Any] | None:
        return self._trials.deliver(sample, raw)

    def notes(self) -> list[str]:
        note = [self._switches.note] if self._switches.note else []
        return [*note, *(self._traffic.notes if self._traffic else [])]


def combine_plans(plans: Sequence[Replay]) -> Replay:
    """Return one plan for all replays, which are recorded at the same port."""
    return replace(
        plans[0],
        filter=" or ".join(plan.filter for plan in plans),
        repeats={name: number for plan in plans for name, number in plan.repeats.items()},
        notes={name: note for plan in plans for name, note in plan.notes.items()},
    )
