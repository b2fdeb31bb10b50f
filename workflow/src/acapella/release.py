"""A campaign in, a set of files for everybody out: no payload, no true address.

    acapella release results/demo -o demo-public

Every capture of the campaign is anonymised as `acapella anonymise` does it, and acaps and flows are made anew from what
is left. Tables come along where they hold no addresses; those of flow reports get the captures' pseudonyms. README.md
says what was done and what a reader can do with it, SHA256SUMS has the checksum of every file. Where the tables were
made with pseudonyms, sites, ports and samples have them here, too; --pseudonyms gives them their pseudonyms in any
case, and leaves out tables that have true names.

The key stays behind: CAMPAIGN/release.key, made where there is none, or the file of --key-file. With the same key a
later release of the campaign has the same pseudonyms. Look through the set before you publish it; docs/release.md says
what it still tells.
"""

import argparse
import contextlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text, sha256_of

from .anonymise import add_macs
from .campaign import Campaign, opened, require
from .digest import ENGINES

KEY = "release.key"
SUMS = "SHA256SUMS"
PROVENANCES = ("provenance.json", "consistency_provenance.json")  # of process, of trials
PROVENANCES += tuple(f"{stage}_provenance.json" for stage in ("flowtables", "flowstudy", "flowpublished"))
IDENTIFYING = {"flow_id", "peer_flow_id", "community_id", "tunnels"}  # columns: hashes of addresses, tunnel identifiers
PUBLIC_FILE, PUBLIC_FOLDER = 0o644, 0o755
SHEET = ("sample", "site", "port", "direction", "method", "frames", "bytes", "snaplen", "cut_frames", "dropped_kernel")
SHEET += ("filtered", "one_in", "sampled_out", "restriction", "excluded")
PRIVATE_UNITS = {"address", "pcap-filter"}  # the expression of a filter may contain addresses


