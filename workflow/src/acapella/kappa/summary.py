"""Formats a comparison as text: kappa, contributions of components, detailed numbers, a timeline, and warnings."""

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence

from acapella.common.wording import GAP, count, nanoseconds, percent
from acapella_core import names

from .warnings import CLOCK_CODES, TRIAL_CODES, end_of_file

NAMES = {"U": "packets", "O": "order", "L": "latency", "I": "gaps"}
BARS = " ▁▂▃▄▅▆▇█"  # blank: windows without packets; the others: from consistent to the worst window
TIMELINE_COLUMNS = 60
WORST_WINDOWS = 3  # listed below the bars
WIDTH = 110
MAX_NAMED = 3  # trials or pairs that a warning names if it applies to several


def text(result: dict) -> str:
    """Return the result as text that ends with a line feed; control characters in names are escaped."""
    parts = [trials(result["trials"])]
    if len(result["pairs"]) > 1:
        all_pairs = result["parameters"]["all_pairs"]
        parts.append(matrix(result) if all_pairs else f"{overview(result['pairs'])}\n{baseline_note(result)}")
    repeated = repeated_texts(result["pairs"])
    parts += [pair(entry, repeated) for entry in result["pairs"]]
    if shared := shared_warnings(result["pairs"], repeated):
        parts.append("\n".join(shared))
    lines = "\n\n".join(parts).replace(GAP, " ").split("\n")
    return "\n".join(map(names.shown, lines)) + "\n"


def trials(entries: list[dict]) -> str:
    """Return a line per trial, with the defects of its files."""
    width = max(len(entry["name"]) for entry in entries)
    return "\n".join(
        f"{entry['name']:{width}}  {count(entry['packets'], 'packet')} in {nanoseconds(entry['duration_ns'])}: "
        + ", ".join(
            names.shown(file["file"]) + (f" ({fault})" if (fault := end_of_file(file)) else "")
            for file in entry["files"]
        )
        for entry in entries
    )


def overview(pairs: list[dict]) -> str:
    """Return a line per pair, like Table 2 of the paper."""
    width = max(len(heading(entry)) for entry in pairs)
    lines = [f"{'':{width}}  " + "  ".join(f"{name:>9}" for name in (*NAMES, "kappa"))]
    for entry in pairs:
        values = "  ".join(f"{format_number(entry[name]):>9}" for name in NAMES)
        lines.append(f"{heading(entry):{width}}  {values}  {format_kappa(entry['kappa']):>9}")
    return "\n".join(lines)


def baseline_note(result: dict) -> str:
    """Return a note that comparisons with a single baseline do not reveal an outlier."""
    name = result["trials"][0]["name"]
    return f"Each trial is compared with {name} only: use --all-pairs to see if {name} itself is the outlier."


def matrix(result: dict) -> str:
    """Return a matrix with the kappa of each pair."""
    names = [entry["name"] for entry in result["trials"]]
    kappas = {(entry["a"], entry["b"]): format_kappa(entry["kappa"]) for entry in result["pairs"]}
    width = max(8, *map(len, names))
    lines = ["kappa".ljust(width) + "".join(f"  {name:>{width}}" for name in names[1:])]
    for row in names[:-1]:
        cells = "".join(f"  {kappas.get((row, column), ''):>{width}}" for column in names[1:])
        lines.append(f"{row:{width}}{cells}")
    return "\n".join(lines)


def heading(entry: dict) -> str:
    """Return the names of the pair."""
    return f"{entry['b']} against {entry['a']}"


def format_number(value: float | None) -> str:
    """Return a number with four significant digits, or with as many as distinguish it from 1."""
    if value is None:
        return "undefined"
    texts = (f"{value:.{digits}g}" for digits in range(4, 18))
    return next((text for text in texts if text != "1"), "1")


def format_kappa(kappa: float | None) -> str:
    """Return kappa with four digits, or, close to 1, with two significant digits of 1 - kappa."""
    if kappa is None or not 0 < 1 - kappa < 0.01:
        return format_number(kappa)
    return f"{kappa:.{1 - math.floor(math.log10(1 - kappa))}f}"


