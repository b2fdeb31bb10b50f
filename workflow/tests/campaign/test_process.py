"""Tests published tables: their schemas, sums that must agree, and that a rerun writes the same bytes."""

import argparse
import contextlib
import csv
import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.synthetic import make_campaign
from acapella_testing.generated.tiny import START, add_sample, flow
from acapella_testing.new_files import new_directory
from acapella_testing.runs.in_process import call_before
from acapella_testing.runs.stages import analyze_campaign, rows

from acapella.campaign import analyze, index, process
from acapella.campaign.batches import Member, write_plan
from acapella.campaign.layout import Campaign, existing_provenance
from acapella.common import bootstrap, queries, tables
from acapella.common.pseudonyms import pseudonyms
from acapella.common.tables import arrow_schema
from acapella_core import schemas
from acapella_core.errors import OUTSIDE, UserError
from acapella_core.files import sha256_of

SMALL = {"frames": 120, "flows": 60, "ports": 1, "samples": 3}
ALL_TRAFFIC = {"traffic": "all"}


def checksums(directory):
    """Return the name and SHA-256 checksum of every table and of provenance/process.json."""
    written = [*(directory / "tables").iterdir(), directory / "provenance" / "process.json"]
    return {path.name: sha256_of(path) for path in written}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return a campaign of 3 sites with its tables, in which all samples count. Tests must not modify it."""
    directory = make_campaign(tmp_path_factory.mktemp("small") / "made_up", **SMALL)
    return analyze_campaign(directory, alone=True, choice=ALL_TRAFFIC)


@pytest.fixture
def copied(small, tmp_path):
    """Return a copy of the small campaign that a test may modify."""
    return shutil.copytree(small, tmp_path / "made_up")


@pytest.mark.soak
def test_provenance_of_an_earlier_version_is_replaced(copied):
    campaign, before = Campaign(copied), checksums(copied)
    earlier = campaign.provenance("process").rename(campaign.directory / "provenance.json")
    assert existing_provenance(campaign, "process") == earlier
    process.make_tables(campaign)
    assert not earlier.exists()
    assert existing_provenance(campaign, "process") == campaign.provenance("process")
    assert checksums(campaign.directory) == before


@pytest.mark.parametrize("name", process.TABLES)
def test_table_matches_its_schema(campaign, name):
    table = pq.read_table(campaign / "tables" / f"{name}.parquet")
    assert table.schema.equals(arrow_schema(name))
    key = schemas.table(name)["key"]
    never = [column["name"] for column in schemas.table(name)["columns"] if column["null"] == "never"]
    assert [column for column in never if table[column].null_count] == []
    keys = [tuple(row.values()) for row in table.select(key).to_pylist()]
    assert len(set(keys)) == len(keys), "the key is unique"
    order = [[(value is None, value) for value in row] for row in keys]
    assert order == sorted(order)


@pytest.mark.parametrize("name", process.TABLES)
def test_csv_has_the_same_values_as_parquet(campaign, name):
    text = (campaign / "tables" / f"{name}.csv").read_bytes().decode()
    assert "\r" not in text
    head, *lines = csv.reader(text.splitlines())
    table = pq.read_table(campaign / "tables" / f"{name}.parquet")
    assert head == table.schema.names
    for line, row in zip(lines, table.to_pylist(), strict=True):
        for cell, (column, value) in zip(line, row.items(), strict=True):
            assert same(cell, value), (column, cell, value)


def same(cell, value):
    """Return True if a CSV cell contains the Parquet value; floating-point values have 9 digits."""
    if isinstance(value, float):
        return float(cell) == float(f"{value:.9g}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return cell == ("" if value is None else text)


def test_published_tables_have_a_schema_with_a_key():
    described = {path.stem for path in (schemas.root() / "tables").glob("*.yaml")}
    assert described - {"frames", "flows"} >= set(process.TABLES)
    assert all("key" in schemas.table(name) for name in process.TABLES)


def frames_by_site(found, **only):
    """Return the number of frames by site over the rows with the values of ``only``."""
    sums = Counter()
    for row in [row for row in found if only.items() <= row.items()]:
        sums[row["site"]] += row["frames"]
    return sums


def test_parts_add_up_to_all_frames(campaign):
    total, quality = frames_by_site(rows(campaign, "header_depth")), rows(campaign, "capture_quality")
    sites = {site: n for site, n in total.items() if site != "all"}
    assert total["all"] == sum(sites.values()) > 0
    assert frames_by_site(rows(campaign, "frame_sizes"), length="outer") == total
    assert frames_by_site(rows(campaign, "frame_sizes"), length="inner") == total
    assert frames_by_site(rows(campaign, "ip_versions")) == total
    assert frames_by_site(rows(campaign, "encapsulations")) == total
    assert frames_by_site(quality, excluded=None) == sites
    assert sum(row["frames"] for row in quality) == sum(row["frames"] for row in rows(campaign, "restrictions"))
    assert frames_by_site(rows(campaign, "flows_per_sample")) == sites
    assert frames_by_site(rows(campaign, "throughput")) == sites


def test_frames_of_all_labels_add_up_to_the_frames_with_a_flow(campaign):
    assert frames_by_site(rows(campaign, "applications")) == frames_by_site(
        [row for row in rows(campaign, "ip_versions") if row["ip_version"] != "none"]
    )


def test_shares_lie_in_their_intervals_and_samples_are_counted(campaign):
    sites = [row["site"] for row in rows(campaign, "capture_quality") if row["excluded"] is None]
    counted = Counter([*sites, *["all"] * len(sites)])
    for name in ("header_occurrence", "encapsulations", "frame_sizes", "ip_versions"):
        share = "frame_share" if name == "header_occurrence" else "share"
        for row in rows(campaign, name):
            assert row["samples"] == counted[row["site"]]
            if row["samples"] < bootstrap.FEWEST:  # can also be null with more samples if some are empty
                assert row[f"{share}_lo"] is row[f"{share}_hi"] is None
            elif row["site"] == "all":
                assert 0 <= row[f"{share}_lo"] <= row[share] <= row[f"{share}_hi"] <= 1


def test_flow_size_distribution_never_increases(campaign):
    before = None
    for row in rows(campaign, "flow_sizes"):
        group = row["scope"], row["site"], row["measure"]
        assert row["flows_ge"] <= (before[1] if before and before[0] == group else row["flows"])
        before = group, row["flows_ge"]


def test_campaign_of_empty_samples_has_tables(tmp_path):
    add_sample(tmp_path, "a", span=None, flows=[])
    add_sample(tmp_path, "b", span=(0, 2), flows=[])
    directory = analyze_campaign(tmp_path)
    assert rows(directory, "header_occurrence") == rows(directory, "top_flows") == []
    assert {row["share"] for row in rows(directory, "frame_sizes")} == {None}
    assert [(row["start_ns"] - START, row["frames"], row["rate_bps"]) for row in rows(directory, "throughput")] == [
        (0, 0, 0),
        (10**9, 0, 0),
    ]


def test_seconds_without_frames_within_a_capture_have_rate_zero(tmp_path):
    for name, port, seconds in (("a", "p1", (1.5, 5.5)), ("b", "p1", (9.5, 9.5)), ("years", "p2", (0, 10**8))):
        add_sample(tmp_path / "made", name, ("WEST", port), None, [flow(*seconds)])
    directory = analyze_campaign(tmp_path / "made")
    found = rows(directory, "throughput")
    assert [((row["start_ns"] - START) // 10**9, row["frames"]) for row in found if row["port"] == "p1"] == [
        *[(1, 1), (2, 0), (3, 0), (4, 0), (5, 1)],
        (9, 2),
    ], "no rows for the time between two captures"
    assert [row["rate_bps"] for row in found][1:4] == [0, 0, 0]
    assert [row["frames"] for row in found if row["port"] == "p2"] == [1, 1], "no row for each second of three years"
    assert {(row["share_lo"], row["share_hi"], row["samples"]) for row in rows(directory, "ip_versions")} == {
        (None, None, 3)
    }, "three samples are too few for intervals"


def test_second_run_elsewhere_in_a_different_order_with_threads_gives_the_same_bytes(small, copied):
    assert checksums(analyze_campaign(copied, reverse=True, threads=2, choice=ALL_TRAFFIC)) == checksums(small)


@pytest.mark.parametrize(("size", "limit"), [("1M", "256.0 MiB"), ("2G", "1.1 GiB"), (None, None), ("900T", None)])
def test_memory_of_the_job_limits_duckdb_and_not_the_result(size, limit, small, copied, monkeypatch):
    limits, connect = [], queries.open_catalog

    def open_catalog(*arguments, **resources):
        con = connect(*arguments, **resources)
        limits.extend(con.execute("select current_setting('memory_limit')").fetchall())
        return con

    monkeypatch.setattr(queries, "open_catalog", open_catalog)
    process.run(argparse.Namespace(campaign=copied, pseudonyms=False, top=process.TOP, threads=1, memory=size))
    assert limits == [(limit or duckdb.execute("select current_setting('memory_limit')").fetchall()[0][0],)]
    assert checksums(copied) == checksums(small)


def test_error_in_the_thread_that_writes_csv_ends_the_stage(small, copied, monkeypatch):
    monkeypatch.setattr(tables, "rounded", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(UserError, match="cannot write: No space left on device"):
        process.make_tables(Campaign(copied))
    assert checksums(copied) == checksums(small)


@pytest.mark.soak
def test_csv_does_not_depend_on_the_row_group_size(small, copied, monkeypatch):
    monkeypatch.setattr(tables, "ROW_GROUP", 7)
    process.make_tables(Campaign(copied))
    first, again = ({p.name: p.read_bytes() for p in (d / "tables").glob("*.csv")} for d in (small, copied))
    assert first == again
    assert pq.read_metadata(copied / "tables" / "throughput.parquet").row_group(0).num_rows == 7


def test_provenance_lists_inputs_outputs_and_versions_without_paths(small):
    text = (small / "provenance" / "process.json").read_text(encoding="utf-8")
    recorded = json.loads(text)
    assert recorded["versions"]["tshark"] == ["4.0.17"]
    assert recorded["versions"]["duckdb"]
    assert recorded["versions"]["pyarrow"]
    assert len(recorded["inputs"]) == 9
    assert recorded["inputs"]["site00-p0-0000"]["acap"] == sha256_of(small / "acap" / "site00-p0-0000.parquet")
    assert recorded["outputs"] == {f"tables/{path.name}": sha256_of(path) for path in (small / "tables").iterdir()}
    parameters = {"resamples": 1000, "level_percent": 95, "fewest_samples": 6}
    assert recorded["parameters"]["bootstrap"].items() > parameters.items()
    assert str(small.parent) not in text


@pytest.mark.soak
def test_provenance_lists_samples_that_are_in_no_table(tmp_path):
    for name in "abc":
        add_sample(tmp_path, name)
    (tmp_path / "acap" / "c.parquet").unlink()
    index.build(Campaign(tmp_path), exclude=["b"])
    analyze.make_partials(Campaign(tmp_path), ["a"], tmp_path / "partial" / "a")
    for hide, expected in ((False, {"config": ["b"], "no acap": ["c"]}), (True, {"config": 1, "no acap": 1})):
        process.make_tables(Campaign(tmp_path), hide=hide)
        recorded = json.loads((tmp_path / "provenance" / "process.json").read_text())
        assert (recorded["omitted"], recorded["excluded"]) == (expected, {})


def test_missing_partial_names_the_command(copied):
    shutil.rmtree(copied / "partial" / "site01-p0-0001")
    with pytest.raises(UserError, match="acapella campaign analyze --sample site01-p0-0001"):
        process.make_tables(Campaign(copied))


def test_partial_tables_of_an_earlier_version_are_an_error(copied, capsys):
    for path in (copied / "partial").glob("*/quality.parquet"):
        pq.write_table(pq.read_table(path).drop_columns("sample"), path)
    assert "tables quality are of a different version; run snakemake, or acapella campaign analyze for " in failed(
        capsys, "campaign", "process", copied
    )


def batch_of(directory, batch: str):
    """Return the directory of the partial tables of a batch, below a directory that exists."""
    return new_directory(directory / "batches" / "partial") / batch


@pytest.mark.parametrize(("batches", "fault"), [(("b0001", "b0002"), "in several files"), (("b0002",), "missing")])
def test_sample_must_be_in_the_tables_of_one_batch(copied, capsys, batches, fault):
    """A sample may be in two batches if the plan was deleted. The other case: the tables of a batch lack the sample."""
    sample, other = "site01-p0-0001", "site01-p0-0000"
    for batch in batches:
        shutil.copytree(copied / "partial" / (sample if "b0001" in batches else other), batch_of(copied, batch))
    for name in {sample, other} if fault == "missing" else {sample}:
        shutil.rmtree(copied / "partial" / name)
    assert f"the partial tables of {sample} are {fault}" in failed(capsys, "campaign", "process", copied)


def test_tables_of_a_batch_that_left_the_plan_are_ignored(copied):
    """The sample was excluded, which left its batch without members. Later it formed a new batch."""
    sample, before = "site01-p0-0001", checksums(copied)
    shutil.copytree(copied / "partial" / sample, batch_of(copied, "b0002"))
    (copied / "partial" / sample).rename(batch_of(copied, "b0004"))
    write_plan(copied, [Member("b0004", sample, "site01", "p0", "a.pcap")])
    process.make_tables(Campaign(copied))
    assert checksums(copied) == before
    (batch_of(copied, "b0004") / "stacks.parquet").unlink()
    with pytest.raises(UserError, match=r"b0004/stacks\.parquet: no such file"):
        process.make_tables(Campaign(copied))


def replace_column(path, name: str, values: Callable[[int], list]) -> None:
    """Replace a column of a Parquet file with the values that ``values`` returns for the number of rows."""
    table = pq.read_table(path)
    column = pa.array(values(len(table)), table.schema.field(name).type)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), path)


def overflow(campaign: Campaign, sample: str) -> None:
    """Set the bytes of a sample's time bins so that their sum overflows."""
    path = campaign.partial(sample, "throughput")
    replace_column(path, "wire_bytes", lambda rows: [2**64 - 1 - n for n in range(rows)])


