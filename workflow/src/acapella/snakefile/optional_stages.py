"""Defines the stages that run only if the configuration has their key: their options, figures and files."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from acapella.campaign.layout import provenance_names
from acapella.campaign.monitor import TABLES as MONITOR_TABLES
from acapella.campaign.stale import Stage
from acapella.campaign.trial_tables import TABLES as TRIAL_TABLES
from acapella.figures.registry import (
    FLOWREPORT_FIGURES,
    FLOWSTUDY_FIGURES,
    INFRASTRUCTURE_FIGURES,
    MODEL_FIGURES,
    MONITOR_FIGURES,
    REPLAY_FIGURES,
    SAMPLE_FIGURES,
    SLICE_FIGURES,
    TELEMETRY_FIGURES,
    TRAFFIC_FIGURES,
    TRANSFER_FIGURES,
    TRIAL_FIGURES,
)
from acapella.flowreports.study import TABLES as FLOWSTUDY_TABLES
from acapella.flowreports.tables import TABLES as FLOWREPORT_TABLES
from acapella.infrastructure.inputs import KEYS as INFRASTRUCTURE_KEYS
from acapella.infrastructure.inputs import has_infrastructure
from acapella.infrastructure.tables import TABLES as INFRASTRUCTURE_TABLES
from acapella.papers.command import TABLE as PAPER_TABLE
from acapella.transfer.tables import TABLES as TRANSFER_TABLES
from acapella_core import names

from .replays import environments_with_departures, generates
from .transfer import empty_figures, empty_figures_text, has_transfers

DRAWN_FIGURES = (
    *SAMPLE_FIGURES,
    *FLOWSTUDY_FIGURES,
    *TRANSFER_FIGURES,
    *INFRASTRUCTURE_FIGURES,
)  # drawn by rule figures
# Sections of the report whose tables another target or command may have created: option of `acapella campaign report`,
# and table.
SECTIONS = {
    "--storage": "storage_rates",
    "--outcomes": "outcome_reasons",
    "--monitor": "monitor_flows",
    "--searches": "monitor_searches",
}
# With pseudonyms, a table from an earlier run may name sites, interfaces or captures.
WITH_TRUE_NAMES = ("--outcomes", "--monitor")


@dataclass(frozen=True)
class OptionalStage:
    """An optional stage.

    ``flag``: option of `acapella campaign figures` and `report`, if it has one; ``configured``: whether it is in the
    configuration; ``runs``: whether this machine also has its programs; ``output``: files that it writes.
    """

    flag: str | None
    configured: bool
    runs: bool
    output: Stage


def optional_stages(config: dict, flowreports: Mapping) -> list[OptionalStage]:
    """Return all optional stages. ``flowreports``: the config key without parts that cannot run on this machine."""
    configured, trials = config["flowreports"], bool(config["trials"])
    replays = bool(environments_with_departures(config))
    transfers = has_transfers(config)
    empty = empty_figures(config) if transfers else {}
    only = (config.get("figures") or {}).get("only")
    unselected = [] if only is None else [figure for figure in DRAWN_FIGURES if figure not in only]
    kept_figures = [figure for figure in TRANSFER_FIGURES if figure not in empty]
    published = bool(config["report"]["papers"] and (configured["samples"] or configured["study"]))
    return [
        OptionalStage(
            "--trials",
            trials,
            trials,
            Stage(TRIAL_TABLES, TRIAL_FIGURES, ["consistency/*.json", *provenance_names("consistency")]),
        ),
        OptionalStage("--replays", trials and replays, trials and replays, Stage((), REPLAY_FIGURES)),
        OptionalStage(
            "--flowreports",
            bool(configured["samples"]),
            bool(flowreports["samples"]),
            Stage(FLOWREPORT_TABLES, FLOWREPORT_FIGURES, provenance_names("flowtables")),
        ),
        OptionalStage(
            "--flowstudy",
            configured["study"],
            flowreports["study"],
            Stage(FLOWSTUDY_TABLES, FLOWSTUDY_FIGURES, provenance_names("flowstudy")),
        ),
        OptionalStage(
            "--transfers",
            transfers,
            transfers,
            Stage(TRANSFER_TABLES, kept_figures, provenance_names("transfer")),
        ),
        *infrastructure_stages(config),
        monitor_stage(config),
        paper_stage(config),
        OptionalStage(None, False, False, Stage((), [*empty, *unselected])),  # removes figures of an earlier run
        OptionalStage(
            None, published, published, Stage(["flowreport_published"], (), provenance_names("flowpublished"))
        ),
    ]


def infrastructure_stages(config: dict) -> list[OptionalStage]:
    """Return the stages of the infrastructure study: its tables, and the figures of each kind of input."""
    configured = has_infrastructure(config)
    tables = Stage(INFRASTRUCTURE_TABLES, (), provenance_names("infrastructure"))
    given = [bool((config.get("infrastructure") or {}).get(key)) for key in INFRASTRUCTURE_KEYS]
    kinds = zip(given, (MODEL_FIGURES, SLICE_FIGURES, TELEMETRY_FIGURES), strict=True)
    return [
        OptionalStage("--infrastructure", configured, configured, tables),
        *(OptionalStage(None, has_files, has_files, Stage((), figures)) for has_files, figures in kinds),
    ]


def monitor_stage(config: dict) -> OptionalStage:
    """Return the stage of generated traffic. Its tables may also come from `acapella monitor -o`; these are kept."""
    monitors = generates(config)
    provenance = provenance_names("monitor")
    return OptionalStage(
        "--monitor", monitors, monitors, Stage(MONITOR_TABLES, MONITOR_FIGURES, provenance, provenance[0])
    )


def paper_stage(config: dict) -> OptionalStage:
    """Return the stage that compares the campaign with numbers printed in papers."""
    compared = bool(config["report"]["papers"])
    return OptionalStage(None, compared, compared, Stage([PAPER_TABLE], (), provenance_names("papers")))


def compared_papers(papers: bool | list[str], quantities: Mapping[str, bool]) -> list[str]:
    """Return the papers to compare with. ``quantities``: whether the campaign has the quantities of each paper."""
    return [name for name, exist in quantities.items() if exist and papers and (papers is True or name in papers)]


def figure_flags(stages: Iterable[OptionalStage]) -> list[str]:
    """Return the options of `acapella campaign figures` and `report` for the stages that run."""
    return [stage.flag for stage in stages if stage.flag and stage.runs]


def figures(
    stages: Iterable[OptionalStage], only: Collection[str] | None = None, *, with_samples: bool = True
) -> list[str]:
    """Return the names of the figures of a campaign. ``only``: config key figures.only."""
    stage_figures = [figure for stage in stages if stage.runs for figure in stage.output.figures]
    candidates = [*(TRAFFIC_FIGURES if with_samples else ()), *stage_figures]
    return [figure for figure in candidates if only is None or figure in only]


def report_empty_figures(config: dict) -> None:
    """Report figures that are omitted, with the reason, on standard error."""
    if has_transfers(config) and (line := empty_figures_text(empty_figures(config))):
        names.report(line)


def available_flowreports(config: dict) -> dict:
    """Return the config key `flowreports` without parts that cannot run on this machine; report the reason."""
    configured = config["flowreports"]
    if not (configured["samples"] or configured["study"]):
        return configured
    from acapella.flowreports.program import why_unavailable  # noqa: PLC0415 - only if needed

    reason = why_unavailable()
    if reason is None:
        return configured
    names.report(f"flow reports are omitted: {reason}")
    return configured | {"samples": None, "study": False}


def report_sections(campaign: str, *, pseudonyms: bool, without: Iterable[str] = ()) -> dict[str, int]:
    """Return options of `acapella campaign report` for sections whose tables exist, each with the time in ns when its
    table was modified.

    As parameters of the rule, they cause a new report if a table is new. ``without``: options of stages that run.
    """
    paths = {
        flag: Path(campaign, "tables", f"{table}.csv")
        for flag, table in SECTIONS.items()
        if not (pseudonyms and flag in WITH_TRUE_NAMES) and flag not in without
    }
    return {flag: path.stat().st_mtime_ns for flag, path in paths.items() if path.is_file()}
