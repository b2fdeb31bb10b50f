"""Checks existing digests before they are reused: links to entries of a cache, and captures that were replaced."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from acapella.campaign.batches import state_of
from acapella.campaign.layout import Campaign
from acapella.digest import cache
from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, sha256_of

from . import snakemake_internals
from .exit import exit_on_user_error
from .samples import Samples

KINDS = ("acap", "flows")
STATES = "captures.json"
SMALL = 1_000_000  # bytes; default of Snakemake's --max-checksum-file-size


class CachedDigests:
    """The outputs of rule digest in a campaign that are links to entries of a cache."""

    def __init__(self, workflow, campaign: str):
        self._workflow = workflow
        self._campaign = campaign
        self._checked: set[str] = set()

    def checked_capture(self, samples: Samples) -> Callable[[object], str]:
        """Return an input function: the capture of a job's sample, after a check of its earlier outputs."""

        def capture(wildcards) -> str:
            self.check(wildcards.sample)
            return samples.capture(wildcards.sample)

        return capture

    def check(self, sample: str) -> None:
        """Report the outputs of a sample that link to damaged entries, and force Snakemake to recreate them.

        Each sample is checked once. This deletes nothing, because it also runs in a dry run and before Snakemake locks
        the directory. The job replaces its outputs and the damaged entries.
        """
        if sample in self._checked or not snakemake_internals.is_main_process(self._workflow):
            return
        self._checked.add(sample)
        if cache.report_damaged(Path(self._campaign), sample):
            outputs = [f"{self._campaign}/{kind}/{sample}.parquet" for kind in KINDS]
            snakemake_internals.force_outputs(self._workflow, outputs)

    def is_damaged(self, sample: str) -> bool:
        """Report the outputs of a sample that link to damaged entries; return whether there are any."""
        return cache.report_damaged(Path(self._campaign), sample)

    def record_verified(self) -> None:
        """Record the entries that `check` verified. Called when jobs start, because a dry run writes no files."""
        cache.record_verified()


class ReplacedCaptures:
    """The captures of a campaign whose size or modification time has changed since they were processed.

    Snakemake only reruns a job if an input is newer than the output, but mv, cp -p and rsync -a keep the modification
    time of an older file. CAMPAIGN/captures.json contains the state of each capture when it was last to be processed.
    It also contains the modification times of outputs of an earlier capture (`outdated`). An output is recreated as
    long as it has this time, also if the run that replaces it is interrupted.

    ``capture_of``: returns the path of a sample's capture, None if it is not a local file or the sample is unknown;
    ``outputs_of``: returns the outputs of jobs that read the capture, as paths in the campaign.
    """

    def __init__(
        self,
        workflow,
        campaign: str,
        capture_of: Callable[[str], str | None],
        outputs_of: Callable[[str], Iterable[str]],
    ):
        self._workflow = workflow
        self._campaign = Path(campaign)
        self._capture_of = capture_of
        self._outputs_of = outputs_of
        self._earlier: dict[str, dict] | None = None
        self._current: dict[str, dict] = {}

    def checked(
        self,
        input_of: Callable[[Any], Any],
        samples_of: Callable[[Any], Iterable[str]] = lambda wildcards: [wildcards.sample],
    ) -> Callable[[Any], Any]:
        """Return an input function that first checks the captures of a job. ``samples_of``: returns their samples."""

        def checked_input(wildcards):
            for sample in samples_of(wildcards):
                self.check(sample)
            return input_of(wildcards)

        return checked_input

    def check(self, sample: str) -> None:
        """Force Snakemake to recreate the outputs of a sample whose capture was replaced by an older file.

        Each sample is checked once. This writes nothing, because it also runs in a dry run.
        """
        path = self._capture_of(sample)
        if path is None or sample in self._current or not snakemake_internals.is_main_process(self._workflow):
            return
        size, modified_ns = state_of(path)
        if size is None:  # the job reports why
            return
        earlier = self._recorded().get(sample, {})
        current = {"bytes": size, "modified_ns": modified_ns}
        if self._is_replaced(sample, path, earlier, current):
            outdated = self._times(self._outputs_of(sample))
        else:
            recorded = earlier.get("outdated", {})
            outdated = {name: time for name, time in self._times(recorded).items() if recorded[name] == time}
        self._current[sample] = current | ({"outdated": outdated} if outdated else {})
        # Snakemake itself reruns jobs whose input is newer, and prints this as the reason.
        forced = [str(self._campaign / name) for name, time in outdated.items() if time >= modified_ns]
        snakemake_internals.force_outputs(self._workflow, forced)

    def record(self) -> None:
        """Write the states of the checked captures. Called when jobs start. An error is only reported."""
        states = {sample: state for sample, state in self._recorded().items() if self._capture_of(sample)}
        states |= self._current
        if states != self._recorded():
            try:
                atomic_text(self._campaign / STATES, json.dumps(states) + "\n")
            except UserError as error:
                names.report(f"acapella: warning: {error}; replaced captures may not be processed in the next run")

    def _recorded(self) -> dict[str, dict]:
        """Return the recorded states by sample. An invalid file ends Snakemake."""
        if self._earlier is None:
            with exit_on_user_error("acapella: error: "):
                self._earlier = read_states(self._campaign / STATES)
        return self._earlier

    def _is_replaced(self, sample: str, path: str, earlier: Mapping, current: Mapping) -> bool:
        """Return whether a capture was replaced since its earlier state; {}: not recorded.

        Campaigns of earlier versions have only the size, in the manifest. As in Snakemake, a small file with the same
        content is unchanged, for example after `touch`.
        """
        if current.items() <= earlier.items():
            return False
        try:
            manifest = json.loads(Campaign.at(self._campaign).manifest(sample).read_bytes())
        except (OSError, ValueError):  # not collected yet, or its reader reports the error
            manifest = {}
        size = current["bytes"]
        if not earlier:
            return manifest.get("bytes", size) != size
        return size != earlier["bytes"] or size > SMALL or sha256_of(path) != manifest.get("sha256")

    def _times(self, outputs: Iterable[str]) -> dict[str, int]:
        """Return the modification times of the outputs that exist; for a link to a cache entry, that of the link."""
        paths = {name: self._campaign / name for name in outputs}
        return {name: path.lstat().st_mtime_ns for name, path in paths.items() if path.exists()}


def read_states(path: Path) -> dict[str, dict]:
    """Return the recorded states by sample; {} if the file is missing. Raises UserError if it is invalid."""
    try:
        states = json.loads(path.read_bytes()) if path.exists() else {}
        for state in states.values():
            int(state["bytes"] + state["modified_ns"])
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise UserError("cannot read the states of captures", where=path, fix="delete it") from error
    return states
