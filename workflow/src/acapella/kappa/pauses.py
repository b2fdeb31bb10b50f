"""Computes a lower bound for the longest gap of a trial from the core's windows and histograms."""


def largest_gaps(pair: dict) -> tuple[int, int]:
    """Return lower bounds in ns for the longest gap of A and of B; ``pair`` as in warnings.check.

    The gaps of a window's packets sum to the time between its first and last packet, which is at most the window's
    length, plus the gap before its first packet. The excess over the window's length is therefore part of that one gap,
    and the bound is below the gap by at most one window. Windows are defined by the times of A, so for B the bound is
    lower by twice the largest latency difference.
    """
    if not pair["windows"]:
        return 0, 0
    width = pair["windows"][0]["to_ns"] - pair["windows"][0]["from_ns"]
    margin = 2 * (pair["latency_delta_ns"]["largest"] or 0)
    in_a = max(window["gaps_a_sum"] - width for window in pair["windows"])
    in_b = max(window["gaps_b_sum"] - width - (margin if window["n_common"] else 0) for window in pair["windows"])
    by_a, by_b = gaps_from_differences(pair)
    return max(0, in_a, by_a), max(0, in_b, by_b)


def gaps_from_differences(pair: dict) -> tuple[int, int]:
    """Return lower bounds from the histogram of gB - gA: the longer of two gaps is at least their difference."""
    histogram = pair["histograms"]["gap"]
    last = [
        max((bin_ for bin_, packets in enumerate(histogram[sign]) if packets), default=-1)
        for sign in ("negative", "positive")  # gap longer in A, gap longer in B
    ]
    bounds = [histogram["starts_ns"][bin_] if bin_ >= 0 else 0 for bin_ in last]
    if last[0] != last[1]:  # the histogram side that contains the largest difference
        bounds[last[1] > last[0]] = pair["iat_delta_ns"]["largest"]
    return bounds[0], bounds[1]
