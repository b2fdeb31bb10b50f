"""Generates warnings about captures in which a component is too small or too large to describe the network.

Each warning is ``{"code", "components", "text"}``, with the affected components and the effect on them. Nothing is
corrected silently; docs/kappa.md has a paragraph for each code.
"""

from acapella.common.wording import GAP, count, listed, nanoseconds, percent

from . import pauses

COARSE_NS = 1000  # the paper counts gaps that differ by at most 10 ns, which a microsecond clock rounds away
# Two frames on one port cannot arrive at the same time (64 bytes take 5 ns at 100 Gbit/s), so equal timestamps are due
# to the clock. If it hides one gap in a hundred, quantiles and the share within 10 ns change by as much.
MAX_EQUAL_SHARE = 0.01
MIN_COMMON_SHARE = 0.5  # share of each trial's packets; with fewer, O, L and I describe few packets
MAX_DURATION_DIFFERENCE = 0.1  # share of the longer duration; L is smaller by this share
MAX_GAP_SHARE = 0.5  # share of a trial's duration; a longer gap dominates the denominators of L and I
NO_IDENTITY = {"tag": "no tag was captured", "regions": "not all of the region was captured"}
SELECTION = ("filter", "flow", "from", "to")  # parameters that may select no packet
YEAR_NS = 365 * 86_400 * 10**9  # longer than any trial; a frame dated 1970 makes a trial seem longer
COMPLETE = ("clean", None)  # FileEnd of a complete file
FILE_ENDS = {  # FileEnd of the core; all others are damage
    "cut_header": "truncated in the header of a record",
    "cut_record": "truncated in the middle of a record",
    "cut_compressed": "its compressed data is truncated",
    "trailing_bytes": "uncompressed bytes after the compressed data",
}

FULL_QUEUE = "full_queue"
NOT_IN_RECORDING = "not_in_recording"
WIDE = "wide_interval"
OFFSET = "offset_change"
CLOCK_CODES = ("coarse_clock", "coarse_within")
PAIR_CHECKS = []
TRIAL_CHECKS = []


def check(pair: dict, a: dict, b: dict) -> list[dict]:
    """Return the warnings of a pair: first about the pair, then about each trial.

    ``pair`` and the trials are as in result.py; in addition, ``pair`` contains the core's ``windows`` and the
    ``parameters``, and each trial contains the kind of its ``identity``, its ``truncated_frames`` and the bounds
    ``within_ns``. Without common packets, O, L and I are undefined, and warnings about only these are omitted.
    """
    results = [check_pair(pair, a, b) for check_pair in PAIR_CHECKS]
    for trial in (a,) if a is b else (a, b):
        results += [check_trial(trial) for check_trial in TRIAL_CHECKS]
    return [warning for warning in results if warning and (pair["n_common"] or "U" in warning["components"])]


def about_pair(check):
    """Register a check of a pair and its two trials."""
    PAIR_CHECKS.append(check)
    return check


def about_trial(check):
    """Register a check of one trial."""
    TRIAL_CHECKS.append(check)
    return check


def warning(code: str, components: str, text: str) -> dict:
    """Return a warning; ``components``: letters of the affected components, such as "ULI"."""
    return {"code": code, "components": list(components), "text": text.replace(GAP, " ")}


def departure_warnings(pair: dict, wide: bool = False, offset_ns: int = 0) -> list[dict]:
    """Return the warnings about the corrected kappa of a pair.

    ``wide``: whether bursts make its interval wide. ``offset_ns``: unexpected change of the clocks' difference between
    trials.
    """
    checks = (
        full_queue(pair),
        not_in_recording(pair),
        wide_interval(pair) if wide else None,
        offset_change(offset_ns) if offset_ns else None,
    )
    return [warning for warning in checks if warning]


