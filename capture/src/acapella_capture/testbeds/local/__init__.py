"""Testbed `local`: sites out of network namespaces, kernel bridges with real port mirrors, traffic of real programs."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from ...settings import LocalSettings
from ..base import Direction, Finished, Job, Mirror, Replay, Site, Span, Testbed
from . import processes, sandbox
from .mirror import LocalMirror
from .network import PATHS, Network, demolish, kernel_has
from .replay import Replayer
from .traffic import Traffic, resolve

PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool", "nsenter": "util-linux", "sh": "dash"}
NOTE = "no MPLS labels and no provider's tags: the switches are kernel bridges"


class LocalTestbed(Testbed):
    """The testbed of this machine. `allocate` works inside the sandbox only: see sandbox.call."""

    name = "local"

    def __init__(self, settings: LocalSettings):
        self.network = Network(
            sites=settings.sites,
            hosts_per_site=settings.hosts_per_site,
            mtu=settings.mtu,
            port_rate_bps=int(settings.port_rate_mbps * 1e6),
            mirror_rate_bps=int(settings.mirror_rate_mbps * 1e6) if settings.mirror_rate_mbps else None,
        )
        self._items = resolve(self.network, settings.traffic)
        self._replayer = Replayer(self.network, settings.replay) if settings.replay else None
        self._traffic: Traffic | None = None
        self._mirrors: dict[str, LocalMirror] = {}

    def sites(self) -> tuple[Site, ...]:
        return tuple(self.network.site(number) for number in range(1, self.network.sites + 1))

    def allocate(self) -> None:
        for program, package in PROGRAMS.items():
            sandbox.require(program, package)
        if self._replayer:
            self._replayer.require()
        sandbox.enter()
        wanted = {"standard", *(item.path for item in self._items)}
        paths = tuple(path for path in PATHS if path in wanted and kernel_has(path))
        replace(self.network, paths=paths).build()
        if self._replayer:
            self._replayer.prepare()
        self._traffic = Traffic(self._items, paths)
        self._traffic.serve()

    def release(self) -> None:
        """End what runs and take the network down; whatever stops us, the end of the sandbox does the same."""
        self._mirrors = {}
        processes.end_all()
        demolish()

    def mirror(self, site: str, port: str, direction: Direction) -> Mirror:
        self.port(site, port)
        if direction not in ("rx", "tx", "both"):
            raise UserError(f"no direction {direction!r}; rx, tx or both", where=f"testbed {self.name}")
        if site in self._mirrors:
            self._mirrors.pop(site).remove()
        self._mirrors[site] = LocalMirror(site, port, direction, self.site(site).instances[0])
        return self._mirrors[site]

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> Finished:
        return processes.run(node, argv, timeout_s=timeout_s, stdin=stdin)

    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        return processes.start(node, argv, output=output and str(processes.SPOOL / output))

    def place(self, node: str, file: str) -> str:
        return str(processes.SPOOL / file)

    def fetch(self, node: str, path: str, target: Path) -> None:
        source = processes.SPOOL / path
        if not source.is_file():
            raise UserError(f"no file {path!r}", where=f"node {node}")
        with atomic_path(target) as temporary:
            shutil.copyfile(source, temporary)
        source.unlink()

    @contextlib.contextmanager
    def traffic(self, span: Span, seconds: float) -> Iterator[None]:
        with self._traffic.running(span, seconds):
            yield

    def traffic_facts(self) -> list[dict[str, Any]] | None:
        return self._traffic.facts() if self._traffic else None

    def replays(self) -> Replay | None:
        return self._replayer.replays() if self._replayer else None

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        with self._replayer.environment(name):
            yield

    def replay(self) -> None:
        self._replayer.play()

    def notes(self) -> list[str]:
        return [NOTE, *(self._traffic.notes if self._traffic else [])]
