"""The runs of a grid: every combination of settings, some of them repeated, in random order."""

import hashlib
import itertools
import json
import random
from dataclasses import asdict, dataclass, replace
from typing import Any

from .settings import NS_PER_MS, TransferSettings


@dataclass(frozen=True)
class Cell:
    """One run of a cell: a combination of settings, and ``run``, the number of the run with these settings, from 0."""

    mode: str
    topology: str
    algorithm: str
    delay_ns: int
    buffer_bytes: int
    rate_bps: int
    streams: int
    size_bytes: int
    ratio: float | None
    delay_on: str
    loss_percent: float
    reorder_percent: float
    several_paths: bool
    fingerprint: str  # hash of the topology: files of the same name may differ
    run: int

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as in `cell.json` (schemas/transfer_cell.schema.json)."""
        own = asdict(self)
        delay = own.pop("delay_ns") / NS_PER_MS
        for key in ("mode", "topology", "several_paths", "fingerprint", "run"):
            del own[key]
        return {"algorithm": own.pop("algorithm"), "delay_ms": int(delay) if delay.is_integer() else delay, **own}

    @property
    def cell_id(self) -> str:
        """The name of the run's directory: a hash of the settings, and the number of the run."""
        text = json.dumps([self.mode, self.topology, self.fingerprint, self.settings], sort_keys=True)
        return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{self.run}"

    @property
    def summary(self) -> str:
        """The settings in one line, for messages."""
        ratio = "" if self.ratio is None else f", ratio {self.ratio:g}"
        streams = "" if self.streams == 1 else f", {self.streams} streams"
        return (
            f"{self.algorithm}, delay {self.delay_ns / NS_PER_MS:g} ms, buffer {self.buffer_bytes} B, "
            f"{self.rate_bps / 1e6:g} Mbit/s{ratio}{streams}, run {self.run + 1}"
        )

    @property
    def total_bytes(self) -> int:
        """The total bytes of all flows."""
        return sum(self.share(flow) for flow in range(self.streams))

    def share(self, flow: int) -> int:
        """Return the bytes that a flow sends: with several paths, `size_bytes`; with one, its share of `size_bytes`."""
        if self.several_paths:
            return self.size_bytes
        return self.size_bytes // self.streams + (flow < self.size_bytes % self.streams)


def plan(settings: TransferSettings) -> list[Cell]:
    """Return all runs in execution order. The same settings and seed give the same order."""
    names = list(settings.grid)
    cells = [
        Cell(
            mode=settings.mode,
            topology=settings.topology.name,
            delay_on=settings.delay_on,
            loss_percent=settings.loss_percent,
            reorder_percent=settings.reorder_percent,
            several_paths=len(settings.topology.paths) > 1,
            fingerprint=hashlib.sha256(repr(settings.topology).encode()).hexdigest()[:12],
            run=0,
            **dict(zip(names, values, strict=True)),
        )
        for values in itertools.product(*settings.grid.values())
    ]
    rng = random.Random(settings.seed)
    repeats = settings.repeated_cells
    repeated = repeated_cells(cells, repeats["number"], rng)
    runs = []
    for index, cell in enumerate(cells):
        repetitions = max(settings.repetitions, repeats["repetitions"] if index in repeated else 0)
        runs += [Cell(**{**asdict(cell), "run": run}) for run in range(repetitions)]
    rng.shuffle(runs)
    return runs


def repeated_cells(cells: list[Cell], number: int, rng: random.Random) -> set[int]:
    """Return the indexes of the cells that are repeated: all algorithms of randomly chosen settings.

    If ``number`` is not a multiple of the number of algorithms, the last of the chosen settings are repeated with
    only some of the algorithms.
    """
    by_settings: dict[Cell, list[int]] = {}
    for index, cell in enumerate(cells):
        by_settings.setdefault(replace(cell, algorithm=""), []).append(index)
    order = rng.sample([*by_settings.values()], len(by_settings))
    return set(itertools.islice(itertools.chain.from_iterable(order), number))


def grid_file(settings: TransferSettings, runs: list[Cell]) -> dict[str, Any]:
    """Return the content of `grid.json`."""
    return {
        "version": 1,
        "topology": settings.topology.name,
        "mode": settings.mode,
        "seed": settings.seed,
        "cells": [{"cell_id": cell.cell_id, "settings": cell.settings, "run": cell.run} for cell in runs],
    }
