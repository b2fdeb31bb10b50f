"""The examples of docs/collector.md work as shown."""

import re
import shlex
from pathlib import Path

import duckdb
from acapella_testing.live_reports import capture
from acapella_testing.requirements import require

from acapella.cli import doctor
from acapella.cli.main import main
from acapella.common.control_channel import decode

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "collector.md").read_text()


def test_commands_of_the_page_turn_a_capture_into_flows(tmp_path, monkeypatch, capsys):
    require(doctor.which("acapella-p4-run"), "no acapella-p4-run: libdpdk-dev was not there when make setup ran")
    monkeypatch.chdir(tmp_path)
    capture(tmp_path / "trace.pcap", 1000)
    for name, lines in re.findall(r"^    \$ cat (\S+)\n((?:    [^$].*\n)+)", TEXT, re.M):
        (tmp_path / name).write_text(lines)
    commands = re.findall(r"^    \$ acapella (.*)", TEXT, re.M)
    assert len(commands) == 3
    for command in commands:
        assert main(shlex.split(command)) == 0
    assert "10.0.0.2" in capsys.readouterr().out
    flows = duckdb.sql("select packets, bytes from 'reports/flows.parquet' order by all").fetchall()
    assert flows == [(500, 500 * 40), (500, 500 * 240)], "exact, including packets after the last report"


def test_messages_of_the_page_are_valid():
    lines = re.sub(r"\n {21}", " ", TEXT)
    messages = re.findall(r"^    (?:control plane|collector|both) +(\{.*?\})(?: {2,}.*)?$", lines, re.M)
    names = [type(decode(line.encode())).__name__ for line in messages]
    assert names == ["Challenge", "Proof", "Hello", "Session", "Written", "Alive", "Ended"]
