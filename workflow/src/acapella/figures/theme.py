"""Defines the appearance of figures: width of a page (7 in), one font, colors distinct for color-blind readers and in
gray print.

Colors are from Okabe and Ito (https://jfly.uni-koeln.de/color/). vl-convert includes Liberation Sans, so text has
the same width everywhere and an SVG has the same bytes. PDF and PNG use an installed Liberation Sans if there is one,
so their bytes depend on its version. Only one font weight is used: vl-convert numbers two fonts in an order that
changes between runs, so the bytes of a PDF would differ.
"""

import math
from collections.abc import Sequence

WIDTH = 672  # px of 1/96 in: 7 in, two columns of a page
FONT = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif"
TEXT = 10  # px: 7.5 pt on paper
SMALL = 9
TITLE = 14
SHORT_NUMBERS = "format(datum.value, datum.value >= 1000 ? '~s' : '~g')"  # 100k, but 0.001 instead of 1m
PREFIXED = "datum.value == 0 ? '0' : datum.label"  # 0, not 0G, on an axis of the format ~s
MEAN_CHARACTER = 0.5  # mean width of a character in a sentence, as a share of the font size

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
WHITE = "#FFFFFF"
INK = "#222222"
GRAY = "#595959"  # contrast with white: 7:1
GRID = "#E4E4E4"
# Frame lengths, short to long: each step has a separate hue and is darker than the previous one, so that adjacent
# lengths differ in gray print. Lengths above standard Ethernet are red to black.
STANDARD = ("#FBF3C4", "#DDE8A0", "#A9DB9E", "#7ECCA6", "#52BCBC", "#4A96CC", "#5C74C4")
JUMBO = ("#C8441A", "#A02B2B", "#5F1F3A", "#241016")
LEVELS = ("#DCEAF4", "#B4D2E7", "#84B4D6", "#5590BF", "#2F6DA3", "#184C80", "#0A2E58")  # low to high
# For values over many decades, with more hues than LEVELS: inferno of Matplotlib (CC0), light to dark.
DECADES = ("#F7D13D", "#FB9B06", "#ED6925", "#CF4446", "#A52C60", "#781C6D", "#4A0C6B", "#1B0C41")


def config() -> dict:
    """Return the Vega-Lite configuration of all figures."""
    label = {"labelFontSize": TEXT, "labelColor": INK, "labelFontWeight": "normal"}
    title = {"titleFontSize": TEXT, "titleColor": INK, "titleFontWeight": "normal"}
    return {
        "background": "white",
        "font": FONT,
        "padding": 6,
        "view": {"stroke": None, "continuousWidth": WIDTH, "continuousHeight": 240},
        "axis": {
            **label,
            **title,
            "gridColor": GRID,
            "domainColor": GRAY,
            "tickColor": GRAY,
            "tickSize": 4,
            "labelFlush": False,
        },
        "header": {**label, **title},
        "legend": {**label, **title, "symbolSize": 70, "rowPadding": 1},
        "title": {
            "font": FONT,
            "fontSize": TITLE,
            "fontWeight": "normal",
            "color": "#000000",
            "subtitleFont": FONT,
            "subtitleFontSize": TEXT,
            "subtitleFontWeight": "normal",
            "subtitleColor": GRAY,
            "subtitlePadding": 5,
            "anchor": "start",
            "frame": "bounds",
            "offset": 10,
        },
        "text": {"font": FONT, "fontSize": TEXT, "color": INK},
        "bar": {"color": BLUE},
        "concat": {"spacing": 12},
    }


def row_height(rows: int, low: int = 13, high: int = 24, total: int = 360) -> int:
    """Return the height of a row in px, depending on the number of rows."""
    return max(low, min(high, total // max(rows, 1)))


def text_width(texts, size: int = TEXT) -> int:
    """Return the approximate width of the widest text in the font of the figures, in px."""
    return math.ceil(size * max((sum(map(character_width, text)) for text in texts), default=0)) + 4


def character_width(letter: str) -> float:
    """Return the approximate width of a character of Liberation Sans (as Arial), as a share of the font size."""
    if letter in " .,:;'!|/\\()[]-ijlItfr":
        return 0.3
    return 0.86 if letter in "MWmw@%…" else 0.7 if letter.isupper() else 0.56


def pick_colors(colors: tuple[str, ...], number: int) -> list[str]:
    """Return ``number`` colors of an ordered scale; two or more include both ends."""
    if number <= 1:
        return list(colors[-1:] * number)
    return [colors[round(index * (len(colors) - 1) / (number - 1))] for index in range(number)]


def color_at(colors: Sequence[str], position: float) -> str:
    """Return the color at ``position`` (0 to 1) of a scale that interpolates ``colors`` linearly in RGB, like Vega."""
    index = min(max(position, 0.0), 1.0) * (len(colors) - 1)
    low = min(int(index), len(colors) - 2)
    ends = zip(channels(colors[low]), channels(colors[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (index - low)):02X}" for a, b in ends)


def channels(color: str) -> list[int]:
    """Return red, green and blue of ``#RRGGBB``."""
    return [int(color[start : start + 2], 16) for start in (1, 3, 5)]


def luminance(color: str) -> float:
    """Return the relative luminance of a color (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (n / 255 for n in channels(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colors, 1 to 21 (WCAG 2.1)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def ink_on(color: str) -> str:
    """Return black or white, whichever has more contrast with a color: at least 4.5:1, as WCAG 2.1 requires."""
    return max((WHITE, BLACK), key=lambda ink: contrast(ink, color))


def whole_ticks(maximum: int, max_steps: int = 6) -> list[int]:
    """Return the ticks of an axis of counts: from 0 in at most ``max_steps`` steps of 1, 2, 5, 10, 20, ..."""
    step = next(
        lead * 10**power for power in range(20) for lead in (1, 2, 5) if lead * 10**power * max_steps >= maximum
    )
    return list(range(0, maximum + 1, step))