def truncate(campaign: Campaign, sample: str) -> None:
    """Truncate a partial table of a sample."""
    path = campaign.partial(sample, "frame_sizes")
    path.write_bytes(path.read_bytes()[:-10])


def set_null(campaign: Campaign, sample: str) -> None:
    """Replace the values of a column of a partial table with null."""
    replace_column(campaign.partial(sample, "quality"), "l4_unsure_frames", lambda rows: [None] * rows)


@pytest.mark.soak
@pytest.mark.parametrize("damage", [overflow, truncate, set_null])
def test_failed_merge_names_the_sample_and_keeps_the_previous_tables(copied, capsys, damage):
    before = checksums(copied)
    sample = sorted(path.name for path in (copied / "partial").iterdir())[7]
    damage(Campaign(copied), sample)
    assert f"sample {sample} cannot be merged: " in failed(capsys, "campaign", "process", copied, "--top", "3")
    assert checksums(copied) == before


@pytest.mark.parametrize(
    "fault",
    [
        duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate data of size 256.0 MiB"),
        duckdb.IOException('IO Error: Could not write file "x": No space left on device'),
        duckdb.IOException('IO Error: Could not read from file "x": Input/output error'),
    ],
    ids=["memory", "disk", "device"],
)
@pytest.mark.parametrize("stage", ["index", "process"])
def test_error_of_the_machine_names_no_sample(copied, capsys, monkeypatch, stage, fault):
    """The fault occurs only with two or more samples. A search for the faulty sample would name one."""
    before = checksums(copied)
    module, name = {"index": (index, "fill"), "process": (process, "merge")}[stage]

    def failing(campaign, *arguments, **_):
        if len(arguments[1] if stage == "process" else arguments[2].digests) > 1:
            with queries.one_line(campaign.directory) if stage == "index" else contextlib.nullcontext():
                raise fault

    call_before(monkeypatch, module, name, failing)
    error = failed(capsys, "campaign", stage, copied, code=OUTSIDE)
    assert str(fault) in error
    assert "exclude" not in error
    assert "sample" not in error
    assert checksums(copied) == before


