"""Generators that send while a monitor runs."""

import time
from abc import ABC, abstractmethod

from .program import Event


class Sender(ABC):
    """Generators that start when the monitor listens. The monitor ends ``settle_s`` after them, for late packets."""

    def __init__(self, settle_s: float):
        self._settle_s = settle_s
        self._is_started = False
        self._ended_s: float | None = None

    @abstractmethod
    def start(self) -> None:
        """Start the generators."""

    @abstractmethod
    def ended(self) -> bool:
        """Return whether all generators have ended. Raises UserError if one failed."""

    @abstractmethod
    def close(self) -> None:
        """End the generators that still run."""

    def on_event(self, _: Event) -> bool:
        """Start the generators at the first event of the monitor; return whether the monitor can end."""
        if not self._is_started:
            self._is_started = True
            self.start()
        elif self.ended():
            now = time.monotonic()
            self._ended_s = self._ended_s or now
            return now - self._ended_s >= self._settle_s
        return False
