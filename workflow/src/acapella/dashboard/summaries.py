"""Reads summaries of campaigns from their tables, and keeps summaries of unchanged campaigns in a file."""

import gzip
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.campaign.layout import Campaign, existing_provenance
from acapella.common.tables import conform, one_line, printable
from acapella.figures.quality import offered_frames, time_range
from acapella_core.arrow_tables import arrow_schema
from acapella_core.files import atomic_path, sha256_of

from .campaigns import read_or_none, size_of, state_of
from .counts import VALUES, Counts, total

FILE = "summaries.json.gz"
FORMAT = 2  # version of the file of summaries; increase it if a summary of the same tables changes
COUNT_TYPES = (int,) * 6 + (float | int, int, int, int | None)  # types of the fields of Counts
MAX_SAMPLES = 1_000_000
MAX_REASON = 200  # characters
COLUMNS = {
    "capture_quality": (
        *("site", "port", "sample", "excluded", "frames", "wire_bytes", "sampled_out", "mirror_offered", "lost_frames"),
        *("loss_share", "mirror_verdict", "actual_start_ns", "actual_end_ns", "misdated", "duration_ns"),
    ),
    "flows_per_sample": ("site", "port", "flows"),
    "consistency_environments": ("environment", "kappa", "kappa_min", "kappa_max"),
}
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    pa.ArrowException,
)


class NotReadable(Exception):
    """A campaign or a table cannot be read; the text of the exception is the reason."""


@dataclass(frozen=True)
class Place:
    """A port, and the sums of its samples that count in traffic statistics."""

    site: str
    port: str
    counts: Counts


@dataclass(frozen=True)
class Environment:
    """Kappa of the trials of an environment: mean, smallest and largest value; None if it is undefined."""

    name: str
    kappa: float | None
    kappa_min: float | None
    kappa_max: float | None


@dataclass(frozen=True)
class Summary:
    """The values of a campaign in a dashboard.

    ``reason``: why the campaign cannot be read; then everything else is empty. ``notes``: parts that cannot be read.
    ``counts``: all samples, including those excluded from traffic statistics.
    """

    reason: str = ""
    notes: list[str] = field(default_factory=list)
    pseudonyms: bool = False
    start_ns: int | None = None
    end_ns: int | None = None
    counts: Counts = field(default_factory=Counts)
    places: list[Place] = field(default_factory=list)
    environments: list[Environment] = field(default_factory=list)


def summarize(directory: Path) -> Summary:
    """Return the summary of a campaign. Faults of its files become part of the summary and are not raised."""
    campaign = Campaign(directory)
    try:
        provenance = read_provenance(campaign, "process")
        quality = read_table(campaign, "capture_quality", provenance)
        summary = traffic(quality, pseudonyms=has_pseudonyms(provenance))
    except NotReadable as fault:
        return Summary(reason=shortened_reason(str(fault)))
    except UNREADABLE as error:
        return Summary(reason=shortened_reason(f"damaged: {one_line(error) if str(error) else type(error).__name__}"))
    parts, notes = {}, []
    for read in (add_flows, add_environments):
        try:
            parts |= read(campaign, provenance, summary)
        except NotReadable as fault:
            notes.append(shortened_reason(str(fault)))
        except UNREADABLE as error:
            notes.append(shortened_reason(f"damaged: {one_line(error) if str(error) else type(error).__name__}"))
    return Summary(**{item.name: getattr(summary, item.name) for item in fields(Summary)} | parts | {"notes": notes})