def test_different_time_bins_are_rejected(copied):
    sample = "site01-p0-0001"
    analyze.make_partials(Campaign(copied), [sample], copied / "partial" / sample, bin_ns=10**8)
    others = sum(row["frames"] > 0 and row["excluded"] is None for row in rows(copied, "capture_quality")) - 1
    bins = rf"1000000000 in {others} \(\S+, ...\), 100000000 in 1 \({sample}\)"
    with pytest.raises(UserError, match=f"--bin-ns: {bins}; run acapella campaign analyze "):
        process.make_tables(Campaign(copied))


@pytest.mark.parametrize("bin_ns", [0, -5])
def test_time_bin_must_be_positive(small, tmp_path, bin_ns):
    with pytest.raises(UserError, match="positive"):
        analyze.make_partials(Campaign(small), ["site01-p0-0001"], tmp_path, bin_ns=bin_ns)


def test_missing_catalog_or_acap_error_names_the_command_to_run(tmp_path):
    with pytest.raises(UserError, match="run acapella campaign index"):
        process.make_tables(Campaign(tmp_path))
    with pytest.raises(UserError, match="run acapella digest"):
        analyze.make_partials(Campaign(tmp_path), ["a"], tmp_path / "partial")


@pytest.fixture(scope="module")
def hidden(small, tmp_path_factory):
    directory = shutil.copytree(small, tmp_path_factory.mktemp("hidden") / "made_up")
    process.make_tables(Campaign(directory), hide=True)
    return directory


