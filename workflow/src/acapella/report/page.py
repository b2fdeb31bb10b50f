"""Writes report.html from its template."""

import base64
import functools
import json
from collections.abc import Collection, Sequence
from pathlib import Path

import jinja2

from acapella.campaign.layout import Campaign, require
from acapella.campaign.trials import STAGE as TRIALS_STAGE
from acapella.figures import page as charts
from acapella.figures import registry
from acapella.figures.compose import ComposedFigure, compose_figure
from acapella.figures.save import svg_of
from acapella.figures.source import Source, command_for
from acapella.infrastructure.tables import STAGE as INFRASTRUCTURE_STAGE
from acapella.transfer.tables import STAGE as TRANSFER_STAGE
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from . import flows as flow_section
from . import infrastructure, monitor, notes, storage, summary, tables, transfers, trials, warnings
from . import papers as paper_section

MAX_EMBEDDED = 256 * 1024  # bytes of a CSV file embedded in the page; larger files are only linked

PROVENANCE = {  # parts of a provenance file with their headings, in order; other parts follow
    "versions": "Versions of the programs",
    "parameters": "Parameters",
    "excluded": "Samples excluded from traffic statistics, and why",
    "omitted": "Samples in no table: excluded by the config (config), failed, or not digested (no acap)",
    "inputs": "Inputs: SHA-256 of the files of each sample",
    "outputs": "Outputs: SHA-256 of the tables",
    "queries": "Queries: SHA-256 of the SQL",
    "tshark_preferences": "Preferences of tshark",
    "vendors": "Vendors of addresses: SHA-256 of the lists, and version of tshark or of ieee-data",
    "acapella_provenance": "Version of the file format",
}


def write(  # noqa: PLR0913
    campaign: Campaign,
    *,
    with_samples: bool = True,
    with_trials: bool = False,
    with_replays: bool = False,
    flows: flow_section.FlowSections = flow_section.NO_SECTIONS,
    with_transfers: bool = False,
    with_infrastructure: bool = False,
    with_storage: bool = False,
    with_outcomes: bool = False,
    with_monitor: bool = False,
    with_searches: bool = False,
    papers: bool = False,
    only: Collection[str] | None = None,
    excluded: Sequence[str] = (),
    failed: Sequence[str] = (),
    without_reports: Sequence[str] = (),
) -> tuple[Path, int]:
    """Write the page; return its path and the number of figures.

    ``with_samples``: whether the campaign has samples, which the sections on traffic describe. The other keywords add
    the sections on trials (with the figures of replays with departures), flow reports, transfers, the
    infrastructure study, the storage study, the outcomes of all collections, monitored traffic,
    and searches for the highest rate without loss.
    ``papers`` adds tables of the numbers printed in papers. ``only``: figures, instead of all. ``excluded``: samples
    that the config excludes. ``failed``: samples that failed and are in no table; ``without_reports``: samples whose
    flow reports failed.
    """
    source = Source(campaign)
    stage = "process" if with_samples else TRANSFER_STAGE if with_transfers else INFRASTRUCTURE_STAGE
    trial_figures = (*registry.TRIAL_FIGURES, *(registry.REPLAY_FIGURES if with_replays else ()))
    parts = (registry.TRAFFIC_FIGURES if with_samples else (), trial_figures if with_trials else (), flows.figures)
    parts += (registry.STORAGE_FIGURES if with_storage else (), registry.COLLECTION_FIGURES if with_outcomes else ())
    parts += (registry.TRANSFER_FIGURES if with_transfers else (),)
    parts += (registry.INFRASTRUCTURE_FIGURES if with_infrastructure else (),)
    search_figures = registry.SEARCH_FIGURES if with_searches else ()
    parts += ((*(registry.MONITOR_FIGURES if with_monitor else ()), *search_figures),)
    names = [name for part in parts for name in part if only is None or name in only]
    missing = registry.Missing(len(failed), len(without_reports))
    composed = [compose_figure(name, source, origin=False, missing=missing) for name in names]
    optional = (*registry.TRANSFER_FIGURES, *registry.INFRASTRUCTURE_FIGURES)
    omitted = [figure for figure in composed if figure.empty and figure.name in optional]
    shown = [figure for figure in composed if figure not in omitted]
    all_figures = [figure_values(figure, number, source) for number, figure in enumerate(shown, 1)]
    (
        figures,
        trial_entries,
        flow_entries,
        storage_entries,
        collections,
        transfer_entries,
        infrastructure_entries,
        monitor_entries,
    ) = ([figure for figure in all_figures if figure["name"] in part] for part in parts)
    page = template().render(
        name=campaign.directory.resolve().name,
        heading=summary.heading(source) if with_samples else "",
        policy=charts.security_policy(charts.vega(), charts.EMBED_SCRIPT),
        lead=summary.introduction(source) if with_samples else introduction(with_transfers=with_transfers),
        facts=summary.facts(source) if with_samples else [],
        warnings=warnings.collect(source, excluded, failed, without_reports) if with_samples else [],
        figures=figures,
        tables=add_csv_links(tables.report_tables(source), source) + notes.tables(source) if with_samples else [],
        trials=trial_section(source, trial_entries, papers=papers) if with_trials else None,
        flows=section(flow_entries, flow_section.tables(source, flows, papers=papers), source) if flows else None,
        transfers=transfer_section(source, transfer_entries, omitted) if with_transfers else None,
        infrastructure=(
            section(infrastructure_entries, infrastructure.tables(source), source) if with_infrastructure else None
        ),
        storage=section(storage_entries, storage.tables(source), source) if with_storage else None,
        collections=collections,
        monitored=(
            section(monitor_entries, monitor.tables(source, counted=with_monitor), source)
            if with_monitor or with_searches
            else None
        ),
        papers=add_csv_links(paper_section.tables(source), source) if papers else [],
        provenance_stage=stage,
        provenance=provenance_of(campaign, stage) + (provenance_of_trials(campaign) if with_trials else []),
        vega=charts.vega(),
        start=charts.EMBED_SCRIPT,
    )
    path = campaign.directory / "report.html"
    atomic_text(path, page)
    return path, len(all_figures)


