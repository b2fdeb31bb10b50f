"""A time limit for a part of a command."""

import contextlib
import signal
from collections.abc import Iterator

from acapella_core.errors import UserError


@contextlib.contextmanager
def time_limit(seconds: float | None, *, where: object, fix: str) -> Iterator[None]:
    """Raise UserError in the context after a number of seconds; None sets no limit.

    A signal handler of the main thread raises it, so the context ends only when Python or the core checks for signals:
    the core does so while it waits for tshark, and between batches of frames. ``where`` and ``fix`` are passed to
    UserError. The exit code is OUTSIDE, because a faster or less busy machine may complete the part.
    """
    if seconds is None:
        yield
        return

    error = UserError(f"not finished after {seconds:,.0f} s", where=where, fix=fix, outside=True)
    expired = False

    def end(*_):
        nonlocal expired
        expired = True
        raise error

    previous = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as caught:
        if expired and caught is not error:  # DuckDB replaces the exception of a signal handler
            raise error from caught
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
