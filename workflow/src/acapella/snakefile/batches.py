"""Provides the batches of samples for rules: their members, their files, and samples whose results are missing."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from acapella.campaign.batches import (
    OF_SELECTED,
    STAGES,
    Member,
    extended,
    outputs_of,
    read_plan,
    state_of,
    write_plan,
)
from acapella.campaign.layout import Campaign
from acapella.digest.cache import LOCATION
from acapella_core import shards
from acapella_core.errors import UserError

from . import snakemake_internals
from .exit import exit_on_user_error
from .samples import Sample, Samples

MEGABYTE = 1 << 20


def batched_stages(config: Mapping) -> tuple[str, ...]:
    """Return the stages that run in batches. Rules that reproduce a release need the files of each sample."""
    if config["batches"]["samples"] <= 1 or config["reproduce"]:
        return ()
    stages = ("digest", "analyze", "flowreports")
    return ("collect", *stages) if config["testbed"] == "files" else stages


def sharded_stages(campaign: str, config: Mapping, stages: Collection[str]) -> frozenset[str]:
    """Return the stages whose files are to be in shards; none without batches. ``stages``: those that run in batches.

    An existing collection from a testbed keeps its layout: its captures cannot be taken again, and the plan of jobs
    already contains their paths.
    """
    sharded = frozenset(shards.STAGES.values()) if stages else frozenset()
    if config["testbed"] == "files" or not Path(campaign, "raw", "samples.tsv").exists():
        return sharded
    has_shards = shards.marker(Path(campaign), "collect").is_dir()
    return sharded | {"collect"} if has_shards else sharded - {"collect"}


class Batches:
    """The batches of a campaign.

    ``limits``: value of the config key `batches`; ``values``: returns the values of the user's sheet in the manifest of
    a sample; ``stored``: returns the object in storage that is the capture of a sample; ``is_damaged``: returns whether
    the digest of a sample is a link to a damaged entry of a cache; ``selected``: returns the samples that stage
    OF_SELECTED processes; ``stages``: stages that run in batches, none if the campaign has no batches. The plan is
    written to the campaign after Snakemake has started to run jobs, so that a dry run writes no file.
    """

    def __init__(  # noqa: PLR0913
        self,
        workflow,
        campaign: str,
        samples: Samples,
        limits: Mapping[str, int],
        *,
        stages: tuple[str, ...],
        values: Callable[[str], list] = lambda sample: [],
        stored: Callable[[str], dict | None] = lambda sample: None,
        is_damaged: Callable[[str], bool] = lambda sample: False,
        selected: Callable[[], Iterable[str]] = lambda: (),
    ):
        self._workflow = workflow
        self._campaign = campaign
        self._samples = samples
        self._limits = limits
        self.stages = stages
        self._values = values
        self._stored = stored
        self._is_damaged = is_damaged
        self._selected = selected
        self._started = False
        self._known: Mapping[str, Sample] | None = None
        self._members: dict[str, list[Member]] = {}
        self._selected_members: dict[str, list[Member]] = {}
        self._batch_of: dict[str, str] = {}

    def start(self) -> None:
        """Write the plan, and rewrite it if later input functions change it. Called when jobs start."""
        self._started = True
        if self._known is not None:
            self._save()

    def members(self) -> Mapping[str, list[Member]]:
        """Return the members of all batches, by batch."""
        known = self._samples.known()
        if known is not self._known:
            self._known = known
            with exit_on_user_error("acapella: error: "):
                self._members = self._plan(known)
            self._batch_of = {member.sample: batch for batch, members in self._members.items() for member in members}
            self._selected_members = self._select({*self._selected()})
            if self._started:
                self._save()
            self._force_missing()
        return self._members

    def members_in(self, stage: str = "") -> Mapping[str, list[Member]]:
        """Return the members that a stage processes, by batch; batches without such members are absent."""
        members = self.members()
        return self._selected_members if stage == OF_SELECTED else members

    def _select(self, selected: Collection[str]) -> dict[str, list[Member]]:
        """Return the members that are ``selected``, by batch."""
        kept = {
            batch: [member for member in members if member.sample in selected]
            for batch, members in self._members.items()
        }
        return {batch: members for batch, members in kept.items() if members}

    def _plan(self, known: Mapping[str, Sample]) -> dict[str, list[Member]]:
        """Return the members of all batches. Raises UserError if the plan of an earlier run is invalid."""
        included = self._samples.included()
        plan = {member.sample: member for member in read_plan(Path(self._campaign))}
        earlier = {sample: member.batch for sample, member in plan.items()}
        stored = self._objects(included, plan)
        sizes = {
            sample: (stored[sample] or {}).get("bytes") or state_of(known[sample].capture)[0] or 0
            for sample in included
            if sample not in earlier
        }
        max_samples, max_bytes = self._limits["samples"], self._limits["megabytes"] * MEGABYTE
        batches: dict[str, list[Member]] = {}
        for sample, batch in extended(earlier, included, sizes, max_samples=max_samples, max_bytes=max_bytes).items():
            row = known[sample]
            values = json_values(self._values(sample))
            member = Member(batch, sample, row.site, row.port, str(row.capture), values, stored[sample])
            batches.setdefault(batch, []).append(member)
        return batches

    def _objects(self, included: Iterable[str], plan: Mapping[str, Member]) -> dict[str, dict | None]:
        """Return the object in storage of each sample; None for files.

        The process of a single job reads them from the plan, so that it does not request all of them again.
        """
        if snakemake_internals.is_main_process(self._workflow):
            return {sample: self._stored(sample) for sample in included}
        return {sample: plan[sample].stored if sample in plan else self._stored(sample) for sample in included}

    def _save(self) -> None:
        """Write the plan if it differs from the plan of an earlier run. An error ends Snakemake."""
        members = [member for batch in self._members.values() for member in batch]
        if not snakemake_internals.is_main_process(self._workflow):
            return
        with exit_on_user_error("acapella: error: "):
            if members != read_plan(Path(self._campaign)):
                write_plan(Path(self._campaign), members)

    def _force_missing(self) -> None:
        """Force the jobs whose output lists samples without results to run, because Snakemake sees only the list."""
        if not snakemake_internals.is_main_process(self._workflow):
            return
        for stage in self.stages:
            incomplete = self._missing(stage) | (self._damaged() if stage == "digest" else set())
            snakemake_internals.force_outputs(self._workflow, [self.output(stage, batch) for batch in incomplete])

    def _missing(self, stage: str) -> set[str]:
        """Return the batches with samples that lack a file of a stage."""
        if STAGES[stage].together:
            campaign = Path(self._campaign)
            return {
                batch
                for batch, members in self._members.items()
                if not all(path.exists() for path in outputs_of(campaign, STAGES[stage], members[0]))
            }
        campaign, outputs = Campaign.at(Path(self._campaign)), STAGES[stage].outputs
        with reading(campaign.directory):
            existing = existing_files(campaign, outputs)
        return {
            batch
            for batch, members in self.members_in(stage).items()
            if any(member.sample not in existing[output] for output in outputs for member in members)
        }

    def _damaged(self) -> set[str]:
        """Return the batches with digests that are links to damaged entries of a cache; report each of these."""
        linked = {name for kind in ("acap", "flows") for name in links_in(Path(self._campaign), kind)}
        return {
            member.batch
            for members in self._members.values()
            for member in members
            if f"{member.sample}.parquet" in linked and self._is_damaged(member.sample)
        }

    def output(self, stage: str, batch: str) -> str:
        """Return the path of the list of a batch's samples and outcomes in a stage."""
        return f"{self._campaign}/batches/{stage}/{batch}.tsv"

    def outputs(self, stage: str) -> list[str]:
        """Return the lists of all batches in a stage."""
        return [self.output(stage, batch) for batch in self.members_in(stage)]

    def output_with(self, stage: str, sample: str) -> str:
        """Return the path of the list of a sample's batch in a stage."""
        self.members()
        return self.output(stage, self._batch_of[sample])

    def results(self, stage: str, pattern: str) -> Callable[[object], list[str]]:
        """Return an input function: the files that a stage creates of all samples; with batches, the lists of these.

        ``pattern``: path of such a file, with {sample}.
        """
        return (lambda wildcards: self.outputs(stage)) if stage in self.stages else self._samples.files(pattern)

    def captures_of_job(self, wildcards, stage: str = "") -> list[tuple[str, int]]:
        """Return path and size in bytes of the captures of a job's batch, for its memory and run time."""
        return captures(self.members_in(stage).get(wildcards.batch, []))

    def captures_of_campaign(self, _wildcards, stage: str = "") -> list[tuple[str, int]]:
        """Return path and size in bytes of the captures of all batches, for a job that reads the results of all."""
        return [capture for members in self.members_in(stage).values() for capture in captures(members)]

    def fetched_of_job(self, wildcards, stage: str = "") -> list[str]:
        """Return the objects in storage of a job's batch as inputs, except those that cannot be fetched."""
        known, members = self._samples.known(), self.members_in(stage).get(wildcards.batch, [])
        objects = [member for member in members if member.stored and not member.stored["fault"]]
        return [known[member.sample].capture for member in objects]

    def description(self, batch: str, stage: str = "") -> str:
        """Return the SHA-256 over the members of a batch and the state of their captures: a parameter of rules."""
        described = [[*vars(member).values(), member.state()] for member in self.members_in(stage).get(batch, [])]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def captures(members: Iterable[Member]) -> list[tuple[str, int]]:
    """Return path and size in bytes of the captures of samples; 0 if there is no such file."""
    return [(member.capture, member.state()[0] or 0) for member in members]


