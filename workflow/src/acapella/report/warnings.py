"""Creates the warnings of the report: losses, coarse clocks, damaged files, and missing or excluded samples."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from acapella.campaign.clocks import clock_resolution
from acapella.campaign.failed_samples import KIND, read_records
from acapella.campaign.layout import Campaign, existing_provenance
from acapella.common.pseudonyms import FILE as PSEUDONYMS
from acapella.common.wording import count, nanoseconds, percent, scaled
from acapella.figures import restrictions
from acapella.figures.quality import mirror_loss_bounds
from acapella.figures.silences import bin_length, has_empty_bins, mostly_silent
from acapella.figures.source import Source
from acapella_core import sheets

YEAR_NS = 31_557_600_000_000_000
COARSE_NS = 1000  # at this resolution, frames of a 10 Gbit/s link, which are at least 67 ns apart, share timestamps
MAX_NAMED = 8  # samples listed by name in a warning; others are counted


def collect(
    source: Source,
    excluded: Sequence[str] = (),
    failed: Sequence[str] = (),
    without_reports: Sequence[str] = (),
) -> list[str]:
    """Return one sentence per warning, the most severe first.

    ``excluded``: samples that the config excludes; ``failed``: samples that failed and are in no table;
    ``without_reports``: samples whose flow reports failed.
    """
    rows = source.quality
    warnings = [
        not_collected(source),
        failed_samples(source, failed),
        failed_samples(source, without_reports, "flow reports of "),
        missing_samples(source, [*excluded, *failed]),
        excluded_by_config(source, excluded),
        *excluded_from_statistics(source),
        restricted(source),
        *(check(rows) for check in (damaged_files, empty)),
        *(check(source.traffic) for check in (sampled, filtered, repeated, overlapping)),
        *(check(rows) for check in (lossy, unknown, congested)),
        *(check(rows) for check in (untimed, implausible, misdated, far_apart)),
        silent(source),
        *(check(rows) for check in (coarse, reversed_, malformed, undissected)),
    ]
    return [text for text in [*warnings, unsure(rows), undecided(rows), ambiguous(rows)] if text]


def sample_names(rows: list[dict]) -> str:
    """Return the names of the first samples, and the number of further ones."""
    return shorten_list([row["sample"] for row in rows])


def shorten_list(names: list[str], separator: str = ", ") -> str:
    """Return the first elements of a list, and the number of further ones."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return separator.join(names[:MAX_NAMED]) + more


def not_collected(source: Source) -> str | None:
    """Return the warning about planned samples that were not collected (raw/failed.tsv).

    If the tables have pseudonyms, it contains only the pseudonyms of sites and ports.
    """
    raw = source.campaign.directory / "raw"
    rows = sheets.read(raw / "failed.tsv", sheets.FAILED)
    if not rows:
        return None
    planned = len(rows) + len(sheets.read(raw / "samples.tsv"))
    text = f"{count(len(rows), 'sample')} of {planned} were not collected and are not included in any number: "
    if has_pseudonyms(source.campaign):
        return f"{text}{shorten_list(failed_ports(rows, source.campaign))}. raw/failed.tsv lists the reasons."
    return text + shorten_list([f"{row['sample']} ({row['why'].rstrip('.')})" for row in rows], "; ") + "."


def has_pseudonyms(campaign: Campaign) -> bool:
    """Return whether the tables have pseudonyms, according to their provenance; True if it cannot be read."""
    path = existing_provenance(campaign, "process")
    try:
        provenance = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a different part of the page reports this
        return True
    return bool(provenance.get("parameters", {}).get("pseudonyms"))


