"""The report's section on traffic that a monitor counted."""

import pytest
from acapella_testing.generated.generated_tables import write_table, write_tables
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common.wording import count
from acapella.figures import monitor_flows, monitor_latency, monitor_rates, monitor_scope, registry
from acapella.figures.compose import compose_figure
from acapella.figures.source import Source
from acapella.report import monitor
from acapella.snakefile.optional_stages import report_sections

PORT = {"name": "eth1", "received": 1100, "stamped": 1050, "foreign": 50, "unique": 1000, "duplicates": 50, "lost": 7,
        "malformed_truncated": 2, "malformed_length": 3, "dropped_kernel": 4, "missed": 1,
        "clock_steps": 2, "clock_step_ns": -3_000_000_000}  # fmt: skip
SMALL = {"flow": 0, "name": "small", "packets": 600, "unique": 600, "lost": 0, "latency_min_ns": -1500,
         "latency_mean_ns": 2000.4, "latency_p99_ns": 4096, "latency_max_ns": 5_000_000, "jitter_ns": 12.5}  # fmt: skip
LOSSY = {"flow": 1, "packets": 450, "unique": 400, "duplicates": 50, "lost": 7, "bits_checked": 800, "bit_errors": 3}
BUCKETS = [{"flow": -1, "measure": "latency", "bucket": 164, "to_ns": 0, "packets": 10},
           {"flow": -1, "measure": "latency", "bucket": 40, "from_ns": 2048, "to_ns": 2560, "packets": 30},
           {"flow": 0, "measure": "gap", "bucket": 40, "from_ns": 2048, "to_ns": 2560, "packets": 599}]  # fmt: skip
CLOCK = {"points": 90, "rate_ppm": -12.3456, "residual_rms_ns": 800.0, "residual_max_ns": 2500.0, "corrected": True}


def write(directory, table: str, *rows: dict) -> Source:
    """Write a table of a campaign; return the tables of the campaign."""
    write_table(directory, table, rows)
    return Source(Campaign(directory))


@pytest.fixture
def monitored(tmp_path):
    """Return a campaign with a sample and tables of a monitor."""
    directory = write_tables(tmp_path / "c", sites=1)
    write(directory, "monitor_ports", PORT)
    write(directory, "monitor_flows", SMALL, LOSSY)
    write(directory, "monitor_histograms", *BUCKETS)
    write(directory, "monitor_clocks", CLOCK)
    return directory


def test_flows_with_the_largest_loss_are_first(monitored):
    shown = {table["name"]: table["rows"] for table in monitor.tables(Source(Campaign(monitored)))}
    (port,), (first, second), (clock,) = (shown[f"monitor_{name}"] for name in ("ports", "flows", "clocks"))
    assert port[:-1] == ["eth1", "1,100", "1,050", "7", "50", "0", "0", "50", "0", "0", "5", "5", "0"]
    assert with_spaces(port[-1]) == "2 times, by up to -3 s"
    assert (first[1], first[3], first[6], first[-1]) == ("1", "7", "?", "3")
    assert (second[1], second[3], second[-1]) == ("0 small", "0", "not checked")
    assert [with_spaces(text) for text in second[6:8]] == ["-1.5 µs", "2 µs"]
    assert (clock[1], clock[-1]) == ("-12.346", "corrected")


def test_loss_events_are_shown_by_size(monitored):
    event = {"packets": 1, "first_packet": 3, "last_packet": 3, "flow": 1}
    longest = {"packets": 2, "first_packet": 7, "last_packet": 8, "bytes": 1200, "first_ns": 5, "last_ns": 2005}
    *_, shown = monitor.tables(write(monitored, "monitor_losses", event, longest))
    assert "3 packets in 2 events" in shown["note"]
    first, second = ([with_spaces(cell) for cell in row] for row in shown["rows"])
    assert first == ["7", "8", "2", "1,200", "several, or none", "2 µs"]
    assert (second[0], second[4]) == ("3", "1")


def test_rates_without_loss_are_shown_by_packet_size(monitored):
    trial = {"ports": 1, "frame_bytes": 60, "capture": "none", "measure": "throughput", "offered": 10}
    trial |= {"rate_pps": 2e6, "reached": True, "result": False}
    found = trial | {"trial": 1, "value": 2e6, "result": True, "limit": "loss", "latency_min_ns": 900}
    failed = trial | {"capture": "truncated", "value": 1e5, "lost": 3}
    source = write(monitored, "monitor_searches", trial | {"value": 4e6, "lost": 5}, found, failed)
    first, second = monitor.searches(source)["rows"]
    assert first[:7] == ["1", "60", "no", "throughput", "2,000,000", "0.960", "loss"]
    assert (with_spaces(first[7]), first[-1]) == ("900 ns", "2")
    assert with_spaces(monitor_rates.draw(source).title) == "Highest rate without loss: 0.96 Gbit/s with 1 port"
    assert second[2:7] == ["truncated, with hashes", "throughput", "none is loss-free", "", ""]
    unreached = trial | {"ports": 2, "reached": False}
    source = write(monitored, "monitor_searches", found | {"limit": "generator"}, unreached)
    figure = monitor_rates.draw(source)
    assert figure.title.startswith("Highest rate without loss: at least 0.96 Gbit/s")
    assert "loss at the next higher rate (0), the generator, which did not reach it (1)" in figure.key[1]
    assert monitor.searches(source)["rows"][1][4] == "not reached by the generator"


