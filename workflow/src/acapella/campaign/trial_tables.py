"""Rows of the tables consistency and consistency_*, computed from results of `acapella kappa`.

The result of an environment is JSON that schemas/kappa.schema.json describes. Trials are numbered from 1 in their
order; the first one is the baseline. schemas/tables/consistency*.yaml describe the columns.
"""

import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

COMPONENTS = ("U", "O", "L", "I")
MEANS = (*COMPONENTS, "kappa", "O_published", "O_kendall", "L_offset_removed", "kappa_published")
MEASURES = {"iat": ("gap", "within_ns"), "latency": ("latency", "latency_within_ns")}
JOINED = "+"  # separates the samples in the name of a trial
PATH_LIMITS = ("kappa_lo", "kappa_hi")  # limits of the corrected kappa
# Keys of the manifest's `replay` that are columns of table consistency_replays.
REPLAY_COLUMNS = (
    *("sender", "replayers", "polling", "priority", "speed", "noise_streams", "sent_late", "late_ns"),
    *("preemptions", "largest_gap_ns", "median_gap_ns", "skew_ns", "skew_error_ns"),
)
# Columns of the same table, by their names in the result of `acapella kappa`.
ORDER_COLUMNS = {
    **{"pairs": "replayer_pairs", "reversed": "reversed_pairs"},
    **{"unexplained": "unexplained_pairs", "sent_in_order": "sent_in_order_pairs"},
}


@dataclass(frozen=True)
class Environment:
    """Result of an environment and its name in the tables. `shown` maps trials to their names in the tables.

    ``replays`` is the key `replay` of the manifests of replayed trials, by trial.
    """

    name: str
    true_name: str
    result: dict
    shown: dict[str, str]
    replays: Mapping[str, dict] = field(default_factory=dict)

    def key(self, pair: dict) -> dict:
        """Return the key columns of a pair."""
        numbers = {trial["name"]: number for number, trial in enumerate(self.result["trials"], 1)}
        return {"environment": self.name, "a": numbers[pair["a"]], "b": numbers[pair["b"]]}

    @property
    def runs(self) -> list[dict]:
        """Return the pairs with the baseline, over which means are computed."""
        baseline = self.result["trials"][0]["name"]
        return [pair for pair in self.result["pairs"] if pair["a"] == baseline]

    @property
    def others(self) -> list[dict]:
        """Return the pairs without the baseline; an empty list unless all of them were compared."""
        baseline, *rest = (trial["name"] for trial in self.result["trials"])
        pairs = [pair for pair in self.result["pairs"] if pair["a"] != baseline]
        return pairs if len(pairs) == len(rest) * (len(rest) - 1) // 2 else []


def rows_of(environments: list[Environment]) -> dict[str, list[dict]]:
    """Return the rows of each table by its name."""
    rows_by_table = {name: [] for name in BY_PAIR}
    for environment in environments:
        for pair in environment.result["pairs"]:
            for name, make_rows in BY_PAIR.items():
                rows_by_table[name] += [{**environment.key(pair), **row} for row in make_rows(environment, pair)]
    means = [environment_row(environment, place) for place, environment in enumerate(environments, 1)]
    replays = [row for environment in environments for row in replay_rows(environment)]
    rows_by_table["consistency_replays"] = replays
    return {**rows_by_table, "consistency_environments": means, "consistency_comparisons": comparisons(environments)}


def pairs(environment: Environment, pair: dict) -> list[dict]:
    """Return the row of a pair in table consistency."""
    deltas = {
        f"{measure}_delta_{name}_ns": value
        for measure in MEASURES
        for name, value in pair[f"{measure}_delta_ns"].items()
    }
    return [
        {
            **{name: pair[name] for name in (*MEANS, "offset_ns", "duration_a_ns", "duration_b_ns")},
            **{name: pair[name] for name in ("ambiguous_a", "ambiguous_b")},
            **{"trial_a": environment.shown[pair["a"]], "trial_b": environment.shown[pair["b"]]},
            **{f"contribution_{name}": pair["contribution"][name] for name in COMPONENTS},
            **packets(pair),
            **deltas,
            **replayer_and_path(pair),
            "arrival_error_ns": (environment.result["parameters"].get("replay") or {}).get("arrival_error_ns"),
            **{f"cpu_lost_{end}": cpu_lost(environment.replays.get(pair[end])) for end in "ab"},
            "moved": pair["moves"]["count"],
        }
    ]


def replayer_and_path(pair: dict) -> dict:
    """Return kappa of the replayer, and the limits of the path's kappa; None without departures."""
    replayer, corrected = (pair.get(key) or {} for key in ("replayer", "corrected"))
    return {"kappa_replayer": replayer.get("kappa"), **{f"path_{end}": corrected.get(end) for end in PATH_LIMITS}}