def failed_ports(rows: list[dict], campaign: Campaign) -> list[str]:
    """Return the pseudonyms of sites and ports of samples that were not collected.

    Sites and ports without any collected sample have no pseudonym. Reasons are omitted: they may contain original
    names.
    """
    mapping = sheets.read(campaign.directory / PSEUDONYMS, {})
    sites = {row["true_site"]: row["site"] for row in mapping}
    ports = {(row["true_site"], row["true_port"]): row["port"] for row in mapping}
    counts = Counter(
        f"{sites.get(row['site'], 'another site')} {ports.get((row['site'], row['port']), 'another port')}"
        for row in rows
    )
    return [name + (f" ({number} samples)" if number > 1 else "") for name, number in sorted(counts.items())]


def collected(source: Source) -> list[str]:
    """Return the original names of the collected samples."""
    return [row["sample"] for row in sheets.read(source.campaign.directory / "raw" / "samples.tsv")]


def failed_samples(source: Source, failed: Sequence[str], part: str = "") -> str | None:
    """Return the warning about samples that failed: names, reasons and logs, or with pseudonyms only their number.

    ``part``: prefix of the sentence if only a part of their results failed.
    """
    if not failed:
        return None
    verb = "is" if len(failed) == 1 and not part else "are"
    text = f"{part}{count(len(failed), 'sample')} of {len(collected(source))} failed and {verb} in no table or figure"
    text = text[0].upper() + text[1:]
    if has_pseudonyms(source.campaign):
        return f"{text}."
    records = read_records(source.campaign.directory)
    parts = []
    for name in failed[:MAX_NAMED]:
        record = records.get(name, {})
        log = source.campaign.name(KIND, name, ".log")
        parts.append(f"{name} ({record.get('rule', '?')}: {record.get('reason', '?')}; {log})")
    return f"{text}: {'; '.join(parts)}{'; ...' if len(failed) > MAX_NAMED else '.'}"


def missing_samples(source: Source, excluded: Sequence[str]) -> str | None:
    """Return the warning about collected samples that are in no table.

    It contains only their number, because the tables may have pseudonyms instead of their names.
    """
    names = collected(source)
    missing = len(set(names) - set(excluded)) - len(source.quality)
    if missing <= 0:
        return None
    return f"{count(missing, 'collected sample')} of {len(names)} not in this report; see logs/ for the reasons."


def excluded_by_config(source: Source, excluded: Sequence[str]) -> str | None:
    """Return the warning about collected samples that the config excludes; names only without pseudonyms."""
    names = collected(source)
    excluded_names = [name for name in names if name in excluded]
    if not excluded_names:
        return None
    text = f"{count(len(excluded_names), 'collected sample')} of {len(names)} excluded by the config"
    return f"{text}." if has_pseudonyms(source.campaign) else f"{text}: {shorten_list(excluded_names)}."


def excluded_from_statistics(source: Source) -> list[str]:
    """Return one sentence for each reason why samples are excluded from traffic statistics."""
    groups = defaultdict(list)
    for row in source.excluded:
        groups[row["excluded"]].append(row)
    sentences = []
    for reason, rows in sorted(groups.items()):
        frames = sum(row["frames"] for row in rows)
        sentences.append(
            f"{count(len(rows), 'sample')} of {len(source.quality)} with {count(frames, 'frame')} excluded from "
            f"traffic statistics ({restrictions.describe(reason)}): {sample_names(rows)}. "
            "To include them, set analysis.traffic: all."
        )
    return sentences


def restricted(source: Source) -> str | None:
    """Return the warning that no sample contains all traffic of its port."""
    if not restrictions.only_restricted(source):
        return None
    samples = restrictions.title_suffix(source)
    return f"No sample contains all traffic of its port; traffic statistics cover restricted samples{samples}."


def damaged_files(rows):
    """Return the warning about files that could not be read to the end."""
    damaged = [row for row in rows if row["file_issue"]]
    if not damaged:
        return None
    unread = sum(row["file_unread_bytes"] or 0 for row in damaged)
    skipped = f"; {scaled(unread, 'B')} after it were not read" if unread else ""
    return (
        f"{count(len(damaged), 'file')} could not be read to the end (all complete records before the error "
        f"are kept{skipped}): {sample_names(damaged)}."
    )


