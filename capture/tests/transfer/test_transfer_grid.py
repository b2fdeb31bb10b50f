"""The runs of a grid: their number, order, names and sizes."""

import json

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.in_process import parsed

from acapella_capture.transfer import command
from acapella_capture.transfer.estimate import PROBE_S, RUN_S, estimate_s, ideal_s
from acapella_capture.transfer.grid import grid_file, plan
from acapella_capture.transfer.settings import parse_transfer_settings, read_transfer_settings
from acapella_core import schemas
from acapella_core.errors import UserError

CONFIG = schemas.root().parent / "config"

SHORT = """
nodes: {h1: {role: host}, r1: {role: router}, h2: {role: host}}
links: {a: {between: [h1, r1]}, b: {between: [r1, h2], emulated: true}}
paths: {main: [h1, r1, h2]}
"""
GRID = {"delay_ms": [0, 20, 40], "buffer_bytes": ["10K", 20480], "size_bytes": ["1M"]}


def settings_of(**changes):
    return parse_transfer_settings({"transfer": {"grid": GRID} | changes})


def test_grid_is_the_product_of_its_lists_in_base_units():
    runs = plan(settings_of())
    assert len(runs) == 2 * 3 * 2 == len({cell.cell_id for cell in runs})
    assert {cell.buffer_bytes for cell in runs} == {10240, 20480}
    assert {cell.delay_ns for cell in runs} == {0, 20_000_000, 40_000_000}
    assert {cell.rate_bps for cell in runs} == {40_000_000}
    assert {cell.size_bytes for cell in runs} == {1 << 20}


def test_missing_algorithms_are_omitted_on_request():
    grid = GRID | {"algorithm": ["nosuch", "reno"]}
    settings = settings_of(grid=grid, omit_missing_algorithms=True)
    assert settings.omitted == ("nosuch",)
    assert {cell.algorithm for cell in plan(settings)} == {"reno"}
    assert {cell.algorithm for cell in plan(settings_of(grid=grid))} == {"nosuch", "reno"}


@pytest.mark.parametrize(
    ("grid", "defaults"),
    [
        (
            {"delay_ms": [20]},
            "algorithm: [bbr, cubic], buffer_bytes: [100K, 1M], rate_mbps: [40], streams: [1], size_bytes: [20M]",
        ),
        (GRID | {"algorithm": ["reno"], "rate_mbps": [10]}, "streams: [1]"),
        (GRID | {"algorithm": ["reno"], "rate_mbps": [10], "streams": [2]}, None),
    ],
)
def test_dry_run_prints_the_defaults_of_keys_that_the_grid_does_not_set(grid, defaults):
    settings = settings_of(grid=grid)
    runs = plan(settings)
    assert [line for line in command.describe(settings, "one", runs, runs) if line.startswith("not set")] == (
        [f"not set in transfer.grid, so defaults are used: {defaults}"] if defaults else []
    )


@pytest.mark.parametrize(
    ("algorithms", "config", "figures"),
    [
        ("bbr, cubic", "mine.yaml", "transfer_gain transfer_throughput"),
        ("reno, cubic", "mine.yaml", "transfer_throughput"),
        ("bbr, cubic", "one/transfers/config.json", None),  # the workflow writes tables and figures itself
    ],
)
def test_next_commands_are_printed_even_if_no_run_is_missing(tmp_path, capsys, algorithms, config, figures):
    campaign = tmp_path / "one"
    path = write_file(tmp_path / config, f"transfer: {{grid: {{algorithm: [{algorithms}], delay_ms: [20]}}}}\n")
    for cell in plan(read_transfer_settings(path)):
        done = {"cell_id": cell.cell_id, "error": None, "flags": []}
        write_file(campaign / "transfers" / cell.cell_id / "cell.json", json.dumps(done))
    command.run(parsed(command, campaign, "--config", path))
    summary, *following = capsys.readouterr().out.splitlines()
    assert summary == f"4 runs: {campaign}/transfers"
    commands = f"acapella campaign transfers {campaign}; acapella campaign figures {campaign} --only {figures}"
    assert following == ([f"next: {commands}"] if figures else [])


