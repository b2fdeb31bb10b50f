"""Tests flows across samples, ports and sites: gaps, truncated ends, and which observation counts if several saw a
flow.
"""

import functools
from collections.abc import Callable

import pytest
from acapella_testing.generated.tiny import SECOND, START, add_sample, flow
from acapella_testing.runs.stages import analyze_campaign, rows

WEST1, WEST2, EAST = ("WEST", "p1"), ("WEST", "p2"), ("EAST", "p1")


@pytest.fixture
def stitched(tmp_path):
    """Return a function that adds samples, each given as (place, span, flows), and returns their campaign's tables."""

    def tables(*samples):
        for name, sample in zip("abc", samples, strict=False):
            add_sample(tmp_path / "made", name, *sample)
        return functools.partial(rows, analyze_campaign(tmp_path / "made"))

    return tables


UNTIMED = {"first_ns": None, "last_ns": None}


# Samples at WEST, and columns of their stitched flow.
CASES = {
    "flow in one sample has the values of the sample": (
        [(WEST1, (0, 20), [flow(3, 5, wire_bytes=1000)])],
        {"samples": 1, "ports": 1, "gaps": 0, "gap_ns": 0, "rate_bps": 4000}
        | {"first_ns": START + 3 * SECOND, "duration_ns": 2 * SECOND},
    ),
    "times between samples are gaps even if a sample did not see the flow": (
        [(WEST1, (0, 20), [flow(10, 19)]), (WEST1, (300, 320), []), (WEST1, (600, 620), [flow(601, 611)])],
        {"samples": 2, "gaps": 2, "gap_ns": 560 * SECOND, "duration_ns": 601 * SECOND, "rate_bps": round(16_000 / 41)},
    ),
    "gaps before and after the flow are not its own": (
        [(WEST1, (0, 20), []), (WEST1, (300, 320), [flow(301, 311)]), (WEST1, (600, 620), [])],
        {"gaps": 0, "gap_ns": 0},
    ),
    **{
        f"samples that {how} leave no gap": (
            [(WEST1, (0, 20), [flow(1, 2)]), (WEST1, second, [flow(second[0] + 1, second[0] + 2)])],
            {"gaps": 0, "gap_ns": 0},
        )
        for how, second in (("touch", (20, 40)), ("overlap", (10, 30)), ("contain each other", (5, 12)))
    },
    "frames give the times if no manifest does": (
        [(WEST1, None, [flow(0, 20)]), (WEST1, None, [flow(50, 60)])],
        {"gaps": 1, "gap_ns": 30 * SECOND},
    ),
    "flow with a sample without times has its frames and no rate": (
        [(WEST1, None, [flow(0, 20)]), (WEST1, None, [flow(0, 0, **UNTIMED)]), (WEST1, None, [flow(50, 60)])],
        {"samples": 3, "frames": 6, "duration_ns": 60 * SECOND, "gaps": 1, "gap_ns": 30 * SECOND, "rate_bps": None},
    ),
    "samples of another port do not fill a gap": (
        [(WEST1, (0, 20), [flow(1, 2)]), (WEST2, (20, 40), []), (WEST1, (40, 60), [flow(41, 42)])],
        {"gaps": 1, "gap_ns": 20 * SECOND},
    ),
    "size at a site is that of the largest port": (
        [(WEST1, (0, 20), [flow(1, 2, wire_bytes=1000)]), (WEST2, (0, 20), [flow(1, 2, wire_bytes=1500)])],
        {"largest_port": "p2", "ports": 2, "wire_bytes": 1500},
    ),
    "flow has the label of most frames, marked if one was carried over": (
        [
            (WEST1, (0, 20), [flow(1, 2, app="tls", app_by="tshark", frames=9)]),
            (WEST1, (20, 40), [flow(21, 22, app="data", app_by="tshark", frames=5)]),
            (WEST1, (40, 60), [flow(41, 42, app="tls", app_by="flow", frames=1)]),
        ],
        {"app": "tls", "app_by": "flow"},
    ),
}