def empty(rows):
    """Return the warning about samples without frames."""
    without_frames = [row for row in rows if not row["frames"]]
    return (
        f"{count(len(without_frames), 'sample')} without frames: {sample_names(without_frames)}."
        if without_frames
        else None
    )


def sampled(rows):
    """Return the warning about samples of which the capture program kept one in N frames."""
    sampled_rows = [row for row in rows if (row["one_in"] or 1) > 1]
    if not sampled_rows:
        return None
    ratios = " or ".join(f"{number:,}" for number in sorted({row["one_in"] for row in sampled_rows}))
    samples = f"{count(len(sampled_rows), 'sample')} of {len(rows)}"
    return (
        f"One in {ratios} received frames kept in {samples}; counts, bytes and rates cover only these frames: "
        f"{sample_names(sampled_rows)}."
    )


def filtered(rows):
    """Return the warning about samples that only contain the frames passed by a filter or a P4 program."""
    filtered_rows = [row for row in rows if row["filtered"]]
    if not filtered_rows:
        return None
    number = count(len(filtered_rows), "sample")
    kept = f"Only frames passed by a filter or a P4 program kept in {number} of {len(rows)}"
    return f"{kept}: {sample_names(filtered_rows)}."


def repeated(rows):
    """Return the warning about samples with the same capture; None if there are none."""
    captures = Counter(row["sha256"] for row in rows if row["sha256"] and row["frames"])
    same_captures = [row for row in rows if captures[row["sha256"]] > 1]
    if not same_captures:
        return None
    return (
        f"{count(len(same_captures), 'sample')} of {len(rows)} have the same capture as another sample (SHA-256), so "
        "its frames "
        f"count several times: {sample_names(same_captures)}. Exclude all but one of them (exclude in the config)."
    )


def overlapping(rows):
    """Return the warning about samples of one port and direction that overlap in time, except duplicates."""
    distinct = {row["sha256"] or row["sample"]: row for row in reversed(rows)}.values()
    names = set()
    for other in ("tx", "rx"):  # samples of different directions contain different frames
        ports = defaultdict(list)
        for row in distinct:
            if row["direction"] != other and row["actual_start_ns"] is not None:
                ports[row["site"], row["port"]].append(row)
        for port_rows in ports.values():
            names |= overlaps(port_rows)
    overlapping_rows = [row for row in rows if row["sample"] in names]
    if not overlapping_rows:
        return None
    return (
        f"{count(len(overlapping_rows), 'sample')} of {len(rows)} overlap in time with another sample of their port: "
        f"{sample_names(overlapping_rows)}. A frame in two of them counts twice in frames, bytes and rates."
    )


def overlaps(rows: list[dict]) -> set[str]:
    """Return the names of samples of one port that overlap in time with another sample."""
    names, last = set(), None
    for row in sorted(rows, key=lambda row: (row["actual_start_ns"], row["actual_end_ns"])):
        if last and row["actual_start_ns"] < last["actual_end_ns"]:
            names |= {last["sample"], row["sample"]}
        if not last or row["actual_end_ns"] > last["actual_end_ns"]:
            last = row
    return names


def lossy(rows):
    """Return the warning about samples that lost frames."""
    with_loss = sorted((row for row in rows if row["loss_share"]), key=lambda row: -row["loss_share"])
    if not with_loss:
        return None
    worst = percent(with_loss[0]["loss_share"])
    lost = f"{count(len(with_loss), 'sample')} of {len(rows)} lost frames"
    return f"{lost}, up to {worst} of those offered: {sample_names(with_loss)}."


def unknown(rows):
    """Return the warning about samples without any counter of losses."""
    without_counters = [row for row in rows if row["lost_frames"] is None]
    return (
        f"The loss of {count(len(without_counters), 'sample')} of {len(rows)} is unknown: there are no counters."
        if without_counters
        else None
    )


