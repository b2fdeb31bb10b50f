"""How the FABRIC on loopback behaves: behaviors.tsv lists each behavior with its source, tests switch faults on.

Sources: file and function of CF (ControlFramework 30e67e21 of 2026-08, below fabric_cf/), Authz, AMHandlers, the client
(fabrictestbed-extensions 2.0.9), fabrictestbed 2.0.8, fabric_fim 2.0.0; Patchwork and its public run notes (2025).
precautions.tsv lists what FABRIC's sources do not show, and why it may happen.
"""

import csv
from dataclasses import dataclass, field
from pathlib import Path

UNSTABLE = ("Nascent", "Configuring", "Modifying")
PAGE = 200  # maximum number of slices in one reply


@dataclass(frozen=True)
class Behavior:
    """A row of the table.

    `switch` is the field of Faults, Nodes or Orchestrator that enables it; None if it always holds.
    """

    name: str
    source: str
    switch: str | None = None


def read_behaviors(file: str, column: str) -> tuple[Behavior, ...]:
    """Return the rows of a table; ``column`` is the one with the source or the reason of each row."""
    with Path(__file__).with_name(file).open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return tuple(Behavior(row["name"], row[column], row["switch"] or None) for row in rows)


BEHAVIORS = read_behaviors("behaviors.tsv", "source")
PRECAUTIONS = read_behaviors("precautions.tsv", "reason")


@dataclass
class Faults:
    """Active faults, until a test removes them."""

    create_status: list[int] = field(default_factory=list)  # status of the next creations; 503 creates no slice
    refuse: bool = False  # new slices end in StableError for lack of resources
    notice: str = "Insufficient resources : ['disk']"
    queries: int = 1  # number of queries for which a new slice is Configuring
    first_mirrors_fail: bool = False  # creations of slices with mirrors fail
    stuck: bool = False  # slices stay Configuring, modifications Modifying
    modify_fails: bool = False
    failed_service_stays: bool = False  # after a failed modification all later ones end in ModifyError
    one_mirror_per_port: bool = False  # modifications with two mirrors of a switch port fail, even of different VLANs
    kept: str | None = None  # name of a slice that cannot be deleted
    no_summary: bool = False
    metrics_status: int = 200
    lease_limit_h: float = 15 * 24
    page: int = PAGE
    lost_answers: list[str] = field(default_factory=list)  # path prefixes of the next requests without an answer
    hidden: int = 0  # number of the next lists that omit slices created while this is above 0
    latency_s: float = 0
    too_many: int = 0  # number of the next requests for slices and slivers that are refused
    expire_after: int | None = None  # number of requests after which all tokens expire, once
    ipv6_management: bool = False
