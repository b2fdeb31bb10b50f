"""The counts of a monitor are printed even if another output fails, and causes of wrong counts are reported."""

import argparse
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from acapella_testing.capture import impaired_path, veth
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import Flow, Schedule
from acapella_testing.processes import run as run_program
from acapella_testing.requirements import require_success
from acapella_testing.waiting import wait_until

from acapella_capture.monitor import command, losses, result, tables
from acapella_core.errors import OUTSIDE, UserError

ACAPELLA = Path(sys.executable).parent / "acapella"
FLOWS = [Flow(120, 9_000, 200), Flow(80, 11_000, 200)]
STEP_S = 3
# CLOCK_REALTIME is STEP_S later while the file CLOCK_SET exists.
CLOCK = f"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *to) {{
    const long status = syscall(SYS_clock_gettime, clock, to);
    if (clock == CLOCK_REALTIME && access(getenv("CLOCK_SET"), F_OK) == 0) {{
        to->tv_sec += {STEP_S};
    }}
    return (int)status;
}}
"""

pytestmark = pytest.mark.usefixtures("monitor_on_path")


def run(*words: object) -> None:
    """Run `acapella monitor`."""
    parser = command.register_parser(argparse.ArgumentParser().add_subparsers())
    command.run(parser.parse_args([str(word) for word in words]))


def test_counts_are_printed_if_the_disk_is_full(tmp_path):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule())
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=16K none {disk}"
    require_success(["unshare", "-m", *mount.split()], "tmpfs")
    words = f'{mount} && exec "$@"'
    argv = ["unshare", "-m", "sh", "-c", words, "sh", ACAPELLA, "monitor", arrived, "--write", disk / "out.pcapng",
            "--snaplen", 0, "-o", tmp_path / "tables"]  # fmt: skip
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (OUTSIDE, 1), done.stderr
    assert "No space left on device" in done.stderr
    assert "arrived.pcap" in done.stdout
    (port,) = pq.read_table(tmp_path / "tables" / "monitor_ports.parquet").to_pylist()
    assert (port["received"], port["unique"]) == (200, 200)


@pytest.mark.parametrize("truncated", ["sent", "arrived"])
def test_truncated_packets_without_a_hash_do_not_count_as_lost(tmp_path, capsys, truncated):
    traffic.write(tmp_path, FLOWS, Schedule())
    write_pcap(tmp_path / f"{truncated}.pcap", traffic.sent(FLOWS), snaplen=80)
    with pytest.raises(UserError, match="200 packets are truncated and have no hash"):
        run(tmp_path / "arrived.pcap", "--sent", tmp_path / "sent.pcap", "-o", tmp_path / "tables")
    assert not (tmp_path / "tables" / "monitor_losses.parquet").exists()
    assert (tmp_path / "tables" / "monitor_ports.parquet").exists() == (truncated == "arrived")
    assert ("arrived.pcap" in capsys.readouterr().out) == (truncated == "arrived")


def test_capture_name_is_not_truncated(tmp_path):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule())
    longest = arrived.rename(tmp_path / f"{'a' * 250}.pcap")  # NAME_MAX is 255
    run(longest, "-o", tmp_path / "tables")
    assert pq.read_table(tmp_path / "tables" / "monitor_ports.parquet")["name"].to_pylist() == [longest.name]


def test_failed_run_removes_tables_of_an_earlier_run(tmp_path):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule())
    output = tmp_path / "tables"
    run(arrived, "--sent", tmp_path / "sent.pcap", "-o", output)
    (output / "monitor_searches.parquet").write_bytes(b"of a search")
    with pytest.raises(UserError, match="No such file"):
        run(tmp_path / "missing.pcap", "-o", output)
    assert [path.name for path in output.iterdir()] == ["monitor_searches.parquet"]
    with pytest.raises(UserError):
        run("--search", "--send", "none0", "--interface", "none1", "--most", 100, "-o", output)
    assert not list(output.iterdir())


def test_memory_is_checked_before_the_packets_arrive(tmp_path, monkeypatch):
    traffic.write(tmp_path, FLOWS, Schedule())
    run(tmp_path / "sent.pcap", "--packets", tmp_path / "sent.parquet")
    monkeypatch.setattr(losses, "MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {300 * losses.PACKET_BYTES // 1024} kB\n")
    with pytest.raises(UserError, match=r"lost packets among 400 needs") as error:
        run("--interface", "none0", "--sent", tmp_path / "sent.parquet")
    assert error.value.outside


def test_search_for_lost_packets_needs_less_memory_than_estimated():
    packets = 50_000
    tracemalloc.start()
    sent = np.zeros(packets, losses.RECORD)
    sent["identity_high"], sent["identity_low"] = np.random.default_rng(1).integers(0, 2**63, (2, packets), np.uint64)
    arrived = sent[1:].copy()
    missing = losses.lost(sent, arrived)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (int(missing.sum()), bool(missing[0])) == (1, True)
    assert peak < losses.PACKET_BYTES * (len(sent) + len(arrived))


def test_step_of_the_clock_is_reported_and_its_latencies_are_marked(tmp_path):
    (tmp_path / "clock.c").write_text(CLOCK)
    run_program("cc", "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c", check=True)
    for index, name in enumerate(("before", "after")):
        trace = [(ns, frame) for ns, frame in traffic.sent(FLOWS) if traffic.stamp(index, 0, 0)[:6] in frame]
        write_pcap(tmp_path / f"{name}.pcap", trace)
    variables = {**os.environ, "LD_PRELOAD": str(tmp_path / "clock.so"), "CLOCK_SET": str(tmp_path / "set"),
                 "ASAN_OPTIONS": "verify_asan_link_order=0"}  # fmt: skip
    with veth.namespace(("sent0", "arrived0")) as prefix:
        argv = [*prefix, ACAPELLA, "monitor", "--interface", "arrived0", "-o", tmp_path / "tables"]
        with subprocess.Popen([*map(str, argv)], env=variables, stderr=subprocess.PIPE, text=True) as monitor:
            try:
                assert "listening" in monitor.stderr.readline()
                veth.send_capture(prefix, "sent0", tmp_path / "before.pcap")
                (tmp_path / "set").touch()
                veth.send_capture(prefix, "sent0", tmp_path / "after.pcap")
                wait_until(lambda: impaired_path.arrived(prefix) == 200, running=monitor)
                monitor.send_signal(signal.SIGINT)
                err = monitor.communicate(timeout=60)[1]
            finally:
                monitor.kill()
    assert monitor.returncode == 0, err
    assert "warning: arrived0: the system clock was set once, by 3 s; latencies of" in err
    (port,) = pq.read_table(tmp_path / "tables" / "monitor_ports.parquet").to_pylist()
    assert (port["received"], port["clock_steps"], round(port["clock_step_ns"] / 10**9)) == (200, 1, STEP_S)
    assert pq.read_table(tmp_path / "tables" / "monitor_flows.parquet")["clock_set"].to_pylist()[-1]


def test_flow_that_ended_before_the_step_is_not_marked():
    counts = np.zeros(1, result.PORT)
    counts["clock_steps"], counts["stepped_from_ns"] = 1, 1000
    port = result.PortResult("eth0", counts[0], np.zeros(0, result.INTERVAL), np.zeros(0, result.FLOW))
    assert [tables.after_step(port, last_ns) for last_ns in (None, 999, 1000)] == [False, False, True]
