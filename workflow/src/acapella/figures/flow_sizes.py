"""Figure flow_sizes of the report, described by ABOUT."""

from acapella.common.wording import count, scaled

from .compose import Figure
from .source import NoData, Source
from .survival import (
    INTERPOLATION_NOTE,
    ValueAxis,
    chart,
    distribution_lines,
    median_interval,
    median_text,
    power_ticks,
)

SUBJECT = "Flow sizes"
ABOUT = "Complementary distribution of flow sizes, stitched across samples."
TABLE = "flow_sizes"
COLUMNS = ("scope", "site", "measure = wire", "bytes", "ccdf")
MEASURE = "wire"
SIZE = ValueAxis("bytes", "flow size (B on the wire)", power_ticks(("B", "kB", "MB", "GB", "TB", "PB")), "at least, B")


def draw(source: Source) -> Figure:
    """Draw the share of flows with at least a number of bytes: campaign, sites, and individual samples."""
    rows = [row for row in source.required_rows(TABLE) if row["measure"] == MEASURE and row["flows_ge"]]
    values, order = distribution_lines(rows, SIZE.column)
    campaign_line = [row for row in values if row["line"] == order[0]]
    if not campaign_line:
        raise NoData("no frame belongs to a flow (a flow needs an IP header)")
    key = (
        "Sampled bytes on the wire, without FCS: too few if samples contain only a part of the flow, too many if "
        "several flows had the same addresses and ports. A flow seen at several ports or sites counts once, with its "
        f"largest size. {INTERPOLATION_NOTE}",
    )
    drawing = chart(values, order, SIZE, y_title="share of flows of at least that size", height=300)
    return Figure(title(campaign_line), drawing, key)


def title(campaign_line: list[dict]) -> str:
    """Return the title: the median, and the largest threshold that a flow reaches."""
    flows, last = campaign_line[0]["flows"], campaign_line[-1]
    median = median_interval(campaign_line, "bytes")
    median_part = (
        f"median of {count(flows, 'directed flow')} {median_text(median, lambda value: scaled(value, 'B'))}; "
        if median
        else ""
    )
    largest_flows = count(last["flows_ge"], "flow")
    verb = "carries" if last["flows_ge"] == 1 else "carry"
    text = f"{median_part}{largest_flows} {verb} {scaled(last['bytes'], 'B')} or more"
    return text[0].upper() + text[1:]