def cpu_lost(replay: dict | None) -> bool | None:
    """Return whether the sender of a trial lost the CPU for longer than the median gap of its packets; None: unknown.

    The largest gap of the polling loop is the longest time for which it did not run.
    """
    largest, median = ((replay or {}).get(key) for key in ("largest_gap_ns", "median_gap_ns"))
    return None if largest is None or median is None else largest > median


def replay_rows(environment: Environment) -> list[dict]:
    """Return the rows of table consistency_replays: one for each trial that a testbed replayed."""
    rows = []
    for number, trial in enumerate(environment.result["trials"], 1):
        if replay := environment.replays.get(trial["name"]):
            link = replay["path"]
            path = {"path": link["kind"], "rate_bps": link["rate_bps"], "queue_bytes": link["queue_bytes"]}
            key = {"environment": environment.name, "trial": number}
            settings = {name: replay[name] for name in REPLAY_COLUMNS}
            order = order_of_replayers(environment.result["pairs"], trial["name"])
            rows.append(key | settings | path | order | {"cpu_lost": cpu_lost(replay)})
    return rows


def order_of_replayers(pairs: list[dict], trial: str) -> dict:
    """Return the columns with the order in which packets of different replayers arrived; None if it is unknown."""
    orders = [(pair.get("replayer") or {}).get(f"order_{end}") for pair in pairs for end in "ab" if pair[end] == trial]
    counts = next(filter(None, orders), {})
    return {column: counts.get(name) for name, column in ORDER_COLUMNS.items()}


def packets(counts: dict) -> dict:
    """Return the columns with packet counts of a pair or window."""
    return {f"packets_{name}": counts[f"n_{name}"] for name in ("a", "b", "common")}


def within(environment: Environment, pair: dict) -> list[dict]:
    """Return the rows of table consistency_within: the share of packets within each bound."""
    return [
        {"measure": measure, "bound_ns": int(bound), "share": share, "packets_common": pair["n_common"]}
        for measure, (_, shares) in MEASURES.items()
        for bound, share in pair[shares].items()
    ]


def moves(environment: Environment, pair: dict) -> list[dict]:
    """Return the rows of table consistency_moves: moved packets and bursts."""
    sums_of = {"packet": pair["moves"], "burst": pair["bursts"]}
    return [
        {"scope": scope, "moved": sums["count"], **sums, "longest": sums.get("longest"), **packets(pair)}
        for scope, sums in sums_of.items()
    ]


def timeline(environment: Environment, pair: dict) -> list[dict]:
    """Return the rows of table consistency_timeline: one per window."""
    return [{**window, **packets(window)} for window in pair["timeline"]]


def deltas(environment: Environment, pair: dict) -> list[dict]:
    """Return the rows of table consistency_deltas: histogram bins with packets."""
    total = pair["n_common"]
    return [
        {"measure": measure, **bin_, "share": bin_["packets"] / total, "packets_common": total}
        for measure, (name, _) in MEASURES.items()
        for bin_ in bins(pair["histograms"][name])
        if bin_["packets"]
    ]


def bins(histogram: dict) -> Iterator[dict]:
    """Yield number, limits and packets of each bin: 0 for no difference, n and -n for the n-th bin of each sign."""
    yield {"bin": 0, "lo_ns": 0, "hi_ns": 0, "packets": histogram["zero"]}
    starts = histogram["starts_ns"]
    ends = [start - 1 for start in starts[1:]] + [None]  # the last bin has no upper limit
    for index, (lo_ns, hi_ns) in enumerate(zip(starts, ends, strict=True)):
        number = index + 1
        yield {"bin": number, "lo_ns": lo_ns, "hi_ns": hi_ns, "packets": histogram["positive"][index]}
        mirrored = None if hi_ns is None else -hi_ns
        yield {"bin": -number, "lo_ns": mirrored, "hi_ns": -lo_ns, "packets": histogram["negative"][index]}


def spacing(environment: Environment, pair: dict) -> list[dict]:
    """Return the rows of table consistency_spacing: bins of spacings with packet pairs."""
    histogram = pair["spacing"]
    zero_counts = [histogram["zero"][kind] for kind in ("pairs", "reversed")]
    pairs_, reversed_ = (
        [zero, *histogram[kind]] for zero, kind in zip(zero_counts, ("pairs", "reversed"), strict=True)
    )
    starts = histogram["starts_ns"]
    ends = [0, *(start - 1 for start in starts[1:]), None]  # the last bin has no upper limit
    return [
        {
            **{"bin": number, "lo_ns": lo_ns, "hi_ns": hi_ns, "pairs": sent, "reversed_pairs": changed},
            **{"reversed_share": changed / sent, "packets_common": pair["n_common"]},
        }
        for number, (lo_ns, hi_ns, sent, changed) in enumerate(zip([0, *starts], ends, pairs_, reversed_, strict=True))
        if sent
    ]


