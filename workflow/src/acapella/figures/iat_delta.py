"""Figure iat_delta of the report, described by ABOUT."""

from . import deltas
from .comparison import scope
from .compose import Figure
from .source import Source

SUBJECT = "Differences of inter-arrival times"
ABOUT = "Differences of inter-arrival times between each run and the first trial (CHOIR, figures 4 to 10)."
TABLE = "consistency_deltas"
SCOPE = scope
COLUMNS = ("measure = iat", "bin", "lo_ns", "share")


def draw(source: Source) -> Figure:
    """Draw one panel per environment and one line per run."""
    return deltas.draw(source, "iat", "inter-arrival time")
