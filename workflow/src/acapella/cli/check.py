"""Check a third-party results directory before it is used.

    acapella campaign check results/demo
    acapella campaign check demo-public

Verifies the names of files, and the names of samples and files in manifests, raw/samples.tsv and the catalog. Verifies
that all symbolic links are of the kinds that the workflow creates: captures in raw/, cache entries in acap/ and flows/.
Verifies the SHA-256 of every file listed in a manifest, the catalog, a provenance file or SHA256SUMS. Prints a line for
each finding.

Figures, the report, logs and some other files of a campaign are in none of these lists: they are counted by kind, but
not verified. Files that the workflow did not write are listed, but do not count as findings. The lists
themselves are not signed: anyone who can write to the directory can also change the lists.

Exit code: 0 if there are no findings, 1 if there are any, 2 if the directory is neither a campaign nor a release.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from acapella.campaign import sql
from acapella.campaign.layout import EARLIER_PROVENANCE, Campaign, node_digest_of, open_campaign, storage_of
from acapella.common import queries
from acapella.common.links import links, without_shard
from acapella.figures import registry
from acapella_core import names, schemas, sheets
from acapella_core.errors import DAMAGED, UserError

SUMS = "SHA256SUMS"
SAMPLE_SUFFIXES = {"raw": ".json", "acap": ".parquet", "flows": ".parquet", "partial": "", "flowreports": ""}
KINDS = ("acap", "flows")
RECREATED = ("acap", "flows", "tables")  # directories of files that Snakemake can create again
RECREATE_HINT = "; if this campaign is yours, delete the file and run snakemake, which creates it again"
MAX_BYTES = 64 << 20  # maximum size of a file that is read into memory
MAX_SIZE_RATIO = 1000  # of size to allocated bytes; sparse files exceed it, files on compressing file systems do not
BLOCK_BYTES = 512  # unit of st_blocks
CHUNK_BYTES = 1 << 20
KERNEL_DIRECTORIES = ("dev", "proc", "sys")
# Limits for queries of the catalog, whose tables may be from a third party: rows of a table, time, memory, disk space.
MAX_ROWS = 1_000_000
MAX_S = 60.0
CATALOG_BOUNDS = {"memory_limit": "1GiB", "max_temp_directory_size": "1GiB"}
ROWS_AT_ONCE = 10_000
# Kinds of files of a campaign that no list contains, as patterns of their paths. `kind_of` also checks the values of
# named groups.
NOT_LISTED = {
    "catalog": r"catalog\.duckdb",
    "lists": r"provenance/(?P<stage>\w+)\.json|(\w+_)?provenance\.json|"
    r"raw/((samples|failed)\.tsv|([0-9a-f]{2}/)?[^/]+\.json)|(release-)?pseudonyms\.tsv",
    "settings": r"(captures|config)\.json|reproduced\.(tsv|json|txt)",
    "collections": r"collect\.json|outcomes\.csv|stale/raw/.+",
    "partial": r"(batches/)?partial/[^/]+/(\.snakemake_timestamp|(?P<query>\w+)\.parquet)",
    "tables": r"tables/(?P<table>\w+)\.(csv|parquet)",
    "trials": r"(kappa|consistency)/[^/]+\.json",
    "flow reports": r"(flowreports/(_[0-9a-f]{2}/)?|flowstudy/)([^/]+/)?(\w+\.(parquet|json|pcap)|control\.txt)",
    "storage": r"storage/study\.json",
    "transfers": r"transfers/((complete|config|grid)\.json|[^/]+/[\w.-]+\.(json|parquet|pcap))",
    "figures": r"figures/(\.drawn\.json|(?P<figure>\w+)\.(svg|pdf|png|html))",
    "report": r"report\.html",
    "batches": r"batches/(plan\.jsonl|((done/)?\w+/)b[0-9]+(\.tables)?\.(tsv|json|lock))",
    "failed samples": r"quarantine/([0-9a-f]{2}/)?[^/]+\.(json|log)",
    "logs": r"logs/(batches/)?(\w+/)?([0-9a-f]{2}/)?[^/]+\.(log|exit|done|current|jsonl|failed\.tsv)",
    "benchmarks": r"benchmarks/(batches/)?(\w+/)?([0-9a-f]{2}/)?[^/]+\.tsv",
    "locks": r"\.(collect|transfer)\.lock",
    "key": r"release\.key",
    "release": r"release/.+",
    "incomplete": r"(.*/)?\.[^/]+\.part",
}


class Findings:
    """The findings in a directory, one line each, and its listed and unlisted files."""

    def __init__(self, campaign: Campaign):
        self.campaign = campaign
        self.directory = campaign.directory
        self.lines: list[str] = []
        self.listed: set[str] = set()
        self.unlisted: list[str] = []
        self.released = False

    def add(self, place: object, what: object) -> None:
        """Add a finding."""
        self.lines.append(f"{place}: {what}")

    def verify(self, name: object, checksum: object, list_name: str) -> None:
        """Compare the SHA-256 of a file with its entry in the list ``list_name``; add a finding if they differ."""
        try:
            path = self.directory / names.path(name, list_name)
        except UserError as error:
            self.lines.append(str(error))
            return
        self.listed.add(str(name))
        try:
            if bounded_sha256(path) != checksum:
                can_rerun = not self.released and Path(name).parts[0] in RECREATED
                self.add(name, f"its SHA-256 differs from that in {list_name}" + (RECREATE_HINT if can_rerun else ""))
        except FileNotFoundError:
            self.add(name, f"no such file, but {list_name} lists it")
        except OSError as error:
            self.add(name, f"cannot read: {error.strerror}")
        except ValueError as error:
            self.add(name, error)


def bounded_sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file. Raises OSError, or ValueError if it is not regular, or mostly sparse.

    The number of bytes read is limited to the size of the file when it is opened, because files of the kernel have size
    0 and may be endless. A named pipe does not block.
    """
    target = path.resolve()
    if target.parts[1:2] and target.parts[1] in KERNEL_DIRECTORIES:
        raise ValueError(f"is a link to {target}, not a file on a disk")
    with open(path, "rb", opener=open_without_blocking) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("is not a regular file")
        if status.st_size > MAX_BYTES and status.st_size > MAX_SIZE_RATIO * status.st_blocks * BLOCK_BYTES:
            raise ValueError(f"has {status.st_size} bytes, of which {status.st_blocks * BLOCK_BYTES} are on the disk")
        checksum, remaining = hashlib.sha256(), status.st_size
        while remaining and (chunk := stream.read(min(remaining, CHUNK_BYTES))):
            checksum.update(chunk)
            remaining -= len(chunk)
    return checksum.hexdigest()


