"""Create the tables of the infrastructure study: ports per site, slices, rates of switch ports (Patchwork, section 5).

    acapella campaign infrastructure results/study --advertisement model.graphml --slices slices.csv
    acapella campaign infrastructure results/study --telemetry 'counters/*.csv' --bin 60

Reads FABRIC's information model (an advertisement, or models of sites: GraphML), slice records, and exports of port
counters; each option may be repeated. docs/infrastructure.md describes the formats. Writes tables/infrastructure_*.csv
and .parquet; a table whose input is not given has no rows.
"""

import argparse
from importlib.metadata import version
from pathlib import Path

from acapella import __version__
from acapella.campaign.layout import Campaign, open_campaign
from acapella.common.wording import GAP, count
from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from . import advertisement, inputs, slices

STAGE = "infrastructure"
TABLES = (
    "infrastructure_ports",
    "infrastructure_slice_sites",
    "infrastructure_slice_durations",
    "infrastructure_simultaneous",
    "infrastructure_weeks",
    "infrastructure_port_use",
    "infrastructure_activity",
    "infrastructure_summary",
)
BIN_S = 300  # length of the paper's samples
MAX_BIN_S = 86400
END_S = 7_258_118_400  # 2200-01-01: a time from then on is an error of the export, such as milliseconds
LINE_RATE_SHARE = 0.95
LOW_SHARE = 0.38  # the paper's median utilization
WEEK_OFFSET_S = 3 * 86400  # the epoch began on a Thursday, and weeks begin on Mondays
RAW = {  # columns and types of the tables that are read with Python
    "raw_sites": {"site": "string"},
    "raw_ports": {
        **{"site": "string", "port": "string", "interface": "string", "kind": "string", "far_site": "string"},
        "rate_bps": "int64",
    },
    "raw_nics": {"site": "string", "type": "string", "model": "string", "ports": "int64"},
    "raw_slices": {"slice": "string", "start_ns": "int64", "end_ns": "int64"},
    "raw_slice_sites": {"slice": "string", "site": "string"},
    "raw_rates": {"prefix": "string", "rate_bps": "int64"},
}
HELPERS = ("slice_steps", "port_samples")  # SELECT statements that several tables use


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign infrastructure`."""
    parser = subparsers.add_parser(
        "infrastructure",
        help="create the tables of the infrastructure study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/study")
    for option, what in (
        ("--advertisement", "information model (GraphML)"),
        ("--slices", "slice records (CSV)"),
        ("--telemetry", "counters of switch ports (CSV or Parquet)"),
    ):
        parser.add_argument(option, action="append", default=[], metavar="GLOB", help=f"{what} (repeatable)")
    parser.add_argument(
        "--bin", type=int, default=BIN_S, metavar="S", help="length of a rate sample, in seconds (default: %(default)s)"
    )
    parser.add_argument(
        "--line-rate",
        type=float,
        default=LINE_RATE_SHARE,
        metavar="SHARE",
        help="minimum utilization of a port that counts as being at line rate (default: %(default)s)",
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(Path(args.campaign, "tables"))


def run(args: argparse.Namespace) -> None:
    """Write the tables. Raises UserError if an input is malformed."""
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    campaign = open_campaign(args.campaign)
    check_options(args)
    parameters = {
        **{"bin_s": args.bin, "line_rate_share": args.line_rate},
        **{"low_share": LOW_SHARE, "week_offset_s": WEEK_OFFSET_S},
    }
    written = write(campaign, args, parameters)
    content = {
        "versions": {"acapella": __version__, "duckdb": version("duckdb")},
        "parameters": {**parameters, "pseudonyms": False},
        "inputs": {
            "advertisements": checksums(args.advertisement),
            "slices": checksums(args.slices),
            "telemetry": checksums(args.telemetry),
        },
        "outputs": provenance.checksums(campaign, written),
    }
    provenance.write_content(campaign, STAGE, content)


def check_options(args: argparse.Namespace) -> None:
    """Raise UserError for values that the configuration would also reject."""
    if not 1 <= args.bin <= MAX_BIN_S:
        raise UserError(f"expected 1 to {MAX_BIN_S:,}, not {args.bin}", where="--bin")
    if not 0 < args.line_rate <= 1:
        raise UserError(f"expected a share above 0, up to 1, not {args.line_rate}", where="--line-rate")


def checksums(patterns: list[str]) -> list[str]:
    """Return the name and SHA-256 of each input file, without its directory, which differs between machines."""
    return sorted(f"{path.name} {sha256_of(path)}" for path in inputs.files(patterns))


def write(campaign: Campaign, args: argparse.Namespace, parameters: dict) -> list[Path]:
    """Write all tables; return the paths."""
    from acapella.common import queries, tables  # noqa: PLC0415 (pyarrow)

    from . import telemetry  # noqa: PLC0415

    model = advertisement.read(inputs.files(args.advertisement))
    records, sites = slices.read(inputs.files(args.slices))
    rates = [{"prefix": prefix, "rate_bps": rate} for prefix, rate in advertisement.RATES.items()]
    rows = dict(zip(RAW, (model.sites, model.ports, model.nics, records, sites, rates), strict=True))
    written: list[Path] = []
    with queries.one_line(campaign.directory):
        con = queries.connect()
        for name, columns in RAW.items():
            con.register(name, arrow_table(rows[name], columns))
        telemetry.create(con, inputs.files(args.telemetry))
        ignored = check_counters(con)
        for name in HELPERS:
            queries.select(con, STAGE, name, parameters).create(name)
        for name in TABLES:
            queries.select(con, STAGE, name, parameters).create(name)
            written += tables.write(con.table(name), name, lambda suffix, name=name: campaign.table(name, suffix))
        ((samples,),) = con.execute("select count(in_rate) from port_samples").fetchall()
    report(model, records, samples, ignored)
    return written


def arrow_table(rows: list[dict], columns: dict[str, str]):
    """Return rows as an Arrow table."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in columns.items()})


def check_counters(con) -> int:
    """Return the number of ignored sub-interfaces. Raises UserError if a reading is not valid, or occurs twice."""
    required = [name for name in inputs.columns_of("port_counters") if name != "rate_bps"]
    missing = " or ".join(f"{name} is null" for name in required)
    ((count,),) = con.execute(f"select count(*) from raw_counters where {missing}").fetchall()
    if count:
        noun = "reading lacks" if count == 1 else "readings lack"
        raise UserError(f"telemetry: {count:,} {noun} a value; required: {', '.join(required)}")
    invalid = con.execute(
        "select site, port, time_s from raw_counters where in_bytes < 0 or out_bytes < 0 or rate_bps <= 0 or time_s < 0"
        f" or time_s >= {END_S} order by all limit 1"
    ).fetchall()
    if invalid:
        site, port, time_s = invalid[0]
        raise UserError(
            f"telemetry: reading of {site} {port} at {time_s} s: counters and time_s must not be negative, rate_bps"
            " must be above 0, and time_s is in seconds"
        )
    twice = con.execute(
        "select site, port, time_s from raw_counters group by all having count(*) > 1 order by all limit 1"
    ).fetchall()
    if twice:
        site, port, time_s = twice[0]
        raise UserError(f"telemetry: two readings of {site} {port} at {time_s} s")
    ((ignored,),) = con.execute(
        "select count(distinct (site, port)) from raw_counters where contains(port, '.')"
    ).fetchall()
    return ignored


def report(model: advertisement.Infrastructure, records: list[dict], samples: int, ignored: int) -> None:
    """Print what was read."""
    parts = (
        count(len(model.sites), "site"),
        count(len(records), "slice"),
        count(samples, "sample of rates", "samples of rates"),
    )
    text = f"{', '.join(parts)}" + (f"; ignored: {count(ignored, 'VLAN sub-interface')}" if ignored else "")
    names.report(f"infrastructure: {text}".replace(GAP, " "))
