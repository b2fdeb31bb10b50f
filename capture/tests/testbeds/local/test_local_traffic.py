"""Traffic and replays on the local testbed, with faults.

pytest runs these tests only inside the namespaces of the testbed (test_testbed_contract.py).
"""

import re
import shutil
from dataclasses import replace

import pytest
from acapella_testing.capture import local_testbed as local
from acapella_testing.capture.local_testbed import allocated, local_testbed, mirror_of
from acapella_testing.capture.pcap_records import MAC_BYTES, contents
from acapella_testing.processes import executable
from acapella_testing.requirements import require_root
from acapella_testing.waiting import wait_until

from acapella_capture.settings import parse_settings
from acapella_capture.testbeds import nic_settings
from acapella_capture.testbeds.local import processes, replay_capture, sandbox, services
from acapella_capture.testbeds.local.bridge import MIRROR
from acapella_capture.testbeds.local.network import PATHS
from acapella_capture.testbeds.local.traffic import MAX_SILENT_SAMPLES, Traffic, resolve

REAL = shutil.which("iperf3", path=sandbox.search_path())


@pytest.fixture(scope="module")
def testbed():
    """Provide an allocated testbed without traffic."""
    environments = ["quiet", {"name": "fast", "speed": 20}]
    replay = {"environments": environments} if shutil.which("tcpreplay", path=sandbox.search_path()) else None
    with allocated(local_testbed(replay=replay, traffic=[{"kind": "ping"}])) as created:
        yield created


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """Return a function that replaces a program with a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{sandbox.search_path()}")
    return lambda name, script: executable(tmp_path / name, f"#!/bin/sh\n{script}\n")


def planned(testbed, **local: object) -> Traffic:
    """Return the traffic of a plan; its servers are not started."""
    plan = parse_settings({"testbed": "local", "local": local}).local.traffic
    return Traffic(resolve(testbed.network, plan), list(PATHS))


@pytest.fixture
def traffic_of(testbed):
    """Return a function that starts traffic for a plan; its servers end with the test to free their ports."""
    created = []

    def make(*items: dict) -> Traffic:
        created.append(planned(testbed, traffic=list(items)))
        created[-1].start_servers()
        return created[-1]

    yield make
    for traffic in created:
        processes.terminate(traffic._services._running.values())


def outcome(traffic: Traffic) -> list[tuple]:
    return [(fact["started"], fact["failed"], fact["why"]) for fact in traffic.facts()]


def test_items_with_missing_programs_are_excluded_and_noted(testbed, monkeypatch, tmp_path):
    for name in ("ping", "dig"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    traffic = planned(testbed)
    assert {item.kind for item in traffic.items} == {"ping", "unreachable"}
    assert not any("[" in note for note in traffic.notes), "a note contains the index of an item in the plan"
    assert any("https from site" in note and "skipped: no curl, openssl" in note for note in traffic.notes)


def lengths(testbed) -> set[int]:
    """Return the lengths of the frames of a TCP transfer from host1 to host2 of a site, as tcpdump captures them."""
    mirror = mirror_of(testbed, "site1", "port1", "rx")
    capture = local.printing_tcpdump(testbed, mirror, "lengths", "tcp and greater 1000")
    mirror.start()
    local.transfer(testbed, "-n", "20M")
    mirror.stop()
    text = local.printed(testbed, capture, mirror.instance, "lengths")
    return {int(length) for length in re.findall(r"ethertype IPv4 \(0x0800\), length (\d+)", text)}


# Frames arrive one by one at the rate of the port, so GRO merges them, as it does on a fast link, only with a flush
# timeout of 20 ms.
MERGING = """set -e
ethtool -K "$1" gro on
mount -t sysfs none /mnt
echo 20000000 > "/mnt/class/net/$1/gro_flush_timeout"
echo 100 > "/mnt/class/net/$1/napi_defer_hard_irqs"
"""


@pytest.mark.skipif(REAL is None, reason="iperf3 is not installed")
def test_frames_are_captured_as_sent_although_offloads_were_on(testbed):
    """Generic receive offload merges TCP segments before tcpdump captures them; the setup of receivers disables it."""
    require_root("only root can set gro_flush_timeout, without which no frames of this testbed are merged")
    (instance,) = testbed.instances("site1")
    # the kernel merges the frames of a veth only if its peer cannot send merged ones
    assert testbed.run("site1", ["ethtool", "-K", MIRROR, "tso", "off"]).status == 0
    done = testbed.run(instance.name, ["unshare", "--mount", "sh", "-c", MERGING, "sh", instance.receivers[0]])
    assert done.status == 0, done.stderr
    assert nic_settings.too_long_note(settings_of(testbed, instance, change=False), max(lengths(testbed)))
    nic = settings_of(testbed, instance, change=True)
    assert nic.offloads["gro"] is False and not nic.enabled()
    longest = max(lengths(testbed))
    assert longest == 1514 and nic_settings.too_long_note(nic, longest) is None


def settings_of(testbed, instance, *, change: bool) -> nic_settings.NicSettings:
    """Return the settings of an instance's first receiver. With ``change``, the setup changes them first."""
    script = nic_settings.SCRIPT if change else re.sub(r"(?m)^.*ethtool -[KG].*$", "", nic_settings.SCRIPT)
    done = testbed.run(instance.name, ["sh", "-c", script, "sh", instance.receivers[0]])
    return nic_settings.parse(done.stdout)[instance.receivers[0]]


