"""Figure iat_delta of the report, described by ABOUT."""

from . import deltas
from .comparison import scope
from .compose import Figure
from .source import Source

SUBJECT = "Differences in inter-arrival time"
ABOUT = "Differences between the inter-arrival times of each trial and of the first trial (CHOIR, figures 4 to 10)."
TABLE = "consistency_deltas"
SCOPE = scope
COLUMNS = ("measure = iat", "bin", "lo_ns", "share")


def draw(source: Source) -> Figure:
    """Draw one panel per environment and one line per trial."""
    return deltas.draw(source, "iat", "inter-arrival time")
