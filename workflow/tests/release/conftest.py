"""Fixtures of the tests of releases without captures. Each test module defines its `campaign`."""

import shutil
from pathlib import Path

import pytest
from acapella_testing.release_records import published


@pytest.fixture(scope="module")
def release(campaign) -> Path:
    """Return a release of the campaign. Nothing may change it."""
    return published(campaign)


@pytest.fixture
def mine(campaign, tmp_path) -> Path:
    """Return a copy of the campaign, for tests that modify it."""
    return shutil.copytree(campaign, tmp_path / "mine")


@pytest.fixture
def public(release, tmp_path) -> Path:
    """Return a copy of the release, for tests that modify it."""
    return shutil.copytree(release, tmp_path / "public")