def shortened_reason(text: str) -> str:
    """Return a reason as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]}..."


def read_provenance(campaign: Campaign, stage: str) -> dict:
    """Return the content of a provenance file. Raises NotReadable if it is missing or not valid."""
    path = existing_provenance(campaign, stage)
    name = path.relative_to(campaign.directory)
    content = read_or_none(path)
    if content is None:
        if size_of(campaign.provenance("transfer")) is not None:
            raise NotReadable("without samples: the campaign has only transfers")
        if size_of(existing_provenance(campaign, "infrastructure")) is not None:
            raise NotReadable("without samples: the campaign has only an infrastructure study")
        state = "cannot be read" if path.exists() else "does not exist"
        raise NotReadable(f"incomplete: {name} {state}")
    try:
        provenance = json.loads(content)
        checksums = provenance["outputs"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        kind = "old version: no checksums in" if isinstance(error, KeyError) else "damaged: not a provenance file:"
        raise NotReadable(f"{kind} {name}") from error
    for key, value in (("outputs", checksums), ("parameters", provenance.get("parameters", {}))):
        if not isinstance(value, dict):
            raise NotReadable(f"damaged: {key} of {name} is not an object")
    return provenance


def has_pseudonyms(provenance: dict) -> bool:
    """Return whether the tables have pseudonyms; True if the provenance does not state it."""
    return bool(provenance.get("parameters", {}).get("pseudonyms", True))


def read_table(campaign: Campaign, name: str, provenance: dict) -> list[dict]:
    """Return the columns of a table that a dashboard needs. Raises NotReadable if the table is damaged or old."""
    path = campaign.table(name, "parquet")
    file = f"tables/{name}.parquet"
    if size_of(path) is None:
        raise NotReadable(f"incomplete: {file} does not exist or cannot be read")
    expected = provenance["outputs"].get(file)
    if expected is None:
        raise NotReadable(f"old version: no checksum of {file} in provenance/")
    if sha256_of(path) != expected:
        raise NotReadable(f"damaged: {file} differs from its SHA-256 in provenance/")
    with pq.ParquetFile(path) as table:
        if missing := [column for column in COLUMNS[name] if column not in table.schema_arrow.names]:
            raise NotReadable(f"old version: {file} has no column {', '.join(missing)}; run snakemake again")
        if table.metadata.num_rows > MAX_SAMPLES:
            raise NotReadable(f"too large: {file} has more than {MAX_SAMPLES:,} rows")
        types = arrow_schema(name)
        schema = pa.schema([types.field(column) for column in COLUMNS[name]])
        rows = printable(conform(table.read(columns=schema.names).select(schema.names), schema)).to_pylist()
    return [{column: finite_or_none(value) for column, value in row.items()} for row in rows]


def finite_or_none(value: object) -> object:
    """Return a value of a table; None for a double that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def traffic(quality: list[dict], *, pseudonyms: bool) -> Summary:
    """Return the part of a summary that comes from capture_quality."""
    span = time_range(quality)
    by_place: dict[tuple[str, str], list[Counts]] = {}
    for row in quality:
        if row["excluded"] is None:
            by_place.setdefault((row["site"], row["port"]), []).append(counts_of(row))
    return Summary(
        pseudonyms=pseudonyms,
        start_ns=span[0] if span else None,
        end_ns=span[1] if span else None,
        counts=total(map(counts_of, quality)),
        places=[Place(*place, total(counts)) for place, counts in sorted(by_place.items())],
    )


def counts_of(row: dict) -> Counts:
    """Return the counts of a sample from its row of capture_quality, without flows."""
    timed = bool(row["duration_ns"]) and row["duration_ns"] > 0
    known = row["lost_frames"] is not None
    offered = offered_frames(row) if known else 0
    return Counts(
        samples=1,
        frames=row["frames"],
        wire_bytes=row["wire_bytes"],
        timed_bytes=row["wire_bytes"] if timed else 0,
        duration_ns=row["duration_ns"] if timed else 0,
        offered=offered,
        lost=min(max(row["loss_share"] or 0.0, 0.0), 1.0) * offered,
        unknown=int(not known),
        congested=int(row["mirror_verdict"] == "congested"),
        flows=None,
    )


def add_flows(campaign: Campaign, provenance: dict, summary: Summary) -> dict:
    """Return the places of a summary and its counts with their numbers of flows."""
    flows: dict[tuple[str, str], int] = {}
    for row in read_table(campaign, "flows_per_sample", provenance):
        place = row["site"], row["port"]
        flows[place] = flows.get(place, 0) + row["flows"]
    places = [
        Place(place.site, place.port, with_flows(place.counts, flows.get((place.site, place.port), 0)))
        for place in summary.places
    ]
    return {"places": places, "counts": with_flows(summary.counts, sum(flows.values()))}


