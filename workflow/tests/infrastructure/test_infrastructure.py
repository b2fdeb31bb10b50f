"""Tests the tables of the infrastructure study against a naive computation, and errors about its inputs."""

import gzip
import hashlib
import io
import json
import statistics
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import networkx
import pyarrow.csv
import pyarrow.parquet
import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated import infrastructure_inputs
from acapella_testing.new_files import write_file
from acapella_testing.runs.workflow_run import rules_run, run_snakemake
from acapella_testing.source_tree import ROOT

from acapella.cli import main as cli
from acapella.infrastructure import tables

SHAPE = infrastructure_inputs.Shape(sites=4, ports=3, slices=120, days=21, step_s=3600, seed=7)
HOUR, WEEK = 3600, 7 * 86400


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Return the directory of generated inputs."""
    directory = tmp_path_factory.mktemp("inputs")
    infrastructure_inputs.write_inputs(directory, SHAPE)
    return directory


@pytest.fixture(scope="module")
def rates(inputs):
    """Return the rates in bytes/s (received, sent) of each port by bin."""
    return naive_rates(inputs / "telemetry.csv")


@pytest.fixture(scope="module")
def study(tmp_path_factory, inputs):
    """Return the rows of each table of a study."""
    campaign = tmp_path_factory.mktemp("study")
    assert run(campaign, *infrastructure_inputs.options(inputs, SHAPE)) == 0
    return {name: read_rows(campaign / "tables" / f"{name}.csv") for name in tables.TABLES}


def run(campaign, *options) -> int:
    return cli.main(["campaign", "infrastructure", str(campaign), *map(str, options)])


# ---- the naive computation -------------------------------------------------------------------------------------------


def walk(path) -> dict[str, tuple[set, int]]:
    """Return the uplinks (names of ports) and the number of NIC ports of each site, by a walk over a graph's edges."""
    graph = networkx.read_graphml(path)
    found = {}
    for number, node in [(number, node) for number, node in graph.nodes.items() if node["Class"] == "CompositeNode"]:
        services = [other for other in graph[number] if graph.nodes[other]["Class"] == "NetworkService"]
        trunks = [graph.nodes[trunk] for service in services for trunk in graph[service]]
        labels = [json.loads(trunk["Labels"]) for trunk in trunks if trunk["Class"] == "ConnectionPoint"]
        nics = 0
        for other in (graph.nodes[other] for other in graph[number]):
            units = json.loads(other.get("Capacities") or "{}").get("unit", 0)
            nics += {"SmartNIC": 2 * units, "SharedNIC": units // 127}.get(other["Type"], 0)
        found[node["Name"]] = ({label["local_name"].split(".")[0] for label in labels}, nics)
    return found


def naive_rates(path) -> dict[tuple, dict[int, tuple]]:
    """Return the rates in bytes/s (received, sent) of each port by bin."""
    last = defaultdict(dict)
    for row in [row for row in read_rows(path) if "." not in row["port"]]:
        reading = [int(row[name]) for name in ("time_s", "in_bytes", "out_bytes")]
        place = last[row["site"], row["port"]]
        place[reading[0] // HOUR] = max(reading, place.get(reading[0] // HOUR, reading))
    rates = defaultdict(dict)
    for port, number, now in [(port, *item) for port, readings in last.items() for item in readings.items()]:
        before = last[port].get(number - 1)
        if before and now[1] >= before[1] and now[2] >= before[2]:
            seconds = now[0] - before[0]
            rates[port][number] = ((now[1] - before[1]) / seconds, (now[2] - before[2]) / seconds)
    return rates


def naive_slices(path) -> list[tuple[datetime, datetime, set]]:
    return [(parse(row["start"]), parse(row["end"]), set(row["sites"].split())) for row in read_rows(path)]


def parse(text: str) -> datetime:
    return datetime.strptime(text.replace("T", " ").replace("Z", " +0000"), "%Y-%m-%d %H:%M:%S %z")


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_ports_of_sites_match_a_walk_over_the_graph(inputs, study):
    expected = {site: (len(uplinks), nics) for site, (uplinks, nics) in walk(inputs / "advertisement.graphml").items()}
    assert ports_of(study["infrastructure_ports"]) == expected
    assert len(expected) == SHAPE.sites
    assert {row["downlinks_from"] for row in study["infrastructure_ports"]} == {"nics"}


def test_ports_of_the_real_advertisement_match_a_walk_over_its_graph(tmp_path, corpus):
    path = corpus / "fim" / "advertised_topo.graphml"
    assert run(tmp_path, "--advertisement", path) == 0
    rows = read_rows(tmp_path / "tables" / "infrastructure_ports.csv")
    assert ports_of(rows) == {site: (len(uplinks), nics) for site, (uplinks, nics) in walk(path).items()}
    sources = {row["site"]: row["downlinks_from"] for row in rows}
    assert sources["MASS"] == "unknown", "the advertisement has no NIC of this site"
    assert sum(int(row["interfaces"]) for row in rows) == 18


def ports_of(rows: list[dict]) -> dict[str, tuple[int, int]]:
    """Return the numbers of uplinks and downlinks of each site."""
    return {row["site"]: (int(row["uplinks"]), int(row["downlinks"] or 0)) for row in rows}


def test_model_of_a_site_lists_its_downlinks(tmp_path):
    infrastructure_inputs.write_site_model(tmp_path / "utah.graphml", "UTAH", downlinks=5, uplinks=2)
    infrastructure_inputs.write_site_model(tmp_path / "star.graphml", "STAR", downlinks=1, uplinks=0)
    assert run(tmp_path, "--advertisement", tmp_path / "*.graphml") == 0
    rows = read_rows(tmp_path / "tables" / "infrastructure_ports.csv")
    found = [[row[name] for name in ("site", "uplinks", "downlinks", "downlinks_from")] for row in rows]
    assert found == [["STAR", "0", "1", "ports"], ["UTAH", "2", "5", "ports"]]


def test_advertisement_and_models_of_sites_complete_each_other(tmp_path, inputs, capsys):
    infrastructure_inputs.write_site_model(first := tmp_path / "star.graphml", "STAR", downlinks=7, uplinks=0)
    options = ("--advertisement", inputs / "advertisement.graphml", "--advertisement")
    assert run(tmp_path, *options, first) == 0
    rows = {row["site"]: row for row in read_rows(tmp_path / "tables" / "infrastructure_ports.csv")}
    uplinks, _ = walk(inputs / "advertisement.graphml")["STAR"]
    shared = {infrastructure_inputs.port(place) for place in range(7)} & uplinks
    assert int(rows["STAR"]["uplinks"]) == len(uplinks)
    assert int(rows["STAR"]["downlinks"]) == 7 - len(shared)
    assert rows["STAR"]["downlinks_from"] == "ports"
    assert len(rows) == SHAPE.sites
    infrastructure_inputs.write_site_model(tmp_path / "again.graphml", "STAR", downlinks=1, uplinks=0)
    assert run(tmp_path, *options, tmp_path / "*.graphml") == 2
    assert "site STAR is also in" in capsys.readouterr().err


def test_sites_and_durations_of_slices_match_the_naive_computation(inputs, study):
    slices = naive_slices(inputs / "slices.csv")
    sites = Counter(len(used) for _, _, used in slices if used)
    assert {int(r["sites"]): int(r["slices"]) for r in study["infrastructure_slice_sites"]} == sites
    hours = Counter(-((start - end) // timedelta(hours=1)) for start, end, _ in slices)
    assert {int(r["hours"]): int(r["slices"]) for r in study["infrastructure_slice_durations"]} == hours
    (summary,) = study["infrastructure_summary"]
    known = sites.total()
    assert known == SHAPE.slices - 1, "one slice has no known sites"
    assert float(summary["single_site_share"]) == pytest.approx(sites[1] / known)
    assert float(summary["several_sites_share"]) == pytest.approx(1 - sites[1] / known)
    within = sum(end - start <= timedelta(days=1) for start, end, _ in slices)
    assert float(summary["within_24_h_share"]) == pytest.approx(within / SHAPE.slices)


def test_simultaneous_slices_match_a_count_between_events(inputs, study):
    slices = naive_slices(inputs / "slices.csv")
    first, last = min(s[0] for s in slices), max(s[0] for s in slices)
    cuts = sorted({time for start, end, _ in slices for time in (start, end) if time <= last} | midnights(first, last))
    days = defaultdict(list)
    for one, other in pairwise(cuts):
        simultaneous = sum(start <= one < end for start, end, _ in slices)
        days[one.strftime("%Y-%m-%d")].append(((other - one).total_seconds(), simultaneous))
    parts = [part for day_parts in days.values() for part in day_parts]
    mean = weighted_mean(parts)
    variance = weighted_mean([(seconds, (count - mean) ** 2) for seconds, count in parts])
    (summary,) = study["infrastructure_summary"]
    assert float(summary["simultaneous_mean"]) == pytest.approx(mean)
    assert float(summary["simultaneous_stddev"]) == pytest.approx(variance**0.5)
    assert int(summary["simultaneous_max"]) == max(count for _, count in parts)
    for row in study["infrastructure_simultaneous"]:
        day_parts = days.pop(row["day"])
        assert int(row["covered_ns"]) == sum(seconds for seconds, _ in day_parts) * 10**9
        assert float(row["slices_mean"]) == pytest.approx(weighted_mean(day_parts))
        counts = [count for _, count in day_parts]
        assert [int(row["slices_min"]), int(row["slices_max"])] == [min(counts), max(counts)]
    assert not days


def weighted_mean(parts: list[tuple[float, float]]) -> float:
    """Return the mean of (weight, value)."""
    return sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)


def midnights(first: datetime, last: datetime) -> set[datetime]:
    """Return the starts of days between two times."""
    day = datetime(first.year, first.month, first.day, tzinfo=UTC) + timedelta(days=1)
    return {day + timedelta(days=n) for n in range((last - day).days + 1)}


def test_weeks_match_the_naive_computation_and_a_week_without_readings_has_nulls(rates, study):
    bins = defaultdict(float)
    for number, pair in [item for port_rates in rates.values() for item in port_rates.items()]:
        bins[number] += sum(pair)
    begin = int(infrastructure_inputs.START.timestamp())
    rows = study["infrastructure_weeks"]
    assert [row["week"] for row in rows] == ["2024-02-19", "2024-02-26", "2024-03-04"]
    for place, row in enumerate(rows):
        week_rates = [rate for number, rate in bins.items() if (number * HOUR - begin) // WEEK == place]
        assert int(row["bins"]) == len(week_rates)
        if not week_rates:
            assert [row[name] for name in ("samples", "rate_sum_bytes_per_s", "mean_bps")] == ["0", "", ""]
            continue
        assert float(row["rate_sum_bytes_per_s"]) == pytest.approx(sum(week_rates))
        assert float(row["mean_bps"]) == pytest.approx(8 * statistics.fmean(week_rates))
        assert float(row["max_bps"]) == pytest.approx(8 * max(week_rates))
        assert float(row["covered_share"]) == pytest.approx(len(week_rates) * HOUR / WEEK)
    assert float(study["infrastructure_summary"][0]["peak_week_mean_bps"]) == max(
        float(r["mean_bps"] or 0) for r in rows
    )


def test_utilization_of_ports_and_activity_of_sites_match_the_naive_computation(rates, study):
    rows = {(row["site"], row["port"]): row for row in study["infrastructure_port_use"]}
    assert rows.keys() == rates.keys()
    for port, port_rates in rates.items():
        busier = [8 * max(pair) / infrastructure_inputs.RATE for pair in port_rates.values()]
        assert int(rows[port]["samples"]) == len(busier)
        assert float(rows[port]["utilization_max"]) == pytest.approx(max(busier))
        assert float(rows[port]["utilization_mean"]) == pytest.approx(statistics.fmean(busier))
        assert rows[port]["line_rate"] == str(max(busier) >= tables.LINE_RATE_SHARE).lower()
    (summary,) = study["infrastructure_summary"]
    peaks = [
        max(8 * max(pair) / infrastructure_inputs.RATE for pair in port_rates.values()) for port_rates in rates.values()
    ]
    assert float(summary["utilization_max_median"]) == pytest.approx(statistics.median(peaks))
    assert int(summary["low_ports"]) == sum(peak <= 0.38 for peak in peaks)
    assert int(summary["line_rate_ports"]) == sum(peak >= 0.95 for peak in peaks) > 0
    bins = defaultdict(Counter)
    for site, number, pair in [(site, *item) for (site, _), port_rates in rates.items() for item in port_rates.items()]:
        bins[site][number] += 8 * sum(pair)
    means = {site: statistics.fmean(site_bins.values()) for site, site_bins in bins.items()}
    assert [row["site"] for row in study["infrastructure_activity"]] == sorted(means, key=lambda site: -means[site])
    for row in study["infrastructure_activity"]:
        assert float(row["mean_bps"]) == pytest.approx(means[row["site"]])
        assert float(row["share"]) == pytest.approx(means[row["site"]] / sum(means.values()))


def test_resets_and_gaps_are_counted(study):
    rows = study["infrastructure_port_use"]
    assert [(row["site"], row["port"]) for row in rows if row["resets"] != "0"] == [
        ("UTAH", infrastructure_inputs.port(0))
    ]
    assert {row["gaps"] for row in rows} == {"1"}, "each port lacks the readings of a week"


def test_compressed_and_parquet_exports_give_the_same_tables(tmp_path, inputs, study):
    header, *rows = (inputs / "telemetry.csv").read_bytes().splitlines(keepends=True)
    first, second = (b"".join([header, *part]) for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]))
    write_file(tmp_path / "a.csv.gz", gzip.compress(first))
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(io.BytesIO(second)), tmp_path / "b.parquet")
    files = ("--telemetry", tmp_path / "a.csv.gz", "--telemetry", tmp_path / "b.parquet")
    files += ("--advertisement", inputs / "advertisement.graphml")
    assert run(tmp_path, "--bin", SHAPE.step_s, *files) == 0
    for name in ("infrastructure_weeks", "infrastructure_port_use", "infrastructure_activity"):
        assert read_rows(tmp_path / "tables" / f"{name}.csv") == study[name]
    provenance = json.loads((tmp_path / "provenance" / "infrastructure.json").read_text())
    parquet = hashlib.sha256((tmp_path / "b.parquet").read_bytes()).hexdigest()
    assert provenance["inputs"]["telemetry"][1] == f"b.parquet {parquet}"
    assert str(tmp_path) not in json.dumps(provenance)


HEADERS = {"slices": "slice,start,end,sites\n", "telemetry": "site,port,time_s,in_bytes,out_bytes,rate_bps\n"}
TIMES = "2024-01-01T00:00:00Z,2024-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("advertisement", "<graphml", "not GraphML"),
        ("advertisement", "<graphml/>", "contains no site"),
        ("slices", "name,owner\n", "expected the columns slice, start, end, sites"),
        ("slices", f"{HEADERS['slices']}1,{TIMES},A\n1,{TIMES},A\n", "line 3: slice '1' occurs twice"),
        ("slices", f"{HEADERS['slices']}1,2024-01-01 00:00:00,2024-01-02 00:00:00,A\n", "is not a time such as"),
        ("slices", f"{HEADERS['slices']}1,{TIMES}\n", "line 2: expected 4 values"),
        ("telemetry", "site,port,time\n", "expected the columns site, port, time_s"),
        ("telemetry", f"{HEADERS['telemetry']}A,p,0,1,,\n", "1 reading lacks a value"),
        ("telemetry", f"{HEADERS['telemetry']}A,p,0,1,1,\nA,p,0,2,2,\n", "two readings of A p at 0 s"),
        ("telemetry", f"{HEADERS['telemetry']}A,p,0,many,1,\n", "many"),
        ("telemetry", f"{HEADERS['telemetry']}A,p,0,1,1,0\n", "reading of A p at 0 s: counters and time_s must not"),
        ("telemetry", f"{HEADERS['telemetry']}A,p,0,-1,1,\n", "reading of A p at 0 s: counters and time_s must not"),
        ("telemetry", f"{HEADERS['telemetry']}A,p,1708336800000,1,1,\n", "and time_s is in seconds"),
        (
            "slices",
            f"{HEADERS['slices']}1,{TIMES[:20]},9999-12-31T23:59:59Z,A\n",
            "line 2: end: '9999-12-31T23:59:59Z' is not",
        ),
        ("slices", f"{HEADERS['slices']}1,0001-01-01T00:00:00Z,{TIMES[21:]},A\n", "is not between 1970 and 2200"),
    ],
)
def test_malformed_input_is_a_one_line_error(tmp_path, capsys, option, text, message):
    assert run(tmp_path, f"--{option}", write_file(tmp_path / "input.csv", text)) == 2
    assert error_has(capsys, message)
    assert not (tmp_path / "tables").exists()