def pair(entry: dict, repeated: Collection[str] = ()) -> str:
    """Return the details of one pair, without the warnings that `shared_warnings` returns."""
    lines = [f"{heading(entry)}: kappa {format_kappa(entry['kappa'])}", *component_lines(entry)]
    lines += replay_lines(entry)
    lines += detail_lines(entry)
    lines += time_lines(entry["timeline"])
    lines += [warning_line(warning) for warning in entry["warnings"] if not is_shared(warning, repeated)]
    return "\n".join(lines)


def repeated_texts(pairs: list[dict]) -> set[str]:
    """Return the texts of warnings that several pairs have."""
    texts = Counter(warning["text"] for entry in pairs for warning in entry["warnings"])
    return {text for text, number in texts.items() if number > 1}


def is_shared(warning: dict, repeated: Collection[str]) -> bool:
    """Return whether a warning is about a trial, which may be in several pairs, or is the same for several pairs."""
    return warning["code"] in TRIAL_CODES or warning["text"] in repeated


def shared_warnings(pairs: list[dict], repeated: Collection[str]) -> list[str]:
    """Return each warning about a trial or several pairs once, with the trials or pairs to which it applies.

    Warnings about clocks are combined even if their numbers differ: the text is that of the first trial, and the JSON
    contains the others.
    """
    groups: dict[tuple, tuple[dict, dict[str, None]]] = {}
    for entry in pairs:
        for warning in (each for each in entry["warnings"] if is_shared(each, repeated)):
            code = warning["code"]
            key = (code,) if code in CLOCK_CODES else (code, warning["text"])
            groups.setdefault(key, (warning, {}))[1][subject(warning, entry)] = None
    return [
        warning_line(warning, list(subjects), "trial" if warning["code"] in TRIAL_CODES else "pair")
        for warning, subjects in groups.values()
    ]


def subject(warning: dict, entry: dict) -> str:
    """Return the name of the trial that a warning is about, or the heading of its pair."""
    if warning["code"] not in TRIAL_CODES:
        return heading(entry)
    named = [name for name in (entry["a"], entry["b"]) if f"trial {name}" in warning["text"]]
    return max(named, key=len)  # the text about A1 also contains "trial A"


def warning_line(warning: dict, subjects: Sequence[str] = (), noun: str = "") -> str:
    """Return a warning as indented text; if it has several subjects, with their number and the first names."""
    of = ""
    if len(subjects) > 1:
        more = ", ..." if len(subjects) > MAX_NAMED else ""
        of = f" of {count(len(subjects), noun)} ({', '.join(subjects[:MAX_NAMED])}{more})"
    line = f"warning ({' '.join(warning['components'])}){of}: {warning['text']}"
    return textwrap.fill(line.replace(GAP, " "), WIDTH, initial_indent="  ", subsequent_indent="    ")


def component_lines(entry: dict) -> list[str]:
    """Return a line per component, with its contribution to 1 - kappa."""
    lines = ["  component   value      kappa loss"]
    for name, label in NAMES.items():
        loss = entry["contribution"][name]
        total = sum(value or 0 for value in entry["contribution"].values())
        share = f"  {percent(loss / total)} of loss" if loss else ""
        lines.append(
            f"  {name} {label:8}  {format_number(entry[name]):9}  "
            f"{'' if loss is None else format_number(loss):9}{share}"
        )
    further = (
        f"O_published {format_number(entry['O_published'])}, O_kendall {format_number(entry['O_kendall'])}, "
        f"L without offset {format_number(entry['L_offset_removed'])}, "
        f"kappa_published {format_kappa(entry['kappa_published'])}"
    )
    return [line.rstrip() for line in lines] + [f"  other       {further}"]


def replay_lines(entry: dict) -> list[str]:
    """Return the lines for the replayer alone and for the path alone; empty without departures."""
    lines = []
    if entry["replayer"] is not None:
        parts = ", ".join(f"{name} {format_number(entry['replayer'][name])}" for name in NAMES)
        lines.append(f"  replayer    kappa {format_kappa(entry['replayer']['kappa'])} ({parts}){not_sent(entry)}")
        lines += order_lines(entry)
    if entry["corrected_unknown"]:
        return [*lines, f"  path        corrected kappa unknown: {entry['corrected_unknown']}"]
    path = entry["corrected"]
    if path is None:
        return lines
    if path["kappa_lo"] is None:
        return [*lines, "  path        corrected kappa undefined: no common packet was sent in both trials"]
    ranges = [f"{name} {interval(path, name, format_number)}" for name in NAMES]
    lines.append(f"  path        corrected kappa {interval(path, 'kappa', format_kappa)} (95 %)")
    lines.append(f"              {', '.join(ranges)}")
    excluded = path["excluded_a"] + path["excluded_b"]
    if excluded:
        unknown = "packets not sent or without a known departure in one trial"
        lines.append(f"              without {count(excluded, 'arrival')} of {unknown}")
    return lines


