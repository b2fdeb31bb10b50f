"""The cases of preprocess.stf: the output for single packets, byte by byte."""

from pathlib import Path

import pytest
from acapella_p4_model import stf

CASES = stf.read_cases(Path(__file__).with_name("preprocess.stf"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_preprocess_case_matches_expected_packets(case, tmp_path):
    assert case.failures("preprocess", tmp_path) == []
