"""Entry point of the command line. It handles Ctrl-C before all other modules are imported."""

import _signal  # module signal without enum: nothing is imported before the handler
import os

INTERNAL = 70  # as in acapella_core.errors, whose import may itself be interrupted


def stop(*_) -> None:
    """Exit immediately: no command is running."""
    os.write(2, b"acapella: stopped\n")
    os._exit(130)


def exit_on_interrupt() -> None:
    """Make Ctrl-C end the program without an exception, which an import would print, unless SIGINT is ignored."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, stop)


def main() -> int:
    """Run the command line."""
    exit_on_interrupt()
    try:
        from .main import main as command_line  # noqa: PLC0415 - after the handler

        return command_line()
    except KeyboardInterrupt:  # outside of a command
        stop()
    except Exception:
        import traceback  # noqa: PLC0415 - slow to import

        traceback.print_exc()
        return INTERNAL
