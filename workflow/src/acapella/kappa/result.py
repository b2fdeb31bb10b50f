"""The result of a comparison as JSON: schemas/kappa.schema.json describes it, ratios.py divides, warnings.py flags.

It is a function of the captures' bytes, the version and the parameters: no path, no clock, no memory bound is in it.
"""

from pathlib import Path

from acapella import __version__

from . import baseline, ratios, warnings

# Stand apart in a pair; what is left of the core's integers is kept as it came.
APART = ("a", "b", "windows", "histograms", "spacing")


def document(native: dict, names: list[str], parameters: dict, cut_frames: list[int]) -> dict:
    """The whole result: ``native`` as acapella_core.consistency.compare gives it, a name for each trial.

    ``cut_frames``: for each trial whose packets mostly lack their identity, how many frames the capture cut.
    """
    trials = [trial(entry, name) for entry, name in zip(native["trials"], names, strict=True)]
    beside = {"identity": parameters["identity"]["kind"], "within_ns": parameters["within_ns"]}
    judged = [{**entry, **beside, "cut_frames": cut} for entry, cut in zip(trials, cut_frames, strict=True)]
    return {
        "version": __version__,
        "parameters": parameters,
        "trials": trials,
        "pairs": baseline.warned([pair(entry, judged, parameters) for entry in native["pairs"]], names),
    }


def trial(native: dict, name: str) -> dict:
    """One trial; its files by name, since a path says where somebody kept them."""
    files = [{**entry, "path": Path(entry["path"]).name} for entry in native["files"]]
    return {"name": name, **native, "files": [{"file": entry.pop("path"), **entry} for entry in files]}


def pair(native: dict, trials: list[dict], parameters: dict) -> dict:
    """One pair: its components, kappa, and what they are made of."""
    a, b = trials[native["a"]], trials[native["b"]]
    common = native["n_common"]
    counts = {name: native[name] for name in ("n_a", "n_b", "n_common")}
    exact = ratios.components(native)
    parts = tuple(exact[name] for name in ratios.COMPONENTS)
    printed = (exact["U"], exact["O_published"], exact["L"], exact["I"])
    found = {
        "a": a["name"],
        "b": b["name"],
        **counts,
        "ambiguous_a": native["ambiguous_a"],
        "ambiguous_b": native["ambiguous_b"],
        **{name: ratios.real(value) for name, value in exact.items()},
        "kappa": ratios.kappa(*counts.values(), parts),
        "kappa_published": ratios.kappa(*counts.values(), printed),
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
        "integers": {key: value for key, value in native.items() if key not in APART},
    }
    judged = {**found, "windows": native["windows"], "parameters": parameters}
    return {**found, "warnings": warnings.of(judged, a, b)}


def moves(sums: dict, common: int) -> dict:
    """The paper's Table 1, in packets; ``share`` is of the common packets."""
    share = ratios.real(ratios.ratio(sums["count"], common))
    return {"count": sums["count"], "share": share, **ratios.moments(sums)}


def bursts(sums: dict) -> dict:
    """Runs of packets that moved together: how many, the longest in packets, and Table 1 over runs."""
    return {"count": sums["count"], "longest": sums["longest"], **ratios.moments(sums)}


def spacing(native: dict) -> dict:
    """Pairs of common packets by the time between them in A, and how many of them arrived in the opposite order."""
    pairs, reversed_ = native["zero"]
    rest = {name: native[name] for name in ("distances", "starts_ns", "pairs", "reversed")}
    return {"zero": {"pairs": pairs, "reversed": reversed_}, **rest}


def timeline(native: dict) -> list[dict]:
    """A window after the other."""
    duration_ns = max(native["duration_a_ns"], native["duration_b_ns"])
    return [ratios.window(entry, duration_ns) for entry in native["windows"]]