def congested(rows):
    """Return the warning about mirrors that lost frames, or may have, without counters of the switch."""
    without_delivery = [row for row in rows if row["mirror_delivered"] is None]
    sentences = []
    for verdict, description in (("congested", "was congested"), ("at risk", "may have lost frames in bursts")):
        mirrors = sorted(
            (r for r in without_delivery if r["mirror_verdict"] == verdict), key=lambda r: -r["mirror_loss_high"]
        )
        if mirrors:
            number, bounds = count(len(mirrors), "sample"), mirror_loss_bounds(mirrors)
            sentences.append(f"The mirror of {number} of {len(rows)} {description}, {bounds}: {sample_names(mirrors)}.")
    return " ".join(sentences) or None


def untimed(rows):
    """Return the warning about frames without a timestamp in their file."""
    untimed_frames = {row["sample"]: row["untimed_frames"] - (row["implausible_frames"] or 0) for row in rows}
    with_untimed = [row for row in rows if untimed_frames[row["sample"]]]
    if not with_untimed:
        return None
    total, frames = sum(untimed_frames.values()), sum(row["frames"] for row in rows)
    return (
        f"{count(total, 'frame')} ({percent(total / frames)}) without a timestamp in their file, in "
        f"{sample_names(with_untimed)}: included in sizes, headers and flows, but not in durations, rates, throughput "
        "and "
        "handshake times."
    )


def implausible(rows):
    """Return the warning about frames dated outside the years 1970 to 2106; None if there are none."""
    with_implausible = [row for row in rows if row["implausible_frames"]]
    if not with_implausible:
        return None
    total, frames = sum(row["implausible_frames"] for row in with_implausible), sum(row["frames"] for row in rows)
    return (
        f"{count(total, 'frame')} ({percent(total / frames)}) dated outside the years 1970 to 2106, in "
        f"{sample_names(with_implausible)}: included in sizes, headers and flows, but not in durations, rates, "
        "throughput and "
        "handshake times."
    )


def misdated(rows):
    """Return the warning about samples dated years away from the others; None if there are none."""
    misdated_rows = [row for row in rows if row["misdated"]]
    if not misdated_rows:
        return None
    return (
        f"{count(len(misdated_rows), 'sample')} of {len(rows)} dated more than 10 years from the median start of the "
        f"campaign's samples, possibly because a clock was not set: {sample_names(misdated_rows)}. Title, duration and "
        "coverage of the campaign exclude them."
    )


def far_apart(rows):
    """Return the warning about the longest time in which no sample starts, if it is over a year; else None."""
    dated = [row for row in rows if row["actual_start_ns"] is not None and not row["misdated"]]
    dated.sort(key=lambda row: row["actual_start_ns"])
    starts = [row["actual_start_ns"] for row in dated]
    gaps = [(later - earlier, index) for index, (earlier, later) in enumerate(pairwise(starts))]
    longest, index = max(gaps, default=(0, 0))
    if longest <= YEAR_NS:
        return None
    smaller_part = min(dated[: index + 1], dated[index + 1 :], key=len)
    return (
        f"No sample starts in the {nanoseconds(longest)} between {dated[index]['sample']} and "
        f"{dated[index + 1]['sample']}; {count(len(smaller_part), 'sample')} of {len(rows)} on one side: "
        f"{sample_names(smaller_part)}. "
        "If a clock was wrong, exclude these samples: they extend the duration of the campaign."
    )


