"""The command's entry: Ctrl-C ends it in one line from here on, also while all else is still being imported."""

import os
import signal
import traceback


def stop(*_) -> None:
    """End at once: nothing was begun yet, or all is done."""
    os.write(2, b"acapella: stopped\n")
    os._exit(130)


def heed_at_once() -> None:
    """Have Ctrl-C end the program without an exception, which an import would print. Ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


def heed_as_exception() -> None:
    """Have Ctrl-C raise KeyboardInterrupt again, so that what is half made is removed."""
    if signal.getsignal(signal.SIGINT) is stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> int:
    """Run the command line."""
    heed_at_once()
    from acapella_core.errors import INTERNAL  # noqa: PLC0415 - after the handler

    from .cli import main as command_line  # noqa: PLC0415

    try:
        return command_line()
    except Exception:
        traceback.print_exc()
        return INTERNAL
    finally:
        heed_at_once()
