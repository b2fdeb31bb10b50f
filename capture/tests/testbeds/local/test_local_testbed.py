"""Programs, mirrors and loss on the local testbed; collected only inside its namespaces (test_testbed_contract.py)."""

import re

import pytest
from acapella_testing.capture import local_testbed as local
from acapella_testing.capture.local_testbed import allocate, allocated, local_testbed, mirror_of
from acapella_testing.processes import run
from acapella_testing.waiting import wait_until

from acapella_capture.programs.tcpdump import Tcpdump
from acapella_capture.testbeds.local.sandbox import python_argv
from acapella_core.errors import UserError


@pytest.fixture(scope="module")
def testbed():
    """Provide an allocated testbed."""
    with allocated(local_testbed()) as created:
        yield created


def test_program_runs_on_its_node(testbed):
    shown = testbed.run("site2-host1", ["ip", "-br", "address", "show", "eth0"])
    assert shown.status == 0
    assert "10.10.2.1/16" in shown.stdout
    assert "fd00:20::2:1/64" in shown.stdout
    failed = testbed.run("site1-host1", ["sh", "-c", "cat; echo bad >&2; exit 3"], stdin="given")
    assert (failed.status, failed.stdout, failed.stderr) == (3, "given", "bad\n")
    with pytest.raises(UserError, match=r"sleep timed out after 0\.1 s"):
        testbed.run("site1-host1", ["sleep", "9"], timeout_s=0.1)


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_hosts_of_different_sites_reach_each_other(testbed, mtu):
    address = {1500: "10.10.2.2", 9000: "10.20.2.2"}[mtu]
    ping = ["ping", "-c", "1", "-W", "5", "-M", "do"]
    assert testbed.run("site1-host1", [*ping, "-s", str(mtu - 28), address]).status == 0
    assert testbed.run("site1-host1", [*ping, "-s", str(mtu - 27), address]).status != 0


@pytest.mark.parametrize(("direction", "macs"), [("rx", {"01"}), ("tx", {"02"}), ("both", {"01", "02"})])
def test_mirror_copies_and_counts_one_port_and_direction(testbed, direction, macs):
    """host1 pings host2 at the same site; port1 receives requests and sends replies."""
    testbed.run("site1-host1", ["ping", "-c", "1", "10.10.1.2"])
    mirror = mirror_of(testbed, "site1", "port1", direction)
    capture = local.printing_tcpdump(testbed, mirror, "text", "icmp")
    testbed.run("site1-host1", ["ping", "-c", "3", "-i", "0.05", "10.10.1.2"])  # before it starts: not copied
    mirror.start()
    testbed.run("site1-host1", ["ping", "-c", "5", "-i", "0.05", "10.10.1.2"])
    mirror.stop()
    testbed.run("site1-host1", ["ping", "-c", "3", "-i", "0.05", "10.10.1.2"])  # after it ended: not copied
    counted = mirror.counters()
    wait_until(lambda: (capture.signal("USR1") or True) and f"{5 * len(macs)} packets captured" in capture.log())
    text = local.printed(testbed, capture, mirror.instance, "text")
    assert set(re.findall(r"02:00:00:00:01:(\d\d) > ", text)) == macs
    assert text.count("ICMP echo") == 5 * len(macs)
    assert counted.offered_frames == counted.delivered_frames >= 5 * len(macs)
    assert counted.offered_bytes == counted.delivered_bytes >= 98 * 5 * len(macs)
    assert mirror.counters() == counted


def test_next_mirror_of_a_site_ends_the_previous_one(testbed):
    mirror_of(testbed, "site1", "port1", "both").start()
    after = mirror_of(testbed, "site1", "port2", "both")
    after.start()
    testbed.run("site1-host1", ["ping", "-c", "2", "-i", "0.05", "-s", "1400", "10.10.2.1"])  # not through port2
    after.stop()
    shown = testbed.run("site1", ["tc", "filter", "show", "dev", "port1", "parent", "ffff:"])
    assert (shown.status, shown.stdout.strip()) == (0, "")
    assert after.counters().offered_bytes < 1400  # at most the hosts' own neighbor discovery


