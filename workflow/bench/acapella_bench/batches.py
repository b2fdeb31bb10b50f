"""Measures campaigns of many small captures in batches: plans, jobs, the cost of a sample in each stage, and the
catalog.

Large campaigns are only planned, first without results and then with empty files as results. Captures have 1,000
frames of the generator and differ only in the time of their first frame. All stages run on one core. The catalog of the
campaign is extended by copies of its samples, spread over a year, and queried for one site and day with `acapella sql`.
"""

import contextlib
import csv
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import yaml

from acapella.campaign.batches import BATCH as BATCH_NAME
from acapella.campaign.batches import STAGES as STAGE_FILES
from acapella.campaign.batches import Member, write_plan
from acapella.campaign.layout import Campaign
from acapella_core import shards

from .archive.stages import stage_rows, stages_of
from .programs import ROOT, Bench, Failed, Measured, native_program

BATCH = 200
SITES, PORTS = 28, 7
FRAMES = 1000
PCAP_HEADER_BYTES = 24
FILES_PER_DIRECTORY = 1000
STAGES = ("collect", "digest", "analyze")
DAY_NS = 24 * 3600 * 10**9
YEAR_NS = 365 * DAY_NS
TIMES = ("start_ns", "end_ns", "first_ns", "last_ns")
QUERIES = {  # by table of the catalog
    "samples": """
select count(*) as samples, sum(frames) as frames from samples
where site = '{site}' and start_ns between {start_ns} and {end_ns} having count(*) > 0""",
    "flows": """
select app, sum(wire_bytes) as wire_bytes from flows
where site = '{site}' and first_ns between {start_ns} and {end_ns} group by app""",
    "stacks": """
select stack, sum(stacks.frames) as frames from stacks inner join samples using (sample)
where samples.site = '{site}' and start_ns between {start_ns} and {end_ns} group by stack""",
}


def run(bench: Bench) -> Iterator[dict]:
    """Yield the rows on plans of large campaigns, and on a campaign that is processed up to its report."""
    for samples in bench.scale["planned_samples"]:
        yield from plan_rows(bench, samples)
    samples = bench.scale["batched_samples"]
    directory = make_campaign(bench, samples, linked=False)
    campaign = directory / "results" / "bench"
    processed = snakemake(bench, directory)
    note = f"{samples:,} captures of {FRAMES:,} frames on one core, from the sample sheet to the report"
    yield {"measured": "all stages", "value": processed.wall_s, "unit": "s", "note": note}
    capture_ms = 1000 * processed.wall_s / samples
    yield {"measured": "all stages, per capture", "value": capture_ms, "unit": "ms", "goal": "< 20"}
    for row in stage_rows(stages_of(campaign), processed.wall_s, cores=1):
        yield {**row, "goal": ""}
    for stage in STAGES:
        yield from costs(campaign / "benchmarks" / "batches" / stage)
    yield from catalog_rows(bench, campaign, max(bench.scale["planned_samples"]))
    add_sample(directory, samples)
    added = snakemake(bench, directory, "--until", "process")
    yield {"measured": "one more sample", "value": added.wall_s, "unit": "s", "note": "up to its tables"}
    yield {"measured": "jobs for it", "value": jobs(added), "unit": "jobs"}


def plan_rows(bench: Bench, samples: int) -> Iterator[dict]:
    """Yield the rows on the plan of a campaign, without results and with an empty file for each result."""
    directory = make_campaign(bench, samples, linked=True)
    measured = snakemake(bench, directory, "--dry-run")
    goal = {"goal": "< 60"} if samples >= 100_000 else {}
    yield {"measured": f"plan of {samples:,} samples", "value": measured.wall_s, "unit": "s", **goal}
    yield {"measured": f"jobs for {samples:,} samples", "value": jobs(measured), "unit": "jobs"}
    yield {"measured": f"memory for {samples:,} samples", "value": measured.peak_mib, "unit": "MiB"}
    add_results(directory, samples)
    with_results = snakemake(bench, directory, "--dry-run")
    note = "with empty files as results of all samples"
    yield {"measured": f"plan of {samples:,} results", "value": with_results.wall_s, "unit": "s", **goal, "note": note}
    yield {"measured": "its largest directory", "value": largest_directory(directory / "results"), "unit": "entries"}


