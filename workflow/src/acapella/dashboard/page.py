"""Writes the pages of a dashboard from their template."""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from acapella import report
from acapella.campaign.outcomes import OUTCOMES
from acapella.common.security_policy import security_policy
from acapella.common.wording import count, natural, scaled
from acapella.report.summary import utc_text
from acapella.report.warnings import shorten_list
from acapella_core import beneath

from . import cells, files
from .campaigns import REPORT, SITES, campaign_names, has_report
from .cells import CHART, DATE, EMPTY, NUMBER, TEXT, Cell
from .charts import Axis, chart, sparkline
from .counts import Counts, total
from .history import CAMPAIGN_TRENDS, FLOWS, KAPPA, LOSS, PLACE_TRENDS, RATE, History
from .outcomes import Outcomes, outcome_cell, read_outcomes
from .summaries import FILE as SUMMARIES
from .summaries import Summary, read_summaries

HERE = Path(__file__).parent
INDEX = "index.html"
PSEUDONYMS = "Campaigns with pseudonyms are not in the trends of sites and ports: S0 is a different site in each."
QUANTITIES = (
    "Of samples in traffic statistics. Mean rate of a port: bytes on the wire divided by the time captured. Lost "
    "frames: at all stages with counters, as a share of the frames offered. Flows are directed and counted per sample. "
    "Frames that a filter or sampling omitted are not counted. Hollow marks: campaigns that captured less than a "
    "quarter of the median time of the campaigns in the chart."
)


@dataclass(frozen=True)
class Dashboard:
    """The input of all pages. ``reports``: campaigns that have a report; ``base``: link to the campaigns."""

    history: History
    outcomes: Outcomes
    reports: frozenset[str]
    base: str = ".."
    warnings: Sequence[str] = ()


def write(results: Path, output: Path, selected: Sequence[str] | None = None) -> tuple[Path, int, int]:
    """Write the pages and tables; return the first page, the number of campaigns, and the number of reread campaigns.

    Raises UserError if the directory ``results`` or a ``selected`` campaign does not exist.
    """
    names = campaign_names(results, selected, output)
    beneath.protect(output)
    summaries, read = read_summaries(results, names, output / SUMMARIES)
    outcomes, fault = read_outcomes(results / "outcomes.csv")
    reports = frozenset(name for name in names if has_report(results / name))
    base = cells.link_to(*Path(os.path.relpath(results.resolve(), output.resolve())).parts) or "."
    dashboard = Dashboard(History(summaries), outcomes, reports, base, [fault] if fault else [])
    write_files(dashboard, output)
    return output / INDEX, len(names), read


def write_files(dashboard: Dashboard, output: Path) -> None:
    """Write the pages and tables of a dashboard; remove pages of sites that no longer exist."""
    history = dashboard.history
    template, script = page_template(), (HERE / "sort.js").read_text(encoding="utf-8")
    common = {"policy": security_policy(script), "script": Markup(script)}
    files.write_changed(output / "campaigns.csv", files.campaigns_csv(history))
    files.write_changed(output / "ports.csv", files.ports_csv(history))
    pages = {site: files.site_file(site) for site in history.sites}
    for site, name in pages.items():
        files.write_changed(output / SITES / name, template.render(site_page(dashboard, site) | common))
    files.write_changed(output / INDEX, template.render(index_page(dashboard) | common))
    files.remove_others(output / SITES, pages.values())


