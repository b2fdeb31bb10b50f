"""Figure latency_delta of the report, described by ABOUT."""

from . import deltas
from .comparison import scope
from .compose import Figure
from .source import Source

SUBJECT = "Differences in latency"
ABOUT = (
    "Differences between the latencies of each trial and of the first trial; latency is relative to the first packet "
    "(CHOIR, figures 4 to 10)."
)
TABLE = "consistency_deltas"
SCOPE = scope
COLUMNS = ("measure = latency", "bin", "lo_ns", "share")


def draw(source: Source) -> Figure:
    """Draw one panel per environment and one line per trial."""
    return deltas.draw(source, "latency", "latency")
