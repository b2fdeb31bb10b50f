"""Counters of a site's switch ports, read periodically and on request by a thread in the site's network namespace."""

import ctypes
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from ..base import Telemetry
from ..telemetry import rates_from_counters, since
from .processes import NAMESPACES

SOURCE = "the switch's own counters, read from /proc/net/dev"
EVERY_S = 0.5
HISTORY_S = 900
MIN_INTERVAL_S = 0.5  # shorter intervals give no meaningful rate
CLONE_NEWNET = 0x40000000
RX_BYTES, TX_BYTES = 0, 8  # columns of /proc/net/dev


class Counters:
    """The readings of one site, from `start` to `stop`."""

    def __init__(self, site: str, every_s: float | None = None):
        """Read every `every_s` seconds; None: every half second, and on each request."""
        self._site = site
        self._every_s = every_s or EVERY_S
        self._on_demand = every_s is None
        self._readings: deque[tuple[float, dict[str, tuple[int, int]]]] = deque(
            maxlen=round(HISTORY_S / self._every_s) + 2
        )
        self._new_reading = threading.Condition()
        self._requested = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and leave the namespace."""
        self._ended = True
        self._requested.set()
        self._thread.join()

    def telemetry(self, seconds: float, names: Iterable[str]) -> Telemetry | None:
        """Return the rates over the last `seconds`; None if no port has two readings."""
        with self._new_reading:
            if self._on_demand and self._readings and time.monotonic() - self._readings[0][0] < MIN_INTERVAL_S:
                self._new_reading.wait_for(
                    lambda: time.monotonic() - self._readings[0][0] >= MIN_INTERVAL_S, timeout=2 * MIN_INTERVAL_S
                )
            now = time.monotonic()
            if self._on_demand:
                self._requested.set()
                self._new_reading.wait_for(lambda: self._readings and self._readings[-1][0] >= now, timeout=2 * EVERY_S)
            readings = list(self._readings)
        counters = {}
        epoch = time.time() - time.monotonic()  # offset to the clock of the captures' timestamps
        for name in names:
            pairs = [(time_s + epoch, counts[name]) for time_s, counts in readings if name in counts]
            start = now + epoch - seconds
            counters[name] = tuple(since([(time_s, pair[index]) for time_s, pair in pairs], start) for index in (0, 1))
        return rates_from_counters(SOURCE, counters, counters)

    def _read(self) -> None:
        """Read the interfaces of the site's network namespace, in a thread that has entered it."""
        with (NAMESPACES / self._site).open() as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                return
        table = Path(f"/proc/self/task/{threading.get_native_id()}/net/dev")
        while not self._ended:
            counts = interfaces(table.read_text())
            with self._new_reading:
                self._readings.append((time.monotonic(), counts))
                self._new_reading.notify_all()
            self._requested.wait(self._every_s)
            self._requested.clear()


def interfaces(table: str) -> dict[str, tuple[int, int]]:
    """Return the bytes that each interface received and sent, from the text of /proc/net/dev."""
    counts = {}
    for line in table.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        columns = numbers.split()
        counts[name.strip()] = (int(columns[RX_BYTES]), int(columns[TX_BYTES]))
    return counts
