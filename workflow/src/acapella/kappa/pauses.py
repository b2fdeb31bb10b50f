"""How long the longest gap of a trial is at least, from what the core's windows and histograms hold."""


def largest_gaps(pair: dict) -> tuple[int, int]:
    """A lower bound in ns for the longest gap of A and of B; ``pair`` as warnings.of takes it.

    The gaps of a window's packets add up to the time that these cover, which is at most the window, and the one gap
    that leads to the first of them. What is beyond the window's length is thus one gap: the bound is less than the gap
    by a window at most. A common packet is in A's window, so B's may be off by the largest latency difference to
    either side.
    """
    if not pair["windows"]:
        return 0, 0
    width = pair["windows"][0]["to_ns"] - pair["windows"][0]["from_ns"]
    off = 2 * (pair["latency_delta_ns"]["largest"] or 0)
    in_a = max(window["gaps_a_sum"] - width for window in pair["windows"])
    in_b = max(window["gaps_b_sum"] - width - (off if window["n_common"] else 0) for window in pair["windows"])
    by_a, by_b = by_differences(pair)
    return max(0, in_a, by_a), max(0, in_b, by_b)


def by_differences(pair: dict) -> tuple[int, int]:
    """What gB - gA of the common packets says: a gap that only one trial has is as long as its difference."""
    histogram = pair["histograms"]["gap"]
    last = [
        max((at for at, packets in enumerate(histogram[sign]) if packets), default=-1)
        for sign in ("negative", "positive")  # longer in A, longer in B
    ]
    bounds = [histogram["starts_ns"][at] if at >= 0 else 0 for at in last]
    if last[0] != last[1]:  # the side that the largest difference is on
        bounds[last[1] > last[0]] = pair["iat_delta_ns"]["largest"]
    return bounds[0], bounds[1]
