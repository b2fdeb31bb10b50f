"""Figure header_stack_sizes of the report, described by ABOUT."""

from collections import Counter

import altair as alt

from acapella.common.wording import GAP, count, natural, percent, scaled, short_labels, span

from . import theme
from .compose import Figure
from .frame_sizes import MINIMUM_NOTE
from .rows import Rows
from .source import ALL, Source

SUBJECT = "Frame sizes by header stack"
ABOUT = "Content of frames by length, and header stacks of the shortest frames (Patchwork, section 8.2)."
TABLE = "header_stack_sizes"
COLUMNS = ("stack", "bin", "frames", "tcp_frames", "no_payload_frames", "ack_frames", "cut_tcp_frames")
SMALLEST, SMALL = 64, 127  # B: an acknowledgment with tags, labels and TCP options is longer than 64 B
ACK, NO_PAYLOAD, PAYLOAD, CUT, OTHER = (
    "TCP, only ACK, no payload",
    "TCP, other flags, no payload",
    "TCP with payload",
    "TCP, truncated header",
    "other",
)
CONTENTS = {ACK: theme.BLUE, NO_PAYLOAD: theme.SKY, PAYLOAD: theme.ORANGE, CUT: theme.PURPLE, OTHER: "#A6A6A6"}
WITHOUT_PAYLOAD = (ACK, NO_PAYLOAD)
MAX_STACKS = 10  # bars of header stacks; if there are more stacks, the last bar is the sum of the rest
REST = "other header stacks"
TWO_LINES = "split(replace(datum.label, '-', '-|'), '|')"
MAX_LABEL, MAX_SITE_LABEL = 100, 20
GUTTER = 46  # px: space left of panels without row labels


def draw(source: Source) -> Figure:
    """Draw frames by length over all sites and, below, frames of at most SMALL bytes by header stack and by site."""
    rows = source.required_rows(TABLE)
    all_sites = [row for row in rows if row["site"] == ALL]
    small = [row for row in rows if is_at_most(row, SMALL)]
    contents = [name for name in CONTENTS if any(frames_by_content(row)[name] for row in all_sites)]
    sites = sorted({row["site"] for row in small if row["site"] != ALL}, key=natural)
    labels = short_labels(sites, MAX_SITE_LABEL) if len(source.sites) > 1 else {}
    width = theme.WIDTH - max(GUTTER, theme.text_width(labels.values())) - 25
    parts = [by_length(all_sites, contents, width)]
    if small:
        parts.append(by_stack([row for row in small if row["site"] == ALL], contents, width))
    if labels:
        parts.append(by_site(small, labels, contents, width))
    chart = alt.vconcat(*parts, spacing=20).resolve_scale(color="independent")
    return Figure(title(small), chart, notes_of(source, all_sites, sites))


def is_at_most(row: dict, max_bytes: int) -> bool:
    """Return whether the row's lengths are at most ``max_bytes`` bytes."""
    return row["bin_hi"] is not None and row["bin_hi"] <= max_bytes


def frames_by_content(row: dict) -> Counter:
    """Return the frames of a row by content."""
    tcp = row["tcp_frames"] + row["cut_tcp_frames"]
    return Counter(
        {
            ACK: row["ack_frames"],
            NO_PAYLOAD: row["no_payload_frames"] - row["ack_frames"],
            PAYLOAD: row["tcp_frames"] - row["no_payload_frames"],
            CUT: row["cut_tcp_frames"],
            OTHER: row["frames"] - tcp,
        }
    )


def sum_by_content(rows: list[dict]) -> Counter:
    """Return the frames of several rows by content."""
    return sum(map(frames_by_content, rows), Counter())


def share_without_payload(rows: list[dict]) -> float:
    """Return the share of frames that are TCP segments without payload."""
    contents = sum_by_content(rows)
    return sum(contents[name] for name in WITHOUT_PAYLOAD) / contents.total()


def title(small: list[dict]) -> str:
    """Return the title: the share of TCP segments without payload among the shortest frames, and its range."""
    if not small:
        return f"No frame has at most {SMALL}{GAP}B"
    sites = {row["site"] for row in small} - {ALL}
    shares = [share_without_payload([row for row in small if row["site"] == site]) for site in sites]
    statement = (
        f"{percent(share_without_payload([r for r in small if r['site'] == ALL]))} of frames of at most {SMALL}{GAP}B "
        "are TCP segments without payload"
    )
    if len(sites) < 2:
        return statement
    return f"{statement} ({span(percent(min(shares)), percent(max(shares)))} at {count(len(sites), 'site')})"


def notes_of(source: Source, all_sites: list[dict], sites: list[str]) -> tuple[str, ...]:
    """Return notes: the share of segments without payload up to SMALLEST bytes, and the sites without short frames."""
    smallest = [row for row in all_sites if is_at_most(row, SMALLEST)]
    notes = [f"Lengths on the wire without FCS and preamble; {MINIMUM_NOTE}; numbers above the bars: frames"]
    if smallest:
        frames = sum(row["frames"] for row in smallest)
        notes.append(
            f"of {count(frames, 'frame')} of at most {SMALLEST}{GAP}B, {percent(share_without_payload(smallest))} are "
            "TCP segments without payload"
        )
    if sum_by_content(all_sites)[CUT]:
        notes.append("segments with a truncated header do not count as segments without payload")
    missing = len(source.sites) - len(sites)
    if sites and missing:
        notes.append(f"{count(missing, 'site')} without frames of at most {SMALL}{GAP}B")
    return ("; ".join(notes) + ".",)


