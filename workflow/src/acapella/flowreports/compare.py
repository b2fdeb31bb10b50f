"""Compares exact and measured flows of a sample, and computes their agreement.

Works in a DuckDB connection with the tables of `exact` and the collector's files as views ``reported_flows``,
``reported_series`` (a row per report) and ``reported_windows`` (a row per window).
"""

from pathlib import Path

from . import exact
from .settings import PROBE, Settings

DEFAULT = Settings()

FLOW_TABLES = ("measured_keys", "measured_flows", "compared_flows")
TIME_TABLES = (
    *("measured_numbers", "measured_series", "measured_windows", "measured_iats"),
    *("all_series", "report_spans", "compared_windows", "reversed_spans", "window_bounds", "judged_windows"),
    *("window_reasons", "flow_reasons"),
    *("report_frames", "window_iats", "compared_iats", "compared_rates", "compared_acknowledgments"),
)


def create_views(con, flows: Path, series: Path | None, windows: Path | None) -> None:
    """Create views of the collector's files; the view of a missing file is empty."""
    con.read_parquet(str(flows)).create_view("reported_flows", replace=True)
    for name, path in {"reported_series": series, "reported_windows": windows}.items():
        if path is not None:
            con.read_parquet(str(path)).create_view(name, replace=True)
        else:
            columns = "0::uinteger as flow, 0 as window_ns, 1::ubigint as windows, 0::ubigint as bytes, 0 as iat_ns"
            columns += ", 0::ubigint as packets, 0::ubigint as acknowledged_bytes, 0::uinteger as bytes_in_flight"
            con.execute(f"create or replace temp view {name} as select {columns} where false")


def make(con, *, sample: str, window_ns: int, settings: Settings = DEFAULT) -> None:
    """Create compared_flows, judged_windows, compared_iats, pairs and accuracy; needs the view ``report_stamps``."""
    parameters = {
        **{"of_sample": sample, "length_ns": window_ns},
        **{"probes": bool(settings.triggers & PROBE), "of_triggers": settings.triggers_name},
    }
    for name in (*FLOW_TABLES, *TIME_TABLES, "pairs", "accuracy"):
        exact.create(con, name, parameters)