def order_lines(entry: dict) -> list[str]:
    """Return a line for each trial of several replayers: the order in which their packets arrived."""
    orders = {entry[side]: entry["replayer"][f"order_{side}"] for side in "ab"}
    return [
        f"  {f'order {name}':11} {order['reversed']:,} of {count(order['pairs'], 'pair')} of different replayers "
        f"reversed; {order['unexplained']:,} not explained by skew and departure errors, "
        f"{order['sent_in_order']:,} sent in order"
        for name, order in orders.items()
        if order
    ]


def interval(path: dict, name: str, form) -> str:
    """Return an interval, or one number if it is exact."""
    low, high = form(path[f"{name}_lo"]), form(path[f"{name}_hi"])
    return low if low == high else f"{low} to {high}"


def not_sent(entry: dict) -> str:
    """Return a text with the number of packets not sent in each trial; an empty string if all were sent."""
    sums = [sum(entry["replayer"][f"not_sent_{side}"].values()) for side in "ab"]
    return f"; not sent: {sums[0]:,} in {entry['a']}, {sums[1]:,} in {entry['b']}" if any(sums) else ""


def detail_lines(entry: dict) -> list[str]:
    """Return the numbers from which the components are computed."""
    a, b = entry["a"], entry["b"]
    lines = [f"  packets     {entry['n_common']:,} common of {entry['n_a']:,} in {a} and {entry['n_b']:,} in {b}"]
    if not entry["n_common"]:
        return lines
    near = ", ".join(f"{percent(share)} within {int(bound):,} ns" for bound, share in entry["within_ns"].items())
    lines.append(f"  gap delta   {delta(entry['iat_delta_ns'])}; {near}")
    lines.append(
        f"  latency     {delta(entry['latency_delta_ns'])}; median of {b} - {a} {nanoseconds(entry['offset_ns'])}"
    )
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


def delta(statistics: dict) -> str:
    """Return statistics of absolute differences."""
    return ", ".join(f"{name} {nanoseconds(statistics[name])}" for name in ("mean", "median", "p99", "largest"))


def time_lines(windows: list[dict]) -> list[str]:
    """Return the timeline (higher bars are less consistent; a bar may cover several windows), and the worst windows."""
    defined = [entry for entry in windows if entry["kappa"] is not None]
    worst = sorted((entry for entry in defined if entry["kappa"] < 1), key=lambda entry: entry["kappa"])[:WORST_WINDOWS]
    if not worst:
        return []
    peak = 1 - worst[0]["kappa"]
    lost = [None if entry["kappa"] is None else 1 - entry["kappa"] for entry in windows]
    step = -(-len(lost) // TIMELINE_COLUMNS)
    groups = [
        [value for value in lost[start : start + step] if value is not None] for start in range(0, len(lost), step)
    ]
    line = "".join(bar(max(group) / peak) if group else BARS[0] for group in groups)
    lines = [f"  in time     |{line}|  {nanoseconds(step * (windows[0]['to_ns'] - windows[0]['from_ns']))} per bar"]
    for index, entry in enumerate(worst):
        parts = ", ".join(f"{name} {format_number(entry[name])}" for name in NAMES)
        time_range = f"{nanoseconds(entry['from_ns'])} to {nanoseconds(entry['to_ns'])}"
        lines.append(
            f"  {'worst' if index == 0 else '':10}  {time_range}: kappa {format_kappa(entry['kappa'])} ({parts})"
        )
    return lines


def bar(share: float) -> str:
    """Return the bar for a share, from the lowest for 0 to the full one for 1."""
    return BARS[1 + min(7, int(share * 8))]
