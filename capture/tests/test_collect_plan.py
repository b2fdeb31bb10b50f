"""The plan: modes, cycles, runs, moments; allocation on what is free, with back-off; congestion; outcomes."""

import csv
import itertools
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.control import congestion, outcomes
from acapella_capture.plan.allocation import Acquired, acquire, simulated, wanted_instances
from acapella_capture.plan.samples import SitePlan, most_bytes, next_start_ns, sites_of
from acapella_capture.settings import settings_of
from acapella_capture.testbeds.base import Host, Instance, Port, Readings, Refused, Site, Telemetry, Want
from acapella_core.errors import UserError


def settings(**keys):
    return settings_of({"testbed": "local"} | keys)


def site(name, *ports) -> Site:
    return Site(name, tuple(Port(port, 10**9) for port in ports))


def shots(plan: SitePlan) -> list[list[tuple[str, str]]]:
    return [[(shot.sample, shot.port.name) for shot in moment] for moment in plan.steady()]


def test_a_mirror_visits_every_port_before_any_port_again():
    plan = SitePlan(settings(capture={"samples_per_port": 2}), site("S", "p", "q"), 1)
    assert [[port for _, port in moment] for moment in shots(plan)] == [["p"], ["q"], ["p"], ["q"]]


def test_samples_have_their_names_once_whatever_the_receivers():
    keys = settings(runs=2, capture={"directions": ["rx", "tx"]}, collect={"samples_per_run": 2, "runs_per_cycle": 2})
    expected = 2 * 2 * 2 * 3 * 2  # runs, runs and samples of a cycle, ports, directions
    for receivers in (1, 2, 5):
        names = [
            sample for moment in shots(SitePlan(keys, site("S", "p", "q", "r"), receivers)) for sample, _ in moment
        ]
        assert len(set(names)) == len(names) == expected


@given(ports=st.integers(1, 9), got=st.integers(1, 9))
def test_fewer_receivers_are_the_same_samples_in_more_cycles(ports, got):
    where = site("S", *(f"p{number}" for number in range(ports)))
    plans = [SitePlan(settings(), where, receivers) for receivers in (got, got + 1)]
    taken = [Counter(port for moment in shots(plan) for _, port in moment) for plan in plans]
    assert taken[0] == taken[1] == Counter(port.name for port in where.ports)
    assert plans[0].cycles >= plans[1].cycles


def test_modes_choose_sites_and_ports():
    slices = (Port("p", None, "downlink", ("mine", "theirs")), Port("q", None, "downlink", ("theirs",)))
    sites = [Site("A", slices), site("B", "p")]
    assert [s.name for s in sites_of(settings(), sites)] == ["A", "B"]
    assert [s.name for s in sites_of(settings(collect={"mode": "sites", "sites": ["B"]}), sites)] == ["B"]
    mine = sites_of(settings(collect={"mode": "slice", "slice": "mine"}), sites)
    assert [(s.name, [port.name for port in s.ports]) for s in mine] == [("A", ["p"])]
    for collect, why in (
        ({"mode": "sites", "sites": ["C"]}, "no site 'C'; there are A, B"),
        ({"mode": "sites"}, "names no site"),
        ({"mode": "slice", "slice": "none"}, "slice 'none' uses no port"),
    ):
        with pytest.raises(UserError, match=why):
            sites_of(settings(collect=collect), sites)


def ports_by_site(there, **collect) -> dict[str, list[str]]:
    return {s.name: [port.name for port in s.ports] for s in sites_of(settings(collect=collect), there)}


def test_uplinks_and_fixed_ports_are_those_and_sites_without_are_left_out():
    ports = (Port("a", None, "downlink"), Port("b", None, "uplink"), Port("c", None))
    sites = [Site("S", ports), Site("T", ports[:1])]
    assert ports_by_site(sites, port_selection="uplinks") == {"S": ["b"]}
    assert ports_by_site(sites, port_selection="fixed", ports={"S": ["c", "a"]}) == {"S": ["c", "a"]}
    for keys, why in (
        ({"port_selection": "fixed", "ports": {"S": ["x"]}}, "no port 'x' to mirror at site 'S'"),
        ({"port_selection": "fixed", "ports": {"U": ["a"]}}, "no site 'U' to sample; there are S, T"),
        ({"port_selection": "fixed"}, "collect.ports: names no port"),
        ({"port_selection": "uplinks", "mode": "sites", "sites": ["T"]}, "no port of any site for 'uplinks'"),
    ):
        with pytest.raises(UserError, match=why):
            ports_by_site(sites, **keys)


def test_with_a_limit_of_time_alone_nobody_knows_the_cycles():
    plan = SitePlan(settings(collect={"total_s": 60}), site("S", "p"), 1)
    assert plan.cycles is None and plan.remaining_s(0) == pytest.approx(60 + plan.sample_takes_s)
    with pytest.raises(UserError, match="known only when they are taken"):
        list(plan.steady())


@given(now=st.integers(0, 2**62), period=st.floats(0.001, 1e5))
def test_samples_begin_on_whole_periods_of_the_clock(now, period):
    start = next_start_ns(now, period, 1)
    assert start % round(period * 1e9) == 0
    assert 0 <= start - now < round(period * 1e9)


