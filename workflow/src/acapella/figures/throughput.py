"""Figure throughput of the report, described by ABOUT."""

import functools
import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from itertools import chain, pairwise

import altair as alt

from acapella.common.wording import ELLIPSIS, count, nanoseconds, natural, scaled, short_labels

from . import theme
from .compose import Figure
from .quality import time_range, without_times
from .rows import Rows
from .silences import throughput_notes
from .source import NoData, Source

SUBJECT = "Throughput over time"
ABOUT = "Rate at each mirrored port over time."
TABLE = "throughput"
COLUMNS = ("site", "port", "start_ns", "covered_ns", "wire_bytes")
MAX_AXES = 8  # ports with separate axes; more ports are drawn as rows of colors
MAX_ROWS = 60  # rows of colors; if there are more ports, only the busiest one of each site is drawn
MAX_BINS = 240  # bins per row; narrower ones would not be visible
MAX_SITE, MAX_PORT = 22, 18  # characters in a row's label; ports are shortened at the start, because their ends differ
OWN_AXIS_RATIO = 20  # ratio of the highest to the lowest peak of ports above which ports have separate scales
UNOBSERVED_RATIO = (
    1000  # ratio of the campaign's length to the longest observed time of a port above which gaps are omitted
)
MIN_SAMPLE_PX, GAP_PX = 2, 1  # px: minimum width of a sample, and of a gap between two samples
OVERLAP = 0.4  # px: overlap of adjacent bins of a sample, which prevents a hairline between them
MAX_MARKS = 12  # dashed lines for removed gaps in a panel; with more, none are drawn
MARK_WIDTH = 40  # px: width of the text of a removed gap
MAX_CROWDED_SHARE = 0.1  # share of samples without space for MIN_SAMPLE_PX and GAP_PX above which gaps are not drawn
IDLE = "#D5D5D5"  # captured time without frames
UNITS = ((3 * 86400 * 10**9, 86400 * 10**9, "d"), (3 * 3600 * 10**9, 3600 * 10**9, "h"))
UNITS += ((5 * 60 * 10**9, 60 * 10**9, "min"), (0, 10**9, "s"))


def draw(source: Source) -> Figure:
    """Draw bars over time for few ports, rows of colors for many. Time without a capture is blank."""
    rows, key = omit_misdated(source.required_rows(TABLE), source.traffic)
    ports = observed_ports(rows, source.traffic)
    if not ports:
        raise NoData("; ".join(["the captured time of every sample is 0", *key]))
    bin_ns = rows[0]["bin_ns"]
    key += omissions_note(rows, ports, source.traffic, bin_ns)
    peak, brief = busiest_bin(ports), busiest_bin(ports, brief=True)
    if len(ports) > MAX_ROWS:
        ports = busiest_port_of_sites(ports)
        key.append("only the busiest port of each site is drawn")
    labels = port_labels(ports)
    width = drawing_width(list(labels.values()))
    gapless = mostly_unobserved(ports)
    bins, gaps = bin_ports(ports, width, gapless=gapless)
    removed = removed_gaps(ports) if gapless and gaps and len(ports) <= MAX_AXES else []
    length, longest = max(row["end"] for row in bins), max(row["end"] - row["start"] for row in bins)
    size, unit = next((size, unit) for minimum, size, unit in UNITS if length >= minimum)
    clock = "captured time of each port, without gaps" if gapless else "time since the first sample"
    values = [{**row, "x": row["start"] / size, "x2": row["to"] / size, "label": labels[row["key"]]} for row in bins]
    for row in values:
        row.pop("key")
    marks = [{"x": row["at"] / size, "length": nanoseconds(row["ns"]), "label": labels[row["key"]]} for row in removed]
    domain = alt.Scale(domain=[0, length / size], nice=False)
    x = alt.X("x:Q", title=f"{clock} ({unit})", scale=domain, axis=alt.Axis(domain=False))
    key = [
        f"Mean rate on the wire (without FCS) in bins of at most {nanoseconds(longest)}",
        *joined_bins_note(longest, bin_ns),
        gaps_note(bins, gaps=gaps, gapless=gapless, marked=bool(marks), visible=GAP_PX * length / width),
        *throughput_notes(source.traffic, bin_ns, gapless=gapless),
        *key,
    ]
    peak = max([*([peak] if peak else []), *values], key=lambda row: row["rate"])
    if is_brief := brief is not None and brief["rate"] > peak["rate"]:
        key.append(f"bins of which less than half was captured have up to {rate_and_place(brief)}")
    if len(ports) <= MAX_AXES:
        key.append("line at 0: captured time")
        if need_own_axes(values):
            key.append("ports have separate axes")
    key += [*frame_times_note(source.traffic), *without_times(source)]
    draw_ports = functools.partial(bar_panels, marks=marks) if len(ports) <= MAX_AXES else color_rows
    chart = draw_ports(values, list(labels.values()), x, width)
    return Figure(title(peak, len(ports), brief=is_brief), chart, ("; ".join(key) + ".",))


