"""Figure transfer_ratios of the report, described by ABOUT."""

import statistics
from collections import Counter
from collections.abc import Iterable

import altair as alt

from acapella.common.wording import GAP, count, digits, percent

from . import theme, transfer_outcome, transfer_scope
from .compose import Figure
from .source import NoData, Source

SUBJECT = "Flows over time for each ratio"
ABOUT = "Throughput of the flows over time for each ratio of the crossing links (sliced-WAN paper, figure 9)."
TABLE = "transfer_intervals"
COLUMNS = ("cell_id", "run", "flow", "start_ns", "end_ns", "throughput_bps")
SCOPE = transfer_scope.scope_of(lambda rows: [row for row in rows if row["ratio"] is not None])
COLORS = (theme.VERMILION, theme.GREEN, theme.BLUE, theme.PURPLE, theme.ORANGE, theme.SKY)
MAX_PANELS = 9
PANELS_PER_ROW = 3
WIDTH = 170
HEIGHT = 130


def draw(source: Source) -> Figure:
    """Draw a panel for the first complete run of each algorithm, ratio and setting."""
    cells = first_runs(source.rows("transfer_cells"))
    if not cells:
        raise NoData("no transfer over several paths with a ratio has run (topology multipath)")
    drawn_cells = cells[:MAX_PANELS]
    keys = {(row["cell_id"], row["run"]) for row in drawn_cells}
    flows = [row for row in source.rows("transfer_flows") if (row["cell_id"], row["run"]) in keys]
    intervals = full_intervals(row for row in source.rows(TABLE) if (row["cell_id"], row["run"]) in keys)
    predicted = [row for row in source.rows("transfer_prediction") if (row["cell_id"], row["run"]) in keys]
    paths = list(dict.fromkeys(row["path"] or f"flow {row['flow']}" for row in flows))
    longest = max(row["completion_ns"] for row in drawn_cells) / 1e9
    fastest = max((row["throughput_bps"] or 0 for row in intervals), default=0) / 1e6
    panels = [panel(row, flows, intervals, predicted, (paths, longest, fastest)) for row in drawn_cells]
    lines = [alt.hconcat(*panels[n : n + PANELS_PER_ROW], spacing=16) for n in range(0, len(panels), PANELS_PER_ROW)]
    key = [transfer_scope.completion_note(settings_of(cells, source.rows("transfer_settings")))]
    key.append("lines: throughput of a flow in each full interval of iperf3; triangles: end of each flow")
    if predicted:
        key.append("dashed: last end predicted by max-min fair rates (transfer_prediction.csv)")
    if len(cells) > len(drawn_cells):
        key.append(f"the first {MAX_PANELS} of {len(cells)} ratios and algorithms")
    chart = alt.vconcat(*lines, spacing=18).resolve_scale(color="shared")
    return Figure(title(cells, predicted, source.rows("transfer_settings")), chart, ("; ".join(key),))


def full_intervals(rows: Iterable[dict]) -> list[dict]:
    """Return the intervals after the warm-up that have at least half of the usual length.

    The last interval of a flow may last only milliseconds. Its throughput is that of a burst into the send buffer.
    """
    kept = []
    for run_rows in transfer_scope.group_rows([row for row in rows if not row["omitted"]], ("cell_id", "run")).values():
        usual = statistics.median(row["end_ns"] - row["start_ns"] for row in run_rows)
        kept += [row for row in run_rows if 2 * (row["end_ns"] - row["start_ns"]) >= usual]
    return kept


def first_runs(cells: list[dict]) -> list[dict]:
    """Return the first complete run of each algorithm, ratio and setting, in this order."""
    complete = [row for row in cells if row["ratio"] is not None and row["error"] is None]
    order = transfer_scope.algorithms(complete)
    complete.sort(
        key=lambda row: (order.index(row["algorithm"]), row["ratio"], row["setting"], row["cell_id"], row["run"])
    )
    return [rows[0] for rows in transfer_scope.group_rows(complete, ("algorithm", "ratio", "setting")).values()]


def panel(cell: dict, flows: list[dict], intervals: list[dict], predicted: list[dict], axes: tuple) -> alt.LayerChart:
    """Return the panel of a run. ``axes``: all paths, and the ends of the axes: s, Mbit/s."""
    paths, longest, fastest = axes
    run_flows = [row for row in flows if belongs_to_run(row, cell)]
    names = {(row["flow"], row["stream"]): row["path"] or f"flow {row['flow']}" for row in run_flows}
    points = [
        {
            "t": (row["start_ns"] + row["end_ns"]) / 2e9,
            "mbps": (row["throughput_bps"] or 0) / 1e6,
            "path": names[row["flow"], row["stream"]],
            "flow": f"{row['flow']}.{row['stream']}",
        }
        for row in intervals
        if belongs_to_run(row, cell)
    ]
    ends = [
        {"t": row["end_ns"] / 1e9, "path": names[row["flow"], row["stream"]], "mbps": 0}
        for row in run_flows
        if row["end_ns"] is not None
    ]
    run_predictions = [row["predicted_ns"] for row in predicted if belongs_to_run(row, cell)]
    last = [predicted_ns / 1e9 for predicted_ns in run_predictions if predicted_ns is not None]
    scale = alt.Scale(domain=paths, range=[COLORS[n % len(COLORS)] for n in range(len(paths))])
    color = alt.Color("path:N", scale=scale, legend=alt.Legend(title="path", orient="right", symbolType="stroke"))
    x = alt.X("t:Q", title="time (s)", scale=alt.Scale(domain=[0, 1.05 * longest], nice=False))
    y = alt.Y("mbps:Q", title="throughput (Mbit/s)", scale=alt.Scale(domain=[0, 1.05 * fastest or 1], nice=False))
    line = (
        alt.Chart(alt.Data(values=points))
        .mark_line(strokeWidth=1.3, opacity=0.85)
        .encode(x=x, y=y, color=color, detail="flow:N")
    )
    marks = alt.Chart(alt.Data(values=ends)).mark_point(shape="triangle-up", size=40, filled=True, opacity=1)
    layers = [line, marks.encode(x=x, y=y, color=color)]
    if last:
        rule = alt.Chart(alt.Data(values=[{"t": max(last)}])).mark_rule(color=theme.GRAY, strokeDash=[4, 3])
        layers.append(rule.encode(x=x))
    head = alt.TitleParams(heading(cell), fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=head)


