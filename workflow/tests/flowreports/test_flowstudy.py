"""Tests the flow report study: missing files, lost reports, and the connection with inter-arrival times."""

import json
import shlex

import pytest
from acapella_testing.new_files import write_file

from acapella.cli.commands import build_parser
from acapella.cli.main import main
from acapella.common import queries
from acapella.flowreports import offered
from acapella_core.errors import MISTAKE


def test_missing_measurement_error_states_the_command_that_creates_it(tmp_path, capsys):
    """Each command in an error message can be parsed. The next run reports the next missing file."""
    contents = {
        "offered.json": json.dumps({"version": 1, "runs": []}),
        "response.json": json.dumps({"version": 1, "skipped": None}),
        "response/compared_flows.parquet": None,
    }
    commands = ("measure collector", "measure response", "p4 reports")
    for (name, content), command in zip(contents.items(), commands, strict=True):
        assert main(["p4", "study", str(tmp_path)]) == MISTAKE
        error = capsys.readouterr().err
        words = shlex.split(error.partition("; run: acapella ")[2])
        assert f"{name}: no such file; run: acapella {command} " in error
        assert callable(build_parser(words).parse_args(words).run)
        if content:
            write_file(tmp_path / "flowstudy" / name, content)


class FixedRate:
    """A collector that accepts exactly one million reports per second, with a simulated clock."""

    now = 0.0

    def feed_reports(self, content) -> None:
        self.now += len(content) / offered.REPORT_BYTES / 1e6

    def monotonic(self) -> float:
        self.now += 1e-7
        return self.now


@pytest.mark.parametrize(
    ("rate", "lowest", "highest"), [(0.99e6, 0, 0), (1.03e6, 0.01, 0.03), (1.4e6, 0.385, 0.4), (3e6, 1.98, 2)]
)
def test_reports_left_in_the_ring_after_the_run_are_lost(rate, lowest, highest, monkeypatch):
    """The ring holds more than half a second of reports at the rate of the collector."""
    collector = FixedRate()
    monkeypatch.setattr(offered.time, "monotonic", collector.monotonic)
    result = offered.offer(collector, offered.ring(), rate, 1.0)
    assert lowest * 1e6 <= result.lost <= highest * 1e6 and result.seconds <= 1.012
    assert result.read + result.lost == result.offered == rate


def test_inter_arrival_times_are_from_the_connection_with_the_most_bytes():
    """Flow 0 is the control connection: its exact times are shorter, and only it is measured in the second window."""
    con = queries.connect()
    con.execute("create table compared_flows as from (values (0, 5201), (1, 5201), (2, 80)) as t(flow, dst_port)")
    con.execute(
        "create table judged_windows as from (values (0, 0, 100, 100), (1, 0, 9000, 8000), (0, 100, 50, 50),"
        " (1, 100, 9000, 9000), (2, 200, 1, 1)) as t(flow, window_ns, bytes, bytes_measured)"
    )
    con.execute(
        "create table window_iats as from (values (0, 0, 3, 900, 5), (1, 0, 10, 11, 12), (0, 100, 7, 8, 9),"
        " (1, 100, 20, null, null)) as t(flow, window_ns, iat_ns, iat_measured_ns, gap_measured_ns)"
    )
    con.execute("create table named_flows as select 'rate' as name, 5201::usmallint as dst_port")
    con.execute("create table steps as select 'rate' as name, 0::bigint as at_ns, 1e6 as bps")
    rows = queries.select(con, "flowreports", "response", {"length_ns": 100}).to_arrow_table().to_pylist()
    times = {row["t_ns"]: row for row in rows if row["flow"] == "rate"}
    found = [tuple(times[at][f"{name}_ns"] for name in ("iat", "iat_measured", "gap_measured")) for at in (0, 100, 200)]
    assert found == [(10, 11, 12), (20, None, None), (None, None, None)]
    assert times[0]["bps"] == pytest.approx(9100 * 8e9 / 100)
