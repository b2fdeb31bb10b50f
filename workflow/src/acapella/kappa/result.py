"""Builds the result of a comparison as JSON. schemas/kappa.schema.json describes it; ratios.py computes the ratios.

The result depends only on the bytes of the files read, the version and the parameters. It contains neither paths, nor
the time of the run, nor a memory limit.
"""

from pathlib import Path

from acapella import __version__

from . import baseline, ratios, warnings

# Keys of the core's pair that are converted separately; all others are copied to "integers".
SEPARATE_KEYS = ("a", "b", "windows", "histograms", "spacing")
# Values of a pair without departures.
UNKNOWN = {"replayer": None, "corrected": None, "corrected_unknown": None}


def document(
    native: dict, names: list[str], parameters: dict, truncated_frames: list[int], separated: list[dict] | None = None
) -> dict:
    """Return the result for ``native`` (returned by acapella_core.kappa.compare), with a name for each trial.

    ``truncated_frames``: for each trial, frames truncated by the capture if most packets lack their identity, else 0.
    ``separated``: the additional results from departures for each pair (replay_result.pair_results).
    """
    trials = [trial(entry, name) for entry, name in zip(native["trials"], names, strict=True)]
    settings = {"identity": parameters["identity"]["kind"], "within_ns": parameters["within_ns"]}
    counted = zip(trials, truncated_frames, strict=True)
    checked = [{**entry, **settings, "truncated_frames": truncated} for entry, truncated in counted]
    separated = separated or [UNKNOWN] * len(native["pairs"])
    pairs = [pair(entry, checked, parameters) | part for entry, part in zip(native["pairs"], separated, strict=True)]
    for entry in pairs:
        wide, offset_ns = entry.pop(warnings.WIDE, False), entry.pop(warnings.OFFSET, 0)
        entry["warnings"] += warnings.departure_warnings(entry, wide, offset_ns)
    return {
        "version": __version__,
        "parameters": parameters,
        "trials": trials,
        "pairs": baseline.with_baseline_warning(pairs, names),
    }


def trial(native: dict, name: str) -> dict:
    """Return one trial; files are listed by name, because paths depend on where a user stores them."""
    files = [{**entry, "path": Path(entry["path"]).name} for entry in native["files"]]
    return {"name": name, **native, "files": [{"file": entry.pop("path"), **entry} for entry in files]}


def pair(native: dict, trials: list[dict], parameters: dict) -> dict:
    """Return one pair: its kappa, its components, and the numbers that these are computed from."""
    a, b = trials[native["a"]], trials[native["b"]]
    common = native["n_common"]
    counts = {name: native[name] for name in ("n_a", "n_b", "n_common")}
    exact = ratios.components(native)
    parts = tuple(exact[name] for name in ratios.COMPONENTS)
    published = (exact["U"], exact["O_published"], exact["L"], exact["I"])
    content = {
        "a": a["name"],
        "b": b["name"],
        **counts,
        "ambiguous_a": native["ambiguous_a"],
        "ambiguous_b": native["ambiguous_b"],
        **{name: ratios.to_float(value) for name, value in exact.items()},
        "kappa": ratios.kappa(*counts.values(), parts),
        "kappa_published": ratios.kappa(*counts.values(), published),
        "contribution": ratios.contribution(parts),
        "within_ns": ratios.shares(native["gap_within"], parameters["within_ns"], common),
        "latency_within_ns": ratios.shares(native["latency_within"], parameters["within_ns"], common),
        "iat_delta_ns": ratios.deltas(native["gap"], common),
        "latency_delta_ns": ratios.deltas(native["latency"], common),
        "offset_ns": native["offset_ns"],
        "duration_a_ns": native["duration_a_ns"],
        "duration_b_ns": native["duration_b_ns"],
        "moves": moves(native["moves"], common),
        "bursts": bursts(native["bursts"]),
        "timeline": timeline(native),
        "histograms": native["histograms"],
        "spacing": spacing(native["spacing"]),
        "integers": {key: value for key, value in native.items() if key not in SEPARATE_KEYS},
    }
    checked = {**content, "windows": native["windows"], "parameters": parameters}
    return {**content, "warnings": warnings.check(checked, a, b)}


def moves(sums: dict, common: int) -> dict:
    """Return the statistics of CHOIR's Table 1 for the moved packets; ``share`` is count / common packets."""
    share = ratios.to_float(ratios.ratio(sums["count"], common))
    return {"count": sums["count"], "share": share, **ratios.moments(sums)}


def bursts(sums: dict) -> dict:
    """Return the runs of packets that moved together: their number, the longest in packets, and Table 1 over runs."""
    return {"count": sums["count"], "longest": sums["longest"], **ratios.moments(sums)}


def spacing(native: dict) -> dict:
    """Return the numbers of pairs of common packets, and of those in reverse order, by their distance in time in A."""
    pairs, reversed_ = native["zero"]
    columns = {name: native[name] for name in ("distances", "starts_ns", "pairs", "reversed")}
    return {"zero": {"pairs": pairs, "reversed": reversed_}, **columns}


def timeline(native: dict) -> list[dict]:
    """Return the windows in order of time."""
    duration_ns = max(native["duration_a_ns"], native["duration_b_ns"])
    return [ratios.window(entry, duration_ns) for entry in native["windows"]]
