"""The loader's tests: default handling of SIGINT for the programs that they start."""

import signal

from acapella_testing import soak


def pytest_configure(config):
    """Register the selection of long tests; restore SIGINT if the tests run as a background job of a shell."""
    soak.register(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
