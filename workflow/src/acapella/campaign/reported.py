"""Flow reports of a campaign: the files of each sample, and the samples that have flow reports."""

import json
from pathlib import Path

from acapella_core.errors import UserError

CONFIG = "config.json"  # keys of the config that determine results, written before the first job
FAILED = "failed"  # its key in flowreports with the samples whose flow reports failed in an earlier run
PARTS = (
    "compared_flows",
    "judged_windows",
    "window_reasons",
    "flow_reasons",
    "window_iats",
    "pairs",
    "accuracy",
    "seconds",
    "counts",
    "tools",
)  # tables of a sample
FILES = (
    *(f"{part}.parquet" for part in (*PARTS, "memory", "flows", "series")),
    "reports.pcap",
    "program.json",
    "collector.json",
)  # in flowreports/SAMPLE/


def selected_samples(campaign: Path) -> list[str] | None:
    """Return config key flowreports.samples of the last run; None: all samples.

    The list may be longer than the arguments of a command. Raises UserError if it is missing.
    """
    path = campaign / CONFIG
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))["flowreports"]["samples"]
    except (OSError, ValueError, KeyError, TypeError):
        samples = None
    if samples == "all":
        return None
    if isinstance(samples, list):
        return samples
    raise UserError("lists no samples with flow reports", where=path, fix="run snakemake with flowreports.samples")


def samples_without_reports(campaign: Path) -> list[str]:
    """Return the samples whose flow reports failed, so that the last run omitted them; [] if the file is invalid."""
    try:
        failed = json.loads((campaign / CONFIG).read_text(encoding="utf-8"))["flowreports"][FAILED]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in failed if isinstance(name, str)] if isinstance(failed, list) else []
