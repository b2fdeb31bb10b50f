"""Layout of a campaign directory, results/<campaign>/."""

import difflib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_core import beneath, names, shards
from acapella_core.errors import UserError

CATALOG = "catalog.duckdb"
SHARE = "fs:"  # precedes the path of a capture on a share in a sample sheet and its manifest
RUN_AGAIN = "run snakemake, which digests it again"
MAX_LISTED = 5  # campaigns that an error suggests
# Stages that write provenance/STAGE.json, and the file's name in campaigns of earlier versions.
EARLIER_PROVENANCE = {
    "process": "provenance.json",
    **{
        stage: f"{stage}_provenance.json"
        for stage in (
            "consistency",
            "flowtables",
            "flowstudy",
            "flowpublished",
            "transfer",
            "infrastructure",
            "monitor",
            "papers",
        )
    },
}


@dataclass(frozen=True)
class Campaign:
    """Paths of the files of a campaign. The methods do not access the file system, except `at` and `files`.

    ``sharded``: directories whose files are in shards (`acapella_core.shards`).
    """

    directory: Path
    sharded: frozenset[str] = frozenset()

    @classmethod
    def at(cls, directory: Path) -> "Campaign":
        """Return the campaign in a directory, with the directories that currently have shards."""
        return cls(directory, shards.sharded(directory))

    def name(self, kind: str, sample: str, suffix: str) -> str:
        """Return the path of a sample's file in a directory such as acap, relative to the campaign."""
        return f"{shards.place(kind, sample, self.sharded)}/{sample}{suffix}"

    def files(self, kind: str, suffix: str) -> Iterator[Path]:
        """Yield the paths of the files of all samples in a directory such as acap."""
        for entry in shards.entries(self.directory / kind, suffix, in_shards=kind in self.sharded):
            yield Path(entry.path)

    def pattern(self, kind: str, name: str) -> str:
        """Return a glob pattern, relative to the campaign, for the files in a directory such as acap.

        ``name``: the suffix of the files of all samples, such as .parquet, or the name of one file.
        """
        name = f"*{name}" if name.startswith(".") else name
        return f"{kind}/*/{name}" if kind in self.sharded else f"{kind}/{name}"

    def query(self, text: str) -> str:
        """Return an SQL query with patterns that match this campaign's shards; queries in workflow/sql assume none."""
        for kind in self.sharded:
            text = text.replace(f"'{kind}/*.", f"'{kind}/*/*.")
        return text

    def generated(self, sample: str, table: str) -> Path:
        """Return the path of a table that a testbed wrote about the traffic that it generated for a sample."""
        return self.directory / self.name("generated", sample, f"/{table}.parquet")

    def flowreport(self, sample: str, file: str) -> Path:
        """Return the path of a file that `acapella p4 reports` writes for a sample."""
        return self.directory / self.name("flowreports", sample, f"/{file}")

    @property
    def catalog(self) -> Path:
        """Return the path of the DuckDB catalog that `acapella campaign index` writes."""
        return self.directory / CATALOG

    def manifest(self, sample: str) -> Path:
        """Return the path of a sample's manifest."""
        return self.directory / self.name("raw", sample, ".json")

    def capture(self, sample: str, file: str) -> Path:
        """Return the path of a sample's capture. ``file``: its name in the manifest."""
        return self.directory / shards.place("raw", sample, self.sharded) / file

    def acap(self, sample: str) -> Path:
        """Return the path of a sample's frame table (acap)."""
        return self.directory / self.name("acap", sample, ".parquet")

    def flows(self, sample: str) -> Path:
        """Return the path of a sample's flow table."""
        return self.directory / self.name("flows", sample, ".parquet")

    def partial(self, sample: str, table: str) -> Path:
        """Return the path of a partial table that `acapella campaign analyze` writes for a sample."""
        return self.directory / "partial" / sample / f"{table}.parquet"

    def batch_partial(self, batch: str, table: str) -> Path:
        """Return the path of a partial table of the samples of a batch."""
        return self.directory / "batches" / "partial" / batch / f"{table}.parquet"

    def table(self, name: str, suffix: str) -> Path:
        """Return the path of a published table. ``suffix``: csv or parquet."""
        return self.directory / "tables" / f"{name}.{suffix}"

    def provenance(self, stage: str) -> Path:
        """Return the path of the provenance file of a stage (`EARLIER_PROVENANCE`)."""
        return self.directory / "provenance" / f"{stage}.json"


def open_campaign(directory: str | Path) -> Campaign:
    """Return the campaign in a directory. From then on, writes below the directory do not follow symbolic links.

    Raises UserError if the directory does not exist, or the path is a file.
    """
    directory = Path(directory)
    if directory.is_file():
        fix = "specify the directory that contains catalog.duckdb; acapella digest --help shows a query of one acap"
        raise UserError("a file, not the directory of a campaign", where=directory, fix=fix)
    beneath.protect(directory)
    if not directory.is_dir():
        raise UserError("no such campaign directory", where=directory, fix=similar_campaigns(directory))
    return Campaign.at(directory)