def error_has(capsys, text: str) -> bool:
    """Return whether the printed error, which must be one line, contains a text."""
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return text in error


@pytest.mark.parametrize("option", HEADERS)
def test_damaged_compressed_input_is_a_one_line_error(tmp_path, capsys, option):
    content = bytearray(gzip.compress(HEADERS[option].encode() + bytes(range(32, 127)) * 20))
    content[12:60] = bytes(byte ^ 0x5A for byte in content[12:60])
    assert run(tmp_path, f"--{option}", write_file(tmp_path / "input.csv.gz", bytes(content))) == 2
    assert error_has(capsys, "input.csv.gz: not CSV: Error -3")
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("site", "capacities", "message"),
    [
        ("S", '{"unit": "abc"}', "node 2: unit in Capacities is not an integer from 0"),
        ("S", '{"unit": -4}', "node 2: unit in Capacities"),
        ("S", '{"unit": 1.5}', "node 2: unit in Capacities"),
        ("S", f'{{"unit": {10**30}}}', "node 2: unit in Capacities"),
        ("S", "[" * 100_000, "node 2: Capacities is not JSON"),
        ("S", '{"model": "\\ud800"}', "node 2: Capacities is not JSON"),
        ("", "{}", "node 1: a site without a name"),
    ],
)
def test_invalid_model_property_is_a_one_line_error(tmp_path, capsys, site, capacities, message):
    graph = infrastructure_inputs.GraphWriter()
    site_node = graph.add(Class="CompositeNode", Name=site)
    graph.connect(site_node, graph.add(Class="Component", Type="SmartNIC", Capacities=capacities), "has")
    graph.write(tmp_path / "model.graphml")
    assert run(tmp_path, "--advertisement", tmp_path / "model.graphml") == 2
    assert error_has(capsys, message)
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("encoding", ["unknown", "shift_jis"])
def test_model_with_an_unsupported_encoding_is_a_one_line_error(tmp_path, capsys, encoding):
    model = write_file(tmp_path / "model.graphml", f'<?xml version="1.0" encoding="{encoding}"?><graphml/>')
    assert run(tmp_path, "--advertisement", model) == 2
    assert error_has(capsys, "model.graphml: not GraphML: ")
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("bin", "0"), ("bin", "-300"), ("line-rate", "nan"), ("line-rate", "0"), ("line-rate", "1.5")]
)
def test_option_outside_its_range_is_an_error(tmp_path, capsys, option, value):
    assert run(tmp_path, f"--{option}={value}") == 2
    assert error_has(capsys, f"--{option}: expected")
    assert not (tmp_path / "tables").exists()


