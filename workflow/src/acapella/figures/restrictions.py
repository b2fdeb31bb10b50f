"""Descriptions of restrictions: reasons why samples do not contain all traffic of their port."""

from acapella.common.wording import count, shortened

from .source import Source

DESCRIPTIONS = {"trial": "trial", "filter": "filter", "p4": "P4 program", "sampling": "sampling"}
MAX_DETAILS = 3  # restrictions listed in a title; others are counted
MAX_LENGTH = 100  # characters of a restriction; longer filters are shortened in the middle


def describe(restriction: str) -> str:
    """Return the description of restrictions: ``trial, filter`` for ``trial, filter``."""
    return ", ".join(DESCRIPTIONS[part] for part in restriction.split(", "))


def describe_all(rows: list[dict]) -> str:
    """Return the distinct descriptions of the restrictions in rows of capture_quality."""
    return "; ".join(describe(restriction) for restriction in sorted({row["restriction"] for row in rows}))


def only_restricted(source: Source) -> bool:
    """Return whether all samples in traffic statistics have a restriction."""
    return bool(source.traffic) and all(row["restriction"] is not None for row in source.traffic)


def title_suffix(source: Source, *, every: bool = False) -> str:
    """Return the end of a title, `` (samples: tcp port 443 / trial)``; empty if unrestricted samples count.

    ``every``: include the restrictions of samples that are excluded from traffic statistics.
    """
    if not only_restricted(source):
        return ""
    rows = [row for row in source.rows("restrictions") if every or not row["excluded"]]
    rows.sort(key=lambda row: (-row["frames"], row["restriction"], row["detail"] or ""))
    texts = list(dict.fromkeys(shortened(row["detail"] or describe(row["restriction"]), MAX_LENGTH) for row in rows))
    more = f", and {count(len(texts) - MAX_DETAILS, 'other restriction')}" if len(texts) > MAX_DETAILS else ""
    return f" (samples: {' / '.join(texts[:MAX_DETAILS])}{more})"
