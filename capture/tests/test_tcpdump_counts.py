"""tcpdump's command line, and the counts that it prints, in both its spellings."""

import shutil
import subprocess
from dataclasses import replace

from acapella_capture.settings import settings_of
from acapella_capture.tcpdump import Counts, Tcpdump, last_counts
from acapella_capture.testbeds.local import sandbox

LISTENING = "tcpdump: listening on capture0, link-type EN10MB (Ethernet), snapshot length 200 bytes\n"


def test_counts_on_request_and_at_the_end():
    log = LISTENING + "tcpdump: 1 packet captured, 3 packets received by filter, 0 packets dropped by kernel\n"
    assert last_counts(log) == Counts(captured=1, received=3, dropped_kernel=0, dropped_interface=0)
    assert last_counts(log).held == 2
    log += "7 packets captured\n9 packets received by filter\n2 packets dropped by kernel\n"
    assert last_counts(log) == Counts(captured=7, received=9, dropped_kernel=2, dropped_interface=0)
    assert last_counts(log).held == 0


def test_dropped_by_interface():
    log = (
        "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n5 packets dropped by interface\n"
    )
    assert last_counts(log).dropped_interface == 5


def test_no_counts():
    assert last_counts(LISTENING) is None


def test_the_filter_can_never_be_read_as_an_option():
    settings = replace(settings_of({"testbed": "local"}).capture, filter="-w/tmp/elsewhere")
    argv = Tcpdump(None, "node", "eth0", settings, "out")._argv
    assert argv[-2:] == ["--", "-w/tmp/elsewhere"]
    if shutil.which("tcpdump", path=sandbox.search_path()):
        tried = subprocess.run(
            ["tcpdump", "-d", "--", "icmp"], capture_output=True, check=False, env={"PATH": sandbox.search_path()}
        )
        assert tried.returncode == 0
