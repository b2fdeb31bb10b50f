"""Compare the results of a campaign with those published in a release of the same captures.

    acapella campaign compare results/reproduced demo-public
    acapella campaign compare results/reproduced demo-public --record

Run `make reproduce DATA=demo-public`, which computes the results from the captures of the release and then runs this
command. Compares the SHA-256 of acaps, flow tables, tables and figures with SHA256SUMS of the release. Tables that
differ are compared by column. Writes CAMPAIGN/reproduced.tsv (a line per difference), reproduced.json (the same, with
the state of every file) and reproduced.txt (the summary, also printed). The exit code is 1 if a published result
differs or was not recreated, or if the release was altered or contains no results.

--record copies the results to the release instead, with the versions that determine their bytes, and rewrites
SHA256SUMS.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from acapella.campaign.layout import Campaign, open_campaign
from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, sha256_of

from . import checksums, crate, results
from .column_differences import BYTES, Difference, differences
from .reproducible import RESULTS

OUTPUT = "reproduced"  # .tsv, .json and .txt
IDENTICAL, DIFFERENT, MISSING, EXTRA = "identical", "different", "not made here", "not in the release"
COLUMNS = ("file", "column", "rows", "first")
MAX_LINES = 20  # differences in the summary
TABLES = (".csv", ".parquet")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign compare`."""
    parser = subparsers.add_parser(
        "compare",
        help="compare the results of a campaign with those of a release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign that was computed from the release")
    parser.add_argument("release", metavar="DIR", help="directory of the release")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--record", action="store_true", help="copy the results of CAMPAIGN to DIR")
    actions.add_argument(
        "--copy-digest",
        metavar="SAMPLE",
        help="copy the digest and manifest of a sample from DIR to CAMPAIGN",
    )
    parser.add_argument(
        "--workflow", metavar="DIR", help="with --record: directory of the Snakefile, for the description of the run"
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads files of a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    # Each argument permits writes to the directory that contains it.
    output = Path(args.release, checksums.FILE) if args.record else Path(args.campaign, f"{OUTPUT}.tsv")
    confine_self(output)


def run(args: argparse.Namespace) -> int:
    """Compare, or record. Return the exit code, which is 1 if anything differs."""
    campaign, release = open_campaign(args.campaign), Path(args.release)
    if not release.is_dir():
        raise UserError("no such directory", where=release, fix="specify the directory of a release")
    if args.copy_digest:
        results.copy_digest(campaign, release, names.sample(args.copy_digest, "--copy-digest"))
        return 0
    if args.record:
        return record(campaign, release, args.workflow)
    comparison = Comparison(campaign, release)
    comparison.write()
    for line in comparison.summary():
        names.report(line, sys.stdout)
    return 0 if comparison.is_identical() else 1


def record(campaign: Campaign, release: Path, workflow: str | None) -> int:
    """Add the results of a campaign to a release and print their number; return 0."""
    described = workflow is not None and crate.is_available()
    count = results.record(campaign, release, Path(workflow) if described else None)
    print(f"{release}: {names.pluralize(count, 'file')} of tables and figures added in {RESULTS}/")
    if workflow is not None and not described:
        print(f"{crate.FILE} is omitted: the Python package rocrate is not installed")
    return 0


class Comparison:
    """The results of a campaign, compared with the files of a release."""

    def __init__(self, campaign: Campaign, release: Path):
        self.campaign, self.release = campaign, release
        self.sums = checksums.read(release)
        self.has_captures = (release / "captures").is_dir()
        self.altered = {
            name: state
            for name, state in checksums.altered(release, self.sums).items()
            if self.has_captures or not name.startswith("captures/")
        }
        self.versions = self._different_versions()
        self.states = self._states()
        different = self._files_in_state(DIFFERENT)
        self.differences = [difference for name in different for difference in self._explain(name)]
        self.original = self._compare_original_tables()

    def published(self, name: str) -> Path:
        """Return the path of a result in the release."""
        return self.release / (name if name.startswith(("acap/", "flows/")) else f"{RESULTS}/{name}")

    def is_identical(self) -> bool:
        """Return whether the release is unaltered, and all of its results were recreated and are identical."""
        return not self.altered and self.has_results() and set(self.states.values()) <= {IDENTICAL, EXTRA}

    def has_results(self) -> bool:
        """Return whether the release contains results."""
        return any(name.startswith(f"{RESULTS}/tables/") for name in self.sums)

    def _states(self) -> dict[str, str]:
        """Return the state of each result, by its path in the campaign."""
        compared = (f"{RESULTS}/tables/", f"{RESULTS}/figures/", *(("acap/", "flows/") if self.has_captures else ()))
        expected = {
            name.removeprefix(f"{RESULTS}/"): digest for name, digest in self.sums.items() if name.startswith(compared)
        }
        created = {
            *results.paths_of(self.campaign),
            *(results.digest_paths(self.campaign) if self.has_captures else ()),
        }
        states = {}
        for name in sorted(expected.keys() | created):
            if name not in expected:
                states[name] = EXTRA
            elif not (self.campaign.directory / name).is_file():
                states[name] = MISSING
            else:
                is_equal = sha256_of(self.campaign.directory / name) == expected[name]
                states[name] = IDENTICAL if is_equal else DIFFERENT
        return states

    def _files_in_state(self, state: str) -> list[str]:
        """Return the files in a state."""
        return [name for name, found in self.states.items() if found == state]

    def _explain(self, name: str) -> list[Difference]:
        """Return the differences of a file, by column if it is a table."""
        published = self.published(name)
        if not published.is_file():
            return [Difference(name, BYTES, None, "the release contains only its checksum")]
        if Path(name).suffix not in TABLES:
            return [Difference(name, BYTES, None, "the files differ")]
        here = self.campaign.directory / name
        return differences(name, published, here) or [Difference(name, BYTES, None, why_bytes_differ(published, here))]

    def _compare_original_tables(self) -> dict[str, list[str]]:
        """Return the differing columns of the tables that were computed from the unpublished captures, by table."""
        found = {}
        for path in sorted((self.release / "tables").glob("*.parquet")):
            name = f"tables/{path.name}"
            here = self.campaign.directory / name
            if name in self.sums and here.is_file():
                rows = differences(name, path, here)
                found[path.stem] = [row.column for row in rows if not row.first.startswith("the column is only in")]
        return found

    def _different_versions(self) -> dict[str, list]:
        """Return the versions that differ, each with its values in the release and on this machine."""
        path = self.release / results.VERSIONS
        if not path.is_file():
            return {}
        try:
            published = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise UserError(f"cannot read: {error}", where=path, fix="download the release again") from error
        here = results.versions(self.campaign)
        return {name: [published.get(name), here[name]] for name in here if published.get(name) != here[name]}

    def write(self) -> None:
        """Write reproduced.tsv, .json and .txt to the campaign."""
        target = self.campaign.directory
        rows = [[str(asdict(row)[name] if asdict(row)[name] is not None else "") for name in COLUMNS]
                for row in self.differences]  # fmt: skip
        lines = ["\t".join(COLUMNS), *("\t".join(row) for row in rows)]
        atomic_text(target / f"{OUTPUT}.tsv", "\n".join(lines) + "\n")
        content = {
            "files": self.states,
            "differences": [asdict(difference) for difference in self.differences],
            "altered": self.altered,
            "versions": self.versions,
            "original_tables": self.original,
        }
        atomic_text(target / f"{OUTPUT}.json", json.dumps(content, indent=2, sort_keys=True) + "\n")
        atomic_text(target / f"{OUTPUT}.txt", "".join(f"{names.shown(line)}\n" for line in self.summary()))

    def summary(self) -> list[str]:
        """Return the lines of the summary. The last one is the result."""
        different, missing, extra = (self._files_in_state(state) for state in (DIFFERENT, MISSING, EXTRA))
        lines = self._about_original_tables()
        lines += bounded([f"the release was altered: {name}: {state}" for name, state in self.altered.items()])
        lines += bounded([line_of(difference) for difference in self.differences])
        lines += bounded([f"not compared, because it was not made here: {name}" for name in missing])
        lines += bounded([f"not compared, because the release does not contain it: {name}" for name in extra])
        lines += self._reasons() if different or missing else []
        if not self.has_captures and (self.release / "acap").is_dir():
            lines.append("the release has no captures: results were computed from its acaps and flow tables")
        if not self.has_results():
            lines.append("the release contains no results: RECORD=yes adds them")
        compared = len(self._files_in_state(IDENTICAL)) + len(different)
        not_compared = f"; {names.pluralize(len(missing + extra), 'file')} not compared" if missing or extra else ""
        if different:
            result = f"{len(different)} of {names.pluralize(compared, 'file')} differ{not_compared}"
        else:
            result = f"all {names.pluralize(compared, 'compared file')} are identical{not_compared}"
        return [*lines, result]

    def _reasons(self) -> list[str]:
        """Return the lines about likely reasons for differences."""
        reasons = bounded([f"likely reason: {name} was changed" for name in self.altered])
        for name, (published, here) in self.versions.items():
            if name == "queries":
                reasons.append("likely reason: the SQL files of this version of Acapella are not those of the release")
            else:
                reasons.append(f"likely reason: {name} is {shown(here)} here, and was {shown(published)}")
        return reasons

    def _about_original_tables(self) -> list[str]:
        """Return the lines about tables that were computed from the unpublished captures."""
        if not self.original:
            return []
        changed = {table: columns for table, columns in self.original.items() if columns}
        lines = [
            f"tables of the unpublished captures (tables/): {len(self.original) - len(changed)} of "
            f"{names.pluralize(len(self.original), 'table')} have the same values if they are computed from the "
            "released captures"
        ]
        return lines + [f"  {table}: different values in {', '.join(columns)}" for table, columns in changed.items()]


def why_bytes_differ(published: Path, here: Path) -> str:
    """Return why two versions of a table with equal values have different bytes."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    if published.suffix == ".parquet":
        new, old = (pq.read_metadata(path).metadata or {} for path in (here, published))
        if keys := [key for key in sorted(new.keys() | old.keys()) if new.get(key) != old.get(key)]:
            return f"all values are equal; metadata {', '.join(names.shown(key.decode()) for key in keys)} differ"
    return "all values are equal, but not the bytes of the file"


def bounded(lines: list[str]) -> list[str]:
    """Return the first lines, and a line with the number of further ones."""
    more = len(lines) - MAX_LINES
    return lines if more <= 0 else [*lines[:MAX_LINES], f"and {more} more, in {OUTPUT}.json"]


def line_of(difference: Difference) -> str:
    """Return a difference as a line of the summary."""
    if difference.rows is None:
        return f"{difference.file}: {difference.first}"
    rows = names.pluralize(difference.rows, "row")
    return f"{difference.file}, {difference.column}: {rows}; first: {difference.first}"


def shown(value: object) -> str:
    """Return a version as text."""
    return value if isinstance(value, str) else json.dumps(value)
