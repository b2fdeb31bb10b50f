"""Figure header_occurrence of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, natural, percent, short_labels

from . import site_dots, theme
from .compose import Figure
from .rows import Rows
from .source import ALL, Source

SUBJECT = "Occurrence of headers"
ABOUT = "Share of frames that contain each header (Patchwork, figure 12)."
TABLE = "header_occurrence"
COLUMNS = ("frame_share", "frame_share_lo", "frame_share_hi", "occurrence_share")
MAX_HEADERS = 25  # headers drawn; the table contains all
MAX_LABEL = 28
PAYLOAD = "Data"  # label of payload
HEURISTIC = "heuristic"
ABSENT = {  # values of a site without the header
    **{"frames": 0, "occurrences": 0, "guessed_frames": 0, "frame_share": 0.0, "occurrence_share": 0.0},
    **{"frame_share_lo": None, "frame_share_hi": None},
}
BAND = 0.74  # height of a bar, as a share of its row
TITLE_HEADERS = ("TCP", "UDP", "VLAN", "MPLS", "IPv6")  # headers in the title if their bars are visible
MIN_VISIBLE_SHARE = 0.005  # share of frames: shorter bars are narrower than 3 px


def draw(source: Source) -> Figure:
    """Draw a bar for each header with its interval and, if there are several sites, a dot for each site."""
    rows = source.required_rows(TABLE)
    ranked = sorted((r for r in rows if r["site"] == ALL), key=lambda r: (-r["frame_share"], natural(r["header"])))
    label_of = {row["header"]: header_label(row) for row in ranked[:MAX_HEADERS]}
    shortened_label_of = short_labels(label_of.values(), MAX_LABEL)
    labels = {header: shortened_label_of[name] for header, name in label_of.items()}
    has_sites = len(source.sites) > 1
    values = [bar_values(row, labels) for row in ranked[:MAX_HEADERS]]
    dots = (
        [bar_values(row, labels) for row in site_dots.add_absent_sites(rows, "header", labels, ABSENT)]
        if has_sites
        else []
    )
    key = ["Bar: share of all frames that contain the header"]
    if any(row["low"] is not None for row in values):
        key.append("line: its 95 % bootstrap interval over samples")
    if has_sites:
        key.append(site_dots.legend_note(source.sites))
    if any(not dot["frames"] for dot in dots):
        key.append("at 0: the site has no frame with the header")
    if any(row["repeated"] for row in values):
        key.append("in brackets: occurrences per 100 frames, if frames contain the header more than once")
    if any(row["header"] == PAYLOAD for row in values):
        key.append(f"{PAYLOAD}: payload of any type that tshark names (text, media, images), not a header")
    marks = {heuristic_text(row) for row in ranked[:MAX_HEADERS]} - {""}
    if marks:
        key.append(
            f"{HEURISTIC}: recognized by payload alone, in an unknown flow or on a port not registered for the header"
        )
    if marks - {HEURISTIC}:
        key.append(f"percentage after {HEURISTIC}: share of the frames with the header, not of all frames")
    if len(ranked) > MAX_HEADERS:
        key.append(f"{count(len(ranked) - MAX_HEADERS, 'rarer header')} not shown")
    notes = ("; ".join(key) + ".", *carried_over(source))
    return Figure(title(ranked[:MAX_HEADERS]), chart(values, dots, list(labels.values()), source.sites), notes)


def carried_over(source: Source) -> tuple[str, ...]:
    """Return a note on frames whose headers above layer 4 are those of other frames of the flow; () without any."""
    frames = sum(row["app_flow_frames"] for row in source.traffic)
    if not frames:
        return ()
    share = percent(frames / source.frames)
    return (
        f"In {frames:,} of {count(source.frames, 'frame')} ({share}), the protocols above layer 4 are carried over "
        "from other frames of the flow, so the shares of these protocols may be too high or too low.",
    )


def heuristic_text(row: dict) -> str:
    """Return a mark for headers detected by payload: ``heuristic``, ``heuristic in 67 %`` of frames, or nothing."""
    if not row["guessed_frames"]:
        return ""
    if row["guessed_frames"] == row["frames"]:
        return HEURISTIC
    return f"{HEURISTIC} in {percent(row['guessed_frames'] / row['frames'])}"


def header_label(row: dict) -> str:
    """Return the header, with the share of its frames in which it is heuristic."""
    return f"{row['header']} ({mark})" if (mark := heuristic_text(row)) else row["header"]


def bar_values(row: dict, labels: dict) -> dict:
    """Return the values of a row for the chart, in percent."""
    low, high = row["frame_share_lo"], row["frame_share_hi"]
    text, occurrences = percent(row["frame_share"]), f"{100 * row['occurrence_share']:.3g}"
    repeated = row["occurrences"] > row["frames"] and occurrences != f"{100 * row['frame_share']:.3g}"
    return {
        **{"header": row["header"], "label": labels[row["header"]], "site": row["site"]},
        **{"frames": row["frames"], "samples": row["samples"], "text": text},
        "share": 100 * row["frame_share"],
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
        "occurrence": 100 * row["occurrence_share"],
        "repeated": repeated,
        "number": f"{text} ({occurrences})" if repeated else text,
    }


def title(ranked: list[dict]) -> str:
    """Return the title: the shares of TITLE_HEADERS; if no bar of them is visible, that of the most common header."""
    share = {row["header"]: row["frame_share"] for row in ranked if row["frame_share"] >= MIN_VISIBLE_SHARE}
    parts = [f"{header} in {percent(share[header])}" for header in TITLE_HEADERS if header in share]
    if not parts:
        return f"{ranked[0]['header']} is in {percent(ranked[0]['frame_share'])} of frames"
    return f"Of all frames: {', '.join(parts)}"


def chart(values: list[dict], dots: list[dict], order: list[str], sites: list[str]) -> alt.LayerChart:
    """Return bars, intervals and dots in one row per header, with shares as text at the right."""
    x = alt.Scale(domain=[0, 100], nice=False)
    y = alt.Y(
        "label:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=200, labelPadding=6)
    )
    tooltip = [
        *(alt.Tooltip("site:N"), alt.Tooltip("header:N"), alt.Tooltip("text:N", title="frames with it")),
        alt.Tooltip("low:Q", title="interval from, %", format=".4~r"),
        alt.Tooltip("high:Q", title="interval to, %", format=".4~r"),
        alt.Tooltip("occurrence:Q", title="occurrences per 100 frames", format=".4~r"),
        *(alt.Tooltip("frames:Q", format=","), alt.Tooltip("samples:Q", format=",")),
    ]
    base = alt.Chart(Rows(values=values)).encode(y=y, tooltip=tooltip)
    axis = alt.Axis(title="share of frames (%)", domain=False, tickCount=10)
    row = theme.row_height(len(order), low=18 if dots else 13)
    bar = BAND * row
    bars = base.mark_bar(height={"band": BAND}, color=site_dots.BAR_COLOR).encode(
        x=alt.X("share:Q", scale=x, axis=axis)
    )
    lines = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.6, color=theme.BLACK)
    lines = lines.encode(x=alt.X("low:Q", scale=x), x2="high:Q")
    width = theme.WIDTH - theme.text_width(order) - theme.text_width([row["number"] for row in values]) - 10
    numbers = base.mark_text(align="left", fontSize=theme.SMALL).encode(x=alt.value(width + 6), text="number:N")
    layers = [bars, lines, numbers]
    if dots:
        encoding = {"x": alt.X("share:Q", scale=x), "y": y, "tooltip": tooltip}
        layers += site_dots.layers(dots, sites, bar, 0, encoding)
    return alt.layer(*layers).properties(width=width, height=alt.Step(row))
