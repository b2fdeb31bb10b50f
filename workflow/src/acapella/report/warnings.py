"""What a reader has to know before trusting a number: losses, coarse clocks, cut files, samples that failed."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence

from acapella.campaign.layout import Campaign
from acapella.common.pseudonyms import FILE as PSEUDONYMS
from acapella.common.wording import count, nanoseconds, percent, scaled
from acapella.figures import restrictions
from acapella.figures.quality import mirror_loss_bounds
from acapella.figures.source import Source
from acapella_core import sheets

COARSE_NS = 1000  # from here on, frames of a 10 Gbit/s link share stamps (67 ns for the smallest)
NAMED = 8  # samples named in a warning; more are counted


def of(source: Source, excluded: Sequence[str] = ()) -> list[str]:
    """One sentence each, the gravest first; [] where nothing is wrong. ``excluded``: left out by the config."""
    rows = source.quality
    found = [
        not_taken(source),
        failed(source, excluded),
        left_out(source, excluded),
        *not_counted(source),
        restricted(source),
        *(check(rows) for check in (cut, empty)),
        *(check(source.traffic) for check in (sampled, filtered, repeated, overlapping)),
        *(check(rows) for check in (lossy, unknown, congested)),
        *(check(rows) for check in (untimed, implausible, misdated, coarse, reversed_, malformed, undissected)),
    ]
    return [text for text in [*found, unsure(rows), undecided(rows), ambiguous(rows)] if text]


def named(rows: list[dict]) -> str:
    """The samples, the first few by name."""
    return shortened([row["sample"] for row in rows])


def shortened(names: list[str], separator: str = ", ") -> str:
    """The first few of a list; the others are counted."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return separator.join(names[:NAMED]) + more


def not_taken(source: Source) -> str | None:
    """Samples of the plan that collect could not take, from raw/failed.tsv; with pseudonyms only their places."""
    raw = source.campaign.directory / "raw"
    rows = sheets.read(raw / "failed.tsv", sheets.FAILED)
    if not rows:
        return None
    planned = len(rows) + len(sheets.read(raw / "samples.tsv"))
    said = f"{count(len(rows), 'sample')} of {planned} could not be taken, and no number here knows of them: "
    if hidden(source.campaign):
        return f"{said}{shortened(places(rows, source.campaign))}. raw/failed.tsv says why."
    return said + shortened([f"{row['sample']} ({row['why'].rstrip('.')})" for row in rows], "; ") + "."


def hidden(campaign: Campaign) -> bool:
    """Whether the tables have pseudonyms, as their provenance says."""
    path = campaign.directory / "provenance.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the page says what is wrong with it
        return True
    return bool(told.get("parameters", {}).get("pseudonyms"))


def places(rows: list[dict], campaign: Campaign) -> list[str]:
    """Pseudonyms of sites and ports; a reason could name the true ones. A place of no good sample has no pseudonym."""
    mapping = sheets.read(campaign.directory / PSEUDONYMS, {})
    sites = {row["true_site"]: row["site"] for row in mapping}
    ports = {(row["true_site"], row["true_port"]): row["port"] for row in mapping}
    found = Counter(
        f"{sites.get(row['site'], 'another site')} {ports.get((row['site'], row['port']), 'another port')}"
        for row in rows
    )
    return [place + (f" ({number} samples)" if number > 1 else "") for place, number in sorted(found.items())]


def collected(source: Source) -> list[str]:
    """The true names of the samples that collect has taken."""
    return [row["sample"] for row in sheets.read(source.campaign.directory / "raw" / "samples.tsv")]


def failed(source: Source, excluded: Sequence[str]) -> str | None:
    """Collected samples that no table knows; their names would give pseudonyms away, so they are only counted."""
    taken = collected(source)
    missing = len(set(taken) - set(excluded)) - len(source.quality)
    if missing <= 0:
        return None
    return f"{count(missing, 'collected sample')} of {len(taken)} not in this report; logs/ says why."


def left_out(source: Source, excluded: Sequence[str]) -> str | None:
    """Collected samples that the config excludes, by name unless the tables have pseudonyms."""
    taken = collected(source)
    out = [name for name in taken if name in excluded]
    if not out:
        return None
    said = f"{count(len(out), 'collected sample')} of {len(taken)} excluded by the config"
    return f"{said}." if hidden(source.campaign) else f"{said}: {shortened(out)}."