def page_template() -> jinja2.Template:
    """Return the template. It escapes all values except those that are marked as safe: our script and our SVG."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, Path(report.__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def index_page(dashboard: Dashboard) -> dict:
    """Return the values of the first page."""
    history = dashboard.history
    sections = [
        section("campaigns", "Campaigns", table=campaign_table(dashboard)),
        section("trends", "Trends", note=QUANTITIES, groups=[{"title": "", "figures": campaign_figures(history)}]),
        section("sites", "Sites", note=PSEUDONYMS if pseudonymous(history) else "", table=site_table(history)),
    ]
    return {
        **{"heading": "Campaigns", "lead": "Campaigns over time, from their published tables.", "up": None},
        **{"facts": facts(history), "warnings": warnings(dashboard), "sections": sections},
    }


def section(name: str, title: str, *, note: str = "", table: dict | None = None, groups: Sequence[dict] = ()) -> dict:
    """Return the values of a section for the template."""
    return {"id": name, "title": title, "note": note, "table": table, "groups": groups}


def pseudonymous(history: History) -> list[str]:
    """Return the campaigns whose tables have pseudonyms."""
    return [name for name in history.readable if history.summaries[name].pseudonyms]


def facts(history: History) -> list[tuple[str, str]]:
    """Return names and values for the top of the first page."""
    readable = [history.summaries[name] for name in history.readable]
    sums = total(summary.counts for summary in readable)
    unreadable = len(history.names) - len(readable)
    campaigns = f"{len(history.names):,}{f', {unreadable:,} without results' if unreadable else ''}"
    ports = sum(map(len, history.sites.values()))
    rows = [("Campaigns", campaigns), ("Sites", f"{len(history.sites):,} ({count(ports, 'port')})")]
    if history.dated:
        first, last = (utc_text(stamp)[:10] for stamp in history.span)
        rows.insert(1, ("Starts", first if first == last else f"{first} to {last} (UTC)"))
    rows += [("Samples", f"{sums.samples:,}"), ("Frames", f"{sums.frames:,}")]
    return [*rows, ("Bytes on the wire", scaled(sums.wire_bytes, "B"))]


def warnings(dashboard: Dashboard) -> list[str]:
    """Return the warnings of the first page, one sentence each."""
    history = dashboard.history
    summaries = history.summaries
    unreadable = [name for name in history.names if summaries[name].reason]
    partly = [name for name in history.names if summaries[name].notes]
    untimed = [name for name in history.readable if summaries[name].start_ns is None]
    texts = [
        (unreadable, "without results (reasons in column State)"),
        (partly, "with parts that cannot be read (reasons in column State)"),
        (untimed, "without times, not in the trends"),
        (sorted(history.misdated, key=natural), "more than 10 years from the median start, not in the trends"),
        (pseudonymous(history), "with pseudonyms, not in the trends of sites and ports"),
    ]
    return [
        *(
            f"{count(len(names), 'campaign')} {text}: {shorten_list([*map(cells.shown, names)])}."
            for names, text in texts
            if names
        ),
        *(f"{text}." for text in dashboard.warnings),
    ]


def campaign_table(dashboard: Dashboard) -> dict:
    """Return the table of all campaigns, the latest first."""
    history = dashboard.history
    columns = [("Campaign", TEXT), ("Start (UTC)", DATE), ("Sites", NUMBER), ("Ports", NUMBER), ("Samples", NUMBER)]
    columns += [("Captured", NUMBER), ("Frames", NUMBER), ("Bytes", NUMBER), ("Lost frames", NUMBER), ("Flows", NUMBER)]
    columns += [("Lowest kappa", NUMBER), ("Outcomes of sites", TEXT), ("State", TEXT)]
    order = cells.ranks(history.names)
    states = {name: state_text(history.summaries[name]) for name in history.names}
    state_order = cells.ranks([*states.values()])
    rows = [
        [
            name_cell(dashboard, name, order[name], dashboard.base),
            *summary_cells(history.summaries[name]),
            outcome_cell(dashboard.outcomes.get(name)),
            Cell(states[name], state_order[states[name]]),
        ]
        for name in history.names
    ]
    note = (
        "Names are links to reports. Samples, captured time, frames, bytes and losses include samples that are "
        "excluded from traffic statistics, such as trials; sites, ports and flows do not. Captured: sum of the "
        "durations of samples. Kappa: mean of an environment. Outcomes: of the latest collection."
    )
    table = cells.table("campaigns", "All campaigns", note, columns, rows)
    return table | {"csv": {"file": "campaigns.csv", "href": "campaigns.csv"}}


def state_text(summary: Summary) -> str:
    """Return ``complete`` or ``complete, pseudonyms``, or what cannot be read: the reason or the parts."""
    return summary.reason or "; ".join(summary.notes) or ("complete, pseudonyms" if summary.pseudonyms else "complete")


def name_cell(dashboard: Dashboard, name: str, rank: int, base: str) -> Cell:
    """Return the cell of a campaign: a link to its report, if it has one."""
    href = f"{base}/{cells.link_to(name, REPORT)}" if name in dashboard.reports else None
    return Cell(cells.shown(name), rank, href)


def summary_cells(summary: Summary) -> list[Cell]:
    """Return the cells from the start of a campaign to its kappa."""
    if summary.reason:
        return [EMPTY] * 10
    counts = summary.counts
    return [
        cells.date(summary.start_ns),
        cells.number(len({place.site for place in summary.places})),
        cells.number(len(summary.places)),
        *(cells.number(counts.samples), cells.captured(counts.duration_ns), cells.number(counts.frames)),
        cells.quantity(counts.wire_bytes, "B"),
        *(cells.share(counts.loss_share), cells.number(counts.flows)),
        kappa_cell(lowest_kappa(summary)),
    ]


def lowest_kappa(summary: Summary) -> float | None:
    """Return the smallest mean kappa of an environment; None if there is none."""
    return min((env.kappa for env in summary.environments if env.kappa is not None), default=None)


def kappa_cell(kappa: float | None) -> Cell:
    """Return the cell of kappa."""
    return EMPTY if kappa is None else Cell(f"{kappa:.3f}", round(kappa, 9))


def campaign_figures(history: History) -> list[dict]:
    """Return the trends over all campaigns."""
    # Only samples in traffic statistics, as in the trends of sites and ports.
    counts = {name: total(place.counts for place in history.summaries[name].places) for name in history.dated}
    figures = [figure(history, trend.axis, history.trend(trend, counts)) for trend in CAMPAIGN_TRENDS]
    kappas = {name: kappa for name in history.dated if (kappa := lowest_kappa(history.summaries[name])) is not None}
    return [*figures, *([figure(history, KAPPA, history.points(kappas))] if kappas else [])]


def figure(history: History, axis: Axis, points: list, subject: str = "") -> dict:
    """Return the values of a figure for the template."""
    return {"title": axis.name, "svg": Markup(chart(points, axis, history.span, subject))}


def site_table(history: History) -> dict:
    """Return the table of sites."""
    order = cells.ranks([*history.sites])
    rows = []
    for site, ports in history.sites.items():
        name = Cell(cells.shown(site), order[site], cells.link_to(SITES, files.site_file(site)))
        rows.append([name, cells.number(len(ports)), *trend_cells(history, history.site_counts(site))])
    columns = [("Site", TEXT), ("Ports", NUMBER), *TREND_COLUMNS]
    table = cells.table("sites", "All sites", "Names are links to pages with the trends of each port.", columns, rows)
    return table | {"csv": {"file": "ports.csv", "href": "ports.csv"}}


TREND_COLUMNS = [
    *(("Campaigns", NUMBER), ("Latest (UTC)", DATE), ("Samples", NUMBER), ("Latest rate", NUMBER)),
    *(("Median rate", NUMBER), ("Latest loss", NUMBER), ("Highest loss", NUMBER), ("Latest flows", NUMBER)),
    ("Rate over time", CHART),
]


def trend_cells(history: History, counts: Mapping[str, Counts]) -> list[Cell]:
    """Return the cells of TREND_COLUMNS of a site or a port. ``counts`` are by campaign."""
    dated = [name for name in history.dated if name in counts]
    latest = counts[dated[-1]] if dated else Counts()
    rates = [rate for name in dated if (rate := counts[name].rate_bps) is not None]
    losses = [loss for name in dated if (loss := counts[name].loss_share) is not None]
    return [
        cells.number(len(counts)),
        cells.date(history.summaries[dated[-1]].start_ns if dated else None),
        cells.number(sum(sums.samples for sums in counts.values())),
        cells.quantity(latest.rate_bps, "bit/s"),
        cells.quantity(statistics.median(rates) if rates else None, "bit/s"),
        *(cells.share(latest.loss_share), cells.share(max(losses, default=None)), cells.number(latest.flows)),
        Cell(Markup(sparkline(history.trend(RATE, counts), RATE.axis, history.span))),
    ]


def site_page(dashboard: Dashboard, site: str) -> dict:
    """Return the values of the page of a site."""
    history, ports = dashboard.history, dashboard.history.sites[site]
    counts = history.site_counts(site)
    figures = [figure(history, trend.axis, history.trend(trend, counts)) for trend in PLACE_TRENDS]
    groups = [
        {
            "title": f"Port {cells.shown(port)}",
            "figures": [
                figure(history, trend.axis, history.trend(trend, by_campaign), f"port {cells.shown(port)}")
                for trend in PLACE_TRENDS
            ],
        }
        for port, by_campaign in ports.items()
    ]
    sections = [
        section("trends", "Trends", note=QUANTITIES, groups=[{"title": "", "figures": figures}]),
        section("ports", "Ports", table=port_table(history, ports), groups=groups),
        section("campaigns", "Campaigns", table=site_campaigns(dashboard, site, counts)),
    ]
    site_facts = [("Ports", f"{len(ports):,}"), ("Campaigns", f"{len(counts):,}")]
    return {
        **{"heading": f"Site {cells.shown(site)}", "lead": "Samples in traffic statistics.", "up": f"../{INDEX}"},
        **{"facts": site_facts, "warnings": [], "sections": sections},
    }


def port_table(history: History, ports: Mapping[str, Mapping[str, Counts]]) -> dict:
    """Return the table of the ports of a site."""
    order = cells.ranks([*ports])
    rows = [
        [Cell(cells.shown(port), order[port]), *trend_cells(history, by_campaign)]
        for port, by_campaign in ports.items()
    ]
    return cells.table("ports", "All ports", "", [("Port", TEXT), *TREND_COLUMNS], rows)


def site_campaigns(dashboard: Dashboard, site: str, counts: Mapping[str, Counts]) -> dict:
    """Return the table of the campaigns that have samples of a site."""
    history = dashboard.history
    columns = [("Campaign", TEXT), ("Start (UTC)", DATE), ("Samples", NUMBER), ("Captured", NUMBER), ("Frames", NUMBER)]
    columns += [("Bytes", NUMBER)]
    columns += [(trend.axis.name, NUMBER) for trend in (RATE, LOSS, FLOWS)] + [("Outcome", TEXT)]
    order = cells.ranks([*counts])
    rows = [
        [
            name_cell(dashboard, name, order[name], f"../{dashboard.base}"),
            cells.date(history.summaries[name].start_ns),
            *(cells.number(sums.samples), cells.captured(sums.duration_ns), cells.number(sums.frames)),
            cells.quantity(sums.wire_bytes, "B"),
            *(cells.quantity(sums.rate_bps, "bit/s"), cells.share(sums.loss_share), cells.number(sums.flows)),
            outcome_of_site(dashboard.outcomes.get(name, {}).get(site)),
        ]
        for name, sums in counts.items()
    ]
    table = cells.table("campaigns", "Campaigns with this site", "", columns, rows)
    return table | {"csv": {"file": "ports.csv", "href": "../ports.csv"}}


def outcome_of_site(outcome: str | None) -> Cell:
    """Return the cell of the outcome of a site; empty without a collection."""
    return EMPTY if outcome is None else Cell(outcome, OUTCOMES.index(outcome))
