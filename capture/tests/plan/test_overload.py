"""The expected overload that a plan prints."""

from acapella_capture.plan.overload import overload_lines
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Port, Rates

GBPS = 10**9
PORTS = [Port("a", 100 * GBPS), Port("b", 25 * GBPS), Port("c", 1 * GBPS), Port("d", None)]


def lines(receiver_gbps, rates=None, method="tcpdump", **capture) -> list[str]:
    settings = parse_settings({"testbed": "local", "capture": capture}).capture
    return list(overload_lines(settings, method, PORTS, receiver_gbps and receiver_gbps * GBPS, lambda: rates))


def test_both_directions_of_a_port_exceed_a_slower_receiver():
    assert lines(25, method="dpdk") == [
        "2 of 4 ports can exceed the 25 Gbit/s that the receiver accepts: "
        "up to 200 Gbit/s with both directions mirrored",
        "  current rates: unknown, no counters",
    ]
    assert lines(100, method="dpdk", directions=["rx"]) == []


def test_ports_currently_above_a_limit_are_listed_busiest_first():
    rates = {"a": Rates(20 * GBPS, 10 * GBPS), "b": Rates(20 * GBPS, 12 * GBPS), "c": Rates(0, 0)}
    assert lines(25, rates, method="dpdk")[1] == "  currently above this limit: b (32 Gbit/s), a (30 Gbit/s)"
    assert lines(25, rates, method="dpdk", directions=["rx", "tx"])[1] == "  currently above this limit: none"


def test_measured_rate_of_tcpdump_is_a_separate_limit():
    assert lines(None, directions=["tx"])[0] == (
        "2 of 4 ports can exceed the 8.5 Gbit/s that tcpdump captured without loss in a test: "
        "up to 100 Gbit/s with one direction mirrored"
    )
    assert not lines(None, method="dpdk")