def offset_change(offset_ns: int) -> dict:
    """Return the warning that the arrivals and departures of a trial may be from different runs."""
    text = (
        f"the receiver's clock minus the replayer's differs by {nanoseconds(offset_ns)} between the trials. Specify "
        "the departures of the same run for each trial; those of a different run make the corrected kappa wrong. If "
        "they are of the same run, a clock was set between the trials, or the timestamps of a capture were changed, "
        "which is harmless."
    )
    return warning(OFFSET, "OLI", text)


def packets_by_trial(pair: dict, name: str) -> str:
    """Return a count of packets of each trial as text, such as "4 packets of trial A"; "" if there are none."""
    path = pair["corrected"] or {}
    counts = {pair[side]: path.get(f"{name}_{side}", 0) for side in "ab"}
    parts = [f"{count(number, 'packet')} of trial {trial}" for trial, number in counts.items() if number]
    return listed(parts) if parts else ""


def full_queue(pair: dict):
    """Warn if the driver did not accept packets immediately.

    The bound for departures inside a burst requires that the driver's queue is empty when the next burst is passed
    (docs/kappa_path.md, Interval).
    """
    packets = packets_by_trial(pair, "retried")
    if not packets:
        return None
    text = (
        f"the driver's queue was full for {packets}: packets waited in it for an unknown time after their "
        "departures. The limits of the corrected kappa may be too narrow; replay more slowly, or with more queues."
    )
    return warning(FULL_QUEUE, "OLI", text)


def not_in_recording(pair: dict):
    """Warn if trials have packets that no replayer sent."""
    packets = packets_by_trial(pair, "other")
    if not packets:
        return None
    text = (
        f"not in the recording: {packets}. The replayer did not send them, but they count in every component, even of "
        "the corrected kappa. They are usually IPv6 neighbor discovery, multicast (MLD, mDNS) or ARP of the machines, "
        "or duplicates created by the path; tshark -r TRIAL -q -z io,phs lists the protocols of a trial. Turn off IPv6 "
        "on the interfaces (docs/replay.md) and repeat the trials, or write only the replayed traffic to new captures: "
        "tshark -r TRIAL -Y FILTER -w NEW."
    )
    return warning(NOT_IN_RECORDING, "UOLI", text)


def wide_interval(pair: dict) -> dict:
    """Return the warning that unknown departures inside bursts make the interval wide."""
    text = (
        f"the interval of the corrected kappa is wide because {packets_by_trial(pair, 'unresolved')} left in bursts, "
        "for which only the departure of the first packet is known. Replay with --pace single, or specify "
        "--burst-error if you know how long a burst takes."
    )
    return warning(WIDE, "OLI", text)


@about_pair
def empty_trial(pair: dict, a: dict, b: dict):
    """Warn if a trial has no packets."""
    empty = [trial["name"] for trial in (a, b) if not trial["packets"]]
    if not empty:
        return None
    if len(empty) == 2:
        text = "both trials are empty: there is nothing to compare, and kappa is null."
    else:
        text = f"trial {empty[0]} has no packet: kappa is 0 by convention, and O, L and I are undefined."
    options = [f"--{name} {pair['parameters'][name]}" for name in SELECTION if pair["parameters"][name] is not None]
    frames = [sum(file["frames"] for file in trial["files"]) for trial in (a, b) if not trial["packets"]]
    if options and sum(frames):
        text += f" None of the {count(sum(frames), 'frame')} read matches {listed(options)}."
    return warning("empty_trial", "UOLI", text)


@about_pair
def different_content(pair: dict, a: dict, b: dict):
    """Warn if few or none of the packets of a trial are in the other trial."""
    smaller, larger = sorted((pair["n_a"], pair["n_b"]))
    if not smaller or pair["n_common"] >= MIN_COMMON_SHARE * larger:
        return None
    if pair["n_common"] >= MIN_COMMON_SHARE * smaller:
        return much_missing(pair)
    share = percent(pair["n_common"] / smaller)
    if pair["n_common"] == 0:
        effect = "Kappa is 0 by convention, and O, L and I are undefined."
    else:
        effect = (
            "O, L and I describe only these packets: small values do not mean that the others are consistent, and U "
            "does not distinguish loss from different traffic."
        )
    text = (
        f"{count(pair['n_common'], 'common packet')}, {share} of the smaller trial: these may not be trials of the "
        f"same traffic, or the network changes the bytes by which --identity matches packets. {effect}"
    )
    return warning("different_content", "UOLI", text)


