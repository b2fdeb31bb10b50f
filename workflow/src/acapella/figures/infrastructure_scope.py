"""Writes the notes of the figures of the infrastructure study: the Patchwork paper's numbers next to the campaign's."""

from acapella.papers import printed

from .source import Source

PAPER = "patchwork"
SUMMARY = "infrastructure_summary"


def no_scope(source: Source) -> tuple[str, ...]:
    """Return no notes: these figures do not show samples of traffic."""
    return ()


def summary(source: Source) -> dict:
    """Return the row of infrastructure_summary."""
    return source.rows(SUMMARY)[0]


def comparison_note(name: str, ours: str) -> str:
    """Return a note with the paper's number and the campaign's."""
    row = next(row for row in printed.rows(PAPER) if row["name"] == name)
    return f"{row['what']}: {row['printed']} in the Patchwork paper ({row['where']}), {ours} here"


def note(*parts: str) -> str:
    """Return a sentence of several parts."""
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
