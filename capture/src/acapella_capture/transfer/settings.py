"""The part of the config that `acapella transfer` uses; schemas/config.schema.json defines keys, types and defaults."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core.arguments import size_bytes
from acapella_core.errors import UserError
from acapella_core.topology import Topology

from ..settings import FabricSettings, checked, read_config
from .topology import read_topology

KEYS = ("transfer", "fabric")
MEGA = 1_000_000
NS_PER_MS = 1_000_000
MIN_BUFFER = 4096  # bytes: between two and three frames
MIN_REORDERED_NS = 2000  # shortest delay with reordering: tc counts 1 us, and each of two directions gets half
ALGORITHMS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class TransferSettings:
    """Settings of a grid of transfers. ``grid``: the values of each setting, in bytes, bit/s and ns."""

    testbed: str
    topology: Topology
    mode: str
    delay_on: str
    grid: dict[str, tuple]
    omitted: tuple[str, ...]  # algorithms that this kernel does not list
    defaults: dict[str, list]  # grid keys that the config does not set
    repetitions: int
    repeated_cells: dict[str, int]
    seed: int
    interval_s: float
    loss_percent: float
    reorder_percent: float
    keep: bool
    keep_captures: bool
    nodes: dict[str, Any]  # on FABRIC: cores, ram_gb, disk_gb, pin
    fabric: FabricSettings


def read_transfer_settings(path: Path) -> TransferSettings:
    """Read a config file. Raises UserError naming the wrong key."""
    config = read_config(path)
    return parse_transfer_settings({key: config[key] for key in KEYS if key in config}, where=path)


def parse_transfer_settings(config: dict[str, Any], *, where: object = "config") -> TransferSettings:
    """Return settings from the relevant keys of a config, with defaults. Raises UserError naming the wrong key."""
    values = checked(config, KEYS, where=where)
    transfer = values["transfer"]
    if transfer["grid"] is None:
        raise UserError("transfer.grid: missing; it lists the settings of the transfers", where=where)
    if transfer["keep"] and transfer["testbed"] == "local":
        raise UserError("transfer.keep: a slice on testbed local is always removed", where=where, fix="remove the key")
    names = TransferSettings.__dataclass_fields__.keys() & transfer.keys()
    topology = read_topology(transfer["topology"])
    grid = values_of_grid(transfer["grid"], where)
    omitted = missing_algorithms(transfer, where) if transfer["omit_missing_algorithms"] else ()
    grid["algorithm"] = tuple(name for name in grid["algorithm"] if name not in omitted)
    if grid["ratio"] != (None,) and not any(link.times_ratio for link in topology.links.values()):
        raise UserError("transfer.grid.ratio: the topology has no link with times_ratio", where=where)
    check_reordering(transfer["reorder_percent"], min(grid["delay_ns"]), where)
    return TransferSettings(
        **{
            **{name: transfer[name] for name in names},
            "topology": topology,
            "grid": grid,
            "omitted": omitted,
            "defaults": {key: used for key, used in transfer["grid"].items() if key not in config["transfer"]["grid"]},
            "fabric": FabricSettings(**values["fabric"]),
        }
    )


def check_reordering(percent: float, delay_ns: int, where: object) -> None:
    """Raise UserError if packets are to be reordered, but the delay is too short for reordering."""
    if percent and delay_ns < MIN_REORDERED_NS:
        raise UserError(
            "transfer.reorder_percent: only delayed packets can be reordered, but transfer.grid.delay_ms contains "
            f"{delay_ns / NS_PER_MS:g}",
            where=where,
            fix=f"delays of at least {MIN_REORDERED_NS / NS_PER_MS:g} ms",
        )


def missing_algorithms(transfer: dict[str, Any], where: object) -> tuple[str, ...]:
    """Return the algorithms of a grid that this kernel does not list. Raises UserError if it lists none of them."""
    if transfer["testbed"] != "local":
        raise UserError("transfer.omit_missing_algorithms: only supported by testbed local", where=where)
    listed = listed_algorithms()
    wanted = transfer["grid"]["algorithm"]
    missing = tuple(name for name in wanted if name not in listed)
    if len(missing) == len(wanted):
        raise UserError(f"transfer.grid.algorithm: this kernel only lists {', '.join(listed)}", where=where)
    return missing


def listed_algorithms() -> list[str]:
    """Return the congestion control algorithms that this kernel lists. Raises UserError if the list cannot be read."""
    try:
        return ALGORITHMS.read_text(encoding="ascii").split()
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=ALGORITHMS) from error


def check_algorithms(wanted: Iterable[str], listed: list[str]) -> None:
    """Raise UserError for the first algorithm that a kernel does not list. The error suggests a similar one, if any."""
    for name in wanted:
        if name not in listed:
            near = difflib.get_close_matches(name, listed, n=1)
            load = f"modprobe tcp_{name}"
            fix = f"did you mean {near[0]}? (if not: {load})" if near else load
            raise UserError(
                f"no congestion control {name}; the kernel lists {', '.join(listed)}",
                where="transfer.grid.algorithm",
                fix=fix,
            )


def values_of_grid(grid: dict[str, list], where: object) -> dict[str, tuple]:
    """Return the values of a grid in base units. Raises UserError for an invalid size or a duplicate value."""
    converted = {
        "algorithm": tuple(grid["algorithm"]),
        "delay_ns": tuple(round(value * NS_PER_MS) for value in grid["delay_ms"]),
        "buffer_bytes": tuple(bytes_of(value) for value in grid["buffer_bytes"]),
        "rate_bps": tuple(round(value * MEGA) for value in grid["rate_mbps"]),
        "streams": tuple(grid["streams"]),
        "size_bytes": tuple(bytes_of(value) for value in grid["size_bytes"]),
        "ratio": tuple(grid["ratio"]) or (None,),
    }
    for name, values in converted.items():
        if len(set(values)) != len(values):
            raise UserError(f"transfer.grid.{name}: the same value twice", where=where)
    if min(converted["buffer_bytes"]) < MIN_BUFFER:
        smallest = min(converted["buffer_bytes"])
        raise UserError(f"transfer.grid.buffer_bytes: {smallest} bytes; at least {MIN_BUFFER}", where=where)
    return converted


def bytes_of(value: int | str) -> int:
    """Return a size in bytes. Raises UserError."""
    return value if isinstance(value, int) else size_bytes(value)
