"""Create a public copy of a campaign, without payload and without original addresses.

    acapella release results/demo -o demo-public
    acapella campaign check demo-public

Anonymizes every capture as `acapella anonymize` does, then digests the anonymized captures with the engine used by the
campaign. Tables are released with the columns listed in schemas/released_columns.yaml; in tables of flow reports,
addresses have the same pseudonyms as in the captures. Standard output and README.md list the omitted tables with
reasons; README.md also describes the contents and possible uses. catalog.duckdb (for DuckDB 1.0.0 or later) contains
samples, flows, stacks and the tables. SHA256SUMS contains the checksums of all other files.

Before the copy becomes DIR, it is searched for original addresses, checksums of unpublished files, and payload of the
captures. If anything is found, DIR is not created, and the error names the finding.

If the tables were created with pseudonyms, the release has the same pseudonyms for sites, ports and samples.
--pseudonyms writes the private mapping from pseudonyms to original names to a file outside of the release that only its
owner can read. It fails unless the tables have pseudonyms: first set `pseudonyms: true` in the config, and run
snakemake. Tables of individual stages that still have original names are omitted.

The key is not published. It is the file given with --key-file, otherwise CAMPAIGN/release.key, which is created if it
does not exist. With the same key, a later release of the campaign has the same pseudonyms. Review the files before you
publish them; docs/release.md describes what they still reveal.
"""

import argparse
import contextlib
import datetime
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from acapella.campaign.layout import (
    EARLIER_PROVENANCE,
    Campaign,
    existing_provenance,
    open_campaign,
    readable_capture,
    require,
)
from acapella.common.pseudonyms import HEADER, Name, is_pseudonym, write_mapping
from acapella.digest.command import ENGINES
from acapella_core import decompression, names
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, locked_directory, remove_locked, sha256_of, sync

from . import checksums
from .anonymize import add_macs
from .columns import drop_private, published_columns, why_private

KEY_FILE = "release.key"
NAMES_FILE = "release-pseudonyms.tsv"
PAPER_TABLES = {"kappa_published"}  # values printed in papers, which contain no data of the campaign
TRUE_NAMES = "original names of sites, ports or samples"
PSEUDONYMS_STEPS = "set pseudonyms: true in the campaign's config, run snakemake, then release again"
PSEUDONYMS_FIX = f"; to create them with pseudonyms: {PSEUDONYMS_STEPS}"
PUBLIC_FILE, PUBLIC_DIRECTORY = 0o644, 0o755
SHEET_COLUMNS = (
    "sample",
    "site",
    "port",
    "direction",
    "method",
    "frames",
    "bytes",
    "snaplen",
    "cut_frames",
    "dropped_kernel",
)
CHECKSUM_COLUMNS = ("sha256", "acap_sha256", "flows_sha256", "manifest_sha256")  # checksums of unpublished files
SHEET_COLUMNS += ("filtered", "one_in", "sampled_out", "restriction", "excluded")


