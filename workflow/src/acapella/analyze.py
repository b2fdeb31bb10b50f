"""Make the partial tables of one sample, from its acap and its flows.

A partial holds counts, sums, minima and maxima, never means: partials of any samples add up exactly to the tables of a
campaign, which `acapella process` does. Each is one SELECT of workflow/sql/analyze/, written as Parquet under its name.
"""

from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from . import queries
from .campaign import Campaign, opened, require

BIN_NS = 1_000_000_000  # default length of a throughput bin


def register_parser(subparsers):
    """Add `acapella analyze`."""
    parser = subparsers.add_parser("analyze", help="make the partial tables of one sample", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder results/<campaign>")
    parser.add_argument("--sample", required=True, help="name of the sample")
    parser.add_argument("-o", "--output", metavar="DIR", help="default: CAMPAIGN/partial/SAMPLE")
    parser.add_argument("--bin-ns", type=int, default=BIN_NS, help=f"length of a throughput bin (default: {BIN_NS})")
    parser.add_argument("--threads", type=int, default=1, help="threads of DuckDB (default: 1)")
    return parser


def run(args) -> None:
    """Write the partials."""
    campaign = opened(args.campaign)
    output = Path(args.output) if args.output else campaign.folder / "partial" / args.sample
    make_partials(campaign, args.sample, output, bin_ns=args.bin_ns, threads=args.threads)


def make_partials(
    campaign: Campaign, sample: str, output: Path, *, bin_ns: int = BIN_NS, threads: int = 1
) -> list[Path]:
    """Write OUTPUT/<name>.parquet for each query of the stage; return the paths.

    Raises UserError if the acap or the flows are missing, broken or of another format, or ``bin_ns`` is not positive.
    """
    if bin_ns < 1:
        raise UserError(f"--bin-ns is {bin_ns}", fix="give a positive number of nanoseconds")
    acap = require(campaign.acap(sample), "run acapella digest first")
    flows = require(campaign.flows(sample), "run acapella digest first")
    from .acap_files import check_format  # noqa: PLC0415 (pyarrow)

    for path in (acap, flows):
        check_format(path)
    with queries.one_line(f"sample {sample}"):
        con = queries.connect(threads=threads)
        con.read_parquet(str(acap)).create_view("frames")
        con.read_parquet(str(flows)).create_view("flows")
        con.execute(f"create table thresholds as {queries.text('shared', 'thresholds')}")
        return [write_partial(con, name, output, {"bin_ns": bin_ns}) for name in queries.names("analyze")]


def write_partial(con, name: str, output: Path, parameters: dict) -> Path:
    """Run one SELECT and write its rows."""
    target = output / f"{name}.parquet"
    with atomic_path(target) as temporary:
        queries.select(con, "analyze", name, parameters).write_parquet(str(temporary), compression="zstd")
    return target
