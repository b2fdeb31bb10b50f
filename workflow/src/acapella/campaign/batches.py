"""Assigns samples to batches, and defines the files of a batch in each stage.

CAMPAIGN/batches/plan.jsonl lists the samples of each batch, with site, port and capture. A sample remains in its batch:
new samples form new batches, so that other batches need not rerun. For each stage, a journal records the completed
samples (journal.py). CAMPAIGN/batches/partial/BATCH/ contains the partial tables of all samples of a batch.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from acapella.common import queries
from acapella_core import beneath, names, shards
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, convert_errors

from .layout import Campaign
from .reported import FILES

BATCH = "b{:04}"
# Options that do not affect the output, or only repeat the version of the code (--code).
NEUTRAL_OPTIONS = ("--cache-key=", "--damaged=", "--max-seconds=", "--memory=", "--progress", "--threads=")
BATCH_NAME = re.compile("b([0-9]{4,18})")


@dataclass(frozen=True)
class Member:
    """A sample of a batch. ``capture``: path; ``values``: values of the user's sheet that its manifest contains.

    ``stored``: the object in storage from which the capture was fetched, in the format of option --stored of `acapella
    collect`; None if the capture is a file.
    """

    batch: str
    sample: str
    site: str
    port: str
    capture: str
    values: list = field(default_factory=list)
    stored: dict | None = None

    def state(self) -> list:
        """Return values that identify the bytes of the capture, without reading them; nulls if unknown."""
        return [self.stored["bytes"], self.stored["etag"]] if self.stored else state_of(self.capture)


@dataclass(frozen=True)
class Stage:
    """The inputs and outputs of a stage for each sample: a row of the sheet, the capture, and files of the campaign.

    Files are pairs (directory, suffix); a suffix /NAME is a file in a directory of the sample. ``together``: one
    process creates the outputs of several samples, and ``outputs`` are tables of a batch: pairs ("", name).
    """

    reads_sheet: bool
    reads_capture: bool
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    together: bool = False


STAGES = {
    "collect": Stage(True, True, (), (("raw", ".json"),)),
    "digest": Stage(False, True, (), (("acap", ".parquet"), ("flows", ".parquet"))),
    "analyze": Stage(
        False,
        False,
        (("raw", ".json"), ("acap", ".parquet"), ("flows", ".parquet")),
        tuple(("", name) for name in queries.names("analyze")),
        together=True,
    ),
    "flowreports": Stage(
        False,
        True,
        (("acap", ".parquet"), ("flows", ".parquet")),
        tuple(("flowreports", f"/{file}") for file in FILES),
    ),
}
OF_SELECTED = "flowreports"  # the stage that only processes the samples in config key flowreports.samples


def plan_file(campaign: Path) -> Path:
    """Return the path of the file that lists the members of all batches: a JSON object per line."""
    return campaign / "batches" / "plan.jsonl"


def read_plan(campaign: Path) -> list[Member]:
    """Return the members of all batches; [] if there is no plan. Raises UserError if a line is invalid."""
    path = plan_file(campaign)
    if not path.is_file():
        return []
    try:
        members = [Member(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        for member in members:
            names.sample(member.sample, path)
            int(BATCH_NAME.fullmatch(member.batch)[1])
    except (ValueError, TypeError) as error:
        fix = "delete it; then samples are assigned to batches again"
        raise UserError("is not a plan of batches", where=path, fix=fix) from error
    return members


def write_plan(campaign: Path, members: Iterable[Member]) -> None:
    """Write the members of all batches."""
    atomic_text(plan_file(campaign), "".join(f"{json.dumps(asdict(member))}\n" for member in members))


def extended(
    earlier: Mapping[str, str], samples: Sequence[str], sizes: Mapping[str, int], *, max_samples: int, max_bytes: int
) -> dict[str, str]:
    """Return the batch of each sample. ``earlier``: batches of samples that already have one, which is kept.

    The others form new batches in the order of ``samples``. A batch has at most ``max_samples`` samples, and at most
    ``max_bytes`` if it has several. ``sizes``: bytes of the captures.
    """
    number = max((int(batch[1:]) for batch in earlier.values()), default=0)
    batches, count, total = {}, 0, 0
    for sample in samples:
        if sample in earlier:
            batches[sample] = earlier[sample]
            continue
        size = sizes.get(sample, 0)
        if count in (0, max_samples) or total + size > max_bytes:
            number, count, total = number + 1, 0, 0
        batches[sample] = BATCH.format(number)
        count, total = count + 1, total + size
    return batches


def state_of(path: str | os.PathLike) -> list:
    """Return size and modification time of a file; nulls if it does not exist or cannot be read.

    On NFS, the file must be opened: stat() may return a state that is up to a minute old, from before a job on another
    node replaced the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return [None, None]
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return [status.st_size, status.st_mtime_ns]