def warnings(environment: Environment, pair: dict) -> list[dict]:
    """Return the rows of table consistency_warnings: reasons why numbers of a pair may not represent the network."""
    rename = renaming(environment)
    return [
        {
            **{"number": number, "code": warning["code"], "components": "".join(warning["components"])},
            "text": rename(warning["text"]),
        }
        for number, warning in enumerate(pair["warnings"], 1)
    ]


def renaming(environment: Environment) -> Callable[[str], str]:
    """Return a function that replaces names of trials in a text by their shown names.

    If a trial is shown under a different name, the names of its files are also replaced.
    """
    names = dict(environment.shown)
    for trial in environment.result["trials"]:
        if environment.shown[trial["name"]] != trial["name"]:
            names |= {file["file"]: f"a file of {environment.shown[trial['name']]}" for file in trial["files"]}
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.+-])({'|'.join(map(re.escape, longest_first))})(?![\w+-]|\.\w)")
    return lambda text: pattern.sub(lambda match: names[match[1]], text)


def shown_result(environment: Environment) -> dict:
    """Return the result with the shown names of trials and their files, including those in pairs and warnings."""
    rename, shown = renaming(environment), environment.shown
    result = environment.result
    return {
        **result,
        "trials": [
            {**trial, "name": shown[trial["name"]], "files": shown_files(trial, shown[trial["name"]])}
            for trial in result["trials"]
        ],
        "pairs": [
            {
                **{**pair, "a": shown[pair["a"]], "b": shown[pair["b"]]},
                "warnings": [{**warning, "text": rename(warning["text"])} for warning in pair["warnings"]],
            }
            for pair in result["pairs"]
        ],
    }


def shown_files(trial: dict, shown: str) -> list[dict]:
    """Return the files of a trial, one per sample, with the shown names of the samples if the trial is renamed."""
    if shown == trial["name"]:
        return trial["files"]
    samples = shown.split(JOINED)
    if len(samples) != len(trial["files"]):
        samples = [shown] * len(trial["files"])
    return [{**file, "file": sample} for file, sample in zip(trial["files"], samples, strict=True)]


def environment_row(environment: Environment, place: int) -> dict:
    """Return the row of an environment in table consistency_environments (Table 2 of the CHOIR paper)."""
    runs, trials = environment.runs, environment.result["trials"]
    bound = environment.result["parameters"]["within_ns"][0]
    kappas = [run["kappa"] for run in runs if run["kappa"] is not None]
    others = environment.others
    return {
        **{"place": place, "environment": environment.name, "trials": len(trials), "runs": len(runs)},
        "samples": sum(len(environment.shown[trial["name"]].split(JOINED)) for trial in trials),
        "undefined_runs": sum(any(run[name] is None for name in COMPONENTS) for run in runs),
        **{"packets_baseline": runs[0]["n_a"], "packets_common": sum(run["n_common"] for run in runs)},
        **{name: mean(run[name] for run in runs) for name in MEANS},
        "kappa_others": mean(pair["kappa"] for pair in others) if others else None,
        **{"kappa_min": min(kappas, default=None), "kappa_max": max(kappas, default=None)},
        **{"within_ns": bound, "iat_within_share": mean(run["within_ns"][str(bound)] for run in runs)},
        **{name: mean(replayer_and_path(run)[name] for run in runs) for name in replayer_and_path({})},
        "cpu_lost_trials": trials_without_cpu(environment),
        **{f"{m}_delta_mean_ns": mean(run[f"{m}_delta_ns"]["mean"] for run in runs) for m in MEASURES},
    }


def trials_without_cpu(environment: Environment) -> int | None:
    """Return the number of trials whose sender lost the CPU; None if this is unknown for all of them."""
    lost = [cpu_lost(replay) for replay in environment.replays.values()]
    return None if all(known is None for known in lost) else sum(map(bool, lost))


def comparisons(environments: list[Environment]) -> list[dict]:
    """Return the rows of table consistency_comparisons: each environment with each later one."""
    from acapella.kappa.environments import compared  # noqa: PLC0415 (numpy)

    return compared(
        [(env.name, [run["kappa"] for run in env.runs if run["kappa"] is not None]) for env in environments]
    )


def mean(values) -> float | None:
    """Return the mean of the defined values; None if there are none. It does not depend on their order."""
    defined = [value for value in values if value is not None]
    return statistics.fmean(defined) if defined else None


BY_PAIR = {
    "consistency": pairs,
    "consistency_within": within,
    "consistency_moves": moves,
    "consistency_timeline": timeline,
    "consistency_deltas": deltas,
    "consistency_spacing": spacing,
    "consistency_warnings": warnings,
}
TABLES = (*BY_PAIR, "consistency_replays", "consistency_environments", "consistency_comparisons")
