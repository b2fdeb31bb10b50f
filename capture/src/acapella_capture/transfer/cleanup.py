"""Cleans up: attempts all steps, even if some of them fail, and raises the first error."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from acapella_core import names
from acapella_core.errors import UserError


@contextlib.contextmanager
def reported_error(report: Callable[[str], None]) -> Iterator[None]:
    """Print the error of a cleanup as a warning, because a previous error is the reason for the cleanup."""
    try:
        yield
    except UserError as error:
        report(f"warning: {error}")


def clean_up(steps: Sequence[Callable[[], object]], *, failed: bool) -> None:
    """Call all steps in order, even if one fails or is interrupted.

    Raises the first UserError, and prints later errors as warnings. If an earlier error is the reason for the cleanup
    (``failed``), all errors are printed as warnings.
    """
    errors: list[UserError] = []

    def attempt(step: Callable[[], object]) -> None:
        try:
            step()
        except UserError as error:
            errors.append(error)

    with contextlib.ExitStack() as stack:  # calls the remaining steps after Ctrl-C
        for step in reversed(steps):
            stack.callback(attempt, step)
    for error in errors if failed else errors[1:]:
        names.report(f"transfer: warning: {error}")
    if errors and not failed:
        raise errors[0]
