"""Checks a collection from a testbed before it starts, and prints its plan after the plan of a dry run."""

import atexit
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .engine import check_engine
from .exit import exit_on_user_error
from .sample_names import check_names, configured_names
from .snakemake_internals import is_dry_run

# Config keys that determine which samples are captured, by testbed; collection_config adds keys that affect only the
# content of captures. Other keys do not cause a new collection.
KEYS = {
    "files": ("testbed", "samples"),
    "local": ("testbed", "runs", "capture", "collect", "local"),
    "fabric": ("testbed", "runs", "capture", "collect", "fabric"),
}
LIMITS = ("max_decompressed", "max_ratio")  # options of digest; captures of the user may be compressed


def collection_config(config: dict) -> str:
    """Return the configuration of `acapella collect` as JSON."""
    testbed = config["testbed"]
    selected = {key: config[key] for key in KEYS[testbed]}
    if testbed == "files":
        selected["digest"] = {key: config["digest"][key] for key in LIMITS}
    elif config["preprocess"]["anonymize"]:
        selected["preprocess"] = config["preprocess"]
    if "collect" in selected:
        # The default is omitted, so that collections of versions without this key remain up to date.
        selected["collect"] = {
            key: value for key, value in selected["collect"].items() if (key, value) != ("digest_on", "here")
        }
    if testbed == "local":  # the default of `generate` is also omitted
        selected["local"] = {
            key: value for key, value in selected["local"].items() if (key, value) != ("generate", None)
        }
    return json.dumps(selected, sort_keys=True)


@dataclass(frozen=True)
class CollectionFunctions:
    """Functions of `acapella_capture`, which the packages of `acapella` do not import; the Snakefile passes them.

    ``parse``: returns settings from the config keys ``keys``; ``check_programs``: raises UserError if a program or a
    file for the capture is missing; ``planned_samples``: yields samples as lines of the sheet, or raises
    ``unknown_in_advance`` if they are known only afterwards; ``describe_plan``: returns the plan of a collection for a
    campaign as text. All raise UserError.
    """

    keys: Iterable[str]
    parse: Callable[[dict], Any]
    check_programs: Callable[[Any], None]
    planned_samples: Callable[[Any], Iterable[dict]]
    unknown_in_advance: type[Exception]
    describe_plan: Callable[[Any, str], str]


class Collection:
    """The collection of samples from a testbed. The constructor raises UserError for an invalid configuration."""

    def __init__(self, config: dict, testbed: CollectionFunctions):
        self._config = config
        self._testbed = testbed
        self._printed = False
        self._settings = testbed.parse({key: config[key] for key in testbed.keys})

    def check(self, *, collected: bool) -> None:
        """Raise UserError for errors that can be found without a request to the testbed.

        ``collected``: the samples exist, so that programs and keys are no longer needed.
        """
        if not collected:
            check_engine(self._config["digest"]["engine"])
            self._testbed.check_programs(self._settings)
        if self._config["testbed"] == "local":  # all other errors need a request
            self.plan()
            self._check_names()

    def _check_names(self) -> None:
        """Raise UserError if the config names a sample that will not be captured, if the samples are known."""
        named = configured_names(self._config)
        if not named:
            return
        try:
            planned = [line["sample"] for line in self._testbed.planned_samples(self._settings)]
        except self._testbed.unknown_in_advance:
            return
        check_names(named, planned, f"of testbed {self._config['testbed']}")

    def plan(self) -> str:
        """Return the plan as text. Raises UserError if the config requests something that the testbed does not have."""
        return self._testbed.describe_plan(self._settings, self._config["campaign"])

    def plan_of_dry_run(self, workflow) -> Callable[[object], list[str]]:
        """Return an input function without files. In a dry run, it prints the plan below Snakemake's plan of jobs."""

        def no_input(_wildcards) -> list[str]:
            if is_dry_run(workflow):
                self.print_plan_at_exit()
            return []

        return no_input

    def print_plan_at_exit(self) -> None:
        """Print the plan when Snakemake ends, after its plan of jobs; only once. An error ends Snakemake."""
        if self._printed:
            return
        self._printed = True
        with exit_on_user_error("config error: "):
            text = self.plan()
        atexit.register(print, "What collect would do:", text, sep="\n", end="", flush=True)
