"""The exception for user errors and system errors, and the exit codes of commands."""

import errno
import os
import sys

# Exit codes. Snakemake keeps output only if a command exits with 0.
DAMAGED = 1  # the capture is damaged, or results differ; output contains the part that could be read
MISTAKE = 2  # invalid input: no output
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: an error in the program, with a traceback
OUTSIDE = 75  # EX_TEMPFAIL: lack of space, memory, time or a program, or a disk error; the input may be valid
INTERRUPTED = (129, 130, 143)  # 128 + SIGHUP, SIGINT, SIGTERM

SYSTEM_ERRNOS = {
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


# CPython: a lock of an import or a file, a thread; Arrow: zstd and Thrift, which do not use `operator new`
OUT_OF_MEMORY = ("can't allocate ", "can't start new thread", "not enough memory", "std::bad_alloc")
DISK_EXCEPTIONS = ("IOException", "FatalException", "TransactionException")  # DuckDB: file, checkpoint, commit


class UserError(Exception):
    """An error message in one line: what failed, where, and what to do.

    The command line prints it as ``acapella: error: ...`` and exits with MISTAKE, or with OUTSIDE if ``outside`` is
    true or the cause is a system error; a traceback is printed only with ``--debug``.
    """

    def __init__(self, what: str, *, where: object = None, fix: str | None = None, outside: bool = False):
        self.outside = outside
        parts = [what if where is None else f"{where}: {what}"]
        if fix:
            parts.append(fix)
        super().__init__("; ".join(parts))


def failed_allocations() -> int:
    """Return the number of allocations of C++ libraries, such as Arrow, that failed so far in this process."""
    core = sys.modules.get(f"{__package__}._native")
    return core.failed_allocations() if core else 0


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory could not be allocated, by Python or by a library.

    Arrow ignores some failed allocations and then, for example, reports that equal schemas differ; DuckDB reports some
    as an error of a transaction. Therefore, any error after a failed allocation of a library counts.
    """
    if failed_allocations() or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return True
    return isinstance(error, (RuntimeError, OSError)) and any(text in str(error) for text in OUT_OF_MEMORY)


def exit_code_of(error: BaseException) -> int:
    """Return OUTSIDE if an error or its cause is a system error; else MISTAKE."""
    checked = []
    while error is not None and error not in checked:
        checked.append(error)
        if getattr(error, "outside", False) or is_out_of_memory(error):
            return OUTSIDE
        if getattr(error, "errno", None) in SYSTEM_ERRNOS:
            return OUTSIDE
        # DuckDB, which is imported only if needed; its errors have no errno.
        if type(error).__name__ in DISK_EXCEPTIONS and any(
            os.strerror(number) in str(error) for number in SYSTEM_ERRNOS
        ):
            return OUTSIDE
        error = error.__cause__ or error.__context__
    return MISTAKE
