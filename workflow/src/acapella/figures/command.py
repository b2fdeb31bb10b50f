"""Draw a campaign's figures from its published tables.

    acapella campaign figures results/demo
    acapella campaign figures results/demo --only frame_sizes --formats svg pdf

Writes figures/NAME.svg, .pdf, .png (at twice the size) and .html (one file that needs no network). Every figure names
the table that contains its numbers; figures of traffic also state the number of samples and frames, and the losses of
the captures. If a table has nothing to draw, its figure states so. The same tables produce identical files. With
--code, a figure is drawn only if its code, its options or any table has changed since the last run
(figures/.drawn.json).
"""

import argparse
import sys
import time
from pathlib import Path

from acapella.campaign import layout as campaigns
from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean, load_jsonschema

from . import vega
from .drawn import DrawnFigures
from .registry import (
    COLLECTION_FIGURES,
    FLOWREPORT_FIGURES,
    FLOWSTUDY_FIGURES,
    INFRASTRUCTURE_FIGURES,
    MONITOR_FIGURES,
    REPLAY_FIGURES,
    SEARCH_FIGURES,
    STORAGE_FIGURES,
    TRAFFIC_FIGURES,
    TRANSFER_FIGURES,
    TRIAL_FIGURES,
    Missing,
    all_figures,
)

FORMATS = ("svg", "pdf", "png", "html")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign figures` to the command line."""
    parser = subparsers.add_parser(
        "figures",
        help="draw a campaign's figures from its tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"figures: {', '.join(TRAFFIC_FIGURES)}; of trials: {', '.join(TRIAL_FIGURES)}; "
        f"of replays with departures: {', '.join(REPLAY_FIGURES)}; "
        f"of all collections: {', '.join(COLLECTION_FIGURES)}; "
        f"of the storage study: {', '.join(STORAGE_FIGURES)}; "
        f"of flow reports: {', '.join((*FLOWREPORT_FIGURES, *FLOWSTUDY_FIGURES))}; "
        f"of transfers: {', '.join(TRANSFER_FIGURES)}; "
        f"of generated traffic: {', '.join(MONITOR_FIGURES)}; "
        f"of searches for the highest rate: {', '.join(SEARCH_FIGURES)}; "
        f"of the infrastructure study: {', '.join(INFRASTRUCTURE_FIGURES)}",
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="draw only these figures (default: those of samples)")
    parser.add_argument(
        "--trials", action="store_true", help="also draw those of trials (first run acapella campaign trials)"
    )
    parser.add_argument("--replays", action="store_true", help="also draw those of replays with departures")
    parser.add_argument(
        "--flowreports", action="store_true", help="also draw those of flow reports (first run acapella p4 tables)"
    )
    parser.add_argument(
        "--flowstudy",
        action="store_true",
        help="also draw those of the study of flow reports (first run acapella p4 study)",
    )
    parser.add_argument(
        "--transfers", action="store_true", help="also draw those of transfers (first run acapella campaign transfers)"
    )
    parser.add_argument(
        "--infrastructure",
        action="store_true",
        help="also draw those of the infrastructure study (first run acapella campaign infrastructure)",
    )
    parser.add_argument(
        "--monitor", action="store_true", help="also draw those of generated traffic (tables of a monitor)"
    )
    parser.add_argument(
        "--missing",
        type=int,
        default=0,
        metavar="N",
        help="number of failed samples, which are missing from the tables; figures of samples state this number "
        "(default: 0)",
    )
    parser.add_argument(
        "--missing-reports",
        type=int,
        default=0,
        metavar="N",
        help="number of samples whose flow reports failed; figures of flow reports add it to --missing (default: 0)",
    )
    parser.add_argument(
        "--code",
        nargs="+",
        metavar="NAME=VERSION",
        default=[],
        help="code version of a figure, which is drawn only if something has changed (default: draw all)",
    )
    parser.add_argument(
        "--formats",
        nargs="+",
        metavar="FORMAT",
        default=list(FORMATS),
        help="formats to write: svg, pdf, png, html (default: all)",
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    if "html" in args.formats:
        vega.fill_cache()
    # The renderer wakes its threads through a pair of Unix sockets.
    confine_self(Path(args.campaign, "figures"), serves=True)


def run(args: argparse.Namespace) -> None:
    """Write the figures that are not current. Raises UserError for an unknown name or a missing table."""
    requested = {TRIAL_FIGURES: args.trials, REPLAY_FIGURES: args.replays, TRANSFER_FIGURES: args.transfers}
    requested |= {FLOWREPORT_FIGURES: args.flowreports, FLOWSTUDY_FIGURES: args.flowstudy}
    requested |= {INFRASTRUCTURE_FIGURES: args.infrastructure, MONITOR_FIGURES: args.monitor}
    selected = args.only or [*TRAFFIC_FIGURES, *(name for names, on in requested.items() if on for name in names)]
    names = select_names(selected, all_figures(), "--only")
    formats = select_names(args.formats, FORMATS, "--formats")
    campaign = campaigns.open_campaign(args.campaign)
    versions = dict(text.partition("=")[::2] for text in args.code)
    select_names([*versions], all_figures(), "--code")
    drawn = DrawnFigures(campaign, versions, [args.missing, args.missing_reports])
    paths = {name: [campaign.directory / "figures" / f"{name}.{form}" for form in formats] for name in names}
    changed = [name for name in names if not drawn.keep(name, paths[name])]
    if changed:
        draw(campaign, changed, formats, Missing(args.missing, args.missing_reports))
    for name in names:
        drawn.add(name, paths[name])
    drawn.save()
    if len(changed) < len(names):
        print(f"figures: {len(names) - len(changed)} of {len(names)} have not changed", file=sys.stderr)


def draw(campaign: campaigns.Campaign, names: list[str], formats: list[str], missing: Missing) -> None:
    """Write figures; print a line for each. Raises UserError for a missing table."""
    load_jsonschema()
    from .compose import compose_figure  # noqa: PLC0415 (Altair and vl-convert are slow to import)
    from .save import save  # noqa: PLC0415
    from .source import Source  # noqa: PLC0415

    source = Source(campaign)
    for name in names:
        start = time.monotonic()
        paths = save(compose_figure(name, source, missing=missing), campaign.directory / "figures", name, formats)
        seconds = time.monotonic() - start
        print(f"figures: {paths[0].with_suffix('')} ({', '.join(formats)}), {seconds:.1f} s", file=sys.stderr)


def select_names(selected: list[str], known: tuple[str, ...], option: str) -> list[str]:
    """Return the requested names in the order of ``known``. Raises UserError for an unknown name."""
    for name in selected:
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            raise UserError(f"{option}: unknown {name}{hint}")
    return [name for name in known if name in selected]
