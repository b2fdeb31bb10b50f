"""Checks of the sample names in the configuration."""

from collections.abc import Collection, Iterable

from acapella_core.errors import UserError

from .config import did_you_mean, trial_samples

ALL_SAMPLES = "all"  # value of flowreports.samples


def configured_names(config: dict) -> list[tuple[str, str]]:
    """Return the names of samples in a configuration, each with its key, as ``("quiet-2", "trials.quiet[1]")``."""
    trials = config["trials"] or {}
    reported = config["flowreports"]["samples"] or []
    return [
        *((name, "exclude") for name in config["exclude"]),
        *((name, "flowreports.samples") for name in ([] if reported == ALL_SAMPLES else reported)),
        *(named for environment in trials for named in trial_samples(trials, environment)),
    ]


def unknown_name(named: Iterable[tuple[str, str]], known: Collection[str], place: str) -> str | None:
    """Return an error message for the first (name, key) whose name is not ``known``; None if all are.

    ``place`` completes the sentence "NAME is not a sample ...".
    """
    for name, key in named:
        if name not in known:
            return f"{key}: {name!r} is not a sample {place}{did_you_mean(name, known)}"
    return None


def check_names(named: Iterable[tuple[str, str]], known: Collection[str], place: str) -> None:
    """Raise UserError if a name is not ``known``; arguments as in `unknown_name`."""
    if message := unknown_name(named, known, place):
        raise UserError(message)
