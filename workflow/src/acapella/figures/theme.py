"""How our figures look: for a page of 7 in, one font, colors that color-blind readers and gray print keep apart.

Colors are those of Okabe and Ito (https://jfly.uni-koeln.de/color/). vl-convert brings Liberation Sans with it, so
that text is measured the same everywhere and an SVG has the same bytes; PDF and PNG take the outlines of an installed
Liberation Sans where there is one, so their bytes depend on its version. There is one weight alone: with two fonts in a
file, vl-convert numbers them in an order that changes from run to run, and a PDF would not be the same twice.
"""

import math
from collections.abc import Sequence

WIDTH = 672  # px of 1/96 in: 7 in, a page's two columns
FONT = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif"
TEXT = 10  # px: 7.5 pt on paper
SMALL = 9
TITLE = 14
SHORT_NUMBERS = "format(datum.value, datum.value >= 1000 ? '~s' : '~g')"  # 100k, but 0.001 and not 1m
MEAN_CHARACTER = 0.5  # mean width of a character in a sentence, in font sizes

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
GRAY = "#595959"  # 7:1 against white
GRID = "#E4E4E4"
# Frame lengths, short to long: each step has its own hue and is darker than the one before, so that neighbors differ in
# gray print too. Lengths beyond standard Ethernet's are red to black.
STANDARD = ("#FBF3C4", "#DDE8A0", "#A9DB9E", "#7ECCA6", "#52BCBC", "#4A96CC", "#5C74C4")
JUMBO = ("#C8441A", "#A02B2B", "#5F1F3A", "#241016")
LEVELS = ("#DCEAF4", "#B4D2E7", "#84B4D6", "#5590BF", "#2F6DA3", "#184C80", "#0A2E58")  # low to high
# As LEVELS, over more hues, for values that span many decades: inferno of Matplotlib (CC0), light to dark.
DECADES = ("#F7D13D", "#FB9B06", "#ED6925", "#CF4446", "#A52C60", "#781C6D", "#4A0C6B", "#1B0C41")


def config() -> dict:
    """Vega-Lite's configuration for every figure."""
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
    """Height of one row where a figure has so many: dense with 30 sites, not lost with one."""
    return max(low, min(high, total // max(rows, 1)))


def text_width(texts, size: int = TEXT) -> int:
    """About how wide the widest of some texts is in our font, in px."""
    return math.ceil(size * max((sum(map(character_width, text)) for text in texts), default=0)) + 4


def character_width(letter: str) -> float:
    """Width of a character of Liberation Sans (as Arial) in font sizes, by kinds of letters."""
    if letter in " .,:;'!|/\\()[]-ijlItfr":
        return 0.3
    return 0.86 if letter in "MWmw@%…" else 0.7 if letter.isupper() else 0.56


def pick_colors(colors: tuple[str, ...], number: int) -> list[str]:
    """``number`` colors of an ordered scale, its ends included where there are at least two."""
    if number <= 1:
        return list(colors[-1:] * number)
    return [colors[round(place * (len(colors) - 1) / (number - 1))] for place in range(number)]


def color_at(colors: Sequence[str], place: float) -> str:
    """The color at ``place`` (0 to 1) of a scale that joins ``colors`` at equal distances in RGB, as Vega does."""
    at = min(max(place, 0.0), 1.0) * (len(colors) - 1)
    low = min(int(at), len(colors) - 2)
    ends = zip(channels(colors[low]), channels(colors[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02X}" for a, b in ends)


def channels(color: str) -> list[int]:
    """Red, green and blue of ``#RRGGBB``."""
    return [int(color[place : place + 2], 16) for place in (1, 3, 5)]


def luminance(color: str) -> float:
    """Relative luminance of a color (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (n / 255 for n in channels(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colors, 1 to 21 (WCAG 2.1)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(color: str) -> str:
    """Black or white, whichever has more contrast on a color: always 4.5:1 or more, as WCAG 2.1 asks of text."""
    return max((WHITE, BLACK), key=lambda ink: contrast(ink, color))


def whole_ticks(most: int, wanted: int = 6) -> list[int]:
    """Ticks of a count's axis: from 0 in steps of 1, 2, 5, 10, 20, ..., at most about ``wanted``."""
    step = next(lead * 10**power for power in range(20) for lead in (1, 2, 5) if lead * 10**power * wanted >= most)
    return list(range(0, most + 1, step))
