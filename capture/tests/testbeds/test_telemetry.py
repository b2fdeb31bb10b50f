"""Rates from counters: replies of a Prometheus server, resets of counters, missing data."""

import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from acapella_capture.testbeds.base import Rates
from acapella_capture.testbeds.telemetry import Prometheus, increase, rates_from_counters, since
from acapella_core.errors import UserError


class Handler(http.server.BaseHTTPRequestHandler):
    """Records requests, and replies to each with the status and the body of its server."""

    def do_POST(self):
        query = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
        self.server.requested.append((self.path, self.headers.get("Authorization"), query))
        body = self.server.body(query)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    log_message = Mock()


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    """Run a server whose replies a test sets."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as created:
        created.requested, created.status = [], 200
        created.url = f"http://127.0.0.1:{created.server_port}"
        threading.Thread(target=created.serve_forever, args=(0.02,), daemon=True).start()
        yield created
        created.shutdown()


def matrix(query: str) -> dict:
    """Return readings: p1 and elsewhere receive 1000 bytes/s and send 500, p2 was read once, one port has no name.

    The last reading is 5 s old, the first 65 s.
    """
    now = time.time()
    step = 1000 if query.startswith("ifHCInOctets") else 500
    readings = [[now - 65 + 10 * n, f"{n * 10 * step:e}"] for n in range(7)]
    series = [{"metric": metric, "values": readings} for metric in ({"ifName": "p1"}, {}, {"ifName": "elsewhere"})]
    series.append({"metric": {"ifName": "p2"}, "values": readings[:1]})
    return {"status": "success", "data": {"resultType": "matrix", "result": series}}


def test_rates_are_computed_for_named_ports_with_readings(server):
    server.body, labels = matrix, {"rack": "star", "job": 'a "b"'}
    source = Prometheus(server.url, labels, "SNMP", headers=lambda: {"Authorization": "fabric-token x"})
    found = source.telemetry(30, ["p1", "p2", "p3"])
    assert found.source == "SNMP"
    assert found.seconds == pytest.approx(30)  # from 35 to 5 s ago
    assert found.ports == {"p1": Rates(tx_bps=pytest.approx(4000), rx_bps=pytest.approx(8000))}
    assert [path for path, *_ in server.requested] == ["/query", "/query"]
    assert {token for _, token, _ in server.requested} == {"fabric-token x"}
    assert server.requested[0][2] == r'ifHCInOctets{job="a \"b\"",rack="star"}[90000ms]'
    assert server.requested[1][2].startswith("ifHCOutOctets{")


def test_telemetry_without_readings_is_none(server):
    server.body = lambda _: {"status": "success", "data": {"result": []}}
    assert Prometheus(server.url, {}, "SNMP").telemetry(30, ["p1"]) is None


@pytest.mark.parametrize(
    ("answer", "status", "complaint"),
    [
        ({"error": "no such\npermission"}, 403, "telemetry refused: 403 no such permission"),
        (b"<html>", 502, "telemetry refused: 502"),
        (b"<html>", 200, "no telemetry: Expecting value"),
        ({"status": "error", "error": "bad"}, 200, "telemetry refused: {'status': 'error'"),
        ({"status": "success", "data": {"result": [{"metric": {"ifName": "p"}}]}}, 200, "not a reply of Prometheus"),
    ],
)
def test_error_reply_is_reported_in_one_line(server, answer, status, complaint):
    server.body, server.status = lambda _: answer, status
    with pytest.raises(UserError, match=complaint) as raised:
        Prometheus(server.url, {}, "SNMP").telemetry(30, ["p1"])
    assert "\n" not in str(raised.value)


def test_unreachable_prometheus_is_an_error():
    with pytest.raises(UserError, match="no telemetry: "):
        Prometheus("http://127.0.0.1:9", {}, "SNMP").telemetry(30, ["p1"])


def test_reset_counter_counts_from_zero():
    assert increase([(0, 100), (10, 300), (20, 50), (30, 60)]) == (30, 260)
    assert increase([(0, 100)]) is None and increase([]) is None and increase([(1, 5), (1, 6)]) is None


def test_ports_without_data_are_absent():
    idle = [(0, 7), (2, 7)]
    found = rates_from_counters("here", {"a": (idle, idle), "b": (idle, [])}, ["a", "b", "c"])
    assert found.ports == {"a": Rates(0, 0)} and found.seconds == 2


def test_interval_starts_with_the_last_reading_before_it():
    readings = [(0, 1), (10, 2), (20, 3)]
    assert since(readings, 12) == [(10, 2), (20, 3)]
    assert since(readings, 10) == [(10, 2), (20, 3)]
    assert since(readings, -5) == readings
    assert since([], 3) == []
