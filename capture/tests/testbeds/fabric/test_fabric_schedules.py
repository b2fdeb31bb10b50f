"""Collections under random schedules of faults: nothing is left unnamed, and no limit is exceeded."""

import os
from dataclasses import replace

import pytest
from acapella_testing.fabric.schedules import run, schedule

SEEDS = range(200) if os.environ.get("ACAPELLA_SOAK") else (0, 1, 17, 26, 41)


@pytest.mark.parametrize("seed", SEEDS)
def test_collection_under_a_schedule_of_faults_leaves_nothing_unnamed(tmp_path, capsys, seed):
    plan = schedule(seed)
    first, released = run(tmp_path, plan, capsys)
    shown = f"{plan}\nstatus {first.status}\n{first.out}{first.err}"
    assert first.faults() == [], shown
    assert (released.status, released.left) == (0, ()), f"{shown}\n--release-all\n{released.out}{released.err}"


@pytest.mark.parametrize("seed", sorted({*SEEDS, 108}))  # 108: the slice stays Modifying until the end
def test_nodes_in_the_users_slice_are_removed_or_named_under_a_schedule_of_faults(tmp_path, capsys, seed):
    plan = replace(schedule(seed), own=True)
    first, released = run(tmp_path, plan, capsys)
    shown = f"{plan}\nstatus {first.status}\n{first.out}{first.err}"
    assert first.faults() == [], shown
    assert (released.status, released.left, released.mirrors) == (0, (), ()), (
        f"{shown}\n--release-all\n{released.out}{released.err}"
    )
