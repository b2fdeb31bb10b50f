"""Signals to the user's experiment: when the samples of all sites start, and when they have ended."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from ..settings import SignalSettings

STEP_S = 0.5  # interval of checks for a stop while a site waits for the others


@dataclass(frozen=True)
class Notice:
    """A problem of a collection that affects no sample."""

    text: str


class ExperimentSignal:
    """Sends `start` once captures run at every site that has not ended, and `stop` once all sites have ended.

    `on_failure` is called with the reason if `start` fails, `on_notice` if `stop` fails.
    """

    def __init__(
        self,
        settings: SignalSettings | None,
        sites: Iterable[str],
        on_failure: Callable[[str], None],
        on_notice: Callable[[Notice], None],
    ):
        self._settings = settings
        self._on_failure = on_failure
        self._on_notice = on_notice
        self._changed = threading.Condition(threading.RLock())
        self._unprepared = set(sites)
        self._waiting = set(sites)  # sites without a capture yet
        self._sampling: set[str] = set()
        self._starting: threading.Thread | None = None
        self._stopped = False
        if settings is not None and settings.file is not None:
            Path(settings.file).unlink(missing_ok=True)  # left by a killed collection

    def prepared(self, site: str, stop: threading.Event) -> None:
        """Wait, before a site's first sample, until all sites are prepared, so that each samples the experiment."""
        if self._settings is None:
            return
        with self._changed:
            self._unprepared.discard(site)
            self._changed.notify_all()
            while self._unprepared and not stop.is_set():
                self._changed.wait(STEP_S)

    def sampling(self, site: str) -> None:
        """Record that captures run at a site."""
        with self._changed:
            if site in self._waiting:
                self._waiting.discard(site)
                self._sampling.add(site)
                self._start_if_all()

    def ended(self, site: str) -> None:
        """Record that a site takes no more samples. Send `stop` after the last site."""
        with self._changed:
            for names in (self._unprepared, self._waiting, self._sampling):
                names.discard(site)
            self._changed.notify_all()
            self._start_if_all()
            if self._waiting or self._sampling or self._starting is None or self._stopped:
                return
            self._stopped = True
        self._starting.join()
        self._stop()

    def _start_if_all(self) -> None:
        if self._settings is not None and self._sampling and not self._waiting and self._starting is None:
            self._starting = threading.Thread(target=self._start, name="start signal", daemon=True)
            self._starting.start()

    def _start(self) -> None:
        """Write the file and run the command. Runs in a separate thread, because samples continue meanwhile."""
        try:
            if self._settings.file is not None:
                atomic_text(Path(self._settings.file), "")
            if self._settings.start is not None:
                run(self._settings.start, self._settings.timeout_s)
        except (UserError, OSError) as error:
            self._on_failure(f"collect.signal.start: {error}")

    def _stop(self) -> None:
        try:
            if self._settings.file is not None:
                Path(self._settings.file).unlink(missing_ok=True)
            if self._settings.stop is not None:
                run(self._settings.stop, self._settings.timeout_s)
        except (UserError, OSError) as error:
            self._on_notice(Notice(f"collect.signal.stop: {error}"))


def run(command: str, timeout_s: float) -> None:
    """Run a command of the user with sh. Raises UserError if it fails, or has not ended after `timeout_s`."""
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches Acapella, which then sends `stop`
    ) as process:
        try:
            _, printed = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            fix = "start a long program in the background, or increase collect.signal.timeout_s"
            raise UserError(f"{command!r} timed out after {timeout_s:g} s", fix=fix) from error
    if process.returncode != 0:
        lines = printed.strip().splitlines()
        raise UserError(f"{command!r} failed: {lines[-1] if lines else f'exit status {process.returncode}'}")
