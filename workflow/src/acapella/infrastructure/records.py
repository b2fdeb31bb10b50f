"""Write slice records from the slice list of FABRIC's orchestrator.

    acapella campaign slice-records list.json -o slices.csv
    acapella campaign slice-records page-1.json page-2.json -o slices.csv

IN is the list as JSON: the response to GET /slices, or several responses (one per page, or from several days). If a
slice is in several lists, the latest lease end is used. The records contain the lease and the sites of each slice
(from its model). They contain no name or identifier of a slice, project or person. OUT is the CSV file that config key
infrastructure.slices names (docs/infrastructure.md).
"""

import argparse
import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from acapella_core import names
from acapella_core.arguments import output_file
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from .advertisement import NAMESPACE, properties
from .inputs import columns_of
from .slices import TABLE, time_ns


class SliceRecord(NamedTuple):
    """A slice of the list: its lease, its sites separated by spaces, and its identifier."""

    start_ns: int
    end_ns: int
    start: str
    end: str
    sites: str
    identifier: str


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign slice-records`."""
    parser = subparsers.add_parser(
        "slice-records",
        help="write slice records from the slice list of FABRIC's orchestrator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("lists", nargs="+", type=Path, metavar="IN", help="slice list (JSON)")
    parser.add_argument(
        "-o", "--output", required=True, type=output_file("CSV", Path), metavar="OUT", help="slice records (CSV)"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the records. Raises UserError if a list is malformed."""
    latest: dict[str, SliceRecord] = {}
    for record in (record for path in args.lists for record in records(path)):
        kept = latest.setdefault(record.identifier, record)
        if (record.end_ns, record.sites) > (kept.end_ns, kept.sites):
            latest[record.identifier] = record
    rows = sorted(latest.values())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns_of(TABLE))
    writer.writerows([number, row.start, row.end, row.sites] for number, row in enumerate(rows, 1))
    atomic_text(args.output, out.getvalue())
    without = sum(not row.sites for row in rows)
    names.report(f"slice-records: {args.output}: {len(rows):,} slices, {without:,} without known sites")


def records(path: Path) -> Iterable[SliceRecord]:
    """Yield the slices of a list. Raises UserError if it is malformed."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        entries = document["data"] if isinstance(document, dict) else document
        for number, entry in enumerate(entries, 1):
            start, end, name = (str(entry[key]) for key in ("lease_start_time", "lease_end_time", "slice_id"))
            start_ns, end_ns = (time_ns(time, f"slice {number}", path) for time in (start, end))
            sites = " ".join(sites_of(entry.get("model"), number, path))
            yield SliceRecord(start_ns, end_ns, start, end, sites, name)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"not a slice list of FABRIC's orchestrator: {error}", where=path) from error


def sites_of(model: str | None, number: int, path: Path) -> list[str]:
    """Return the sorted sites of the nodes in the model of a slice (GraphML); none if there is no model."""
    if not model:
        return []
    try:
        root = ET.fromstring(model)
    except (ET.ParseError, ValueError) as error:
        raise UserError(f"slice {number}: its model is not GraphML: {error}", where=path) from error
    keys = {key.get("id"): key.get("attr.name") for key in root.iter(f"{NAMESPACE}key")}
    sites = {properties(node, keys).get("Site") for node in root.iter(f"{NAMESPACE}node")}
    return sorted(site for site in sites if site)
