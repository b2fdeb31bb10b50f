"""Checks that the generated tables, which tests of figures and of the report read, are consistent."""

from collections import defaultdict

import pytest
from acapella_testing.generated.generated_tables import TABLES, write_tables
from acapella_testing.generated.generated_trials import result

from acapella.campaign.layout import Campaign
from acapella.figures.source import Source


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, list[dict]]:
    """Return all tables of a campaign of three sites."""
    return tables_of(write_tables(tmp_path_factory.mktemp("made")))


def tables_of(directory) -> dict[str, list[dict]]:
    """Return all tables of a campaign."""
    source = Source(Campaign(directory))
    return {name: source.rows(name) for name in TABLES}


def summed(rows: list[dict], column: str, **wanted) -> dict[str, int]:
    """Return the sum of a column at each site, over the rows with the `wanted` values."""
    found = defaultdict(int)
    for row in [row for row in rows if wanted.items() <= row.items()]:
        found[row["site"]] += row[column]
    return dict(found)


def with_all(sums: dict[str, int]) -> dict[str, int]:
    """Return the sums of the sites and, as "all", their total."""
    return {**sums, "all": sum(sums.values())}


@pytest.mark.parametrize("column", ["frames", "wire_bytes"])
def test_generated_tables_have_the_frames_of_the_samples(column, tables):
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
    stacks, own = defaultdict(int), [row for row in tables["header_stack_sizes"] if row["site"] == site]
    for row in own:
        stacks[row["bin"]] += row["frames"]
    sizes = {r["bin"]: r["frames"] for r in tables["frame_sizes"] if (r["site"], r["length"]) == (site, "outer")}
    assert {name: frames for name, frames in sizes.items() if frames} == stacks
    headers = {row["header"]: row for row in tables["header_occurrence"] if row["site"] == site}
    depth = next(row for row in tables["header_depth"] if row["site"] == site)
    assert depth["distinct_headers"] == len(headers.keys() - {"Data"}) == len(headers) - 1
    assert depth["deepest_stack"] == len([label for label in depth["deepest_example"].split("/") if label != "Data"])
    tagged = [row for row in tables["encapsulations"] if row["site"] == site and "VLAN" in row["encapsulation"]]
    assert headers["VLAN"]["frames"] == sum(row["frames"] for row in tagged)
    assert all(row["share_lo"] <= row["share"] <= row["share_hi"] for row in tagged)
    assert headers["TCP"]["frames"] == sum(row["tcp_frames"] + row["cut_tcp_frames"] for row in own)


def test_flows_of_all_tables_agree(tables):
    sites = summed(tables["flows_per_sample"], "flows")
    for name, column in (("flow_sizes", "bytes"), ("flow_times", "value")):
        lowest = [row for row in tables[name] if row[column] == 1 and row["measure"] in ("wire", "duration_ns")]
        assert {r["site"]: r["flows"] for r in lowest if r["scope"] == "sample"} == with_all(sites)
        totals = {(r["scope"], r["site"]): r["flows"] for r in lowest if r["scope"] != "sample"}
        assert totals["campaign", "all"] == totals["site", "all"] == sum(totals["site", site] for site in sites)
        assert totals["site", "all"] < sum(sites.values()), "a flow seen in several samples counts once"
    assert summed(tables["applications"], "flows") == with_all(sites)
    assert summed(tables["applications"], "frames") == with_all(summed(tables["flows_per_sample"], "flow_frames"))
    assert [row for row in tables["top_flows"] if row["site"] not in ("all", row["largest_site"])] == []
    largest = next(row for row in tables["top_flows"] if (row["site"], row["rank"]) == ("all", 1))
    reached = [row["bytes"] for row in tables["flow_sizes"] if (row["scope"], row["flows_ge"]) == ("campaign", 1)]
    assert max(reached) <= largest["wire_bytes"]


LINK_BPS = 100 * 10**9  # rate of the ports, type HundredGigE
MIN_ETHERNET_BYTES = 60  # of a frame without FCS (IEEE 802.3, section 4.2.3.3: 64 with FCS)
MIN_IP_BYTES = 20  # of a frame that starts with IP: the IPv4 header
PARTS = {"tcp_frames", "no_payload_frames", "ack_frames", "cut_tcp_frames", "issue_frames", "flow_frames"}