def belongs_to_run(row: dict, cell: dict) -> bool:
    """Return whether a row belongs to a run."""
    return (row["cell_id"], row["run"]) == (cell["cell_id"], cell["run"])


def heading(cell: dict) -> str:
    """Return the heading of a panel, with a mark if the run has a flag."""
    flag = " (flagged)" if transfer_scope.is_flagged(cell) else ""
    return f"{transfer_scope.name_of(cell['algorithm'] or '?')}, r = {digits(cell['ratio'])}{flag}"


def settings_of(cells: list[dict], settings: list[dict]) -> list[dict]:
    """Return the rows of transfer_settings with the settings and algorithms of these runs."""
    keys = {(row["setting"], row["algorithm"] or "unknown") for row in cells}
    return [row for row in settings if (row["setting"], row["algorithm"]) in keys]


def title(cells: list[dict], predicted: list[dict], settings: list[dict]) -> str:
    """Return the title: the ratio with the shortest mean completion, and the predicted best ratio.

    Rows are compared only with rows of the same algorithm and settings. If these vary, the title states each algorithm,
    or the number of comparisons.
    """
    others = [name for name in (*transfer_scope.FIXED, "delay_ns", "buffer_bytes") if name != "ratio"]
    rows = settings_of(cells, settings)
    groups = list(transfer_scope.group_rows(rows, ("algorithm", *others)).values())
    if len(groups) == 1:
        text = algorithm_text(groups[0])
    elif compared := [group for group in groups if len({row["ratio"] for row in group}) > 1]:
        text = groups_text(compared, by_algorithm=not transfer_scope.varying(rows, others))
    else:
        return f"Flows over time in {count(len(groups), 'setting')}, each with one ratio"
    ratios = sorted({row["best_ratio"] for row in predicted if row["best_ratio"] is not None})
    return f"{text}; predicted best: r = {digits(ratios[0])}" if len(ratios) == 1 else text


def shortest(rows: list[dict]) -> dict:
    """Return the row with the shortest mean completion."""
    return min(rows, key=lambda row: (row["completion_ns_mean"], row["ratio"]))


def overlapping(rows: list[dict]) -> list[float]:
    """Return the other ratios with a run that took no longer than the slowest run of the best ratio."""
    best = shortest(rows)
    later = [row for row in rows if row["ratio"] != best["ratio"]]
    return sorted({row["ratio"] for row in later if row["completion_ns_low"] <= best["completion_ns_high"]})


def groups_text(groups: list[list[dict]], *, by_algorithm: bool) -> str:
    """Return the ratio that completes first with each algorithm, or in how many combinations each ratio does."""
    best = [(shortest(rows), bool(overlapping(rows))) for rows in groups]
    if by_algorithm:
        parts = [
            f"{transfer_scope.name_of(row['algorithm'])} with r = {digits(row['ratio'])}{' (runs overlap)' * overlaps}"
            for row, overlaps in best
        ]
        return f"Completes first: {', '.join(parts)}"
    numbers = Counter(row["ratio"] for row, overlaps in best if not overlaps)
    parts = [f"r = {digits(ratio)} in {numbers[ratio]}" for ratio in sorted(numbers)]
    if undecided := sum(overlaps for _, overlaps in best):
        parts.append(f"{transfer_outcome.UNDECIDED} in {undecided}")
    return f"Completes first: {', '.join(parts)} of {count(len(groups), 'combination')} of settings and algorithm"


def algorithm_text(rows: list[dict]) -> str:
    """Return the ratio of one algorithm that completes first, and the spread of its flows' ends.

    If there is only one ratio, nothing is compared.
    """
    best = shortest(rows)
    name, ratio = transfer_scope.name_of(best["algorithm"]), f"r = {digits(best['ratio'])}"
    mean, largest = ("", "")
    if best["runs"] > 1:
        mean = f" (mean of {best['runs']} runs)"
        largest = f" (mean; largest {percent(best['ends_apart_high'])})"
    ends = f"flows end within {percent(best['ends_apart_mean'] or 0)} of each other{largest}"
    if len({row["ratio"] for row in rows}) == 1:
        return f"{name}, only {ratio}: {ends}"
    time = f"{digits(best['completion_ns_mean'] / 1e9)}{GAP}s"
    if others := overlapping(rows):
        names = ", ".join(f"r = {digits(other)}" for other in others)
        return f"{name}: {ratio} completes first after {time}{mean}, but runs with {names} overlap; its {ends}"
    return f"{name}: {ratio} completes first, after {time}{mean}; its {ends}"
