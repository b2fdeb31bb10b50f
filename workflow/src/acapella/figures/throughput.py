"""The rate at each mirrored port over time."""

import math
from collections import Counter, defaultdict

import altair as alt

from . import theme
from .compose import Figure
from .quality import timeless
from .source import NoData, Source
from .wording import ELLIPSIS, count, nanoseconds, natural, scaled, short_labels

SUBJECT = "Throughput over time"
TABLE = "throughput"
COLUMNS = ("site", "port", "start_ns", "covered_ns", "wire_bytes")
FEW = 8  # as many ports get an axis each; more share a picture of colours
MOST = 60  # rows of that picture; beyond them a site's busiest port stands for the site
COLUMNS_DRAWN = 240  # time bins in a row: narrower ones could not be seen
SITE, PORT = 22, 18  # characters of a row's label; of a port's name the end tells most
UNEVEN = 20  # the highest peak of a port over the lowest, from where on each port gets its own axis
SCATTERED = 1000  # the campaign's length over the longest time watched at a port, from where on gaps are left out
UNITS = ((3 * 86400 * 10**9, 86400 * 10**9, "d"), (3 * 3600 * 10**9, 3600 * 10**9, "h"))
UNITS += ((5 * 60 * 10**9, 60 * 10**9, "min"), (0, 10**9, "s"))


def draw(source: Source) -> Figure:
    """Bars over time for a few ports, a picture of colours for many; nothing is drawn where nobody looked."""
    ports = defaultdict(list)
    for row in source.wanted(TABLE):
        if row["covered_ns"]:
            ports[row["site"], row["port"]].append(row)
    if not ports:
        raise NoData(f"no row of tables/{TABLE}.csv covers any time")
    key = []
    if len(ports) > MOST:
        ports = busiest_of_sites(ports)
        key.append("of each site its busiest port")
    gapless = scattered(ports)
    bins, bin_ns = binned(ports, gapless=gapless)
    size, unit = next((size, unit) for least, size, unit in UNITS if bins[-1]["end"] >= least)
    clock = "time watched at each port, gaps left out" if gapless else "time since the first sample"
    labels = labels_of(ports)
    values = [{**row, "x": row["start"] / size, "x2": row["end"] / size, "label": labels[row["key"]]} for row in bins]
    for row in values:
        row.pop("key")
    x = alt.X("x:Q", title=f"{clock} ({unit})", scale=alt.Scale(nice=False), axis=alt.Axis(domain=False))
    mean = f"Mean rate on the wire (without FCS) in bins of {nanoseconds(bin_ns)}, over the time watched"
    key = [mean, *([] if gapless else ["blank where nobody looked"]), *key]
    if len(ports) <= FEW and uneven(values):
        key.append("each port has an axis of its own")
    key += [*untimed(source.traffic), *timeless(source)]
    chart = (bars if len(ports) <= FEW else colours)(values, list(labels.values()), x)
    return Figure(title(values, len(ports)), chart, ("; ".join(key) + ".",))


def untimed(samples: list[dict]) -> list[str]:
    """What stands for the time of samples that have none of their own; [] where all have."""
    if not any(row["actual_by"] == "frames" for row in samples):
        return []
    return ["captures without a known start and end count as watched from their first to their last frame"]


def title(values: list[dict], ports: int) -> str:
    """The highest rate, where and what of."""
    peak = max(values, key=lambda row: row["rate"])
    where = f"{peak['site']} {peak['port']}"
    return f"{count(ports, 'port')}; the highest mean rate in a bin is {scaled(peak['rate'], 'bit/s')}, at {where}"


def busiest_of_sites(ports: dict) -> dict:
    """For each site its port with the most bytes (of equals the first)."""
    total = {key: sum(row["wire_bytes"] for row in rows) for key, rows in ports.items()}
    best = {}
    for key in sorted(ports, key=lambda key: (-total[key], natural(key[1]))):
        best.setdefault(key[0], key)
    return {key: ports[key] for key in best.values()}


def scattered(ports: dict) -> bool:
    """Whether nearly all of the campaign's time was not watched, so that a clock would show slivers."""
    rows = [row for own in ports.values() for row in own]
    whole = max(row["start_ns"] + row["bin_ns"] for row in rows) - min(row["start_ns"] for row in rows)
    return whole > SCATTERED * max(sum(row["bin_ns"] for row in own) for own in ports.values())


