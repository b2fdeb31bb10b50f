"""Computes the part of the result that needs departures: kappa of the replayer alone, and of the path alone.

schemas/kappa.schema.json describes both; docs/kappa_path.md derives them.
"""

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from acapella.common.quantities import duration_ns
from acapella_core import kappa as core
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from . import departures, fit, interval, ratios, replayed
from .replayer_order import order_of
from .warnings import OFFSET, WIDE

BYTES_PER_PACKET = 500  # arrays of a pair, per packet of the longer trial or the recording
SELECTION_OPTIONS = ("filter", "flow", "begin", "end")
MAX_WIDTH = 0.05  # of kappa's interval; a wider one hardly distinguishes environments whose kappas differ by less
LIMIT_SCALE = 10**12  # limits are floating-point sums, rounded outward so that they are equal on every machine


@dataclass(frozen=True)
class Replay:
    """Options that describe a replay: recordings, departures of each trial, and errors of timestamps in ns."""

    recordings: list[str]
    sources: list[list[departures.Departures]]
    arrival_ns: int | None
    departure_ns: int
    burst_ns: int | None
    sha256: list[str]

    def parameters(self) -> dict:
        """Return the parameters of the result."""
        return {
            "recordings_sha256": self.sha256,
            "arrival_error_ns": self.arrival_ns,
            "departure_error_ns": self.departure_ns,
            "burst_error_ns": self.burst_ns,
        }


def replay_of(args: argparse.Namespace, trials: int) -> Replay | None:
    """Return the replay that the options describe, or None without --departures. Raises UserError."""
    errors_given = {name: getattr(args, f"{name}_error") for name in ("arrival", "departure", "burst")}
    if not args.departures:
        if args.recording or any(text is not None for text in errors_given.values()):
            raise UserError("--recording and errors of timestamps require --departures")
        return None
    if not args.recording:
        raise UserError("--departures requires --recording", fix="specify the recording that was replayed")
    if len(args.departures) != trials:
        raise UserError(f"{len(args.departures)} departures for {trials} trials", where="--departures")
    selecting = [name for name in SELECTION_OPTIONS if getattr(args, name) is not None]
    if selecting or args.identity == "tag":
        raise combination_error(selecting)
    errors = {f"{name}_ns": None if text is None else error_ns(text, name) for name, text in errors_given.items()}
    recordings = [path for argument in args.recording for path in files_of(argument)]
    sources = [[departures.read(path) for path in files_of(argument)] for argument in args.departures]
    check_speeds(sources)
    errors["departure_ns"] = errors["departure_ns"] or 0
    sha256 = [hash_of(path) for path in recordings]
    if len(set(sha256)) < len(sha256):
        raise UserError("the same recording is given twice", where="--recording", fix="specify it once")
    return Replay(recordings, sources, **errors, sha256=sha256)


def combination_error(selecting: list[str]) -> UserError:
    """Return the error for an option that cannot be combined with departures; ``selecting``: options that select."""
    option = (
        {"begin": "--from", "end": "--to"}.get(selecting[0], f"--{selecting[0]}") if selecting else "--identity tag"
    )
    fix = "compare whole trials"
    if option in ("--filter", "--flow"):
        fix = (
            "select the packets first: tshark -r TRIAL -Y FILTER -w NEW, for each trial; or repeat the trials without "
        )
        fix += "other traffic"
    return UserError(f"{option} cannot be combined with --departures", fix=fix)


def error_ns(text: str, name: str) -> int:
    """Return an error in ns. Raises UserError."""
    error = duration_ns(text)
    if error < 0:
        raise UserError("an error must not be negative", where=f"--{name}-error {text}")
    return error


def files_of(argument: str) -> list[str]:
    """Return the files of an argument, separated by commas as in the arguments of trials."""
    return [argument] if Path(argument).is_file() else argument.split(",")


