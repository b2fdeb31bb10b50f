"""Compute the rates of switch ports from counters that Prometheus or this program reads periodically.

The counters are those of SNMP's interfaces group (RFC 2863): bytes in and out of a port, without preamble. A counter
that decreases was reset to zero; the bytes between the previous reading and the reset are unknown and not estimated.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acapella_core.errors import UserError

from .base import Rates, Readings, Telemetry

IN, OUT = "ifHCInOctets", "ifHCOutOctets"
Reading = tuple[float, int]  # time (s) and value of the counter


def increase(readings: Sequence[Reading]) -> tuple[float, int] | None:
    """Return the seconds between first and last reading and the bytes in between; None for fewer than two readings."""
    if len(readings) < 2 or readings[-1][0] <= readings[0][0]:
        return None
    counted = 0
    for (_, before), (_, after) in itertools.pairwise(readings):
        counted += after - before if after >= before else after
    return readings[-1][0] - readings[0][0], counted


def since(readings: Sequence[Reading], start: float) -> Sequence[Reading]:
    """Return the readings after a time and the last one before it."""
    before = sum(1 for time_s, _ in readings if time_s <= start)
    return readings[max(0, before - 1) :]


def rates_from_counters(
    source: str, counters: Mapping[str, tuple[Sequence[Reading], Sequence[Reading]]], names: Iterable[str]
) -> Telemetry | None:
    """Return rates of the named ports from their readings (bytes in, bytes out); None if no port has two."""
    ports, spans, readings_by_port = {}, [], {}
    for name in names:
        port_readings = counters.get(name, ((), ()))
        received, sent = (increase(readings) for readings in port_readings)
        if received and sent:
            readings_by_port[name] = Readings(rx=tuple(port_readings[0]), tx=tuple(port_readings[1]))
            ports[name] = Rates(tx_bps=sent[1] * 8 / sent[0], rx_bps=received[1] * 8 / received[0])
            spans += [received[0], sent[0]]
    return Telemetry(source, sum(spans) / len(spans), ports, readings_by_port) if ports else None


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus server that reads a switch's counters by SNMP.

    `url` is the URL of its API, to which `/query` is appended. `headers` is called for each request, because tokens
    change. `labels` select the site's switch; `label` is the label that contains the port name. `every_s` is the time
    between two readings: a query starts two of these periods earlier, so that its result contains a reading before the
    interval even if a reading is late.
    """

    url: str
    labels: Mapping[str, str]
    source: str
    label: str = "ifName"
    every_s: float = 30
    timeout_s: float = 20
    headers: Callable[[], Mapping[str, str]] = field(default=dict)

    def telemetry(self, seconds: float, names: Iterable[str]) -> Telemetry | None:
        """Return the rates over the last `seconds`. Raises UserError if Prometheus sends no valid reply."""
        now = time.time()
        window_s = seconds + 2 * self.every_s
        received, sent = self._readings(IN, window_s, now), self._readings(OUT, window_s, now)
        counters = {
            name: (since(received[name], now - seconds), since(sent[name], now - seconds))
            for name in received.keys() & sent.keys()
        }
        return rates_from_counters(self.source, counters, names)

    def _readings(self, metric: str, seconds: float, now: float) -> dict[str, list[Reading]]:
        """Return all readings of a counter in the last `seconds`, unmodified, by port."""
        selectors = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(self.labels.items()))
        reply = self.query("query", query=f"{metric}{{{selectors}}}[{round(seconds * 1000)}ms]", time=f"{now:.3f}")
        try:
            return {
                series["metric"][self.label]: [(float(time_s), int(float(value))) for time_s, value in series["values"]]
                for series in reply["result"]
                if self.label in series["metric"]
            }
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"not a reply of Prometheus: {error!r}", where=self.url) from error

    def query(self, path: str, **form: str) -> dict:
        """Return the data of a reply to `/query`, `/query_range` and the like. Raises UserError."""
        import requests  # noqa: PLC0415 - slow to import, and many collections query nothing

        url = f"{self.url}/{path}"
        try:
            response = requests.post(url, form, headers=dict(self.headers()), auth=unchanged, timeout=self.timeout_s)
            if not response.ok:
                reason = f"{response.status_code} {error_message(response)}"
                raise UserError(f"telemetry refused: {reason}".strip(), where=url)
            reply = response.json()
        except requests.RequestException as error:  # invalid JSON included
            cause = getattr(error.args[0] if error.args else None, "reason", error)  # raised by urllib3
            raise UserError(f"no telemetry: {' '.join(str(cause).split())}", where=url) from error
        if not isinstance(reply, dict) or reply.get("status") != "success" or "data" not in reply:
            raise UserError(f"telemetry refused: {reply}"[:200], where=url)
        return reply["data"]


def unchanged(request: Any) -> Any:
    """Return a request unchanged: without `auth`, requests replaces the token with credentials from ~/.netrc."""
    return request


def error_message(response: Any) -> str:
    """Return the message of an HTTP error in one short line."""
    try:
        return " ".join(str(response.json().get("error", response.text)).split())[:200]
    except (ValueError, AttributeError):
        return response.reason or ""
