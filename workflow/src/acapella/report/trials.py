"""Creates the report's section on trials: environments, warnings, runs, moved packets, and the paper's numbers."""

from acapella.common.wording import count, listed, nanoseconds, natural, percent, span
from acapella.figures.comparison import (
    MARK,
    environments,
    environments_with_outlier_baseline,
    environments_without_other_pairs,
    marked,
    pairs,
    runs_against_first,
    trial_letter,
)
from acapella.figures.kappa_components import format_kappa
from acapella.figures.source import Source
from acapella.kappa.warnings import TRIAL_CHECKS

from .tables import UNKNOWN, number, table

COMPONENTS = ("U", "O", "I", "L")  # in the order of the paper's Table 2
MAX_PAIRS = 400  # rows shown of a table of pairs
UNDEFINED = "undefined"
TRIAL_CODES = {check.__name__ for check in TRIAL_CHECKS}  # codes of warnings about one trial
VERDICTS = {"agrees": "agrees", "agrees_loosely": "agrees loosely", "disagrees": "disagrees"}


def tables(source: Source, *, papers: bool) -> list[dict]:
    """Return the tables of the section; the first one compares the environments.

    ``papers`` adds the numbers printed in the CHOIR paper as the last table.
    """
    return [
        environments_table(source),
        pairs_table(source),
        moves_table(source),
        *([replays_table(source)] if source.rows("consistency_replays") else []),
        *([published_table(source)] if papers else []),
    ]


def warnings(source: Source) -> list[str]:
    """Return each warning once, with its runs. A warning about several trials is returned once with their number."""
    about: dict[tuple, dict[str, list[str]]] = {}
    for row in source.rows("consistency_warnings"):
        run = trial_letter(row["b"]) if row["a"] == 1 else f"{trial_letter(row['a'])}-{trial_letter(row['b'])}"
        # Warnings about single trials differ only in names and numbers; warnings about pairs may differ in other ways.
        kind = (row["environment"], row["components"], row["code"] if row["code"] in TRIAL_CODES else row["text"])
        about.setdefault(kind, {}).setdefault(row["text"], []).append(run)
    order = {name: index for index, name in enumerate(environments(source))}
    trials = {row["environment"]: row["trials"] for row in source.rows("consistency_environments")}
    kinds = sorted(about.items(), key=lambda item: (order[item[0][0]], min(item[1])))
    return [*different_packets(source), *(warning_text(*kind[:2], texts, trials[kind[0]]) for kind, texts in kinds)]


def different_packets(source: Source) -> list[str]:
    """Return a sentence per environment whose trials contain different packets; no other counter includes these."""
    found = []
    for name in environments(source):
        rows = [row for row in pairs(source) if row["environment"] == name]
        missing = [max(row["packets_a"], row["packets_b"]) - row["packets_common"] for row in rows]
        if any(missing):
            found.append(
                f"{name}, {sum(map(bool, missing))} of {count(len(rows), 'pair')} (U): a trial has up to "
                f"{max(missing):,} packets that the other lacks. They were lost (possibly before the mirror, where "
                "losses are not counted), or do not belong to the trial."
            )
    return found


def warning_text(environment: str, components: str, texts: dict[str, list[str]], trials: int) -> str:
    """Return a warning as text. ``texts``: runs by text; several texts if the warning concerns several trials."""
    text = min(texts, key=natural)
    if len(texts) == 1:
        return f"{environment}, {runs_text(texts[text])} ({listed(list(components))}): {text}"
    return (
        f"{environment}, {len(texts)} of {trials} trials ({listed(list(components))}): {text} Similarly for the "
        "others; consistency_warnings.csv contains the numbers of each."
    )


def runs_text(names: list[str]) -> str:
    """Return the names of runs: ``run B``, ``runs B and C``; the number of pairs if there are more than 6."""
    if len(names) > 6:
        return count(len(names), "pair")
    return f"run{'s' * (len(names) > 1)} {listed(names)}"


def component_text(value: float | None) -> str:
    """Return a component with three significant digits."""
    return UNDEFINED if value is None else f"{value:.3g}"


def kappa_text(value: float | None) -> str:
    """Return kappa with four digits; close to 1, the difference from 1."""
    return UNDEFINED if value is None else format_kappa(value)


def share_text(value: float | None) -> str:
    """Return a share in percent."""
    return UNDEFINED if value is None else percent(value)


def time_text(value: float | None) -> str:
    """Return a difference in ns as text with a unit."""
    return UNDEFINED if value is None else nanoseconds(round(value))


