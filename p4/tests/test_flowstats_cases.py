"""The cases of flowstats.stf: the report for each kind of packet."""

from __future__ import annotations

from pathlib import Path

import pytest
from acapella_p4_model import running, stf
from acapella_testing.requirements import require_built


@pytest.mark.parametrize("case", stf.read_cases(Path(__file__).with_name("flowstats.stf")), ids=lambda case: case.name)
def test_flowstats_case_matches_expected_packets(case, tmp_path, small_spec):
    require_built(running.LOADER.name)
    assert case.failures("flowstats", tmp_path, small_spec) == []