def test_failed_client_is_noted(testbed):
    """No host has the address, so the iperf3 client cannot connect."""
    item = replace(testbed._items[0], address="10.10.9.9", rate_mbps=1)
    traffic = Traffic([replace(item, kind="iperf3_tcp", span="sample")], list(PATHS))
    with traffic.running("sample", 1):
        wait_until(lambda: all(job.poll() is not None for job in processes._jobs[-1:]))
    assert [note for note in traffic.notes if "failed: iperf3: error - unable to connect" in note]


def test_ended_server_is_restarted_with_the_next_sample(traffic_of):
    traffic = traffic_of({"kind": "dns"})
    (server,) = traffic._services._running.values()
    server.signal("KILL")
    wait_until(lambda: server.poll() is not None)
    with traffic.running("sample", 1):
        wait_until(lambda: "request ended with 0" in processes._jobs[-1].log())
    assert outcome(traffic) == [(1, 0, None)]


def test_server_that_cannot_restart_only_fails_its_clients(traffic_of, broken):
    traffic = traffic_of({"kind": "dns"}, {"kind": "ping"})
    processes.terminate(traffic._services._running.values())
    broken("dnsmasq", "echo 'dnsmasq: broken on purpose' >&2; exit 1")
    with traffic.running("sample", 1):
        wait_until(lambda: "bytes from" in processes._jobs[-1].log())
    (_, failed, why), ping = outcome(traffic)
    assert (failed, why) == (1, "dnsmasq: broken on purpose")
    assert ping == (1, 0, None)


@pytest.mark.skipif(REAL is None, reason="iperf3 is not installed")
def test_server_that_fails_to_listen_is_restarted_once(traffic_of, broken, tmp_path):
    once = tmp_path / "once"
    broken("iperf3", f'case $* in *-s*) [ -e {once} ] || {{ touch {once}; exit 1; }};; esac; exec {REAL} "$@"')
    traffic = traffic_of({"kind": "iperf3_udp"})
    with traffic.running("sample", 1):
        wait_until(lambda: "connected to" in processes._jobs[-1].log())
    assert once.exists()
    assert outcome(traffic) == [(1, 0, None)]


def test_server_that_never_listens_is_abandoned(traffic_of, broken, monkeypatch):
    monkeypatch.setattr(services, "LISTEN_S", 0.2)
    broken("iperf3", "exec sleep 60")
    traffic = traffic_of({"kind": "iperf3_tcp"}, {"kind": "ping"})
    for _ in range(MAX_SILENT_SAMPLES + 1):
        with traffic.running("sample", 1):
            pass
    (started, failed, why), ping = outcome(traffic)
    assert (started, failed) == (MAX_SILENT_SAMPLES, MAX_SILENT_SAMPLES)
    assert why.startswith(
        f"skipped: {MAX_SILENT_SAMPLES} consecutive failures: iperf3 does not listen on site2-host1: "
    )
    assert ping == (MAX_SILENT_SAMPLES + 1, 0, None)


def test_client_without_successful_requests_has_failed(traffic_of, broken):
    """This does not hold if its requests are expected to fail."""
    traffic = traffic_of({"kind": "dns"}, {"kind": "refused"})
    broken("dig", "echo 'dig: broken on purpose' >&2; exit 9")
    with traffic.running("sample", 1):
        wait_until(lambda: all("request ended" in job.log() for job in processes._jobs[-2:]))
    assert outcome(traffic) == [(1, 1, "dig: broken on purpose"), (1, 0, None)]
    assert [note for note in traffic.notes if "dns" in note and "failed: dig: broken on purpose" in note]


@pytest.fixture
def only_replay(testbed):
    """End neighbor and router discovery at site1: its frames could be dropped, too. Only the last test may do that."""
    for node in ("site1", "site1-host1", "site1-host2"):
        testbed.run(node, ["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"])


@pytest.mark.usefixtures("only_replay")
@pytest.mark.skipif(shutil.which("tcpreplay", path=sandbox.search_path()) is None, reason="tcpreplay is not installed")
@pytest.mark.parametrize("environment", ["quiet", "fast"])
def test_each_frame_of_the_default_capture_arrives_or_is_counted_as_dropped(testbed, tmp_path, environment):
    """Environment `fast` exceeds the rate of the bottleneck, as does tcpreplay after a pause on a busy machine."""
    replay = testbed.replay_plan()
    with testbed.environment(environment):
        assert "tbf" in testbed.run("site1", ["tc", "qdisc"]).stdout
        mirror = mirror_of(testbed, replay.site.name, replay.port.name, replay.direction)
        sample = local.Sampled(testbed, mirror, filter=replay.filter, snaplen=65535)
        with local.capturing(sample):
            assert testbed.replay() == replay_capture.PACKETS
        counts, copied = sample.counts, sample.counted
        dropped = testbed.deliver_replay("x", tmp_path)["replay"]["dropped"]
    assert "tbf" not in testbed.run("site1", ["tc", "qdisc"]).stdout
    lost = {**dropped, "mirror": copied.offered_frames - copied.delivered_frames, "capture": counts.dropped_kernel}
    assert counts.captured + sum(lost.values()) == replay_capture.PACKETS, lost
    if environment == "fast":
        assert dropped.keys() >= {"site1 uplink-site2 bfifo 20:2"}
    replay_capture.write(tmp_path / "sent.pcap", "02:00:00:00:fe:01", "02:00:00:00:02:01")
    # not their order: in a burst, expedited packets overtake others
    arrived, sent = {frame[MAC_BYTES:] for frame in sample.frames(tmp_path)}, set(contents(tmp_path / "sent.pcap"))
    assert len(arrived) == counts.captured and arrived <= sent
