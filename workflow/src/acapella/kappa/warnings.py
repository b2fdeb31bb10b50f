"""It refuses to flatter: what about the captures makes a component look better, or worse, than the network was.

Each warning is ``{"code", "components", "text"}``: the components that it touches, and what it does to them. Nothing is
corrected silently; docs/kappa.md has a paragraph for each code.
"""

from acapella.common.wording import GAP, count, listed, nanoseconds, percent

from . import pauses

COARSE_NS = 1000  # a microsecond grid rounds away what the paper measures: gaps within 10 ns
# Two frames of one port never arrive at once (64 bytes take 5 ns at 100 Gbit/s), so equal stamps are the clock's. One
# gap in a hundred that the clock lost moves quantiles and the share within 10 ns by as much.
EQUAL_SHARE = 0.01
ALIKE_SHARE = 0.5  # trials that share less than this of the smaller one are hardly the same traffic
UNEQUAL_SHARE = 0.1  # of the longer duration; by as much L is smaller than it would be over the shorter one
PAUSE_SHARE = 0.5  # of a trial's duration in one gap: then most of what L and I divide by is not traffic
LACKING = {"tag": "no tag was captured", "regions": "not all of the region was captured"}
SELECTING = ("filter", "flow", "from", "to")  # the parameters that may leave nothing
YEAR_NS = 365 * 86_400 * 10**9  # no trial lasts as long; one with a frame of 1970 in it seems to
WHOLE = ("clean", None)  # how a file ends that lacks nothing
ENDS = {  # the core's FileEnd; all others are damage
    "cut_header": "cut in the header of a record",
    "cut_record": "cut in the middle of a record",
    "cut_compressed": "its compressed data is cut",
    "trailing_bytes": "bytes that are not compressed behind the compressed ones",
}

PAIR_CHECKS = []
TRIAL_CHECKS = []


def of(pair: dict, a: dict, b: dict) -> list[dict]:
    """The warnings of one pair: those about the pair first, then those about each trial.

    ``pair`` and the trials are as result.py makes them, and beside that the core's ``windows``, the ``parameters`` and
    each trial's kind of ``identity``, its ``cut_frames`` and the bounds ``within_ns``.
    """
    found = [check(pair, a, b) for check in PAIR_CHECKS]
    for trial in (a,) if a is b else (a, b):
        found += [check(trial) for check in TRIAL_CHECKS]
    return [warning for warning in found if warning]


def about_pair(check):
    """Register a check of the pair and its two trials."""
    PAIR_CHECKS.append(check)
    return check


def about_trial(check):
    """Register a check of one trial."""
    TRIAL_CHECKS.append(check)
    return check


def warning(code: str, components: str, text: str) -> dict:
    """``components`` as one word, such as "ULI"."""
    return {"code": code, "components": list(components), "text": text.replace(GAP, " ")}


@about_pair
def empty_trial(pair: dict, a: dict, b: dict):
    """A trial without a packet."""
    empty = [trial["name"] for trial in (a, b) if not trial["packets"]]
    if not empty:
        return None
    if len(empty) == 2:
        text = "both trials are empty: there is nothing to compare, and kappa is null."
    else:
        text = f"trial {empty[0]} has no packet: kappa is 0 by convention, and O, L and I are undefined."
    given = [f"--{name} {pair['parameters'][name]}" for name in SELECTING if pair["parameters"][name] is not None]
    there = [sum(file["frames"] for file in trial["files"]) for trial in (a, b) if not trial["packets"]]
    if given and sum(there):
        text += f" None of the {count(sum(there), 'frame')} read for it fits {listed(given)}."
    return warning("empty_trial", "UOLI", text)


@about_pair
def different_content(pair: dict, a: dict, b: dict):
    """Few common packets beside either trial, or none."""
    smaller, larger = sorted((pair["n_a"], pair["n_b"]))
    if not smaller or pair["n_common"] >= ALIKE_SHARE * larger:
        return None
    if pair["n_common"] >= ALIKE_SHARE * smaller:
        return much_missing(pair)
    share = percent(pair["n_common"] / smaller)
    if pair["n_common"] == 0:
        effect = "Kappa is 0 by convention, and O, L and I are undefined."
    else:
        effect = (
            "O, L and I speak of these few packets only; a small value there says nothing of the others, and U does "
            "not tell loss from different traffic."
        )
    text = (
        f"{count(pair['n_common'], 'common packet')}, {share} of the smaller trial: these may not be trials of the "
        f"same traffic, or --identity does not survive the way between the captures. {effect}"
    )
    return warning("different_content", "UOLI", text)


def much_missing(pair: dict) -> dict:
    """One trial has most of its packets in common, the other one few."""
    holds, lacks = ("a", "b") if pair["n_a"] > pair["n_b"] else ("b", "a")
    packets = pair[f"n_{holds}"]
    missing = packets - pair["n_common"]
    text = (
        f"trial {pair[lacks]} lacks {count(missing, 'packet')} of trial {pair[holds]}, {percent(missing / packets)} of "
        "its packets: L, I and O describe the common packets alone and say nothing of the others, so that U alone "
        "speaks of most of the traffic; U does not tell loss from a capture that ended early or began late."
    )
    return warning("different_content", "UOLI", text)