@pytest.fixture(scope="module", params=[1, 2, 30])
def sized(request, tmp_path_factory) -> dict[str, list[dict]]:
    """Return all tables of a campaign of 1, 2 or 30 sites."""
    return tables_of(write_tables(tmp_path_factory.mktemp("sized"), sites=request.param))


def test_no_share_is_below_0_or_above_1(sized):
    for name, row in [(name, row) for name, rows in sized.items() for row in rows]:
        shares = {column: row[column] for column in row if "share" in column or column == "ccdf"}
        shares.pop("occurrence_share", None)  # a frame may contain a header more than once
        assert all(value is None or 0 <= value <= 1 for value in shares.values()), (name, shares)
        assert all(row[part] <= row["frames"] for part in PARTS & set(row)), (name, row)
    assert all(row["frame_share"] <= row["occurrence_share"] for row in sized["header_occurrence"])


def test_bytes_correspond_to_possible_frame_lengths(sized):
    names = ("capture_quality", "flows_per_sample", "throughput", "top_flows", "applications", "encapsulations")
    for name, row in [(table, row) for table in names for row in sized[table]]:
        min_bytes = MIN_IP_BYTES if row.get("encapsulation") == "none" else MIN_ETHERNET_BYTES
        assert min_bytes * row["frames"] <= row["wire_bytes"] <= 9216 * row["frames"], (name, row)
        assert bool(row["frames"]) == bool(row["wire_bytes"]), (name, row)


def test_flows_are_no_larger_and_no_faster_than_the_capture(sized):
    for name in ("frames", "wire_bytes"):
        available = with_all(summed(sized["capture_quality"], name))
        assert all(row[name] <= available[row["site"]] for row in sized["top_flows"])
    size = with_all(summed(sized["capture_quality"], "wire_bytes"))
    assert all(row["bytes"] <= size[row["site"]] for row in sized["flow_sizes"] if row["flows_ge"])
    rates = [row for row in sized["flow_times"] if row["measure"] == "rate_bps" and row["flows_ge"]]
    assert max(row["value"] for row in rates) <= LINK_BPS
    fast = next(r for r in rates if (r["scope"], r["site"], r["value"]) == ("sample", "all", 16_000))
    assert fast["ccdf"] < 0.2, "few flows are faster than 16 kbit/s, because samples have few frames"
    for row in sized["throughput"]:
        assert row["rate_bps"] == round(8e9 * row["wire_bytes"] / row["covered_ns"]) <= LINK_BPS
    for row in sized["flows_per_sample"]:
        assert row["flows"] <= row["flow_frames"] <= row["frames"]
        assert 2 * row["connections"] <= row["flows"]


@pytest.mark.parametrize("runs", [[{}], [{"U": 0.02, "I": 0.12, "L": 0.005}, {"common": 0}, {"U": 0.5}], [{"I": 0.0}]])
def test_components_of_trials_match_their_packets(runs):
    """The definitions are in docs/kappa.md."""
    made = result("e", runs, all_pairs=True)
    packets = {trial["name"]: trial["packets"] for trial in made["trials"]}
    for pair in made["pairs"]:
        total, common = pair["n_a"] + pair["n_b"], pair["n_common"]
        assert (pair["n_a"], pair["n_b"]) == (packets[pair["a"]], packets[pair["b"]])
        assert pair["U"] == pytest.approx((total - 2 * common) / total)
        counts = ("n_a", "n_b", "n_common")
        assert [sum(window[c] for window in pair["timeline"]) for c in counts] == [pair[c] for c in counts]
        for window in pair["timeline"]:
            assert window["U"] == pytest.approx(1 - 2 * window["n_common"] / (window["n_a"] + window["n_b"]))
        for counts in pair["histograms"].values():
            assert counts["zero"] + sum(counts["negative"]) + sum(counts["positive"]) == common
        if common:
            gaps, latency = pair["iat_delta_ns"]["mean"], pair["latency_delta_ns"]["mean"]
            durations = pair["duration_a_ns"], pair["duration_b_ns"]
            assert pair["I"] == pytest.approx(common * gaps / sum(durations), abs=1e-5)
            assert pair["L"] == pytest.approx(latency / max(durations), abs=1e-8)
            assert gaps <= 2 * latency, "the gap of two packets differs by at most both differences of latency"
