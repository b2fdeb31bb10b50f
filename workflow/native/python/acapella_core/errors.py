"""One exception for a user's mistake or a fault outside the program."""


class UserError(Exception):
    """What went wrong, where, and what to do, in one line.

    The command line prints it as ``acapella: error: ...`` and exits with 2; a traceback only with ``--debug``.
    """

    def __init__(self, what: str, *, where: object = None, fix: str | None = None):
        parts = [what if where is None else f"{where}: {what}"]
        if fix:
            parts.append(fix)
        super().__init__("; ".join(parts))
