"""The data of a chart, as a list of rows that Altair neither copies nor checks individually."""

from typing import Any

import altair as alt


class Rows(alt.Data):
    """The rows of a chart as inline data; one dictionary of JSON values per row.

    Altair copies a chart whenever it is changed, layered or concatenated. The copies share the rows.
    """

    _class_is_valid_at_instantiation = False

    def __deepcopy__(self, memo: dict | None = None) -> "Rows":
        """Return data with the same rows."""
        return Rows(values=self._kwds["values"])

    def to_dict(self, *_: Any, **__: Any) -> dict:
        """Return the data of a Vega-Lite specification."""
        return {"values": self._kwds["values"]}


def sampled(spec: Any) -> Any:
    """Return a specification with only the first row of the data of each chart, for validation."""
    if isinstance(spec, list):
        return [sampled(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {key: first_row(value) if key == "data" else sampled(value) for key, value in spec.items()}


def first_row(data: dict) -> dict:
    """Return the data of a chart with only its first row."""
    return {**data, "values": data["values"][:1]} if "values" in data else data
