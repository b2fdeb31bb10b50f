"""Creates the report's section on the infrastructure study: the ports with the largest utilization."""

from acapella.common.wording import percent, scaled
from acapella.figures.source import Source

from .tables import number, table

INTRODUCTION = "Infrastructure of a testbed, summarized by Acapella."
MAX_PORTS = 20


def tables(source: Source) -> list[dict]:
    """Return the tables of the section."""
    rows = source.rows("infrastructure_port_use")
    return [ports(rows)] if rows else []


def ports(rows: list[dict]) -> dict:
    """Return the ports with the largest utilization."""
    ranked = sorted(rows, key=lambda row: (-(row["utilization_max"] or 0), row["site"], row["port"]))[:MAX_PORTS]
    columns = [("Site", False), ("Port", False), ("Kind", False), ("Rate", True), ("Largest utilization", True)]
    columns += [("Mean utilization", True), ("Received, mean", True), ("Sent, mean", True), ("Samples", True)]
    columns += [("Gaps", True), ("Resets", True)]
    cells = [
        [
            *(row["site"], row["port"], row["kind"], rate(row["rate_bps"])),
            *(share(row["utilization_max"]), share(row["utilization_mean"])),
            *(rate(row["in_bps_mean"]), rate(row["out_bps_mean"])),
            *(number(row["samples"]), number(row["gaps"]), number(row["resets"])),
        ]
        for row in ranked
    ]
    note = (
        f"At most {MAX_PORTS} of {len(rows):,} ports. Utilization of the busier direction. A bin has no sample if the "
        "bin before it has no reading (gap), or if a counter decreased (reset)."
    )
    return table("infrastructure_port_use", "Ports with the largest utilization", note, columns, cells)


def rate(value: float | None) -> str:
    """Return a rate as text; empty if it is null."""
    return "" if value is None else scaled(value, "bit/s")


def share(value: float | None) -> str:
    """Return a share in percent; empty if it is null."""
    return "" if value is None else percent(value)
