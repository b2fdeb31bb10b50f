"""Interactive charts in HTML that needs no network, with a copy of Vega and a content security policy.

Strings from traffic or configuration (site names, header labels) are in the page as escaped text, or as JSON in a
script of type application/json. The content security policy only allows scripts with listed hashes, and no requests.
"""

import html
import json

from acapella.common.security_policy import security_policy

from .compose import ComposedFigure
from .vega import vega

# Draws each chart in its element. `ast`: Vega interprets expressions instead of compiling them, so the policy need not
# allow eval. If a chart cannot be drawn, the static image, if any, remains.
EMBED_SCRIPT = """
for (const place of document.querySelectorAll("[data-chart]")) {
  const spec = JSON.parse(document.getElementById(place.dataset.chart).textContent);
  const options = {
    mode: "vega-lite", renderer: "svg", ast: true, tooltip: true, downloadFileName: place.dataset.name,
    actions: {export: true, source: false, compiled: false, editor: false},
  };
  vegaEmbed(place, spec, options).then(
    () => place.closest("figure").classList.add("drawn"),
    (error) => console.error(place.dataset.name, error),
  );
}
"""
STYLE = """
body { margin: 1.5rem; background: #fff; color: #222; font-family: "Liberation Sans", Arimo, Arial, sans-serif; }
figure { margin: 0; }
"""


def json_script(identifier: str, value: object) -> str:
    """Return a script element with a value as JSON, in which no text can close the element."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>'


def figure_page(figure: ComposedFigure) -> str:
    """Return a page with one figure."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{security_policy(vega(), EMBED_SCRIPT)}">
<meta name="viewport" content="width=device-width">
<title>{html.escape(figure.title)}</title>
<style>{STYLE}</style>
</head>
<body>
<figure role="group" aria-label="{html.escape(figure.description)}">
<div data-chart="spec" data-name="{html.escape(figure.name)}"></div>
</figure>
{json_script("spec", figure.spec)}
<script>{vega()}</script>
<script>{EMBED_SCRIPT}</script>
</body>
</html>
"""
