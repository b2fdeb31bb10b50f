"""What FABRIC's switches count, from its Prometheus: ifHCInOctets and ifHCOutOctets of every port, each half minute.

It is not known whether every user may read them: where not, there is no telemetry, and the reason is a note.
"""

from collections.abc import Callable

from ..telemetry import IN, Prometheus

SOURCE = "FABRIC's metrics"
EVERY_S = 30
SWITCHES = 'job="data-sw"'
INTERNAL = ("Mgmt", "Bundle", "BVI", "Loopback", "Null")  # interfaces of a switch that are no port of it


def of(url: str, token: Callable[[], str], site: str) -> Prometheus:
    """The counters of a site's switch; FABRIC names racks in lower case."""
    return Prometheus(
        url=url.rstrip("/"),
        labels={"rack": site.lower(), "job": "data-sw"},
        source=SOURCE,
        every_s=EVERY_S,
        headers=lambda: {"Authorization": f"fabric-token {token()}"},
    )


def ports(url: str, token: Callable[[], str]) -> dict[str, set[str]]:
    """The ports that are counted, by rack. Raises UserError where FABRIC does not tell."""
    answer = of(url, token, "").query("query", query=f"{IN}{{{SWITCHES}}}")
    found: dict[str, set[str]] = {}
    for series in answer.get("result", ()):
        labels = series.get("metric", {})
        if is_port(labels.get("ifName", "")):
            found.setdefault(labels.get("rack", ""), set()).add(labels["ifName"])
    return found


def is_port(name: str) -> bool:
    """Whether an ifName is a port that can be mirrored: not a VLAN's sub-interface, a bundle or a loopback."""
    return "/" in name and "." not in name and not name.startswith(INTERNAL)
