"""The counts of a monitor are printed even if another output fails, and causes of wrong counts are reported."""

import os
import tracemalloc

import numpy as np
import pyarrow.parquet as pq
import pytest
from acapella_testing.capture import impaired_path, veth
from acapella_testing.capture.commands import ACAPELLA, monitors, run_command
from acapella_testing.capture.small_disks import small_disk_or_skip
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import Flow, Schedule
from acapella_testing.new_files import write_file
from acapella_testing.processes import run as run_program
from acapella_testing.waiting import wait_until

from acapella_capture.monitor import command, losses, result, tables
from acapella_core.errors import OUTSIDE, UserError

FLOWS = [Flow(120, 9_000, 200), Flow(80, 11_000, 200)]
STEP_S = 3
# CLOCK_REALTIME is STEP_S seconds ahead while the file CLOCK_SET exists.
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


@pytest.fixture
def arrived(tmp_path):
    """Provide a capture without loss; the capture of the sent packets is in the same directory."""
    return traffic.write(tmp_path, FLOWS, Schedule())[0]


def test_counts_are_printed_if_the_disk_is_full(tmp_path, arrived):
    words = ["--write", tmp_path / "disk" / "out.pcapng", "--snaplen", 0, "-o", tmp_path / "tables"]
    done = run_program(*small_disk_or_skip(tmp_path / "disk", "16K"), ACAPELLA, "monitor", arrived, *words)
    assert (done.returncode, done.stderr.count("\n")) == (OUTSIDE, 1), done.stderr
    assert "No space left on device" in done.stderr
    assert "arrived.pcap" in done.stdout
    (port,) = pq.read_table(tmp_path / "tables" / "monitor_ports.parquet").to_pylist()
    assert (port["received"], port["unique"]) == (200, 200)


@pytest.mark.parametrize("truncated", ["sent", "arrived"])
def test_truncated_packets_without_a_hash_do_not_count_as_lost(tmp_path, arrived, capsys, truncated):
    write_pcap(tmp_path / f"{truncated}.pcap", traffic.sent(FLOWS), snaplen=80)
    with pytest.raises(UserError, match="200 packets are truncated and have no hash"):
        run_command(command, arrived, "--sent", tmp_path / "sent.pcap", "-o", tmp_path / "tables")
    assert not (tmp_path / "tables" / "monitor_losses.parquet").exists()
    assert (tmp_path / "tables" / "monitor_ports.parquet").exists() == (truncated == "arrived")
    assert ("arrived.pcap" in capsys.readouterr().out) == (truncated == "arrived")


def test_capture_name_is_not_truncated(tmp_path, arrived):
    longest = arrived.rename(tmp_path / f"{'a' * 250}.pcap")  # NAME_MAX is 255
    run_command(command, longest, "-o", tmp_path / "tables")
    assert pq.read_table(tmp_path / "tables" / "monitor_ports.parquet")["name"].to_pylist() == [longest.name]


def test_failed_run_removes_tables_of_an_earlier_run(tmp_path, arrived):
    output = tmp_path / "tables"
    run_command(command, arrived, "--sent", tmp_path / "sent.pcap", "-o", output)
    (output / "monitor_searches.parquet").write_bytes(b"of a search")
    with pytest.raises(UserError, match="No such file"):
        run_command(command, tmp_path / "missing.pcap", "-o", output)
    assert [path.name for path in output.iterdir()] == ["monitor_searches.parquet"]
    with pytest.raises(UserError):
        run_command(command, "--search", "--send", "none0", "--interface", "none1", "--max-rate", 100, "-o", output)
    assert not list(output.iterdir())


@pytest.mark.usefixtures("arrived")
def test_memory_is_checked_before_the_packets_arrive(tmp_path, monkeypatch):
    run_command(command, tmp_path / "sent.pcap", "--packets", tmp_path / "sent.parquet")
    meminfo = write_file(tmp_path / "meminfo", f"MemAvailable: {300 * losses.PACKET_BYTES // 1024} kB\n")
    monkeypatch.setattr(losses, "MEMINFO", meminfo)
    with pytest.raises(UserError, match=r"lost packets among 400 needs") as error:
        run_command(command, "--interface", "none0", "--sent", tmp_path / "sent.parquet")
    assert error.value.outside


def test_search_for_lost_packets_needs_less_memory_than_estimated():
    tracemalloc.start()
    sent = np.zeros(50_000, losses.RECORD)
    sent["identity_high"], sent["identity_low"] = np.random.default_rng(1).integers(0, 2**63, (2, 50_000), np.uint64)
    arrived = sent[1:].copy()
    missing = losses.lost(sent, arrived)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (int(missing.sum()), bool(missing[0])) == (1, True)
    assert peak < losses.PACKET_BYTES * (len(sent) + len(arrived))


def test_clock_step_is_reported_and_its_latencies_are_marked(tmp_path):
    source = write_file(tmp_path / "clock.c", CLOCK)
    run_program("cc", "-shared", "-fPIC", "-o", tmp_path / "clock.so", source, check=True)
    for index, name in enumerate(("before", "after")):
        trace = [(ns, frame) for ns, frame in traffic.sent(FLOWS) if traffic.stamp(index, 0, 0)[:6] in frame]
        write_pcap(tmp_path / f"{name}.pcap", trace)
    preloaded = {"LD_PRELOAD": f"{tmp_path}/clock.so", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    variables = os.environ | preloaded | {"CLOCK_SET": f"{tmp_path}/set"}
    words = ["--interface", "arrived0", "-o", tmp_path / "tables"]
    with veth.namespace(("sent0", "arrived0")) as prefix, monitors(prefix, words, env=variables) as (monitor,):
        veth.send_capture(prefix, "sent0", tmp_path / "before.pcap")
        (tmp_path / "set").touch()
        veth.send_capture(prefix, "sent0", tmp_path / "after.pcap")
        wait_until(lambda: impaired_path.arrived(prefix) == 200, running=monitor)
    assert "warning: arrived0: the system clock was set once, by 3 s; latencies of" in monitor.messages
    (port,) = pq.read_table(tmp_path / "tables" / "monitor_ports.parquet").to_pylist()
    assert (port["received"], port["clock_steps"], round(port["clock_step_ns"] / 10**9)) == (200, 1, STEP_S)
    assert pq.read_table(tmp_path / "tables" / "monitor_flows.parquet")["clock_set"].to_pylist()[-1]


def test_flow_that_ended_before_the_step_is_not_marked():
    counts = np.zeros(1, result.PORT)
    counts["clock_steps"], counts["stepped_from_ns"] = 1, 1000
    port = result.PortResult("eth0", counts[0], np.zeros(0, result.INTERVAL), np.zeros(0, result.FLOW))
    assert [tables.after_step(port, last_ns) for last_ns in (None, 999, 1000)] == [False, False, True]
