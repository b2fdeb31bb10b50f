"""Compare published tables with those of the naive reference."""

from acapella_testing.oracles import naive_tables
from acapella_testing.runs.stages import rows

from acapella_core import schemas

INTERVALS = ("_lo", "_hi")
# Verdicts are compared with the true loss of simulated mirrors in test_congestion.py.
DECIDED = {"mirror_verdict", "mirror_verdict_by", "mirror_loss_low", "mirror_loss_high"}


def reference_rows(name, samples, which="unfiltered"):
    """Return the columns that are compared, and the rows of the reference, sorted by key."""
    columns = [
        c["name"]
        for c in schemas.table(name)["columns"]
        if (not c["name"].endswith(INTERVALS) or c["name"].startswith("bin_")) and c["name"] not in DECIDED
    ]
    return columns, sort(name, [{c: row[c] for c in columns} for row in naive_tables.table(name, samples, which)])


def sort(name, found):
    """Return rows sorted by the table's key, null last."""
    key = schemas.table(name)["key"]
    return sorted(found, key=lambda row: [(row[k] is None, row[k]) for k in key])


def assert_equal(name, directory, samples, which="unfiltered"):
    """Check that the published rows equal those of the reference; ``which`` samples count as traffic."""
    columns, required = reference_rows(name, samples, which)
    found = [{c: row[c] for c in columns} for row in rows(directory, name)]
    assert len(found) == len(required)
    for mine, theirs in zip(found, required, strict=True):
        assert mine == theirs
    assert found, "a table without rows proves nothing"
