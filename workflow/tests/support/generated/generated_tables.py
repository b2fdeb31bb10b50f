"""Write the tables of a synthetic campaign with any number of sites, as input of figures and report.

The naive reference (naive_tables.py) computes all tables from the same samples (synthetic.py). They depend only on the
arguments.

    .venv/bin/python workflow/tests/support/generated/generated_tables.py /tmp/made30 30
"""

import functools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from acapella_testing.generated.digests import COUNTERS, MIRROR
from acapella_testing.generated.synthetic import make_campaign
from acapella_testing.new_files import write_json
from acapella_testing.oracles import naive_samples, naive_tables

from acapella.campaign.layout import Campaign
from acapella.common import tables
from acapella.figures.source import Source
from acapella_core.arrow_tables import arrow_schema

TOP = 5  # flows per site in top_flows
TABLES = tuple(sorted(naive_tables.TABLES - {"stitched_flows"}))


def write_tables(directory, **shape) -> Path:
    """Write tables/ and provenance/process.json; return the directory. ``shape``: arguments of `rows_of_tables`."""
    directory = Path(directory)
    shape |= {"names": tuple(shape["names"])} if "names" in shape else {}
    for name, rows in rows_of_tables(**shape).items():
        write_table(directory, name, rows)
    provenance = {"acapella": "0.1.0", "campaign": directory.name, "tshark": {"version": "4.0.17"}, "samples": []}
    write_json(directory / "provenance" / "process.json", provenance)
    return directory


@functools.cache
def rows_of_tables(*, sites=3, ports=2, samples=4, names=None, frames=300, **manifest) -> dict[str, list[dict]]:
    """Return the rows of all tables. With ``frames`` 0, samples have no frames. ``manifest``: keys of each manifest.

    Samples are not restricted unless ``manifest`` restricts them. Every seventh sample has no counters.
    """
    names = [f"S{n}" for n in range(sites)] if names is None else names
    with tempfile.TemporaryDirectory() as directory:
        make_campaign(directory, names=names, ports=ports, samples=samples, frames=frames, flows=100, empty=0)
        made = naive_samples.read_campaign(Path(directory))
    for number, sample in enumerate(made):
        sample.name = f"{sample.site}-{sample.name.partition('-')[2]}"
        sample.digest |= {"file_issue": None, "file_unread_bytes": 0}
        received = sample.manifest["frames_received"]
        mirror = dict.fromkeys(MIRROR) | {"offered_frames": received, "delivered_frames": received}
        sample.manifest |= {"filter": None, "one_in": None, "sampled_out": None, "mirror": mirror, **manifest}
        if number % 7 == 6:
            sample.manifest |= dict.fromkeys(COUNTERS) | {"mirror": dict.fromkeys(MIRROR)}
    rows = {name: with_intervals(naive_tables.table(name, made, "all"), len(made)) for name in TABLES}
    rows["top_flows"] = [in_tunnel(row) for row in rows["top_flows"] if row["rank"] <= TOP]
    return rows


def in_tunnel(row: dict) -> dict:
    """Return a row of top_flows with the identifier of a tunnel and short MPLS labels."""
    return row | {"tunnels": f"vxlan_vni*{row['rank']}*6", "mpls": "16/17"}


def with_intervals(rows: list[dict], samples: int) -> list[dict]:
    """Return rows with an interval of 10 % on each side of each share, which a single sample does not have."""
    for row in rows if samples > 1 else []:
        for name in ("share", "frame_share"):
            if row.get(name) is not None:
                row |= {f"{name}_lo": 0.9 * row[name], f"{name}_hi": min(1, 1.1 * row[name])}
    return rows


def source_with(directory: Path, **shape) -> Source:
    """Write tables (`write_tables`) and return their source."""
    return Source(Campaign(write_tables(directory / "made", **shape)))


def write_table(directory: Path, name: str, rows: list[dict]) -> None:
    """Write tables/NAME.parquet and .csv. Missing values are null, or 0, "" or false if the schema excludes null."""
    schema = arrow_schema(name)
    default = {f.name: None if f.nullable else {pa.string(): "", pa.bool_(): False}.get(f.type, 0) for f in schema}
    complete = [{key: default[key] if row.get(key) is None else row[key] for key in default} for row in rows]
    (directory / "tables").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(complete, schema)
    pq.write_table(table, directory / "tables" / f"{name}.parquet")
    pyarrow.csv.write_csv(tables.rounded(table), directory / "tables" / f"{name}.csv")


def source_of_rows(directory: Path, **rows: list[dict]) -> Source:
    """Write tables of these rows, by name of the table, and return their source."""
    for name, own in rows.items():
        write_table(directory, name, own)
    return Source(Campaign(directory))


def change_table(directory: Path, name: str, change: Callable[[int, dict], object]) -> None:
    """Rewrite a table after calling ``change`` with the number of each row and the row."""
    rows = pq.read_table(directory / "tables" / f"{name}.parquet").to_pylist()
    for number, row in enumerate(rows):
        change(number, row)
    write_table(directory, name, rows)


if __name__ == "__main__":
    print(write_tables(sys.argv[1], sites=int(sys.argv[2])))
