"""The state of a machine's clock, from real chronyd and ptp4l in a network namespace, with injected offsets.

Neither changes this machine's clock (chronyd -x, free_running). Both ends of a measurement have the same clock, so the
true offset is 0; the injected one is so large that delays of a busy machine cannot be confused with it.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing import processes
from acapella_testing.capture.replay_agents import program_or_skip
from acapella_testing.capture.replay_commands import started
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_programs, require_root
from acapella_testing.waiting import wait_until

from acapella_capture.testbeds.local import replay_capture

S = 10**9
OWN_CLOCK = "import json; from acapella_capture.replay.clocks import own_clock; print(json.dumps(own_clock()))"
SET_UP = """mount -t tmpfs -o mode=755 none /run &&
ip link set lo up && ip link add left0 type veth peer name left1 && ip link set left0 up && ip link set left1 up &&
echo ready && exec sleep infinity
"""
QUIET = "cmdport 0\n"
SERVER = f"{QUIET}local stratum 1\nallow 127.0.0.1\nport 1123\nbindaddress 127.0.0.1\nbindcmdaddress /\n"
CLIENT = f"{QUIET}port 0\nmaxdistance 60\n"
SOURCE = "server 127.0.0.1 port 1123 iburst minpoll -4 maxpoll -4 offset {:f}\n"  # injected offset in s
# A port becomes master after the timeout for announcements; for the slave, that timeout must exceed any delay here.
MASTER = ["-i", "left0", "--uds_address", "/run/master", "--priority1", "100", "--announceReceiptTimeout", "3"]
PTP = ["ptp4l", "-2", "-S", "-m", "--free_running", "1", "--logSyncInterval", "-3", "--logAnnounceInterval", "-2",
       "--announceReceiptTimeout", "100"]  # fmt: skip


@pytest.fixture
def prefix() -> Iterator[list[str]]:
    """Provide the prefix of commands in a network namespace with a veth pair and an empty /run."""
    require_root("no network namespaces")
    argv = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", SET_UP]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as holder:
        try:
            if holder.stdout.readline() != "ready\n":
                holder.kill()
                pytest.skip(f"no network namespace with a private /run: {holder.stderr.read().strip()}")
            yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net", f"--mount=/proc/{holder.pid}/ns/mnt"]
        finally:
            holder.kill()


@contextlib.contextmanager
def running(prefix: list[str], *argvs: list[str]) -> Iterator[None]:
    """Run daemons until the end of the block."""
    with contextlib.ExitStack() as started:
        for argv in argvs:
            outputs = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.enter_context(processes.running([*prefix, *argv], **outputs))
        yield


def clock_when(prefix: list[str], condition) -> dict:
    """Return the clock according to `acapella replay` once a condition holds. Fails if that takes too long."""

    def found() -> dict | None:
        clock = json.loads(processes.run(*prefix, sys.executable, "-c", OWN_CLOCK, check=True).stdout)
        return clock if condition(clock) else None

    return wait_until(found)


def chronyd(directory: Path, name: str, config: str) -> list[str]:
    """Return the command line of a chronyd that does not change the clock."""
    file = write_file(directory / f"{name}.conf", f"{config}pidfile /run/{name}.pid\n")
    return ["chronyd", "-x", "-d", "-u", "root", "-f", str(file)]


@pytest.mark.parametrize("injected_s", [30, -20])
def test_offset_of_chrony_is_recorded_with_its_sign(tmp_path, prefix, injected_s):
    """`offset` is added to what chronyd measures: if it is positive, the system clock seems to be behind."""
    require_programs("chronyd", "chronyc")
    client = CLIENT + SOURCE.format(injected_s)
    with running(prefix, chronyd(tmp_path, "server", SERVER), chronyd(tmp_path, "client", client)):
        found = clock_when(prefix, lambda clock: clock["source"] == "chrony" and clock["synchronized"])
    assert abs(found["offset_ns"] + injected_s * S) < 5 * S, found
    assert 0 < found["error_ns"] < 5 * S, found


def test_chrony_without_a_source_is_not_synchronized(tmp_path, prefix):
    require_programs("chronyd", "chronyc")
    with running(prefix, chronyd(tmp_path, "client", CLIENT)):
        found = clock_when(prefix, lambda clock: clock["source"] == "chrony")
    assert found == {"source": "chrony", "offset_ns": 0, "synchronized": False, "error_ns": None}


@pytest.mark.soak
def test_offset_of_ptp_is_recorded_in_departures(tmp_path, prefix):
    """Both ends have the same clock; ptp4l corrects a delay asymmetry that does not exist, which becomes an offset."""
    require_programs("ptp4l", "pmc")
    program_or_skip()
    capture, departures = tmp_path / "a.pcap", tmp_path / "a.parquet"
    replay_capture.write(capture, "02:00:00:00:00:01", "02:00:00:00:00:02", 10)
    with running(prefix, [*PTP, *MASTER], [*PTP, "-s", "-i", "left1", "--delayAsymmetry", "-2000000000"]):
        clock_when(prefix, lambda clock: clock["source"] == "ptp" and clock["synchronized"] and clock["offset_ns"])
        with started(capture, "-i", "left0", "--departures", departures, prefix=prefix) as process:
            errors = process.communicate()[1]
    assert process.returncode == 0, errors
    metadata = pq.read_schema(departures).metadata
    assert (metadata[b"clock_source"], metadata[b"node_clock_synchronized"]) == (b"ptp", b"true")
    assert metadata[b"clock_offset_ns"] == metadata[b"node_clock_offset_ns"]
    assert abs(int(metadata[b"clock_offset_ns"]) - 2 * S) < S, metadata
    assert metadata[b"clock_error_ns"] == b"unknown"


def test_ptp_without_a_grandmaster_is_not_synchronized(prefix):
    require_programs("ptp4l", "pmc")
    with running(prefix, [*PTP, "-i", "left1"]):
        found = clock_when(prefix, lambda clock: clock["source"] == "ptp")
    assert found == {"source": "ptp", "offset_ns": None, "synchronized": False, "error_ns": None}