def bar_parts(name: str, rows: list[dict], contents: list[str]) -> list[dict]:
    """Return the parts of one bar, in percent of its frames."""
    frames = sum_by_content(rows)
    return [
        {
            **{"label": name, "content": content, "order": index, "frames": frames[content]},
            **{"share": 100 * frames[content] / frames.total(), "text": percent(frames[content] / frames.total())},
        }
        for index, content in enumerate(contents)
        if frames[content]
    ]


def color(contents: list[str], *, legend: bool = False) -> alt.Color:
    """Return the colors of contents; only one panel has the legend."""
    legend_style = alt.Legend(
        **{"title": None, "orient": "top", "offset": 14, "columns": 3, "labelLimit": 220},
        **{"symbolType": "square", "symbolStrokeWidth": 0},
    )
    scale = alt.Scale(domain=contents, range=[CONTENTS[name] for name in contents])
    return alt.Color("content:N", sort=contents, scale=scale, legend=legend_style if legend else None)


TOOLTIP = [
    *(alt.Tooltip("label:N", title="of"), alt.Tooltip("content:N")),
    *(alt.Tooltip("text:N", title="share"), alt.Tooltip("frames:Q", format=",")),
]


def by_length(rows: list[dict], contents: list[str], width: int) -> alt.LayerChart:
    """Return one bar per length bin; each bar is 100 %."""
    bins = sorted({(row["bin_lo"], row["bin"]) for row in rows})
    order = [label for _, label in bins]
    rows_by_bin = {label: [row for row in rows if row["bin"] == label] for label in order}
    values = [part for label in order for part in bar_parts(label, rows_by_bin[label], contents)]
    totals = [{"label": label, "text": frames_text(rows_by_bin[label])} for label in order]
    axis = alt.Axis(labelAngle=0, ticks=False, labelExpr=TWO_LINES, labelOverlap=False)
    x = alt.X("label:N", sort=order, title="frame length (B)", axis=axis)
    y = alt.Y("share:Q", title="frames of that length (%)", scale=alt.Scale(domain=[0, 100]))
    bars = alt.Chart(Rows(values=values)).mark_bar(width={"band": 0.8})
    bars = bars.encode(x=x, y=y, color=color(contents, legend=True), order="order:Q", tooltip=TOOLTIP)
    numbers = alt.Chart(Rows(values=totals)).mark_text(fontSize=theme.SMALL, baseline="bottom", dy=-3)
    numbers = numbers.encode(x=x, y=alt.datum(100), text="text:N")
    return (bars + numbers).properties(width=width, height=150)


def frames_text(rows: list[dict]) -> str:
    """Return the number of frames with three significant digits and an SI prefix."""
    return scaled(sum(row["frames"] for row in rows), "").strip()


def by_stack(rows: list[dict], contents: list[str], width: int) -> alt.LayerChart:
    """Return one bar per header stack: its share of the shortest frames, with the name above."""
    frames = Counter()
    for row in rows:
        frames[row["stack"]] += row["frames"]
    ranked = sorted(frames, key=lambda stack: (-frames[stack], stack))
    shown_stacks = ranked if len(ranked) <= MAX_STACKS else ranked[: MAX_STACKS - 1]
    labels = short_labels(shown_stacks, MAX_LABEL)
    groups = {labels[stack]: [row for row in rows if row["stack"] == stack] for stack in shown_stacks}
    if rest_rows := [row for row in rows if row["stack"] not in shown_stacks]:
        groups[f"{len(ranked) - len(shown_stacks)} {REST}"] = rest_rows
    total = frames.total()
    values = [
        {**part, "share": 100 * part["frames"] / total, "text": percent(part["frames"] / total)}
        for name, stack_rows in groups.items()
        for part in bar_parts(name, stack_rows, contents)
    ]
    captions = [
        {"label": name, "text": f"{name or 'no header'}: {percent(sum(row['frames'] for row in stack_rows) / total)}"}
        for name, stack_rows in groups.items()
    ]
    y = alt.Y("label:N", sort=list(groups), title=None, axis=None)
    axis = alt.Axis(grid=False, tickCount=10)
    x = alt.X("share:Q", title=f"share of {total:,} frames of at most {SMALL} B (%)", axis=axis)
    bars = alt.Chart(Rows(values=values)).mark_bar(height=9, yOffset=7)
    bars = bars.encode(x=x, y=y, color=color(contents), order="order:Q", tooltip=TOOLTIP)
    names = alt.Chart(Rows(values=captions)).mark_text(align="left", yOffset=-5)
    names = names.encode(x=alt.value(0), y=y, text="text:N")
    return (bars + names).properties(width=width, height=alt.Step(27))


def by_site(small: list[dict], labels: dict[str, str], contents: list[str], width: int) -> alt.Chart:
    """Return one bar per site; each bar is 100 % of the site's shortest frames."""
    names = list(labels.values())
    groups = {label: [row for row in small if row["site"] == site] for site, label in labels.items()}
    values = [part for name, site_rows in groups.items() for part in bar_parts(name, site_rows, contents)]
    label = f"share of the site's frames of at most {SMALL} B (%)"
    return (
        alt.Chart(Rows(values=values))
        .mark_bar(height={"band": 0.8})
        .encode(
            y=alt.Y("label:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False)),
            x=alt.X("share:Q", title=label, scale=alt.Scale(domain=[0, 100], nice=False)),
            color=color(contents),
            order="order:Q",
            tooltip=TOOLTIP,
        )
        .properties(width=width, height=alt.Step(theme.row_height(len(names), low=12, high=18)))
    )
