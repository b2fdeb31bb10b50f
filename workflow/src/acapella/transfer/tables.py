"""Create the tables of transfer experiments: iperf3 and the wire side by side, gain of BBR over CUBIC, prediction.

    acapella campaign transfers results/demo
    acapella campaign transfers results/demo --data 'data/*.json' --sheet sheet.tsv

Reads the runs in CAMPAIGN/transfers/ (written by acapella transfer) and, with --data or --sheet, iperf3 JSON files from
other sources. Their settings are in a sheet (TSV with the column file and any of mode, topology, algorithm, delay_ms,
buffer_bytes, rate_mbps, streams, size_bytes, ratio, delay_on, loss_percent, reorder_percent, rtt_ms, run), or in the
names of the files: --name-pattern is a regular expression with groups of the same names. Sizes may end in K, M, G
(powers of 1024).

Writes tables/transfer_*.csv and .parquet (docs/transfer.md). Files that are truncated, contain an error or were not
written by iperf3 are listed in tables/transfer_files, the first 20 faults also on standard error; all other files
are used.
"""

import argparse
import sys
from pathlib import Path

from acapella.campaign.layout import Campaign, open_campaign
from acapella_core import names

from . import cells, predict, prediction, settings, wire
from .cells import Fault, ImportedFiles

STAGE = "transfer"
TABLES = (
    "transfer_flows",
    "transfer_disagreements",
    "transfer_cells",
    "transfer_settings",
    "transfer_gain",
    "transfer_shallow",
    "transfer_intervals",
    "transfer_prediction",
    "transfer_files",
)
THRESHOLD = 0.01  # relative difference of iperf3 and wire above which a value is flagged
FULL_WINDOW = 0.95  # share of the receiver's largest window; with more bytes in flight, the sender waits for the window
SHALLOW_BDP = 0.1  # bandwidth-delay products; buffers below are shallow
SEND_BUFFER = 4 << 20  # bytes: default maximum of tcp_wmem, for runs whose cell.json does not state it
PARAMETERS = {
    **{"threshold": THRESHOLD, "full_window": FULL_WINDOW, "shallow_bdp": SHALLOW_BDP, "send_buffer": SEND_BUFFER},
    "frame_share": predict.FRAME / predict.PAYLOAD,
}
REPEAT = (
    "`acapella transfer` with the same config, or `snakemake --forcerun transfer`, repeats runs that failed fewer than "
    "3 times, and runs the missing ones; `acapella transfer --retry-failed` repeats all failed runs"
)
MAX_SHOWN = 20  # faults printed; all are in the table


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign transfers`."""
    parser = subparsers.add_parser(
        "transfers",
        help="create the tables of transfer experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    parser.add_argument(
        "--data", action="append", default=[], metavar="GLOB", help="iperf3 JSON files from other sources (repeatable)"
    )
    parser.add_argument("--sheet", type=Path, metavar="FILE", help="sheet with the settings of these files (TSV)")
    parser.add_argument(
        "--name-pattern", metavar="REGEX", help="pattern of their names, with a named group per setting"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="DIR",
        help="release or other campaign whose DIR/transfers/ is read (default: CAMPAIGN)",
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(Path(args.campaign, "tables"))


def run(args: argparse.Namespace) -> None:
    """Write the tables. Raises UserError for a mistake in the sheet or pattern."""
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    campaign = open_campaign(args.campaign)
    pattern = settings.name_pattern(args.name_pattern) if args.name_pattern else None
    imported = ImportedFiles(tuple(args.data), args.sheet, pattern)
    written = write(campaign, imported, args.runs)
    provenance.write_outputs(campaign, STAGE, written, pseudonyms=False)


def write(campaign: Campaign, imported: ImportedFiles, runs: Path | None = None) -> list[Path]:
    """Write all tables and report faults on standard error; return the paths.

    ``runs``: the directory whose transfers/ is read (default: the campaign).
    """
    from acapella.common import queries, tables  # noqa: PLC0415

    from .raw import Raw  # noqa: PLC0415 (pyarrow)

    faults: list[Fault] = []
    raw = Raw()
    seen: set[tuple[str, int]] = set()
    run_count = failed = 0
    for found in cells.own_runs(runs or campaign.directory, faults):
        run_count += 1
        failed += found.error is not None
        add(raw, found, seen, faults)
    if imported.data or imported.sheet:
        for found in cells.imported_runs(imported, faults):
            add(raw, found, seen, faults)
    raw.add_faults(faults)
    report_faults(faults)
    if failed:
        names.report(f"transfers: warning: {failed} of {run_count} runs failed; {REPEAT}")
    written: list[Path] = []
    with queries.one_line(campaign.directory):
        con = queries.connect()
        raw.register(con)
        for name in TABLES:
            if name != "transfer_files":
                queries.select(con, STAGE, name, PARAMETERS).create(name)
            written += tables.write(con.table(name), name, lambda suffix, name=name: campaign.table(name, suffix))
    summary = f"{raw.count('raw_cells')} runs, {raw.count('raw_flows')} streams, {len(faults)} faults in files"
    names.report(f"transfers: {campaign.directory / 'tables' / 'transfer_cells.csv'}: {summary}")
    return written


def add(raw, found: cells.Run, seen: set[tuple[str, int]], faults: list[Fault]) -> None:
    """Add a run, unless one with the same cell and number was added before."""
    key = (found.cell_id, found.run)
    if key in seen:
        where = f"{cells.DIRECTORY}/{found.directory.name}" if found.directory else found.cell_id
        faults.append(Fault(*key, where, 0, "another directory has this cell and run"))
        return
    seen.add(key)
    raw.add_run(found)
    on_wire = wire.measure(found, faults)
    raw.add_rows("raw_wire", on_wire)
    raw.add_rows("raw_prediction", prediction.predict(found, faults, on_wire))


def report_faults(faults: list[Fault]) -> None:
    """Print one line for each of the first faults."""
    for fault in faults[:MAX_SHOWN]:
        document = f" (document {fault.document})" if fault.document > 1 else ""
        print(names.shown(f"transfers: {fault.file}{document}: {fault.reason}"), file=sys.stderr)
    if len(faults) > MAX_SHOWN:
        names.report(f"transfers: {len(faults) - MAX_SHOWN} more in tables/transfer_files.csv")
