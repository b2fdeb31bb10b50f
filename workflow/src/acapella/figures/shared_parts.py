"""Composes Altair's charts without copying their parts.

Altair copies all parts of a chart when it composes the chart, and again with each copy of the chart. This takes more
than half of the time of a figure. It needs the copies to change selection parameters and names of charts, so charts
without these are shared instead. Both replaced functions are private: the tests compare the results with Altair's own.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence

import altair as alt

FACETED = (alt.FacetChart, alt.RepeatChart)
PARTS = ("layer", "concat", "hconcat", "vconcat")


def may_be_changed(chart: alt.TopLevelMixin) -> bool:
    """Return whether Altair may change a chart or one of its parts when it composes them."""
    if isinstance(chart, FACETED) or any(chart._get(key) is not alt.Undefined for key in ("params", "name")):
        return True
    return any(may_be_changed(part) for key in PARTS for part in chart._get(key, ()))


@contextlib.contextmanager
def shared_parts() -> Iterator[None]:
    """Share the parts of charts that are composed in this context, unless they have parameters or names."""
    api = sys.modules[alt.LayerChart.__module__]
    combine, remove_duplicates = api._combine_subchart_params, api._remove_duplicate_params

    def combine_params(params: object, charts: Sequence) -> tuple[object, Sequence]:
        if params is alt.Undefined and not any(map(may_be_changed, charts)):
            return params, charts
        return combine(params, charts)

    def remove_duplicate_params(charts: Sequence) -> Sequence:
        return remove_duplicates(charts) if any(map(may_be_changed, charts)) else charts

    api._combine_subchart_params, api._remove_duplicate_params = combine_params, remove_duplicate_params
    try:
        yield
    finally:
        api._combine_subchart_params, api._remove_duplicate_params = combine, remove_duplicates
