"""Validates the workflow's configuration with schemas/config.schema.json.

The schema defines the type, default and purpose of every key; config/config.yaml documents them for users. Errors name
the key.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from acapella.dashboard.campaigns import DIRECTORY as DASHBOARD
from acapella.infrastructure.inputs import has_infrastructure
from acapella.kappa import selection
from acapella_core import schemas, unique_keys
from acapella_core.errors import UserError
from acapella_core.validation import LocatedError, load_jsonschema, located_error

from .transfer import has_transfers

ABSENT = object()  # in place of the value of a key that a mapping does not have


def checked(config: dict, files: Mapping[Path | str, dict] = MappingProxyType({})) -> dict:
    """Return a copy of ``config`` with the schema's defaults for missing keys.

    A config that has transfers or an infrastructure study, but neither `testbed` nor `samples`, describes a campaign
    without samples. ``files``: contents of the config files.

    Raises UserError for the first error, for example ``config error: mine.yaml: digest.engin: unknown key; did you mean
    engine?``.
    """
    schema = schemas.json_schema("config")
    # If the command line changes the configuration, Snakemake adds keys to it.
    own_keys = {key: value for key, value in config.items() if key not in ("pathvars",)}
    error = located_error(own_keys, load_jsonschema().Draft202012Validator(schema))
    if error is not None:
        file = file_of(error, own_keys, files)
        raise UserError(f"config error: {f'{file}: ' if file else ''}{error}")
    filled = with_defaults(copy.deepcopy(own_keys), schema)
    if (has_transfers(filled) or has_infrastructure(filled)) and not own_keys.keys() & {"testbed", "samples"}:
        filled["samples"] = None
    check_across_keys(filled)
    return filled


def file_of(error: LocatedError, config: dict, files: Mapping[Path | str, dict]) -> Path | str | None:
    """Return the last file that contains the value of an error, or the mapping in which a key is missing.

    None if the value is from the command line, or if several files contain that mapping.
    """
    value = value_at(config, error.path)
    if value is ABSENT:
        found = [file for file, content in files.items() if value_at(content, error.path[:-1]) is not ABSENT]
        return found[0] if len(found) == 1 else None
    return next((file for file in reversed(files) if value_at(files[file], error.path) == value), None)


def value_at(config: Any, path: Sequence[str | int]) -> Any:
    """Return the value to which keys and indices lead; ABSENT if there is none."""
    for part in path:
        try:
            config = config[part]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return config


def check_file(path: Path, fix: str = "write campaign: NAME") -> dict:
    """Return the contents of a config file. Raises UserError if it cannot be read, or contains a key twice.

    Snakemake's errors would not name the file, and Snakemake would use the last of two values.
    """
    try:
        config = unique_keys.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        fix = "start in the directory that contains it, or specify a different file: --configfile FILE"
        raise UserError(f"cannot read: {error.strerror}", where=f"config error: {path}", fix=fix) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(unique_keys.describe(error), where=f"config error: {path}") from error
    if not isinstance(config, dict):
        raise UserError("not a mapping of keys to values", where=f"config error: {path}", fix=fix)
    return config


def with_defaults(value, schema: dict):
    """Add the defaults of missing keys to an object and its nested objects; return the object."""
    if not isinstance(value, dict):
        return value
    for key, inner in schema.get("properties", {}).items():
        if key not in value and "default" in inner:
            value[key] = copy.deepcopy(inner["default"])
        if key in value:
            value[key] = with_defaults(value[key], inner)
    return value


def check_across_keys(config: dict) -> None:
    """Check constraints between keys, which the schema cannot express. Raises UserError."""
    if config["campaign"] == DASHBOARD:
        raise UserError(
            f"config error: campaign: results/{DASHBOARD} is the directory of `snakemake dashboard`",
            fix="choose another name",
        )
    if not has_samples(config):
        check_without_samples(config)
    if config["consistency"]["identity"] == "regions" and not config["consistency"]["regions"]:
        raise UserError(
            "config error: consistency.regions: missing; identity regions requires at least one OFFSET:LENGTH"
        )
    check_selection(config["consistency"])
    for background, limit in config["storage"]["thresholds"]:
        if background >= limit:
            raise UserError(f"config error: storage.thresholds: [{background}, {limit}]: the lower one comes first")
    check_trials(config["trials"] or {}, config["exclude"])
    check_digest_on(config)
    if config["pseudonyms"] and has_infrastructure(config):
        raise UserError(
            "config error: infrastructure: the numbers of a site's ports identify it, so pseudonyms would not hide it",
            fix="set pseudonyms: false, or use another campaign for the infrastructure study",
        )


def check_digest_on(config: dict) -> None:
    """Check that no stage needs captures that are not fetched. Raises UserError."""
    if config["collect"]["digest_on"] == "here":
        return
    for key, value in {"trials": config["trials"], "flowreports.samples": config["flowreports"]["samples"]}.items():
        if value:
            raise UserError(
                f"config error: {key}: needs captures, which collect.digest_on: node does not fetch",
                fix=f"set collect.digest_on: here, or remove {key}",
            )


def has_samples(config: dict) -> bool:
    """Return whether a campaign has samples: captures of a testbed, or a sheet of files."""
    return config["testbed"] != "files" or bool(config["samples"])


def check_without_samples(config: dict) -> None:
    """Check that a campaign without samples has transfers or an infrastructure study, and no stage that needs samples.

    Raises UserError.
    """
    if not (has_transfers(config) or has_infrastructure(config)):
        raise UserError("config error: samples: missing; testbed files needs the path of a sample sheet")
    flowreports = config["flowreports"]
    for key, value in {
        "trials": config["trials"],
        "exclude": config["exclude"],
        "flowreports": flowreports["samples"] or flowreports["study"],
    }.items():
        if value:
            raise UserError(f"config error: {key}: the campaign has no samples", fix="set samples or testbed")


def check_selection(consistency: dict) -> None:
    """Check the keys that `acapella kappa` parses, so that errors are reported before samples are captured.

    Raises UserError.
    """
    readers = {
        "flow": lambda: selection.flow(consistency["flow"]),
        "from, to": lambda: selection.span(consistency["from"], consistency["to"]),
        "window": lambda: consistency["window"] is None or selection.window_ns(consistency["window"]),
    }
    for key, read in readers.items():
        try:
            read()
        except UserError as error:
            raise UserError(f"config error: consistency: {key}: {error}") from error


def check_trials(trials: dict, exclude: list[str]) -> None:
    """Check that no sample occurs twice in an environment or is excluded. Raises UserError.

    Two environments may share a sample as their baseline.
    """
    for environment in trials:
        if not isinstance(environment, str):
            raise UserError(f"config error: trials: {environment!r} is not text; write it in quotes")
        key_of: dict[str, str] = {}
        for sample, key in trial_samples(trials, environment):
            if sample in key_of:
                raise UserError(f"config error: {key}: sample {sample!r} is already in {key_of[sample]}")
            if sample in exclude:
                raise UserError(f"config error: {key}: sample {sample!r} is excluded")
            key_of[sample] = key


def trial_samples(trials: dict, environment: str) -> list[tuple[str, str]]:
    """Return the samples of an environment's trials, each with its key, as ``("quiet-2", "trials.quiet[1]")``."""
    samples = []
    for index, trial in enumerate(trials[environment]):
        key = f"trials.{environment}[{index}]"
        if isinstance(trial, str):
            samples.append((trial, key))
        else:
            samples += [(sample, f"{key}[{position}]") for position, sample in enumerate(trial)]
    return samples
