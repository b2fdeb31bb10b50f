"""One exception for a user's mistake or a fault outside the program, and the exit codes of commands."""

import errno
import os

# Exit codes. Snakemake keeps output only if a command exits with 0.
DAMAGED = 1  # the capture is damaged, or answers differ; what could be read is written
MISTAKE = 2  # nothing could be made of this input
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: an error in the program, with a traceback
OUTSIDE = 75  # EX_TEMPFAIL: the machine lacks space or memory, or a disk fails; the input may be as good as any
INTERRUPTED = (129, 130, 143)  # 128 + SIGHUP, SIGINT, SIGTERM

MACHINE = {
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EHOSTDOWN,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENODEV,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ENOTCONN,
    errno.ENXIO,
    errno.EROFS,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


FROM_DISK = ("IOException", "FatalException", "TransactionException")  # of DuckDB: file, checkpoint, commit


class UserError(Exception):
    """What went wrong, where, and what to do, in one line.

    The command line prints it as ``acapella: error: ...`` and exits with MISTAKE, or with OUTSIDE if ``outside`` is
    true or a failed system call behind it is the machine's fault; a traceback only with ``--debug``.
    """

    def __init__(self, what: str, *, where: object = None, fix: str | None = None, outside: bool = False):
        self.outside = outside
        parts = [what if where is None else f"{where}: {what}"]
        if fix:
            parts.append(fix)
        super().__init__("; ".join(parts))


def exit_code_of(error: BaseException) -> int:
    """Return OUTSIDE if the machine caused an error or what it was raised from; else MISTAKE."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        if getattr(error, "outside", False) or isinstance(error, MemoryError):
            return OUTSIDE
        if getattr(error, "errno", None) in MACHINE:
            return OUTSIDE
        # DuckDB's, which is imported only where it is needed; it has no numbers of system calls.
        if type(error).__name__ == "OutOfMemoryException" or (
            type(error).__name__ in FROM_DISK and any(os.strerror(number) in str(error) for number in MACHINE)
        ):
            return OUTSIDE
        error = error.__cause__ or error.__context__
    return MISTAKE
