"""One run of the collector: sockets, receiver thread, output files."""

import asyncio
import contextlib
import json
import os
import signal
import time

from acapella.common.faults import DAMAGING
from acapella_core import collector as core
from acapella_core import control_lines, files
from acapella_core.errors import UserError, exit_code_of, is_out_of_memory

from . import output_directory
from .control import ControlServer, log
from .receiver_thread import ReceiverThread, core_queue_pair
from .recent_rows import RecentRows
from .rejections import counters_line, explain_no_report, explain_table_full
from .request_handlers import RequestHandlers
from .request_socket import RequestServer
from .sessions import Sessions
from .settings import Settings

PROGRESS_INTERVAL_S = 2.0
POLL_INTERVAL_S = 0.1  # between checks for the end of the run


class CollectorRun:
    """One run of the collector, from opening its sockets to writing its files."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._stopped = asyncio.Event()
        self._recent_rows = RecentRows()

    async def collect(self) -> int:
        """Receive until the run ends, then write the results. Return the exit code."""
        settings = self._settings
        options = core.Options(
            format=settings.report_format,
            threads=settings.threads,
            series_ns=settings.window_ns,
            memory_bytes=settings.memory_bytes,
        )
        pairs = [core_queue_pair(pair, settings.report_format) for pair in settings.queue_pairs]
        series = None if settings.window_ns is None else settings.directory / "series.parquet"
        with core.Collector(pairs, options, series=series, keep=True) as collector:
            collector.on_series = self._recent_rows.add
            receiver = ReceiverThread(settings, collector)
            sessions = Sessions(
                receiver,
                queue_pairs=settings.queue_pairs_per_session,
                ring_bytes=settings.ring_bytes,
                max_sessions=settings.max_sessions,
            )
            secret = (
                control_lines.make_secret(settings.directory / output_directory.SECRET) if settings.listen else None
            )
            control = ControlServer(sessions, secret) if secret else None
            self._stop_on_signals()
            with receiver.running():
                await asyncio.to_thread(receiver.wait_until_ready)
                async with self._servers(receiver, sessions, control):
                    await self._wait_for_end(collector, receiver, sessions)
            if receiver.failure and settings.captures:
                raise receiver.failure
            counters = collector.finish()
            collector.write_flows(settings.directory / "flows.parquet")
            losses = collector.losses
        write_codes = self._write_counters(counters, sessions, control, receiver, losses), report_losses(losses)
        code = exit_code(receiver, explain_no_report(counters, settings))
        return max(write_codes) or code or int(explain_table_full(counters) is not None)

    def _stop_on_signals(self) -> None:
        """End the run and keep its results on Ctrl-C, kill, or a closed terminal; ignore further signals.

        The loop's own handlers are not used: they are removed when it is closed.
        """
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            if not self._stopped.is_set():
                self._stopped.set()
                with contextlib.suppress(OSError):  # closed terminal
                    log(f"{signal.Signals(number).name}: writing results")

        def handle(number: int, _: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: results are written
                loop.call_soon_threadsafe(stop, number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored with nohup
                signal.signal(number, handle)

    @contextlib.asynccontextmanager
    async def _servers(self, receiver: ReceiverThread, sessions: Sessions, control: ControlServer | None):
        """Listen for control planes and for requests."""
        collector = receiver.collector

        def recent_rows():
            receiver.flush()
            return self._recent_rows.table()

        requests = RequestServer(RequestHandlers(self._settings, collector, sessions, recent_rows).by_name())
        settings = self._settings
        async with contextlib.AsyncExitStack() as servers:
            await requests.start(settings.directory)
            servers.push_async_callback(requests.close)
            if control:
                host, port = await control.start(*settings.listen, anywhere=settings.listen_anywhere)
                servers.push_async_callback(control.close)
                log(f"control channel: {host}:{port}, secret: {settings.directory / output_directory.SECRET}")
            source = settings.interface or settings.rdma_device or f"{len(settings.captures)} captures"
            log(f"receiving from {source}; show flows: acapella p4 top {settings.directory}")
            yield

    async def _wait_for_end(self, collector: core.Collector, receiver: ReceiverThread, sessions: Sessions) -> None:
        """Wait for a signal, the end of the source, or the end of all sessions."""
        reported_at = time.monotonic()
        warned = False
        while not (self._stopped.is_set() or receiver.over):
            if self._settings.until_sessions_end and sessions.all_ended():
                await asyncio.sleep(POLL_INTERVAL_S)  # the last reports are still in flight
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), POLL_INTERVAL_S)
            if self._settings.progress and time.monotonic() - reported_at >= PROGRESS_INTERVAL_S:
                reported_at = time.monotonic()
                log(counters_line(collector.counters()))
            if collector.losses and not warned:
                warned = True
                error = collector.losses["series"].error
                log(f"warning: series.parquet: {cause_text(error)}; later rows are lost, the run continues")

    def _write_counters(self, counters: dict, sessions: Sessions, control, receiver, losses: dict) -> int:
        """Write counters.json: outcomes of frames and reports, sessions, and how each capture ended.

        Return 0, or the exit code if the file cannot be written.
        """
        document = {
            "reports": counters,
            "delivery": report_delivery(counters, sessions.reports_sent()),
            "sessions": sessions.summary(),
            "control": dict(control.counts) if control else {},
            "captures": receiver.files,
            "not_written": {name: loss.rows for name, loss in losses.items() if loss.rows},
        }
        code = 0
        try:
            files.atomic_text(self._settings.directory / "counters.json", json.dumps(document, indent=1) + "\n")
        except UserError as error:
            code = exit_code_of(error)
            log(f"error: {error}; exit code {code}")
        for file in receiver.files:
            if file["end"] != "clean":
                advice = "; exit code 1" if file["end"] in DAMAGING else ""
                log(f"{file['file']}: {file['detail'] or file['end']}; only the part before this was read{advice}")
        log(counters_line(counters))
        if table_full := explain_table_full(counters):
            log(f"error: {table_full}; exit code 1")
        return code


def report_losses(losses: dict[str, core.Loss]) -> int:
    """Print which rows could not be written. Return the exit code: 0 if there are none."""
    code = 0
    for name, loss in losses.items():
        code = exit_code_of(loss.error)
        if isinstance(loss.error, files.NotSynced):
            log(f"error: {loss.error}; exit code {code}")
            continue
        written = f"{loss.all_rows - loss.rows:,} of {loss.all_rows:,} rows written"
        advice = "" if is_out_of_memory(loss.error) else "free disk space; "
        log(f"error: {name}.parquet: {written}: {cause_text(loss.error)}; {advice}exit code {code}")
    return code


def cause_text(error: BaseException) -> str:
    """Return the system's message for the root cause of an error, or the text of this cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (os.strerror(error.errno) if getattr(error, "errno", None) else None) or str(error)


def exit_code(receiver: ReceiverThread, no_report: str | None) -> int:
    """Return 1 if a capture is damaged, the interface failed, or all reports were rejected, else 0."""
    if isinstance(receiver.failure, UserError):
        log(f"error: {receiver.failure}; earlier reports are in the results; exit code 1")
        return 1
    if receiver.failure:
        raise receiver.failure
    if no_report:
        log(f"error: {no_report}; the tables are empty; exit code 1")
        return 1
    return int(any(file["end"] in DAMAGING for file in receiver.files))


def report_delivery(counters: dict[str, int], sent: int | None) -> dict[str, int | None]:
    """Compare the number of reports sent, according to the data planes, with those received.

    `missing` reports were lost on the way or sent before this collector started. `sent` and `missing` are None if a
    data plane did not report its number.
    """
    received = counters["frames"] - counters["not_roce"]
    counts = {"received": received, "accepted": counters["accepted"], "kernel_dropped": counters["kernel_dropped"]}
    missing = None if sent is None else sent - received - counters["kernel_dropped"]
    return {"sent": sent, **counts, "missing": missing}
