"""A campaign of testbed "files", from its sample sheet to its tables."""

from collections.abc import Sequence
from pathlib import Path

from acapella_testing.new_files import new_directory, write_file, write_json

from acapella.campaign import analyze
from acapella.campaign.layout import Campaign
from acapella.cli.main import main

SHEET = ("sample", "site", "port", "file")


def run(*words) -> None:
    """Run one command, which must succeed."""
    assert main([str(word) for word in words]) == 0, words


def failed(capsys, *words, code: int = 2) -> str:
    """Run one command, which must fail with an exit code; return its error message, which must be one line."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == code, words
    (line,) = capsys.readouterr().err.splitlines()
    return line


def indexed(directory: Path, rows: Sequence[Sequence], engines: dict[str, str] | None = None) -> Path:
    """Collect, digest and index captures (see `collected`); return the campaign's directory."""
    campaign = collected(directory, rows, engines)
    run("campaign", "index", campaign)
    return campaign


def collected(directory: Path, rows: Sequence[Sequence], engines: dict[str, str] | None = None) -> Path:
    """Collect and digest captures given as (sample, site, port, file); return the campaign's directory.

    ``engines``: the engine by sample (default: native).
    """
    campaign, lines = directory / "mine", ["\t".join(map(str, row)) + "\n" for row in (SHEET, *rows)]
    sheet = write_file(directory / "samples.tsv", "".join(lines))
    config = write_json(directory / "config.json", {"testbed": "files", "samples": str(sheet)})
    run("collect", campaign, "--config", config)
    run("collect", campaign, "--config", config, "--list", "-o", campaign / "raw" / "samples.tsv")
    for sample, site, port, file in rows:
        acap, flows = (new_directory(campaign / kind) / f"{sample}.parquet" for kind in ("acap", "flows"))
        engine = (engines or {}).get(sample, "native")
        run("digest", file, "-o", acap, "--flows", flows, "--site", site, "--port", port, "--engine", engine)
    return campaign


def processed(directory: Path, rows: Sequence[Sequence], *options: str) -> Path:
    """Index captures, analyze all samples together and make the tables; return the campaign's directory.

    ``options``: those of process.
    """
    campaign = Campaign(indexed(directory, rows))
    samples = sorted(sample for sample, *_ in rows)
    analyze.make_partials(campaign, samples, campaign.batch_partial("b0001", "quality").parent)
    run("campaign", "process", campaign.directory, *options)
    return campaign.directory
