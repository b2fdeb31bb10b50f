"""Whether a mirror was asked to carry more than its receiver takes, from the rates that the switch counted."""

from collections.abc import Mapping
from typing import Any

from .testbeds.base import Direction, Rates, Telemetry

SHARES = {"rx": (0, 1), "tx": (1, 0), "both": (1, 1)}  # of the port's Tx and Rx


def offered_bps(rates: Rates, direction: Direction) -> float:
    """What a mirror of that direction is to carry: Mirrored(Tx) + Mirrored(Rx) for both (Patchwork, section 6.2.2)."""
    of_tx, of_rx = SHARES[direction]
    return of_tx * rates.tx_bps + of_rx * rates.rx_bps


def verdict(telemetry: Telemetry | None, port: str, direction: Direction, capacity_bps: int | None) -> dict[str, Any]:
    """Manifest key `congestion`.

    The estimated loss is the share of bytes beyond the capacity, at a rate that does not change over the interval:
    bursts lose more than that, an interval longer than the sample may hide them.
    """
    ports: Mapping[str, Rates] = telemetry.ports if telemetry else {}
    rates = ports.get(port)
    offered = None if rates is None else offered_bps(rates, direction)
    said, loss = "unknown", None
    if offered is not None and capacity_bps:
        said = "congested" if offered > capacity_bps else "clear"
        loss = max(0.0, 1 - capacity_bps / offered) if offered else 0.0
    return {
        "verdict": said,
        "source": telemetry.source if telemetry else None,
        "seconds": telemetry.seconds if telemetry else None,
        "tx_bps": rates.tx_bps if rates else None,
        "rx_bps": rates.rx_bps if rates else None,
        "offered_bps": offered,
        "capacity_bps": capacity_bps,
        "estimated_loss": loss,
    }