def fix_without_catalog(campaign: Campaign) -> str:
    """Return what to do if a directory has no catalog: specify the campaign below or above it, or create one."""
    directory = campaign.directory
    above = [path for path in directory.parents if (path / CATALOG).is_file()][:1]
    if found := above or catalogs_below(directory):
        return f"specify a campaign: {', '.join(map(str, found[:MAX_LISTED]))}"
    return f"run acapella campaign index {directory}"


def similar_campaigns(directory: Path) -> str:
    """Return what to do if a directory does not exist: specify a campaign with a similar name, or one of the others."""
    found = {path.name: str(path) for path in catalogs_below(directory.parent)}
    if near := difflib.get_close_matches(directory.name, found, n=1):
        return f"did you mean {found[near[0]]}?"
    return f"specify a campaign: {', '.join([*found.values()][:MAX_LISTED]) or 'results/NAME'}"


def catalogs_below(directory: Path) -> list[Path]:
    """Return the campaigns with a catalog in a directory or its results/."""
    return sorted(path.parent for pattern in ("*", "results/*") for path in directory.glob(f"{pattern}/{CATALOG}"))


def existing_provenance(campaign: Campaign, stage: str) -> Path:
    """Return the path of a stage's provenance file; the earlier name if the campaign has only a file of that name."""
    path, earlier = campaign.provenance(stage), campaign.directory / EARLIER_PROVENANCE[stage]
    return earlier if os.path.lexists(earlier) and not os.path.lexists(path) else path


def provenance_names(stage: str) -> list[str]:
    """Return the current and the earlier name of a stage's provenance file, relative to the campaign directory."""
    return [f"provenance/{stage}.json", EARLIER_PROVENANCE[stage]]


def node_digest_of(manifest: object) -> dict | None:
    """Return key `node_digest` of a manifest: the sample was digested on its node, and its capture was not fetched."""
    digest = manifest.get("node_digest") if isinstance(manifest, dict) else None
    return digest if isinstance(digest, dict) else None


def storage_of(manifest: object) -> str | None:
    """Return the object in storage, s3://BUCKET/KEY or fs:PATH, that is a manifest's capture; None if it is a file."""
    storage = manifest.get("storage") if isinstance(manifest, dict) else None
    query = storage.get("query") if isinstance(storage, dict) else None
    return query if isinstance(query, str) else None


def readable_capture(campaign: Campaign, sample: str, capture: Path) -> Path:
    """Return the path of a sample's capture: ``capture``, or if this does not exist, its file on a share (fs:PATH).

    An object in storage is accepted if it was copied to ``capture``. Raises UserError if the capture was not fetched
    from its node, is only in object storage, or is not the version on the share that was digested.
    """
    try:
        manifest = json.loads(campaign.manifest(sample).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a release has no manifests; other errors are reported by those who read it
        return capture
    if node_digest_of(manifest):
        raise UserError(
            f"the capture of sample {sample} was not fetched: it was digested on its node (collect.digest_on)",
            where=campaign.directory,
        )
    query = storage_of(manifest)
    if not query or capture.is_file():
        return capture
    if not query.startswith(SHARE):
        raise UserError(
            f"the capture of sample {sample} is in storage", where=names.shown(query), fix=f"copy it to {capture}"
        )
    return file_on_share(query, manifest["storage"].get("etag"), sample, capture)


def file_on_share(query: str, etag: object, sample: str, capture: Path) -> Path:
    """Return the path of a file on a share, whose size and modification time must be those in ``etag``."""
    path, where = Path(query.removeprefix(SHARE)), names.shown(query)
    if not path.is_absolute() or not path.is_file():
        fix = f"mount the share, or copy the capture to {capture}"
        raise UserError(f"the capture of sample {sample} is not there", where=where, fix=fix)
    if version_on_share(path) != etag:
        raise UserError(f"the capture of sample {sample} has changed since the digest", where=where, fix=RUN_AGAIN)
    return path


def version_on_share(path: Path) -> str:
    """Return the ETag in manifests of a file on a share: size and modification time, as in ETags of web servers."""
    found = path.stat()
    return f"{found.st_size}-{found.st_mtime_ns}"


def require(path: Path, fix: str) -> Path:
    """Return ``path`` if it is a file. Otherwise raises UserError with the advice ``fix``."""
    if not path.is_file():
        what = f"the target of this link does not exist: {path.readlink()}" if path.is_symlink() else "no such file"
        raise UserError(what, where=path, fix=fix)
    return path
