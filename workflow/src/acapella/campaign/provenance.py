"""Writes provenance files: inputs, versions, parameters and outputs, without times, hosts or local paths."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from acapella import __version__
from acapella.common import queries
from acapella_core.files import atomic_text, sha256_of

from .layout import EARLIER_PROVENANCE, Campaign

LIBRARIES = ("duckdb", "numpy", "pyarrow")


def write(campaign: Campaign, con, *, names, outputs: list[Path], parameters: dict) -> Path:
    """Write CAMPAIGN/provenance/process.json; return its path.

    ``con``: connection with the catalog attached; ``names``: names of the samples in the tables; ``parameters``:
    parameters of `acapella campaign process`.
    """
    content = {
        "versions": versions(con),
        "parameters": {**parameters, "digest": distinct(con, "parameters")},
        "tshark_preferences": distinct(con, "tshark_preferences"),
        "vendors": distinct(con, "vendors"),
        "queries": {
            path.relative_to(queries.DIRECTORY).as_posix(): sha256_of(path)
            for path in sorted(queries.DIRECTORY.rglob("*.sql"))
        },
        "inputs": inputs(con, names, hidden=parameters["pseudonyms"]),
        "excluded": excluded(con),
        "omitted": omitted(con, hidden=parameters["pseudonyms"]),
        "outputs": checksums(campaign, outputs),
    }
    return write_content(campaign, "process", content)


def write_outputs(campaign: Campaign, stage: str, outputs: list[Path], *, pseudonyms: bool) -> Path:
    """Write CAMPAIGN/provenance/STAGE.json for a stage whose inputs are outputs of other stages of the campaign."""
    content = {
        "versions": {"acapella": __version__},
        "parameters": {"pseudonyms": pseudonyms},
        "outputs": checksums(campaign, outputs),
    }
    return write_content(campaign, stage, content)


def write_content(campaign: Campaign, stage: str, content: dict) -> Path:
    """Write the provenance file of a stage; remove the file that an earlier version wrote. Return the path."""
    target = campaign.provenance(stage)
    text = json.dumps({"acapella_provenance": 1} | content, indent=2, sort_keys=True, ensure_ascii=False)
    atomic_text(target, text + "\n")
    (campaign.directory / EARLIER_PROVENANCE[stage]).unlink(missing_ok=True)
    return target


def checksums(campaign: Campaign, outputs: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by its path relative to the campaign directory."""
    return {path.relative_to(campaign.directory).as_posix(): sha256_of(path) for path in sorted(outputs)}


def versions(con) -> dict:
    """Return the versions of all software that determines the bytes of the tables."""
    result = {"acapella": __version__}
    for name in LIBRARIES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = None
    rows = con.execute("select distinct version from catalog.samples where version is not null order by 1").fetchall()
    result["digest"] = [row[0] for row in rows]
    rows = con.execute(
        "select distinct tshark_version from catalog.samples where tshark_version is not null order by 1"
    )
    result["tshark"] = [row[0] for row in rows.fetchall()]
    return result


def distinct(con, column: str) -> list:
    """Return the distinct values of a JSON column of the samples, sorted as text. Nulls are omitted."""
    rows = con.sql("select * from catalog.samples").select(column).distinct().order(column).fetchall()
    return [json.loads(row[0]) for row in rows if row[0] is not None]


def excluded(con) -> dict[str, str]:
    """Return the samples excluded from traffic statistics: name in the tables -> reason."""
    rows = con.execute("select sample, excluded from samples where excluded is not null order by sample").fetchall()
    return dict(rows)


def omitted(con, *, hidden: bool) -> dict:
    """Return, by reason, the samples that are in no table: `config` (key exclude), `failed` or `no acap`.

    ``hidden``: return their number instead of their names.
    """
    rows = con.execute(
        "select excluded, list(sample order by sample) from catalog.samples where acap is null group by all order by 1"
    ).fetchall()
    return {reason: len(samples) if hidden else samples for reason, samples in rows}


def inputs(con, names, *, hidden: bool) -> dict:
    """Return the checksums of the files of each sample.

    ``hidden``: only checksums of captures, because the other files contain original names.
    """
    rows = con.execute(
        "select s.sample, s.sha256, a.sha256, a.flows_sha256, a.manifest_sha256 "
        "from catalog.samples as s inner join catalog.acaps as a on s.sample = a.sample order by s.sample"
    ).fetchall()
    shown = {name.directory: name.sample for name in names}
    kinds = ("capture",) if hidden else ("capture", "acap", "flows", "manifest")
    return {shown[row[0]]: dict(zip(kinds, row[1:], strict=False)) for row in rows}
