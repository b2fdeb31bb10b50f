"""Fixtures of the tests of figures."""

import functools

import pytest

from acapella.figures import compose
from acapella.figures.save import svg_of


@pytest.fixture(scope="module")
def drawn(campaigns):
    """Return a function that composes a figure of a campaign once. ``campaigns``: tables by name of the campaign."""
    return functools.cache(lambda name, campaign: compose.compose_figure(name, campaigns[campaign]))


@pytest.fixture(scope="module")
def svg(drawn):
    """Return a function that draws the SVG of a figure of a campaign once."""
    return functools.cache(lambda name, campaign: svg_of(drawn(name, campaign)))
