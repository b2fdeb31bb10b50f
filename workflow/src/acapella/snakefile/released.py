"""Provides the config and the captures of campaigns that are recreated from a release (config key `reproduce`)."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from acapella.campaign.monitor import released_trials
from acapella.release import infrastructure, reproducible, transfers
from acapella_core import names
from acapella_core.errors import UserError

from .config import check_file

DEFAULT_CONFIG = Path("config/config.yaml")
NAME = "reproduced"  # campaign, unless the command line names a different one
OWN_KEYS = ("campaign", "reproduce", "pathvars")


def config_file(config: Mapping) -> Path:
    """Return the config file to read: the release's, or the default.

    Raises UserError if it is missing, or has keys that a release must not set: Snakemake itself would use some of them.
    """
    if not config.get("reproduce"):
        return DEFAULT_CONFIG
    path = Path(str(config["reproduce"]), reproducible.CONFIG)
    if not path.is_file():
        fix = "specify the directory of a release created by this version of acapella release"
        raise UserError("no such file", where=path, fix=fix)
    check_file(path, fix="copy the release again")
    check_keys(yaml.safe_load(path.read_text(encoding="utf-8")), path, reproducible.KEYS)
    return path


def check_keys(config: Mapping, path: Path, allowed: Iterable[str]) -> None:
    """Raise UserError for keys that are not allowed: they could start other programs or use other files."""
    for key in config:
        if key not in allowed:
            fix = f"a release may set only {', '.join(reproducible.KEYS)}"
            raise UserError(f"key {key!r} is not allowed", where=path, fix=fix)
    for key, names_of_keys in reproducible.INNER_KEYS.items():
        inner = config.get(key)
        if isinstance(inner, Mapping) and not inner.keys() <= set(names_of_keys):
            allowed_keys = ", ".join(f"{key}.{name}" for name in names_of_keys)
            raise UserError(
                f"other keys of {key} are not allowed", where=path, fix=f"a release may set only {allowed_keys}"
            )


def with_release(config: Mapping) -> dict[str, Any]:
    """Return the config of a campaign that is recreated from a release; any other config unchanged.

    Raises UserError for keys that can be set neither by the release nor on the command line, for a link to a file
    outside of the release, and for an invalid list of generated traffic.
    """
    if not config.get("reproduce"):
        return dict(config)
    directory = Path(str(config["reproduce"]))
    check_keys(config, directory / reproducible.CONFIG, (*reproducible.KEYS, *OWN_KEYS))
    check_links(directory)
    has_sheet = (directory / reproducible.SHEET).is_file()
    filled = {
        "campaign": NAME,
        "testbed": "files",
        "samples": str(directory / reproducible.SHEET) if has_sheet else None,
    }
    if (directory / transfers.DIRECTORY).is_dir():
        filled["transfer"] = {"runs": str(directory)}
    released_trials(directory)  # an invalid list is an error before any job
    # Trials are compared by the bytes of packets, and the P4 program reads packets.
    omitted = ("trials", "flowreports") if is_without_captures(config) else ()
    filled |= {key: value for key, value in config.items() if key not in omitted}
    if study := infrastructure.settings(directory):
        settings = filled.get(infrastructure.STAGE, {})
        if isinstance(settings, Mapping):  # any other value is an error of the schema
            filled[infrastructure.STAGE] = {**settings, **study}
    return filled


def is_without_captures(config: Mapping) -> bool:
    """Return whether results are computed from a release's acaps and flow tables, because it lacks captures."""
    return bool(config.get("reproduce")) and not Path(str(config["reproduce"]), "captures").is_dir()


def check_links(release: Path) -> None:
    """Raise UserError if a link in a release points to a file outside of it."""
    root = release.resolve()
    for directory, directories, files in os.walk(release):
        for path in (Path(directory, name) for name in (*directories, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise UserError(
                    "is a link to a file outside of the release", where=path, fix="copy the file, or remove it"
                )


def check_captures(config: Mapping, rows: Iterable) -> None:
    """Raise UserError if the sheet of a release names a file outside of the release."""
    if not config["reproduce"]:
        return
    directory = Path(config["reproduce"])
    for row in rows:
        if not row.file.resolve().is_relative_to(directory.resolve()):
            raise UserError(f"{row.file} is outside of the release", where=directory / reproducible.SHEET)


def release_files(config: Mapping) -> list[str]:
    """Return the files with which results are compared: checksums, tables and figures of the release."""
    if not config["reproduce"]:
        return []
    directory = Path(config["reproduce"])
    results = sorted(path for path in (directory / reproducible.RESULTS).rglob("*") if path.is_file())
    return [str(path) for path in (directory / "SHA256SUMS", *results)]


def write_analysis_config(campaign: str, config: Mapping, without_reports: Iterable[str] = ()) -> None:
    """Write the keys that determine results to config.json in the campaign, for a later release.

    ``without_reports``: samples whose flow reports failed. An error, such as a full disk, is only reported, because
    jobs also report it. The file of an earlier run is then removed, because stages of flow reports read it.
    """
    try:
        reproducible.write_campaign_config(Path(campaign), config, without_reports)
    except UserError as error:
        Path(campaign, reproducible.CAMPAIGN_CONFIG).unlink(missing_ok=True)
        names.report(f"acapella: warning: {error}; a release of this campaign will not contain its settings")
