"""What each run's inconsistency, 1 - kappa, is made of: uniqueness, order, latency, inter-arrival times."""

import altair as alt

from . import theme
from .comparison import environments, letter, pairs, runs, scope
from .compose import Figure
from .source import Source
from .wording import count, percent, short_labels

SUBJECT = "Kappa and its components"
TABLE = "consistency"
SCOPE = scope
COLUMNS = ("kappa", "contribution_U", "contribution_O", "contribution_L", "contribution_I")
COMPONENTS = {
    "U": ("U: loss and additions", theme.VERMILION),
    "O": ("O: order", theme.ORANGE),
    "L": ("L: latency", theme.SKY),
    "I": ("I: inter-arrival time", theme.BLUE),
}
LABEL = 28
MOST = 40  # runs that are drawn; of more, those with the least kappa


def draw(source: Source) -> Figure:
    """A bar a run, its pieces what each component takes from a kappa of 1; kappa in words beside it."""
    rows = runs(pairs(source))
    labels = short_labels(environments(source), LABEL)
    key = ["A component's piece is its share of U² + O² + L² + I²; the pieces add up to 1 - kappa"]
    shown = rows
    if len(rows) > MOST:
        kept = sorted(rows, key=lambda row: -1 if row["kappa"] is None else row["kappa"])[:MOST]
        shown = [row for row in rows if row in kept]
        key.append(f"the {MOST} runs with the least kappa of {count(len(rows), 'run')}")
    names = [f"{labels[row['environment']]} {letter(row['b'])}" for row in shown]
    values = [piece for name, row in zip(names, shown, strict=True) for piece in pieces(name, row)]
    words = [{"label": name, "text": told(row)} for name, row in zip(names, shown, strict=True)]
    return Figure(title(rows, labels), chart(values, words, names), ("; ".join(key) + ".",))


def pieces(name: str, row: dict) -> list[dict]:
    """The parts of one bar; none where a component is undefined."""
    parts = [row[f"contribution_{component}"] for component in COMPONENTS]
    if None in parts:
        return []
    start, found = 0.0, []
    for (component, (text, _)), size in zip(COMPONENTS.items(), parts, strict=True):
        whole = 1 - row["kappa"]
        found.append(
            {
                **{"label": name, "component": text, "from": start, "to": start + size, "value": row[component]},
                **{"environment": row["environment"], "run": row["trial_b"], "baseline": row["trial_a"]},
                "part": percent(size / whole) if whole else "none",
            }
        )
        start += size
    return found


def told(row: dict) -> str:
    """Kappa in words."""
    if row["kappa"] is None:
        return "undefined"
    if not row["packets_common"]:
        return "0: no packet in common"
    return number(row["kappa"])


def number(kappa: float) -> str:
    """Four digits; the distance from 1 where those would be nines; 0 and 1 for these alone."""
    text = f"{kappa:.4f}"
    if text == "1.0000" and kappa < 1:
        return f"1 - {1 - kappa:.1e}"
    return f"{kappa:.0f}" if kappa in (0, 1) else text


def title(rows: list[dict], labels: dict) -> str:
    """The mean kappa of each environment."""
    found = []
    for environment, label in labels.items():
        own = [row["kappa"] for row in rows if row["environment"] == environment and row["kappa"] is not None]
        found.append(f"{number(sum(own) / len(own)) if own else 'undefined'} ({label})")
    return f"Mean kappa: {', '.join(found)}"


def chart(values: list[dict], words: list[dict], names: list[str]) -> alt.LayerChart:
    """The bars, and kappa at their right."""
    most = max((value["to"] for value in values), default=0) or 0.01
    texts, colours = zip(*COMPONENTS.values(), strict=True)
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0, offset=4)
    width = theme.WIDTH - theme.text_width(names) - 130
    y = alt.Y(
        "label:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(ticks=False, domain=False)
    )
    x = alt.X("from:Q", title="1 - kappa", scale=alt.Scale(domain=[0, most]), axis=alt.Axis(domain=False, tickCount=6))
    colour = alt.Color("component:N", sort=texts, scale=alt.Scale(domain=texts, range=colours), legend=legend)
    bars = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(height={"band": 0.75})
        .encode(
            **{"x": x, "x2": "to:Q", "y": y, "color": colour},
            tooltip=[
                *(alt.Tooltip("environment:N"), alt.Tooltip("run:N"), alt.Tooltip("baseline:N")),
                *(alt.Tooltip("component:N"), alt.Tooltip("value:Q", format=".4~g")),
                alt.Tooltip("part:N", title="of 1 - kappa"),
            ],
        )
    )
    beside = (
        alt.Chart(alt.Data(values=words)).mark_text(align="left").encode(y=y, x=alt.value(width + 6), text="text:N")
    )
    return (bars + beside).properties(width=width, height=alt.Step(theme.row_height(len(names), low=14)))
