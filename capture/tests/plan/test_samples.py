"""The plan of a site: modes, cycles, runs, batches."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.plan.port_selection import assign_receivers
from acapella_capture.plan.samples import SitePlan, max_sample_bytes, next_start_ns, sites_to_sample
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Port, Site
from acapella_core.errors import UserError


def settings(**keys):
    return parse_settings({"testbed": "local"} | keys)


def site(name, *ports) -> Site:
    return Site(name, tuple(Port(port, 10**9) for port in ports))


def batches(plan: SitePlan) -> list[list[tuple[str, str]]]:
    return [[(planned.name, planned.port.name) for planned in moment] for moment in plan.batches_in_advance()]


def test_all_ports_are_sampled_before_one_repeats():
    plan = SitePlan(settings(capture={"samples_per_port": 2}), site("S", "p", "q"), 1)
    assert [[port for _, port in moment] for moment in batches(plan)] == [["p"], ["q"], ["p"], ["q"]]


def cycles_of(plan: SitePlan, cycles: int) -> list[tuple[str, ...]]:
    """Return the ports of each cycle."""
    history: list[tuple[str, ...]] = []
    for cycle in range(cycles):
        history.append(plan.choose_ports(cycle, None, history))
    return history


def test_half_of_the_mirrors_move_at_each_cycle():
    plan = SitePlan(settings(collect={"move_half": True}), site("S", *"abcdefgh"), 4)
    assert plan.cycles == 3
    assert [sorted(ports) for ports in cycles_of(plan, 4)] == [list("abcd"), list("cdef"), list("efgh"), list("abgh")]
    assert [sorted({port for _, port in moment}) for moment in batches(plan)] == [
        list("abcd"), list("cdef"), list("efgh"),
    ]  # fmt: skip
    single = SitePlan(settings(collect={"move_half": True}), site("S", *"abc"), 1)
    assert cycles_of(single, 3) == [("a",), ("b",), ("c",)]


@given(ports=st.integers(1, 9), receivers=st.integers(2, 9), selection=st.sampled_from(["all", "busiest"]))
def test_at_most_half_of_the_mirrors_move_and_all_ports_are_sampled(ports, receivers, selection):
    names = [f"p{number}" for number in range(ports)]
    plan = SitePlan(settings(collect={"move_half": True, "port_selection": selection}), site("S", *names), receivers)
    assigned: dict[str, str] = {}
    chosen = cycles_of(plan, 3 * ports)
    for number, cycle in enumerate(chosen):
        before, assigned = assigned, assign_receivers(cycle, [f"r{n}" for n in range(receivers)], assigned)
        assert len(set(cycle)) == len(cycle) <= receivers and set(assigned.values()) == set(cycle)
        assert number == 0 or sum(before.get(key) != port for key, port in assigned.items()) <= receivers // 2
    assert {port for cycle in chosen for port in cycle} == set(names)
    assert {port for cycle in chosen[: plan.cycles] for port in cycle} == set(names) or selection == "busiest"


@pytest.mark.parametrize("receivers", [1, 2, 5])
def test_sample_names_are_unique_for_any_number_of_receivers(receivers):
    keys = settings(runs=2, capture={"directions": ["rx", "tx"]}, collect={"samples_per_run": 2, "runs_per_cycle": 2})
    names = [sample for moment in batches(SitePlan(keys, site("S", "p", "q", "r"), receivers)) for sample, _ in moment]
    assert len(set(names)) == len(names) == 2 * 2 * 2 * 3 * 2  # runs, per cycle, samples per run, ports, directions


@given(ports=st.integers(1, 9), receivers=st.integers(1, 9))
def test_fewer_receivers_take_the_same_samples_in_at_least_as_many_cycles(ports, receivers):
    where = site("S", *(f"p{number}" for number in range(ports)))
    plans = [SitePlan(settings(), where, count) for count in (receivers, receivers + 1)]
    taken = [Counter(port for moment in batches(plan) for _, port in moment) for plan in plans]
    assert taken[0] == taken[1] == Counter(port.name for port in where.ports)
    assert plans[0].cycles >= plans[1].cycles


def test_modes_choose_sites_and_ports():
    slices = (Port("p", None, "downlink", ("mine", "theirs")), Port("q", None, "downlink", ("theirs",)))
    sites = [Site("A", slices), site("B", "p")]
    assert [s.name for s in sites_to_sample(settings(), sites)] == ["A", "B"]
    assert [s.name for s in sites_to_sample(settings(collect={"mode": "sites", "sites": ["B"]}), sites)] == ["B"]
    selected = sites_to_sample(settings(collect={"mode": "slice", "slice": "mine"}), sites)
    assert [(s.name, [port.name for port in s.ports]) for s in selected] == [("A", ["p"])]


def ports_by_site(known_sites, **collect) -> dict[str, list[str]]:
    return {s.name: [port.name for port in s.ports] for s in sites_to_sample(settings(collect=collect), known_sites)}


PORTS = (Port("a", None, "downlink"), Port("b", None, "uplink"), Port("c", None))
SITES = [Site("S", PORTS), Site("T", PORTS[:1])]


def test_uplinks_and_fixed_selections_skip_sites_without_ports():
    assert ports_by_site(SITES, port_selection="uplinks") == {"S": ["b"]}
    assert ports_by_site(SITES, port_selection="fixed", ports={"S": ["c", "a"]}) == {"S": ["c", "a"]}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"mode": "sites", "sites": ["C"]}, "no site 'C'; known: S, T"),
        ({"mode": "sites"}, "no site specified"),
        ({"mode": "slice", "slice": "none"}, "slice 'none' uses no port"),
        ({"port_selection": "fixed", "ports": {"S": ["x"]}}, "no port 'x' to mirror at site 'S'"),
        ({"port_selection": "fixed", "ports": {"U": ["a"]}}, "no site 'U' to sample; known: S, T"),
        ({"port_selection": "fixed"}, "collect.ports: no port specified"),
        ({"port_selection": "uplinks", "mode": "sites", "sites": ["T"]}, "no site has ports for selection 'uplinks'"),
    ],
)
def test_site_or_port_that_cannot_be_sampled_is_an_error(keys, why):
    with pytest.raises(UserError, match=why):
        ports_by_site(SITES, **keys)


def test_number_of_cycles_is_unknown_with_a_time_limit_only():
    plan = SitePlan(settings(collect={"total_s": 60}), site("S", "p"), 1)
    assert plan.cycles is None and plan.remaining_s(0) == pytest.approx(60 + plan.sample_interval_s)
    with pytest.raises(UserError, match="only known when they are taken"):
        list(plan.batches_in_advance())


@given(now=st.integers(0, 2**62), period=st.floats(0.001, 1e5))
def test_samples_start_at_multiples_of_the_period(now, period):
    start = next_start_ns(now, period, 1)
    assert start % round(period * 1e9) == 0
    assert 0 <= start - now < round(period * 1e9)


def test_expected_bytes_are_limited_by_the_slower_of_port_and_receiver():
    keys = settings(capture={"sample_s": 10, "snaplen": 184}, collect={"mean_frame_bytes": 1000})
    assert max_sample_bytes(keys, Port("p", 10**9), None) == 2 * 10**9 // 8 * 10 // 1000 * 200
    assert max_sample_bytes(keys, Port("p", 10**9), 10**9) == 10**9 // 8 * 10 // 1000 * 200
    assert max_sample_bytes(keys, Port("p", None), None) is None
    half = replace(keys, capture=replace(keys.capture, one_in=2))
    assert max_sample_bytes(half, Port("p", 10**9), 10**9) == 10**9 // 8 * 10 // 1000 * 200 // 2
    hashed = replace(keys, capture=replace(keys.capture, method="dpdk", format="pcapng"))
    # with the pcapng options that pcapng.c writes
    assert max_sample_bytes(hashed, Port("p", 10**9), 10**9) == 10**9 // 8 * 10 // 1000 * (184 + 72)


def test_sample_names_contain_the_run_number():
    plan = SitePlan(settings(runs=2), site("S", "p", "q", "r"), 2)
    assert [[planned.name for planned in batch] for batch in plan.batches_in_advance()] == [
        ["run1-S-p-both-1", "run1-S-q-both-1"], ["run1-S-r-both-1"],
        ["run2-S-p-both-1", "run2-S-q-both-1"], ["run2-S-r-both-1"],
    ]  # fmt: skip