def not_counted(source: Source) -> list[str]:
    """Samples that are excluded from traffic statistics, a sentence for each reason."""
    groups = defaultdict(list)
    for row in source.excluded:
        groups[row["excluded"]].append(row)
    found = []
    for reason, rows in sorted(groups.items()):
        frames = sum(row["frames"] for row in rows)
        found.append(
            f"{count(len(rows), 'sample')} of {len(source.quality)} with {count(frames, 'frame')} excluded from "
            f"traffic statistics ({restrictions.describe(reason)}): {named(rows)}. To count them: analysis.traffic: all."
        )
    return found


def restricted(source: Source) -> str | None:
    """That no sample holds all traffic of its port."""
    if not restrictions.only_restricted(source):
        return None
    return f"No sample holds all traffic of its port; traffic statistics are of the others{restrictions.title_suffix(source)}."


def cut(rows):
    """Files that end in the middle of a record."""
    bad = [row for row in rows if row["file_issue"]]
    if not bad:
        return None
    unread = sum(row["file_unread_bytes"] or 0 for row in bad)
    behind = f"; {scaled(unread, 'B')} behind the fault were not read" if unread else ""
    return (
        f"{count(len(bad), 'file')} could not be read to the end (every whole record before the fault is "
        f"kept{behind}): {named(bad)}."
    )


def empty(rows):
    """Samples without a frame."""
    bad = [row for row in rows if not row["frames"]]
    return f"{count(len(bad), 'sample')} without a frame: {named(bad)}." if bad else None


def sampled(rows):
    """Samples of which the capture program kept one frame in so many."""
    bad = [row for row in rows if (row["one_in"] or 1) > 1]
    if not bad:
        return None
    each = " or ".join(f"{number:,}" for number in sorted({row["one_in"] for row in bad}))
    return (
        f"In {count(len(bad), 'sample')} of {len(rows)} is one frame in {each} of those that came, and all counts, "
        f"bytes and rates are of these: {named(bad)}."
    )


def filtered(rows):
    """Samples that hold what a filter or a P4 program passes."""
    bad = [row for row in rows if row["filtered"]]
    if not bad:
        return None
    return f"In {count(len(bad), 'sample')} of {len(rows)} is only what a filter or a P4 program passes: {named(bad)}."


def repeated(rows):
    """Return the warning about samples with the same capture; None if there are none."""
    captures = Counter(row["sha256"] for row in rows if row["sha256"] and row["frames"])
    bad = [row for row in rows if captures[row["sha256"]] > 1]
    if not bad:
        return None
    return (
        f"{count(len(bad), 'sample')} of {len(rows)} have the same capture as another one (SHA-256), and its frames "
        f"count in each: {named(bad)}. Exclude all but one (exclude in the config)."
    )


def overlapping(rows):
    """Return the warning about samples of one port and direction at the same time, other than the same capture."""
    distinct = {row["sha256"] or row["sample"]: row for row in reversed(rows)}.values()
    names = set()
    for other in ("tx", "rx"):  # a sample of each direction has other frames
        ports = defaultdict(list)
        for row in distinct:
            if row["direction"] != other and row["actual_start_ns"] is not None:
                ports[row["site"], row["port"]].append(row)
        for of_port in ports.values():
            names |= overlaps(of_port)
    bad = [row for row in rows if row["sample"] in names]
    if not bad:
        return None
    return (
        f"{count(len(bad), 'sample')} of {len(rows)} overlap in time with another one of their port: {named(bad)}. "
        "Frames and bytes of all are added up, so that a frame in two of them counts twice, also in rates."
    )


def overlaps(rows: list[dict]) -> set[str]:
    """Return the names of samples that start before an earlier one of the same port ends, and of these."""
    found, last = set(), None
    for row in sorted(rows, key=lambda row: (row["actual_start_ns"], row["actual_end_ns"])):
        if last and row["actual_start_ns"] < last["actual_end_ns"]:
            found |= {last["sample"], row["sample"]}
        if not last or row["actual_end_ns"] > last["actual_end_ns"]:
            last = row
    return found


def lossy(rows):
    """Samples that lost frames."""
    bad = sorted((row for row in rows if row["loss_share"]), key=lambda row: -row["loss_share"])
    if not bad:
        return None
    worst = percent(bad[0]["loss_share"])
    return (
        f"{count(len(bad), 'sample')} of {len(rows)} lost frames, the worst {worst} of what was offered: {named(bad)}."
    )


def unknown(rows):
    """Samples about whose loss nothing is known."""
    bad = [row for row in rows if row["lost_frames"] is None]
    return f"The loss of {count(len(bad), 'sample')} of {len(rows)} is unknown: nobody counted." if bad else None


