"""Compare the measurements printed in the P4/RDMA paper with those of a campaign.

    acapella p4 published results/demo --flowreports
    acapella p4 published results/demo --flowreports --flowstudy

Reads workflow/conformance/flowreports_printed.csv and the campaign's tables from `acapella p4 tables` and `acapella p4
study`; writes tables/flowreport_published as CSV and Parquet. A row agrees if the campaign's value is in the printed
range; otherwise, it differs, or it is not measured. An R2 row agrees only if R2 is in that range for all measures that
it covers and for their logarithms, and all of these measures agree (docs/flowreports.md). Reasons for differences are
in the table.
"""

import argparse
import csv
from pathlib import Path

from acapella.campaign.layout import Campaign, open_campaign, require
from acapella.common import agreement
from acapella_core.errors import UserError

TABLE = "flowreport_published"
PRINTED = Path(__file__).resolve().parents[3] / "conformance" / "flowreports_printed.csv"
IN_FIGURE = {"r2_rtt": ("rtt_syn",), "r2_bytes": ("bytes",), "r2_packets": ("packets",)}
NOT_IN_FIGURE = tuple(name for name in agreement.DERIVED.values() if (name,) not in IN_FIGURE.values())
COVERED = {**IN_FIGURE, "r2_others": NOT_IN_FIGURE}  # name of a printed row: measures that it covers
COLUMNS = ("name", "where", "what", "printed", "low", "high", "reason")
ALL = "all"


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 published`."""
    parser = subparsers.add_parser(
        "published", help="compare a campaign with the P4/RDMA paper's numbers", description=__doc__
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    parser.add_argument("--flowreports", action="store_true", help="use the tables of acapella p4 tables")
    parser.add_argument("--flowstudy", action="store_true", help="use the tables of acapella p4 study")
    parser.add_argument(
        "--printed", type=Path, default=PRINTED, metavar="CSV", help=f"printed numbers (default: {PRINTED.name})"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the table and print the number of rows with each verdict."""
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    campaign = open_campaign(args.campaign)
    ours = (samples_of(campaign) if args.flowreports else {}) | (study_of(campaign) if args.flowstudy else {})
    rows = [table_row(row_number, row, ours.get(row["name"])) for row_number, row in enumerate(read(args.printed), 1)]
    written = tables.write_rows(rows, TABLE, lambda suffix: campaign.table(TABLE, suffix))
    provenance.write_outputs(campaign, "flowpublished", written, pseudonyms=True)  # the table contains no names
    counts = {row["verdict"]: sum(other["verdict"] == row["verdict"] for other in rows) for row in rows}
    print(f"tables/{TABLE}: " + ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())))


def read(path: Path) -> list[dict]:
    """Return the printed numbers. Raises UserError for any other table."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        if rows and all(tuple(row) == COLUMNS for row in rows):
            return [{**row, "low": float(row["low"]), "high": float(row["high"] or "inf")} for row in rows]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"not a table of {', '.join(COLUMNS)}", where=path) from error
    raise UserError(f"not a table of {', '.join(COLUMNS)}", where=path)


def table_row(row_number: int, row: dict, ours: tuple | None) -> dict:
    """Return a row of the table; ``ours`` is the number, its text, and optionally why it does not agree."""
    columns = {"row": row_number, **{name: row[name] for name in ("where", "what", "printed", "reason")}, "ours": None}
    if ours is None or ours[0] is None:
        return {**columns, "verdict": "not measured", **({"ours": ours[1]} if ours else {})}
    number, text, *disagreement = ours
    agrees = row["low"] <= number <= row["high"] and not any(disagreement)
    return {**columns, "ours": text, "verdict": "agrees" if agrees else "differs"}


def rows_of(campaign: Campaign, name: str) -> list[dict]:
    """Return the rows of a table of the campaign."""
    from acapella.common import tables  # noqa: PLC0415 (pyarrow)

    fix = f"run: acapella p4 {'study' if name == 'flowreport_offered' else 'tables'} {campaign.directory}"
    return tables.read(name, require(campaign.table(name, "parquet"), fix), fix).to_pylist()


def samples_of(campaign: Campaign) -> dict[str, tuple]:
    """Return the results of the samples by the name of the printed row: (number, text)."""
    rows = agreement.own_rows(rows_of(campaign, "flowreport_accuracy"))
    accuracy = {row["measure"]: row for row in rows if row["sample"] == ALL}
    results = {name: worst_of(accuracy, measures) for name, measures in COVERED.items()}
    seconds = [row for row in rows_of(campaign, "flowreport_seconds") if row["whole"]]
    mean = sum(row["reports"] for row in seconds) / len(seconds) if seconds else None
    results["reports_mean"] = (mean, None if mean is None else f"{mean:,.0f}")
    balance = [row for row in rows_of(campaign, "flowreport_counts") if row["stage"] == "balance"]
    lost = sum(row["value"] for row in balance if row["counter"] == "reports_not_taken")
    sent = sum(row["value"] for row in balance if row["counter"] == "reports_sent")
    results["loss_proposed"] = (None, f"read from a file, not replayed; {lost:,} of {sent:,} reports not accepted")
    zeek = [row for row in rows_of(campaign, "flowreport_tools") if row["tool"] == "zeek"]
    missed_shares = [row["missed_share"] for row in zeek if row["missed_share"] is not None]
    if missed_shares:
        results["loss_zeek"] = (max(missed_shares), f"{100 * max(missed_shares):.2f} % at most")
    elif zeek:
        results["loss_zeek"] = (None, zeek[0]["skipped"])
    return results


def worst_of(accuracy: dict[str, dict], measures: tuple[str, ...]) -> tuple:
    """Return R2 of the worst of several measures, this measure as text, and the reason why not all agree, or None.

    R2 is the smaller one of values and of logarithms; if it is undefined because all exact values are equal, the share
    of equal values is used instead. A measure without values does not agree; R2 is None if some have too few values
    and all others agree.
    """
    rows = [accuracy.get(measure) for measure in measures]
    if not any(row and row["n"] + row["missing"] for row in rows):
        return None, None
    with_values = [row for row in rows if row and row["n"] + row["missing"]]
    worst = min(with_values, key=agreement.severity)
    r2 = [worst[name] for name in ("r2", "r2_log") if worst[name] is not None]
    min_r2 = min(r2, default=worst["equal"] / worst["n"] if worst["n"] else 0.0)
    text = " and on logarithms ".join(f"{value:.9g}" for value in r2) or "R2 undefined (all exact values are equal)"
    missing = f"{100 * worst['missing_share']:.3g} % missing"
    name = f"{worst['measure']}: " if len(measures) > 1 else ""
    reasons = {row["measure"]: agreement.disagreement(row) for row in with_values}
    reasons |= {measure: "no values" for measure, row in zip(measures, rows, strict=True) if row not in with_values}
    disagreements = "; ".join(f"{measure}: {reason}" for measure, reason in reasons.items() if reason)
    suffix = f"; below the bounds: {disagreements}" if disagreements and len(measures) > 1 else ""
    stated = [reason for reason in reasons.values() if reason]
    if stated and all(reason.startswith(agreement.TOO_FEW) for reason in stated):
        min_r2 = None
    return min_r2, f"{name}{text}, n = {worst['n']:,}, {missing}{suffix}", disagreements or None


def study_of(campaign: Campaign) -> dict[str, tuple]:
    """Return the results of the study."""
    rows = [row for row in rows_of(campaign, "flowreport_offered") if row["trace"] is None]
    failing = min((row["offered_rps"] for row in rows if (row["success_share"] or 0) <= 0.9999), default=float("inf"))
    successful = [row["offered_rps"] for row in rows if row["offered_rps"] < failing]
    best = max(successful, default=None)
    threads = ", ".join(sorted({f"{row['threads']} thread{'s' * (row['threads'] > 1)}" for row in rows}))
    results = {"success_rate": (best, None if best is None else f"{best / 1e6:.3g} million, {threads}")}
    accepted_above = [row["accepted"] / row["seconds"] for row in rows if row["lost"] and row["seconds"]]
    if accepted_above:
        results["beyond"] = (min(accepted_above), f"{min(accepted_above) / 1e6:.3g} million or more")
    return results
