"""Files of a dashboard: names of site pages, data as CSV, and writing of changed files only."""

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from acapella_core import beneath
from acapella_core.files import atomic_text

from .campaigns import read_or_none
from .counts import Counts
from .history import History

COUNTS = ("samples", "frames", "wire_bytes", "flows", "loss_share", "unknown_loss_samples", "duration_ns", "rate_bps")
MAX_SLUG = 40
SITE_FILE = re.compile(rf"[A-Za-z0-9-]{{1,{MAX_SLUG}}}-[0-9a-f]{{8}}\.html")  # form of the names that site_file returns


def site_file(site: str) -> str:
    """Return the name of a site's page: readable characters of its name, and a part of the name's SHA-256."""
    readable = re.sub(r"[^A-Za-z0-9-]+", "-", site).strip("-")[:MAX_SLUG]
    digest = hashlib.sha256(site.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{readable or 'site'}-{digest}.html"


def write_changed(path: Path, text: str) -> None:
    """Write a file if its content differs."""
    if read_or_none(path) != text.encode():
        atomic_text(path, text)


def remove_others(directory: Path, kept: Iterable[str]) -> None:
    """Remove the pages of sites in a directory that are not among ``kept``. Other files are kept."""
    expected = set(kept)
    for path in sorted(directory.glob("*.html")):
        if path.name not in expected and SITE_FILE.fullmatch(path.name):
            with beneath.parent(path, link=True):
                path.unlink(missing_ok=True)


def numbers(counts: Counts) -> list[str]:
    """Return the columns COUNTS as text; empty if a value is unknown."""
    values = (counts.samples, counts.frames, counts.wire_bytes, counts.flows, counts.loss_share, counts.unknown)
    return [text_of(value) for value in (*values, counts.duration_ns, counts.rate_bps)]


def text_of(value: float | None) -> str:
    """Return a number as in the tables of a campaign, with at most 9 significant digits; empty for None."""
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as CSV (RFC 4180, lines end in LF)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([field.encode("utf-8", "backslashreplace").decode() for field in row] for row in rows)
    return text.getvalue()


def campaigns_csv(history: History) -> str:
    """Return the CSV file with a row per campaign."""
    columns = ("campaign", "reason", "pseudonyms", "start_ns", "end_ns", *COUNTS, "kappa_lowest")
    rows = []
    for name in history.names:
        summary = history.summaries[name]
        lowest = min((env.kappa for env in summary.environments if env.kappa is not None), default=None)
        described = (
            name,
            summary.reason,
            "true" if summary.pseudonyms else "false",
            text_of(summary.start_ns),
            text_of(summary.end_ns),
        )
        rows.append([*described, *([""] * len(COUNTS) if summary.reason else numbers(summary.counts)), text_of(lowest)])
    return csv_text(columns, rows)


def ports_csv(history: History) -> str:
    """Return the CSV file with a row per site, port and campaign."""
    rows = [
        (site, port, name, text_of(history.summaries[name].start_ns), *numbers(counts))
        for site, ports in history.sites.items()
        for port, by_campaign in ports.items()
        for name, counts in by_campaign.items()
    ]
    return csv_text(("site", "port", "campaign", "start_ns", *COUNTS), rows)