def much_missing(pair: dict) -> dict:
    """Return the warning that the larger trial contains many packets that the smaller one lacks."""
    larger_side, smaller_side = ("a", "b") if pair["n_a"] > pair["n_b"] else ("b", "a")
    packets = pair[f"n_{larger_side}"]
    missing = packets - pair["n_common"]
    text = (
        f"trial {pair[smaller_side]} lacks {count(missing, 'packet')} of trial {pair[larger_side]}, "
        f"{percent(missing / packets)} of its packets: L, I and O describe only the common packets, and U alone "
        "describes most of the traffic. U does not distinguish loss from a capture that ended early or began "
        "late."
    )
    return warning("different_content", "UOLI", text)


@about_pair
def unequal_durations(pair: dict, a: dict, b: dict):
    """Warn if the durations differ. L divides by the longer one and I by the sum, so extra time reduces both."""
    shorter, longer = sorted((a, b), key=lambda trial: trial["duration_ns"])
    duration = longer["duration_ns"]
    difference = duration - shorter["duration_ns"]
    if not pair["n_common"] or untimed(a) or untimed(b) or difference <= MAX_DURATION_DIFFERENCE * duration:
        return None
    text = (
        f"trial {longer['name']} lasts {nanoseconds(duration)}, trial {shorter['name']} "
        f"{nanoseconds(shorter['duration_ns'])}, {percent(difference / duration)} less: L divides by the longer "
        "duration and I by the sum of both, so the same differences count for less than in two trials of the shorter "
        "duration. Use --from and --to to compare the same time range of both."
    )
    return warning("unequal_durations", "LI", text)


@about_pair
def dominant_gap(pair: dict, a: dict, b: dict):
    """Warn if a pause, or a packet far from the others in time, is most of the durations by which L and I divide."""
    causes = [
        f"a gap of {nanoseconds(gap)} or more is {percent(gap / trial['duration_ns'])} of trial {trial['name']}"
        for trial, gap in zip((a, b), pauses.largest_gaps(pair), strict=True)
        # The only gap between two packets always spans the whole trial.
        if trial["packets"] > 2 and not untimed(trial) and gap > MAX_GAP_SHARE * trial["duration_ns"]
    ]
    if not causes or not pair["n_common"]:
        return None
    text = (
        f"{' and '.join(causes)}, possibly because of a single packet long before or after the others. L and I divide "
        "by durations that are mostly this pause, and are therefore too small. Use --from and --to to exclude "
        "it."
    )
    return warning("dominant_gap", "LI", text)


@about_pair
def first_packet_missing(pair: dict, a: dict, b: dict):
    """Warn if a trial lacks the first packet of the other, at which time starts: all latencies are shifted."""
    common = pair["integers"]["first_common"]
    if not pair["n_common"] or all(common):
        return None
    causes = [f"{x['name']} starts with a packet that {y['name']} lacks"
               for x, y, is_common in ((a, b, common[0]), (b, a, common[1])) if not is_common]  # fmt: skip
    text = (
        f"{' and '.join(causes)}: times are relative to the first packet of each trial, so every latency difference "
        f"contains a constant (the median difference is {nanoseconds(pair['offset_ns'])}). L is larger or, by chance, "
        "smaller than the jitter of the common packets; L_offset_removed does not contain the constant. The first "
        "packet of a trial has a gap of 0; in the other trial it is not the first, and its whole gap counts as a "
        "difference in I."
    )
    return warning("first_packet_missing", "LI", text)


