"""The command's entry: Ctrl-C ends it in one line from here on, also while all else is still being imported."""

import _signal  # module signal without enum: nothing is imported before the handler
import os

INTERNAL = 70  # as in acapella_core.errors, which may be what cannot be imported


def stop(*_) -> None:
    """End at once: nothing was begun yet, or all is done."""
    os.write(2, b"acapella: stopped\n")
    os._exit(130)


def stop_at_once() -> None:
    """Have Ctrl-C end the program without an exception, which an import would print. Ignored, it stays ignored."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, stop)


def main() -> int:
    """Run the command line."""
    stop_at_once()
    try:
        from .main import main as command_line  # noqa: PLC0415 - after the handler

        return command_line()
    except KeyboardInterrupt:  # outside of a stage
        stop()
    except Exception:
        import traceback  # noqa: PLC0415 - slow to import

        traceback.print_exc()
        return INTERNAL