def json_values(values: list) -> list:
    """Return values as they are after a round trip through a JSON file."""
    return json.loads(json.dumps(values))


def existing_files(campaign: Campaign, outputs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Return the samples that have each of ``outputs`` (`acapella.campaign.batches.Stage`)."""
    existing: dict[tuple[str, str], set[str]] = {output: set() for output in outputs}
    for kind in {kind for kind, suffix in existing if suffix.startswith("/")}:
        for directory in campaign.files(kind, ""):
            for path in directory.iterdir() if directory.is_dir() else ():
                if (kind, f"/{path.name}") in existing:
                    existing[kind, f"/{path.name}"].add(directory.name)
    for kind, suffix in existing:
        if not suffix.startswith("/"):
            existing[kind, suffix] = {path.name.removesuffix(suffix) for path in campaign.files(kind, suffix)}
    return existing


@contextlib.contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Raise UserError if a directory below ``directory`` cannot be read in the context."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=error.filename or directory) from error


def links_in(campaign: Path, kind: str) -> set[str]:
    """Return the names of files in a directory that may be entries of a cache: links, or all if a cache is set."""
    entries = shards.entries(campaign / kind, ".parquet", in_shards=kind in shards.sharded(campaign))
    return {entry.name for entry in entries if os.environ.get(LOCATION) or entry.is_symlink()}