@about_pair
def ambiguous_occurrences(pair: dict, a: dict, b: dict):
    """Warn if some packets of a trial are identical, so that only their order distinguishes them."""
    if not pair["ambiguous_a"] and not pair["ambiguous_b"]:
        return None
    text = (
        f"{pair['ambiguous_a']} packets of {a['name']} and {pair['ambiguous_b']} of {b['name']} share their identity "
        "with another packet of their trial, and are matched in order: the first with the first, the second with the "
        "second. If equal packets were reordered, O is too small; if one of them was lost, the later ones are "
        "mismatched and O, L and I are too large. U is not affected."
    )
    return warning("ambiguous_occurrences", "OLI", text)


@about_pair
def truncated_identity(pair: dict, a: dict, b: dict):
    """Warn if the capture truncated some packets, so that all packets are matched by the bytes that remain."""
    if not a["truncated"] and not b["truncated"]:
        return None
    truncated = {trial["name"]: sum(file["truncated"] for file in trial["files"]) for trial in (a, b)}
    causes = [f"{count(number, 'packet')} of trial {name}" for name, number in truncated.items() if number]
    packets = " and ".join(causes) or "packets of a different trial"
    text = (
        f"the capture truncated {packets}, so packets of all trials are matched by the first {a['identity_bytes']} "
        "bytes of their identity. Packets that differ only after these bytes count as equal: damage there is not "
        "detected (U too small), and more packets need an occurrence number. If the inner header of a tunnel is "
        "missing from one trial only, its innermost header is a different one, and the packets do not match (U far "
        "too large)."
    )
    return warning("truncated_identity", "UOLI", text)


def coarse_grids(trial: dict, min_ns: int) -> list[str]:
    """Return the evidence that timestamps are on a grid of ``min_ns`` or coarser, per file or else over all files.

    One timestamp alone does not show a grid. The core decides which gaps do (clock_grid.hpp).
    """
    evidence = []
    for file in (file for file in trial["files"] if file["taken"]):
        if file["taken"] > max_by_chance(file["clock_resolution_ns"]) and file["clock_resolution_ns"] >= min_ns:
            evidence.append(f"timestamps in {file['file']} are multiples of {nanoseconds(file['clock_resolution_ns'])}")
        elif file["taken"] > 1 and file["grid_ns"] >= min_ns:
            evidence.append(f"timestamps in {file['file']} are on a grid of {nanoseconds(file['grid_ns'])}")
    if not evidence and trial["packets"] > 1:
        conclusive = trial["packets"] > max_by_chance(trial["resolution_ns"])
        step_ns = max(trial["resolution_ns"] if conclusive else 1, trial["grid_ns"])
        if step_ns >= min_ns:
            evidence.append(f"all its timestamps are on a grid of {nanoseconds(step_ns)}")
    return evidence


def max_by_chance(step_ns: int) -> int:
    """Return how many timestamps may be multiples of a power of ten by chance.

    More of them are multiples by chance in at most one of 100,000 trials.
    """
    return 1 if step_ns >= COARSE_NS else 4


@about_trial
def coarse_clock(trial: dict):
    """Warn if timestamps have microsecond or coarser resolution in any file, or if many are equal."""
    causes = coarse_grids(trial, COARSE_NS)
    equal, gaps = trial["equal_stamps"], trial["packets"] - 1
    if gaps > 0 and equal >= MAX_EQUAL_SHARE * gaps:
        causes.append(
            f"{count(equal, 'packet')} ({percent(equal / gaps)}) with the same timestamp as the packet before"
        )
    if not causes:
        return None
    text = (
        f"the clock of trial {trial['name']} is coarse: {' and '.join(causes)}. Smaller differences are rounded to 0 "
        "or to a whole step, so I, L and the shares within a bound describe the clock as much as the network. "
        "Packets with equal timestamps keep their order in the file, so O describes the recorder there."
    )
    return warning("coarse_clock", "OLI", text)


