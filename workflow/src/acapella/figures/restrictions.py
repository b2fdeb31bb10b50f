"""Descriptions of restrictions: reasons for which samples do not contain all traffic of their port."""

from acapella.common.wording import count, shortened

from .source import Source

DESCRIPTIONS = {"trial": "replayed trial", "filter": "filter", "p4": "P4 program", "sampling": "sampling"}
MAX_DETAILS = 3  # named in a title; more are counted
MAX_LENGTH = 100  # characters of one; a longer filter loses its middle


def describe(restriction: str) -> str:
    """``replayed trial, filter`` for ``trial, filter``."""
    return ", ".join(DESCRIPTIONS[part] for part in restriction.split(", "))


def describe_all(rows: list[dict]) -> str:
    """The restrictions of some rows of capture_quality, each once."""
    return "; ".join(describe(one) for one in sorted({row["restriction"] for row in rows}))


def only_restricted(source: Source) -> bool:
    """Whether traffic statistics count samples with a restriction alone."""
    return bool(source.traffic) and all(row["restriction"] is not None for row in source.traffic)


def title_suffix(source: Source, *, every: bool = False) -> str:
    """`` (filter tcp port 443; replayed trial)``, to end a title with; empty if unfiltered samples count.

    ``every``: also the restrictions of samples that are excluded from traffic statistics.
    """
    if not only_restricted(source):
        return ""
    rows = [row for row in source.rows("restrictions") if every or not row["excluded"]]
    rows.sort(key=lambda row: (-row["frames"], row["restriction"], row["detail"] or ""))
    texts = list(dict.fromkeys(shortened(row["detail"] or describe(row["restriction"]), MAX_LENGTH) for row in rows))
    more = f", and {count(len(texts) - MAX_DETAILS, 'other restriction')}" if len(texts) > MAX_DETAILS else ""
    return f" (samples: {' / '.join(texts[:MAX_DETAILS])}{more})"
