"""Make the tables of the study of flow reports: what rate the collector takes, how soon it shows that rates change.

Reads CAMPAIGN/flowstudy/: offered.json (`acapella measure-collector`), response.json (`acapella measure-response`) and
response/ (`acapella flowreports` on its capture). Writes tables/flowreport_offered, flowreport_response and
flowreport_response_counts as csv and parquet. Where nothing could be measured they are empty, the reason is printed.
"""

import argparse
import json
from pathlib import Path

from acapella.campaign.layout import Campaign, opened, require
from acapella.common import queries
from acapella_core import names
from acapella_core.errors import UserError

STAGE = "flowreports"
DIRECTORY = "flowstudy"
TABLES = ("flowreport_offered", "flowreport_response", "flowreport_response_counts")
PARTS = ("compared_flows", "judged_windows", "window_iats", "counts")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella flowstudy`."""
    parser = subparsers.add_parser(
        "flowstudy",
        help="tables of the study of flow reports",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="the campaign's directory, as results/demo")
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the tables. Raises UserError where a part of the study is missing."""
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    campaign = opened(args.campaign)
    made = {"flowreport_offered": offered(read(campaign, "offered", "measure-collector"))}
    told = read(campaign, "response", "measure-response")
    if told["skipped"]:
        names.report(f"flowstudy: rate changes were not measured: {told['skipped']}")
    made |= response(campaign, told)
    written = []
    for name, rows in made.items():
        written += tables.write_rows(rows, name, lambda suffix, name=name: campaign.table(name, suffix))
        names.report(f"flowstudy: tables/{name}: {len(rows)} rows")
    provenance.write_outputs(campaign, "flowstudy", written, pseudonyms=True)  # there are no names in them


def read(campaign: Campaign, name: str, maker: str) -> dict:
    """A file of the study. Raises UserError where it is missing or none."""
    path = campaign.directory / DIRECTORY / f"{name}.json"
    fix = f"run: acapella {maker} -o {path}"
    try:
        told = json.loads(require(path, fix).read_text(encoding="utf-8"))
        if told["version"] == 1:
            return told
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError("not of this version's study", where=path, fix=fix)


def offered(told: dict) -> list[dict]:
    """The rows of flowreport_offered."""
    return [{"place": place, **row} for place, row in enumerate(told["runs"], 1)]


def response(campaign: Campaign, told: dict) -> dict[str, list[dict]]:
    """The rows of flowreport_response and flowreport_response_counts."""
    if told["skipped"]:
        return {"flowreport_response": [], "flowreport_response_counts": []}
    directory = campaign.directory / DIRECTORY / "response"
    with queries.one_line(directory):
        con = queries.connect()
        for part in PARTS:
            con.read_parquet(str(part_of(directory, part))).create_view(part)
        counts = con.table("counts").to_arrow_table().to_pylist()
        window_ns = next(row["value"] for row in counts if (row["stage"], row["counter"]) == ("settings", "window_ns"))
        con.execute("create temp table named_flows (name varchar, dst_port usmallint)")
        con.executemany("insert into named_flows values (?, ?)", [(f["name"], f["dst_port"]) for f in told["flows"]])
        con.execute("create temp table steps (name varchar, at_ns bigint, bps double)")
        con.executemany("insert into steps values (?, ?, ?)", steps(told))
        rows = queries.select(con, STAGE, "response", {"length_ns": window_ns}).to_arrow_table().to_pylist()
    return {"flowreport_response": rows, "flowreport_response_counts": counts + background(told, len(counts))}


def background(told: dict, place: int) -> list[dict]:
    """Return the settings of the background traffic as rows of flowreport_response_counts after ``place``."""
    settings = told.get("background", {})  # files of earlier versions have none
    return [
        {"place": at, "stage": "settings", "counter": name, "value": value}
        for at, (name, value) in enumerate(settings.items(), place + 1)
    ]


def part_of(directory: Path, part: str) -> Path:
    """A file that `acapella flowreports` wrote of the study's capture."""
    return require(
        directory / f"{part}.parquet",
        f"run: acapella flowreports {directory}.pcap -o {directory} --window 100ms --epoch 100ms",
    )


def steps(told: dict) -> list[tuple]:
    """(flow, time, rate) of each change; None at the end."""
    return [
        (flow["name"], step["at_ns"], step["rates_bps"][place] if step["rates_bps"] else None)
        for step in told["steps"]
        for place, flow in enumerate(told["flows"])
    ]
