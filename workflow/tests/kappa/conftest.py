"""Fixtures of the tests of kappa."""

import pytest
from acapella_testing.frames.trial_captures import pair, write


@pytest.fixture
def compared(tmp_path, capsys):
    """Return a function that writes two trials, each given as offsets or as (offsets, numbers), and compares them."""

    def compare(*trials, **options):
        trials, words = trials[:2], trials[2:]
        parts = [trial if isinstance(trial, tuple) else (trial,) for trial in trials]
        paths = [write(tmp_path / f"{name}.pcap", *part, **options) for name, part in zip("ab", parts, strict=True)]
        return pair(capsys, *paths, *words)

    return compare