def binned(ports: dict, *, gapless: bool) -> tuple[list[dict], int]:
    """Bins of at least the table's own length, so few that each can be seen; times in ns from the first sample.

    With ``gapless`` the table's bins of a port stand one behind the other, whatever time lies between them.
    """
    step = max(row["bin_ns"] for rows in ports.values() for row in rows)
    origin = min(row["start_ns"] for rows in ports.values() for row in rows)
    placed = []
    for key, rows in ports.items():
        for rank, row in enumerate(sorted(rows, key=lambda row: row["start_ns"])):
            placed.append((key, rank * step if gapless else row["start_ns"] - origin, row))
    length = step + max(start for _, start, _ in placed)
    bin_ns = step * math.ceil(length / step / COLUMNS_DRAWN)
    sums = defaultdict(lambda: [0, 0, 0])
    for key, start, row in placed:
        cell = sums[key, start // bin_ns]
        for place, column in enumerate(("wire_bytes", "covered_ns", "frames")):
            cell[place] += row[column]
    bins = [
        {
            **{"key": key, "site": key[0], "port": key[1], "start": place * bin_ns, "end": (place + 1) * bin_ns},
            **{"rate": round(8e9 * size / covered), "frames": frames, "watched": nanoseconds(covered)},
        }
        for (key, place), (size, covered, frames) in sums.items()
    ]
    return sorted(bins, key=lambda row: (row["end"], natural(row["site"]), natural(row["port"]))), bin_ns


def labels_of(ports: dict) -> dict:
    """A row's label: site and port, long ones shortened; sites in natural order."""
    keys = sorted(ports, key=lambda key: (natural(key[0]), natural(key[1])))
    sites = short_labels(dict.fromkeys(site for site, _ in keys), SITE)
    names = {key: f"{sites[key[0]]} {key[1] if len(key[1]) <= PORT else ELLIPSIS + key[1][1 - PORT :]}" for key in keys}
    alike = Counter(names.values())
    return {key: name if alike[name] == 1 else f"{sites[key[0]]} {key[1]}" for key, name in names.items()}


def uneven(values: list[dict]) -> bool:
    """Whether the ports' peaks are so far apart that on one axis some would not be seen."""
    peaks = {}
    for row in values:
        peaks[row["label"]] = max(row["rate"], peaks.get(row["label"], 0))
    return max(peaks.values()) > UNEVEN * min(peaks.values())


TOOLTIP = (("site:N", "site"), ("port:N", "port"), ("text:N", "mean rate"), ("watched:N", "time watched"))


def tooltip(values: list[dict]) -> list[alt.Tooltip]:
    """What the pointer shows; adds the rate in words to the values."""
    for row in values:
        row["text"] = scaled(row["rate"], "bit/s")
    return [*(alt.Tooltip(field, title=name) for field, name in TOOLTIP), alt.Tooltip("frames:Q", format=",")]


def bars(values: list[dict], labels: list[str], x: alt.X) -> alt.VConcatChart:
    """One panel a port."""
    tips = tooltip(values)
    own = uneven(values)
    panels = []
    for label in labels:
        rows = [row for row in values if row["label"] == label]
        most = max(row["rate"] for row in (rows if own else values)) or 1
        hidden = alt.X("x:Q", title=None, axis=alt.Axis(labels=False, ticks=False, domain=False))
        panels.append(port_panel(rows, x if label == labels[-1] else hidden, most, max(34, 230 // len(labels)), tips))
    return alt.vconcat(*panels, spacing=6).resolve_scale(x="shared")


def port_panel(rows: list[dict], x: alt.X, most: int, height: int, tips: list) -> alt.Chart:
    """The bars of one port, in the unit that its axis suits."""
    size, prefix = next(((s, p) for s, p in ((10**9, "G"), (10**6, "M"), (10**3, "k")) if most >= s), (1, ""))
    y = alt.Y(
        "y:Q",
        title=f"{prefix}bit/s",
        scale=alt.Scale(domain=[0, most / size], nice=False),
        axis=alt.Axis(tickCount=3 if height > 50 else 2, domain=False, minExtent=34),
    )
    return (
        alt.Chart(alt.Data(values=[{**row, "y": row["rate"] / size} for row in rows]))
        .mark_rect(color=theme.BLUE)
        .encode(x=x, x2="x2:Q", y=y, y2=alt.datum(0), tooltip=tips)
        .properties(width=theme.WIDTH - 80, height=height)
        .properties(
            title=alt.TitleParams(rows[0]["label"], fontSize=theme.TEXT, offset=2, frame="group", color=theme.INK)
        )
    )


def colours(values: list[dict], labels: list[str], x: alt.X) -> alt.Chart:
    """One row a port, a colour for each decade of the rate."""
    steps = sorted({decade(row["rate"]) for row in values})
    order = [decade_text(step) for step in steps]
    for row in values:
        row["decade"] = decade_text(decade(row["rate"]))
    shades = theme.spread(theme.LEVELS, len(steps))
    legend = alt.Legend(title="bit/s", orient="right", symbolType="square", symbolStrokeWidth=0)
    return (
        alt.Chart(alt.Data(values=values))
        .mark_rect()
        .encode(
            x=x,
            x2="x2:Q",
            y=alt.Y(
                "label:N",
                sort=labels,
                title=None,
                scale=alt.Scale(paddingInner=0.15),
                axis=alt.Axis(labelLimit=220, ticks=False),
            ),
            color=alt.Color("decade:N", sort=order, scale=alt.Scale(domain=order, range=shades), legend=legend),
            tooltip=tooltip(values),
        )
        .properties(width=theme.WIDTH - theme.text_width(labels) - 112)
        .properties(height=alt.Step(theme.row_height(len(labels), low=10, total=480)))
    )


def decade(rate: int) -> int:
    """Which power of 1000 or 10 a rate reaches: -1 for 0, else the number of its last digit but one."""
    return -1 if rate == 0 else max(2, int(math.log10(rate)))


def decade_text(step: int) -> str:
    """``10 M to 100 M``."""
    if step < 0:
        return "0"
    low, high = (scaled(10**power, "").strip().replace("\N{NO-BREAK SPACE}", "") for power in (step, step + 1))
    return f"below {high}" if step == 2 else f"{low} to {high}"