def congested(rows):
    """Samples whose mirror lost frames or may have, where the switch did not count what it dropped."""
    open_ = [row for row in rows if row["mirror_delivered"] is None]
    found = []
    for verdict, what in (("congested", "was congested"), ("at risk", "may have lost frames in bursts")):
        bad = sorted((r for r in open_ if r["mirror_verdict"] == verdict), key=lambda r: -r["mirror_loss_high"])
        if bad:
            found.append(
                f"The mirror of {count(len(bad), 'sample')} of {len(rows)} {what}, {mirror_loss_bounds(bad)}: {named(bad)}."
            )
    return " ".join(found) or None


def untimed(rows):
    """Frames to which their file gives no time."""
    without = {row["sample"]: row["untimed_frames"] - (row["implausible_frames"] or 0) for row in rows}
    bad = [row for row in rows if without[row["sample"]]]
    if not bad:
        return None
    total, frames = sum(without.values()), sum(row["frames"] for row in rows)
    return (
        f"{count(total, 'frame')} ({percent(total / frames)}) without a time in their file, in {named(bad)}: they "
        "count in sizes, headers and flows, and have no part in durations, rates, throughput and handshake times."
    )


def implausible(rows):
    """Return the warning about frames dated outside the years 1970 to 2106; None if there are none."""
    bad = [row for row in rows if row["implausible_frames"]]
    if not bad:
        return None
    total, frames = sum(row["implausible_frames"] for row in bad), sum(row["frames"] for row in rows)
    return (
        f"{count(total, 'frame')} ({percent(total / frames)}) dated outside the years 1970 to 2106, in {named(bad)}: "
        "they count in sizes, headers and flows, and are left out of durations, rates, throughput and handshake times."
    )


def misdated(rows):
    """Return the warning about samples dated years away from the others; None if there are none."""
    bad = [row for row in rows if row["misdated"]]
    if not bad:
        return None
    return (
        f"{count(len(bad), 'sample')} of {len(rows)} dated more than 10 years from the median start of the campaign's "
        f"samples, maybe by a clock that was not set: {named(bad)}. Title, length and coverage of the campaign are of "
        "the others."
    )


def coarse(rows):
    """Clocks too coarse for gaps between frames."""
    bad = [row for row in rows if row["clock_resolution_ns"] is not None and row["clock_resolution_ns"] >= COARSE_NS]
    if not bad:
        return None
    groups = defaultdict(list)
    for row in sorted(bad, key=lambda row: -row["clock_resolution_ns"]):
        groups[nanoseconds(row["clock_resolution_ns"])].append(row)
    told = [
        f"{count(len(own), 'sample')} with stamps no finer than {step} ({named(own)})" for step, own in groups.items()
    ]
    return f"{', '.join(told)}: shorter gaps between frames are not real."


def reversed_(rows):
    """Time that goes backwards."""
    bad = [row for row in rows if row["time_reversals"]]
    total = sum(row["time_reversals"] for row in bad)
    if not bad:
        return None
    return (
        f"{count(total, 'frame')} stamped earlier than the frame before, in {named(bad)}: capture queues or merged "
        "files were written out of order, or a clock was set back; frames are read in the file's order, so "
        "retransmissions, duplicate ACKs and handshake times may be off there. To mend it, sort the capture with "
        "Wireshark's reordercap and digest the sorted file."
    )


def malformed(rows):
    """Frames with an issue."""
    total, frames = sum(row["issue_frames"] for row in rows), sum(row["frames"] for row in rows)
    if not total:
        return None
    share = percent(total / frames)
    return f"{count(total, 'frame')} ({share}) malformed or cut; they are kept, with the headers that were whole."


def undissected(rows):
    """Return the warning about frames of link types that nothing dissects; None if there are none."""
    bad = [row for row in rows if row["undissected_frames"]]
    if not bad:
        return None
    total, frames = sum(row["undissected_frames"] for row in bad), sum(row["frames"] for row in rows)
    return (
        f"{count(total, 'frame')} ({percent(total / frames)}) of a link type that is not dissected, in {named(bad)}: "
        "they count in sizes and rates, and have no headers and flows."
    )


def unsure(rows):
    """Frames whose lower layers nobody decided with certainty."""
    total = sum(row["l4_unsure_frames"] for row in rows)
    return (
        f"{count(total, 'frame')} whose headers the core could not tell for certain (engine native)." if total else None
    )


def undecided(rows):
    """Frames whose application nobody decided."""
    total = sum(row["app_undecided_frames"] for row in rows)
    return f"{count(total, 'frame')} with payload that no engine looked into (engine native)." if total else None


def ambiguous(rows):
    """Flows whose other direction is not known."""
    total = sum(row["peers_ambiguous"] for row in rows)
    return (
        f"{count(total, 'flow')} with several candidates for the other direction, and none chosen." if total else None
    )
