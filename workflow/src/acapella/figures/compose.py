"""Compose a figure from its module: title, numbers of samples and losses, chart, and source of the data."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import altair as alt
from altair.utils import schemapi

from acapella.common.wording import count

from . import flowreport_scope, quality, registry, restrictions, theme
from .rows import Rows, sampled
from .shared_parts import shared_parts
from .source import NoData, Source

NONE_MISSING = registry.Missing()
SENTENCE = 12  # px: size of a sentence instead of a chart


@dataclass(frozen=True)
class Figure:
    """Output of a figure's module: a title that states a result, the chart, and notes on how to read its marks.

    ``table`` and ``columns``: origin of the numbers if it is not the module's TABLE and COLUMNS.
    """

    title: str
    chart: alt.TopLevelMixin
    key: tuple[str, ...] = ()
    table: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComposedFigure:
    """A complete figure: its Vega-Lite specification, and its text for readers who cannot see it.

    ``reason``: why there is nothing to draw; empty if there are data.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    table: str
    columns: tuple[str, ...]
    reason: str
    spec: dict

    @property
    def empty(self) -> bool:
        """Return whether the figure has no data."""
        return bool(self.reason)

    @property
    def description(self) -> str:
        """Return title and notes as one text."""
        return ". ".join([self.title, *self.notes])


def compose_figure(
    name: str, source: Source, *, origin: bool = True, missing: registry.Missing = NONE_MISSING
) -> ComposedFigure:
    """Draw one figure. Raises UserError if a table that it needs is missing.

    ``origin``: add the name of the table to the figure. Pages with captions show it in the caption. ``missing``:
    numbers of samples that are missing from the tables because they failed.
    """
    module = registry.figure_module(name)
    scope = getattr(module, "SCOPE", quality.scope)
    # The complete specification is validated below, so its parts are not.
    with schemapi.debug_mode(False), shared_parts():
        try:
            figure, reason = module.draw(source), ""
        except NoData as error:
            figure, reason = no_data_figure(module.SUBJECT, str(error)), str(error)
        notes = (*scope(source), *missing_note(name, missing), *figure.key)
        title = figure.title + restriction_suffix(scope, source)
        table, columns = figure.table or module.TABLE, tuple(figure.columns or module.COLUMNS)
        origin_text = f"Data: tables/{table}.csv ({', '.join(columns)})" if origin else None
        spec = add_title(figure.chart, title, notes, origin_text).to_dict(validate=False)
    if origin:  # without it, the specification is that of the figure's file without the line that names the table
        alt.ConcatChart.validate(sampled(spec))
    spec["description"] = ". ".join([title, *notes])
    spec["usermeta"] = {"figure": name, "table": f"tables/{table}.csv", "columns": list(columns)}
    return ComposedFigure(name, title, notes, table, columns, reason, spec)


def missing_note(name: str, missing: registry.Missing) -> tuple[str, ...]:
    """Return the note about missing samples of a figure; empty for figures that are not about samples."""
    number = missing.samples + (missing.reports if name in registry.FLOWREPORT_FIGURES else 0)
    if not number or name not in registry.SAMPLE_FIGURES:
        return ()
    return (f"{count(number, 'sample')} missing because {'it' if number == 1 else 'they'} failed",)


def restriction_suffix(scope: Callable, source: Source) -> str:
    """Return the end of the title if all samples are restricted; empty for figures that are not about samples."""
    if scope is quality.scope:
        return restrictions.title_suffix(source)
    if scope is quality.scope_of_all:
        return restrictions.title_suffix(source, every=True)
    # flow reports can be drawn without the tables of `acapella campaign process`
    processed = scope is flowreport_scope.scope and source.campaign.table("capture_quality", "parquet").is_file()
    return restrictions.title_suffix(source, every=True) if processed else ""


def add_title(chart: alt.TopLevelMixin, title: str, notes: tuple[str, ...], origin: str | None) -> alt.ConcatChart:
    """Add title and notes above a chart and, if given, the origin of its numbers below."""
    head = alt.TitleParams(
        text=wrap_lines(title, theme.TITLE), subtitle=[line for note in notes for line in wrap_lines(note, theme.TEXT)]
    )
    with_head = alt.concat(chart.properties(title=head))
    if origin is None:
        return with_head.configure(**theme.config())
    foot = alt.TitleParams(
        text=wrap_lines(origin, theme.SMALL), orient="bottom", fontSize=theme.SMALL, color=theme.GRAY, offset=8
    )
    return with_head.properties(title=foot).configure(**theme.config())


def wrap_lines(text: str, size: int) -> list[str]:
    """Wrap a text into lines that fit the page at a font size."""
    return textwrap.wrap(text, int(theme.WIDTH / (size * theme.MEAN_CHARACTER))) or [""]


def no_data_figure(subject: str, reason: str) -> Figure:
    """Return a figure that states why there is nothing to draw."""
    return text_figure(f"{subject}: no data", f"No data: {reason}.")


def text_figure(title: str, sentence: str) -> Figure:
    """Return a figure with a sentence instead of marks, without a frame, which would look like an empty panel."""
    text = [{"line": line, "place": index} for index, line in enumerate(wrap_lines(sentence, SENTENCE))]
    chart = (
        alt.Chart(Rows(values=text))
        .mark_text(fontSize=SENTENCE, color=theme.GRAY, align="left")
        .encode(text="line:N", x=alt.value(0), y=alt.Y("place:O", axis=None))
        .properties(width=theme.WIDTH - 20, height=alt.Step(18))
    )
    return Figure(title, chart)
