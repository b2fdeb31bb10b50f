"""Wait for something that other threads and processes do."""

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_S = 300  # reached only if something hangs
Value = TypeVar("Value")


def wait_until(
    condition: Callable[[], Value], what: object = "timeout", *, running: subprocess.Popen | None = None
) -> Value:
    """Return the first true value of a condition. Fails after TIMEOUT_S, and if process ``running`` ends before."""
    end = time.monotonic() + TIMEOUT_S
    while not (value := condition()):
        assert time.monotonic() < end, what
        assert running is None or running.poll() is None, what
        time.sleep(0.01)
    return value