@about_pair
def unequal_durations(pair: dict, a: dict, b: dict):
    """L divides by the longer trial, I by the sum of both: a tail that one trial lacks makes both smaller."""
    shorter, longer = sorted((a, b), key=lambda trial: trial["duration_ns"])
    lasts = longer["duration_ns"]
    apart = lasts - shorter["duration_ns"]
    if not pair["n_common"] or untimed(a) or untimed(b) or apart <= UNEQUAL_SHARE * lasts:
        return None
    text = (
        f"trial {longer['name']} lasts {nanoseconds(lasts)}, trial {shorter['name']} "
        f"{nanoseconds(shorter['duration_ns'])}, {percent(apart / lasts)} less: L divides by the longer duration and I "
        "by the sum of both, so the same differences weigh less than in two trials as short as the shorter one. "
        "--from and --to compare the same span of both."
    )
    return warning("unequal_durations", "LI", text)


@about_pair
def dominant_gap(pair: dict, a: dict, b: dict):
    """A pause, or one stray packet long after the others: most of what L and I divide by."""
    causes = [
        f"a gap of {nanoseconds(gap)} or more is {percent(gap / trial['duration_ns'])} of trial {trial['name']}"
        for trial, gap in zip((a, b), pauses.largest_gaps(pair), strict=True)
        # Two packets have one gap, and it is the trial.
        if trial["packets"] > 2 and not untimed(trial) and gap > PAUSE_SHARE * trial["duration_ns"]
    ]
    if not causes or not pair["n_common"]:
        return None
    text = (
        f"{' and '.join(causes)}: one packet long before or after the others is enough. L and I "
        "divide by durations that are mostly this pause, and look as many times smaller. --from and --to leave it out."
    )
    return warning("dominant_gap", "LI", text)


@about_pair
def first_packet_missing(pair: dict, a: dict, b: dict):
    """Each trial starts at its own first packet; where the other one lacks that, all latencies are shifted."""
    common = pair["integers"]["first_common"]
    if not pair["n_common"] or all(common):
        return None
    lacking = [f"{x['name']} starts with a packet that {y['name']} lacks"
               for x, y, there in ((a, b, common[0]), (b, a, common[1])) if not there]  # fmt: skip
    text = (
        f"{' and '.join(lacking)}: time counts from each trial's own first packet, so every latency difference carries "
        f"a constant (the median difference is {pair['offset_ns']} ns). L is larger or, by chance, smaller than the "
        "jitter of the common packets; L_offset_removed is free of it. The packet that starts one trial has a gap of 0 "
        "there, and in the other trial, where it is not the first, its whole gap counts as a difference in I."
    )
    return warning("first_packet_missing", "LI", text)


@about_pair
def ambiguous_occurrences(pair: dict, a: dict, b: dict):
    """Packets that only their occurrence number tells apart."""
    if not pair["ambiguous_a"] and not pair["ambiguous_b"]:
        return None
    text = (
        f"{pair['ambiguous_a']} packets of {a['name']} and {pair['ambiguous_b']} of {b['name']} share their identity "
        "with another packet of their trial; the first is taken for the first, the second for the second. Equal "
        "packets that changed places look unmoved (O too small); where one of them is lost, the later ones take each "
        "other's place (O, L and I too large), while U stays right."
    )
    return warning("ambiguous_occurrences", "OLI", text)


@about_pair
def truncated_identity(pair: dict, a: dict, b: dict):
    """Packets cut by the capture are known again by what is left of them, and so are all others."""
    if not a["truncated"] and not b["truncated"]:
        return None
    cut = {trial["name"]: sum(file["truncated"] for file in trial["files"]) for trial in (a, b)}
    causes = [f"{count(packets, 'packet')} of trial {name}" for name, packets in cut.items() if packets]
    whose = " and ".join(causes) or "packets of another trial"
    text = (
        f"the capture cut {whose}, so all trials are compared by the first {a['identity_bytes']} bytes of what packets "
        "are known by. Packets that differ only behind them are taken for the same: damage there goes unseen (U too "
        "small), and more packets need an occurrence number. Where the cut took a tunnel's inner header from one "
        "trial only, another header is the innermost one there, and no such packet is known again (U far too large)."
    )
    return warning("truncated_identity", "UOLI", text)


def grids(trial: dict, least_ns: int) -> list[str]:
    """What says that stamps lie on a grid of ``least_ns`` or coarser: the files, or else the trial over its files.

    One stamp alone shows no grid. Which gaps show one is the core's to say (clock_grid.hpp).
    """
    found = []
    for file in (file for file in trial["files"] if file["taken"]):
        if file["taken"] > few(file["clock_resolution_ns"]) and file["clock_resolution_ns"] >= least_ns:
            found.append(f"stamps in {file['file']} are multiples of {nanoseconds(file['clock_resolution_ns'])}")
        elif file["taken"] > 1 and file["grid_ns"] >= least_ns:
            found.append(f"stamps in {file['file']} lie on a grid of {nanoseconds(file['grid_ns'])}")
    if not found and trial["packets"] > 1:
        told = trial["packets"] > few(trial["resolution_ns"])
        step_ns = max(trial["resolution_ns"] if told else 1, trial["grid_ns"])
        if step_ns >= least_ns:
            found.append(f"all its stamps lie on a grid of {nanoseconds(step_ns)}")
    return found


