"""Tests max-min fair rates, completion times and proportional design against brute force and their definitions."""

import random
from fractions import Fraction

import pytest
import yaml
from acapella_testing.generated import generated_transfers as made
from acapella_testing.new_files import write_file

from acapella.cli import main as cli
from acapella.transfer import maxmin
from acapella.transfer.network import of_cell
from acapella_core import schemas

MULTIPATH = schemas.root().parent / "capture/src/acapella_capture/transfer/topologies/multipath.yaml"


def networks(number: int, seed: int = 1):
    """Yield random small networks: flows over links, and the capacities of links, some of which have none."""
    dice = random.Random(seed)
    for _ in range(number):
        links = [f"l{n}" for n in range(dice.randint(1, 4))]
        limited = [link for link in links if dice.random() < 0.9] or links[:1]
        capacity = {link: Fraction(dice.randint(1, 12)) for link in limited}
        flows = [
            maxmin.Flow(tuple(dice.sample(links, dice.randint(1, len(links)))), dice.randint(1, 6))
            for _ in range(dice.randint(1, 5))
        ]
        yield flows, capacity


def raised_in_steps(flows, capacity, steps: int):
    """Return rates by raising all of them in small steps until a link of the flow is full (brute force)."""
    step = Fraction(1, steps)
    rates = [Fraction(0)] * len(flows)
    rising = {n for n, flow in enumerate(flows) if capacity.keys() & flow.links}
    while rising:
        for n in rising:
            rates[n] += step
        for link, limit in capacity.items():
            crossing = {n for n, flow in enumerate(flows) if link in flow.links}
            if sum(rates[n] for n in crossing) > limit - step * len(flows):
                rising -= crossing
    return rates


def test_rates_equal_brute_force():
    for flows, capacity in networks(20):
        for share, rate in zip(maxmin.fair_shares(flows, capacity), raised_in_steps(flows, capacity, 100), strict=True):
            assert (share.rate_bps is None) == (rate == 0)
            assert share.rate_bps is None or abs(share.rate_bps - rate) <= Fraction(2 * len(flows) ** 2, 100)


def test_rates_are_feasible_and_every_flow_has_a_full_link_where_its_rate_is_largest():
    """Proposition in Bertsekas and Gallager, section 6.5.2: these two properties define the max-min fair rates."""
    for flows, capacity in networks(300, seed=2):
        shares = maxmin.fair_shares(flows, capacity)
        rates = {
            link: [share.rate_bps for share, flow in zip(shares, flows, strict=True) if link in flow.links]
            for link in capacity
        }
        assert all(sum(rates[link]) <= capacity[link] for link in capacity)
        for share, flow in zip(shares, flows, strict=True):
            if share.rate_bps is None:
                assert not set(flow.links) & capacity.keys()
                continue
            assert share.bottleneck in flow.links
            assert sum(rates[share.bottleneck]) == capacity[share.bottleneck]
            assert share.rate_bps == max(rates[share.bottleneck])


def test_rates_do_not_depend_on_the_order_of_flows():
    for flows, capacity in networks(100, seed=3):
        forward = [share.rate_bps for share in maxmin.fair_shares(flows, capacity)]
        assert forward == [share.rate_bps for share in maxmin.fair_shares(flows[::-1], capacity)][::-1]


def test_completions_equal_a_simulation_in_small_steps():
    step = Fraction(1, 10)
    for flows, capacity in networks(12, seed=4):
        left, now, found = [Fraction(8 * flow.size_bytes) for flow in flows], Fraction(0), [None] * len(flows)
        limited = [n for n, flow in enumerate(flows) if set(flow.links) & capacity.keys()]
        while any(left[n] > 0 for n in limited):
            active = [n for n in limited if left[n] > 0]
            shares = maxmin.fair_shares([flows[n] for n in active], capacity)
            now += step
            for n, share in zip(active, shares, strict=True):
                left[n] -= step * share.rate_bps
                if left[n] <= 0:
                    found[n] = now
        for end, simulated in zip(maxmin.completions(flows, capacity), found, strict=True):
            assert (end is None) == (simulated is None)
            assert end is None or abs(end.time_s - simulated) <= step * 2 * len(flows)


def test_ended_flow_leaves_its_rate_to_the_others():
    ends = maxmin.completions([maxmin.Flow(("l",), 1), maxmin.Flow(("l",), 3)], {"l": Fraction(8)})
    assert [end.time_s for end in ends] == [2, 4]  # 1 byte at 4 bit/s; then 2 bytes at 8 bit/s


