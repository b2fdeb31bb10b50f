"""Fixtures of the tests of the P4 programs, and the package of the models."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from acapella_testing import soak
from acapella_testing.requirements import require

P4 = Path(__file__).resolve().parents[1]


NAME = "acapella_p4_model"
if NAME not in sys.modules:
    path = P4 / "model" / "__init__.py"
    spec = importlib.util.spec_from_file_location(NAME, path, submodule_search_locations=[str(path.parent)])
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[NAME])


def pytest_configure(config):
    """Register the selection of long tests."""
    soak.register(config)


@pytest.fixture(scope="session")
def p4_directory() -> Path:
    """Return the directory of the programs."""
    return P4


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the directory of public captures next to the project; skip if it does not exist."""
    directory = Path(os.environ.get("ACAPELLA_CORPUS", P4.parents[1] / "shared" / "corpus"))
    require(directory.is_dir(), f"no corpus: {directory} is not there (set ACAPELLA_CORPUS)")
    return directory


@pytest.fixture(scope="session")
def small_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the committed .spec with small register arrays (2^13 and 2^10), so that all entries can be compared."""
    from acapella_p4_model.running import write_smaller_spec  # noqa: PLC0415 (only importable from here on)

    return write_smaller_spec(tmp_path_factory.mktemp("spec") / "flowstats.spec", {0x200000: 0x2000, 0x40000: 0x400})