def test_expected_bytes_follow_the_slower_of_port_and_receiver():
    keys = settings(capture={"sample_s": 10, "snaplen": 184}, collect={"mean_frame_bytes": 1000})
    assert most_bytes(keys, Port("p", 10**9), None) == 2 * 10**9 // 8 * 10 // 1000 * 200
    assert most_bytes(keys, Port("p", 10**9), 10**9) == 10**9 // 8 * 10 // 1000 * 200
    assert most_bytes(keys, Port("p", None), None) is None
    half = replace(keys, capture=replace(keys.capture, one_in=2))
    assert most_bytes(half, Port("p", 10**9), 10**9) == 10**9 // 8 * 10 // 1000 * 200 // 2
    hashed = settings(capture={"sample_s": 10, "snaplen": 184, "method": "dpdk", "format": "pcapng"},
                      collect={"mean_frame_bytes": 1000})  # fmt: skip
    assert most_bytes(hashed, Port("p", 10**9), 10**9) == 10**9 // 8 * 10 // 1000 * (184 + 72)  # pcapng.c's options


def test_every_run_has_its_number_in_the_names():
    plan = SitePlan(settings(runs=2), site("S", "p", "q", "r"), 2)
    assert [[shot.sample for shot in shots] for shots in plan.steady()] == [
        ["run1-S-p-both-1", "run1-S-q-both-1"], ["run1-S-r-both-1"],
        ["run2-S-p-both-1", "run2-S-q-both-1"], ["run2-S-r-both-1"],
    ]  # fmt: skip


HOSTS = (Host("a", 4, 64, 1000, 1), Host("b", 3, 64, 1000, 6))


def test_nodes_are_placed_on_hosts_not_on_a_sites_sum():
    assert simulated(HOSTS, Want(2)) == (2, None)
    count, why = simulated(HOSTS, Want(4))
    assert count == 2  # a has one NIC, b cores for one; the sum of both would do for three
    assert why == "room for 2 of 4 listening nodes: no one of 2 hosts has all that a node needs"
    assert simulated((Host("a", 9, 99, 9999, 0),), Want(1)) == (
        0, "room for 0 of 1 listening node: 0 dedicated NICs free on 1 host",
    )  # fmt: skip
    assert simulated((), Want(1))[0] == 0


@given(
    hosts=st.lists(st.builds(Host, st.just("h"), *[st.integers(0, n) for n in (64, 256, 3000, 6)]), max_size=5),
    wanted=st.integers(1, 12),
)
def test_what_is_placed_fits(hosts, wanted):
    count, why = simulated(hosts, Want(wanted))
    assert 0 <= count <= min(wanted, sum(host.nics for host in hosts))
    assert count * 2 <= sum(host.cores for host in hosts)
    assert (why is None) == (count == wanted)


class Scarce:
    """A testbed that advertises more than it gives."""

    def __init__(self, gives: int):
        self.gives = gives
        self.asked: list[int] = []

    def resources(self, site):
        return (Host("h", 64, 512, 5000, 5),)

    def instances(self, site):
        return ()

    def allocate(self, site, want):
        self.asked.append(want.instances)
        if want.instances > self.gives:
            raise Refused("no storage", where=f"site {site}")
        return tuple(Instance(f"n{number}", site, ("r1", "r2")) for number in range(want.instances))


def test_a_refusal_is_answered_with_one_node_less():
    testbed = Scarce(gives=3)
    got = acquire(testbed, "S", Want(8))
    assert testbed.asked == [5, 4, 3]
    assert (len(got.instances), got.wanted) == (3, 8)
    assert got.why == "refused 4: site S: no storage"
    assert [(node.name, name) for node, name in got.receivers()][:4] == [
        ("n0", "r1"), ("n1", "r1"), ("n2", "r1"), ("n0", "r2"),
    ]  # fmt: skip
    none = acquire(Scarce(gives=0), "S", Want(2))
    assert none == Acquired((), 2, "refused 1: site S: no storage")


def test_nodes_of_an_earlier_collection_are_taken_again_and_counted():
    testbed = Scarce(gives=9)
    testbed.instances = lambda _: (Instance("n0", "S", ("r1", "r2")),) * 2
    assert len(acquire(testbed, "S", Want(6)).instances) == 6
    assert testbed.asked == [6]


def test_as_many_nodes_as_the_ports_need():
    assert [wanted_instances(ports, 2, None) for ports in (1, 2, 3, 8)] == [1, 1, 2, 4]
    assert wanted_instances(8, 2, 3) == 3


S = 10**9


def counted(tx: list[float], rx: list[float], every_s: float = 1.0) -> Telemetry:
    """Return readings of port p, the first at 100 s, with these rates in between (bit/s)."""

    def readings(rates: list[float]) -> tuple[tuple[float, int], ...]:
        octets = [0, *itertools.accumulate(round(rate * every_s / 8) for rate in rates)]
        return tuple((100 + n * every_s, total) for n, total in enumerate(octets))

    return Telemetry("switch", len(tx) * every_s, {}, {"p": Readings(tx=readings(tx), rx=readings(rx))})


