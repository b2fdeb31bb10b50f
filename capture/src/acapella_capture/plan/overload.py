"""Predicts overload for a plan: ports that may mirror more than the receiver or the program can handle."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from acapella_core.names import pluralize

from ..settings import CaptureSettings
from ..testbeds.base import Port, Rates

GBPS = 1e9
TCPDUMP_BPS = 8_500_000_000  # highest rate at which tcpdump lost no frames in Patchwork's tests
MAX_LISTED = 5


def overload_lines(
    capture: CaptureSettings,
    method: str,
    ports: Sequence[Port],
    receiver_bps: int | None,
    read_rates: Callable[[], Mapping[str, Rates] | None],
) -> Iterator[str]:
    """Yield lines that describe the expected overload of a site; nothing if no port can exceed a limit.

    `receiver_bps` is the rate of the slowest receiver, None if unknown; `read_rates` returns recent rates of the ports,
    None without counters. It is called only if a port can exceed a limit.
    """
    limits = {"the receiver": receiver_bps, "tcpdump": TCPDUMP_BPS if method == "tcpdump" else None}
    directions = 2 if "both" in capture.directions else 1
    max_rates = {port.name: directions * port.rate_bps for port in ports if port.rate_bps}
    for name, limit in limits.items():
        exceeding = [rate for rate in max_rates.values() if limit is not None and rate > limit]
        if not exceeding:
            continue
        mirrored = "both directions mirrored" if directions == 2 else "one direction mirrored"
        yield (
            f"{len(exceeding)} of {pluralize(len(ports), 'port')} can exceed {describe(name, limit)}: up to "
            f"{gbps(max(exceeding))} with {mirrored}"
        )
        yield from current_lines(capture, limit, max_rates, read_rates())


def describe(name: str, limit: int) -> str:
    """Return a description of a limit."""
    return f"the {gbps(limit)} that {name} {'captured without loss in a test' if name == 'tcpdump' else 'accepts'}"


def current_lines(
    capture: CaptureSettings, limit: int, ports: Mapping[str, int], rates: Mapping[str, Rates] | None
) -> Iterator[str]:
    """Yield the ports whose current rates exceed a limit."""
    if rates is None:
        yield "  current rates: unknown, no counters"
        return
    current = {port: mirrored_bps(capture, rates[port]) for port in ports if port in rates}
    above = sorted((port for port, rate in current.items() if rate > limit), key=lambda port: -current[port])
    listed = [f"{port} ({gbps(current[port])})" for port in above[:MAX_LISTED]]
    more = f" and {len(above) - MAX_LISTED} more" if len(above) > MAX_LISTED else ""
    yield f"  currently above this limit: {', '.join(listed) + more if above else 'none'}"


def mirrored_bps(capture: CaptureSettings, rates: Rates) -> float:
    """Return the rate of a port's mirrored frames, for the configured direction with the highest rate."""
    by_direction = {"rx": rates.rx_bps, "tx": rates.tx_bps, "both": rates.rx_bps + rates.tx_bps}
    return max(by_direction[direction] for direction in capture.directions)


def gbps(rate_bps: float) -> str:
    return f"{rate_bps / GBPS:.3g} Gbit/s"
