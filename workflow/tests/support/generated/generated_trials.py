"""Synthetic results of `acapella kappa --json` for any number of environments and runs, as input of figures.

.venv/bin/python workflow/tests/support/generated/generated_trials.py /tmp/made 3 4
"""

import math
import random
import sys
from pathlib import Path

from acapella_testing.generated.generated_tables import write_table, write_tables
from acapella_testing.new_files import write_json

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures.source import Source

COMPONENTS = ("U", "O", "L", "I")
BINS = 56
STARTS = [math.ceil(round(10 ** (step / 5), 6)) for step in range(BINS)]  # ns
PACKETS = 20_000
WINDOWS = 50
PER_WINDOW = PACKETS // WINDOWS
DURATION_NS = 300_000_000


def write_results(directory, environments: dict[str, list[dict]], **options) -> Path:
    """Write CAMPAIGN/kappa/*.json. An environment is a list of the arguments of `pair` for its runs B, C, ..."""
    for name, runs in environments.items():
        write_json(Path(directory) / "kappa" / f"{name}.json", result(name, runs, **options))
    return Path(directory)


def write_campaign(directory, environments: dict[str, list[dict]], **options) -> Path:
    """Write tables of a synthetic campaign whose samples are the trials, and the results."""
    directory = write_tables(directory, sites=1, ports=1, samples=2)
    names = [f"{e}-{n}" for e, runs in environments.items() for n in range(1, len(runs) + 2)]
    quality = {"site": "S0", "port": "p0", "frames": PACKETS, "wire_bytes": 100 * PACKETS, "duration_ns": DURATION_NS}
    quality |= {"dropped_kernel": 0, "lost_frames": 0, "loss_share": 0, "loss_stages_known": 4, "engine": "native"}
    write_table(directory, "capture_quality", [{**quality, "sample": name} for name in names])
    return write_results(directory, environments, **options)


def write_replays(directory, trials: dict[str, dict]) -> None:
    """Write manifests of replayed trials by sample, with these changes of the key `replay`."""
    replay = {
        **{"sender": "acapella replay", "replayers": 1, "polling": "separate", "priority": 0, "speed": 1},
        "path": {"kind": "shared", "link": "uplink-site2", "rate_bps": 50_000_000, "queue_bytes": 65536},
        **{"noise_streams": 0, "recordings": [], "departures": [], "sent_late": 3, "late_ns": 1000, "preemptions": 1},
        **{"largest_gap_ns": 100, "median_gap_ns": 500, "skew_ns": None, "skew_error_ns": None},
    }
    for sample, changes in trials.items():
        write_json(Path(directory) / "raw" / f"{sample}.json", {"sample": sample, "replay": replay | changes})


def source_of(directory, environments: dict[str, list[dict]], **options) -> Source:
    """Write a campaign (see write_campaign), run stage trials, and return its tables as figures read them."""
    directory = write_campaign(directory, environments, **options)
    assert cli.main(["campaign", "trials", str(directory), "--environments", *environments]) == 0
    return Source(Campaign(directory))


def result(environment: str, runs: list[dict], *, all_pairs=False, within_ns=(10, 100)) -> dict:
    """Return one environment with trials ENVIRONMENT-1, -2, ...; the first of ``runs`` is the pair of -1 and -2."""
    names = [f"{environment}-{n}" for n in range(1, len(runs) + 2)]
    chosen = [(0, n, shape) for n, shape in enumerate(runs, 1)]
    if all_pairs:
        chosen += [(a, b, runs[b - 1]) for a in range(1, len(names)) for b in range(a + 1, len(names))]
    parameters = {"identity": {"kind": "invariant"}, "within_ns": list(within_ns), "all_pairs": all_pairs}
    pairs = [pair(names[a], names[b], within_ns=within_ns, seed=f"{environment}{a}{b}", **s) for a, b, s in chosen]
    return {"version": "0.1.0", "parameters": parameters, "trials": [trial(name) for name in names], "pairs": pairs}


def outlier_baseline(name: str) -> dict:
    """Return the warning that a first trial is an outlier."""
    text = f"the baseline {name} is an outlier: kappa with it is 0.85, among the others 0.98."
    return {"code": "odd_baseline", "components": ["I"], "text": text}


