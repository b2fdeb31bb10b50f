"""Tests the tables of a real iperf3 run and its capture, on the loopback interface of a network namespace."""

import os
import shutil
import subprocess

import duckdb
import pytest
from acapella_testing.generated import generated_transfers as made

from acapella.cli import main as cli

SCRIPT = """
set -e
ip link set lo up
tcpdump -i lo -s 100 -B 32768 --immediate-mode -w "$1/capture.pcap" -U 2> "$1/tcpdump.log" & capture=$!
until grep -q listening "$1/tcpdump.log"; do sleep 0.05; done
iperf3 -s -1 > "$1/server.log" 2>&1 & server=$!
until ss -ltn | grep -q :5201; do sleep 0.05; done
iperf3 -c 127.0.0.1 -n 4M -P 2 -J > "$1/iperf3.json"
wait $server
sleep 0.2
kill $capture
wait $capture
"""


def test_real_transfer_agrees_with_its_capture(tmp_path):
    missing = [name for name in ("iperf3", "tcpdump", "unshare", "ss") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs {', '.join(missing) or 'root, to create a network namespace'}")
    subprocess.run(["unshare", "-n", "sh", "-c", SCRIPT, "sh", str(tmp_path)], check=True, timeout=60)
    path = made.cell(tmp_path, "live", [made.document()], wire="wire.parquet", settings={"streams": 2})
    shutil.copy(tmp_path / "iperf3.json", path / "iperf3-0.json")
    assert (
        cli.main(["digest", "--engine", "native", str(tmp_path / "capture.pcap"), "-o", str(path / "wire.parquet")])
        == 0
    )
    assert cli.main(["campaign", "transfers", str(tmp_path)]) == 0
    flows = duckdb.sql(
        "select stream, sent_bytes, received_bytes, wire_bytes, wire_missing_bytes, wire_rtts, wire_rtt_min_ns "
        f"from '{tmp_path}/tables/transfer_flows.parquet'"
    ).fetchall()
    assert [flow[0] for flow in flows] == [0, 1]
    for _, sent, received, wire, missing_bytes, rtts, rtt in flows:
        assert received <= wire + missing_bytes
        assert wire <= sent, "iperf3 has written every byte on the wire"
        assert rtts > 0
        assert rtt > 0
    causes = duckdb.sql(
        f"select quantity, cause from '{tmp_path}/tables/transfer_disagreements.parquet' where quantity = 'sent'"
    ).fetchall()
    assert {cause for _, cause in causes} <= {None, "send_buffer", "capture_loss"}
