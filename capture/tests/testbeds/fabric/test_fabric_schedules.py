"""Collections under random schedules of faults: the error names everything that is left, and no limit is exceeded."""

from dataclasses import replace

import pytest
from acapella_testing.fabric.schedules import Schedule, run, schedule
from acapella_testing.requirements import required
from acapella_testing.soak import SOAK

from acapella_capture.control import node_digest
from acapella_capture.testbeds.fabric import replay

SOME_SEEDS = {*range(0, 200, 4), 41} if SOAK else {41}  # seeds for digests, replays and lost permissions


def check(directory, plan: Schedule, capsys) -> None:
    """Run a collection under a schedule, and release what is left afterwards."""
    first, released = run(directory, plan, capsys)
    shown = f"{plan}\nstatus {first.status}\n{first.out}{first.err}"
    assert first.faults() == [], shown
    assert (released.status, released.left, released.mirrors) == (0, (), ()), (
        f"{shown}\n--release-all\n{released.out}{released.err}"
    )


@pytest.mark.parametrize("seed", range(200) if SOAK else (1, 17, 41))
def test_collection_under_a_schedule_of_faults_leaves_nothing_unnamed(tmp_path, capsys, seed):
    check(tmp_path, schedule(seed), capsys)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200) if SOAK else (0, 26, 108))  # 108: the slice stays Modifying until the end
def test_nodes_in_the_users_slice_are_removed_or_named_under_a_schedule_of_faults(tmp_path, capsys, seed):
    check(tmp_path, replace(schedule(seed), own=True), capsys)


@pytest.mark.soak
@pytest.mark.parametrize("seed", sorted(SOME_SEEDS - {41} | {108}))
def test_nodes_in_the_users_slice_are_released_after_the_project_lost_its_permissions(tmp_path, capsys, seed):
    check(tmp_path, replace(schedule(seed), own=True, loses_tags=True), capsys)


@pytest.mark.soak
@pytest.mark.parametrize("seed", sorted(SOME_SEEDS))
def test_digests_on_nodes_under_a_schedule_of_faults_leave_nothing_unnamed(tmp_path, capsys, seed):
    required(node_digest.digest_program)
    check(tmp_path, replace(schedule(seed), digests=True), capsys)


@pytest.mark.soak
@pytest.mark.parametrize("seed", sorted(SOME_SEEDS))
def test_replays_under_a_schedule_of_faults_leave_nothing_unnamed(tmp_path, capsys, seed):
    required(replay.program)
    check(tmp_path, replace(schedule(seed), replays=True), capsys)