@pytest.mark.parametrize("finished", [2, 3])
def test_interrupted_search_is_shown_as_incomplete(finished, monitored):
    found = {"ports": 1, "capture": "none", "measure": "throughput", "value": 1e6, "rate_pps": 1e6, "result": True}
    trials = [{**found, "limit": "loss", "searches": 3, "frame_bytes": size} for size in (60, 252, 508)]
    shown = f"Incomplete: 2 of {count(3, 'search', 'searches')} have ended"
    source = write(monitored, "monitor_searches", *trials[:finished])
    assert (shown in " ".join(compose_figure("monitor_rates", source).notes)) == (finished == 2)
    assert (shown in monitor.searches(source)["note"]) == (finished == 2)


def test_workflow_requests_the_section_if_its_tables_exist(monitored, monkeypatch):
    monkeypatch.setattr(registry, "TRAFFIC_FIGURES", ())
    assert "--monitor" in report_sections(str(monitored), pseudonyms=False)
    assert cli.main(["campaign", "report", str(monitored), "--monitor"]) == 0
    page = (monitored / "report.html").read_text(encoding="utf-8")
    parts = ('<section id="monitor">', "monitor_flows.csv", 'id="monitor_latency"', 'id="monitor_flows"')
    assert [part for part in parts if part not in page] == []
    assert cli.main(["campaign", "report", str(monitored)]) == 0
    assert '<section id="monitor">' not in (monitored / "report.html").read_text(encoding="utf-8")


def test_figures_show_each_trial(tmp_path):
    directory = write_tables(tmp_path / "c", sites=1)
    ports = [{"port": port, "name": name} for port, name in enumerate(("b-1", "a-1", "b-2"))]
    shared = {"name": "web", "expected": 200, "latency_p99_ns": 4096}
    flows = [{**shared, "port": port, "unique": 200 - lost, "lost": lost} for port, lost in enumerate((50, 0, 100))]
    write(directory, "monitor_ports", *ports)
    write(directory, "monitor_histograms", *(row | {"port": port} for port in (0, 2) for row in BUCKETS))
    source = write(directory, "monitor_flows", *flows)
    drawn, latencies = monitor_flows.draw(source), monitor_latency.draw(source)
    assert with_spaces(drawn.title) == "25.0 % of 600 packets were lost, in 1 flow"
    lost = [(row["environment"], row["value"]) for row in drawn.chart.to_dict()["hconcat"][0]["data"]["values"]]
    assert lost == [("b", 25), ("a", 0), ("b", 50)]
    assert latencies.title.startswith("99 % of the packets of each flow that arrived took less than 4.1")
    points = latencies.chart.to_dict()["data"]["values"]
    assert {(point["port"], point["environment"]) for point in points} == {(0, "b"), (2, "b")}
    assert [point["percent"] for point in points if point["port"] == 0] == [0, 25, 100]
    unknown = [{**flow, "expected": None} for flow in flows]
    none_lost = {**shared, "unique": 200, "unclassified": 1, "lost": 0}
    for rows, title in (unknown, "At least 25.0 % of"), ([none_lost], "No packet is known to be lost"):
        drawn = monitor_flows.draw(write(directory, "monitor_flows", *rows))
        assert with_spaces(drawn.title).startswith(title)
    drawn = monitor_flows.draw(write(directory, "monitor_flows", *({**none_lost, "flow": flow} for flow in range(2))))
    assert [row["label"] for row in drawn.chart.to_dict()["hconcat"][0]["data"]["values"]] == ["web 0", "web 1"]


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [((2.4, 3.75), [2.5, 3, 3.5]), ((0.8, 1.25), [0.8, 1, 1.2]), ((3, 300), [5, 10, 20, 50, 100, 200]),
     ((0.00984, 0.015375), [0.01, 0.015]), ((1, 1000), [1, 10, 100, 1000])],
)  # fmt: skip
def test_axis_of_a_narrow_range_has_several_ticks(ends, ticks):
    assert monitor_scope.ticks(*ends) == ticks