def silent(source: Source) -> str | None:
    """Return the warning about samples that are mostly silent, and how figures treat this time; None without any."""
    rows = sorted(mostly_silent(source.quality), key=lambda row: -row["silence_ns"])
    if not rows:
        return None
    parts = [f"{row['sample']} ({nanoseconds(row['silence_ns'])} of {nanoseconds(row['duration_ns'])})" for row in rows]
    text = (
        f"{count(len(rows), 'sample')} of {len(source.quality)} without frames during most of the duration, possibly "
        f"because captures were merged or a clock was wrong: {shorten_list(parts)}. Durations, rates of flows and, "
        "unless the sample is misdated, coverage (figure capture_quality) count this time as captured."
    )
    bin_ns = bin_length(source)
    groups = defaultdict(list)
    for row in rows if bin_ns else ():
        if row["excluded"] is None:
            groups["draws it as captured" if has_empty_bins(row, bin_ns) else "omits it"].append(row)
    treatments = [f"{treatment} for {sample_names(group)}" for treatment, group in sorted(groups.items())]
    treated = f" Figure throughput {' and '.join(treatments)}." if treatments else ""
    return f"{text}{treated} If this time was not captured, split these captures, for example with Wireshark's editcap."


def coarse(rows):
    """Return the warning about clocks that are too coarse for gaps between frames."""
    coarse_rows = [row for row in rows if (clock_resolution(row) or 0) >= COARSE_NS]
    if not coarse_rows:
        return None
    groups = defaultdict(list)
    for row in sorted(coarse_rows, key=lambda row: -row["clock_resolution_ns"]):
        groups[nanoseconds(row["clock_resolution_ns"])].append(row)
    parts = [
        f"{count(len(samples), 'sample')} with a timestamp resolution of {step} ({sample_names(samples)})"
        for step, samples in groups.items()
    ]
    return f"{', '.join(parts)}: shorter gaps between frames are not measured."


def reversed_(rows):
    """Return the warning about timestamps that decrease within a file."""
    with_reversals = [row for row in rows if row["time_reversals"]]
    total = sum(row["time_reversals"] for row in with_reversals)
    if not with_reversals:
        return None
    return (
        f"{count(total, 'frame')} with an earlier timestamp than the previous frame, in "
        f"{sample_names(with_reversals)}: capture "
        "queues or merged files were written out of order, or a clock was set back. Frames are read in the order of "
        "the file, so retransmissions, duplicate ACKs and handshake times may be wrong. To fix this, sort the capture "
        "with Wireshark's reordercap and digest the sorted file."
    )


def malformed(rows):
    """Return the warning about malformed and truncated frames."""
    total, frames = sum(row["issue_frames"] for row in rows), sum(row["frames"] for row in rows)
    if not total:
        return None
    share = percent(total / frames)
    return f"{count(total, 'frame')} ({share}) malformed or truncated; complete headers are kept."


def undissected(rows):
    """Return the warning about frames of link types that are not dissected; None if there are none."""
    undissected_rows = [row for row in rows if row["undissected_frames"]]
    if not undissected_rows:
        return None
    total, frames = sum(row["undissected_frames"] for row in undissected_rows), sum(row["frames"] for row in rows)
    return (
        f"{count(total, 'frame')} ({percent(total / frames)}) of a link type that is not dissected, in "
        f"{sample_names(undissected_rows)}: included in sizes and rates, without headers and flows."
    )


def unsure(rows):
    """Return the warning about frames whose layers 2 to 4 the core could not determine with certainty."""
    total = sum(row["l4_unsure_frames"] for row in rows)
    if not total:
        return None
    return f"{count(total, 'frame')} whose headers the core could not determine with certainty (engine native)."


def undecided(rows):
    """Return the warning about frames whose payload was not dissected."""
    total = sum(row["app_undecided_frames"] for row in rows)
    return f"{count(total, 'frame')} with payload that was not dissected (engine native)." if total else None


def ambiguous(rows):
    """Return the warning about flows whose opposite direction is ambiguous."""
    total = sum(row["peers_ambiguous"] for row in rows)
    if not total:
        return None
    return f"{count(total, 'flow')} with several candidates for the opposite direction; none was chosen."
