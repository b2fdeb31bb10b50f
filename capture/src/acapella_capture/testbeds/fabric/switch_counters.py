"""Reads the counters of FABRIC's switches from its Prometheus: ifHCInOctets and ifHCOutOctets per port, every 30 s.

Not every user has access to them. Without access, there is no telemetry, and a note contains the reason.
"""

from collections.abc import Callable

from ..telemetry import IN, Prometheus
from .resources import is_port

SOURCE = "FABRIC's metrics"
EVERY_S = 30
SWITCHES = 'job="data-sw"'


def site_counters(url: str, token: Callable[[], str], site: str) -> Prometheus:
    """Return the counters of a site's switch; FABRIC's rack names are lower case."""
    return Prometheus(
        url=url.rstrip("/"),
        labels={"rack": site.lower(), "job": "data-sw"},
        source=SOURCE,
        every_s=EVERY_S,
        headers=lambda: {"Authorization": f"fabric-token {token()}"},
    )


def ports(url: str, token: Callable[[], str]) -> dict[str, set[str]]:
    """Return the ports with counters, by rack. Raises UserError if FABRIC does not provide them."""
    response = site_counters(url, token, "").query("query", query=f"{IN}{{{SWITCHES}}}")
    names_by_rack: dict[str, set[str]] = {}
    for series in response.get("result", ()):
        labels = series.get("metric", {})
        if is_port(labels.get("ifName", "")):
            names_by_rack.setdefault(labels.get("rack", ""), set()).add(labels["ifName"])
    return names_by_rack