def hash_of(path: str) -> str:
    """Return the SHA-256 of a recording. Raises UserError."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path) from error


def check_speeds(sources: list[list[departures.Departures]]) -> None:
    """Raise UserError if the trials were replayed at different speeds."""
    speeds = sorted({str(rows.speed) for trial_sources in sources for rows in trial_sources})
    if len(speeds) > 1:
        raise UserError(f"the trials were replayed at different speeds: {', '.join(speeds)}", where="--departures")


def pair_results(replay: Replay, trials: list[list[str]], names: list[str], native: dict, options: dict) -> list[dict]:
    """Return ``replayer``, ``corrected`` and ``corrected_unknown`` of each pair of the native result.

    ``trials``: the files of each trial; ``options``: options of align. Raises UserError.
    """
    sources = [rows for trial_sources in replay.sources for rows in trial_sources]
    loops = [max([1, *(rows.loops for rows in sources if rows.recording_sha256 == digest)]) for digest in replay.sha256]
    aligned = core.align(list(zip(replay.recordings, loops, strict=True)), trials, **options)
    numbering = replayed.Numbering(replay.sha256, aligned["frames"], loops)
    check_memory(aligned, options["memory_bytes"])
    for paths, (keys, _) in zip(trials, aligned["trials"], strict=True):
        if len(keys) and not (keys < aligned["replayed"]).any():
            fix = "specify the recording that was replayed, or use a different --identity"
            raise UserError("no packet of the trial is in the recording", where=", ".join(paths), fix=fix)
    natives = [{"name": name, **entry} for name, entry in zip(names, native["trials"], strict=True)]
    compute = Pairs(replay, numbering, aligned["trials"], natives, options)
    return [compute.result(entry["a"], entry["b"]) for entry in native["pairs"]]


def check_memory(aligned: dict, memory_bytes: int) -> None:
    """Raise UserError if the arrays of a pair exceed the memory limit."""
    packets = max([aligned["replayed"], *(len(keys) for keys, _ in aligned["trials"])])
    needed = packets * BYTES_PER_PACKET
    if needed > memory_bytes:
        text = f"correcting {packets:,} packets by their departures needs {math.ceil(needed / 1e6):,} MB"
        raise UserError(text, fix="raise --memory", outside=True)


class Pairs:
    """Computes the results of pairs. The schedule of the first trial is cached, because most pairs share it."""

    def __init__(self, replay: Replay, numbering: replayed.Numbering, trials: list, natives: list, options: dict):
        self._replay = replay
        self._numbering = numbering
        self._trials = trials
        self._natives = natives
        self._options = {name: options[name] for name in ("memory_bytes", "spool")}
        self._cached_schedule = None
        self._orders = {}

    def result(self, a: int, b: int) -> dict:
        """Return the results of the pair of these trials."""
        if self._cached_schedule is None or self._cached_schedule[0] != a:
            self._cached_schedule = (a, self._schedule(a))
        schedules = (self._cached_schedule[1], self._schedule(b))
        self._check_fit((a, b), schedules)
        unknown = next((schedule.unknown for schedule in schedules if schedule.unknown), None)
        if unknown:
            name = self._natives[a if schedules[0].unknown else b]["name"]
            unmeasured = any(schedule.unknown == replayed.NOT_MEASURED for schedule in schedules)
            shares = None if unmeasured else self._replayer(schedules) | self._order((a, b), schedules)
            return {"replayer": shares, "corrected": None, "corrected_unknown": f"trial {name}: {unknown}"}
        return {
            "replayer": self._replayer(schedules) | self._order((a, b), schedules),
            **self._corrected(a, b, schedules),
            "corrected_unknown": None,
            OFFSET: fit.unexpected_offset_ns([self._trials[trial] for trial in (a, b)], schedules),
        }

    def _check_fit(self, pair: tuple[int, int], schedules: tuple) -> None:
        trials = [self._trials[trial] for trial in pair]
        for trial, arrivals, schedule in zip(pair, trials, schedules, strict=True):
            paths = [rows.path for rows in self._replay.sources[trial]]
            fit.check_durations(*arrivals, schedule, self._natives[trial]["name"], paths)
        fit.check_order(trials, schedules, [self._natives[trial]["name"] for trial in pair])

    def _schedule(self, trial: int) -> replayed.Schedule:
        return replayed.schedule_of(self._replay.sources[trial], self._numbering, self._replay.burst_ns)

    def _compare(self, a: tuple, b: tuple) -> dict:
        return core.compare_numbered(a, b, **self._options)

    def _replayer(self, schedules: tuple) -> dict:
        # A packet that was sent at an unknown time is not lost.
        unknown = np.logical_or(*(schedule.sent & ~schedule.usable for schedule in schedules))
        sides = []
        for schedule in schedules:
            keys = np.flatnonzero(schedule.usable & ~unknown)
            sides.append((keys.astype(np.uint32), schedule.departed_ns[keys]))
        native = self._compare(*sides)
        not_sent = {f"not_sent_{side}": schedule.outcomes for side, schedule in zip("ab", schedules, strict=True)}
        return {**components(native), **not_sent}

    def _order(self, pair: tuple[int, int], schedules: tuple) -> dict:
        """Return the counts of replayer_order for both trials, as ``order_a`` and ``order_b``."""
        for trial, schedule in zip(pair, schedules, strict=True):
            if trial not in self._orders:
                sources = self._replay.sources[trial]
                self._orders[trial] = order_of(self._trials[trial], schedule, sources, self._numbering)
        return {f"order_{side}": self._orders[trial] for side, trial in zip("ab", pair, strict=True)}

    def _corrected(self, a: int, b: int, schedules: tuple) -> dict:
        sides = [
            replayed.correct(*self._trials[trial], schedules[index], schedules[1 - index], self._sigma(trial))
            for index, trial in enumerate((a, b))
        ]
        trials = [side.trial for side in sides]
        native = self._compare(*((trial.keys, trial.ts_ns) for trial in trials))
        counts = {}
        for side, schedule, name in zip(sides, schedules, "ab", strict=True):
            counts |= {f"excluded_{name}": side.excluded, f"arrived_unsent_{name}": side.arrived_unsent}
            counts |= {f"other_{name}": side.other, f"unresolved_{name}": schedule.unresolved}
            counts[f"retried_{name}"] = schedule.retried
            counts |= {f"sigma_{name}_ns": side.trial.sigma_ns, f"drift_{name}_ns": round(side.trial.drift_ns, 3)}
        limits = bounded(native, trials, self._compare)
        return {"corrected": {**limits, **counts}, WIDE: wide_by_bursts(native, trials, self._compare, limits)}

    def _sigma(self, trial: int) -> float:
        arrival = self._replay.arrival_ns
        return math.hypot(rounding(self._natives[trial]) if arrival is None else arrival, self._replay.departure_ns)


def rounding(trial: dict) -> float:
    """Return the standard deviation of the rounding of a trial's timestamps, in ns; rounding to 1 ns is neglected."""
    grid = max([trial["grid_ns"] or 1, trial["resolution_ns"] or 1, *(file["grid_ns"] or 1 for file in trial["files"])])
    return grid / math.sqrt(12) if grid > 1 else 0.0


