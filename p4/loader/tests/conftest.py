"""The loader's tests: modules that they share, and SIGINT as usual for the programs that they start."""

import signal
import sys
from pathlib import Path

from acapella_testing.soak import pytest_runtest_setup  # noqa: F401 (a hook)

sys.path.insert(0, str(Path(__file__).parent))  # p4_loader


def pytest_configure():
    """Restore the default handling of SIGINT for programs if the tests run as a background job of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
