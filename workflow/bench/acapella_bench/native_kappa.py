"""Print the results of plain.kappa from the native core: python -m acapella_bench.native_kappa A.pcap B.pcap."""

import json
import sys

from acapella_core.kappa import compare

TRIAL_KEYS = ("packets", "truncated", "reversals_in_file", "equal_stamps", "resolution_ns", "ambiguous")


def main(paths: list[str]) -> None:
    """Print every integer of the pair, and the values of trials that plain.kappa prints."""
    found = compare([[path] for path in paths], pairs=[(0, 1)], windows=50)
    pair = {name: value for name, value in found["pairs"][0].items() if name not in ("a", "b")}
    trials = [{name: trial[name] for name in TRIAL_KEYS} for trial in found["trials"]]
    print(json.dumps({"trials": trials, "pair": pair}, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:3])