def test_flow_of_zero_bytes_ends_at_once():
    ends = maxmin.completions([maxmin.Flow(("l",), 0), maxmin.Flow(("l",), 1)], {"l": Fraction(8)})
    assert [end.time_s for end in ends] == [0, 1]


def paper():
    """Return the topology of the paper's figure 8 and its six flows."""
    network = of_cell(made.LINKS, made.PATHS)
    return network, [maxmin.Flow(network.paths[network.path_of(n)], 2**30) for n in range(6)]


def test_proportional_design_of_the_paper_is_two():
    network, flows = paper()
    assert [network.path_of(n) for n in range(6)] == ["red", "green", "blue"] * 2
    hops = [("l1", "r3"), ("l2", "r1")]
    design = maxmin.proportional(flows, dict.fromkeys(hops, Fraction(50_000_000)), hops)
    assert design.ratio(*hops) == 2
    assert design.together
    assert len({end.time_s for end in design.completions}) == 1


def test_no_other_ratio_completes_earlier_than_the_proportional_one():
    _, flows = paper()
    hops, total = [("l1", "r3"), ("l2", "r1")], Fraction(90_000_000)
    shortest = max(end.time_s for end in maxmin.proportional(flows, dict.fromkeys(hops, total / 2), hops).completions)
    for place in range(5, 40):
        ratio = Fraction(place, 10)
        capacity = {hops[0]: total * ratio / (1 + ratio), hops[1]: total / (1 + ratio)}
        longest = max(end.time_s for end in maxmin.completions(flows, capacity))
        assert (longest == shortest) == (ratio == 2)
        assert longest >= shortest


def test_proportional_design_of_unequal_flows_has_flows_that_end_apart():
    flows = [maxmin.Flow(("a",), 10), maxmin.Flow(("a",), 20), maxmin.Flow(("b",), 10)]
    design = maxmin.proportional(flows, {"a": Fraction(50), "b": Fraction(50)}, ["a", "b"])
    assert design.ratio("a", "b") == 3
    assert not design.together


@pytest.mark.parametrize(("links", "message"), [(["a", "c"], "link c: no flow"), (["a", "d"], "link d: no capacity")])
def test_links_that_cannot_be_adjusted_are_named(links, message):
    with pytest.raises(ValueError, match=message):
        maxmin.proportional([maxmin.Flow(("a", "d"), 1)], {"a": Fraction(1), "c": Fraction(1)}, links)


def test_opposite_directions_of_a_link_do_not_share_its_rate():
    network = of_cell({"l": {"between": ["a", "b"], "rate_bps": 8_000_000}}, {"east": ["a", "b"], "west": ["b", "a"]})
    flows = [maxmin.Flow(path, 1) for path in network.paths.values()]
    assert [share.rate_bps for share in maxmin.fair_shares(flows, network.capacity())] == [8_000_000] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["links"]["l1"].update(rate_mbs=8), "links.l1.rate_mbs: unknown key; did you mean rate_mbps?"),
        (
            lambda v: v["links"]["l1"].update(rate_mbps=0),
            "links.l1.rate_mbps: expected a number of at least 0.1, or null, found 0",
        ),
        (lambda v: v["paths"].update(p=["h1", "r5", "h2"]), "paths.p: no link between h1 and r5"),
        (lambda v: v.pop("paths"), "paths: missing"),
        (lambda v: v.update(links=None), "links: expected a mapping of keys to values, found null"),
    ],
)
def test_topology_errors_name_the_key(tmp_path, capsys, change, message):
    values = yaml.safe_load(MULTIPATH.read_text())
    change(values)
    path = write_file(tmp_path / "topology.yaml", yaml.safe_dump(values, sort_keys=False))
    assert cli.main(["campaign", "predict", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_predict_prints_rates_and_the_ratio(capsys):
    options = ["--rate", "100", "--ratio", "0.5", "--flows", "6", "--size", "1G", "--adjust", "l1", "l2"]
    assert cli.main(["campaign", "predict", str(MULTIPATH), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    # l1 carries 50 x 1448/1514 = 47.820 Mbit/s of payload, a quarter for each flow: 2^33 bit take 718.517 s.
    assert lines[1].split() == ["0", "red", "11.955", "l1", "718.517"]
    assert lines[3].split() == ["2", "blue", "47.820", "l2", "179.629"]
    assert lines[-3:] == [
        "proportional: l1 100.000 Mbit/s, l2 50.000 Mbit/s",
        "ratio l1/l2: 2",
        "completion: 359.259 s; all flows end together",
    ]