def test_pattern_without_a_file_is_an_error(tmp_path, capsys):
    assert run(tmp_path, "--slices", tmp_path / "*.csv") == 2
    assert error_has(capsys, "no such file")
    assert not (tmp_path / "tables").exists()


def test_slice_that_ends_before_it_starts_has_no_duration(tmp_path):
    text = f"{HEADERS['slices']}1,{TIMES},A B\n2,2024-01-02T00:00:00Z,2024-01-01T00:00:00Z,A\n"
    assert run(tmp_path, "--slices", write_file(tmp_path / "slices.csv", text)) == 0
    (row,) = read_rows(tmp_path / "tables" / "infrastructure_summary.csv")
    assert [row[name] for name in ("slices", "slices_with_duration", "within_24_h_share")] == ["2", "1", "1"]
    assert [row[name] for name in ("single_site_share", "several_sites_share")] == ["0.5", "0.5"]


# ---- the example -----------------------------------------------------------------------------------------------------


def test_committed_example_matches_the_generator(tmp_path):
    infrastructure_inputs.write_inputs(tmp_path, infrastructure_inputs.EXAMPLE)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["advertisement.graphml", "slices.csv", "telemetry.csv"]
    for name in files:
        assert (tmp_path / name).read_bytes() == (ROOT / ".test" / "infrastructure" / name).read_bytes(), name


