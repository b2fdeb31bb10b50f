"""Writes the files of a release from which Snakemake recreates tables and figures: config.yaml and captures.tsv.

config.yaml contains only keys that determine results, so that Snakemake can only analyze the captures of a release.
captures.tsv is a sample sheet of testbed `files`.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from acapella.campaign.layout import Campaign
from acapella.campaign.reported import CONFIG as CAMPAIGN_CONFIG
from acapella.campaign.reported import FAILED, samples_without_reports
from acapella.common.pseudonyms import environment_pseudonyms
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

CONFIG, SHEET = "config.yaml", "captures.tsv"
CAMPAIGN_KEYS = ("analysis", "consistency", "figures", "flowreports", "trials")  # config keys copied to a release
# Keys of flowreports that are copied: all except those of the study, which measures a machine.
FLOWREPORT_KEYS = ("samples", "sketch", "triggers", "sketches", "epoch", "window", "interval")
INNER_KEYS = {  # config keys that a release may set only in part, each with the inner keys that it may set
    **{"digest": ("engine",), "flowreports": FLOWREPORT_KEYS, "infrastructure": ("bin_s", "line_rate_share")},
}
STUDY = "infrastructure"  # its files are in the release
KEYS = (*CAMPAIGN_KEYS, "digest", STUDY)  # config keys that a release may contain
RESULTS = "results"  # directory of the tables and figures that were computed from the released captures
SHEET_COLUMNS = ("sample", "site", "port", "file", "start", "restriction")
DEPARTURES = "trials: kappa is not corrected for departure times, because recordings and departures are not released"
HEADER = """\
# Recreates the tables and figures in results/ from the captures. In a clone of Acapella:
#     make reproduce DATA=PATH-OF-THIS-DIRECTORY
"""


def write(part: Path, campaign: Path, samples: Sequence, engines: Sequence[str], *, hidden: bool) -> list[str]:
    """Write config.yaml and captures.tsv to the release in ``part``; return reasons why results cannot be reproduced.

    ``samples``: the released samples; ``engines``: the engine of each.
    """
    lines = ["\t".join(SHEET_COLUMNS), *("\t".join(sheet_row(sample)) for sample in samples)]
    if samples:
        atomic_text(part / SHEET, "\n".join(lines) + "\n")
    config, notes = released_config(campaign, samples, engines, hidden=hidden)
    atomic_text(part / CONFIG, HEADER + yaml.safe_dump(config, sort_keys=False))
    return notes


def sheet_row(sample) -> list[str]:
    """Return the line of a sample in captures.tsv. Filter texts and program names are not published."""
    about = sample.about
    reasons = filter(None, (about["restriction"] or "").split(", "))
    rate = f" {about['one_in']}" if (about["one_in"] or 1) > 1 else ""
    restriction = "; ".join(reason + rate if reason == "sampling" else reason for reason in reasons)
    start = "" if about["requested_start_ns"] is None else str(about["requested_start_ns"])
    return [sample.name, sample.site, sample.port, f"captures/{sample.name}.pcap", start, restriction]


def released_config(
    campaign: Path, samples: Sequence, engines: Sequence[str], *, hidden: bool
) -> tuple[dict, list[str]]:
    """Return the config of a release, and notes about results that it does not recreate."""
    config, notes = campaign_config(campaign), []
    config["digest"] = {"engine": engines[0]} if engines else {}
    if len(set(engines)) > 1:
        notes.append(f"config.yaml has engine {engines[0]} for all samples; acap/ was created with several engines")
    compared = config.get("consistency", {})
    if config.get("trials") and (compared.get("filter") or compared.get("flow")):
        notes.append("trials: they were selected by addresses, which are not published")
        del config["trials"]
    if config.get("trials"):
        config["trials"] = renamed_trials(config["trials"], {s.sample: s.name for s in samples}, hidden=hidden)
        if config["trials"] is None:
            notes.append("trials: not all of their samples are in the release")
        elif has_departures(Campaign.at(campaign), samples):
            notes.append(DEPARTURES)
    study = campaign_study(campaign)
    config[STUDY] = {key: study[key] for key in INNER_KEYS[STUDY] if key in study}
    flowreports = config.pop("flowreports", {})
    if flowreports.get("samples"):
        config["flowreports"], missing = renamed_flowreports(
            flowreports, {s.sample: s.name for s in samples}, samples_without_reports(campaign)
        )
        notes += [f"flow reports of samples that are not in the release ({missing})"] if missing else []
    config["consistency"] = {key: value for key, value in compared.items() if key not in ("filter", "flow")}
    return {key: value for key, value in config.items() if value}, notes


def has_departures(campaign: Campaign, samples: Sequence) -> bool:
    """Return whether a manifest of the samples lists departures, with which kappa is corrected."""
    for sample in samples:
        try:
            replay = json.loads(campaign.manifest(sample.sample).read_text(encoding="utf-8")).get("replay")
        except (OSError, ValueError, AttributeError):
            continue  # other stages report an invalid manifest
        if isinstance(replay, dict) and replay.get("departures"):
            return True
    return False


def campaign_config(campaign: Path) -> dict:
    """Return CAMPAIGN_KEYS of the config of the campaign's last run of Snakemake; {} without such a run."""
    return from_stored_config(campaign, kept_keys)


