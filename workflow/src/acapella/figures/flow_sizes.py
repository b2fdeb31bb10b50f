"""How large flows are once their snippets are stitched across samples: complementary distribution."""

from acapella.common.wording import count, scaled

from .compose import Figure
from .source import NoData, Source
from .survival import INTERPOLATION_NOTE, ValueAxis, chart, distribution_lines, median_interval, median_text

SUBJECT = "Flow sizes"
TABLE = "flow_sizes"
COLUMNS = ("scope", "site", "measure = wire", "bytes", "ccdf")
MEASURE = "wire"
SIZE = ValueAxis("bytes", "flow size (B on the wire)", ("B", "kB", "MB", "GB", "TB", "PB"), "at least, B")


def draw(source: Source) -> Figure:
    """Log-log: share of flows of at least so many bytes; the campaign, its sites, and single samples beside it."""
    rows = [row for row in source.required_rows(TABLE) if row["measure"] == MEASURE and row["flows_ge"]]
    values, order = distribution_lines(rows, SIZE.column)
    whole = [row for row in values if row["line"] == order[0]]
    if not whole:
        raise NoData("no frame belongs to a flow (a flow needs an IP header)")
    key = (
        "Sampled bytes on the wire without FCS: a lower bound if a flow was cut or not watched. A flow that several "
        f"ports or sites show counts once, at its largest. {INTERPOLATION_NOTE}",
    )
    drawing = chart(values, order, SIZE, y_title="share of flows of at least that size", height=300)
    return Figure(title(whole), drawing, key)


def title(whole: list[dict]) -> str:
    """Where the middle lies and how far the tail reaches; thresholds are ten a decade."""
    flows, last = whole[0]["flows"], whole[-1]
    median = median_interval(whole, "bytes")
    half = (
        f"median of {count(flows, 'directed flow')} {median_text(median, lambda value: scaled(value, 'B'))}; "
        if median
        else ""
    )
    many = count(last["flows_ge"], "flow")
    verb = "carries" if last["flows_ge"] == 1 else "carry"
    text = f"{half}{many} {verb} {scaled(last['bytes'], 'B')} or more"
    return text[0].upper() + text[1:]