def few(step_ns: int) -> int:
    """So many stamps may all be multiples of a power of ten by chance: one in a million trials at worst."""
    return 1 if step_ns >= COARSE_NS else 4


@about_trial
def coarse_clock(trial: dict):
    """Stamps on a microsecond or coarser grid, in any file, or many equal ones."""
    causes = grids(trial, COARSE_NS)
    equal, gaps = trial["equal_stamps"], trial["packets"] - 1
    if gaps > 0 and equal >= EQUAL_SHARE * gaps:
        causes.append(f"{count(equal, 'packet')} ({percent(equal / gaps)}) stamped exactly as the one before")
    if not causes:
        return None
    text = (
        f"the clock of trial {trial['name']} is coarse: {' and '.join(causes)}. Differences below that are rounded "
        "to 0 or up to a whole step: I, L and the shares within some ns describe the clock as much as the network; "
        "packets with equal stamps keep the order of the file, so O is the recorder's order there."
    )
    return warning("coarse_clock", "OLI", text)


@about_trial
def coarse_within(trial: dict):
    """A grid finer than that, and coarser than the smallest bound in ns: the share within it says less than it seems.

    A microsecond grid has coarse_clock, which says more.
    """
    bound_ns = min(trial["within_ns"], default=None)
    if bound_ns is None or grids(trial, COARSE_NS):
        return None
    causes = grids(trial, max(bound_ns, 1) + 1)
    if not causes:
        return None
    text = (
        f"the clock of trial {trial['name']} is coarser than {nanoseconds(bound_ns)}: {' and '.join(causes)}. Gaps "
        f"differ by 0 or by a whole step, so the share within {nanoseconds(bound_ns)} is that of gaps that look equal, "
        "and moves up or down by the clock; I and L have an error of up to a step a packet."
    )
    return warning("coarse_within", "LI", text)


@about_trial
def without_identity(trial: dict):
    """Packets in which the identity that was asked for is not there."""
    if not trial["without_identity"]:
        return None
    reason = LACKING.get(trial["identity"], "the capture cut them to next to nothing")
    text = (
        f"{count(trial['without_identity'], 'packet')} of trial {trial['name']} without the identity that was asked "
        f"for ({reason}): they are left out, so that no component says anything of them but U, where the other trial "
        "has them."
    )
    if trial["cut_frames"]:
        text += (
            f" The capture cut {count(trial['cut_frames'], 'frame')} of this trial: most likely its snap length took "
            "away what they would be known by, which is at the end of the frame for a tag."
        )
    return warning("without_identity", "UOLI", text)


def ended(file: dict) -> str:
    """How a file that lacks something ends, in words; empty for one that is whole."""
    return "" if file["end"] in WHOLE else ENDS.get(file["end"], "its bytes are damaged")


@about_trial
def cut_file(trial: dict):
    """A file that ends in the middle of a record."""
    cut = [file for file in trial["files"] if file["end"] not in WHOLE]
    if not cut:
        return None
    named = ", ".join(f"{file['file']} ({ended(file)})" for file in cut)
    text = (
        f"trial {trial['name']} could not be read to the end: {named}. What follows the last whole frame counts as "
        "lost in U, and the trial is shorter, which L and I divide by."
    )
    return warning("cut_file", "ULI", text)


@about_trial
def time_reversals(trial: dict):
    """Stamps that go backwards inside a file."""
    if not trial["reversals_in_file"]:
        return None
    text = (
        f"{count(trial['reversals_in_file'], 'packet')} of trial {trial['name']} stamped earlier than the packet "
        "before in the same file. Packets are taken in the order of their stamps: where the capture's queues were "
        "written out of order that is right; where a clock was set back, O, L and I are the clock's."
    )
    return warning("time_reversals", "OLI", text)


@about_trial
def implausible_times(trial: dict):
    """Frames dated outside the years 1970 to 2106, which the core leaves out."""
    if not trial["implausible_times"]:
        return None
    text = (
        f"{count(trial['implausible_times'], 'frame')} of trial {trial['name']} dated outside the years 1970 to 2106: "
        "they are left out, so that no component includes them but U, where the other trial has them."
    )
    return warning("implausible_times", "UOLI", text)


def untimed(trial: dict) -> bool:
    """Whether a trial begins in 1970 and lasts to our days."""
    return trial["first_ns"] == 0 and trial["duration_ns"] >= YEAR_NS


@about_trial
def untimed_frames(trial: dict):
    """Frames that their file gives no time, as pcapng's simple packets: they are read as of 1970."""
    if not untimed(trial):
        return None
    text = (
        f"trial {trial['name']} has frames without a time in the file: they count as of 1970, before all others, and "
        "the trial's duration reaches back to them. L and I are divided by it: they say nothing."
    )
    return warning("untimed_frames", "OLI", text)
