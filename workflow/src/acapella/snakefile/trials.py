"""Provides the configured trials of the same traffic, by environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from snakemake.exceptions import WorkflowError

from .config import trial_samples
from .replays import ReplayFiles, replay_files
from .sample_names import unknown_name
from .samples import Samples


@dataclass(frozen=True)
class Trials:
    """The value of the config key `trials`: environment -> trials, each a sample or a list of samples."""

    environments: Mapping[str, list]

    def of(self, environment: str) -> list[list[str]]:
        """Return the samples of each trial of an environment."""
        return [[trial] if isinstance(trial, str) else trial for trial in self.environments[environment]]

    def samples(self, *environments: str) -> list[str]:
        """Return the sorted names of the samples of the trials of environments; by default, of all."""
        return sorted(
            {sample for name in environments or self.environments for trial in self.of(name) for sample in trial}
        )

    def outputs(self, sample: str) -> list[str]:
        """Return the outputs of rule kappa that are computed from the capture of a sample, as paths in the campaign."""
        return [f"kappa/{name}.json" for name in self.environments if sample in self.samples(name)]

    def wildcard_constraint(self) -> str:
        """Return a regular expression that matches the names of environments; "none" if there are none."""
        return "|".join(map(re.escape, self.environments)) or "none"

    def manifests(self, samples: Samples) -> list[str]:
        """Return the manifests of all trials, which are known after the checkpoint `collect`."""
        known = samples.known()
        return [samples.manifest(sample) for sample in self.samples() if sample in known]

    def replay_files(self, environment: str, samples: Samples, consistency: dict) -> ReplayFiles:
        """Return recordings and departures of an environment's trials; empty unless a testbed replayed all of them."""
        trials = self.of(environment)
        if any(len(trial) > 1 for trial in trials):
            return ReplayFiles()
        manifests = [samples.manifest(sample) for trial in trials for sample in trial]
        return replay_files(manifests, consistency, samples.raw)

    def captures(self, environment: str, samples: Samples, sheet: str) -> list[str]:
        """Return the captures of an environment's trials.

        Raises WorkflowError if one of them is not in ``samples``. ``sheet``: file that lists these, for the message.
        A testbed's captures are known only after the checkpoint `collect`.
        """
        configured = trial_samples(self.environments, environment)
        if message := unknown_name(configured, samples.known(), f"that was captured; {sheet} lists the captured ones"):
            raise WorkflowError(f"config error: {message}")
        return [samples.capture(sample) for trial in self.of(environment) for sample in trial]