def test_published_files_contain_no_true_name(hidden):
    published = [*(hidden / "tables").iterdir(), hidden / "provenance" / "process.json"]
    assert len(published) == 2 * len(process.TABLES) + 1
    for path in published:
        text = str(pq.read_table(path).to_pydict()) if path.suffix == ".parquet" else path.read_text(encoding="utf-8")
        assert "site0" not in text.lower(), path
        assert "hundredgige" not in text.lower(), path


def test_pseudonyms_do_not_change_numbers_and_intervals(small, hidden):
    columns = ("frames", "wire_bytes", "lost_frames")
    plain, other = (
        sorted(str([row[c] for c in columns]) for row in rows(d, "capture_quality")) for d in (small, hidden)
    )
    assert plain == other
    assert {row["site"] for row in rows(hidden, "header_depth")} == {"S0", "S1", "S2", "all"}
    plain, other = ([row for row in rows(each, "ip_versions") if row["site"] == "all"] for each in (small, hidden))
    assert plain == other
    assert any(row["ip_version"] == "4" and row["share_lo"] is not None for row in plain)


def test_mapping_of_pseudonyms_is_private_and_outside_the_tables(hidden):
    mapping = hidden / "pseudonyms.tsv"
    assert mapping.stat().st_mode & 0o077 == 0
    lines = read_rows(mapping)
    assert list(lines[0]) == ["sample", "site", "port", "true_sample", "true_site", "true_port"]
    assert len(lines) == len({line["sample"] for line in lines}) == 9


