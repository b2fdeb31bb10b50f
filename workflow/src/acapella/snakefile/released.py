"""Campaigns that are made from a release (config key `reproduce`): their config, and their captures."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from acapella.release import reproducible
from acapella_core import names
from acapella_core.errors import UserError

DEFAULT_CONFIG = Path("config/config.yaml")
NAME = "reproduced"  # campaign, unless the command line names another one
OWN_KEYS = ("campaign", "reproduce", "pathvars")


def config_file(config: Mapping) -> Path:
    """Return the config file to read: that of the release, or the default. Raises UserError if it is missing."""
    if not config.get("reproduce"):
        return DEFAULT_CONFIG
    path = Path(str(config["reproduce"]), reproducible.CONFIG)
    if not path.is_file():
        fix = "name the directory of a release, made by acapella release of this version"
        raise UserError("no such file", where=path, fix=fix)
    return path


def with_release(config: Mapping) -> dict[str, Any]:
    """Return the config of a campaign that is made from a release; any other config unchanged.

    Raises UserError for keys that a release must not set, because they could start other programs or read other files.
    """
    if not config.get("reproduce"):
        return dict(config)
    directory = Path(str(config["reproduce"]))
    for key in config:
        if key not in (*reproducible.KEYS, *OWN_KEYS):
            fix = f"a release may set only {', '.join(reproducible.KEYS)}"
            raise UserError(f"key {key!r} is not allowed", where=directory / reproducible.CONFIG, fix=fix)
    if not dict(config.get("digest") or {}).keys() <= {"engine"}:
        fix = "a release may set only digest.engine"
        raise UserError("other keys of digest are not allowed", where=directory / reproducible.CONFIG, fix=fix)
    made = {"campaign": NAME, "testbed": "files", "samples": str(directory / reproducible.SHEET)}
    omitted = ("trials",) if is_without_captures(config) else ()  # trials are compared by the bytes of packets
    return made | {key: value for key, value in config.items() if key not in omitted}


def is_without_captures(config: Mapping) -> bool:
    """Return whether results are made from the acaps and flow tables of a release, because its captures are missing."""
    return bool(config.get("reproduce")) and not Path(str(config["reproduce"]), "captures").is_dir()


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


def write_analysis_config(campaign: str, config: Mapping) -> None:
    """Write the keys that determine results to config.json in the campaign, for a later release.

    An error, such as a full disk, is only reported: it affects no result, and jobs report it, too.
    """
    try:
        reproducible.write_campaign_config(Path(campaign), config)
    except UserError as error:
        names.report(f"acapella: warning: {error}; a release of this campaign will not contain its settings")