def with_flows(counts: Counts, flows: int) -> Counts:
    """Return counts with a number of flows."""
    return Counts(**(asdict(counts) | {"flows": flows}))


def add_environments(campaign: Campaign, _, __) -> dict:
    """Return the environments of a campaign; none if it has no trials."""
    if not existing_provenance(campaign, "consistency").exists():
        return {}
    rows = read_table(campaign, "consistency_environments", read_provenance(campaign, "consistency"))
    names = ("kappa", "kappa_min", "kappa_max")
    return {"environments": [Environment(row["environment"], *(row[name] for name in names)) for row in rows]}


def read_summaries(results: Path, names: Sequence[str], summaries_file: Path) -> tuple[dict[str, Summary], int]:
    """Return the summaries of campaigns by name, and the number of campaigns whose tables were read.

    Summaries of unchanged campaigns are taken from the file ``summaries_file``, which is rewritten.
    """
    earlier, entries, summaries, read = earlier_entries(summaries_file), {}, {}, 0
    for name in names:
        state = state_of(results / name)
        summary = kept_summary(earlier.get(name), state)
        if summary is None:
            summary = summarize(results / name)
            read += 1
        summaries[name] = summary
        entries[name] = {"state": state, "summary": compact(summary)}
    text = json.dumps({"format": FORMAT, "campaigns": entries}, sort_keys=True, separators=(",", ":")) + "\n"
    packed = gzip.compress(text.encode(), compresslevel=1, mtime=0)
    if read_or_none(summaries_file) != packed:
        with atomic_path(summaries_file) as temporary:
            temporary.write_bytes(packed)
    return summaries, read


def compact(summary: Summary) -> dict:
    """Return a summary as JSON values; the counts of a port are a list without names."""
    values = {item.name: getattr(summary, item.name) for item in fields(Summary)}
    values["counts"] = VALUES(summary.counts)
    values["places"] = [(place.site, place.port, *VALUES(place.counts)) for place in summary.places]
    return values | {"environments": [asdict(environment) for environment in summary.environments]}


def counts_from(values: list) -> Counts:
    """Return counts from JSON values. Raises TypeError if a value does not have the type of its field."""
    if len(values) != len(COUNT_TYPES) or not all(map(isinstance, values, COUNT_TYPES)):
        raise TypeError(values)
    return Counts(*values)


def earlier_entries(summaries_file: Path) -> dict:
    """Return the entries of a file of summaries by campaign; {} if it is missing, damaged or of a different version."""
    try:
        content = json.loads(gzip.decompress(read_or_none(summaries_file) or gzip.compress(b"{}")))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return {}
    valid = isinstance(content, dict) and content.get("format") == FORMAT and isinstance(content.get("campaigns"), dict)
    return content["campaigns"] if valid else {}


def kept_summary(entry: object, state: str) -> Summary | None:
    """Return the summary of an entry; None if the campaign has changed or the entry is not valid.

    A campaign that is unreadable, even in part, is always reread, because a repaired file may have the same size.
    """
    try:
        if entry["state"] != state:
            return None
        values = dict(entry["summary"])
        values["notes"] = [*map(str, values["notes"])]
        values["counts"] = counts_from(values["counts"])
        values["places"] = [
            Place(str(site), str(port), counts_from(counts)) for site, port, *counts in values["places"]
        ]
        values["environments"] = [instance_of(Environment, environment) for environment in values["environments"]]
        summary = instance_of(Summary, values)
        return None if summary.reason or summary.notes else summary
    except (LookupError, TypeError, ValueError):
        return None


def instance_of(kind: type, values: dict):
    """Return a dataclass instance from JSON values. Raises TypeError if a value does not have the type of its field."""
    accepted = {field_.name: field_.type for field_ in fields(kind)}
    for name, value in values.items():
        expected = accepted[name]
        origin = getattr(expected, "__origin__", expected)
        if not isinstance(value, origin):
            raise TypeError(name)
    return kind(**values)
