"""A comparison as text: kappa, what takes how much of it away, the numbers behind, where in time it broke, warnings."""

import math
import textwrap

from acapella.common.wording import GAP, count, nanoseconds, percent
from acapella_core import names

from .warnings import ended

NAMES = {"U": "packets", "O": "order", "L": "latency", "I": "gaps"}
BARS = " ▁▂▃▄▅▆▇█"  # no packets, then from consistent to the worst window
COLUMNS = 60  # of the timeline
WORST = 3  # windows named
WIDTH = 110


def text(result: dict) -> str:
    """The whole result, ending with a line feed; control characters of names are escaped."""
    parts = [trials(result["trials"])]
    if len(result["pairs"]) > 1:
        whole = result["parameters"]["all_pairs"]
        parts.append(matrix(result) if whole else f"{overview(result['pairs'])}\n{against_one(result)}")
    parts += [pair(entry) for entry in result["pairs"]]
    lines = "\n\n".join(parts).replace(GAP, " ").split("\n")
    return "\n".join(map(names.shown, lines)) + "\n"


def trials(entries: list[dict]) -> str:
    """A line a trial, with what its files lack."""
    width = max(len(entry["name"]) for entry in entries)
    return "\n".join(
        f"{entry['name']:{width}}  {count(entry['packets'], 'packet')} in {nanoseconds(entry['duration_ns'])}: "
        + ", ".join(
            names.shown(file["file"]) + (f" ({how})" if (how := ended(file)) else "") for file in entry["files"]
        )
        for entry in entries
    )


def overview(pairs: list[dict]) -> str:
    """A line a pair, as the paper's Table 2."""
    width = max(len(heading(entry)) for entry in pairs)
    lines = [f"{'':{width}}  " + "  ".join(f"{name:>9}" for name in (*NAMES, "kappa"))]
    for entry in pairs:
        values = "  ".join(f"{number(entry[name]):>9}" for name in NAMES)
        lines.append(f"{heading(entry):{width}}  {values}  {score(entry['kappa']):>9}")
    return "\n".join(lines)


def against_one(result: dict) -> str:
    """What kappas against one trial leave open."""
    name = result["trials"][0]["name"]
    return f"Each kappa is with {name}: whether {name} itself is the odd trial only --all-pairs shows."


def matrix(result: dict) -> str:
    """Kappa of each pair."""
    names = [entry["name"] for entry in result["trials"]]
    kappas = {(entry["a"], entry["b"]): score(entry["kappa"]) for entry in result["pairs"]}
    width = max(8, *map(len, names))
    lines = ["kappa".ljust(width) + "".join(f"  {name:>{width}}" for name in names[1:])]
    for row in names[:-1]:
        cells = "".join(f"  {kappas.get((row, column), ''):>{width}}" for column in names[1:])
        lines.append(f"{row:{width}}{cells}")
    return "\n".join(lines)


def heading(entry: dict) -> str:
    """Which pair."""
    return f"{entry['b']} against {entry['a']}"


def number(value: float | None) -> str:
    """Four significant digits; 0 and 1 only where it is exactly that."""
    if value is None:
        return "undefined"
    return str(int(value)) if value in (0, 1) else f"{value:.4g}"


def score(kappa: float | None) -> str:
    """Four digits, and more where it is close to 1: two of what is missing."""
    if kappa is None or not 0 < 1 - kappa < 0.01:
        return number(kappa)
    return f"{kappa:.{1 - math.floor(math.log10(1 - kappa))}f}"


def pair(entry: dict) -> str:
    """One pair in full."""
    lines = [f"{heading(entry)}: kappa {score(entry['kappa'])}", *component_lines(entry), *detail_lines(entry)]
    lines += time_lines(entry["timeline"])
    for warning in entry["warnings"]:
        said = f"warning ({' '.join(warning['components'])}): {warning['text']}"
        lines.append(textwrap.fill(said.replace(GAP, " "), WIDTH, initial_indent="  ", subsequent_indent="    "))
    return "\n".join(lines)


def component_lines(entry: dict) -> list[str]:
    """Each component and what it takes away from 1."""
    lines = ["  component   value      takes away"]
    for name, what in NAMES.items():
        taken = entry["contribution"][name]
        total = sum(value or 0 for value in entry["contribution"].values())
        share = f"  {percent(taken / total)} of it" if taken else ""
        lines.append(f"  {name} {what:8}  {number(entry[name]):9}  {'' if taken is None else number(taken):9}{share}")
    beside = f"O_published {number(entry['O_published'])}, O_kendall {number(entry['O_kendall'])}, L without offset "
    beside += f"{number(entry['L_offset_removed'])}, kappa_published {score(entry['kappa_published'])}"
    return [line.rstrip() for line in lines] + [f"  beside      {beside}"]


def detail_lines(entry: dict) -> list[str]:
    """The numbers behind the components."""
    lines = [f"  packets     {entry['n_common']:,} common of {entry['n_a']:,} in A and {entry['n_b']:,} in B"]
    if not entry["n_common"]:
        return lines
    near = ", ".join(f"{percent(share)} within {bound} ns" for bound, share in entry["within_ns"].items())
    lines.append(f"  gap delta   {delta(entry['iat_delta_ns'])}; {near}")
    lines.append(f"  latency     {delta(entry['latency_delta_ns'])}; median of B - A {entry['offset_ns']:,} ns")
    moves, bursts = entry["moves"], entry["bursts"]
    if not moves["count"]:
        return [*lines, "  moved       none"]
    return [
        *lines,
        f"  moved       {count(moves['count'], 'packet')} ({percent(moves['share'])}), by {moves['abs_mean']:,.2f} "
        f"on average (sigma {moves['abs_sigma']:,.2f}), {moves['min']:,} to {moves['max']:,}",
        f"  in bursts   {bursts['count']:,}, the longest of {count(bursts['longest'], 'packet')}, by "
        f"{bursts['abs_mean']:,.2f} on average",
    ]


def delta(sums: dict) -> str:
    """Absolute differences."""
    return f"mean {sums['mean']:,.1f} ns, median {sums['median']:,}, p99 {sums['p99']:,}, largest {sums['largest']:,}"


def time_lines(windows: list[dict]) -> list[str]:
    """A bar a window, the higher the less consistent, and the worst windows."""
    known = [entry for entry in windows if entry["kappa"] is not None]
    worst = sorted((entry for entry in known if entry["kappa"] < 1), key=lambda entry: entry["kappa"])[:WORST]
    if not worst:
        return []
    peak = 1 - worst[0]["kappa"]
    lost = [None if entry["kappa"] is None else 1 - entry["kappa"] for entry in windows]
    step = -(-len(lost) // COLUMNS)
    groups = [[value for value in lost[at : at + step] if value is not None] for at in range(0, len(lost), step)]
    line = "".join(bar(max(group) / peak) if group else BARS[0] for group in groups)
    lines = [f"  in time     |{line}|  a bar each {nanoseconds(step * (windows[0]['to_ns'] - windows[0]['from_ns']))}"]
    for place, entry in enumerate(worst):
        parts = ", ".join(f"{name} {number(entry[name])}" for name in NAMES)
        where = f"{nanoseconds(entry['from_ns'])} to {nanoseconds(entry['to_ns'])}"
        lines.append(f"  {'worst' if place == 0 else '':10}  {where}: kappa {score(entry['kappa'])} ({parts})")
    return lines


def bar(share: float) -> str:
    """From the lowest bar for 0 to the full one for 1."""
    return BARS[1 + min(7, int(share * 8))]