def test_flow_ids_with_pseudonyms_do_not_reveal_the_site(small, hidden):
    assert not {row["flow_id"] for row in rows(small, "stitched_flows")} & {
        row["flow_id"] for row in rows(hidden, "stitched_flows")
    }
    assert len(rows(hidden, "stitched_flows")) == len(rows(small, "stitched_flows"))


@pytest.mark.parametrize("sites", [("ABEL", "ZOE"), ("ZOE", "ABEL")])
def test_order_of_pseudonyms_depends_on_the_captures_not_on_the_names(sites):
    samples = [
        {"sample": sample, "site": site, "port": "p", "start_ns": 0, "sha256": sha256}
        for sample, site, sha256 in zip("xy", sites, ("5e", "3a"), strict=True)
    ]
    assert [name.site for name in pseudonyms(samples)] == ["S1", "S0"]


def test_catalog_of_a_different_version_error_asks_to_recreate_it(copied, capsys):
    with queries.connect(copied / "catalog.duckdb") as con:
        con.execute("create table older as select * exclude (one_in) from samples")
        con.execute("drop view frames; drop view connections; drop view samples; alter table older rename to samples")
    error = failed(capsys, "campaign", "process", copied)
    assert "the catalog was written by a different version (" in error
    assert error.endswith(f"; run acapella campaign index {copied}")
