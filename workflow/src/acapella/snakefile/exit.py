"""Messages about errors: one line for a user's mistake, messages that Snakemake suppresses, and none about a stop."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

from snakemake_interface_logger_plugins.common import LogEvent

from acapella_core import names
from acapella_core.errors import INTERRUPTED, UserError

from .snakemake_internals import job_exit_code

INCOMPLETE = "At least one job did not complete successfully."  # Snakemake's last message after any failure


@contextlib.contextmanager
def exit_on_user_error(prefix: str = "") -> Iterator[None]:
    """End Snakemake with exit code 1 and the line ``prefix`` + error if a UserError is raised.

    Snakemake prints its own exceptions, such as WorkflowError, with the place in the Snakefile and a traceback.
    """
    try:
        yield
    except UserError as error:
        sys.exit(f"{prefix}{error}")


class QuietErrors(logging.Handler):
    """A handler for Snakemake's logger that prints errors outside jobs, which `--quiet all` suppresses.

    Examples are an unknown target and a missing input.

    ``hides_errors``: returns whether Snakemake suppresses these errors; ``is_reported``: returns whether a report about
    failed jobs follows, so that Snakemake's error adds nothing.
    """

    def __init__(self, hides_errors: Callable[[], bool], is_reported: Callable[[], bool]):
        super().__init__(logging.ERROR)
        self._hides_errors = hides_errors
        self._is_reported = is_reported

    def emit(self, record: logging.LogRecord) -> None:
        """Print an error. Other events, such as a failed job, are ignored."""
        if getattr(record, "event", None) == LogEvent.ERROR and self._hides_errors() and not self._is_reported():
            for line in filter(str.strip, record.getMessage().splitlines()):
                names.report(line, sys.stderr)


class WithoutStoppedJobs(logging.Filter):
    """A filter that omits Snakemake's messages about jobs that ended because the user stopped the run.

    Snakemake prints about 20 lines for each of these jobs, with its command and its log. Jobs that failed for another
    reason are printed as usual. ``stopping``: returns whether the run is being stopped.
    """

    def __init__(self, stopping: Callable[[], bool]):
        super().__init__()
        self._stopping = stopping

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is printed."""
        event = getattr(record, "event", None)
        if event not in (LogEvent.ERROR, LogEvent.JOB_ERROR) or not self._stopping():
            return True
        return job_exit_code(sys.exception())[0] not in INTERRUPTED and INCOMPLETE not in record.getMessage()


def omit_stopped_jobs(logger: logging.Logger, stopping: Callable[[], bool]) -> None:
    """Add `WithoutStoppedJobs` to the handlers that print on a terminal. Log files contain all messages."""
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.addFilter(WithoutStoppedJobs(stopping))