def test_plan_of_the_example_has_no_sample_stage():
    ended = run_snakemake(["--configfile", ".test/config/infrastructure.yaml", "--dry-run"], ROOT, {})
    assert ended.returncode == 0, ended.stdout
    assert rules_run(ended.stdout) == {"infrastructure", "papers", "figures", "report"}


# ---- slice records ---------------------------------------------------------------------------------------------------


def slice_records(output, *lists) -> int:
    return cli.main(["campaign", "slice-records", *map(str, lists), "-o", str(output)])


def slice_model(directory, *sites: str) -> str:
    """Return the model of a slice with a node at each site."""
    graph = infrastructure_inputs.GraphWriter()
    for site in sites:
        graph.add(Class="NetworkNode", Type="VM", Name="alice-node", Site=site)
    graph.write(directory / "model.graphml")
    return (directory / "model.graphml").read_text()


def entry(start: str, end: str, **more) -> dict:
    """Return a slice of the orchestrator's list."""
    owner = {"owner_email": "alice@example.org", "owner_user_id": "u-1", "project_name": "p", "name": "alice-slice"}
    return owner | {"lease_start_time": start, "lease_end_time": end, "state": "StableOK"} | more


def test_slice_records_are_written_from_the_list_of_the_orchestrator_without_names(tmp_path):
    late = entry("2024-02-20 08:00:00 +0000", "2024-02-21 08:00:00 +0000", slice_id="s-1", model=None)
    model = slice_model(tmp_path, "UTAH", "STAR", "UTAH")
    early = entry("2024-02-19 08:00:00 +0000", "2024-02-19 09:00:00 +0000", slice_id="s-2", model=model)
    first = write_file(tmp_path / "one.json", json.dumps({"data": [late, early], "size": 2}))
    assert slice_records(tmp_path / "slices.csv", first, write_file(tmp_path / "two.json", json.dumps([late]))) == 0
    assert (tmp_path / "slices.csv").read_text() == (
        "slice,start,end,sites\n"
        "1,2024-02-19 08:00:00 +0000,2024-02-19 09:00:00 +0000,STAR UTAH\n"
        "2,2024-02-20 08:00:00 +0000,2024-02-21 08:00:00 +0000,\n"
    )
    assert run(tmp_path, "--slices", tmp_path / "slices.csv") == 0


