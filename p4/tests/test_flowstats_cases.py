"""The cases of flowstats.stf: what each kind of packet is reported as."""

from __future__ import annotations

from pathlib import Path

import pytest
from acapella_p4_model import running, stf

CASES = stf.read_cases(Path(__file__).with_name("flowstats.stf"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_case(case, tmp_path, small_spec):
    if not running.LOADER.exists():
        pytest.skip("acapella-p4-run is not there: make setup builds it where libdpdk-dev, libpcap-dev are installed")
    assert case.failures("flowstats", tmp_path, small_spec) == []
