"""Implements the actions of `acapella replay --control`: requests to the agents, and printed results."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core import names
from acapella_core.control_lines import InvalidMessage
from acapella_core.errors import DAMAGED, UserError
from acapella_core.files import scratch_directory

from . import messages, skew
from .clocks import Offset, max_clock_error_ns
from .controller import Group, Remote, whole_number
from .departures import Origin, Summary, convert, duration, leads_of, lost_in_kernel
from .program import losses

LEAD_S = 1.0  # time until a start without --at, so that every agent receives the request in time
MIN_LEAD_NS = 100_000_000  # an earlier start might be too late for an agent
POLL_S = 0.5
QUIET_NS = 2_000_000_000  # time before a start during which agents get no requests; less than Timeouts.silent_s
END_S = 3600.0  # timeout after the expected end of a run

# Parts of the program's events that are printed in separate lines, or repeat the request.
NOT_LISTED = ("state", "runs", "ports", "clock", "command", "run")

Print = Callable[[str], None]


@dataclass(frozen=True)
class RunPlan:
    """Arguments of `run`. ``at`` maps the current time to the start, both in ns; None: in LEAD_S.

    ``departures`` is the file for the departures; with several agents, `-NUMBER` is added to the name of each file.
    """

    at: Callable[[int], int] | None = None
    loops: int = 1
    speed_ppm: int = 1_000_000
    departures: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a run of one agent."""

    remote: Remote
    clock: Offset
    summary: Summary
    done: dict[str, Any]


def send_request(group: Group, request: messages.Request, show: Print) -> int:
    """Send one request to all agents and print their acknowledgments."""
    for remote, done in zip(group.remotes, group.request(request), strict=True):
        show(f"{remote.name}: {messages.NAMES[type(request)]}: {counters(done) or 'done'}")
    return 0


def status(group: Group, show: Print) -> int:
    """Print state, counters and clock of every agent."""
    offsets = group.each(Remote.clock)
    for remote, done, offset in zip(group.remotes, group.request(messages.Status()), offsets, strict=True):
        show(f"{remote.name}: {done.get('state')}, {remote.welcome.get('ports')}")
        program = done.get("program") if isinstance(done.get("program"), dict) else {}
        parts = {
            "recording": program,
            "port": program.get("ports"),
            "run": done.get("run"),
            "control": done.get("control"),
        }
        for part, value in parts.items():
            for entry in value if isinstance(value, list) else [value]:
                if isinstance(entry, dict) and entry:
                    show(f"{remote.name}: {part}: {counters(entry)}")
        show(clock_line(remote, offset))
    return 0


def counters(done: dict[str, Any]) -> str:
    """Return a result as `name value, name value, ...`; names in nested results and lists are joined with dots."""
    return ", ".join(f"{name} {value}" for name, value in flatten(done) if name.split(".")[0] not in NOT_LISTED)


def flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in a result that are neither objects, lists nor null, with their names."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flatten(item, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value


def clock_line(remote: Remote, offset: Offset) -> str:
    """Return a line about the clock of an agent: its offset by round trips, and its state as the node reports it."""
    sign = "ahead of" if offset.offset_ns >= 0 else "behind"
    line = f"{remote.name}: clock {duration(abs(offset.offset_ns))} {sign} this machine's, "
    line += f"+/- {duration(offset.error_ns)} (round trips)"
    reported = node_clock(remote)
    if "source" not in reported:
        return f"{line}; its own synchronization is unknown"
    offset_text = f" {duration(reported['offset_ns'])}" if "offset_ns" in reported else ""
    state = {True: "synchronized", False: "not synchronized"}.get(reported.get("synchronized"), "unknown")
    return f"{line}; {reported['source']}:{offset_text} {state}"


def run(group: Group, plan: RunPlan, show: Print, now_ns: Callable[[], int] = time.time_ns) -> int:
    """Start all agents at the same time, wait for their end, and report departures and skew. Return the exit code."""
    offsets_before = group.each(lambda remote: remote.clock(now_ns))
    start_ns = start(plan, now_ns)
    try:
        planned = group.request(messages.Run(start_ns, plan.loops, plan.speed_ppm))
        if now_ns() >= start_ns:
            raise UserError("the replayers did not confirm the start in time", where="run", fix="choose a later --at")
        show(f"start: {start_ns} ns since 1970, in {duration(start_ns - now_ns())}")
        statuses = wait_for_end(group, start_ns, planned, offsets_before, now_ns)
    except BaseException:
        stop_all(group)
        raise
    offsets_after = group.each(lambda remote: remote.clock(now_ns))
    clocks = [first.union(second) for first, second in zip(offsets_before, offsets_after, strict=True)]
    outcomes, faults = collect(group, plan, clocks, statuses)
    code = report(outcomes, show)
    for fault in faults[1:]:
        names.report(f"acapella: error: {fault}")
    if faults:
        raise faults[0]
    return code