def test_order_is_random_and_repeatable():
    first, again, other = (plan(settings_of(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert set(first) == set(other)


def test_some_cells_are_repeated():
    runs = plan(settings_of(repetitions=2, repeated_cells={"number": 3, "repetitions": 5}))
    assert sorted([cell.run for cell in runs].count(run) for run in range(5)) == [3, 3, 3, 12, 12]


@pytest.mark.parametrize(("number", "pairs", "single"), [(4, 2, 0), (5, 2, 1), (100, 6, 0)])
def test_repeated_cells_are_settings_with_all_their_algorithms(number, pairs, single):
    for seed in range(5):
        runs = plan(settings_of(seed=seed, repeated_cells={"number": number, "repetitions": 2}))
        algorithms: dict[tuple, set[str]] = {}
        for cell in (cell for cell in runs if cell.run == 1):
            algorithms.setdefault((cell.delay_ns, cell.buffer_bytes), set()).add(cell.algorithm)
        assert sorted(map(len, algorithms.values())) == [1] * single + [2] * pairs


def test_names_depend_on_settings_mode_and_topology(tmp_path):
    other = write_file(tmp_path / "linear.yaml", SHORT)
    changed = ({}, {"mode": "published"}, {"topology": str(other)}, {"delay_on": "both"})
    names = [{cell.cell_id for cell in plan(settings_of(**changes))} for changes in changed]
    assert len(set.union(*names)) == sum(map(len, names))


def test_flows_on_one_path_share_the_size_and_flows_on_several_paths_each_send_it():
    grid = GRID | {"streams": [3], "size_bytes": [1000]}
    cell = plan(settings_of(grid=grid))[0]
    assert [cell.share(flow) for flow in range(3)] == [334, 333, 333]
    cell = plan(settings_of(grid=grid, topology="multipath"))[0]
    assert [cell.share(flow) for flow in range(3)] == [1000, 1000, 1000]
    assert cell.total_bytes == 3000


def test_grid_file_lists_the_runs_in_order():
    settings = settings_of()
    runs = plan(settings)
    listed = grid_file(settings, runs)["cells"]
    assert [each["cell_id"] for each in listed] == [cell.cell_id for cell in runs]
    assert listed[0]["settings"]["delay_ms"] == runs[0].delay_ns / 1e6


def test_estimate_adds_the_busiest_link_and_a_fixed_time_per_run():
    grid = {"algorithm": ["reno"], "delay_ms": [0], "buffer_bytes": [10_000], "rate_mbps": [8]}
    linear = settings_of(grid=grid | {"size_bytes": [1_000_000]})
    (cell,) = plan(linear)
    assert ideal_s(linear.topology, cell) == 1.0
    assert estimate_s(linear, [cell]) == pytest.approx(1.0 + RUN_S + PROBE_S + 0.01)
    assert estimate_s(linear, []) == 0
    grid |= {"size_bytes": [1_000_000], "streams": [6], "ratio": [1, 2]}
    multipath = settings_of(topology="multipath", grid=grid)
    # l1 carries four flows, l2 two; with ratio 2, l1 has twice the rate
    assert {cell.ratio: ideal_s(multipath.topology, cell) for cell in plan(multipath)} == {1: 4.0, 2: 2.0}


def test_paper_grid_is_in_config_with_an_estimate_below_20_minutes():
    settings = read_transfer_settings(CONFIG / "paper" / "transfer_grid.yaml")
    runs = plan(settings)
    assert len({cell.cell_id.rpartition("-")[0] for cell in runs}) == 8 * 8 * 2
    assert len(runs) == 8 * 8 * 2 + 8 * 4, "8 cells have five runs"
    assert estimate_s(settings, runs) < 20 * 60, "an estimate at the full rate; slower transfers take longer"
    bdp = [cell.rate_bps * cell.delay_ns / 8e9 for cell in runs]
    assert all(cell.size_bytes >= 30 * product for cell, product in zip(runs, bdp, strict=True)), "30 round trips"
    shares = [cell.buffer_bytes / product for cell, product in zip(runs, bdp, strict=True)]
    assert min(shares) < 0.006 and max(shares) > 19, "the paper: 0.1 MB of 18.75 MB, 50 MB of 2.25 MB"


def test_proportional_ratio_is_in_config():
    settings = read_transfer_settings(CONFIG / "paper" / "transfer_ratio.yaml")
    runs = plan(settings)
    assert [(cell.streams, cell.ratio, settings.topology.name) for cell in runs] == [(6, 2, "multipath")] * 5
    assert ideal_s(settings.topology, runs[0]) > 50, "shorter transfers end further apart"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": GRID | {"buffer_bytes": ["10K", 10240]}}, "transfer.grid.buffer_bytes: the same value twice"),
        ({"grid": GRID | {"buffer_bytes": ["1K"]}}, "transfer.grid.buffer_bytes: 1024 bytes; at least 4096"),
        ({"grid": GRID | {"ratio": [2]}}, "transfer.grid.ratio: the topology has no link with times_ratio"),
        ({"grid": GRID | {"delay_ms": []}}, "transfer.grid.delay_ms"),
        ({"grid": GRID | {"algorithm": ["bbr; reboot"]}}, "transfer.grid.algorithm"),
        (
            {"grid": GRID | {"delay_ms": [20, 0]}, "reorder_percent": 1},
            "transfer.reorder_percent: only delayed packets can be reordered, but transfer.grid.delay_ms contains 0",
        ),
        ({"grid": None}, "transfer.grid: missing"),
        ({"mode": "fast"}, "transfer.mode"),
        (
            {"grid": GRID | {"buffer_bytes": ["64X"]}},
            "transfer.grid.buffer_bytes[0]: expected an integer of at least 4096, or bytes such as",
        ),
        ({"grid": GRID | {"size_bytes": ["1MB"]}}, "65536 or 64K (K, M, G or T), found '1MB'"),
        ({"repetitons": 2}, "transfer.repetitons: unknown key; did you mean repetitions?"),
        ({"grid": GRID | {"rate_mbs": [1]}}, "transfer.grid.rate_mbs: unknown key; did you mean rate_mbps?"),
        ({"testbed": "fabric", "omit_missing_algorithms": True}, "only supported by testbed local"),
        ({"grid": GRID | {"algorithm": ["nosuch"]}, "omit_missing_algorithms": True}, "this kernel only lists"),
    ],
)
def test_wrong_settings_are_errors_that_name_the_key(changes, message):
    with pytest.raises(UserError) as caught:
        settings_of(**changes)
    assert message in str(caught.value)