@pytest.fixture(scope="module")
def stitched_flows(tmp_path_factory) -> dict[str, dict]:
    """Return the stitched flow of each site in a campaign with a site for each of CASES."""
    directory = tmp_path_factory.mktemp("cases") / "made"
    for number, (samples, _) in enumerate(CASES.values()):
        for letter, ((site, port), *sample) in zip("abc", samples, strict=False):
            add_sample(directory, f"{number}-{letter}", (f"{site}{number}", port), *sample)
    found = rows(analyze_campaign(directory), "stitched_flows")
    assert len(found) == len(CASES)
    return {row["site"]: row for row in found}


@pytest.mark.parametrize(
    ("site", "expected"), [(f"WEST{n}", columns) for n, (_, columns) in enumerate(CASES.values())], ids=[*CASES]
)
def test_flow_of_several_samples_is_stitched_as_the_case_states(stitched_flows, site, expected):
    assert {name: stitched_flows[site][name] for name in expected} == expected


@pytest.mark.soak
def test_flows_without_times_are_stitched_and_have_no_duration_rate_or_gap(stitched):
    twice, once = flow(0, 0, **UNTIMED), flow(0, 0, src_port=1, **UNTIMED)
    table = stitched((WEST1, None, [twice]), (WEST1, None, [twice, once]))
    in_two, in_one = sorted(table("stitched_flows"), key=lambda r: -r["samples"])
    assert (in_two["samples"], in_two["frames"], in_two["wire_bytes"]) == (2, 4, 2000)
    assert (in_one["samples"], in_one["frames"], in_one["wire_bytes"]) == (1, 2, 1000)
    times = ("first_ns", "last_ns", "duration_ns", "rate_bps", "gaps", "gap_ns")
    assert {row[key] for row in (in_two, in_one) for key in times} == {None}
    top = [row for row in table("top_flows") if row["site"] == "all"]
    assert [(row["rank"], row["wire_bytes"], row["duration_ns"]) for row in top] == [(1, 2000, None), (2, 1000, None)]
    sizes = [row for row in table("flow_sizes") if (row["scope"], row["measure"]) == ("campaign", "wire")]
    assert {row["flows"] for row in sizes} == {2}
    assert (table("flow_times"), table("throughput")) == ([], [])
    assert [row["untimed_frames"] for row in table("capture_quality")] == [2, 4]


@pytest.mark.soak
def test_truncation_at_each_end_is_that_of_the_outermost_sample(stitched):
    table = stitched(
        (WEST1, (0, 20), [flow(1, 2, cut_start=False), flow(1, 2, src_port=1)]),
        (WEST1, (20, 40), [flow(21, 22, cut_end=False), flow(21, 22, src_port=1)]),
    )
    complete, cut = sorted(table("stitched_flows"), key=lambda r: -r["src_port"])
    assert (complete["cut_start"], complete["cut_end"]) == (False, False)
    assert (cut["cut_start"], cut["cut_end"]) == (True, True)


# Flows seen at WEST and at EAST, and their rows in the table of the campaign's largest flows: site, size, MPLS labels.
LARGEST = {
    "size in the campaign is that of the largest site though tags differ": (
        [{"wire_bytes": 1000, "vlan": [7], "mpls": [16]}],
        [{"wire_bytes": 1500, "vlan": [8], "mpls": [17, 18]}],
        [("EAST", 1500, "17/18")],
    ),
    "equal addresses in two slices of a site stay two flows": (
        [{"vlan": [7], "wire_bytes": 900}, {"vlan": [8], "wire_bytes": 400}],
        [{"vlan": [9], "wire_bytes": 950}],
        [("EAST", 950, ""), ("WEST", 400, "")],
    ),
}
NO_NETWORK, VNI_5, VNI_6 = (), (("vxlan_vni", 5),), (("vxlan_vni", 6),)
# Networks of the flows at WEST and at EAST, and the sizes of the campaign's flows.
NETWORKS = [
    ([VNI_5], [VNI_6], [900, 950]),
    ([VNI_5], [VNI_5], [950]),
    ([VNI_5], [NO_NETWORK], [950]),
    ([VNI_5, NO_NETWORK], [NO_NETWORK, VNI_5], [940, 950]),
    ([VNI_5, NO_NETWORK], [NO_NETWORK], [900, 950]),
    ([VNI_5, VNI_6], [NO_NETWORK], [890, 900, 950]),
    ([(("gre_key", 5),)], [(("gre_key", 6),)], [950]),
    ([(("gre_key", 1), *VNI_5)], [VNI_5], [950]),
    ([VNI_5], [(("geneve_vni", 5),)], [900, 950]),
]