def start(plan: RunPlan, now_ns: Callable[[], int]) -> int:
    """Return the time of the start. Raises UserError if it is too early."""
    now = now_ns()
    start_ns = now + round(LEAD_S * 1e9) if plan.at is None else plan.at(now)
    if start_ns - now < MIN_LEAD_NS:
        raise UserError(
            "the start is in the past, or less than 0.1 s away", where="--at", fix="choose a later time, for example +2"
        )
    return start_ns


def stop_all(group: Group) -> None:
    """Stop every agent that can still be reached, one by one, because one of them may have caused the error."""
    for remote in group.remotes:
        with contextlib.suppress(UserError):
            remote.request(messages.Stop())


def wait_for_end(
    group: Group,
    start_ns: int,
    planned: Sequence[dict[str, Any]],
    clocks: Sequence[Offset],
    now_ns: Callable[[], int],
) -> list[dict[str, Any]]:
    """Return the status of every agent after the end of its run. Raises UserError if a run does not end in time.

    Shortly before and during the run of an agent, nothing is requested from it unless its connection is lost: a request
    would disturb the run.
    """
    starts_ns = [start_ns - clock.offset_ns for clock in clocks]  # on this machine's clock
    runs = zip(starts_ns, planned, clocks, strict=True)
    ends_ns = [first_ns + duration_ns(run_) + clock.error_ns for first_ns, run_, clock in runs]
    until_ns = max(ends_ns) + round(END_S * 1e9)
    found: dict[str, dict[str, Any]] = {}  # by the agent's name
    while True:
        now = now_ns()
        times = zip(group.remotes, starts_ns, ends_ns, strict=True)
        asked = [remote for remote, first, last in times if not first - QUIET_NS < now < last or remote.is_lost()]
        if asked:  # also shows the agents that this side is alive
            found |= zip([remote.name for remote in asked], group.each(Remote.status, asked), strict=True)
        statuses = [found.get(remote.name, {}) for remote in group.remotes]
        if all(isinstance(status_.get("run"), dict) for status_ in statuses):
            return statuses
        for remote, status_ in zip(group.remotes, statuses, strict=True):
            if status_.get("state") == "idle" and not isinstance(status_.get("run"), dict):
                raise UserError("the run did not start", where=f"replayer {remote.name}")
        if now > until_ns:
            raise UserError("a run did not end", where="run")
        time.sleep(POLL_S)


def duration_ns(scheduled: dict[str, Any]) -> int:
    """Return the duration of a run; 0 if unknown."""
    with contextlib.suppress(InvalidMessage):
        return whole_number(scheduled, "period_ns") * whole_number(scheduled, "loops")
    return 0


def collect(
    group: Group, plan: RunPlan, clocks: Sequence[Offset], statuses: Sequence[dict[str, Any]]
) -> tuple[list[Outcome], list[UserError]]:
    """Fetch the departures of all agents, and write them as Parquet if that was requested.

    Return the outcomes, and the errors of agents whose departures could not be fetched or are invalid.
    """
    outcomes, faults = [], []
    with scratch_directory() as scratch:
        files = [scratch / str(number) for number in range(len(group.remotes))]
        errors = group.each(lambda remote: try_fetch(remote, files[group.remotes.index(remote)]))
        for number, (remote, clock, run_status) in enumerate(zip(group.remotes, clocks, statuses, strict=True)):
            if errors[number] is not None:
                faults.append(errors[number])
                continue
            target = departures_path(plan.departures, number + 1, len(group.remotes))
            try:
                summary = convert(files[number], target, origin_of(remote, clock, run_status, plan))
            except UserError as error:
                faults.append(UserError(f"departures: {error}", where=f"replayer {remote.name}"))
            else:
                outcomes.append(Outcome(remote, clock, summary, run_status["run"]))
    return outcomes, faults


def origin_of(remote: Remote, clock: Offset, run_status: dict[str, Any], plan: RunPlan) -> Origin:
    """Return the origin of the departures of an agent."""
    return Origin(
        clock_offset_ns=clock.offset_ns,
        clock_error_ns=program_clock(clock, run_status["run"]).error_ns,
        clock_source="round trips",
        recording_sha256=text_or_none(run_status.get("recording_sha256")),
        speed_ppm=plan.speed_ppm,
        pacing=text_or_none(remote.welcome.get("pacing")),
        leads=leads_of(run_status["run"]),
        node_clock=node_clock(remote),
    )


