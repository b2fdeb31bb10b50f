"""Lists the results computed from a release and the versions that determine their bytes, and adds them to it."""

import json
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from acapella.campaign.layout import Campaign, existing_provenance
from acapella.common import queries
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, atomic_text, sha256_of

from . import checksums, crate, croissant
from .reproducible import RESULTS, campaign_config

VERSIONS = f"{RESULTS}/versions.json"
PACKAGES = ("acapella", "altair", "duckdb", "numpy", "pyarrow", "vl-convert-python")
# Stages whose tables are computed only from files of a release.
STAGES = ("process", "consistency", "flowtables", "transfer", "monitor", "infrastructure")
# Among these, the tables that depend on programs that the reader may not have: other flow meters.
OMITTED = ("tables/flowreport_tools.csv", "tables/flowreport_tools.parquet")
PUBLIC_FILE, PUBLIC_DIRECTORY = 0o644, 0o755


def paths_of(campaign: Campaign) -> list[str]:
    """Return the figures of a campaign, and its tables from STAGES except OMITTED, relative to its directory."""
    tables = []
    for stage in STAGES:
        path = existing_provenance(campaign, stage)
        if path.is_file():
            outputs = json.loads(path.read_text(encoding="utf-8"))["outputs"]
            tables += [name for name in outputs if name.startswith("tables/") and name not in OMITTED]
    formats = (
        campaign_config(campaign.directory).get("figures", {}).get("formats", ["*"])
    )  # excludes files of an earlier run
    figures = [path for suffix in formats for path in (campaign.directory / "figures").glob(f"[!.]*.{suffix}")]
    return sorted(tables + [path.relative_to(campaign.directory).as_posix() for path in figures])


def digest_paths(campaign: Campaign) -> list[str]:
    """Return the acaps and flow tables of a campaign, relative to its directory."""
    found = [*campaign.directory.glob("acap/*.parquet"), *campaign.directory.glob("flows/*.parquet")]
    return sorted(path.relative_to(campaign.directory).as_posix() for path in found)


def versions(campaign: Campaign) -> dict:
    """Return the versions of everything that determines the bytes of a campaign's results, without paths or hosts."""
    used = {name: installed_version(name) for name in PACKAGES}
    path = existing_provenance(campaign, "process")
    if path.is_file():  # the campaign has samples
        provenance = json.loads(path.read_text(encoding="utf-8"))
        used |= {name: provenance["versions"][name] for name in ("tshark", "digest")}
        used["vendors"] = provenance["vendors"]
    used["queries"] = {
        path.relative_to(queries.DIRECTORY).as_posix(): sha256_of(path)
        for path in sorted(queries.DIRECTORY.rglob("*.sql"))
    }
    return used


def copy_digest(campaign: Campaign, release: Path, sample: str) -> None:
    """Copy the acap, flow table and manifest of a sample from a release. Raises UserError if one was altered."""
    sums = checksums.read(release)
    copies = {
        f"acap/{sample}.parquet": campaign.acap(sample),
        f"flows/{sample}.parquet": campaign.flows(sample),
        f"{RESULTS}/raw/{sample}.json": campaign.manifest(sample),
    }
    for name, target in copies.items():
        if sums.get(name) != sha256_of(release / name):
            raise UserError("was changed, or is not listed in SHA256SUMS", where=release / name)
        with atomic_path(target) as temporary:
            shutil.copyfile(release / name, temporary)


def installed_version(package: str) -> str | None:
    """Return the installed version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def record(campaign: Campaign, release: Path, workflow: Path | None = None) -> int:
    """Copy the results of a campaign to the release from which they were computed; return their number.

    ``workflow``: directory of the Snakefile; with it, the release is described as an RO-Crate of this run.

    Raises UserError if the release has changed since it was created, or the digests differ from the release.
    """
    sums = checksums.read(release)
    recorded = (f"{RESULTS}/", croissant.FILE, crate.FILE)  # files of an earlier, possibly interrupted call
    for name, state in checksums.altered(release, sums).items():
        if not name.startswith(recorded):
            raise UserError(
                f"{state} since the release was created", where=release / name, fix="create the release again"
            )
    for name in digest_paths(campaign):
        if sums.get(name) != sha256_of(campaign.directory / name):
            raise UserError("differs from the release", where=campaign.directory / name)
    if (release / RESULTS).exists():
        shutil.rmtree(release / RESULTS)
    names = paths_of(campaign)
    manifests = [f"raw/{Path(name).stem}.json" for name in digest_paths(campaign) if name.startswith("acap/")]
    for name in names + manifests:
        target = release / RESULTS / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, PUBLIC_FILE) as temporary:
            shutil.copyfile(campaign.directory / name, temporary)
    used = versions(campaign)
    atomic_text(release / VERSIONS, json.dumps(used, indent=2, sort_keys=True) + "\n", PUBLIC_FILE)
    (release / crate.FILE).unlink(missing_ok=True)
    if workflow is not None:
        crate.copy_workflow(workflow, release, PUBLIC_FILE)
        crate.write(release, used, PUBLIC_FILE)
    croissant.write_again(release, PUBLIC_FILE)
    for directory in (release / RESULTS, *(path for path in (release / RESULTS).rglob("*") if path.is_dir())):
        directory.chmod(PUBLIC_DIRECTORY)
    checksums.write(release, PUBLIC_FILE)
    return len(names)