def environments_table(source: Source) -> dict:
    """Return the table of environments, in the layout of the paper's Table 2."""
    rows = sorted(source.rows("consistency_environments"), key=lambda row: row["place"])
    bounds = sorted({row["within_ns"] for row in rows})
    iat_heading = f"IAT within {', '.join(nanoseconds(bound) for bound in bounds)}"
    columns = [("Environment", False), ("Kappa", True), ("Smallest", True), ("Largest", True), ("Others", True)]
    columns += [*((name, True) for name in COMPONENTS), ("Runs", True), ("In common", True)]
    columns += [(iat_heading, True), ("IAT difference", True), ("Latency difference", True)]
    columns += [("Replayer", True), ("Path", True), ("Lost CPU", True)]
    cells = [
        [
            row["environment"],
            *(kappa_text(row[name]) for name in ("kappa", "kappa_min", "kappa_max")),
            "" if row["kappa_others"] is None else kappa_text(row["kappa_others"]),
            *(component_text(row[name]) for name in COMPONENTS),
            *(number(row["runs"]), number(row["packets_common"])),
            *(
                share_text(row["iat_within_share"]),
                time_text(row["iat_delta_mean_ns"]),
                time_text(row["latency_delta_mean_ns"]),
            ),
            *replay_cells(row),
        ]
        for row in rows
    ]
    undefined = sum(row["undefined_runs"] for row in rows)
    note = (
        "Means over the runs, each against the first trial of its environment, as in Table 2 of the CHOIR paper. In "
        "common: packets, summed over the runs. Differences: mean absolute differences."
    )
    note += baseline_note(source)
    if any(row["kappa_replayer"] is not None for row in rows):
        note += (
            " Replayer: kappa of the departures, without any network. Path: 95 % confidence interval of the kappa "
            "that perfect replays would have had. Lost CPU: trials whose sender did not run for longer than the median "
            "gap between its packets."
        )
    if undefined:
        note += f" {count(undefined, 'run')} with undefined components; the means are over the others."
    return table("consistency_environments", "Environments compared", note, columns, cells)


def replay_cells(row: dict) -> list[str]:
    """Return kappa of the replayer and of the path, and the number of trials whose sender lost the CPU, if known."""
    ends = [row[f"path_kappa_{end}"] for end in ("lo", "hi")]
    return [
        "" if row["kappa_replayer"] is None else kappa_text(row["kappa_replayer"]),
        "" if None in ends else span(*map(kappa_text, ends)),
        "" if row["cpu_lost_trials"] is None else f"{row['cpu_lost_trials']} of {row['trials']}",
    ]


def baseline_note(source: Source) -> str:
    """Return a note on the first trial, with which all others are compared."""
    notes = ""
    if any(row["kappa_others"] is not None for row in source.rows("consistency_environments")):
        notes += " Others: mean kappa of the pairs without the first trial."
    if without_other_pairs := environments_without_other_pairs(source):
        notes += (
            f" In {listed(without_other_pairs)}, every run is compared only with the first trial, so it is not known "
            "whether that trial is an outlier; set consistency.all_pairs: true to compare all pairs."
        )
    first_is_outlier = environments_with_outlier_baseline(source)
    if outliers := [name for name in environments(source) if name in first_is_outlier]:
        notes += (
            f" The first trial of {listed(outliers)} is an outlier: the others agree with each other but not with it; "
            "see Others."
        )
    return notes


def pairs_table(source: Source) -> dict:
    """Return the table of all compared pairs."""
    rows = pairs(source)
    columns = [("Environment", False), ("Pair", False), ("Kappa", True), *((name, True) for name in COMPONENTS)]
    columns += [("IAT 99 %", True), ("Latency 99 %", True), ("In common", True), ("Packets", True)]
    columns += [("O as published", True), ("O by Kendall", True), ("L, offset removed", True)]
    columns += [("Kappa as published", True), ("Trial", False), ("Against", False)]
    cells = [
        [
            *(row["environment"], f"{trial_letter(row['a'])}-{trial_letter(row['b'])}", kappa_text(row["kappa"])),
            *(component_text(row[name]) for name in COMPONENTS),
            *(time_text(row[f"{measure}_delta_p99_ns"]) for measure in ("iat", "latency")),
            *(number(row["packets_common"]), f"{row['packets_b']:,} / {row['packets_a']:,}"),
            *(component_text(row[name]) for name in ("O_published", "O_kendall", "L_offset_removed")),
            *(kappa_text(row["kappa_published"]), row["trial_b"], row["trial_a"]),
        ]
        for row in rows[:MAX_PAIRS]
    ]
    note = (
        "Packets: of the trial / of the trial that it is compared with. O as published: as printed in the paper, twice "
        "the mean distance of the moved packets over N + 1; O is its equation 2. 99 %: of absolute differences."
    )
    return table("consistency", "Each pair of trials", note + truncation_note(rows), columns, cells)


def moves_table(source: Source) -> dict:
    """Return the table of moved packets, in the layout of the paper's Table 1."""
    order = {name: index for index, name in enumerate(environments(source))}
    rows = sorted(
        runs_against_first(source.rows("consistency_moves")),
        key=lambda r: (order[r["environment"]], r["b"], r["scope"] != "packet"),
    )
    columns = [("Environment", False), ("Run", False), ("Of", False), ("Moved", True), ("Mean (sigma)", True)]
    columns += [("Absolute mean (sigma)", True), ("Smallest", True), ("Largest", True), ("Longest", True)]
    names = {"packet": "packets", "burst": "bursts"}
    cells = [
        [
            *(row["environment"], trial_letter(row["b"]), names[row["scope"]], number(row["moved"])),
            *(mean_and_sigma(row, "mean", "sigma"), mean_and_sigma(row, "abs_mean", "abs_sigma")),
            *("" if row[name] is None else f"{row[name]:,}" for name in ("min", "max")),
            number(row["longest"]) if row["scope"] == "burst" else "",
        ]
        for row in rows[:MAX_PAIRS]
    ]
    note = (
        "Number of positions by which packets moved relative to the first trial, as in Table 1 of the CHOIR paper. "
        "Bursts: packets that moved together; longest: in packets."
    )
    return table("consistency_moves", "Moves", note + truncation_note(rows), columns, cells)


