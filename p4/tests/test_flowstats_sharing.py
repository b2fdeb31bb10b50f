"""Reports that may overcount, compared with the flows that share cells in the model."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from acapella_p4_model import reports
from acapella_p4_model.flow_key import Key

from acapella.flowreports import collisions

SLOT, ALL_TAGS = 64, 128  # bits of a report's `valid`
SLOTS = 1 << 18


def random_key(rnd: random.Random) -> Key:
    """Return the key of a flow between two of a few addresses, IPv4 or IPv6, with 0 to 4 VLAN tags and MPLS labels."""
    version = rnd.choice((4, 6))
    ends = [rnd.randrange(1, 9) << (96 if version == 6 else 0) for _ in range(2)]
    vlans = [rnd.randrange(1, 4095) for _ in range(rnd.choice((0, 0, 1, 2, 4)))]
    labels = [rnd.randrange(1 << 20) for _ in range(rnd.choice((0, 0, 1, 4)))]
    packed = sum(vlan << 16 * at for at, vlan in enumerate(reversed(vlans)))
    return Key(*ends, rnd.randrange(4), 80, version, 6, len(vlans), packed, len(labels), (*labels, 0, 0, 0, 0)[:4])


def body(key: Key, epoch: int, valid: int = SLOT | ALL_TAGS) -> bytes:
    """Return a report of a flow as the program sends it."""
    return reports.pack(2, {"version": 2, "valid": valid, "epoch": epoch, **key.report_fields()})


def may_overcount(created: list[bytes], *, rows: int, cells: int, slots: int = SLOTS) -> list[bool]:
    """Return for each of these reports whether it may overcount."""
    payloads = np.array([list(report) for report in created], np.uint8).reshape(-1, 192)
    return collisions.may_collide(payloads, rows=rows, cells=cells, slots=slots).tolist()


@pytest.mark.parametrize(("seed", "rows", "cells"), [(1, 1, 64), (2, 4, 64), (3, 4, 256), (4, 3, 1 << 20)])
def test_report_may_overcount_if_its_flow_shares_all_cells(seed, rows, cells):
    rnd = random.Random(seed)
    keys = [random_key(rnd) for _ in range(150)]
    sent = [(rnd.choice(keys), rnd.randrange(5, 8)) for _ in range(600)]
    used = Counter((epoch, row, key.row_hash(row) % cells) for key, epoch in set(sent) for row in range(rows))
    expected = [all(used[epoch, row, key.row_hash(row) % cells] > 1 for row in range(rows)) for key, epoch in sent]
    assert may_overcount([body(key, epoch) for key, epoch in sent], rows=rows, cells=cells) == expected
    assert any(expected) == (cells < 1 << 20)
    assert not all(expected)


def test_incomplete_keys_or_missing_flows_affect_the_whole_epoch():
    rnd = random.Random(9)
    keys = [random_key(rnd) for _ in range(60)]
    created = [body(key, epoch) for epoch in (1, 2, 3) for key in keys]
    created[0] = body(keys[0], 1, SLOT)
    created[60:80] = [body(key, 2, ALL_TAGS) for key in keys[:20]]
    assert may_overcount(created, rows=4, cells=1 << 20) == [True] * 60 + [False] * 120, (
        "20 flows without one of the 2^18 slots do not affect their epoch"
    )
    assert may_overcount(created, rows=1, cells=1 << 20, slots=16) == [True] * 120 + [False] * 60


def test_without_reports_there_are_no_rows():
    assert may_overcount([], rows=4, cells=64) == []
