"""The cases of preprocess.stf: the output for single packets, byte by byte."""

from pathlib import Path

import pytest
from acapella_p4_model import stf


@pytest.mark.parametrize("case", stf.read_cases(Path(__file__).with_name("preprocess.stf")), ids=lambda case: case.name)
def test_preprocess_case_matches_expected_packets(case, tmp_path):
    assert case.failures("preprocess", tmp_path) == []
