"""Prints messages about errors outside of jobs: one line for a user's mistake, and messages suppressed by Snakemake."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

from snakemake_interface_logger_plugins.common import LogEvent

from acapella_core import names
from acapella_core.errors import UserError


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