def open_without_blocking(path: str, flags: int) -> int:
    """Open a file without blocking if it is a named pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign check`."""
    parser = subparsers.add_parser(
        "check",
        help="check names, checksums and links of a third-party campaign or release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", metavar="DIR", help="a campaign's directory or a release")
    return parser


confine = sql.confine


def run(args: argparse.Namespace) -> int:
    """Print the findings and a summary, and return the exit code."""
    findings = check(open_campaign(args.directory))
    for line in findings.lines:
        print(names.shown(line))
    verified, found = names.pluralize(len(findings.listed), "file"), names.pluralize(len(findings.lines), "finding")
    summary = [f"{args.directory}: {verified} verified, {found}"]
    if not findings.released:
        summary += report_unlisted(findings)
    print(names.shown("; ".join(summary)))
    return DAMAGED if findings.lines else 0


def report_unlisted(findings: Findings) -> list[str]:
    """Print the files of a campaign that are neither listed nor of a kind that the workflow writes without a checksum.

    Return texts with the numbers of files without a checksum.
    """
    kinds = Counter(map(kind_of, findings.unlisted))
    for name in findings.unlisted:
        if kind_of(name) is None:
            reason = "no catalog lists it" if Path(name).parts[0] in KINDS else "the workflow writes no such file"
            print(names.shown(f"{name}: not verified: {reason}"))
    others = kinds.pop(None, 0)
    counts = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
    counted = names.pluralize(kinds.total(), "file")
    lines = [f"{counted} that the workflow writes without a checksum ({counts})"] if kinds else []
    return [*lines, names.pluralize(others, "other file")] if others else lines


def kind_of(name: str) -> str | None:
    """Return the kind of an unlisted file of a campaign, determined by its path.

    Return None if the workflow does not write such a file.
    """
    for kind, pattern in NOT_LISTED.items():
        match = re.fullmatch(pattern, name)
        if match and all(value in (None, *known_names()[group]) for group, value in match.groupdict().items()):
            return kind
    return None


@functools.cache
def known_names() -> dict[str, Sequence[str]]:
    """Return the valid values of each named group in NOT_LISTED."""
    tables = sorted(path.stem for path in (schemas.root() / "tables").glob("*.yaml"))
    return {
        "query": queries.names("analyze"),
        "table": tables,
        "figure": registry.all_figures(),
        "stage": [*EARLIER_PROVENANCE],
    }


