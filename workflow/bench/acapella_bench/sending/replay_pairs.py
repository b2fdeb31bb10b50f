"""Checks the order of arrival of packets that two replayers send in turn over one bridge of the local testbed, in
real time.

Two neighbors that arrive in a different order than requested must be within the skew of the replayers plus the larger
of their departure errors (docs/kappa_path.md, Order of several replayers).
"""

import json
from pathlib import Path

import numpy as np

from ..programs import Bench, Failed, acapella
from .replay_senders import T_95, constant_gaps

RUNS = 10
GAP_US = 25  # between the packets of both replayers
ENVIRONMENT = "pair"


def config_of(capture: Path) -> dict:
    """Return the config of a campaign with RUNS trials of two replayers."""
    environment = {"name": ENVIRONMENT, "replayers": 2, "path": "direct", "sender": "acapella"}
    replay = {"capture": str(capture), "repeats": RUNS, "polling": "separate", "environments": [environment]}
    local = {"switch": "bridge", "sites": 2, "traffic": [{"kind": "ping"}], "replay": replay}
    collect = {"mode": "sites", "sites": ["site2"], "port_selection": "fixed", "ports": {"site2": ["port1"]}}
    # the sample that is not a trial must be empty
    return {
        "testbed": "local",
        "capture": {"sample_s": 0.05, "filter": "udp port 1"},
        "collect": collect,
        "local": local,
    }


def orders_of(bench: Bench, raw: Path) -> list[dict]:
    """Return the counts of `acapella kappa` of each trial."""
    samples = [f"{ENVIRONMENT}-{number}" for number in range(1, RUNS + 1)]
    replays = [json.loads((raw / f"{sample}.json").read_text())["replay"] for sample in samples]
    recordings = [raw / entry["file"] for entry in replays[0]["recordings"]]
    departures = [",".join(str(raw / entry["file"]) for entry in replay["departures"]) for replay in replays]
    output = bench.directory / "pairs.json"
    words = ["kappa", *(raw / f"{sample}.pcap" for sample in samples), "--recording", *recordings]
    bench.run(acapella(*words, "--departures", *departures, "--json", "-o", output))
    pairs = json.loads(output.read_text())["pairs"]
    orders = [pairs[0]["replayer"]["order_a"], *(pair["replayer"]["order_b"] for pair in pairs)]
    if None in orders:
        raise Failed("the order of two replayers is unknown")
    return orders


def run(bench: Bench, seconds: float) -> list[dict]:
    """Return the number of pairs that the replayers do not explain, with a confidence interval over all runs."""
    capture = constant_gaps(bench.directory, GAP_US, seconds)
    config = bench.directory / "pairs-config.json"  # JSON is valid YAML
    config.write_text(json.dumps(config_of(capture.path)))
    campaign = bench.directory / "pairs"
    bench.run(acapella("collect", campaign, "--config", config))
    orders = orders_of(bench, campaign / "raw")
    unexplained = [order["unexplained"] for order in orders]
    pairs, reversed_ = (sum(order[name] for order in orders) for name in ("pairs", "reversed"))
    half = T_95 * float(np.std(unexplained, ddof=1)) / RUNS**0.5
    mean = float(np.mean(unexplained))
    return [
        {
            "measured": f"pairs of two replayers beyond skew and departure errors, {RUNS} runs",
            "value": sum(unexplained),
            "unit": "pairs",
            "goal": "<= 0",
            "note": f"{reversed_:,} of {pairs:,} pairs reversed, gaps of {GAP_US} us; per run {min(unexplained)} to "
            f"{max(unexplained)}, 95 % confidence interval of the mean {max(0.0, mean - half):.2g} to "
            f"{mean + half:.2g}",
        }
    ]
