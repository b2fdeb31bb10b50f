"""Verifies digests that are links to entries of a cache before they are reused."""

from collections.abc import Callable
from pathlib import Path

from acapella.digest import cache

from . import snakemake_internals
from .samples import Samples

KINDS = ("acap", "flows")


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