def key_of(campaign: Path, stage: Stage, member: Member, command: Sequence[str], code: str) -> str:
    """Return the SHA-256 over everything on which the outputs of a sample depend: command, code and state of inputs.

    ``command``: arguments of the stage's command; NEUTRAL_OPTIONS are ignored.
    """
    states = [member.state()] if stage.reads_capture else []
    layout = Campaign.at(campaign)
    states += [state_of(campaign / layout.name(kind, member.sample, suffix)) for kind, suffix in stage.inputs]
    words = [word for word in command if not str(word).startswith(NEUTRAL_OPTIONS)]
    described = [words, code, member.values if stage.reads_sheet else [], states]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def outputs_of(campaign: Path, stage: Stage, member: Member) -> list[Path]:
    """Return the output files of a stage for a sample; they may contain other samples of its batch."""
    layout = Campaign.at(campaign)
    if stage.together:
        return [layout.batch_partial(member.batch, name) for _, name in stage.outputs]
    return [campaign / layout.name(kind, member.sample, suffix) for kind, suffix in stage.outputs]


def groups(samples: Sequence[str], sizes: Mapping[str, int], max_bytes: int) -> Iterator[list[str]]:
    """Yield groups of consecutive samples. The inputs of a group of several samples have at most ``max_bytes``."""
    group, total = [], 0
    for sample in samples:
        if group and total + sizes[sample] > max_bytes:
            yield group
            group, total = [], 0
        group.append(sample)
        total += sizes[sample]
    if group:
        yield group


def log_of(campaign: Path, stage: str, sample: str) -> Path:
    """Return the path of a sample's log."""
    return shards.directory_of(campaign, f"logs/{stage}", sample) / f"{sample}.log"


def failures_file(campaign: Path, stage: str, batch: str) -> Path:
    """Return the path of the list of failed samples of a batch, next to the log of its job."""
    return campaign / "logs" / "batches" / stage / f"{batch}.failed.tsv"


def current_file(campaign: Path, stage: str, batch: str) -> Path:
    """Return the path of the file with the name of the sample that a batch is processing, next to the log of its job.

    It remains if the batch is killed, because a killed batch does not write a list of failed samples.
    """
    return failures_file(campaign, stage, batch).with_name(f"{batch}.current")


@contextlib.contextmanager
def recorded_as_current(path: Path, sample: str) -> Iterator[None]:
    """Record in a file that a sample is being processed. The file remains if this process is stopped or killed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with convert_errors(path), os.fdopen(beneath.open_file(path, flags), "w", encoding="utf-8") as stream:
        stream.write(sample)
    try:
        yield
    except Exception:  # an error of this process, for example a full disk
        path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def read_current(path: Path) -> str | None:
    """Return the sample that a killed batch was processing; None if there is none. Raises UserError if invalid."""
    try:
        return names.sample(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return None


def write_failures(path: Path, failed: Mapping[str, int]) -> None:
    """Write the exit codes of the failed samples of a batch."""
    atomic_text(path, sheet(("sample", "exit_code"), failed.items()))


def read_failures(path: Path) -> dict[str, int]:
    """Return the exit codes of the failed samples of a batch; {} if it has no list."""
    if not path.is_file():
        return {}
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return {names.sample(sample, path): int(code) for sample, code in rows}


def sheet(columns: Sequence[str], rows: Iterable[Sequence]) -> str:
    """Return rows as TSV with a header line."""
    return "".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows))