def omit_misdated(rows: list[dict], samples: list[dict]) -> tuple[list[dict], list[str]]:
    """Return the rows covered by samples that are not misdated, and a note on the number of misdated samples.

    If no sample or every sample is misdated, return all rows. ``samples``: rows of capture_quality.
    """
    misdated = sum(bool(row["misdated"]) for row in samples)
    if not misdated or not time_range(samples):
        return rows, []
    spans = defaultdict(list)
    for row in samples:
        if row["actual_start_ns"] is not None and not row["misdated"]:
            spans[row["site"], row["port"]].append((row["actual_start_ns"], row["actual_end_ns"]))

    def covered(row: dict) -> bool:
        port_spans = spans[row["site"], row["port"]]
        return any(start < row["start_ns"] + row["bin_ns"] and end >= row["start_ns"] for start, end in port_spans)

    return [row for row in rows if covered(row)], [f"{count(misdated, 'misdated sample')} omitted"]


def observed_ports(rows: list[dict], samples: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Return the rows of each port that cover any time, with ``start_ns`` and ``end_ns`` limited to its samples.

    Samples may start and end within a bin of the table. If the last frame of a sample is exactly at the start of a bin,
    the row of this bin has no length, and its frames count in the previous row. ``bin``: start of the bin of each row.
    ``samples``: rows of capture_quality.
    """
    spans = defaultdict(list)
    for row in samples:
        if row["actual_start_ns"] is not None and row["actual_end_ns"] is not None:
            spans[row["site"], row["port"]].append((row["actual_start_ns"], row["actual_end_ns"]))
    merged = {port: merge_spans(port_spans) for port, port_spans in spans.items()}
    ports = defaultdict(list)
    for row in rows:
        if row["covered_ns"]:
            port = row["site"], row["port"]
            start, end = clip_to_spans(row["start_ns"], row["start_ns"] + row["bin_ns"], merged.get(port, ([], [])))
            ports[port].append({**row, "bin": row["start_ns"], "start_ns": start, "end_ns": end})
    ends = {(port, row["end_ns"]) for port, port_rows in ports.items() for row in port_rows}
    for row in rows:
        port, at = (row["site"], row["port"]), row["start_ns"]
        if not row["covered_ns"] and (port, at) in ends:
            ports[port].append({**row, "bin": at, "end_ns": at})
    return ports


def omissions_note(rows: list[dict], ports: dict, samples: list[dict], bin_ns: int) -> list[str]:
    """Return notes on ports, samples and frames that are not drawn because they cover no time.

    ``rows``: rows of the table; ``ports``: those that are drawn; ``samples``: rows of capture_quality.
    """
    drawn = {(*port, row["bin"]) for port, port_rows in ports.items() for row in port_rows}
    omitted = {key: row for row in rows if (key := (row["site"], row["port"], row["start_ns"])) not in drawn}
    instants = [
        row
        for row in samples
        if row["duration_ns"] == 0 and (row["site"], row["port"], row["actual_start_ns"] // bin_ns * bin_ns) in omitted
    ]
    frames = sum(row["frames"] for row in omitted.values()) - sum(row["frames"] for row in instants)
    unobserved = len({(row["site"], row["port"]) for row in rows} - ports.keys())
    empty = sum(not row["frames"] and row["actual_start_ns"] is None for row in samples)
    return [
        *([f"{count(unobserved, 'port')} omitted, because the captured time is 0"] if unobserved else []),
        *([f"{count(len(instants), 'sample')} with a single timestamp omitted: no rate"] if instants else []),
        *([f"{count(frames, 'frame')} omitted, because their bins contain no captured time"] if frames > 0 else []),
        *([f"{count(empty, 'sample')} without frames omitted"] if empty else []),
    ]


def merge_spans(spans: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return starts and ends of spans in order, with overlapping and adjacent spans merged."""
    starts, ends = [], []
    for start, end in sorted(spans):
        if ends and start <= ends[-1]:
            ends[-1] = max(end, ends[-1])
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def clip_to_spans(start: int, end: int, spans: tuple[list[int], list[int]]) -> tuple[int, int]:
    """Return the first and the last time between ``start`` and ``end`` that are in a span; unchanged if none is."""
    starts, ends = spans
    first, last = bisect_right(ends, start), bisect_left(starts, end) - 1
    return (max(start, starts[first]), min(end, ends[last])) if first <= last else (start, end)


def gaps_note(bins: list[dict], *, gaps: bool, gapless: bool, marked: bool, visible: float) -> str:
    """Return a note on time that is removed from the axis, or else on the gaps between bins.

    ``gaps``, ``gapless``: as in `bin_ports`; ``marked``: whether removed gaps have dashed lines; ``visible``: shortest
    visible time in ns.
    """
    if gapless and marked:
        return "dashed line: time removed from the axis"
    if gapless:
        return f"time between samples is removed from the axis, {'at each white line' if gaps else 'without a mark'}"
    if gaps:
        return "blank: not captured"
    too_short = "gaps between samples are too short to be visible"
    ports = defaultdict(list)
    for row in bins:  # sorted by time
        ports[row["key"]].append(row)
    blank = any(b["start"] - a["to"] > visible for port_bins in ports.values() for a, b in pairwise(port_bins))
    return f"blank: not captured; other {too_short}" if blank else too_short


def removed_gaps(ports: dict) -> list[dict]:
    """Return the times that are removed from the axis of each port: position and length in ns, and key of the port.

    Return no times if there are too many to mark in a panel.
    """
    removed = []
    for key, rows in ports.items():
        elapsed, last, port_gaps = 0, None, []
        for row in sorted(rows, key=lambda row: row["start_ns"]):
            if last is not None and row["start_ns"] > last:
                port_gaps.append({"key": key, "at": elapsed, "ns": row["start_ns"] - last})
            elapsed, last = elapsed + row["end_ns"] - row["start_ns"], row["end_ns"]
        if len(port_gaps) > MAX_MARKS:
            return []
        removed += port_gaps
    return removed


def drawing_width(labels: list[str]) -> int:
    """Return the width of the drawing in px, without the labels of its rows."""
    return theme.WIDTH - (80 if len(labels) <= MAX_AXES else theme.text_width(labels) + 112)


def frame_times_note(samples: list[dict]) -> list[str]:
    """Return a note on samples without known start and end; [] if there are none."""
    if not any(row["actual_by"] == "frames" for row in samples):
        return []
    return ["captures without known start and end: captured time is from the first to the last frame"]


def busiest_bin(ports: dict, *, brief: bool = False) -> dict | None:
    """Return the bin of the table with the highest rate. Samples must cover at least half of its length.

    A mean over a few milliseconds is not comparable with the others. ``brief``: samples must cover less than half.
    Return None if there is no such bin.
    """
    covered = [row for rows in ports.values() for row in rows if row["covered_ns"]]
    candidates = [row for row in covered if (2 * row["covered_ns"] < row["bin_ns"]) is brief]
    if not candidates:
        return None
    busiest = max(candidates, key=lambda row: row["wire_bytes"] / row["covered_ns"])
    rate = round(8e9 * busiest["wire_bytes"] / busiest["covered_ns"])
    port = {name: busiest[name] for name in ("site", "port")}
    return {**port, "rate": rate, "captured": nanoseconds(busiest["covered_ns"])}


def joined_bins_note(longest: int, bin_ns: int) -> list[str]:
    """Return a note on drawn bins that are longer than those of the table. ``longest``: longest drawn bin in ns.

    If drawn bins contain several rows, the note states that the title refers to the bins of the table.
    """
    if longest <= bin_ns:
        return []
    if longest < 2 * bin_ns:
        return [
            f"the table has bins of {nanoseconds(bin_ns)}; a part of less than half a bin at the start or end of a "
            "sample is drawn as part of the adjacent bin"
        ]
    return [f"the title refers to the table's bins of {nanoseconds(bin_ns)}, not to the wider bins drawn here"]


def rate_and_place(row: dict) -> str:
    """Return the rate of a bin with the time over which it is a mean, and the port."""
    return f"{scaled(row['rate'], 'bit/s')} (over {row['captured']}), at {row['site']} {row['port']}"


def title(peak: dict, ports: int, *, brief: bool) -> str:
    """Return the title: the number of ports, and the highest rate with the length of its bin.

    ``peak``: busiest bin of the table or of the drawing, in which a bin may include a short neighbor. ``brief``:
    whether a bin of which samples cover less than half has a higher rate.
    """
    bins = ", except in briefly captured bins," if brief else " in a bin"
    return f"{count(ports, 'port')}; the highest mean rate{bins} is {rate_and_place(peak)}"


def busiest_port_of_sites(ports: dict) -> dict:
    """Return the port with the most bytes at each site; of equal ports, the first one."""
    total = {key: sum(row["wire_bytes"] for row in rows) for key, rows in ports.items()}
    best = {}
    for key in sorted(ports, key=lambda key: (-total[key], natural(key[1]))):
        best.setdefault(key[0], key)
    return {key: ports[key] for key in best.values()}


def mostly_unobserved(ports: dict) -> bool:
    """Return whether samples cover such a small part of the campaign that they would be too narrow to see."""
    rows = [row for port_rows in ports.values() for row in port_rows]
    length = max(row["end_ns"] for row in rows) - min(row["start_ns"] for row in rows)
    return length > UNOBSERVED_RATIO * max(
        sum(row["end_ns"] - row["start_ns"] for row in port_rows) for port_rows in ports.values()
    )


def bin_ports(ports: dict, width: int, *, gapless: bool) -> tuple[list[dict], bool]:
    """Return the bins of all ports, and whether gaps are drawn; times are in ns from 0.

    A bin contains consecutive rows of the table, so that each bin is visible in ``width`` px. It ends at ``end`` and is
    drawn up to ``to``, far enough to be visible but not into the next sample. If samples are too close for this, bins
    extend over the gaps. ``gapless``: draw the samples of a port without the time between them.
    """
    step = max(row["bin_ns"] for rows in ports.values() for row in rows)
    origin = min(row["start_ns"] for rows in ports.values() for row in rows)
    runs = {key: contiguous_runs(rows, origin, gapless=gapless) for key, rows in ports.items()}
    length = max(end for port_runs in runs.values() for run in port_runs for _, end, _ in run)
    bin_ns = step * math.ceil(length / step / MAX_BINS)
    min_length, gap = (size * length / width for size in (MIN_SAMPLE_PX, GAP_PX))
    distances = [second[0][0] - first[0][0] for port_runs in runs.values() for first, second in pairwise(port_runs)]
    gaps = sum(distance < min_length + gap for distance in distances) <= MAX_CROWDED_SHARE * len(distances)
    bins = []
    for key, port_runs in runs.items():
        if not gaps:
            port_bins = bin_run(key, list(chain.from_iterable(port_runs)), 0, bin_ns)
            for row, end in zip(port_bins, [*(row["start"] for row in port_bins[1:]), math.inf], strict=True):
                row["to"] = max(row["end"], min(row["start"] + min_length, end))
            bins += port_bins
            continue
        for run, next_start in zip(
            port_runs, [*(later_run[0][0] for later_run in port_runs[1:]), math.inf], strict=True
        ):
            run_bins = bin_run(key, run, run[0][0], bin_ns)
            for row in run_bins[:-1]:
                row["to"] += OVERLAP * gap / GAP_PX
            end = min(max(run_bins[-1]["end"], run[0][0] + min_length), next_start - gap)
            run_bins[-1]["to"] = max(end, run_bins[-1]["start"] + gap / 2)
            bins += run_bins
    return sorted(bins, key=lambda row: (row["end"], natural(row["site"]), natural(row["port"]))), gaps


def contiguous_runs(rows: list[dict], origin: int, *, gapless: bool) -> list[list[tuple[int, int, dict]]]:
    """Return the rows of a port as runs without gaps, each row with times from 0. ``gapless``: omit the gaps."""
    runs, last, elapsed = [], None, 0
    for row in sorted(rows, key=lambda row: row["start_ns"]):
        if row["start_ns"] != last:
            runs.append([])
        start, last = elapsed if gapless else row["start_ns"] - origin, row["end_ns"]
        elapsed += row["end_ns"] - row["start_ns"]
        runs[-1].append((start, start + row["end_ns"] - row["start_ns"], row))
    return runs


def bin_run(key: tuple, run: list[tuple[int, int, dict]], begin: int, bin_ns: int) -> list[dict]:
    """Return the rows of a run, summed in bins that start at ``begin``; the middle of a row determines its bin.

    A first or last bin shorter than half a bin is merged with its neighbor, unless there is a gap of a bin or more: a
    mean over a few milliseconds is not comparable with the others.
    """
    cells = defaultdict(list)
    for start, end, row in run:
        cells[((start + end) // 2 - begin) // bin_ns].append((start, end, row))
    parts = list(cells.values())
    for edge, neighbor in ((0, 1), (-1, -2)):
        if len(parts) < 2 or 2 * (parts[edge][-1][1] - parts[edge][0][0]) >= bin_ns:
            continue
        first, second = sorted((parts[edge], parts[neighbor]), key=lambda part: part[0][0])
        if second[0][0] - first[-1][1] < bin_ns:
            parts[neighbor] = sorted(parts[edge] + parts[neighbor], key=lambda part: part[0])
            parts.pop(edge)
    bins = []
    for part in parts:
        size, covered, frames = (sum(row[name] for *_, row in part) for name in ("wire_bytes", "covered_ns", "frames"))
        start, end = part[0][0], part[-1][1]
        bins.append(
            {
                **{"key": key, "site": key[0], "port": key[1], "start": start, "end": end, "to": end},
                **{"rate": round(8e9 * size / covered), "frames": frames, "captured": nanoseconds(covered)},
            }
        )
    return bins


def port_labels(ports: dict) -> dict:
    """Return the label of each port: site and port, shortened if long and still unique; sites are in natural order."""
    keys = sorted(ports, key=lambda key: (natural(key[0]), natural(key[1])))
    sites = short_labels(dict.fromkeys(site for site, _ in keys), MAX_SITE)
    ports_ = {port: port if len(port) <= MAX_PORT else ELLIPSIS + port[1 - MAX_PORT :] for _, port in keys}
    names = {(site, port): f"{sites[site]} {ports_[port]}" for site, port in keys}
    name_counts = Counter(names.values())
    return {key: name if name_counts[name] == 1 else f"{sites[key[0]]} {key[1]}" for key, name in names.items()}


def need_own_axes(values: list[dict]) -> bool:
    """Return whether the peaks of ports differ too much for all bars to be visible on a common scale."""
    peaks = {}
    for row in values:
        peaks[row["label"]] = max(row["rate"], peaks.get(row["label"], 0))
    return max(peaks.values()) > OWN_AXIS_RATIO * min(peaks.values())


TOOLTIP = (("site:N", "site"), ("port:N", "port"), ("text:N", "mean rate"), ("captured:N", "captured time"))


def tooltip(values: list[dict]) -> list[alt.Tooltip]:
    """Return the tooltip; add the rate as text to the values."""
    for row in values:
        row["text"] = scaled(row["rate"], "bit/s")
    return [*(alt.Tooltip(field, title=name) for field, name in TOOLTIP), alt.Tooltip("frames:Q", format=",")]


def bar_panels(values: list[dict], labels: list[str], x: alt.X, width: int, marks: list[dict]) -> alt.VConcatChart:
    """Return one panel per port. ``marks``: times that are removed from the axis."""
    tips = tooltip(values)
    separate_axes = need_own_axes(values)
    panels = []
    for label in labels:
        rows = [row for row in values if row["label"] == label]
        maximum = max(row["rate"] for row in (rows if separate_axes else values)) or 1
        hidden = alt.X("x:Q", title=None, scale=x["scale"], axis=alt.Axis(labels=False, ticks=False, domain=False))
        axis, height = x if label == labels[-1] else hidden, max(34, 230 // len(labels))
        panel = port_panel(rows, axis, maximum, height, tips)
        if panel_marks := [mark for mark in marks if mark["label"] == label]:
            panel += gap_marks(panel_marks, axis, width)
        panels.append(panel.properties(width=width))
    return alt.vconcat(*panels, spacing=6).resolve_scale(x="shared")


def port_panel(rows: list[dict], x: alt.X, maximum: int, height: int, tips: list) -> alt.LayerChart:
    """Return the bars of one port with a suitable unit, and a line over the observed time."""
    size, prefix = next(((s, p) for s, p in ((10**9, "G"), (10**6, "M"), (10**3, "k")) if maximum >= s), (1, ""))
    y = alt.Y(
        "y:Q",
        title=f"{prefix}bit/s",
        scale=alt.Scale(domain=[0, maximum / size], nice=False),
        axis=alt.Axis(tickCount=3 if height > 50 else 2, domain=False, minExtent=34),
    )
    base = alt.Chart(Rows(values=[{**row, "y": row["rate"] / size} for row in rows])).encode(x=x, tooltip=tips)
    rects = base.mark_rect(color=theme.BLUE).encode(x2="x2:Q", y=y, y2=alt.datum(0))
    captured = base.mark_rule(color=theme.BLUE, strokeWidth=1.5).encode(x2="x2:Q", y=alt.datum(0))
    head = alt.TitleParams(rows[0]["label"], fontSize=theme.TEXT, offset=2, frame="group", color=theme.INK)
    return (rects + captured).properties(height=height, title=head)


def gap_marks(marks: list[dict], x: alt.X, width: int) -> alt.LayerChart:
    """Return a dashed line over the height of a panel for each removed time, with its length above the panel.

    The length is omitted if it would overlap the previous one.
    """
    (_, end), next_free, named = x["scale"]["domain"], 0, []
    for mark in marks:
        position = mark["x"] / end * width
        if position >= next_free:
            named.append(mark)
            next_free = position + MARK_WIDTH
    base = alt.Chart(Rows(values=marks)).encode(x=x, tooltip=alt.Tooltip("length:N", title="removed"))
    lines = base.mark_rule(color=theme.INK, strokeDash=[3, 2], xOffset=-GAP_PX / 2)
    lengths = base.mark_text(fontSize=theme.SMALL, color=theme.GRAY, baseline="bottom", dy=-2)
    return lines + lengths.encode(text="length:N", y=alt.value(0)).properties(data=Rows(values=named))


def color_rows(values: list[dict], labels: list[str], x: alt.X, width: int) -> alt.LayerChart:
    """Return one row per port; colors are rates on a logarithmic scale of whole decades."""
    rates = [row["rate"] for row in values if row["rate"]] or [1]
    low, high = math.floor(math.log10(min(rates))), math.floor(math.log10(max(rates))) + 1
    y = alt.Y(
        "label:N",
        sort=labels,
        title=None,
        scale=alt.Scale(domain=labels, paddingInner=0.15),
        axis=alt.Axis(labelLimit=220, ticks=False, labelPadding=6),
    )
    height = theme.row_height(len(labels), low=10, total=480)
    legend = alt.Legend(
        **{
            "title": "bit/s",
            "orient": "right",
            "format": "~s",
            "values": [10**power for power in range(low, high + 1)],
        },
        **{"gradientLength": min(30 * (high - low) + 20, height * len(labels)), "gradientThickness": 12},
    )
    scale = alt.Scale(type="log", domain=[10**low, 10**high], range=list(theme.DECADES), interpolate="rgb")
    base = alt.Chart().encode(x=x, x2="x2:Q", y=y, tooltip=tooltip(values))
    busy = base.mark_rect().encode(color=alt.Color("rate:Q", scale=scale, legend=legend))
    layers = [busy.properties(data=Rows(values=[row for row in values if row["rate"]]))]
    if idle := [{**row, "idle": "0"} for row in values if not row["rate"]]:
        square = alt.Legend(title=None, symbolType="square", symbolStrokeWidth=0)
        shade = alt.Color("idle:N", scale=alt.Scale(domain=["0"], range=[IDLE]), legend=square)
        layers.append(base.mark_rect().encode(color=shade).properties(data=Rows(values=idle)))
    chart = alt.layer(*layers).resolve_scale(color="independent")
    return chart.properties(width=width, height=alt.Step(height))
