"""Create the tables of the flow report study: rates accepted by the collector, delay until reports show a new rate.

    acapella measure collector -o results/study/flowstudy/offered.json
    acapella p4 study results/study

Reads CAMPAIGN/flowstudy/: offered.json (`acapella measure collector`), response.json (`acapella measure response`) and
response/ (`acapella p4 reports` on its capture). Writes tables/flowreport_offered, flowreport_response and
flowreport_response_counts as CSV and Parquet. If the measurement of the response was skipped, its tables are empty, and
the reason is printed.
"""

import argparse
import json
from pathlib import Path

from acapella.campaign.layout import Campaign, open_campaign, require
from acapella.common import queries
from acapella_core import names
from acapella_core.errors import UserError

STAGE = "flowreports"
DIRECTORY = "flowstudy"
TABLES = ("flowreport_offered", "flowreport_response", "flowreport_response_counts")
PARTS = ("compared_flows", "judged_windows", "window_iats", "counts")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 study`."""
    parser = subparsers.add_parser(
        "study",
        help="create the tables of the flow report study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the tables. Raises UserError if a part of the study is missing."""
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    campaign = open_campaign(args.campaign)
    rows_by_table = {"flowreport_offered": offered(read(campaign, "offered", "measure collector"))}
    study = read(campaign, "response", "measure response")
    if study["skipped"]:
        names.report(f"flowstudy: rate changes were not measured: {study['skipped']}")
    rows_by_table |= response(campaign, study)
    written = []
    for name, rows in rows_by_table.items():
        written += tables.write_rows(rows, name, lambda suffix, name=name: campaign.table(name, suffix))
        names.report(f"flowstudy: tables/{name}: {names.pluralize(len(rows), 'row')}")
    provenance.write_outputs(campaign, "flowstudy", written, pseudonyms=True)  # the tables contain no names


def read(campaign: Campaign, name: str, command: str) -> dict:
    """Return a file of the study. Raises UserError if it is missing or invalid."""
    path = campaign.directory / DIRECTORY / f"{name}.json"
    fix = f"run: acapella {command} -o {path}"
    try:
        study = json.loads(require(path, fix).read_text(encoding="utf-8"))
        if study["version"] == 1:
            return study
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError("not a study in the format of this version", where=path, fix=fix)


def offered(study: dict) -> list[dict]:
    """Return the rows of flowreport_offered."""
    return [{"place": number, **row} for number, row in enumerate(study["runs"], 1)]


def response(campaign: Campaign, study: dict) -> dict[str, list[dict]]:
    """Return the rows of flowreport_response and flowreport_response_counts."""
    if study["skipped"]:
        return {"flowreport_response": [], "flowreport_response_counts": []}
    directory = campaign.directory / DIRECTORY / "response"
    with queries.one_line(directory):
        con = queries.connect()
        for part in PARTS:
            con.read_parquet(str(part_of(directory, part))).create_view(part)
        counts = con.table("counts").to_arrow_table().to_pylist()
        window_ns = next(row["value"] for row in counts if (row["stage"], row["counter"]) == ("settings", "window_ns"))
        con.execute("create temp table named_flows (name varchar, dst_port usmallint)")
        queries.insert(con, "named_flows", [(f["name"], f["dst_port"]) for f in study["flows"]])
        con.execute("create temp table steps (name varchar, at_ns bigint, bps double)")
        queries.insert(con, "steps", steps(study))
        rows = queries.select(con, STAGE, "response", {"length_ns": window_ns}).to_arrow_table().to_pylist()
    return {"flowreport_response": rows, "flowreport_response_counts": counts + background(study, len(counts))}


def background(study: dict, last: int) -> list[dict]:
    """Return the settings of the background traffic as rows of flowreport_response_counts after row ``last``."""
    settings = study.get("background", {})  # missing from files of earlier versions
    return [
        {"place": number, "stage": "settings", "counter": name, "value": value}
        for number, (name, value) in enumerate(settings.items(), last + 1)
    ]


def part_of(directory: Path, part: str) -> Path:
    """Return the path of a file that `acapella p4 reports` wrote for the study's capture."""
    return require(
        directory / f"{part}.parquet",
        f"run: acapella p4 reports {directory}.pcap -o {directory} --window 100ms --epoch 100ms",
    )


def steps(study: dict) -> list[tuple]:
    """Return (flow, time, rate) of each change; the rate is None at the end."""
    return [
        (flow["name"], step["at_ns"], step["rates_bps"][index] if step["rates_bps"] else None)
        for step in study["steps"]
        for index, flow in enumerate(study["flows"])
    ]