def check(campaign: Campaign) -> Findings:
    """Check a directory and return the findings. Raises UserError if it is neither a campaign nor a release."""
    findings = Findings(campaign)
    released = findings.released = (campaign.directory / SUMS).is_file()
    provenances = provenance_files(campaign)
    if not (released or provenances or campaign.catalog.is_file() or (campaign.directory / "raw").is_dir()):
        raise UserError(
            "is neither a campaign nor a release", where=campaign.directory, fix=f"it has no {SUMS}, catalog or raw/"
        )
    for place, what in links(campaign.directory):
        findings.add(place, what)
    files = list(check_files(findings))
    if released:
        check_sums(findings)
    for path in provenances:
        check_provenance(findings, path)
    check_manifests(findings)
    if campaign.catalog.is_file():
        check_catalog(findings, campaign)
    known = {*findings.listed, SUMS}
    findings.unlisted = [name for name in files if name not in known]
    if released:
        for name in findings.unlisted:
            findings.add(name, f"is not in {SUMS}")
    return findings


def provenance_files(campaign: Campaign) -> list[Path]:
    """Return the paths of all provenance files, except files of earlier versions that a stage has replaced.

    These may list files that the stage has also replaced.
    """
    replaced = {
        campaign.directory / name
        for stage, name in EARLIER_PROVENANCE.items()
        if os.path.lexists(campaign.provenance(stage))
    }
    directory = campaign.directory / "provenance"
    current = [] if directory.is_symlink() else directory.glob("*.json")  # the link is already a finding
    return sorted({*current, *campaign.directory.glob("*provenance.json")} - replaced)


def check_files(findings: Findings) -> Iterator[str]:
    """Check the names and types of all files; yield the path of each regular file and symbolic link."""
    for parent, directories, files in os.walk(findings.directory):
        for name in sorted((*directories, *files)):
            path = Path(parent) / name
            place = path.relative_to(findings.directory)
            if not names.is_component(name):
                findings.add(place, "its name has control characters")
            suffix = SAMPLE_SUFFIXES.get("/".join(without_shard(place)[:-1]))
            if suffix is not None and name.endswith(suffix) and not names.SAMPLE.fullmatch(name.removesuffix(suffix)):
                findings.add(place, f"is not the name of a sample: {names.SAMPLE_RULE}")
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                yield str(place)
            elif not stat.S_ISDIR(mode):
                findings.add(place, "is neither a file nor a directory")