def trial(name: str) -> dict:
    """Return a trial of one file."""
    file = {"file": f"{name}.pcap", "sha256": "0" * 64, "frames": PACKETS, "end": "clean"}
    return {"name": name, "files": [file], "packets": PACKETS, "duration_ns": DURATION_NS}


def pair(  # noqa: PLR0913
    a, b, *, within_ns, seed, common=None, moved=0, warnings=(), replayer=None, path=None, **components
):
    """Return a pair with these components, given as U, O, L and I.

    With ``common`` 0, O, L and I are undefined. If L is not given, its value is one that is possible with this I.
    ``replayer``: kappa of the replayer; ``path``: bounds of the corrected kappa.
    """
    draw = random.Random(seed)
    parts = {"U": 0.0, "O": 0.0, "I": 0.03} | components
    n_common = round(PACKETS * (1 - parts["U"])) if common is None else common
    # gaps of n packets differ by at most twice their latencies, so L is at least I / n
    parts.setdefault("L", 2 * parts["I"] / max(1, n_common))
    # from the definitions of I and L
    sums = {"gap": parts["I"] * 2 * DURATION_NS, "latency": parts["L"] * n_common * DURATION_NS}
    if not n_common:
        parts = {"U": 1.0, "O": None, "L": None, "I": None}
    kappa = kappa_of(parts)
    sizes = {name: differences(n_common, total, draw) for name, total in sums.items()}
    lost = lost_by_window(PACKETS - n_common, draw)
    factors = [factor(place, draw) for place in range(WINDOWS)]
    histograms = {name: histogram(n_common, own, draw) for name, own in sizes.items()}
    shares = {name: shares_within(each, within_ns, n_common) for name, each in histograms.items()}
    return {
        "replayer": replayer and {"kappa": replayer},
        "corrected": path and dict(zip(("kappa_lo", "kappa_hi"), path, strict=True)),
        **{"a": a, "b": b, "n_a": PACKETS, "n_b": PACKETS, "n_common": n_common, "ambiguous_a": 0, "ambiguous_b": 0},
        **parts,
        **{"O_published": parts["O"] and 2 * parts["O"], "O_kendall": parts["O"], "L_offset_removed": parts["L"]},
        **{"kappa": kappa, "kappa_published": kappa, "contribution": contribution(parts)},
        **{"within_ns": shares["gap"], "latency_within_ns": shares["latency"]},
        **{"iat_delta_ns": moments(n_common, sizes["gap"]), "latency_delta_ns": moments(n_common, sizes["latency"])},
        **{"offset_ns": 40 if n_common else None, "duration_a_ns": DURATION_NS, "duration_b_ns": DURATION_NS},
        **{"moves": moves(moved), "bursts": {**moves(moved // 50), "longest": 60 if moved else 0}},
        "timeline": [window(n, parts, lost[n], factors[n] * WINDOWS / sum(factors)) for n in range(WINDOWS)],
        **{"histograms": histograms, "spacing": spacing(n_common, moved, draw), "integers": {}},
        "warnings": [dict(warning) for warning in warnings],
    }


def kappa_of(parts: dict) -> float:
    """Return kappa (equation 5); 0 if a component is undefined, as without common packets."""
    if None in parts.values():
        return 0.0
    return 1 - math.sqrt(sum(value**2 for value in parts.values())) / 2


def contribution(parts: dict) -> dict:
    """Return the contributions to 1 - kappa, by squares of the components."""
    if None in parts.values():
        return dict.fromkeys(COMPONENTS)
    total = sum(value**2 for value in parts.values())
    return {name: (1 - kappa_of(parts)) * value**2 / total if total else 0.0 for name, value in parts.items()}


def differences(packets: int, total_ns: float, draw) -> list[float]:
    """Return log-normal absolute differences of at most 2,000 packets with this sum in ns; all others are 0."""
    sizes = [draw.lognormvariate(0, 1.5) for _ in range(min(packets, 2000))]
    drawn_ns = sum(sizes)
    return [size * total_ns / drawn_ns for size in sizes]


def moments(packets: int, sizes: list[float]) -> dict:
    """Return mean, median, 99th percentile and maximum of the absolute differences in ns; null without packets."""
    if not packets:
        return dict.fromkeys(("mean", "median", "p99", "largest"))
    every = sorted([0] * (packets - len(sizes)) + [int(size) for size in sizes])
    at = {"median": every[(packets - 1) // 2], "p99": every[-(-99 * packets // 100) - 1], "largest": every[-1]}
    return {"mean": sum(every) / packets, **at}


def histogram(packets: int, sizes: list[float], draw) -> dict:
    """Return a histogram of the differences with signs."""
    counts = {"zero": 0, "negative": [0] * BINS, "positive": [0] * BINS, "starts_ns": STARTS}
    for size in [size for size in sizes if size >= 1]:
        counts[draw.choice(["negative", "positive"])][min(BINS - 1, int(5 * math.log10(size)))] += 1
    counts["zero"] = sum(size < 1 for size in sizes) + max(0, packets - 2000)
    return counts


def shares_within(counts: dict, bounds: tuple[int, ...], packets: int) -> dict[str, float | None]:
    """Return the shares of packets within each bound. Bounds must be ends of bins."""
    bins = {bound: sum(start < bound for start in counts["starts_ns"]) for bound in bounds}
    within = {b: counts["zero"] + sum(counts["negative"][:n]) + sum(counts["positive"][:n]) for b, n in bins.items()}
    return {str(bound): number / packets if packets else None for bound, number in within.items()}


def spacing(packets: int, moved: int, draw) -> dict:
    """Return pairs from 1 us to 10 ms apart. The share of reversed pairs decreases with the distance."""
    pairs = [packets // 20 if 15 <= place < 35 else 0 for place in range(BINS)]
    changed = [
        int(count * min(1, moved / PACKETS * draw.lognormvariate(0, 0.3)) * math.exp(-(place - 15) / 4))
        for place, count in enumerate(pairs)
    ]
    zero = {"pairs": packets // 1000, "reversed": 0}
    return {"distances": [1, 4, 16], "starts_ns": STARTS, "zero": zero, "pairs": pairs, "reversed": changed}


def moves(count: int) -> dict:
    """Return the paper's Table 1 for ``count`` moves."""
    statistics = {"mean": 1790.54, "sigma": 8111.16, "abs_mean": 7240.23, "abs_sigma": 4071.35}
    statistics |= {"min": -5632, "max": 16573}
    return {"count": count, "share": count / PACKETS, **(statistics if count else dict.fromkeys(statistics))}


def factor(place: int, draw) -> float:
    """Return the ratio of a window's inconsistency to the mean; there is a burst in the middle."""
    return draw.lognormvariate(0, 0.3) * (6 if place == WINDOWS // 2 else 1)


def lost_by_window(lost: int, draw) -> list[int]:
    """Return the number of packets per window that the other trial does not contain; their sum is ``lost``."""
    factors = [factor(place, draw) for place in range(WINDOWS)]
    found = [min(PER_WINDOW, int(lost * own / sum(factors))) for own in factors]
    while (rest := lost - sum(found)) > 0:
        for place in [place for place in range(WINDOWS) if found[place] < PER_WINDOW][:rest]:
            found[place] += 1
    return found


def window(place: int, parts: dict, lost: int, factor: float) -> dict:
    """Return a window that lost ``lost`` packets, with O, L and I multiplied by ``factor``."""
    here = {name: None if value is None else min(1.0, value * factor) for name, value in parts.items()}
    here["U"] = lost / PER_WINDOW
    step = DURATION_NS // WINDOWS
    counts = {"n_a": PER_WINDOW, "n_b": PER_WINDOW, "n_common": PER_WINDOW - lost}
    return {"from_ns": place * step, "to_ns": (place + 1) * step, **counts, **here, "kappa": kappa_of(here)}


def shapes(runs: int) -> dict[str, list[dict]]:
    """Return three environments: quiet, with loss and reordering, and with large differences of gaps."""
    warned = {"code": "coarse_clock", "components": ["O", "L", "I"], "text": "the clock of trial noisy-1 is coarse."}
    lossy = {"U": 0.02, "O": 0.014, "L": 0.005, "moved": 900, "warnings": [warned]}
    return {
        "quiet": [{"I": 0.03 + 0.001 * n} for n in range(runs)],
        "noisy": [{**lossy, "I": 0.12 + 0.01 * n} for n in range(runs)],
        "shared": [{"I": 0.5 - 0.02 * n, "L": 2e-4} for n in range(runs)],
    }


if __name__ == "__main__":
    chosen = dict(list(shapes(int(sys.argv[3])).items())[: int(sys.argv[2])])
    print(write_campaign(sys.argv[1], chosen))