def in_networks(tenants: list, largest: int) -> list[dict]:
    """Return the columns of a flow in each network; each is 10 bytes smaller than the one before."""
    return [
        {
            "tunnels": [{"type": kind, "id": number, "position": n} for n, (kind, number) in enumerate(networks, 4)],
            "wire_bytes": largest - 10 * k,
        }
        for k, networks in enumerate(tenants)
    ]


@pytest.fixture(scope="module")
def largest_flows(tmp_path_factory) -> Callable[[int], list[dict]]:
    """Return a function that returns the rows of the campaign's largest flows for the n-th case of LARGEST, NETWORKS.

    The flows of all cases are in one campaign; those of a case have their own source port.
    """
    directory = tmp_path_factory.mktemp("two_sites") / "made"
    cases = [(west, east) for west, east, _ in LARGEST.values()]
    cases += [(in_networks(west, 900), in_networks(east, 950)) for west, east, _ in NETWORKS]
    for name, place, side in (("a", WEST1, 0), ("b", EAST, 1)):
        flows = [flow(1, 2, src_port=number, **columns) for number, case in enumerate(cases) for columns in case[side]]
        add_sample(directory, name, place, (0, 20), flows)
    table = [row for row in rows(analyze_campaign(directory), "top_flows") if row["site"] == "all"]
    return lambda number: [row for row in table if row["src_port"] == number]


@pytest.mark.soak
@pytest.mark.parametrize("case", LARGEST)
def test_flow_of_two_sites_is_counted_at_the_largest(largest_flows, case):
    assert [
        (row["largest_site"], row["wire_bytes"], row["mpls"]) for row in largest_flows(list(LARGEST).index(case))
    ] == LARGEST[case][2]


@pytest.mark.parametrize("number", range(len(NETWORKS)), ids=[str(case) for case in NETWORKS])
def test_flows_of_two_sites_are_one_unless_their_networks_differ(largest_flows, number):
    assert sorted([row["wire_bytes"] for row in largest_flows(len(LARGEST) + number)]) == NETWORKS[number][2]


@pytest.mark.soak
def test_equal_addresses_in_two_tunnels_differ_in_column_tunnels(stitched):
    outer, *inner = (
        {"type": kind, "id": number, "position": position}
        for kind, number, position in (("gre_key", 9, 3), ("vxlan_vni", 5, 4), ("vxlan_vni", 6, 4))
    )
    tenants = [[], inner[:1], inner[1:], [outer, inner[0]]]
    flows = [flow(1, 2, tunnels=tunnels, wire_bytes=900 - n) for n, tunnels in enumerate(tenants)]
    table = stitched((WEST1, (0, 20), flows))
    expected = ["", "vxlan_vni*5*4", "vxlan_vni*6*4", "gre_key*9*3/vxlan_vni*5*4"]
    assert [row["tunnels"] for row in sorted(table("stitched_flows"), key=lambda row: -row["wire_bytes"])] == expected
    assert [row["tunnels"] for row in table("top_flows") if row["site"] == "WEST"] == expected
    assert [row["tunnels"] for row in table("top_flows") if row["site"] == "all"] == expected
