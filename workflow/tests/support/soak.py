"""A plugin of pytest that selects long tests.

Tests that take several seconds are marked `soak`. `pytest` runs them, `make test` skips them, and `.ci/run` runs those
of some files (ACAPELLA_SOAK_SHARE), selected by the hash of the tree (ACAPELLA_SOAK_SEED). Of single tests that take
minutes, `.ci/run` selects a smaller share, and `pytest` and `make test` run none. `make soak` (ACAPELLA_SOAK) runs
all of both, and modules that import SOAK, which test more there.
"""

import hashlib
import os
import signal
import sys

import pytest

SOAK = os.environ.get("ACAPELLA_SOAK", "0") != "0"
SHARE = float(os.environ.get("ACAPELLA_SOAK_SHARE", "1"))
SEED = os.environ.get("ACAPELLA_SOAK_SEED", "")

MINUTES_SHARE = 0.25  # of SHARE

takes_minutes = pytest.mark.soak(minutes=True)


def register(config: pytest.Config) -> None:
    """Add the hooks below, once, and restore SIGINT if the tests run as a background job of a shell.

    Conftests call this function in `pytest_configure`.
    """
    if not config.pluginmanager.has_plugin(__name__):
        config.pluginmanager.register(sys.modules[__name__], __name__)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def runs_in_soak(item: pytest.Item) -> bool:
    """Return whether `make soak` runs a test."""
    return item.get_closest_marker("soak") is not None or hasattr(item.module, "SOAK")


def is_selected(name: str, share: float, seed: str) -> bool:
    """Return whether the long tests of a file, or one test, run if a share of all is selected."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") < share * 2**64


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect other tests in `make soak`."""
    if SOAK:
        config.hook.pytest_deselected(items=[item for item in items if not runs_in_soak(item)])
        items[:] = filter(runs_in_soak, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a long test that is not selected, before its fixtures are created."""
    mark = None if SOAK else item.get_closest_marker("soak")
    if mark and mark.kwargs.get("minutes"):
        if not (SEED and is_selected(item.nodeid, SHARE * MINUTES_SHARE, SEED)):
            pytest.skip("takes minutes: make soak")
    elif mark and not is_selected(item.path.name, SHARE, SEED):
        pytest.skip("takes several seconds: make soak, or pytest with this file")
