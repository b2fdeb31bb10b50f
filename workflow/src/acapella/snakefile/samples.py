"""Provides the samples of a campaign to input functions: names, sites, ports and captures."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from snakemake.io import expand

from acapella.campaign.layout import Campaign
from acapella_core import sheets

from .exit import exit_on_user_error


@dataclass(frozen=True)
class Sample:
    """The site and port of a sample, and the path of its capture."""

    site: str
    port: str
    capture: str


class Samples:
    """The samples of a campaign.

    ``find`` returns all samples by name. It is called by input functions, because the samples of a testbed are known
    only after the checkpoint `collect`. ``excluded``: names that the config excludes, or that failed in an earlier run
    and are omitted; ``is_readable``: whether a capture can be read.
    """

    def __init__(
        self,
        campaign: str,
        excluded: Iterable[str],
        find: Callable[[], Mapping[str, Sample]],
        is_readable: Callable[[str], bool] = lambda capture: True,
    ):
        self._campaign = campaign
        self.raw = Path(campaign, "raw")
        self._excluded = frozenset(excluded)
        self._find = find
        self._is_readable = is_readable
        self.manifest_list: Callable[[str], str] | None = None  # with batches: the file that lists a manifest

    def known(self) -> Mapping[str, Sample]:
        """Return all samples by name, including excluded ones."""
        return self._find()

    def __getitem__(self, name: str) -> Sample:
        """Return a sample. Raises KeyError."""
        return self._find()[name]

    def included(self) -> list[str]:
        """Return the names of the samples that are not excluded."""
        return [name for name in self._find() if name not in self._excluded]

    def number_in_campaign(self, _wildcards) -> int:
        """Return the number of samples, including excluded ones, for the memory of Snakemake in a job."""
        return len(self.known())

    def number_for_job(self, _wildcards) -> int:
        """Return the number of samples that are not excluded, for the memory and run time of a job that reads all."""
        return len(self.included())

    def selected(self, names: str | Iterable[str] | None, without: Iterable[str] = ()) -> list[str]:
        """Return the ``names`` that are neither excluded nor in ``without``, in their order; "all" selects all."""
        omitted = self._excluded.union(without)
        return [name for name in (self.known() if names == "all" else names or ()) if name not in omitted]

    def collected(self, names: Iterable[str]) -> list[str]:
        """Return the ``names`` that have been collected and are not excluded, in their order."""
        return [name for name in self.selected(names) if name in self.known()]

    def files(self, pattern: str, **values) -> Callable[[object], list[str]]:
        """Return an input function: files of all included samples by a pattern with {sample} and keys of ``values``."""
        return lambda wildcards: expand(pattern, sample=self.included(), **values)

    def manifest(self, name: str) -> str:
        """Return the path of the manifest of a sample; with batches, of the list that the job creates with it."""
        if self.manifest_list:
            return self.manifest_list(name)
        return str(Campaign.at(Path(self._campaign)).manifest(name))

    def manifests(self, _wildcards) -> list[str]:
        """Return the manifests of all included samples of a testbed, as an input function."""
        layout = Campaign.at(Path(self._campaign))
        return [str(layout.manifest(name)) for name in self.included()]

    def capture(self, name: str) -> str:
        """Return the path of a sample's capture.

        If the capture is unreadable, return the path of the manifest. The job that creates the manifest then fails
        with the reason.
        """
        path = self[name].capture
        return path if self._is_readable(path) else self.manifest(name)

    def readable_capture(self, name: str) -> list[str]:
        """Return the path of a sample's capture in a list, which is empty if the capture is unreadable."""
        path = self[name].capture
        return [path] if self._is_readable(path) else []


def collected_captures(campaign: str) -> dict[str, str]:
    """Return the paths of captures in a testbed's raw/samples.tsv of an earlier run, which the checkpoint may replace.

    Return {} if there is no sheet. Raises UserError if it is invalid.
    """
    layout = Campaign.at(Path(campaign))
    rows = sheets.read(layout.directory / "raw" / "samples.tsv")
    return {row["sample"]: str(layout.capture(row["sample"], row["file"])) for row in rows}


@functools.cache
def read_collected(sheet: str | os.PathLike, campaign: str) -> dict[str, Sample]:
    """Return the samples in a testbed's raw/samples.tsv by name. It is read once, after the checkpoint `collect`.

    An invalid sheet ends Snakemake.
    """
    with exit_on_user_error("error: "):
        rows = sheets.read(Path(sheet))
    layout = Campaign.at(Path(campaign))
    return {
        row["sample"]: Sample(row["site"], row["port"], str(layout.capture(row["sample"], row["file"]))) for row in rows
    }
