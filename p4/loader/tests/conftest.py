"""The loader's tests: modules that they share, and SIGINT as usual for the programs that they start."""

import signal
import sys
from pathlib import Path

from acapella_testing import soak

sys.path.insert(0, str(Path(__file__).parent))  # p4_loader


def pytest_configure(config):
    """Register the selection of long tests; restore SIGINT if the tests run as a background job of a shell."""
    soak.register(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