def introduction(*, with_transfers: bool) -> str:
    """Return the first sentence of the report of a campaign without samples."""
    return transfers.INTRODUCTION if with_transfers else infrastructure.INTRODUCTION


def section(figures: list[dict], shown: list[dict], source: Source) -> dict:
    """Return the values of a section with figures and tables."""
    return {"figures": figures, "tables": add_csv_links(shown, source)}


def add_csv_links(shown: list[dict], source: Source) -> list[dict]:
    """Return the tables with the links to their CSV files."""
    return [{**table, "csv": csv_link(table["name"], source)} for table in shown]


def trial_section(source: Source, figures: list[dict], *, papers: bool) -> dict:
    """Return the values of the section on trials."""
    return {
        **{"warnings": trials.warnings(source), "figures": figures},
        "tables": add_csv_links(trials.tables(source, papers=papers), source),
    }


def transfer_section(source: Source, figures: list[dict], omitted: list[ComposedFigure]) -> dict:
    """Return the values of the section on transfers. ``omitted``: figures without data."""
    reasons = [transfers.omission(figure) for figure in omitted if figure.name in registry.TRANSFER_FIGURES]
    return {**section(figures, transfers.tables(source), source), "omitted": reasons}


def template() -> jinja2.Template:
    """Return the template. It escapes all values except those marked as safe: scripts, and JSON from json_script."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def figure_values(figure: ComposedFigure, number: int, source: Source) -> dict:
    """Return the values of a figure: a static image, and the specification of the interactive chart."""
    module = registry.figure_module(figure.name)
    picture = base64.b64encode(svg_of(figure).encode()).decode()
    return {
        **{"name": figure.name, "number": number, "subject": module.SUBJECT, "alt": figure.description},
        "about": module.ABOUT,
        "picture": f"data:image/svg+xml;base64,{picture}",
        "spec": charts.json_script(f"spec-{figure.name}", figure.spec),
        "csv": csv_link(figure.table, source),
        "columns": ", ".join(figure.columns),
    }


@functools.cache
def csv_link(name: str, source: Source) -> dict:
    """Return name, size and link of a table's CSV file; the link contains the data if the file is small."""
    content = require(source.campaign.table(name, "csv"), f"run: {command_for(name, source.campaign)}").read_bytes()
    small = len(content) <= MAX_EMBEDDED
    href = f"data:text/csv;base64,{base64.b64encode(content).decode()}" if small else f"tables/{name}.csv"
    return {"file": f"{name}.csv", "href": href, "embedded": small, "kb": f"{len(content) / 1000:.1f}"}


def provenance_of(campaign: Campaign, stage: str) -> list[dict]:
    """Return the parts of a stage's provenance file with their rows of (name, value).

    The stage is process; without samples, it is transfers or the infrastructure study.
    """
    commands = {TRANSFER_STAGE: "transfers", INFRASTRUCTURE_STAGE: "infrastructure"}
    fix = f"run: acapella campaign {commands.get(stage, stage)} {campaign.directory}"
    return provenance_parts(campaign.provenance(stage), fix)


def provenance_of_trials(campaign: Campaign) -> list[dict]:
    """Return the parts of the provenance file of the tables of trials, in the format of `provenance_of`."""
    parts = provenance_parts(
        campaign.provenance(TRIALS_STAGE), f"run: acapella campaign trials {campaign.directory} --environments ..."
    )
    return [{**part, "label": f"Trials. {part['label']}"} for part in parts]


def provenance_parts(path: Path, fix: str) -> list[dict]:
    """Return the parts of a provenance file with their rows. Raises UserError if it is missing or not JSON."""
    try:
        provenance = json.loads(require(path, fix).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"not JSON: {error}", where=path, fix=fix) from error
    order = {key: index for index, key in enumerate(PROVENANCE)}
    keys = sorted(provenance, key=lambda key: (order.get(key, len(order)), key))
    return [{"key": key, "label": PROVENANCE.get(key, key), "rows": list(flatten("", provenance[key]))} for key in keys]


def flatten(name: str, value: object):
    """Yield the leaves of a JSON value as (dotted name, text)."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flatten(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for index, inner in enumerate(value):
            yield from flatten(f"{name}[{index}]", inner)
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield name, "none" if value is None or text in ("", "{}") else text
