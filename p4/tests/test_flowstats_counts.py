"""Sums of the reports of flowstats.p4: no byte is lost between epochs, and the sketch's rows are independent."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, groupby

import pytest
from acapella_p4_model import hashes, reports, running
from acapella_p4_model.flow_key import Key
from acapella_p4_model.flowstats import ROWS
from acapella_p4_model.generated_connections import generated_connections
from acapella_p4_model.parsing import parse
from acapella_testing.requirements import require_built

SECOND_NS = 10**9
KEY = ("ip_version", "ip_proto", "src", "dst", "src_port", "dst_port", "vlan_count", "mpls_count")
KEY += (*(f"vlan_{at}" for at in range(4)), *(f"mpls_{at}" for at in range(4)))


def exact(frames) -> Counter:
    """Return bytes and packets of each flow, counted individually."""
    found: Counter = Counter()
    for frame in frames:
        parsed = parse(frame.raw, frame.wire)
        if parsed.flow.ip_version != 0:
            fields = Key.of(parsed).report_fields()
            name = tuple(fields[column] for column in KEY)
            found.update({(name, "bytes"): parsed.ip_length, (name, "packets"): 1})
    return found


def reported(ran: running.Result) -> Counter:
    """Return bytes and packets of each flow: sums over its newest report of each epoch."""
    sent = [reports.unpack_frame(outcome.raw) for outcome in ran.outcomes if outcome.raw]
    sent.sort(key=lambda report: (report["timestamp"], report["report_sequence"]))
    newest = {(tuple(report[name] for name in KEY), report["epoch"]): report for report in sent}
    found: Counter = Counter()
    for (name, _), report in newest.items():
        found[name, "bytes"] += report["bytes"]
        found[name, "packets"] += report["packets"]
    return +found


def run(frames, settings: dict[str, int], directory, spec) -> running.Result:
    require_built(running.LOADER.name)
    lines = [f"register {name} 0 {value}" for name, value in ({"qp_number": 17} | settings).items()]
    cells = [f"sketch_{what}_{row} {settings['cell_mask'] + 1}" for row in range(ROWS) for what in ("bytes", "packets")]
    lines += [f"epoch {SECOND_NS}", *(f"epoch-clear {array}" for array in cells)]
    return running.run("flowstats", frames, "\n".join(lines) + "\n", directory, spec)


@pytest.mark.soak
@pytest.mark.parametrize("slots", [1, 16, 1024])
def test_reports_sum_exactly_over_epochs_with_a_large_sketch(slots, small_spec, tmp_path):
    frames = sorted(generated_connections(11, 1500), key=lambda frame: frame.timestamp_ns)
    settings = {"cell_mask": 0xFFF, "slot_mask": slots - 1, "slot_timeout_ns": 5 * SECOND_NS}
    ran = run(frames, settings, tmp_path, small_spec)
    assert ran.statistics["epochs"] >= 6
    if slots < 1024:
        assert ran.registers["slot_counters"][2] > 0  # packets of flows without a slot
    assert reported(ran) == exact(frames)


def test_small_sketch_never_undercounts(small_spec, tmp_path):
    frames = sorted(generated_connections(23, 600, alive=12), key=lambda frame: frame.timestamp_ns)
    ran = run(frames, {"cell_mask": 0xF, "rows": 2, "slot_mask": 0x3FF}, tmp_path, small_spec)
    assert ran.registers["slot_counters"][2] == 0  # without a slot, the start of a flow in full cells is not detected
    counted, required = reported(ran), exact(frames)
    assert all(counted[name] >= count for name, count in required.items())
    assert counted != required


# Keys of flows, to test whether the rows of the sketch are independent

KEYS = [Key(0x0A000000 | at >> 6, 0xC0A80000 | at % 7, 40000 + (at & 63), 443, 4, 6, 0, 0) for at in range(3000)]
CELLS = 1024


def pairs_in_one_cell(cells: list[int]) -> set[tuple[int, int]]:
    """Return all pairs of keys that share a cell."""
    by_cell = groupby(sorted(range(len(cells)), key=cells.__getitem__), key=cells.__getitem__)
    return {pair for _, keys in by_cell for pair in combinations(keys, 2)}


def chi_square(cells: list[int]) -> float:
    mean, counts = len(cells) / CELLS, Counter(cells)
    return sum((counts[cell] - mean) ** 2 / mean for cell in range(CELLS))


def assert_independent(rows: list[list[int]]) -> None:
    """Check that keys spread evenly in each row, and that keys of one cell share cells of other rows only by chance.

    Bounds are six standard deviations: of chi-square with CELLS - 1 degrees of freedom, of a Poisson count of pairs.
    """
    expected = len(KEYS) * (len(KEYS) - 1) / 2 / CELLS**2
    assert all(abs(chi_square(cells) - (CELLS - 1)) < 6 * (2 * (CELLS - 1)) ** 0.5 for cells in rows)
    pairs = combinations(map(pairs_in_one_cell, rows), 2)
    assert all(len(first & second) <= expected + 6 * expected**0.5 for first, second in pairs)


def test_sketch_rows_are_independent():
    assert_independent([[key.row_hash(row) % CELLS for key in KEYS] for row in range(ROWS)])


def test_dependent_rows_of_a_salted_crc_are_detected():
    salted = [[hashes.crc32(bytes([row]) + key.raw()) % CELLS for key in KEYS] for row in range(ROWS)]
    with pytest.raises(AssertionError):
        assert_independent(salted)
    first, *others = map(pairs_in_one_cell, salted)
    assert others == [first] * 3  # four rows are no better than one
