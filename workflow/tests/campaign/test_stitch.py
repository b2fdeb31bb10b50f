"""Tests flows across samples, ports and sites: gaps, truncated ends, and which observation counts if several saw a
flow.
"""

import pytest
from acapella_testing.generated.tiny import SECOND, START, add_sample, flow
from acapella_testing.stages import analyze_campaign, rows

WEST1, WEST2, EAST = ("WEST", "p1"), ("WEST", "p2"), ("EAST", "p1")


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "made"


def test_flow_of_one_sample_is_as_the_sample_shows_it(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(3, 5, wire_bytes=1000)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["samples"], row["ports"], row["gaps"], row["gap_ns"]) == (1, 1, 0, 0)
    assert (row["first_ns"], row["duration_ns"]) == (START + 3 * SECOND, 2 * SECOND)
    assert row["rate_bps"] == 4000


def test_times_between_samples_are_gaps_even_where_a_sample_did_not_see_the_flow(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(10, 19)])
    add_sample(directory, "b", WEST1, (300, 320), [])
    add_sample(directory, "c", WEST1, (600, 620), [flow(601, 611)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["samples"], row["gaps"], row["gap_ns"]) == (2, 2, 560 * SECOND)
    assert row["duration_ns"] == 601 * SECOND
    assert row["rate_bps"] == round(2000 * 8 / (601 - 560))


def test_gaps_before_and_after_the_flow_are_not_its_own(directory):
    add_sample(directory, "a", WEST1, (0, 20), [])
    add_sample(directory, "b", WEST1, (300, 320), [flow(301, 311)])
    add_sample(directory, "c", WEST1, (600, 620), [])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["gaps"], row["gap_ns"]) == (0, 0)