@pytest.mark.parametrize("step", [1, -1], ids=["latest first", "latest last"])
def test_slice_in_several_lists_counts_once_with_its_latest_end(tmp_path, step):
    start, first, renewed = (f"2024-02-{day} 08:00:00 +0000" for day in (19, 20, 22))
    lists = [
        write_file(tmp_path / f"{name}.json", json.dumps([entry(start, end, slice_id="s-1", model=None)]))
        for name, end in (("a", renewed), ("b", first))
    ]
    assert slice_records(tmp_path / "slices.csv", *lists[::step]) == 0
    assert (tmp_path / "slices.csv").read_text().splitlines()[1:] == [f"1,{start},{renewed},"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a slice list"),
        ("[" * 100_000, "not a slice list"),
        ('{"data": [{"name": "x"}]}', "not a slice list of FABRIC's orchestrator: 'lease_start_time'"),
        (json.dumps([entry("soon", "later", slice_id="1")]), "slice 1: 'soon' is not a time"),
        (
            json.dumps([entry("2024-02-19 08:00:00 +0000", "2024-02-19 09:00:00 +0000", slice_id="1", model="<")]),
            "slice 1: its model is not GraphML",
        ),
    ],
)
def test_malformed_slice_list_is_a_one_line_error(tmp_path, capsys, text, message):
    assert slice_records(tmp_path / "out.csv", write_file(tmp_path / "list.json", text)) == 2
    assert error_has(capsys, message)
    assert not (tmp_path / "out.csv").exists()
