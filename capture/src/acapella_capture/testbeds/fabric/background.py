"""Calls in threads that do not delay the end of the program.

An SSH connection that is being opened cannot be interrupted, and at exit, Python waits for the threads of a
ThreadPoolExecutor. Daemon threads end with the program.
"""

import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

SIGNAL_CHECK_S = 0.5


def submit(function: Callable[..., Any], *arguments: Any, **options: Any) -> Future:
    """Call a function in a daemon thread."""
    future: Future = Future()

    def work() -> None:
        try:
            future.set_result(function(*arguments, **options))
        except BaseException as error:  # raised where the result is used
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def call_for_each(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Call a function for all items in parallel; return the results in order.

    Raises the first error when all calls have ended. A signal handler that raises an exception ends the wait.
    """
    futures = [submit(function, item) for item in items]
    # A signal that arrives just before a wait does not end it: Python calls its handler when the wait ends.
    while concurrent.futures.wait(futures, SIGNAL_CHECK_S).not_done:
        pass
    return [future.result() for future in futures]
