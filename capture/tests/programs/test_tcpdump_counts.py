"""tcpdump's command line, and the counts that it prints, in both formats."""

import shutil
from dataclasses import replace

import pytest
from acapella_testing.processes import run

from acapella_capture.programs import tcpdump
from acapella_capture.programs.tcpdump import Counts, Tcpdump, last_counts
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.local import sandbox
from acapella_core.errors import UserError

LISTENING = "tcpdump: listening on capture0, link-type EN10MB (Ethernet), snapshot length 200 bytes\n"


def test_counts_are_parsed_on_request_and_at_the_end():
    log = LISTENING + "tcpdump: 1 packet captured, 3 packets received by filter, 0 packets dropped by kernel\n"
    assert last_counts(log) == Counts(captured=1, received=3, dropped_kernel=0, dropped_interface=0)
    assert last_counts(log).buffered == 2
    log += "7 packets captured\n9 packets received by filter\n2 packets dropped by kernel\n"
    assert last_counts(log) == Counts(captured=7, received=9, dropped_kernel=2, dropped_interface=0)
    assert last_counts(log).buffered == 0


def test_interface_drops_are_parsed():
    assert last_counts(f"{FINAL.format(1)}5 packets dropped by interface\n").dropped_interface == 5


def test_log_without_counts_yields_none():
    assert last_counts(LISTENING) is None


def test_filter_is_never_parsed_as_an_option():
    settings = replace(parse_settings({"testbed": "local"}).capture, filter="-w/tmp/elsewhere")
    assert Tcpdump(None, "node", "eth0", settings, "out")._argv[-2:] == ["--", "-w/tmp/elsewhere"]
    if shutil.which("tcpdump", path=sandbox.search_path()):
        assert run("tcpdump", "-d", "--", "icmp", env={"PATH": sandbox.search_path()}).returncode == 0


STATUS = "tcpdump: {0} packets captured, {0} packets received by filter, 0 packets dropped by kernel\n"
FINAL = "{0} packets captured\n{0} packets received by filter\n0 packets dropped by kernel\n"
PCAP_STATS = "pcap_stats: failed to get statistics from socket: Bad file descriptor\n"


class Scripted:
    """A testbed with one job: scripted output of tcpdump for each signal, and its exit status."""

    def __init__(self, printed: dict[str, str], status: int | None = 0, *, ended: bool = False):
        self.printed, self.status, self.ended, self.signals, self._log = printed, status, ended, [], LISTENING

    def start(self, *_, **__):
        return self

    def signal(self, name: str) -> None:
        self.signals.append(name)
        self._log += self.printed.get(name, "")

    def poll(self) -> int | None:
        return self.status if self.ended or "INT" in self.signals else None

    def wait(self, _timeout_s: float) -> int | None:
        return self.status

    def log(self) -> str:
        return self._log


def stopped(job: Scripted) -> Counts | None:
    program = Tcpdump(job, "node", "eth0", parse_settings({"testbed": "local"}).capture, "out")
    program.start()
    return program.stop()


def test_final_counts_are_returned():
    job = Scripted({"USR1": STATUS.format(7), "INT": FINAL.format(9)})
    assert stopped(job).captured == 9
    assert job.signals == ["USR1", "INT"]


def test_tcpdump_is_queried_again_only_after_its_reply(monkeypatch):
    monkeypatch.setattr(tcpdump, "DRAIN_S", 2.5)
    job = Scripted({"INT": STATUS.format(7) + FINAL.format(9)})
    assert stopped(job).captured == 9
    assert job.signals == ["USR1", "INT"]


@pytest.mark.parametrize(("printed", "status"), [(PCAP_STATS, 0), (PCAP_STATS, 1), ("", 0), (FINAL.format(9), 1)])
def test_counts_are_unknown_if_tcpdump_ends_without_final_counts(printed, status):
    assert stopped(Scripted({"USR1": STATUS.format(7), "INT": printed}, status)) is None


FULL = "tcpdump: Unable to write output: No space left on device\n"


@pytest.mark.parametrize(("printed", "status"), [(FULL, 1), (FULL, 0), (PCAP_STATS, -11), ("", -9), ("", 137)])
def test_capture_fails_if_tcpdump_cannot_write_or_is_killed(printed, status):
    with pytest.raises(UserError, match=rf"^tcpdump on node: failed: .* \(exit status {status}\)$"):
        stopped(Scripted({"USR1": STATUS.format(7), "INT": printed}, status))


def test_tcpdump_that_has_ended_receives_no_signal():
    job = Scripted({"": ""}, ended=True)
    job._log += FINAL.format(9)
    assert stopped(job).captured == 9
    for status, printed in ((1, FINAL.format(9)), (0, "")):
        failed = Scripted({}, status, ended=True)
        failed._log += printed
        with pytest.raises(UserError, match="failed: "):
            stopped(failed)
        assert failed.signals == job.signals == []


def test_capture_fails_if_tcpdump_does_not_end():
    job = Scripted({"USR1": STATUS.format(7)}, status=None)
    with pytest.raises(UserError, match="did not end"):
        stopped(job)
    assert job.signals[-1] == "KILL"