def test_released_site_is_removed_and_can_be_allocated_again(testbed):
    """The testbed of the module is allocated again at the end."""
    testbed.release()
    testbed.release()
    assert run("pgrep", "-x", "dnsmasq").returncode == 1
    with pytest.raises(UserError):
        testbed.run("site1-host1", ["true"])
    testbed.prepare()
    allocate(testbed)
    assert testbed.run("site1-host1", ["ping", "-c", "1", "-W", "5", "10.10.2.1"]).status == 0


def tcpdump_of(testbed, **settings) -> Tcpdump:
    """Return a capture of the first receiver of site1."""
    return local.tcpdump_of(testbed, "site1-listener", "capture0", **settings)


FLOOD = ("-u", "-b", "50M", "-t", "1")  # a few thousand UDP frames through port1 in about a second


def test_capture_that_cannot_start_reports_why(testbed):
    with pytest.raises(UserError, match=r"^tcpdump on site1-listener: cannot start: tcpdump: .*syntax error"):
        tcpdump_of(testbed, filter="no such filter").start()


def test_killed_capture_is_reported(testbed):
    capture = tcpdump_of(testbed)
    capture.start()
    assert testbed.run("site1", ["pkill", "-KILL", "-x", "tcpdump"]).status == 0
    with pytest.raises(UserError, match=r"^tcpdump on site1-listener: failed: "):
        capture.stop()


def test_kernel_drops_are_counted(testbed):
    """With a buffer of 64 KiB and a flood, the counts include the frames missing from the file."""
    mirror, capture = mirror_of(testbed, "site1", "port1", "both"), tcpdump_of(testbed, buffer_kib=64)
    capture.start()
    testbed.run("site1", ["pkill", "-STOP", "-x", "tcpdump"])
    mirror.start()
    local.transfer(testbed, *FLOOD)
    mirror.stop()
    testbed.run("site1", ["pkill", "-CONT", "-x", "tcpdump"])
    counts = capture.stop()
    assert counts.dropped_kernel > 0
    assert counts.captured == counts.received - counts.dropped_kernel
    assert counts.received == mirror.counters().delivered_frames


def test_drops_of_a_slow_mirror_port_are_counted(testbed):
    """Offered frames are the frames to copy, delivered frames those that the rate limit let pass."""
    testbed.release()
    with allocated(local_testbed(mirror_rate_mbps=1)) as slow:
        sample = local.Sampled(slow, mirror_of(slow, "site1", "port1", "both"))
        with local.capturing(sample):
            local.transfer(slow, *FLOOD)
        counted = sample.counted
        shown = slow.run("site1", ["tc", "-s", "qdisc", "show", "dev", "mirror0"]).stdout
        dropped = int(re.search(r"dropped (\d+)", shown)[1])
    testbed.prepare()
    allocate(testbed)
    assert counted.offered_frames >= 1000
    assert 0 < counted.delivered_frames == sample.counts.received < counted.offered_frames
    assert counted.offered_frames == counted.delivered_frames + dropped


def test_python_web_server_serves_the_same_as_nginx(testbed):
    """It replaces a missing nginx: both IP versions, with and without TLS."""
    scratch = "/dev/shm"
    argv = python_argv("acapella_capture.testbeds.local.web_server", f"{scratch}/www", f"{scratch}/tls/server.pem")
    server = testbed.start("site2-host2", argv)  # the plan's https item has created document and certificate
    for url in ("http://10.10.2.2/64", "https://[fd00:10::2:2]/64"):
        argv = ["curl", "-sk", "--max-time", "2", "-o", "/dev/null", "-w", "%{size_download}", url]
        wait_until(lambda argv=argv: testbed.run("site1-host1", argv).stdout == "65536")
    server.signal("TERM")
    assert server.wait(300) is not None
