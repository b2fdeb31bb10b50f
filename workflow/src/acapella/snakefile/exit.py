"""Ending Snakemake with one line for a mistake by the user."""

import contextlib
import sys
from collections.abc import Iterator

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
