"""The selection of long tests in `make test`, `.ci/run` and `make soak`."""

import os
import re
import sys

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.soak import is_selected

TESTS = """
import pytest
from acapella_testing.soak import takes_minutes
@pytest.mark.soak
def test_of_seconds(): pass
@takes_minutes
def test_of_minutes(): pass
def test_short(): pass
"""
LARGER = "from acapella_testing.soak import SOAK\ndef test_larger(): assert SOAK == EXPECTED\n"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {"passed": 3, "skipped": 1}),
        ({"ACAPELLA_SOAK_SHARE": "0"}, {"passed": 2, "skipped": 2}),
        ({"ACAPELLA_SOAK_SHARE": "4", "ACAPELLA_SOAK_SEED": "a"}, {"passed": 4}),
        ({"ACAPELLA_SOAK": "1"}, {"passed": 3, "deselected": 1}),
    ],
)
def test_long_tests_are_selected_by_the_environment(tmp_path, variables, expected):
    register = "from acapella_testing import soak\ndef pytest_configure(config):\n    soak.register(config)\n"
    write_file(tmp_path / "conftest.py", register)
    write_file(tmp_path / "pytest.ini", "[pytest]\nmarkers = soak: long\n")
    write_file(tmp_path / "test_marked.py", TESTS)
    write_file(tmp_path / "test_larger.py", LARGER.replace("EXPECTED", str("ACAPELLA_SOAK" in variables)))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ACAPELLA_SOAK", "PYTEST"))}
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "-p", "no:cacheprovider"]
    printed = run(*command, cwd=tmp_path, env=own | variables).stdout
    assert {
        word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", printed.splitlines()[-1])
    } == expected, printed


def test_file_share_depends_on_the_seed():
    names = [f"test_{number}.py" for number in range(1000)]
    first, second = ({name for name in names if is_selected(name, 0.2, seed)} for seed in ("a", "b"))
    assert 150 < len(first) < 250
    assert 150 < len(second) < 250
    assert len(first & second) < 80
