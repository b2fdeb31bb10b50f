"""Functions shared by the figures of trials: pairs, names of runs, and subtitles."""

from collections.abc import Iterable

from acapella.campaign.trial_tables import JOINED
from acapella.common.wording import count, listed, short_labels
from acapella.kappa.baseline import CODE as ODD_BASELINE

from .quality import loss_summary
from .source import NoData, Source

MARK = "\N{DAGGER}"  # marks trials whose sender lost the CPU
MAX_LABEL, MAX_NAMED = 28, 3  # in a note: characters of an environment's name; environments named
BASELINE = 1  # number of the trial with which the others are compared


def trial_letter(number: int) -> str:
    """Return the letter of a trial as in the paper (A is the baseline), or the number of a trial after the 26th."""
    return chr(ord("A") + number - 1) if number <= 26 else str(number)


def trial_names(source: Source) -> dict[tuple[str, int], str]:
    """Return the name of each trial, by environment and number of the trial."""
    rows = source.rows("consistency")
    return {(row["environment"], row[end]): row[f"trial_{end}"] for row in rows for end in ("a", "b")}


def trial_labels(source: Source, limit: int) -> dict[tuple[str, int], str]:
    """Return a label for each trial by environment and number: its name, preceded by the environment if needed."""
    names = trial_names(source)
    long_names = {key: name if name.startswith(key[0]) else f"{key[0]}: {name}" for key, name in names.items()}
    distinct = short_labels(dict.fromkeys(long_names.values()), limit)
    lost = trials_without_cpu(source)
    labels = {key: marked(distinct[text], key in lost) for key, text in sorted(long_names.items())}
    uses: dict[str, int] = {}
    for key, label in labels.items():  # trials of two environments may have the same label
        uses[label] = uses.get(label, 0) + 1
        if uses[label] > 1:
            labels[key] = f"{label} ({uses[label]})"
    return labels


def trials_without_cpu(source: Source) -> set[tuple[str, int]]:
    """Return the trials, by environment and number, whose sender lost the CPU for longer than its median gap."""
    return {(row["environment"], row["trial"]) for row in source.rows("consistency_replays") if row["cpu_lost"]}


def lost_cpu_text(source: Source, names: Iterable[str]) -> str:
    """Return in how many trials of the environments ``names`` the sender lost the CPU, for a title; "" if in none."""
    rows = [row for row in source.rows("consistency_replays") if row["environment"] in set(names)]
    cpu_lost = [row["cpu_lost"] for row in rows if row["cpu_lost"] is not None]
    return f"the sender lost the CPU in {sum(cpu_lost)} of {count(len(cpu_lost), 'trial')}" if any(cpu_lost) else ""


def marked(label: str, lost: bool) -> str:
    """Return the label of a trial, marked if its sender lost the CPU."""
    return f"{label} {MARK}" if lost else label


def environments(source: Source) -> list[str]:
    """Return the environments in the order of the config."""
    rows = sorted(source.rows("consistency_environments"), key=lambda row: row["place"])
    return [row["environment"] for row in rows]


def pairs(source: Source) -> list[dict]:
    """Return the rows of consistency, sorted by environment and trials. Raises NoData if there are none."""
    position = {name: index for index, name in enumerate(environments(source))}
    rows = source.rows("consistency")
    if not rows:
        raise NoData("no trials were compared")
    return sorted(rows, key=lambda row: (position[row["environment"]], row["a"], row["b"]))


def runs_against_first(rows: list[dict]) -> list[dict]:
    """Return the rows that compare a run with its baseline."""
    return [row for row in rows if row["a"] == BASELINE]


def environments_with_outlier_baseline(source: Source) -> set[str]:
    """Return the environments whose other trials agree with each other, but not with the first trial."""
    return {row["environment"] for row in source.rows("consistency_warnings") if row["code"] == ODD_BASELINE}


def environments_without_other_pairs(source: Source) -> list[str]:
    """Return the environments with three or more trials in which only pairs with the first trial were compared."""
    pairs_ = source.rows("consistency")
    return [
        row["environment"]
        for row in sorted(source.rows("consistency_environments"), key=lambda row: row["place"])
        if row["trials"] > 2 and not any(p["environment"] == row["environment"] and p["a"] > BASELINE for p in pairs_)
    ]


def scope(source: Source) -> tuple[str, ...]:
    """Return the numbers of trials and packets compared with the first trial, and the losses of their captures."""
    compared = runs_against_first(source.rows("consistency"))
    return comparison_scope(source, compared, f"{count(len(compared), 'run')} against the first trial")


def scope_of_pairs(source: Source) -> tuple[str, ...]:
    """Return the same as `scope` for all pairs of trials."""
    pairs_ = source.rows("consistency")
    return comparison_scope(source, pairs_, count(len(pairs_), "pair"))


def comparison_scope(source: Source, compared: list[dict], description: str) -> tuple[str, ...]:
    """Return the same as `scope` for the pairs ``compared``, which the text ``description`` describes."""
    rows = source.rows("consistency")
    names = {name for row in rows for trial in ("trial_a", "trial_b") for name in row[trial].split(JOINED)}
    trials = len({(row["environment"], row[end]) for row in rows for end in ("a", "b")})
    packets = sum(row["packets_common"] for row in compared)
    environments_ = count(len(environments(source)), "environment")
    samples = f"{count(len(names), 'sample')} as {count(trials, 'trial')} of {environments_}"
    unmatched = sum(row["packets_a"] + row["packets_b"] - 2 * row["packets_common"] for row in compared)
    packets = f"{count(packets, 'packet')} in common, {unmatched:,} in only one of two trials (U)"
    losses = loss_summary([row for row in source.quality if row["sample"] in names])
    return f"{samples}; {description}", f"{packets}; capture {losses}", *cpu_note(source)


def cpu_note(source: Source) -> tuple[str, ...]:
    """Return a note on the trials whose sender lost the CPU, if any."""
    lost = trials_without_cpu(source)
    if not lost:
        return ()
    with_sender = [row for row in source.rows("consistency_replays") if row["cpu_lost"] is not None]
    text = f"{MARK} the sender lost the CPU for longer than the median gap of its packets: in {len(lost)} of "
    first = short_labels([env for env in environments(source) if (env, BASELINE) in lost], MAX_LABEL)
    can_be_named = 0 < len(first) <= MAX_NAMED
    where = listed(list(first.values())) if can_be_named else count(len(first), "environment")
    baseline_part = f"; also in the first trial of {where}" if first else ""
    return (f"{text}{count(len(with_sender), 'trial')} with a known sender{baseline_part}.",)
