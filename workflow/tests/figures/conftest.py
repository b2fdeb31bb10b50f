"""Fixtures of the tests of figures."""

import functools

import pytest
from acapella_testing.svg_text import with_spaces, words

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


@pytest.fixture(scope="module")
def text(svg):
    """Return a function that returns all text of the SVG of a figure of a campaign."""
    return functools.cache(lambda name, campaign: words(svg(name, campaign)))


@pytest.fixture(scope="module")
def notes(drawn):
    """Return a function that returns the notes of a figure of a campaign."""
    return functools.cache(lambda name, campaign: with_spaces(" ".join(drawn(name, campaign).notes)))