@dataclass(frozen=True)
class Taken:
    """A sample of the campaign, and what it is called in the release."""

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
        help="a campaign without payload and without true addresses, for everybody",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder results/<campaign>")
    parser.add_argument("-o", dest="output", metavar="DIR", help="the folder to make (default: CAMPAIGN/release)")
    parser.add_argument("--key-file", metavar="FILE", help=f"the campaign's key (default: CAMPAIGN/{KEY})")
    parser.add_argument("--pseudonyms", action="store_true", help="hide the names of sites, ports and samples")
    parser.add_argument(
        "--engine", choices=sorted(ENGINES), default="native", help="of the new acaps (default: native)"
    )
    add_macs(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Make the set and say where it is."""
    campaign = opened(args.campaign)
    target = Path(args.output) if args.output else campaign.folder / "release"
    key_file = Path(args.key_file) if args.key_file else campaign.folder / KEY
    check_places(campaign, target, key_file)
    counts = make(campaign, target, key_file, args)
    print(
        f"{target}: {counts['samples']} samples, {counts['frames']} frames, {counts['tables']} tables; key: {key_file}"
    )


def check_places(campaign: Campaign, target: Path, key_file: Path) -> None:
    """Raise UserError where the set would take something's place or hold the key."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError("is there already", where=target, fix="remove it, or name another folder with -o")
    if not target.parent.is_dir():
        raise UserError("no such folder", where=target.parent, fix="make it, or mend -o")
    if key_file.resolve().is_relative_to(target.resolve()):
        raise UserError("the key would be published", where=key_file, fix="keep it outside of the release")
    if target.resolve() == campaign.folder.resolve():
        raise UserError("this is the campaign itself", where=target, fix="name another folder with -o")


def make(campaign: Campaign, target: Path, key_file: Path, args: argparse.Namespace) -> dict:
    """Make the set, whole or not at all; counts of what is in it. Raises UserError."""
    from acapella_core import anonymise as core  # noqa: PLC0415

    from . import release_readme  # noqa: PLC0415

    hidden = args.pseudonyms or tables_hidden(campaign)
    taken = samples(campaign, hide=hidden)
    if not key_file.exists() and not args.key_file:
        core.make_key(key_file)
    key = core.read_key(key_file)
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
    try:
        done = [one_sample(part, one, key, args) for one in taken]
        tables = make_tables(campaign, part / "tables", key, hidden=hidden)
        readme = release_readme.text(done, tables, hidden=hidden, macs=args.macs, engine=args.engine)
        write_texts(part, taken, done, readme)
        publish(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return {"samples": len(taken), "frames": sum(one["frames"] for one in done), "tables": len(tables)}


def tables_hidden(campaign: Campaign) -> bool:
    """Whether the tables were made with pseudonyms."""
    return with_pseudonyms(provenance(campaign, PROVENANCES[0]))


def with_pseudonyms(told: dict) -> bool:
    """Whether the tables that a provenance tells of have pseudonyms."""
    return bool(told.get("parameters", {}).get("pseudonyms"))


def provenance(campaign: Campaign, name: str) -> dict:
    """What a stage told of its tables; nothing where there are none."""
    path = campaign.folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def samples(campaign: Campaign, *, hide: bool) -> list[Taken]:
    """The samples that count in the campaign, by name. Raises UserError where a capture is missing."""
    from . import queries  # noqa: PLC0415
    from .pseudonyms import pseudonyms, true_names  # noqa: PLC0415

    catalog = require(campaign.catalog, f"run acapella index {campaign.folder}")
    reading = queries.one_line(campaign.folder, catalog_of=campaign.folder)
    with reading, contextlib.closing(queries.connect(catalog, read_only=True)) as con:
        found = con.sql(
            "select sample, site, port, sha256, start_ns, file, direction, method, snaplen, dropped_kernel, "
            "filtered::varchar as filtered, one_in, sampled_out, restriction, excluded "
            "from samples where acap is not null order by sample"
        )
        columns = found.columns
        rows = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
    if not rows:
        raise UserError("no sample with an acap", where=campaign.folder, fix=f"run acapella index {campaign.folder}")
    names = pseudonyms(rows) if hide else true_names(rows)
    taken = []
    for row, name in zip(rows, names, strict=True):
        file = require(campaign.folder / "raw" / row["file"], "the captures have to be there to be anonymised")
        taken.append(Taken(row["sample"], name.sample, name.site, name.port, file, row))
    return sorted(taken, key=lambda one: one.name)


def one_sample(part: Path, taken: Taken, key: bytes, args: argparse.Namespace) -> dict:
    """Anonymise one capture and digest what is left; what was done."""
    from .anonymise import anonymise  # noqa: PLC0415
    from .digest import Options, digest  # noqa: PLC0415

    folders = [part / kind for kind in ("captures", "acap", "flows")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    captures, acaps, flows = folders
    capture = captures / f"{taken.name}.pcap"
    counts = anonymise(str(taken.capture), capture, key, args.macs)
    options = Options(args.engine, (), taken.site, taken.port)
    digest([str(capture)], str(acaps / f"{taken.name}.parquet"), str(flows / f"{taken.name}.parquet"), options)
    return counts


def make_tables(campaign: Campaign, folder: Path, key: bytes, *, hidden: bool) -> list[str]:
    """Copy the tables that tell no address and, where names are hidden, no name; of flow reports make those that do
    with pseudonyms. The names of all that are there.
    """
    from . import release_flows  # noqa: PLC0415

    outputs = {}
    for one in (provenance(campaign, name) for name in PROVENANCES):
        if with_pseudonyms(one) or not hidden:
            outputs |= one.get("outputs", {})
    names = {Path(path).stem for path in outputs if path.startswith("tables/")}
    copied = {name for name in names if not tells_addresses(name)}
    renamed = names & set(release_flows.TABLES)
    for name in sorted(copied | renamed):
        folder.mkdir(exist_ok=True)
        for suffix in ("csv", "parquet"):
            source = require(campaign.table(name, suffix), f"run acapella process {campaign.folder}")
            if sha256_of(source) != outputs[f"tables/{name}.{suffix}"]:
                raise UserError("is not what its provenance says", where=source, fix="make the tables again")
            if name in copied:
                shutil.copyfile(source, folder / source.name)
    if renamed:
        release_flows.write(campaign, folder, key)
    return sorted(copied | renamed)


def tells_addresses(table: str) -> bool:
    """Return whether a table has addresses, filters, tunnel identifiers, hashes of them (which anyone can compare with
    the hash of a guess), or numbers of flows, which are in the order of addresses.
    """
    from acapella_core import schemas  # noqa: PLC0415

    described = schemas.table(table)
    columns = {column["name"]: column["unit"] for column in described["columns"]}
    private = not PRIVATE_UNITS.isdisjoint(columns.values()) or not IDENTIFYING.isdisjoint(columns)
    return private or columns.get("flow") == "row"


def write_texts(part: Path, taken: list[Taken], done: list[dict], readme: str) -> None:
    """Write samples.tsv, README.md and, last, the checksums."""
    rows = [sheet_row(one, counts) for one, counts in zip(taken, done, strict=True)]
    lines = ["\t".join(SHEET), *("\t".join(row) for row in rows)]
    atomic_text(part / "samples.tsv", "\n".join(lines) + "\n")
    atomic_text(part / "README.md", readme)
    files = sorted(path for path in part.rglob("*") if path.is_file())
    sums = [f"{sha256_of(path)}  {path.relative_to(part).as_posix()}" for path in files]
    atomic_text(part / SUMS, "\n".join(sums) + "\n")


def sheet_row(taken: Taken, counts: dict) -> list[str]:
    """A line of samples.tsv; nothing stands for what is not known."""
    known = {
        **{name: taken.about[name] for name in SHEET if name in taken.about},
        "sample": taken.name,
        "site": taken.site,
        "port": taken.port,
        "frames": counts["frames"],
        "bytes": counts["wire_bytes"],
        "cut_frames": counts["cut_frames"],
    }
    return ["" if known[name] is None else str(known[name]) for name in SHEET]


def publish(part: Path, target: Path) -> None:
    """Give the set its name, readable for all."""
    for path in part.rglob("*"):
        path.chmod(PUBLIC_FOLDER if path.is_dir() else PUBLIC_FILE)
    part.chmod(PUBLIC_FOLDER)
    try:
        part.rename(target)  # takes the place of an empty folder
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
