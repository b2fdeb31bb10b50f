"""Run programs at both ends of a veth in a separate network namespace, kill some of them, and print JSON.

    unshare -rn python live_reports.py SCENARIO DIRECTORY

The data plane sends reports to v0, the collector receives from v1; the control channel is on the namespace's loopback.
"""

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.processes import children_of
from acapella_testing.waiting import wait_until

START_NS = 1_700_000_000_000_000_000
GAP_NS = 1_000_000
PORT = 4700
TIMEOUT_S = 300  # reached only if something hangs


def capture(path: Path, packets: int) -> Path:
    """Write a download with a packet per ms; every other one is the client's ACK, which triggers a report."""
    frames = []
    for n in range(packets):
        sent = 200 * (n // 2)
        if n % 2:
            ends, flags, payload = ((10, 0, 0, 1, 10, 0, 0, 2), (5000, 80, 7, sent + 200), b"")
        else:
            ends, flags, payload = ((10, 0, 0, 2, 10, 0, 0, 1), (80, 5000, sent, 7), bytes(200))
        tcp = struct.pack("!HHIIBBHHH", *flags, 0x50, 0x10, 8192, 0, 0) + payload
        packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), n & 0xFFFF, 0, 64, 6, 0) + bytes(ends) + tcp
        frames.append(bytes(12) + b"\x08\0" + packet)
    return write_pcap(path, ((START_NS + n * GAP_NS, frame) for n, frame in enumerate(frames)))


def links(*commands: str) -> None:
    """Run commands of `ip link`."""
    for command in commands:
        subprocess.run(["ip", "link", *command.split()], check=True)


class Setup:
    """The namespace and the programs in it."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._stack = contextlib.ExitStack()
        links("set lo up", "add v0 type veth peer name v1")
        links("set v0 addrgenmode none", "set v1 addrgenmode none", "set v0 up", "set v1 up")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self._stack.__exit__(*failure)

    def start(self, name: str, *words: str) -> subprocess.Popen:
        """Start an acapella command; its messages go to NAME.log."""
        command = [sys.executable, "-m", "acapella.cli.main", *words]
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        self._stack.callback(process.kill)
        return process

    def collector(self, name: str, *more: str) -> subprocess.Popen:
        """Start a collector with results in the directory ``name``; return when it receives."""
        words = ("p4", "collect", "--interface", "v1", "--listen", f"127.0.0.1:{PORT}", "--queue-pairs", "2")
        process = self.start(name, *words, "-o", str(self.directory / name), *more)
        self.wait_for(name, "receiving from")
        return process

    def data_plane(self, name: str, *more: str) -> subprocess.Popen:
        """Start the P4 program, which sends the reports of the capture to v0."""
        words = ("p4", "run", "flowstats", "--in", str(self.directory / "in.pcap"), "--out-interface", "v0")
        stats = ("--stats", str(self.directory / f"{name}.json"))
        secret = ("--secret", str(self.directory / "reports" / "collector.secret"))
        return self.start(name, *words, *stats, "--collector", f"127.0.0.1:{PORT}", *secret, *more)

    def wait_for(self, name: str, phrase: str, times: int = 1) -> None:
        """Wait until a program has printed a text a number of times."""
        path = self.directory / f"{name}.log"
        wait_until(lambda: path.is_file() and path.read_text().count(phrase) >= times, f"{name}: no {phrase!r}")

    def wait_for_reports(self, name: str, least: int) -> dict:
        """Wait until a running collector has a number of reports; return its state."""
        from acapella.collector.request_socket import connect  # noqa: PLC0415

        with connect(self.directory / name) as ask:
            wait_until(lambda: ask("state")["state"]["reports"]["accepted"] >= least, name)
            return ask("state")["state"]

    def statistics(self, name: str) -> dict:
        """Return the statistics of a data plane."""
        return json.loads((self.directory / f"{name}.json").read_text())

    def results(self, name: str) -> dict:
        """Return a collector's counters."""
        return json.loads((self.directory / name / "counters.json").read_text())


def all_arrive(setup: Setup) -> dict:
    """Complete a run at full speed; the collector ends when the session has ended."""
    capture(setup.directory / "in.pcap", 4000)
    collector = setup.collector("reports", "--until-sessions-end")
    codes = [setup.data_plane("plane").wait(TIMEOUT_S), collector.wait(TIMEOUT_S)]
    return {"codes": codes, "plane": setup.statistics("plane"), **setup.results("reports")}


def collector_killed(setup: Setup) -> dict:
    """Kill the collector (SIGKILL) in a paced run, and start a new one in its directory."""
    capture(setup.directory / "in.pcap", 20_000)
    first = setup.collector("reports")
    plane = setup.data_plane("plane", "--pace")
    before = setup.wait_for_reports("reports", 50)
    first.kill()
    first.wait()
    left = sorted(path.name for path in (setup.directory / "reports").iterdir())
    second = setup.collector("reports", "--until-sessions-end")
    setup.wait_for_reports("reports", 50)
    plane.terminate()
    codes = [plane.wait(TIMEOUT_S), second.wait(TIMEOUT_S)]
    found = {"codes": codes, "before": before, "left": left, "plane": setup.statistics("plane")}
    return found | setup.results("reports")


def data_plane_killed(setup: Setup) -> dict:
    """Kill the data plane (SIGKILL) in a paced run, and start a new one."""
    capture(setup.directory / "in.pcap", 20_000)
    collector = setup.collector("reports")
    plane = setup.data_plane("plane", "--pace")
    setup.wait_for_reports("reports", 50)
    for pid in children_of(plane.pid):
        if "acapella-p4-run" in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGKILL)
    codes = [plane.wait(TIMEOUT_S)]
    before = setup.wait_for_reports("reports", 50)
    again = setup.data_plane("again", "--pace")
    setup.wait_for_reports("reports", before["reports"]["accepted"] + 50)
    again.terminate()
    codes.append(again.wait(TIMEOUT_S))
    collector.send_signal(signal.SIGINT)
    codes.append(collector.wait(TIMEOUT_S))
    return {"codes": codes, "before": before, "again": setup.statistics("again"), **setup.results("reports")}


def interface_gone(setup: Setup) -> dict:
    """Set the interface down and up again, and then delete it."""
    collector = setup.collector("reports")
    links("set v1 down", "set v1 up")
    capture(setup.directory / "in.pcap", 100)
    sent = setup.data_plane("plane").wait(TIMEOUT_S)
    setup.wait_for_reports("reports", 10)
    links("del v0")
    return {"codes": [sent, collector.wait(TIMEOUT_S)], "plane": setup.statistics("plane"), **setup.results("reports")}


SCENARIOS = {each.__name__: each for each in (all_arrive, collector_killed, data_plane_killed, interface_gone)}

if __name__ == "__main__":
    with Setup(Path(sys.argv[2])) as setup:
        print(json.dumps(SCENARIOS[sys.argv[1]](setup)))
