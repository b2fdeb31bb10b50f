"""Evaluates transfer settings of a configuration: runs or files, keys for `acapella transfer`, and empty figures."""

import json
from collections.abc import Mapping
from pathlib import Path

from acapella.common.wording import listed
from acapella.release import transfers

ANALYSIS = ("data", "sheet", "name_pattern", "runs")  # keys that do not affect the runs


def has_transfers(config: Mapping) -> bool:
    """Return whether the configuration has transfer experiments: runs of this campaign, or imported files."""
    transfer = config.get("transfer") or {}
    return any(transfer.get(key) for key in ("data", "sheet", "grid", "runs"))


def empty_figures(config: Mapping) -> dict[str, str]:
    """Return the figures for which the configured transfers provide no data, each with the reason.

    The settings of imported files are not known in advance, so no figure is omitted for them.
    """
    transfer = config["transfer"]
    grid = transfer.get("grid") or (grid_of_runs(Path(transfer["runs"])) if transfer.get("runs") else None)
    if not grid or transfer["data"] or transfer["sheet"]:
        return {}
    single = "the grid has a ratio" if grid["ratio"] else "the grid has one number of streams"
    conditions = {
        "transfer_gain": (not {"bbr", "cubic"} <= {*grid["algorithm"]}, "the grid does not have both bbr and cubic"),
        "transfer_streams": (len(grid["streams"]) < 2 or bool(grid["ratio"]), single),
        "transfer_per_stream": (len(grid["streams"]) < 2 or bool(grid["ratio"]), single),
        "transfer_fairness": (max(grid["streams"]) < 2, "the grid has no parallel streams"),
        "transfer_ratios": (not grid["ratio"], "the grid has no ratio"),
    }
    return {name: reason for name, (holds, reason) in conditions.items() if holds}


def grid_of_runs(directory: Path) -> dict | None:
    """Return the settings of runs that determine which figures are omitted; None if a run cannot be read."""
    found: dict[str, set] = {"algorithm": set(), "streams": {1}, "ratio": set()}
    try:
        for path in transfers.cells_of(directory):
            settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
            for name in found:
                found[name] |= {settings[name]} - {None}
        return {name: sorted(values) for name, values in found.items()}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def empty_figures_text(empty: Mapping[str, str]) -> str:
    """Return a line that lists omitted figures by reason; empty if there are none."""
    reasons = dict.fromkeys(empty.values())
    parts = [f"{listed([name for name, why in empty.items() if why == reason])} ({reason})" for reason in reasons]
    return f"figures without data are omitted: {'; '.join(parts)}" if parts else ""


def transfer_config(config: dict) -> str:
    """Return the configuration of `acapella transfer` as JSON."""
    selected = {"transfer": {key: value for key, value in config["transfer"].items() if key not in ANALYSIS}}
    if config["transfer"]["testbed"] == "fabric":
        selected["fabric"] = config["fabric"]
    return json.dumps(selected, sort_keys=True)
