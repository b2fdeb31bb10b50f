"""Decides whether a sample has enough timestamps to show the resolution of its clock."""

MIN_TIMESTAMPS = 10  # all of fewer timestamps may be multiples of 10, 100, ... clock steps by chance


def clock_resolution(row: dict) -> int | None:
    """Return the resolution of a sample's clock in ns; None if it is unknown or there are too few timestamps.

    ``row``: a row of capture_quality. It contains the unit of which all timestamps are multiples, even of one frame.
    """
    return None if too_few_timestamps(row) else row["clock_resolution_ns"]


def too_few_timestamps(row: dict) -> bool:
    """Return whether a sample has timestamps, but fewer than MIN_TIMESTAMPS distinct ones."""
    if row["clock_resolution_ns"] is None:
        return False
    equal = round((row["equal_stamps_share"] or 0) * (row["frames"] - 1))
    return row["frames"] - row["untimed_frames"] - equal < MIN_TIMESTAMPS
