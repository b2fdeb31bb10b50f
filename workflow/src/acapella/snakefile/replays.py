"""Describes the replays of a testbed: environments that this machine can run, their trials, and files of departures."""

import copy
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.campaign.monitor import released_trials
from acapella_core import names

PROGRAM = "acapella-dpdk-replay"
TESTBEDS = ("local", "fabric")  # testbeds that replay
MIN_TRIALS = 2  # minimum number of trials that can be compared
SELECTION = ("filter", "flow", "from", "to")  # keys of `consistency` for which kappa does not use departures


def with_replays(config: dict) -> dict:
    """Return a config with the environments that this machine can run, and with `trials` if the config has none.

    Testbed `local`: environments whose sender is not installed are reported and omitted, unless there are no others.
    The program for testbed `fabric` is checked before the collection, because none of its environments runs without it.
    """
    if not replay_settings(config):
        return config
    config = copy.deepcopy(config)
    replay = replay_settings(config)
    if config["testbed"] == "local":
        omit_missing(replay)
    if config["trials"] is None:
        config["trials"] = trials_of(replay, config["exclude"])
    return config


def replay_settings(config: dict) -> dict | None:
    """Return the value of the key `replay` of the config's testbed; None if it replays nothing."""
    testbed = config.get("testbed")
    return config[testbed]["replay"] if testbed in TESTBEDS else None


def omit_missing(replay: dict) -> None:
    """Report and remove environments whose sender is not installed, unless there are no others."""
    missing = [] if program_installed() else environments_of(replay, sender="acapella")
    if missing and len(missing) < len(replay["environments"]):
        replay["environments"] = [value for value in replay["environments"] if name_of(value) not in missing]
        names.report(f"acapella: warning: {PROGRAM} is missing; environments not replayed: {', '.join(missing)}")


def program_installed() -> bool:
    """Return whether the program of sender acapella was built."""
    return bool(shutil.which(PROGRAM) or shutil.which(PROGRAM, path=str(Path(sys.executable).parent)))


def name_of(environment: str | dict) -> str:
    """Return the name of an environment."""
    return environment if isinstance(environment, str) else environment["name"]


def environments_of(replay: dict, sender: str) -> list[str]:
    """Return the names of the environments with a sender."""
    senders = {name_of(entry): isinstance(entry, dict) and entry.get("sender") for entry in replay["environments"]}
    return [name for name, configured in senders.items() if (configured or replay["sender"]) == sender]


def environments_with_departures(config: dict) -> list[str]:
    """Return the names of the environments whose sender measures departures."""
    replay = replay_settings(config)
    if not replay:
        return []
    if config["testbed"] == "fabric":
        return [name_of(environment) for environment in replay["environments"]]
    return environments_of(replay, sender="acapella")


def generates(config: dict) -> bool:
    """Return whether the campaign has tables of generated traffic, of the testbed or of a release.

    With pseudonyms, a testbed's campaign has no such tables.
    """
    if config.get("reproduce"):
        return bool(released_trials(Path(config["reproduce"])))
    return config.get("testbed") == "local" and bool(config["local"]["generate"]) and not config["pseudonyms"]


def generated_samples(config: dict) -> list[str]:
    """Return the samples of generated traffic in the order of their trials; [] if there are no such tables."""
    if not generates(config):
        return []
    if config.get("reproduce"):
        return released_trials(Path(config["reproduce"]))
    settings = config["local"]["generate"]
    names_ = [name_of(environment) for environment in settings["environments"]]
    return [f"{name}-{number}" for name in names_ for number in range(1, settings["repeats"] + 1)]


def trials_of(replay: dict, exclude: Iterable[str]) -> dict[str, list[str]] | None:
    """Return the trials of each environment, as config key `trials`; None if no environment has two."""
    excluded = frozenset(exclude)
    found = {}
    for environment in map(name_of, replay["environments"]):
        samples = [f"{environment}-{number}" for number in range(1, replay["repeats"] + 1)]
        found[environment] = [sample for sample in samples if sample not in excluded]
    return {name: samples for name, samples in found.items() if len(samples) >= MIN_TRIALS} or None


@dataclass(frozen=True)
class ReplayFiles:
    """The files of an environment's trials: recordings, and the departures of each trial.

    ``arrival_error_ns`` is the standard deviation of the error of arrival timestamps; None: not specified.
    """

    recordings: Sequence[str] = ()
    departures: Sequence[Sequence[str]] = ()
    arrival_error_ns: int | None = None

    def paths(self) -> list[str]:
        """Return all files."""
        return [*self.recordings, *(path for trial_paths in self.departures for path in trial_paths)]

    def options(self) -> list[str]:
        """Return the options of `acapella kappa`."""
        if not self.departures:
            return []
        error = [] if self.arrival_error_ns is None else [f"--arrival-error={self.arrival_error_ns}ns"]
        departures = [",".join(paths) for paths in self.departures]
        return [*error, "--recording", *self.recordings, "--departures", *departures]


def replay_files(manifests: Sequence[str], consistency: dict, raw: Path) -> ReplayFiles:
    """Return the files listed in manifests, one per trial; empty if a trial has no file, or kappa cannot use them.

    ``raw``: directory of the recordings, which belong to several trials; departures are next to the manifest of their
    trial. A missing or damaged manifest lists no files; other stages report it.
    """
    if consistency["identity"] == "tag" or any(consistency[key] is not None for key in SELECTION):
        return ReplayFiles()
    replays = [replay_of(Path(path)) for path in manifests]
    if not all(replay.get("departures") for replay in replays):
        return ReplayFiles()
    recordings = dict.fromkeys(str(raw / entry["file"]) for replay in replays for entry in replay["recordings"])
    departures = [
        [str(Path(manifest).parent / entry["file"]) for entry in replay["departures"]]
        for manifest, replay in zip(manifests, replays, strict=True)
    ]
    return ReplayFiles([*recordings], departures, consistency["arrival_error_ns"])


def replay_of(manifest: Path) -> dict:
    """Return the key `replay` of a manifest; {} if it has none."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8")).get("replay")
    except (OSError, ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}