@pytest.mark.parametrize("second", [(20, 40), (10, 30), (5, 12)])
def test_samples_that_touch_overlap_or_hold_each_other_leave_no_gap(directory, second):
    add_sample(directory, "a", WEST1, (0, 20), [flow(1, 2)])
    add_sample(directory, "b", WEST1, second, [flow(second[0] + 1, second[0] + 2)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["gaps"], row["gap_ns"]) == (0, 0)


def test_where_no_manifest_tells_the_time_frames_do(directory):
    add_sample(directory, "a", WEST1, None, [flow(0, 20)])
    add_sample(directory, "b", WEST1, None, [flow(50, 60)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["gaps"], row["gap_ns"]) == (1, 30 * SECOND)


UNTIMED = {"first_ns": None, "last_ns": None}


def test_flows_without_times_are_stitched_and_have_no_duration_rate_or_gap(directory):
    add_sample(directory, "a", WEST1, None, [flow(0, 0, **UNTIMED)])
    add_sample(directory, "b", WEST1, None, [flow(0, 0, **UNTIMED), flow(0, 0, src_port=1, **UNTIMED)])
    campaign = analyze_campaign(directory)
    both, one = sorted(rows(campaign, "stitched_flows"), key=lambda r: -r["samples"])
    assert (both["samples"], both["frames"], both["wire_bytes"]) == (2, 4, 2000)
    assert (one["samples"], one["frames"], one["wire_bytes"]) == (1, 2, 1000)
    for row in (both, one):
        assert not {row[key] for key in ("first_ns", "last_ns", "duration_ns", "rate_bps", "gaps", "gap_ns")} - {None}
    top = [row for row in rows(campaign, "top_flows") if row["site"] == "all"]
    assert [(row["rank"], row["wire_bytes"], row["duration_ns"]) for row in top] == [(1, 2000, None), (2, 1000, None)]
    sizes = [row for row in rows(campaign, "flow_sizes") if (row["scope"], row["measure"]) == ("campaign", "wire")]
    assert {row["flows"] for row in sizes} == {2}
    assert (rows(campaign, "flow_times"), rows(campaign, "throughput")) == ([], [])
    assert [row["untimed_frames"] for row in rows(campaign, "capture_quality")] == [2, 4]


def test_flow_with_a_sample_without_times_has_its_frames_and_no_rate(directory):
    add_sample(directory, "a", WEST1, None, [flow(0, 20)])
    add_sample(directory, "b", WEST1, None, [flow(0, 0, **UNTIMED)])
    add_sample(directory, "c", WEST1, None, [flow(50, 60)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["samples"], row["frames"], row["duration_ns"]) == (3, 6, 60 * SECOND)
    assert (row["gaps"], row["gap_ns"], row["rate_bps"]) == (1, 30 * SECOND, None)


def test_samples_of_another_port_do_not_fill_a_gap(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(1, 2)])
    add_sample(directory, "b", WEST2, (20, 40), [])
    add_sample(directory, "c", WEST1, (40, 60), [flow(41, 42)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["gaps"], row["gap_ns"]) == (1, 20 * SECOND)


def test_cut_ends(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(1, 2, cut_start=False), flow(1, 2, src_port=1)])
    add_sample(directory, "b", WEST1, (20, 40), [flow(21, 22, cut_end=False), flow(21, 22, src_port=1)])
    whole, cut = sorted(rows(analyze_campaign(directory), "stitched_flows"), key=lambda r: -r["src_port"])
    assert (whole["cut_start"], whole["cut_end"]) == (False, False)
    assert (cut["cut_start"], cut["cut_end"]) == (True, True)


def test_size_at_a_site_is_the_largest_ports(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(1, 2, wire_bytes=1000)])
    add_sample(directory, "b", WEST2, (0, 20), [flow(1, 2, wire_bytes=1500)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["largest_port"], row["ports"], row["wire_bytes"]) == ("p2", 2, 1500)


def test_size_in_the_campaign_is_the_largest_sites_though_tags_differ(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(1, 2, wire_bytes=1000, vlan=[7], mpls=[16])])
    add_sample(directory, "b", EAST, (0, 20), [flow(1, 2, wire_bytes=1500, vlan=[8], mpls=[17, 18])])
    (row,) = [r for r in rows(analyze_campaign(directory), "top_flows") if r["site"] == "all"]
    assert (row["largest_site"], row["wire_bytes"], row["mpls"]) == ("EAST", 1500, "17/18")


def test_equal_addresses_in_two_slices_of_a_site_stay_two_flows_in_the_campaign(directory):
    slices = [flow(1, 2, vlan=[7], wire_bytes=900), flow(1, 2, vlan=[8], wire_bytes=400)]
    add_sample(directory, "a", WEST1, (0, 20), slices)
    add_sample(directory, "b", EAST, (0, 20), [flow(1, 2, vlan=[9], wire_bytes=950)])
    found = [r for r in rows(analyze_campaign(directory), "top_flows") if r["site"] == "all"]
    assert [(r["largest_site"], r["wire_bytes"]) for r in found] == [("EAST", 950), ("WEST", 400)]


def test_equal_addresses_in_two_tunnels_differ_in_column_tunnels(directory):
    outer = {"type": "gre_key", "id": 9, "position": 3}
    networks = [[{"type": "vxlan_vni", "id": vni, "position": 4}] for vni in (5, 6)]
    tenants = [[], *networks, [outer, *networks[0]]]
    flows = [flow(1, 2, tunnels=tunnels, wire_bytes=900 - n) for n, tunnels in enumerate(tenants)]
    add_sample(directory, "a", WEST1, (0, 20), flows)
    campaign = analyze_campaign(directory)
    expected = ["", "vxlan_vni*5*4", "vxlan_vni*6*4", "gre_key*9*3/vxlan_vni*5*4"]
    stitched = sorted(rows(campaign, "stitched_flows"), key=lambda row: -row["wire_bytes"])
    assert [row["tunnels"] for row in stitched] == expected
    for site in ("WEST", "all"):
        assert [row["tunnels"] for row in rows(campaign, "top_flows") if row["site"] == site] == expected


NO, FIVE, SIX = (), (("vxlan_vni", 5),), (("vxlan_vni", 6),)


@pytest.mark.parametrize(
    ("west", "east", "expected"),
    [
        ([FIVE], [SIX], [900, 950]),
        ([FIVE], [FIVE], [950]),
        ([FIVE], [NO], [950]),
        ([FIVE, NO], [NO, FIVE], [940, 950]),
        ([FIVE, NO], [NO], [900, 950]),
        ([FIVE, SIX], [NO], [890, 900, 950]),
        ([(("gre_key", 5),)], [(("gre_key", 6),)], [950]),
        ([(("gre_key", 1), *FIVE)], [FIVE], [950]),
        ([FIVE], [(("geneve_vni", 5),)], [900, 950]),
    ],
    ids=str,
)
def test_flows_of_two_sites_are_one_unless_their_networks_differ(directory, west, east, expected):
    for site, tenants, largest in ((WEST1, west, 900), (EAST, east, 950)):
        flows = [
            flow(1, 2, tunnels=[{"type": t, "id": i, "position": n} for n, (t, i) in enumerate(tunnels, 4)],
                 wire_bytes=largest - 10 * k)
            for k, tunnels in enumerate(tenants)
        ]  # fmt: skip
        add_sample(directory, site[0], site, (0, 20), flows)
    found = [row["wire_bytes"] for row in rows(analyze_campaign(directory), "top_flows") if row["site"] == "all"]
    assert sorted(found) == expected


def test_flow_has_the_label_of_most_frames_and_marks_one_carried_over(directory):
    add_sample(directory, "a", WEST1, (0, 20), [flow(1, 2, app="tls", app_by="tshark", frames=9)])
    add_sample(directory, "b", WEST1, (20, 40), [flow(21, 22, app="data", app_by="tshark", frames=5)])
    add_sample(directory, "c", WEST1, (40, 60), [flow(41, 42, app="tls", app_by="flow", frames=1)])
    (row,) = rows(analyze_campaign(directory), "stitched_flows")
    assert (row["app"], row["app_by"]) == ("tls", "flow")
