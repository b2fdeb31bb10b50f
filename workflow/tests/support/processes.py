"""Running processes, as /proc lists them."""

import contextlib
from pathlib import Path


def runs(*words: str) -> bool:
    """Return whether a process with this command line runs."""
    command = "".join(f"{word}\0" for word in words).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if path.read_bytes() == command:
                return True
    return False