def program_clock(clock: Offset, done: dict[str, Any]) -> Offset:
    """Return the offset of the clock that timed a run, from the system clock's offset and the run's event `done`."""
    return Offset(clock.offset_ns, clock.error_ns + (max_clock_error_ns(done) or 0))


def try_fetch(remote: Remote, target: Path) -> UserError | None:
    """Fetch the departures of an agent; return the error if that fails, so that other agents' departures are kept."""
    try:
        fetch(remote, target)
    except UserError as error:
        return error
    return None


def fetch(remote: Remote, target: Path) -> None:
    """Write the departures of an agent to a file and end its connection.

    The agent need not wait for the other agents or for the conversion. Its departures are then complete, so an error
    while the connection ends is only a warning.
    """
    remote.fetch_departures(target)
    try:
        remote.end()
    except UserError as error:
        names.report(f"acapella: warning: {error}; its departures are complete")


def node_clock(remote: Remote) -> dict[str, Any]:
    """Return the clock state reported by the machine of an agent; values of an unexpected type are omitted."""
    clock = remote.welcome.get("clock")
    clock = clock if isinstance(clock, dict) else {}
    kinds = {"source": str, "offset_ns": int, "synchronized": bool}
    return {key: clock[key] for key, kind in kinds.items() if type(clock.get(key)) is kind}


def text_or_none(value: object) -> str | None:
    """Return the value if it is a printable string, otherwise None."""
    return value if isinstance(value, str) and value.isprintable() else None


def departures_path(path: Path | None, number: int, total: int) -> Path | None:
    """Return the path of the departures of an agent: with several agents, `NAME-NUMBER.parquet`."""
    if path is None or total == 1:
        return path
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def report(outcomes: Sequence[Outcome], show: Print) -> int:
    """Print the summary of every agent and the skew between them; return 1 if packets were not sent, otherwise 0."""
    for outcome in outcomes:
        for line in result_lines(outcome.summary, outcome.done):
            show(f"{outcome.remote.name}: {line}")
        show(clock_line(outcome.remote, outcome.clock))
    deviations_or_none = [
        skew.deviation(item.remote.name, item.summary.errors_ns, program_clock(item.clock, item.done))
        for item in outcomes
    ]
    deviations = [item for item in deviations_or_none if item is not None]
    for item in skew.skews(deviations):
        show(f"skew: {item.line()}")
    largest = skew.largest(deviations)
    if largest is not None and len(deviations) > 2:
        show(f"largest skew: {largest.line()}")
    lost = [f"{item.remote.name}: {line}" for item in outcomes for line in losses_of(item.done)]
    for line in lost:
        names.report(f"acapella: warning: {line}")
    return DAMAGED if lost or any(item.summary.sent < item.summary.packets for item in outcomes) else 0


def result_lines(summary: Summary, done: dict[str, Any], mtus: Mapping[str, int] | None = None) -> list[str]:
    """Return the lines about a run; ``mtus``: the MTU of each network interface, if known."""
    head, *others = summary.lines()
    return [head, *too_long_lines(summary, mtus or {}), *others, *loop_lines(done), *lead_lines(done)]


def too_long_lines(summary: Summary, mtus: Mapping[str, int]) -> list[str]:
    """Return a line with the number of packets that were too long to be sent, if there are any."""
    number = summary.outcomes.get("too_long", 0)
    if not number:
        return []
    known = ", ".join(f"{mtu} of {name}" for name, mtu in mtus.items())
    return [f"too_long: {number} packets are longer than the MTU{f' {known}' if known else ' of their port'} permits"]


def losses_of(done: dict[str, Any]) -> list[str]:
    """Return a line for each interface that lost packets during a run: sent ones in the kernel, or received ones."""
    return [*lost_in_kernel(done), *losses(done)]


def lead_lines(done: dict[str, Any]) -> list[str]:
    """Return a line about the lead times of the ports, if packets were sent individually (`--pace single`)."""
    leads = leads_of(done) if done.get("pacing") == "single" else ()
    return [f"lead time: {', '.join(map(str, leads))}"] if leads else []


def loop_lines(done: dict[str, Any]) -> list[str]:
    """Return a line about late packets and the causes of delays, if the program counted them."""
    polling = done.get("polling")
    with contextlib.suppress(InvalidMessage):
        late, late_ns = whole_number(done, "sent_late"), whole_number(done, "late_ns")
        if isinstance(polling, dict):
            preemptions, gap_ns = whole_number(polling, "preemptions"), whole_number(polling, "largest_gap_ns")
            return [
                f"{names.pluralize(late, 'packet')} more than {duration(late_ns)} late, "
                f"{names.pluralize(preemptions, 'preemption')}, "
                f"largest gap of the polling loop {duration(gap_ns)}"
            ]
    return []