def verdict_of(telemetry, direction="both", capacity_bps=100_000_000, span_s=(100, 104)):
    port = congestion.MirrorPort(capacity_bps, buffer_bytes=0)
    return congestion.verdict(telemetry, "p", direction, port, (span_s[0] * S, span_s[1] * S))


def test_a_mean_below_the_capacity_never_makes_a_mirror_clear():
    telemetry = counted([1e6] * 4, [1e3] * 4)
    for direction, offered in (("rx", 1e3), ("tx", 1e6), ("both", 1.001e6)):
        found = verdict_of(telemetry, direction)
        assert (found["verdict"], found["offered_bps"]) == ("at risk", offered)
        assert found["loss"] == {"low": 0, "high": 1}


def test_the_shortest_interval_of_the_counters_decides_not_the_mean():
    found = verdict_of(counted([10e6, 90e6, 10e6, 10e6], [10e6, 60e6, 10e6, 10e6]))
    assert (found["verdict"], found["peak_bps"], found["peak_seconds"]) == ("congested", 150e6, 1)
    assert found["offered_bps"] == 52.5e6 and found["loss"]["low"] == 0


def test_what_the_rate_cannot_carry_is_lost_at_least():
    found = verdict_of(counted([90e6] * 4, [60e6] * 4))
    assert found["verdict"] == "congested"
    assert found["loss"]["low"] == pytest.approx(1 / 3)
    # by readings inside the sample alone: 100.5 to 103.5 s have those of 101, 102 and 103 s
    within = congestion.verdict(
        counted([90e6] * 4, [60e6] * 4), "p", "both", congestion.MirrorPort(100_000_000, buffer_bytes=0),
        (100 * S + S // 2, 103 * S + S // 2),
    )  # fmt: skip
    assert within["loss"]["low"] == 0 and [at for at, _ in within["readings"]] == [n * S for n in range(100, 105)]


def test_readings_are_those_around_the_sample():
    found = verdict_of(counted([8e6] * 9, [0] * 9), span_s=(102, 104))
    assert found["readings"] == [[n * S, (n - 102) * 10**6] for n in range(102, 105)]
    assert congestion.covers(found, 104 * S) and not congestion.covers(found, 105 * S)


def test_without_counters_or_capacity_the_verdict_is_unknown():
    telemetry = counted([1e6], [1e6])
    for found in (
        verdict_of(None),
        verdict_of(Telemetry("switch", 2, {}, {"q": telemetry.readings["p"]})),
        verdict_of(telemetry, capacity_bps=None),
    ):
        assert (found["verdict"], found["loss"]) == ("unknown", {"low": None, "high": None})


@pytest.mark.parametrize(
    ("got", "taken", "failed", "stopped", "expected"),
    [
        (2, 9, 0, None, "success"),
        (1, 9, 0, None, "degraded"),
        (0, 0, 0, "no NIC", "failed"),
        (2, 0, 3, None, "failed"),
        (2, 4, 0, "stopped", "incomplete"),
        (1, 8, 1, None, "incomplete"),
    ],
)
def test_outcome_of_two_nodes_wanted(got, taken, failed, stopped, expected):
    outcome, reason = outcomes.verdict(2, got, taken, failed, stopped)
    assert outcome == expected
    assert bool(reason) == (expected != "success")


def test_outcomes_grow_over_campaigns_and_a_crash_leaves_incomplete(tmp_path):
    for number, campaign in enumerate(("one", "two", "two")):
        (tmp_path / campaign).mkdir(exist_ok=True)
        ledger = outcomes.Ledger(tmp_path / campaign, 10**18 + number * 10**10)
        ledger.put("A", "incomplete", "did not end")
        ledger.put("B", "incomplete", "did not end")
        ledger.put("A", "success", "", samples=3)
    with (tmp_path / "two" / "outcomes.csv").open() as lines:
        assert [(row["site"], row["outcome"]) for row in csv.DictReader(lines)] == [
            ("A", "success"),
            ("B", "incomplete"),
        ]
    with (tmp_path / "outcomes.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["campaign"], row["site"]) for row in rows] == [
        ("one", "A"), ("one", "B"), ("two", "A"), ("two", "B"), ("two", "A"), ("two", "B"),
    ]  # fmt: skip
    assert {row["samples"] for row in rows if row["site"] == "A"} == {"3"}


def test_two_campaigns_at_once_lose_no_line(tmp_path, monkeypatch):
    """Each takes its time between reading the table of all collections and writing it."""
    read = outcomes.read
    monkeypatch.setattr(outcomes, "read", lambda path: (read(path), time.sleep(0.2))[0])
    rows = [{key: f"{key}{number}" for key in outcomes.COLUMNS} for number in range(2)]
    threads = [threading.Thread(target=outcomes.merge, args=(tmp_path / "all.csv", [row])) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line["campaign"] for line in read(tmp_path / "all.csv")) == ["campaign0", "campaign1"]
