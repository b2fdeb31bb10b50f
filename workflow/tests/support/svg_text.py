"""Texts of an SVG: their content, overlaps between them, and whether they fit a page."""

import xml.etree.ElementTree as ET

from acapella.figures.theme import FONT, WIDTH

COLLISIONS = """() => {
  const frame = document.querySelector("svg").getBoundingClientRect();
  const texts = [...document.querySelectorAll("text")].filter((e) => e.textContent && e.getAttribute("opacity") !== "0")
    .map((e) => [e.textContent, e.getBoundingClientRect()]);
  const bad = texts.filter(([, r]) => r.left < frame.left - 1 || r.right > frame.right + 1
    || r.top < frame.top - 1 || r.bottom > frame.bottom + 1).map(([text]) => "outside: " + text);
  texts.forEach(([one, a], n) => texts.slice(n + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 0.5 && high > 2.5) bad.push(one + " / " + other);
  }));
  return bad;
}"""


def words(svg: str) -> str:
    """Return all text of an SVG with spaces instead of no-break spaces. Fails if the SVG is not well-formed."""
    return with_spaces(" ".join(text for text in ET.fromstring(svg).itertext() if text.strip()))


def with_spaces(text: str) -> str:
    """Return a text with spaces instead of no-break spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def check_page(svg: str) -> None:
    """Check that a figure is about as wide as a page, and that its text is legible and in one font of one weight."""
    root = ET.fromstring(svg)
    assert 0.8 * WIDTH < float(root.get("width")) < 1.06 * WIDTH
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    assert {element.get("font-family") for element in texts} == {FONT}
    assert {element.get("font-weight") for element in texts} <= {None, "normal"}
    assert min(float(element.get("font-size").removesuffix("px")) for element in texts) >= 9


def check_collisions(browser, drawings: dict[str, str]) -> None:
    """Check in a browser that no text of these SVGs overlaps another or is outside its figure."""
    page = browser.new_page()
    for name, svg in drawings.items():
        page.set_content(svg)
        assert page.evaluate(COLLISIONS) == [], name
    page.close()