def read_text(path: Path) -> str:
    """Return the text of a regular file. Raises OSError, or ValueError if it is not a regular file or is too large.

    Named pipes do not block, and links are not followed.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("not a regular file")
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    return content.decode("utf-8", "replace")


def read_object(findings: Findings, path: Path) -> dict:
    """Return the JSON object in a file. If there is none, add a finding and return an empty object."""
    place = path.relative_to(findings.directory)
    try:
        content = json.loads(read_text(path))
        if not isinstance(content, dict):
            raise ValueError("not an object")
    except (OSError, ValueError, RecursionError) as error:
        findings.add(place, f"cannot be read as JSON: {error}")
        return {}
    return content


def check_sums(findings: Findings) -> None:
    """Verify the files that SHA256SUMS lists."""
    try:
        lines = read_text(findings.directory / SUMS).splitlines()
    except (OSError, ValueError) as error:
        findings.add(SUMS, f"cannot be read: {error}")
        return
    for line in lines:
        checksum, _, name = line.partition("  ")
        findings.verify(name, checksum, SUMS)


def check_provenance(findings: Findings, path: Path) -> None:
    """Verify the tables that a provenance file lists, and the digests and manifests that are their inputs."""
    content, place = read_object(findings, path), str(path.relative_to(findings.directory))
    outputs, inputs = (content.get(key) if isinstance(content.get(key), dict) else {} for key in ("outputs", "inputs"))
    for name, checksum in outputs.items():
        findings.verify(name, checksum, place)
    parameters = content.get("parameters")
    if isinstance(parameters, dict) and parameters.get("pseudonyms"):
        return  # the samples are named by pseudonyms, the files by original names
    for sample, checksums in inputs.items():
        for kind in KINDS:
            if isinstance(checksums, dict) and kind in checksums:
                findings.verify(findings.campaign.name(kind, sample, ".parquet"), checksums[kind], place)
        if isinstance(checksums, dict) and "manifest" in checksums:
            findings.verify(findings.campaign.name("raw", sample, ".json"), checksums["manifest"], place)


def check_manifests(findings: Findings) -> None:
    """Verify the captures that manifests list, and the names in them and in the sheets."""
    for name, columns in (("samples.tsv", sheets.TAKEN), ("failed.tsv", sheets.FAILED)):
        sheet = findings.directory / "raw" / name
        if sheet.is_symlink() or not sheet.exists():
            continue  # a link is already a finding
        try:
            read_text(sheet)
            sheets.read(sheet, columns)
        except (OSError, ValueError) as error:
            findings.add(sheet.relative_to(findings.directory), f"cannot be read: {error}")
        except UserError as error:
            findings.lines.append(str(error).removeprefix(f"{findings.directory}/"))
    for path in findings.campaign.files("raw", ".json"):
        if path.is_symlink():
            continue  # already a finding
        place, manifest = path.relative_to(findings.directory), read_object(findings, path)
        if not manifest:
            continue
        try:
            names.sample(manifest.get("sample"), place)
            stored = node_digest_of(manifest) or manifest  # the capture may not have been fetched
            file = names.file(stored.get("file"), place)
            names.file(manifest.get("file"), place)
            for key in ("site", "port"):
                names.label(manifest.get(key), place)
        except UserError as error:
            findings.lines.append(str(error))
            continue
        if manifest["sample"] != path.stem:
            findings.add(place, "is the manifest of a different sample")
        if not storage_of(manifest) or (path.parent / file).exists():
            findings.verify(str(place.parent / file), stored.get("sha256"), str(place))
        check_replay(findings, manifest.get("replay"), str(place))
        check_generated(findings, manifest, str(place))


def check_replay(findings: Findings, replay: object, place: str) -> None:
    """Verify the recordings and departures that the manifest of a trial lists."""
    # A recording belongs to several samples, so it is not in a shard.
    for key, directory in {"recordings": "raw", "departures": str(Path(place).parent)}.items():
        files = replay.get(key) if isinstance(replay, dict) else None
        for entry in files if isinstance(files, list) else ():
            if isinstance(entry, dict):
                findings.verify(f"{directory}/{entry.get('file')}", entry.get("sha256"), place)


def check_generated(findings: Findings, manifest: dict, place: str) -> None:
    """Verify the files that the manifest of a trial with generated traffic lists."""
    generated = manifest.get("generated")
    files = generated.get("files") if isinstance(generated, dict) else None
    for entry in files if isinstance(files, list) else ():
        if isinstance(entry, dict):
            file = findings.campaign.name("generated", manifest["sample"], f"/{entry.get('file')}")
            findings.verify(file, entry.get("sha256"), place)


def check_catalog(findings: Findings, campaign: Campaign) -> None:
    """Verify the digests that the catalog lists, and the names in it."""
    place = campaign.catalog.name
    samples, acaps = [], []
    try:
        with queries.one_line(), contextlib.closing(queries.open_catalog(campaign.directory, **CATALOG_BOUNDS)) as con:
            timer = threading.Timer(MAX_S, con.interrupt)
            timer.start()
            try:
                samples = rows_of(con, "samples", ("sample", "site", "port"))
                acaps = rows_of(con, "acaps", ("sample", "sha256", "flows_sha256", "manifest_sha256"))
            finally:
                timer.cancel()
    except UserError as error:
        findings.add(place, error)
        return
    if samples is None:
        findings.add(place, "has no table samples")
    for sample, site, port in samples or ():
        try:
            names.sample(sample, place)
            for label in (site, port):
                if label is not None:  # null in a catalog of an earlier version if the sample was not collected
                    names.label(label, f"{place}: sample {sample}")
        except UserError as error:
            findings.lines.append(str(error))
    for sample, *checksums in acaps or ():
        suffixes = {"acap": ".parquet", "flows": ".parquet", "raw": ".json"}
        files = [campaign.name(kind, sample, suffix) for kind, suffix in suffixes.items()]
        for file, checksum in zip(files, checksums, strict=True):
            if file not in findings.listed:
                findings.verify(file, checksum, place)


def rows_of(con, name: str, columns: Sequence[str]) -> list[tuple] | None:
    """Return the sorted rows of a table of a catalog; None if there is no such table.

    Views are not read, because their queries may be from a third party. A table with lists is in the schema `stored`.
    Raises UserError if the table has too many rows.
    """
    query = "select schema_name from system.main.duckdb_tables() where table_name = $1 and not internal order by 1 desc"
    schemas = [schema for (schema,) in con.execute(query, [name]).fetchall()]
    schema = next((schema for schema in ("stored", "main") if schema in schemas), None)
    if schema == "stored":
        con.execute(f"explain from {name}").fetchall()  # only binds the view: executing it could read other files
    if schema is None:
        return None
    cursor = con.execute(f"select {', '.join(columns)} from {schema}.{name} limit {MAX_ROWS + 1}")
    rows: list[tuple] = []
    while more := cursor.fetchmany(ROWS_AT_ONCE):
        rows += more
    if len(rows) > MAX_ROWS:
        raise UserError(f"table {name} has more than {MAX_ROWS} rows")
    return sorted(rows, key=repr)