def make_campaign(bench: Bench, samples: int, *, linked: bool) -> Path:
    """Return a directory with a config, a sheet and captures. ``linked``: all captures are the same file."""
    directory = bench.directory / f"{'plan' if linked else 'campaign'}-{samples}"
    (directory / "config").mkdir(parents=True)
    source = bench.directory / "sample.pcap"
    bench.run([native_program("acapella-generate"), "--frames", FRAMES, "-o", source])
    content = source.read_bytes()
    rows = [row_of(number) for number in range(samples)]
    for number, row in enumerate(rows):
        capture = directory / "config" / row[3]
        if number % FILES_PER_DIRECTORY == 0:
            capture.parent.mkdir(parents=True)
            first = capture
        if linked and capture is not first:
            capture.hardlink_to(first)
        else:
            capture.write_bytes(shift_start(content, number))
    write_sheet(directory, rows)
    config = {
        "campaign": "bench",
        "samples": "config/samples.tsv",
        "batches": {"samples": BATCH},
        "digest": {"engine": "native"},
    }
    (directory / "config" / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return directory


def add_results(directory: Path, samples: int) -> None:
    """Write an empty file for each result of each sample, and the plan and lists of all batches."""
    campaign = Campaign(directory / "results" / "bench", frozenset(shards.STAGES))
    members = [Member(BATCH_NAME.format(n // BATCH + 1), *row_of(n)) for n in range(samples)]
    write_plan(campaign.directory, members)
    for stage in STAGES:
        shards.marker(campaign.directory, stage).mkdir(parents=True)
    for kind, suffix in {"raw": ".json", "acap": ".parquet", "flows": ".parquet", "logs/digest": ".log"}.items():
        for shard in {shards.shard_of(member.sample) for member in members}:
            (campaign.directory / kind / shard).mkdir(parents=True)
        for member in members:
            (campaign.directory / campaign.name(kind, member.sample, suffix)).touch()
    for batch in {member.batch for member in members}:
        (campaign.directory / "batches" / "partial" / batch).mkdir(parents=True)
        for name in STAGE_FILES["analyze"].outputs:
            campaign.batch_partial(batch, name[1]).touch()
        for stage in STAGES:
            listed = campaign.directory / "batches" / stage / f"{batch}.tsv"
            listed.parent.mkdir(exist_ok=True)
            listed.touch()


def largest_directory(directory: Path) -> int:
    """Return the number of entries of the largest directory below a directory."""
    return max(len(directories) + len(files) for _, directories, files in os.walk(directory))


def row_of(number: int) -> tuple[str, str, str, str]:
    """Return sample, site, port and file of a sample."""
    name = f"s{number:06}"
    return (
        name,
        f"SITE{number % SITES}",
        f"p{number % PORTS}",
        f"captures/{number // FILES_PER_DIRECTORY:03}/{name}.pcap",
    )


def write_sheet(directory: Path, rows: list[tuple]) -> None:
    """Write the sample sheet."""
    lines = (("sample", "site", "port", "file"), *rows)
    text = "".join("\t".join(line) + "\n" for line in lines)
    (directory / "config" / "samples.tsv").write_text(text, encoding="utf-8")


def shift_start(content: bytes, seconds: int) -> bytes:
    """Return a pcap whose first frame is a number of seconds later, so that its bytes differ."""
    end = PCAP_HEADER_BYTES + 4
    (first,) = struct.unpack("<I", content[PCAP_HEADER_BYTES:end])
    return content[:PCAP_HEADER_BYTES] + struct.pack("<I", first + seconds) + content[end:]


def catalog_rows(bench: Bench, campaign: Path, samples: int) -> list[dict]:
    """Return the time of queries about one site and day on a catalog extended to about ``samples`` samples."""
    large = bench.directory / "catalog"
    # acapella sql creates the view of frames over one of these files.
    shutil.copytree(campaign / "acap", large / "acap")
    shutil.copyfile(campaign / "catalog.duckdb", large / "catalog.duckdb")
    site, start_ns, number = extend_catalog(large / "catalog.duckdb", samples)
    size_mb = (large / "catalog.duckdb").stat().st_size / 1e6
    rows = [{"measured": f"catalog of {number:,} samples", "value": size_mb, "unit": "MB"}]
    for table, template in QUERIES.items():
        query = template.format(site=site, start_ns=start_ns, end_ns=start_ns + DAY_NS)
        done = bench.measure([sys.executable, "-m", "acapella.cli.main", "sql", large, query], keep=True)
        if done.stdout.count(b"\n") <= 1:
            raise Failed(f"no {table} of {site} on one day")
        note = f"one site and day of {number:,} samples"
        rows.append({"measured": f"{table} of a day", "value": done.wall_s, "unit": "s", "goal": "< 1", "note": note})
    return rows


def extend_catalog(catalog: Path, samples: int) -> tuple[str, int, int]:
    """Add copies of all samples to a catalog, over a year; return a site, a time in ns, and the number of samples.

    The copies of a sample have different names and times. Samples of the site started within a day after that time.
    """
    with contextlib.closing(duckdb.connect(str(catalog))) as con:
        ((existing,),) = con.execute("select count(*) from samples").fetchall()
        copies = max(1, round(samples / existing))
        columns = "select schema_name, table_name, list(column_name) from duckdb_columns() where (schema_name, "
        columns += "table_name) in (select (schema_name, table_name) from duckdb_tables()) "
        columns += "and schema_name <> 'indexed' group by all"  # the state of the index, which no query reads
        for schema, table, names in con.execute(columns).fetchall():
            changed = [f"{name} + k * {YEAR_NS // copies} as {name}" for name in names if name in TIMES]
            changed += [f"{name} || '-' || k as {name}" for name in names if name == "sample"]
            source = f"select t.* replace ({', '.join(changed)}) from {schema}.{table} as t, range(1, {copies}) as r(k)"
            con.execute(f"insert into {schema}.{table} {source}")
        con.execute("checkpoint")
        query = "select site, max(start_ns), (select count(*) from samples) from samples group by site order by site"
        site, start_ns, number = con.execute(query).fetchall()[0]
    return site, start_ns - DAY_NS // 2, number


def add_sample(directory: Path, samples: int) -> None:
    """Add a capture to a campaign."""
    row = row_of(samples)
    capture = directory / "config" / row[3]
    capture.parent.mkdir(parents=True, exist_ok=True)
    capture.write_bytes(shift_start((directory / "config" / row_of(0)[3]).read_bytes(), samples))
    write_sheet(directory, [row_of(number) for number in range(samples + 1)])


def snakemake(bench: Bench, directory: Path, *arguments: str) -> Measured:
    """Run Snakemake in a directory on one core."""
    words = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile"]
    words += ["--directory", directory, "--cores", "1"]
    merged = ["sh", "-c", 'exec "$@" 2>&1', "sh"]  # Snakemake prints plans on standard output, jobs on standard error
    return bench.measure([*merged, *words, *arguments], keep=True, cwd=directory)


def jobs(measured: Measured) -> int:
    """Return the number of jobs in the output of Snakemake. Raises Failed if there is none."""
    total = re.search(rb"^total +(\d+)$", measured.stdout, re.MULTILINE)
    if total is None:
        raise Failed("snakemake printed no number of jobs")
    return int(total[1])


def costs(directory: Path) -> list[dict]:
    """Return the mean CPU time and the largest memory of the samples of a stage."""
    rows = [
        row
        for path in sorted(directory.glob("*.samples.tsv"))
        for row in csv.DictReader(path.open(encoding="utf-8"), delimiter="\t")
    ]
    if not rows:
        raise Failed(f"no costs in {directory}")
    cpu_ms = 1000 * sum(float(row["cpu_s"]) for row in rows) / len(rows)
    memory_mb = max(float(row["max_rss_mb"]) for row in rows)
    return [
        {"measured": f"{directory.name} a sample", "value": cpu_ms, "unit": "ms of CPU time"},
        {"measured": f"memory of {directory.name}", "value": memory_mb, "unit": "MiB"},
    ]
