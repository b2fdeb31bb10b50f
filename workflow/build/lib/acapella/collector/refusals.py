"""What a run of the collector refused: in numbers, and where nothing was taken, why and what to do."""

from .settings import Settings

VERDICTS = {  # a frame that is written to no ring, by the reason of the core: what it is, and what to do
    "not_roce": ("no RoCEv2", "name a file that acapella p4 run --out wrote"),
    "truncated": ("cut by the capture", "capture them whole, without a snaplen"),
    "bad_length": ("of another length than a report", "name the program's --format"),
    "bad_icrc": ("of a wrong CRC", "capture them where nothing changes frames"),
    "bad_opcode": ("no RDMA WRITE ONLY", "the collector takes reports of p4/flowstats.p4"),
    "bad_qp": ("to a queue pair that there is not", "its number is qp_number in the program's control file: {pairs}"),
    "bad_key": ("of a wrong key", "qp_key has to be the program's: {pairs}"),
    "out_of_bounds": ("to an address beside the ring", "qp_base and qp_end have to be the program's: {pairs}"),
    "bad_version": ("of another format", "name the program's --format"),
    "psn_duplicate": ("older than the first number", "qp_psn has to be the program's at its start: {pairs}"),
}


def refused(counters: dict) -> int:
    """Frames that were not written to a ring."""
    return sum(counters[name] for name in VERDICTS)


def taken(counters: dict) -> int:
    """Reports that were."""
    return counters["accepted"] + counters["from_memory"]


def in_words(counters: dict) -> str:
    """A line for people. What was lost is known here from the reports' own numbers alone: `delivery` tells the rest."""
    reasons = ", ".join(f"{counters[name]:,} {name}" for name in VERDICTS if counters[name])
    return (
        f"{taken(counters):,} reports, {counters['flows']:,} flows; refused {refused(counters):,} frames"
        f"{f' ({reasons})' if reasons else ''}, {counters['psn_gap_lost']:,} lost by gaps in the sequence numbers"
    )


def nothing_taken(counters: dict, settings: Settings) -> str | None:
    """Where there were frames and not one became a report: what was refused, why most of it, what to do.

    Other traffic of a live interface is no report that was refused; a capture was named as one of reports.
    """
    foreign = 0 if settings.captures else counters["not_roce"]
    if taken(counters) or refused(counters) == foreign:
        return None
    most = max((name for name in VERDICTS if foreign == 0 or name != "not_roce"), key=counters.__getitem__)
    what, fix = VERDICTS[most]
    where = settings.interface or ", ".join(str(path) for path in settings.captures)
    count = refused(counters) - foreign
    share = f"{counters[most]:,}" if counters[most] < count else "all"
    return (
        f"{where}: none of {count:,} frames was taken, {share} are {what} ({most}); {fix.format(pairs=pairs(settings))}"
    )


def no_room(counters: dict) -> str | None:
    """Where reports came of flows that the table had no room for: how many, and what to do."""
    if not counters["table_full"]:
        return None
    return (
        f"{counters['table_full']:,} of {taken(counters):,} reports are of flows that found no room in the table "
        "(table_full), and are in no result; give --memory more"
    )


def pairs(settings: Settings) -> str:
    """Where the queue pairs come from."""
    return f"see {settings.control}" if settings.control else "those of --listen are new with each session"