def campaign_study(campaign: Path) -> dict:
    """Return config key `infrastructure` of the campaign's last run, with its files; {} without a study."""
    return from_stored_config(campaign, lambda config: dict(config.get(STUDY, {})))


def from_stored_config(campaign: Path, select: Callable[[dict], dict]) -> dict:
    """Return ``select(config)`` for the config of the campaign's last run; {} without such a run. Raises UserError."""
    path = campaign / CAMPAIGN_CONFIG
    if not path.is_file():
        return {}
    try:
        return select(dict(json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"not a config: {error}", where=path, fix="delete it, or run snakemake again") from error


def kept_keys(config: Mapping) -> dict:
    """Return CAMPAIGN_KEYS of a config, without the keys in them that a release must not set."""
    return {
        key: {name: config[key][name] for name in INNER_KEYS[key] if name in config[key]}
        if key in INNER_KEYS
        else config[key]
        for key in CAMPAIGN_KEYS
        if key in config
    }


def write_campaign_config(campaign: Path, config: Mapping, without_reports: Iterable[str] = ()) -> None:
    """Write CAMPAIGN_KEYS of the config to the campaign's directory, for a later release of the campaign.

    Environments of trials keep their order, because tables list them in that order. Key `infrastructure` is
    written with the study's files. ``without_reports``: samples whose flow reports failed; stages of flow reports omit
    them.
    """
    path = campaign / CAMPAIGN_CONFIG
    study = config.get(STUDY) or {}
    has_files = any(isinstance(value, list) and value for value in study.values())
    kept = kept_keys(config) | ({STUDY: study} if has_files else {})
    if failed := [*without_reports]:
        kept["flowreports"] = {**kept["flowreports"], FAILED: failed}
    text = json.dumps(kept, indent=2) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        atomic_text(path, text)


def renamed_flowreports(
    flowreports: Mapping, names: Mapping[str, str], failed: Collection[str] = ()
) -> tuple[dict, int]:
    """Return the config key with the names of samples in the release, and the number of unreleased samples.

    ``failed``: samples whose flow reports failed, which the release does not recreate.
    """
    samples = flowreports["samples"]
    if samples == "all" and not failed:
        return dict(flowreports), 0
    samples = [sample for sample in (names if samples == "all" else samples) if sample not in failed]
    released = [names[sample] for sample in samples if sample in names]
    return ({**flowreports, "samples": released} if released else {}), len(samples) - len(released)


def renamed_trials(trials: Mapping, names: Mapping[str, str], *, hidden: bool) -> dict | None:
    """Return trials with the names of samples in the release; None if a sample is not released."""
    groups = {
        environment: [[trial] if isinstance(trial, str) else list(trial) for trial in environment_trials]
        for environment, environment_trials in trials.items()
    }
    if not {sample for trials in groups.values() for trial in trials for sample in trial} <= names.keys():
        return None
    public_names = environment_pseudonyms([*groups]) if hidden else [*groups]
    return {
        name: [[names[sample] for sample in trial] for trial in environment_trials]
        for name, environment_trials in zip(public_names, groups.values(), strict=True)
    }
