"""Port selections are pure functions of the view and never starve a port that is not idle."""

import textwrap
from importlib.metadata import EntryPoint

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.source_tree import ROOT
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.plan import port_selection as selection
from acapella_capture.plan.port_selection import (
    SELECTIONS,
    SiteView,
    assign_receivers,
    busiest,
    choose_ports,
    cycles_per_round,
)
from acapella_capture.testbeds.base import Port, Rates
from acapella_core.errors import UserError

names = st.lists(st.sampled_from([f"p{number}" for number in range(12)]), min_size=1, max_size=12, unique=True)
rates_bps = st.floats(min_value=0, max_value=1e11)


def view_of(ports, receivers, cycle=0, history=(), rates=None, **options) -> SiteView:
    candidates = tuple(Port(name, None) for name in ports)
    return SiteView("S", cycle, candidates, receivers, rates or {}, tuple(history), **options)


def run_of(select, ports, receivers, cycles, rates=None, **options) -> list[tuple[str, ...]]:
    """Return the choices of several cycles."""
    history: list[tuple[str, ...]] = []
    for cycle in range(cycles):
        history.append(choose_ports(select, view_of(ports, receivers, cycle, history, rates, **options)))
    return history


@given(ports=names, receivers=st.integers(1, 8), every=st.integers(2, 6), seed=st.integers(), data=st.data())
def test_busiest_samples_every_non_idle_port(ports, receivers, every, seed, data):
    rates = {name: Rates(data.draw(rates_bps), data.draw(rates_bps)) for name in ports}
    busy = [name for name in ports if rates[name].tx_bps + rates[name].rx_bps > 1000]
    # each draw is of a port not sampled in this round, so a round needs at most as many draws as ports
    cycles = cycles_per_round(len(busy), receivers) * every
    history = run_of(busiest, ports, receivers, 2 * cycles, rates, busiest_every=every, seed=seed, idle_bps=1000)
    assert all(set(busy) <= {name for chosen in history[:end] for name in chosen} for end in (cycles, 2 * cycles))
    if busy:
        assert {name for chosen in history for name in chosen} <= set(busy)


@given(ports=names, receivers=st.integers(1, 8), seed=st.integers())
def test_same_seed_selects_the_same_ports(ports, receivers, seed):
    rates = {name: Rates(1e6, number * 1e6) for number, name in enumerate(ports)}
    first, second = (run_of(busiest, ports, receivers, 9, rates, seed=seed) for _ in range(2))
    assert first == second


def test_nth_cycle_takes_the_busiest_port_not_sampled_in_the_last_n():
    rates = {name: Rates(10.0 ** (10 - number), 0) for number, name in enumerate("abcdef")}
    history = run_of(busiest, "abcdef", 1, 40, rates, busiest_every=4)
    for cycle in range(3, 40, 4):
        recent = {name for chosen in history[max(0, cycle - 4) : cycle] for name in chosen}
        assert history[cycle] == (next(name for name in "abcdef" if name not in recent),)


def test_busiest_adds_tx_and_rx_and_breaks_ties_by_name():
    rates = {"a": Rates(5, 0), "b": Rates(3, 3), "c": Rates(0, 6)}
    assert busiest(view_of("abc", 2, cycle=1, rates=rates, busiest_every=2)) == ["b", "c"]


def test_ports_without_data_are_not_idle_and_all_are_candidates_if_all_are_idle():
    assert view_of("ab", 1, rates={"a": Rates(0, 0)}).non_idle() == ["b"]
    assert view_of("ab", 1, rates={"a": Rates(0, 0), "b": Rates(0, 0)}).non_idle() == ["a", "b"]


@given(ports=names, receivers=st.integers(1, 8))
def test_all_takes_every_port_once_per_round(ports, receivers):
    history = run_of(SELECTIONS["all"], ports, receivers, cycles_per_round(len(ports), receivers))
    assert [name for chosen in history for name in chosen] == ports


@given(before=names, chosen=names, receivers=st.integers(1, 12))
def test_mirrors_move_only_if_necessary(before, chosen, receivers):
    keys = [f"r{number}" for number in range(receivers)]
    first = assign_receivers(before[:receivers], keys, {})
    second = assign_receivers(chosen[:receivers], keys, first)
    assert sorted(second.values()) == sorted(chosen[:receivers])
    assert all(second[key] == port for key, port in first.items() if port in second.values())


def test_documented_custom_selection_is_found_by_name(tmp_path, monkeypatch):
    """The selection is the example in docs/collect.md."""
    text = (ROOT / "docs" / "collect.md").read_text(encoding="utf-8")
    module = text[text.index("    # my_selection.py") : text.index("    # pyproject.toml")]
    write_file(tmp_path / "my_selection.py", textwrap.dedent(module))
    monkeypatch.syspath_prepend(tmp_path)
    plugin = EntryPoint("quietest", "my_selection:quietest", selection.GROUP)
    monkeypatch.setattr(selection, "entry_points", lambda group, name="quietest": [plugin] * (name == plugin.name))
    quietest = selection.find_selection("quietest")
    rates = {name: Rates(rate, 0) for name, rate in (("a", 9.0), ("b", 5.0), ("c", 7.0), ("idle", 0.0))}
    assert run_of(quietest, ["a", "b", "c", "idle"], 1, 4, rates) == [("b",), ("c",), ("b",), ("c",)]
    with pytest.raises(UserError, match="no port selection 'theirs'; known: all, busiest, fixed, quietest, uplinks"):
        selection.find_selection("theirs")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(["z"], "'z' is not a candidate port"), (["x", "x"], "the same port twice"), (["x", "y"], "2 ports")],
)
def test_invalid_selection_result_is_an_error(wrong, why):
    with pytest.raises(UserError, match=why):
        choose_ports(lambda _: wrong, view_of("xy", 1))


@pytest.mark.parametrize(("mistake", "name"), [(lambda view: view.rates["none"], "Key"), (lambda _: None, "Type")])
def test_selection_error_names_site_and_cycle_in_one_line(mistake, name):
    with pytest.raises(UserError, match=rf"^collect.port_selection: site S, cycle 1: {name}Error: .+$") as raised:
        choose_ports(mistake, view_of("xy", 1))
    assert raised.value.__cause__ is not None