@dataclass(frozen=True)
class ReleaseSample:
    """A sample of the campaign, and its names in the release."""

    sample: str
    name: str
    site: str
    port: str
    capture: Path
    about: dict


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella release`."""
    parser = subparsers.add_parser(
        "release",
        help="copy a campaign without payload and with pseudonyms for addresses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument("-o", dest="output", metavar="DIR", help="directory to create (default: CAMPAIGN/release)")
    parser.add_argument("--key-file", metavar="FILE", help=f"the campaign's key (default: CAMPAIGN/{KEY_FILE})")
    parser.add_argument(
        "--pseudonyms",
        nargs="?",
        const="",
        metavar="FILE",
        help="require pseudonyms of sites, ports and samples; write pseudonyms and original names to FILE "
        f"(default: CAMPAIGN/{NAMES_FILE})",
    )
    parser.add_argument(
        "--engine",
        choices=sorted(ENGINES),
        help="engine of the new acaps (default: the engine of each sample's acap in the campaign)",
    )
    parser.add_argument(
        "--license",
        metavar="URL",
        help="license of the release, for croissant.json and RO-Crate (default: none)",
    )
    parser.add_argument(
        "--published",
        metavar="DATE",
        type=iso_date,
        help="date of publication, as YYYY-MM-DD (default: that of the last frame, or else of the last transfer)",
    )
    add_macs(parser)
    decompression.add_options(parser)
    return parser


def iso_date(text: str) -> str:
    """Return a date of the form YYYY-MM-DD. Raises ValueError, which argparse reports."""
    return datetime.date.fromisoformat(text).isoformat()


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads captures and a campaign."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(*output_paths(args), starts=True)


def output_paths(args: argparse.Namespace) -> tuple[Path, Path, Path | None]:
    """Return the paths that may be written: the release, the key, and the map of names (None without --pseudonyms)."""
    directory = Path(args.campaign)
    target = Path(args.output) if args.output else directory / "release"
    key_file = Path(args.key_file) if args.key_file else directory / KEY_FILE
    return target, key_file, None if args.pseudonyms is None else Path(args.pseudonyms or directory / NAMES_FILE)


def run(args: argparse.Namespace) -> None:
    """Create the release and print a summary."""
    campaign = open_campaign(args.campaign)
    target, key_file, map_file = output_paths(args)
    check_paths(campaign, target, key_file, map_file)
    counts = make_release(campaign, target, key_file, map_file, args)
    counted = ", ".join(names.pluralize(counts[f"{noun}s"], noun) for noun in ("sample", "frame", "table"))
    print(
        f"{target}: {counted}; key: {key_file}"
        + (f"; names: {map_file}" if map_file else "")
        + (f"; {names.pluralize(counts['runs'], 'transfer')}" if counts["runs"] else "")
    )
    for reason, tables in by_reason(counts["omitted"]).items():
        fix = PSEUDONYMS_FIX if reason == TRUE_NAMES else ""
        print(f"table{'s' if len(tables) > 1 else ''} {', '.join(tables)} omitted: {reason}{fix}")
    for note in counts["notes"]:
        print(f"not reproducible from the release: {note}")
    print(f"to add tables and figures that others can reproduce: make reproduce DATA={target} RECORD=yes")


def check_paths(campaign: Campaign, target: Path, key_file: Path, map_file: Path | None) -> None:
    """Raise UserError if the release would replace existing files, or contain the key or the map of names."""
    if map_file is not None:
        check_map(map_file, target, key_file)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError("already exists", where=target, fix="remove it, or specify a different directory with -o")
    if not target.parent.is_dir():
        raise UserError("no such directory", where=target.parent, fix="create it, or correct -o")
    if key_file.resolve().is_relative_to(target.resolve()):
        raise UserError("the key would be published", where=key_file, fix="keep it outside of the release")
    if target.resolve() == campaign.directory.resolve():
        raise UserError("this is the campaign itself", where=target, fix="specify a different directory with -o")


def check_map(map_file: Path, target: Path, key_file: Path) -> None:
    """Raise UserError if the map of names would be published, or would replace a different kind of file."""
    if map_file.resolve().is_relative_to(target.resolve()):
        raise UserError("original names would be published", where=map_file, fix="use a file outside of the release")
    if map_file.resolve() == key_file.resolve():
        raise UserError("this is the key", where=map_file, fix="specify a different file with --pseudonyms")
    if not map_file.parent.is_dir():
        raise UserError(
            "no such directory", where=map_file.parent, fix="create it, or specify a different file with --pseudonyms"
        )
    if map_file.exists() and not (map_file.is_file() and map_file.read_bytes().startswith(HEADER.encode())):
        raise UserError("already exists and is not a map of names", where=map_file, fix="specify a different file")


def make_release(
    campaign: Campaign, target: Path, key_file: Path, map_file: Path | None, args: argparse.Namespace
) -> dict:
    """Create a complete release or nothing; return counts of its contents, and omitted tables. Raises UserError."""
    from acapella_core import anonymize as core  # noqa: PLC0415

    from . import catalog as release_catalog  # noqa: PLC0415
    from . import croissant, reproducible, studies, transfers  # noqa: PLC0415
    from . import readme as release_readme  # noqa: PLC0415

    core.require_aes()
    hidden = map_file is not None or tables_hidden(campaign)
    check_tables(campaign, hidden=hidden)
    samples = release_samples(campaign, hide=hidden)
    if not key_file.exists() and not args.key_file:
        core.make_key(key_file)
    key = core.read_key(key_file)
    try:
        held, part = locked_directory(target.parent, f".{target.name}.", ".part")
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
    try:
        counts_of_samples = [release_sample(part, sample, key, args) for sample in samples]
        engines = [counts["engine"] for counts in counts_of_samples]
        notes = reproducible.write(part, campaign.directory, samples, engines, hidden=hidden)
        numbers, notes_of_studies = studies.write(part, campaign, hidden=hidden)
        notes += notes_of_studies
        tables = release_tables(campaign, part / "tables", key, hidden=hidden)
        omitted = missing_tables(campaign, tables, part, hidden=hidden)
        missing = release_readme.lines_about_missing(by_reason(omitted), notes)
        readme = release_readme.text(counts_of_samples, tables, missing, numbers, hidden=hidden, macs=args.macs)
        write_texts(part, samples, counts_of_samples, readme)
        if samples:
            release_catalog.write(part, tables)
        acaps = [part / "acap" / f"{sample.name}.parquet" for sample in samples]
        last = croissant.date_of_last_frame(acaps) if samples else transfers.date(part)
        croissant.write(part, args.license, args.published or last)
        search_release(campaign, part, samples, counts_of_samples, hidden=hidden)
        checksums.write(part)
        if map_file:
            public_names = [Name(sample.sample, sample.name, sample.site, sample.port) for sample in samples]
            write_mapping(map_file, [sample.about for sample in samples], public_names)
        publish(part, target)
    finally:
        remove_locked(held, part)
    frames = sum(sample["frames"] for sample in counts_of_samples)
    return {
        "samples": len(samples),
        "frames": frames,
        "tables": len(tables),
        "omitted": omitted,
        "notes": notes,
        "runs": numbers["runs"],
    }


def search_release(
    campaign: Campaign, part: Path, samples: list[ReleaseSample], counts_of_samples: list[dict], *, hidden: bool
) -> None:
    """Raise UserError if the release in ``part`` contains anything that must not be published."""
    from . import search as release_search  # noqa: PLC0415
    from . import transfers  # noqa: PLC0415

    captures = [
        release_search.ReleasedCapture(sample.sample, sample.capture, sample.name, counts["replaced"], counts["limits"])
        for sample, counts in zip(samples, counts_of_samples, strict=True)
    ]
    checksums = {sample.about[key] for sample in samples for key in CHECKSUM_COLUMNS} - {None}
    checksums |= {sha256_of(sample.capture) for sample in samples}
    true_names = (
        {sample.about[key] for sample in samples for key in ("sample", "site", "port", "environment")}
        if hidden
        else set()
    )
    public_names = {name for sample in samples for name in (sample.name, sample.site, sample.port)}
    flows = [path for path in (campaign.flows(sample.sample) for sample in samples) if path.is_file()]
    flows += transfers.original_flows(campaign.directory)
    release_search.check(part, captures, flows, frozenset(checksums), frozenset(true_names - public_names - {None}))


def tables_hidden(campaign: Campaign) -> bool:
    """Return whether the tables of `campaign process` were created with pseudonyms."""
    return with_pseudonyms(provenance(campaign, "process"))


def check_tables(campaign: Campaign, *, hidden: bool) -> None:
    """Raise UserError if names are ``hidden`` but the tables of `campaign process` have original names.

    In this case, no table could be released.
    """
    if hidden and existing_provenance(campaign, "process").is_file() and not tables_hidden(campaign):
        raise UserError(
            f"the tables have {TRUE_NAMES}, so none could be released with --pseudonyms",
            where=campaign.directory / "tables",
            fix=PSEUDONYMS_STEPS,
        )


def with_pseudonyms(record: dict) -> bool:
    """Return whether the tables of a provenance file have pseudonyms, also for environments."""
    parameters = record.get("parameters", {})
    environments = parameters.get("environments", [])
    return bool(parameters.get("pseudonyms")) and all(is_pseudonym(name, "E") for name in environments)


def provenance(campaign: Campaign, stage: str) -> dict:
    """Return the provenance of the tables of a stage; {} if there is no such file."""
    path = existing_provenance(campaign, stage)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def release_samples(campaign: Campaign, *, hide: bool) -> list[ReleaseSample]:
    """Return the samples that are included in the campaign, in the order of their names in the release.

    Raises UserError if a capture is missing.
    """
    from acapella.common import queries  # noqa: PLC0415
    from acapella.common.pseudonyms import pseudonyms, true_names  # noqa: PLC0415

    from .studies import has_studies  # noqa: PLC0415

    if not campaign.catalog.exists() and has_studies(campaign):
        return []  # a campaign without samples
    catalog = require(campaign.catalog, f"run acapella campaign index {campaign.directory}")
    reading = queries.one_line(campaign.directory, catalog_of=campaign.directory)
    with reading, contextlib.closing(queries.open_catalog(campaign.directory)) as con:
        relation = con.sql(queries.text("release", "taken"))
        columns = relation.columns
        rows = [dict(zip(columns, row, strict=True)) for row in relation.fetchall()]
    if not rows:
        raise UserError(
            "no sample with an acap", where=campaign.directory, fix=f"run acapella campaign index {campaign.directory}"
        )
    for row in rows:
        names.sample(row["sample"], catalog)
    for row in rows:
        check_row(row, catalog, campaign)
    public_names = pseudonyms(rows) if hide else true_names(rows)
    samples = []
    for row, name in zip(rows, public_names, strict=True):
        capture = readable_capture(campaign, row["sample"], campaign.capture(row["sample"], row["file"]))
        file = require(capture, "the captures are needed for anonymization")
        samples.append(ReleaseSample(row["sample"], name.sample, name.site, name.port, file, row))
    return sorted(samples, key=lambda sample: sample.name)


def check_row(row: dict, catalog: Path, campaign: Campaign) -> None:
    """Raise UserError if a row is incomplete, or contains a value that is unsafe in paths or in samples.tsv."""
    if row["file"] is None or row["acap_sha256"] is None:
        raise UserError(
            "the tables samples and acaps of the catalog do not list the same samples",
            where=f"{catalog}: sample {row['sample']}",
            fix=f"run acapella campaign index {campaign.directory}",
        )
    names.file(row["file"], catalog)
    for key in CHECKSUM_COLUMNS:
        if row[key] is not None and not re.fullmatch("[0-9a-f]{64}", row[key]):
            raise UserError(f"{key} {row[key]!r} is not a SHA-256", where=f"{catalog}: sample {row['sample']}")
    for column in (name for name in SHEET_COLUMNS if isinstance(row.get(name), str)):
        names.label(row[column], catalog)


def release_sample(part: Path, sample: ReleaseSample, key: bytes, args: argparse.Namespace) -> dict:
    """Anonymize one capture and digest the result. Return the counts, the engine, and the limits of decompression."""
    from acapella.digest.command import Options, digest  # noqa: PLC0415

    from .anonymize import anonymize  # noqa: PLC0415

    directories = [part / kind for kind in ("captures", "acap", "flows")]
    for directory in directories:
        directory.mkdir(exist_ok=True)
    captures, acaps, flows = directories
    capture = captures / f"{sample.name}.pcap"
    acap, flow_table = (directory / f"{sample.name}.parquet" for directory in (acaps, flows))
    engine = args.engine or sample.about["engine"]
    if engine not in ENGINES:
        raise UserError(f"engine {engine!r} is unknown", where=f"sample {sample.sample}", fix="set --engine")
    limits = decompression.limits_of(args)
    try:
        counts = anonymize(str(sample.capture), capture, key, args.macs, limits)
        digest([str(capture)], str(acap), str(flow_table), Options(engine, (), sample.site, sample.port))
    except UserError as error:
        message = str(error).replace(f"{part}/", "")
        raise UserError(message, where=f"sample {sample.sample}, engine {engine}", outside=error.outside) from error
    drop_private(acap, "frames")
    drop_private(flow_table, "flows")
    return counts | {"engine": engine, "limits": limits}


def release_tables(campaign: Campaign, directory: Path, key: bytes, *, hidden: bool) -> list[str]:
    """Copy the tables without addresses, and write tables of flow reports with pseudonyms; return their names.

    If names are ``hidden``, tables with original names are omitted. Raises UserError if a table is missing or has
    changed.
    """
    from . import flows as release_flows  # noqa: PLC0415

    outputs = recorded_outputs(campaign, hidden=hidden)
    existing = {Path(path).stem for path in outputs if path.startswith("tables/")} & known_tables()
    to_copy = {name for name in existing if not why_private(name)}
    to_rename = existing & set(release_flows.TABLES)
    for name in sorted(to_copy | to_rename):
        directory.mkdir(exist_ok=True)
        for suffix in ("csv", "parquet"):
            source = require(campaign.table(name, suffix), f"run acapella campaign process {campaign.directory}")
            if sha256_of(source) != outputs.get(f"tables/{name}.{suffix}"):
                raise UserError(
                    "does not match the checksum in its provenance file", where=source, fix="create the tables again"
                )
        if name in to_copy:
            copy_table(campaign, name, directory)
    if to_rename:
        release_flows.write(campaign, directory, key)
    return sorted(to_copy | to_rename)


def known_tables() -> set[str]:
    """Return the names of the tables that have a schema in this version."""
    from acapella_core import schemas  # noqa: PLC0415

    return {path.stem for path in (schemas.root() / "tables").glob("*.yaml")}


def copy_table(campaign: Campaign, name: str, directory: Path) -> None:
    """Copy the published columns of a table."""
    from acapella.common import queries, tables  # noqa: PLC0415
    from acapella_core import schemas  # noqa: PLC0415

    if {column["name"] for column in schemas.table(name)["columns"]} <= set(published_columns(name)):
        for suffix in ("csv", "parquet"):
            shutil.copyfile(campaign.table(name, suffix), directory / f"{name}.{suffix}")
        return
    with queries.one_line(campaign.directory), contextlib.closing(queries.connect()) as con:
        rows = con.read_parquet(str(campaign.table(name, "parquet")))
        tables.write(rows, name, lambda suffix: directory / f"{name}.{suffix}", columns=published_columns(name))


def recorded_outputs(campaign: Campaign, *, hidden: bool) -> dict[str, str]:
    """Return the checksums of the stages' outputs by path; if names are ``hidden``, only of outputs with pseudonyms."""
    outputs = {}
    for record in (provenance(campaign, stage) for stage in EARLIER_PROVENANCE):
        if with_pseudonyms(record) or not hidden:
            outputs |= record.get("outputs", {})
    return outputs


def missing_tables(campaign: Campaign, released: list[str], part: Path, *, hidden: bool) -> dict[str, str]:
    """Return the omitted tables of the campaign, each with the reason. ``part``: the release."""
    from . import studies  # noqa: PLC0415

    recorded = recorded_outputs(campaign, hidden=False)
    allowed = recorded_outputs(campaign, hidden=hidden)
    reasons = {}
    existing = {path.stem for path in (campaign.directory / "tables").glob("*.parquet")} - PAPER_TABLES
    for name in sorted((existing & known_tables()) - set(released)):
        path = f"tables/{name}.parquet"
        if path not in recorded:
            reasons[name] = "no provenance file lists it"
        elif path not in allowed:
            reasons[name] = TRUE_NAMES
        else:
            reasons[name] = studies.why_omitted(name, part) or why_private(name)
    return reasons


def by_reason(omitted: dict[str, str]) -> dict[str, list[str]]:
    """Return the omitted tables by reason."""
    names: dict[str, list[str]] = {}
    for name, reason in omitted.items():
        names.setdefault(reason, []).append(name)
    return names


def write_texts(part: Path, samples: list[ReleaseSample], counts_of_samples: list[dict], readme: str) -> None:
    """Write samples.tsv and README.md."""
    rows = [sheet_row(sample, counts) for sample, counts in zip(samples, counts_of_samples, strict=True)]
    lines = ["\t".join(SHEET_COLUMNS), *("\t".join(row) for row in rows)]
    if rows:
        atomic_text(part / "samples.tsv", "\n".join(lines) + "\n")
    atomic_text(part / "README.md", readme)


def sheet_row(sample: ReleaseSample, counts: dict) -> list[str]:
    """Return a line of samples.tsv; unknown values are empty."""
    values = {
        **{name: sample.about[name] for name in SHEET_COLUMNS if name in sample.about},
        "sample": sample.name,
        "site": sample.site,
        "port": sample.port,
        "frames": counts["frames"],
        "bytes": counts["wire_bytes"],
        "cut_frames": counts["cut_frames"],
    }
    return ["" if values[name] is None else str(values[name]) for name in SHEET_COLUMNS]


def publish(part: Path, target: Path) -> None:
    """Make the files of the release readable by all users, flush them to disk, and rename the directory."""
    try:
        for path in (*part.rglob("*"), part):
            path.chmod(PUBLIC_DIRECTORY if path.is_dir() else PUBLIC_FILE)
            sync(path)
        part.rename(target)  # replaces an empty directory
        sync(target.parent)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
