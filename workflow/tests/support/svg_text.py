"""Texts of an SVG, and overlaps between them."""

import xml.etree.ElementTree as ET

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
    texts = [text for text in ET.fromstring(svg).itertext() if text.strip()]
    return " ".join(texts).replace("\N{NO-BREAK SPACE}", " ")
