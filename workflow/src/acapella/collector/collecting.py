"""One run of the collector: its sockets, its receiving thread, its files."""

import asyncio
import contextlib
import json
import os
import signal
import time

from acapella.common import control_channel
from acapella.common.faults import DAMAGING
from acapella_core import collector as core
from acapella_core import files
from acapella_core.errors import UserError, exit_code_of

from . import place
from .answers import Answers
from .control import ControlServer, note
from .questions import QuestionServer
from .reception import Reception, of_core
from .refusals import in_words, no_room, nothing_taken
from .sessions import Sessions
from .settings import Settings
from .tail import Tail

PROGRESS_S = 2.0
LOOK_S = 0.1  # between two looks whether it is over


class Run:
    """One run of the collector, from its sockets to its files."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._stopped = asyncio.Event()
        self._tail = Tail()

    async def collect(self) -> int:
        """Receive until there is an end; write what there is."""
        settings = self._settings
        options = core.Options(
            format=settings.report_format,
            threads=settings.threads,
            series_ns=settings.window_ns,
            memory_bytes=settings.memory_bytes,
        )
        pairs = [of_core(pair, settings.report_format) for pair in settings.queue_pairs]
        series = None if settings.window_ns is None else settings.directory / "series.parquet"
        with core.Collector(pairs, options, series=series, keep=True) as collector:
            collector.on_series = self._tail.add
            reception = Reception(settings, collector)
            sessions = Sessions(
                reception,
                queue_pairs=settings.a_session,
                ring_bytes=settings.ring_bytes,
                most=settings.most_sessions,
            )
            secret = control_channel.make_secret(settings.directory / place.SECRET) if settings.listen else None
            control = ControlServer(sessions, secret) if secret else None
            self._stop_on_signals()
            with reception.running():
                await asyncio.to_thread(reception.wait_until_ready)
                async with self._servers(reception, sessions, control):
                    await self._until_over(collector, reception, sessions)
            if reception.failure and settings.captures:
                raise reception.failure
            counters = collector.finish()
            collector.write_flows(settings.directory / "flows.parquet")
            losses = collector.losses
        unwritten = self._write_counters(counters, sessions, control, reception, losses), note_losses(losses)
        rest = outcome(reception, nothing_taken(counters, settings)) or int(no_room(counters) is not None)
        return max(unwritten) or rest

    def _stop_on_signals(self) -> None:
        """Ctrl-C, kill, or a terminal that is closed end the run with its results; a second one changes nothing."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            if not self._stopped.is_set():
                self._stopped.set()
                with contextlib.suppress(OSError):  # a terminal that was closed
                    note(f"{signal.Signals(number).name}: writing what there is")

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, stop, number)

    @contextlib.asynccontextmanager
    async def _servers(self, reception: Reception, sessions: Sessions, control: ControlServer | None):
        """Listen for control planes and for questions."""
        collector = reception.collector

        def newest():
            reception.flush()
            return self._tail.table()

        questions = QuestionServer(Answers(self._settings, collector, sessions, newest).by_name())
        settings = self._settings
        async with contextlib.AsyncExitStack() as servers:
            await questions.start(settings.directory)
            servers.push_async_callback(questions.close)
            if control:
                host, port = await control.start(*settings.listen, anywhere=settings.listen_anywhere)
                servers.push_async_callback(control.close)
                note(f"control channel on {host}:{port}, secret in {settings.directory / place.SECRET}")
            source = settings.interface or settings.rdma_device or f"{len(settings.captures)} captures"
            note(f"receiving from {source}; acapella collector top {settings.directory}")
            yield

    async def _until_over(self, collector: core.Collector, reception: Reception, sessions: Sessions) -> None:
        """Wait for a signal, the end of the source, or of every session."""
        told = time.monotonic()
        lost = False
        while not (self._stopped.is_set() or reception.over):
            if self._settings.until_ended and sessions.all_ended():
                await asyncio.sleep(LOOK_S)  # what was sent last is still on its way
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), LOOK_S)
            if self._settings.progress and time.monotonic() - told >= PROGRESS_S:
                told = time.monotonic()
                note(in_words(collector.counters()))
            if collector.losses and not lost:
                lost = True
                error = collector.losses["series"].error
                note(f"warning: series.parquet: {cause(error)}; later rows are lost, and the run goes on")

    def _write_counters(self, counters: dict, sessions: Sessions, control, reception, losses: dict) -> int:
        """Write counters.json: what became of every frame and report, who sent them, and how each capture ended.

        Return 0, or the exit code if it cannot be written.
        """
        document = {
            "reports": counters,
            "delivery": delivery(counters, sessions.reports_sent()),
            "sessions": sessions.summary(),
            "control": dict(control.counts) if control else {},
            "captures": reception.files,
            "not_written": {name: loss.rows for name, loss in losses.items()},
        }
        code = 0
        try:
            files.atomic_text(self._settings.directory / "counters.json", json.dumps(document, indent=1) + "\n")
        except UserError as error:
            code = exit_code_of(error)
            note(f"error: {error}; exit code {code}")
        for file in reception.files:
            if file["end"] != "clean":
                advice = "; exit code 1" if file["end"] in DAMAGING else ""
                note(f"{file['file']}: {file['detail'] or file['end']}; what is whole before it was read{advice}")
        note(in_words(counters))
        if full := no_room(counters):
            note(f"error: {full}; exit code 1")
        return code


def note_losses(losses: dict[str, core.Loss]) -> int:
    """Print which rows were not written; 0, or the exit code if there are any."""
    code = 0
    for name, loss in losses.items():
        code = exit_code_of(loss.error)
        kept = f"{loss.all_rows - loss.rows:,} of {loss.all_rows:,} rows are written"
        note(f"error: {name}.parquet: {kept}: {cause(loss.error)}; free some space; exit code {code}")
    return code


def cause(error: BaseException) -> str:
    """Return the system's text of an error, or of the one behind it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (os.strerror(error.errno) if getattr(error, "errno", None) else None) or str(error)


def outcome(reception: Reception, refusal: str | None) -> int:
    """0, or 1 where a capture is damaged, the interface went, or nothing was taken: what there is is written."""
    if isinstance(reception.failure, UserError):
        note(f"error: {reception.failure}; what came until then is written; exit code 1")
        return 1
    if reception.failure:
        raise reception.failure
    if refusal:
        note(f"error: {refusal}; the tables are empty; exit code 1")
        return 1
    return int(any(file["end"] in DAMAGING for file in reception.files))


def delivery(counters: dict[str, int], sent: int | None) -> dict[str, int | None]:
    """What the data planes say they sent beside what came; `missing` came to nobody, or before this collector began.

    Null where one of them could not say it.
    """
    came = counters["frames"] - counters["not_roce"]
    known = {"came": came, "accepted": counters["accepted"], "kernel_dropped": counters["kernel_dropped"]}
    missing = None if sent is None else sent - came - counters["kernel_dropped"]
    return {"sent": sent, **known, "missing": missing}
