"""Made-up tables, which tests of figures and report read, are as of one campaign: their sums agree."""

from collections import defaultdict

import pytest
from made_tables import TABLES, write_tables

from acapella.campaign import Campaign
from acapella.figures.source import Source


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, list[dict]]:
    """All tables of a campaign of three sites."""
    source = Source(Campaign(write_tables(tmp_path_factory.mktemp("made"))))
    return {name: source.rows(name) for name in TABLES}


def summed(rows: list[dict], column: str, **wanted) -> dict[str, int]:
    """The sum of a column at each site."""
    found = defaultdict(int)
    for row in rows:
        if all(row[name] == value for name, value in wanted.items()):
            found[row["site"]] += row[column]
    return dict(found)


def with_all(sums: dict[str, int]) -> dict[str, int]:
    """Sums of sites, and their own sum."""
    return {**sums, "all": sum(sums.values())}


@pytest.mark.parametrize("column", ["frames", "wire_bytes"])
def test_every_table_has_the_frames_of_the_samples(column, tables):
    sites = summed(tables["capture_quality"], column)
    assert summed(tables["flows_per_sample"], column) == summed(tables["throughput"], column) == sites
    for name in ("ip_versions", "encapsulations"):
        assert summed(tables[name], column) == with_all(sites), name
    assert sum(row[column] for row in tables["restrictions"]) == sum(sites.values())
    if column == "frames":
        for length in ("outer", "inner"):
            assert summed(tables["frame_sizes"], column, length=length) == with_all(sites)
        assert summed(tables["header_stack_sizes"], column) == with_all(sites)
        assert {row["site"]: row[column] for row in tables["header_depth"]} == with_all(sites)


@pytest.mark.parametrize("site", ["S0", "all"])
def test_lengths_headers_and_encapsulations_agree(site, tables):
    stacks = defaultdict(int)
    for row in tables["header_stack_sizes"]:
        if row["site"] == site:
            stacks[row["bin"]] += row["frames"]
    sizes = {r["bin"]: r["frames"] for r in tables["frame_sizes"] if (r["site"], r["length"]) == (site, "outer")}
    assert {name: frames for name, frames in sizes.items() if frames} == stacks
    headers = {row["header"]: row for row in tables["header_occurrence"] if row["site"] == site}
    depth = next(row for row in tables["header_depth"] if row["site"] == site)
    assert depth["distinct_headers"] == len(headers)
    assert depth["deepest_stack"] == len(depth["deepest_example"].split("/"))
    tagged = [row for row in tables["encapsulations"] if row["site"] == site and "VLAN" in row["encapsulation"]]
    assert headers["VLAN"]["frames"] == sum(row["frames"] for row in tagged)
    assert all(row["share_lo"] <= row["share"] <= row["share_hi"] for row in tagged)
    tcp = sum(r["tcp_frames"] + r["cut_tcp_frames"] for r in tables["header_stack_sizes"] if r["site"] == site)
    assert headers["TCP"]["frames"] == tcp


def test_flows_of_all_tables_agree(tables):
    sites = summed(tables["flows_per_sample"], "flows")
    for name, column in (("flow_sizes", "bytes"), ("flow_times", "value")):
        lowest = [row for row in tables[name] if row[column] == 1 and row["measure"] in ("wire", "duration_ns")]
        assert {r["site"]: r["flows"] for r in lowest if r["scope"] == "sample"} == with_all(sites)
        whole = {(r["scope"], r["site"]): r["flows"] for r in lowest if r["scope"] != "sample"}
        assert whole["campaign", "all"] == whole["site", "all"] == sum(whole["site", site] for site in sites)
        assert whole["site", "all"] < sum(sites.values()), "a flow that several samples show counts once"
    assert summed(tables["applications"], "flows") == with_all(sites)
    assert summed(tables["applications"], "frames") == with_all(summed(tables["flows_per_sample"], "flow_frames"))
    for row in tables["top_flows"]:
        assert row["site"] in ("all", row["largest_site"])
    largest = {row["rank"]: row for row in tables["top_flows"] if row["site"] == "all"}
    reached = [
        row for row in tables["flow_sizes"] if (row["scope"], row["flows_ge"]) == ("campaign", 1)
    ]  # the largest flow alone
    assert all(row["bytes"] <= largest[1]["wire_bytes"] for row in reached)
