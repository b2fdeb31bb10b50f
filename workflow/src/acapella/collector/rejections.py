"""Describes rejected frames and reports: their numbers and, if no report was accepted, the reason and a remedy."""

from acapella_core.names import pluralize

from .settings import Settings

REASONS = {  # for rejecting a frame, by the core's name: description, and remedy
    "not_roce": ("not RoCEv2", "use a file written by acapella p4 run --out"),
    "truncated": ("truncated by the capture", "capture without a snap length"),
    "bad_length": ("of the wrong length", "set --format to the program's"),
    "bad_icrc": ("with a wrong CRC", "capture at a point where no device changes frames"),
    "bad_opcode": ("not RDMA WRITE ONLY", "the collector accepts reports of p4/flowstats.p4"),
    "bad_qp": ("to an unknown queue pair", "qp_number must be the program's: {queue_pairs}"),
    "bad_key": ("with a wrong key", "qp_key must be the program's: {queue_pairs}"),
    "out_of_bounds": ("to an address outside the ring", "qp_base and qp_end must be the program's: {queue_pairs}"),
    "bad_version": ("of a different format", "set --format to the program's"),
    "psn_duplicate": ("with old sequence numbers", "qp_psn must be the program's at its start: {queue_pairs}"),
}


def rejected_frames(counters: dict) -> int:
    """Return the number of frames that were rejected."""
    return sum(counters[name] for name in REASONS)


def accepted_reports(counters: dict) -> int:
    """Return the number of reports that were accepted."""
    return counters["accepted"] + counters["from_memory"]


def counters_line(counters: dict) -> str:
    """Return the counters as a line, with only the losses that gaps in sequence numbers show (see report_delivery)."""
    reasons = ", ".join(f"{counters[name]:,} {name}" for name in REASONS if counters[name])
    return (
        f"{pluralize(accepted_reports(counters), 'report')}, {pluralize(counters['flows'], 'flow')}; "
        f"{pluralize(rejected_frames(counters), 'frame')} rejected"
        f"{f' ({reasons})' if reasons else ''}, {counters['psn_gap_lost']:,} lost (gaps in sequence numbers)"
    )


def explain_no_report(counters: dict, settings: Settings) -> str | None:
    """If frames were received but no report was accepted, return the main reason and a remedy.

    On a live interface, other traffic does not count as rejected reports; in a capture of reports it does.
    """
    foreign = 0 if settings.captures else counters["not_roce"]
    if accepted_reports(counters) or rejected_frames(counters) == foreign:
        return None
    main_reason = max((name for name in REASONS if foreign == 0 or name != "not_roce"), key=counters.__getitem__)
    description, remedy = REASONS[main_reason]
    fix = remedy.format(queue_pairs=queue_pairs(settings))
    where = settings.interface or ", ".join(str(path) for path in settings.captures)
    count = rejected_frames(counters) - foreign
    share = f"{counters[main_reason]:,}" if counters[main_reason] < count else "all"
    return f"{where}: none of {count:,} frames accepted, {share} are {description} ({main_reason}); {fix}"


def explain_table_full(counters: dict) -> str | None:
    """If the flow table was too small for some flows, return the number of their reports and a remedy."""
    if not counters["table_full"]:
        return None
    return (
        f"{counters['table_full']:,} of {accepted_reports(counters):,} reports are missing from the results: the flow "
        "table was full (table_full); increase --memory"
    )


def queue_pairs(settings: Settings) -> str:
    """Return a hint about where the queue pairs are listed."""
    return f"see {settings.control}" if settings.control else "with --listen, each session has new ones"
