"""Functions shared by the figures of traffic that a monitor counted: notes, environments of ports, and ticks."""

import math
import re

from acapella.common.wording import count, natural

from . import theme
from .source import NoData, Source

TRIAL = re.compile(r"-[0-9]+$")  # at the end of the name of a trial
COLORS = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.PURPLE, theme.ORANGE, theme.SKY, theme.BLACK)
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down", "triangle-right")


def scope(source: Source) -> tuple[str, ...]:
    """Return the numbers of flows, packets and ports, as text."""
    ports = source.rows("monitor_ports")
    flows = len({(row["flow"], row["name"]) for row in source.rows("monitor_flows")})
    arrived = sum(row["unique"] for row in ports)
    kind = "trial" if source.campaign.provenance("monitor").is_file() else "port"
    return (f"{count(flows, 'flow')}, {count(arrived, 'packet')} that arrived in {count(len(ports), kind)}.",)


def unfinished(source: Source) -> str:
    """Return how many searches of the highest rate have ended, as text; no text if all have."""
    rows = source.rows("monitor_searches")
    ended = len({tuple(row[name] for name in ("ports", "frame_bytes", "capture", "measure")) for row in rows})
    planned = max((row["searches"] for row in rows), default=0)
    if ended >= planned:
        return ""
    return f"Incomplete: {ended:,} of {count(planned, 'search', 'searches')} have ended; run the same command again."


def environments(source: Source) -> dict[int, str]:
    """Return the environment of each port, in natural order: the name of the port without the number of the trial.

    Raises NoData if there are no ports, or more environments than COLORS.
    """
    names = {row["port"]: TRIAL.sub("", row["name"]) for row in source.rows("monitor_ports")}
    if not names:
        raise NoData("the monitor has no ports")
    if len(set(names.values())) > len(COLORS):
        raise NoData(f"there are more than {len(COLORS)} environments")
    return dict(sorted(names.items(), key=lambda item: (natural(item[1]), item[0])))


def unique_environments(names: dict[int, str]) -> list[str]:
    """Return the environments without duplicates."""
    return list(dict.fromkeys(names.values()))


def ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis, 1, 2, 5, 10, ...; only powers of ten if there are more than three.

    If the axis has fewer than two of these, the ticks are multiples of a step, as on a linear axis.
    """
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    powers_in_range = [power for power in powers if low <= power <= high]
    if len(powers_in_range) > 3:
        return powers_in_range
    candidates = [digit * power for power in powers for digit in (1, 2, 5) if low <= digit * power <= high]
    return candidates if len(candidates) > 1 else multiples(low, high)


def multiples(low: float, high: float) -> list[float]:
    """Return the multiples of the largest step (5, 2, 1, 0.5, ...) of which at least two are in a range."""
    power = math.floor(math.log10(high - low))
    steps = (factor * 10.0**power for factor in (5, 2, 1, 0.5))
    lists = ([round(step * number, 1 - power) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
             for step in steps)  # fmt: skip
    return next(values for values in lists if len(values) > 1)
