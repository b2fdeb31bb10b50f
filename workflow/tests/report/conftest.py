"""Fixtures of the tests of the report."""

import pytest

from acapella.report import page


@pytest.fixture
def one_figure(monkeypatch):
    """Draw one figure and use it for all, in tests of tables and files: drawing takes most of the time of a report."""
    compose, drawn = page.compose_figure, []

    def compose_once(_, source, **options):
        if not drawn:
            drawn.append(compose("header_depth", source, **options))
        return drawn[0]

    monkeypatch.setattr(page, "compose_figure", compose_once)
