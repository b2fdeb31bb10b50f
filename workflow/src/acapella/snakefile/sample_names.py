"""Checks the sample names in the configuration."""

from collections.abc import Collection, Iterable

from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean

from .config import trial_samples

ALL_SAMPLES = "all"  # value of flowreports.samples


def configured_names(config: dict) -> list[tuple[str, str]]:
    """Return the names of samples in a configuration, each with its key, such as ``("quiet-2", "trials.quiet[1]")``."""
    trials = config["trials"] or {}
    with_reports = config["flowreports"]["samples"] or []
    return [
        *((name, "exclude") for name in config["exclude"]),
        *((name, "flowreports.samples") for name in ([] if with_reports == ALL_SAMPLES else with_reports)),
        *(name_and_key for environment in trials for name_and_key in trial_samples(trials, environment)),
    ]


def unknown_name(names_and_keys: Iterable[tuple[str, str]], known: Collection[str], ending: str) -> str | None:
    """Return an error message for the first (name, key) whose name is not ``known``; None if all are.

    ``ending`` completes the sentence "NAME is not a sample ...".
    """
    for name, key in names_and_keys:
        if name not in known:
            return f"{key}: {name!r} is not a sample {ending}{did_you_mean(name, known)}"
    return None


def check_names(names_and_keys: Iterable[tuple[str, str]], known: Collection[str], ending: str) -> None:
    """Raise UserError if a name is not ``known``; arguments as in `unknown_name`."""
    if message := unknown_name(names_and_keys, known, ending):
        raise UserError(message)