def components(native: dict) -> dict:
    """Return the components and kappa of a pair, with its counts and durations."""
    counts = {name: native[name] for name in ("n_a", "n_b", "n_common")}
    exact = ratios.components(native)
    parts = tuple(exact[name] for name in ratios.COMPONENTS)
    return {
        **counts,
        **{name: ratios.to_float(value) for name, value in exact.items()},
        "kappa": ratios.kappa(*counts.values(), parts),
        "iat_delta_ns": ratios.deltas(native["gap"], native["n_common"]),
        "latency_delta_ns": ratios.deltas(native["latency"], native["n_common"]),
        "duration_a_ns": native["duration_a_ns"],
        "duration_b_ns": native["duration_b_ns"],
    }


def bounded(native: dict, trials: list[interval.TimedTrial], compare) -> dict:
    """Return the components and kappa of corrected trials with their limits, named ``U_lo``, ``U_hi`` and so on.

    The value of a component is computed from the corrected times; a value outside the limits is replaced by the nearer
    limit. Limits are None if a component is undefined.
    """
    counts = {name: native[name] for name in ("n_a", "n_b", "n_common")}
    exact = ratios.components(native)
    values = {name: ratios.to_float(exact[name]) for name in ratios.COMPONENTS}
    if None in values.values():
        kappa = ratios.kappa(*counts.values(), tuple(exact[name] for name in ratios.COMPONENTS))
        ends = {f"{name}_{end}": None for name in (*ratios.COMPONENTS, "kappa") for end in ("lo", "hi")}
        return {**counts, **values, "kappa": kappa, **ends}
    limits = {name: (values[name], values[name]) for name in ratios.COMPONENTS}
    if not all(trial.exact for trial in trials):
        limits |= interval.time_limits(*trials) | {"O": order_limits(native, trials, compare)}
        limits = {
            name: (math.floor(lo * LIMIT_SCALE) / LIMIT_SCALE, math.ceil(hi * LIMIT_SCALE) / LIMIT_SCALE)
            for name, (lo, hi) in limits.items()
        }
        values = {name: min(max(values[name], limits[name][0]), limits[name][1]) for name in limits}
    exact_values = tuple(exact[name] if values[name] == float(exact[name]) else values[name] for name in values)
    kappa = ratios.kappa(*counts.values(), exact_values)
    limits["kappa"] = (
        (kappa, kappa) if all(low == high for low, high in limits.values()) else interval.kappa_limits(limits)
    )
    ends = {
        f"{name}_{end}": value for name, ends in limits.items() for end, value in zip(("lo", "hi"), ends, strict=True)
    }
    return {**counts, **values, "kappa": kappa, **ends}


def wide_by_bursts(native: dict, trials: list[interval.TimedTrial], compare, limits: dict) -> bool:
    """Return whether kappa's interval is wide because the departures inside bursts are unknown."""
    if limits["kappa_lo"] is None or not any(trial.late_ns.any() for trial in trials):
        return False
    known = [replace(trial, late_ns=np.zeros_like(trial.late_ns)) for trial in trials]
    narrow = bounded(native, known, compare)
    width = limits["kappa_hi"] - limits["kappa_lo"]
    return width > MAX_WIDTH and narrow["kappa_hi"] - narrow["kappa_lo"] < width / 2


def order_limits(native: dict, trials: list[interval.TimedTrial], compare) -> tuple[float, float]:
    """Return the limits of O."""

    def distance_of(at_a, at_b) -> int:
        sides = [(trial.keys[at], trial.ts_ns[at]) for trial, at in zip(trials, (at_a, at_b), strict=True)]
        return compare(*sides)["order"]["distance"]

    common = native["n_common"]
    limits = interval.order_limits(*trials, distance_of)
    return tuple(min(1.0, float(ratios.ordering(limit, common))) for limit in limits)
