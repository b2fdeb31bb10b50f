"""How long flows last and how fast they are, stitched across samples: complementary distributions."""

import altair as alt

from . import theme
from .compose import Figure
from .quality import timeless
from .source import NoData, Source
from .survival import Axis, chart, lines_of, middle
from .wording import count, nanoseconds, scaled

SUBJECT = "Flow durations and rates"
TABLE = "flow_times"
COLUMNS = ("scope", "site", "measure", "value", "ccdf")
PANELS = {
    "duration_ns": Axis("value", "flow duration (first to last frame)", ("ns", "µs", "ms", "s"), "at least, ns"),
    "rate_bps": Axis(
        "value", "flow rate (mean on the wire)", ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"), "at least, bit/s"
    ),
}


def draw(source: Source) -> Figure:
    """Two log-log panels, durations and rates: share of flows of at least so much, lines as in flow_sizes."""
    rows = [row for row in source.wanted(TABLE) if row["flows_ge"]]
    panels, wholes = [], {}
    for measure, axis in PANELS.items():
        values, order = lines_of([row for row in rows if row["measure"] == measure], axis.column)
        whole = [row for row in values if row["line"] == order[0]]
        if whole:
            wholes[measure] = whole
            y_title = None if panels else "share of flows of at least that value"
            panels.append(chart(values, order, axis, y_title=y_title, width=(theme.WIDTH - 130) // 2))
    if not panels:
        raise NoData("no flow has more than one frame, so none has a duration or rate")
    key = (
        "Durations are of what samples saw: a lower bound where a flow was cut. A rate is bytes on the wire without "
        "FCS over the time observed, gaps left out; flows of one instant have none.",
        *(f"{said[0].upper()}{said[1:]}." for said in timeless(source)),
    )
    return Figure(title(wholes), alt.hconcat(*panels, spacing=20), key)


def title(wholes: dict[str, list[dict]]) -> str:
    """Where the middles of both lie; thresholds are ten a decade."""
    first = next(iter(wholes.values()))[0]
    flows = first["flows"]
    below = {measure: middle(whole, "value") for measure, whole in wholes.items()}
    said = []
    if below.get("duration_ns") == 1:  # the lowest threshold: below it are frames of one stamp
        said.append(f"{flows - first['flows_ge']:,} of {count(flows, 'directed flow')} are of one instant")
    elif below.get("duration_ns"):
        said.append(f"half of {count(flows, 'directed flow')} last less than {nanoseconds(below['duration_ns'])}")
    if below.get("rate_bps"):
        of = count(wholes["rate_bps"][0]["flows"], "rate")
        said.append(f"half of {of} are below {scaled(below['rate_bps'], 'bit/s')}")
    text = "; ".join(said) or f"durations and rates of {count(flows, 'directed flow')}"
    return text[0].upper() + text[1:]