@about_trial
def coarse_within(trial: dict):
    """Warn if the clock is finer than a microsecond but coarser than the smallest bound in ns.

    For a microsecond grid, coarse_clock applies instead.
    """
    bound_ns = min(trial["within_ns"], default=None)
    if bound_ns is None or coarse_grids(trial, COARSE_NS):
        return None
    causes = coarse_grids(trial, max(bound_ns, 1) + 1)
    if not causes:
        return None
    text = (
        f"the clock of trial {trial['name']} is coarser than {nanoseconds(bound_ns)}: {' and '.join(causes)}. Gaps "
        f"differ by 0 or by a whole step, so the share within {nanoseconds(bound_ns)} is the share of gaps that appear "
        "equal, and is too large or too small; I and L have an error of up to one step per packet."
    )
    return warning("coarse_within", "LI", text)


@about_trial
def without_identity(trial: dict):
    """Warn if packets lack the requested identity."""
    if not trial["without_identity"]:
        return None
    reason = NO_IDENTITY.get(trial["identity"], "the capture truncated them to a few bytes")
    text = (
        f"{count(trial['without_identity'], 'packet')} of trial {trial['name']} without the requested identity "
        f"({reason}): excluded. O, L and I do not describe them, and U counts them only if the other trial has them."
    )
    if trial["truncated_frames"]:
        text += (
            f" The capture truncated {count(trial['truncated_frames'], 'frame')} of this trial: its snap length "
            "probably removed the identity, which for a tag is at the end of the frame."
        )
    return warning("without_identity", "UOLI", text)


def end_of_file(file: dict) -> str:
    """Return a description of the end of an incomplete file; an empty string for a complete file."""
    return "" if file["end"] in COMPLETE else FILE_ENDS.get(file["end"], "its bytes are damaged")


@about_trial
def cut_file(trial: dict):
    """Warn if a file is truncated or damaged."""
    incomplete = [file for file in trial["files"] if file["end"] not in COMPLETE]
    if not incomplete:
        return None
    names = ", ".join(f"{file['file']} ({end_of_file(file)})" for file in incomplete)
    text = (
        f"trial {trial['name']} could not be read to the end: {names}. Packets after the last complete frame count "
        "as lost in U, and the trial is shorter, which changes the denominators of L and I."
    )
    return warning("cut_file", "ULI", text)


@about_trial
def time_reversals(trial: dict):
    """Warn if timestamps decrease within a file."""
    if not trial["reversals_in_file"]:
        return None
    text = (
        f"{count(trial['reversals_in_file'], 'packet')} of trial {trial['name']} with an earlier timestamp than the "
        "packet before in the same file. Packets are sorted by timestamp. Sorting is correct if the packets of several "
        "receive queues were written out of order; if a clock was set back, O, L and I describe the clock."
    )
    return warning("time_reversals", "OLI", text)


@about_trial
def implausible_times(trial: dict):
    """Warn if frames are dated outside the years 1970 to 2106; the core excludes them."""
    if not trial["implausible_times"]:
        return None
    text = (
        f"{count(trial['implausible_times'], 'frame')} of trial {trial['name']} dated outside the years 1970 to "
        "2106: excluded. O, L and I do not describe them, and U counts them only if the other trial has them."
    )
    return warning("implausible_times", "UOLI", text)


def untimed(trial: dict) -> bool:
    """Return whether a trial begins in 1970 and lasts a year or longer, because some frames have no timestamp."""
    return trial["first_ns"] == 0 and trial["duration_ns"] >= YEAR_NS


@about_trial
def untimed_frames(trial: dict):
    """Warn if frames have no timestamp, as in Simple Packet Blocks of pcapng; the core dates them 1970."""
    if not untimed(trial):
        return None
    text = (
        f"trial {trial['name']} has frames without a time in the file: they are dated 1970, before all others, so the "
        "trial's duration begins there. L and I divide by it and are meaningless."
    )
    return warning("untimed_frames", "OLI", text)


TRIAL_CODES = frozenset(check_trial.__name__ for check_trial in TRIAL_CHECKS)  # each check has the name of its code
