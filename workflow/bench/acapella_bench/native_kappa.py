"""The same as plain_kappa, by the native core: python -m acapella_bench.native_kappa A.pcap B.pcap."""

import json
import sys

from acapella_core.consistency import compare

NAMES = ("sum", "largest", "median", "p99")
WINDOW = ("n_common", "latency_sum", "gap_sum", "order_moved")


def sums(pair: dict) -> dict:
    """What plain_kappa gives, out of all that the core gives."""
    kinds = ("latency", "latency_offset_removed", "gap")
    deltas = {kind: {name: pair[kind][name] for name in NAMES} for kind in kinds}
    order = {"moved": pair["order"]["moved"], "inversions": pair["order"]["inversions"]}
    timeline = [[window[name] for name in WINDOW] for window in pair["windows"]]
    return {"n_common": pair["n_common"], **deltas, **order, "timeline": timeline}


if __name__ == "__main__":
    print(json.dumps(sums(compare([[path] for path in sys.argv[1:3]], pairs=[(0, 1)], windows=50)["pairs"][0])))