def replays_table(source: Source) -> dict:
    """Return the table of how a testbed sent the trials, and the delays of the sender."""
    order = {name: index for index, name in enumerate(environments(source))}
    rows = sorted(source.rows("consistency_replays"), key=lambda row: (order[row["environment"]], row["trial"]))
    columns = [("Environment", False), ("Trial", False), ("Sender", False), ("Replayers", True), ("Polling", False)]
    columns += [("Priority", True), ("Speed", True), ("Path", False), ("Mbit/s", True), ("Noise", True)]
    columns += [("Late", True), ("Preempted", True), ("Largest gap", True), ("Median gap", True), ("Skew", True)]
    columns += [("Reversed", True), ("Sent in order", True), ("Unexplained", True)]
    cells = [
        [
            *(row["environment"], trial_letter(row["trial"]), row["sender"], number(row["replayers"])),
            *(row["polling"] or "", number(row["priority"]), f"{row['speed']:g}", row["path"]),
            *(rate_text(row["rate_bps"]), number(row["noise_streams"]), number(row["sent_late"])),
            number(row["preemptions"]),
            *(gap_text(row["largest_gap_ns"], mark=row["cpu_lost"]), gap_text(row["median_gap_ns"])),
            "" if row["skew_ns"] is None else f"{nanoseconds(row['skew_ns'])} ± {nanoseconds(row['skew_error_ns'])}",
            "" if row["reversed_pairs"] is None else f"{row['reversed_pairs']:,} of {row['replayer_pairs']:,}",
            *("" if row[name] is None else number(row[name]) for name in ("sent_in_order_pairs", "unexplained_pairs")),
        ]
        for row in rows[:MAX_PAIRS]
    ]
    note = (
        "Noise: TCP streams on the link between the sites. Late: packets sent more than 1 µs after their time. Largest "
        f"gap: the longest time that the sender did not run although it should have; {MARK} if it exceeds the median "
        "gap between packets. Skew: between the earliest and the latest replayer. "
        "Reversed: neighbors in the requested order, of different replayers, that arrived in reverse order; "
        "sent in order: of these, pairs that certainly departed in order; unexplained: of these, pairs requested "
        "farther apart than the skew and their departure errors. tcpreplay measures none of these."
    )
    return table("consistency_replays", "How trials were sent", note + truncation_note(rows), columns, cells)


def rate_text(rate_bps: int | None) -> str:
    """Return a rate in Mbit/s; a question mark if it is unknown, as on testbed fabric."""
    return UNKNOWN if rate_bps is None else f"{rate_bps / 1e6:g}"


def gap_text(value: int | None, *, mark: bool | None = False) -> str:
    """Return a gap as text; marked if the sender lost the CPU."""
    return "" if value is None else marked(nanoseconds(value), bool(mark))


def mean_and_sigma(row: dict, mean: str, sigma: str) -> str:
    """Return mean and standard deviation: ``1,790.54 (8,111.16)``; empty if nothing moved."""
    return "" if row[mean] is None else f"{row[mean]:,.2f} ({row[sigma]:,.2f})"


def truncation_note(rows: list[dict]) -> str:
    """Return a note if not all rows are shown."""
    return f" The first {MAX_PAIRS} rows of {len(rows):,}; the CSV file contains all." if len(rows) > MAX_PAIRS else ""


def published_table(source: Source) -> dict:
    """Return the table of the paper's numbers with the recomputed ones."""
    rows = sorted(source.rows("kappa_published"), key=lambda row: row["row"])
    columns = [("Environment", False), ("Run", False), *((name, True) for name in COMPONENTS), ("Kappa printed", True)]
    columns += [("Recomputed", True), ("Verdict", False), ("I that kappa implies", True), ("Erratum", False)]
    cells = [
        [
            *(row["environment"], row["run"], *(f"{row[name]:.4g}" for name in COMPONENTS), f"{row['kappa']:.4f}"),
            *(f"{row['kappa_recomputed']:.4f}", VERDICTS[row["verdict"]]),
            UNKNOWN if row["I_implied"] is None else f"{row['I_implied']:.4f}",
            row["erratum"] or "",
        ]
        for row in rows
    ]
    agree = sum(row["verdict"] != "disagrees" for row in rows)
    note = (
        f"Kappas printed in the CHOIR paper, recomputed by its equation 5: {agree} of {len(rows)} follow from the "
        "components next to them, within their rounding. This table contains no measurement of the campaign."
    )
    return table("kappa_published", "The paper's numbers, recomputed", note, columns, cells)
