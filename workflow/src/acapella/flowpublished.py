"""Put what the P4/RDMA paper printed of its measurements beside a campaign's own.

Reads workflow/conformance/flowreports_printed.csv and, of the campaign, the tables of `acapella flowtables` and
`acapella flowstudy`; writes tables/flowreport_published as csv and parquet. A row agrees where ours is what was
printed, or in the range that was; else it differs, and the reason stands beside it.
"""

import argparse
import csv
from pathlib import Path

from acapella_core.errors import UserError

from .campaign import Campaign, opened

TABLE = "flowreport_published"
PRINTED = Path(__file__).resolve().parents[2] / "conformance" / "flowreports_printed.csv"
COLUMNS = ("name", "where", "what", "printed", "low", "high", "reason")
ALL = "all"


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella flowpublished`."""
    parser = subparsers.add_parser(
        "flowpublished", help="the P4/RDMA paper's numbers beside a campaign's", description=__doc__
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="the campaign's folder, as results/demo")
    parser.add_argument("--flowreports", action="store_true", help="it has the tables of acapella flowtables")
    parser.add_argument("--flowstudy", action="store_true", help="it has the tables of acapella flowstudy")
    parser.add_argument("--printed", type=Path, default=PRINTED, metavar="CSV", help=f"default: {PRINTED.name}")
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the table and count the verdicts."""
    from . import provenance, tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    campaign = opened(args.campaign)
    ours = (samples_of(campaign) if args.flowreports else {}) | (study_of(campaign) if args.flowstudy else {})
    rows = [judged(place, row, ours.get(row["name"])) for place, row in enumerate(read(args.printed), 1)]
    written = tables.write_rows(rows, TABLE, lambda suffix: campaign.table(TABLE, suffix))
    provenance.write_outputs(campaign, "flowpublished", written, pseudonyms=True)  # there are no names in it
    counts = {row["verdict"]: sum(other["verdict"] == row["verdict"] for other in rows) for row in rows}
    print(f"tables/{TABLE}: " + ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())))


def read(path: Path) -> list[dict]:
    """The printed numbers. Raises UserError for what is no such table."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        if rows and all(tuple(row) == COLUMNS for row in rows):
            return [{**row, "low": float(row["low"]), "high": float(row["high"] or "inf")} for row in rows]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"not a table of {', '.join(COLUMNS)}", where=path) from error
    raise UserError(f"not a table of {', '.join(COLUMNS)}", where=path)


def judged(place: int, row: dict, ours: tuple | None) -> dict:
    """A row of the table; ``ours`` is the number and how it is written."""
    told = {"row": place, **{name: row[name] for name in ("where", "what", "printed", "reason")}, "ours": None}
    if ours is None or ours[0] is None:
        return {**told, "verdict": "not measured", **({"ours": ours[1]} if ours else {})}
    number, text = ours
    return {**told, "ours": text, "verdict": "agrees" if row["low"] <= number <= row["high"] else "differs"}


def rows_of(campaign: Campaign, name: str) -> list[dict]:
    """A table of the campaign."""
    from .figures.source import Source  # noqa: PLC0415 (pyarrow)

    return Source(campaign).rows(name)


def samples_of(campaign: Campaign) -> dict[str, tuple]:
    """What the samples' flow reports say, by the printed row's name: (number, text)."""
    accuracy = {row["measure"]: row for row in rows_of(campaign, "flowreport_accuracy") if row["sample"] == ALL}
    named = {"r2_rtt": "rtt_syn", "r2_bytes": "bytes", "r2_packets": "packets", "r2_others": "throughput_reports"}
    found = {name: agreement(accuracy.get(measure)) for name, measure in named.items()}
    seconds = [row for row in rows_of(campaign, "flowreport_seconds") if row["whole"]]
    mean = sum(row["reports"] for row in seconds) / len(seconds) if seconds else None
    found["reports_mean"] = (mean, None if mean is None else f"{mean:,.0f}")
    balance = [row for row in rows_of(campaign, "flowreport_counts") if row["stage"] == "balance"]
    lost = sum(row["value"] for row in balance if row["counter"] == "reports_not_taken")
    sent = sum(row["value"] for row in balance if row["counter"] == "reports_sent")
    found["loss_proposed"] = (float(lost), f"0 % of frames; {lost:,} of {sent:,} reports not taken")
    zeek = [row for row in rows_of(campaign, "flowreport_tools") if row["tool"] == "zeek"]
    ran = [row["missed_share"] for row in zeek if row["missed_share"] is not None]
    if ran:
        found["loss_zeek"] = (max(ran), f"{100 * max(ran):.2f} % at the most")
    elif zeek:
        found["loss_zeek"] = (None, zeek[0]["skipped"])
    return found


def agreement(row: dict | None) -> tuple:
    """R2 of values and of logarithms: the lesser one counts."""
    if row is None or row["r2"] is None:
        return None, None
    both = [row["r2"], *([] if row["r2_log"] is None else [row["r2_log"]])]
    return min(both), f"{' and on logarithms '.join(f'{value:.9g}' for value in both)}, n = {row['n']:,}"


def study_of(campaign: Campaign) -> dict[str, tuple]:
    """What the study says."""
    rows = rows_of(campaign, "flowreport_offered")
    whole = [row["reached_rps"] for row in rows if row["success_share"] is not None and row["success_share"] > 0.9999]
    best = max(whole, default=None)
    threads = ", ".join(sorted({f"{row['threads']} thread{'s' * (row['threads'] > 1)}" for row in rows}))
    found = {"success_rate": (best, None if best is None else f"{best / 1e6:.3g} million, {threads}")}
    beyond = [row["accepted"] / row["seconds"] for row in rows if row["lost"] and row["seconds"]]
    if beyond:
        found["beyond"] = (min(beyond), f"{min(beyond) / 1e6:.3g} million at the least")
    return found
