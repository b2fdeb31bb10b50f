"""Traffic and replays on the local testbed, with faults.

Collected only inside its namespaces (test_testbed_contract.py).
"""

import shutil
from dataclasses import replace

import pytest
from acapella_testing.capture.local_testbed import allocated, local_testbed, mirror_of
from acapella_testing.capture.pcap_records import contents

from acapella_capture.programs.tcpdump import Tcpdump
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.local import processes, replay_capture, sandbox, services
from acapella_capture.testbeds.local.network import PATHS
from acapella_capture.testbeds.local.traffic import MAX_SILENT_SAMPLES, Traffic, resolve

REAL = shutil.which("iperf3", path=sandbox.search_path())


@pytest.fixture(scope="module")
def testbed():
    """Provide an allocated testbed without traffic."""
    replay = {"environments": ["quiet"]} if shutil.which("tcpreplay", path=sandbox.search_path()) else None
    with allocated(local_testbed(replay=replay, traffic=[{"kind": "ping"}])) as created:
        yield created


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """Return a function that replaces a program by a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{sandbox.search_path()}")

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return write


@pytest.fixture
def traffic_of(testbed):
    """Return a function that starts traffic for a plan; its servers end with the test to free their ports."""
    created = []

    def make(*items: dict) -> Traffic:
        plan = parse_settings({"testbed": "local", "local": {"traffic": list(items)}}).local.traffic
        traffic = Traffic(resolve(testbed.network, plan), list(PATHS))
        created.append(traffic)
        traffic.start_servers()
        return traffic

    yield make
    for traffic in created:
        processes.terminate(traffic._services._running.values())


def wait_for(condition) -> None:
    assert processes.wait_until(condition, timeout_s=60)


def outcome(traffic: Traffic) -> list[tuple]:
    return [(fact["started"], fact["failed"], fact["why"]) for fact in traffic.facts()]


def test_items_with_missing_programs_are_excluded_and_noted(testbed, monkeypatch, tmp_path):
    for name in ("ping", "dig"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    traffic = Traffic(resolve(testbed.network, parse_settings({"testbed": "local"}).local.traffic), list(PATHS))
    assert {item.kind for item in traffic.items} == {"ping", "unreachable"}
    assert not any("[" in note for note in traffic.notes), "no place in a list that no configuration need have"
    assert any("https from site" in note and "skipped: no curl, openssl" in note for note in traffic.notes)


def test_failed_client_is_noted(testbed):
    """No host has the address, so there is no reply to the ping."""
    item = replace(testbed._items[0], address="10.10.9.9", rate_mbps=1)
    traffic = Traffic([replace(item, kind="iperf3_tcp", span="sample")], list(PATHS))
    with traffic.running("sample", 1):
        wait_for(lambda: all(job.poll() is not None for job in processes._jobs[-1:]))
    assert [note for note in traffic.notes if "failed: iperf3: error - unable to connect" in note]


def test_ended_server_is_restarted_with_the_next_sample(traffic_of):
    traffic = traffic_of({"kind": "dns"})
    (server,) = traffic._services._running.values()
    server.signal("KILL")
    wait_for(lambda: server.poll() is not None)
    with traffic.running("sample", 1):
        wait_for(lambda: "request ended with 0" in processes._jobs[-1].log())
    assert outcome(traffic) == [(1, 0, None)]


def test_server_that_cannot_restart_only_fails_its_clients(traffic_of, broken):
    traffic = traffic_of({"kind": "dns"}, {"kind": "ping"})
    processes.terminate(traffic._services._running.values())
    broken("dnsmasq", "echo 'dnsmasq: broken on purpose' >&2; exit 1")
    with traffic.running("sample", 1):
        wait_for(lambda: "bytes from" in processes._jobs[-1].log())
    (_, failed, why), ping = outcome(traffic)
    assert (failed, why) == (1, "dnsmasq: broken on purpose")
    assert ping == (1, 0, None)


@pytest.mark.skipif(REAL is None, reason="iperf3 is not installed")
def test_server_that_fails_to_listen_is_restarted_once(traffic_of, broken, tmp_path):
    once = tmp_path / "once"
    broken("iperf3", f'case $* in *-s*) [ -e {once} ] || {{ touch {once}; exit 1; }};; esac; exec {REAL} "$@"')
    traffic = traffic_of({"kind": "iperf3_udp"})
    with traffic.running("sample", 1):
        wait_for(lambda: "connected to" in processes._jobs[-1].log())
    assert once.exists()
    assert outcome(traffic) == [(1, 0, None)]


def test_server_that_never_listens_is_given_up(traffic_of, broken, monkeypatch):
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
    """Except if its requests are expected to fail."""
    traffic = traffic_of({"kind": "dns"}, {"kind": "refused"})
    broken("dig", "echo 'dig: broken on purpose' >&2; exit 9")
    with traffic.running("sample", 1):
        wait_for(lambda: all("request ended" in job.log() for job in processes._jobs[-2:]))
    assert outcome(traffic) == [(1, 1, "dig: broken on purpose"), (1, 0, None)]
    assert [note for note in traffic.notes if "dns" in note and "failed: dig: broken on purpose" in note]


@pytest.mark.skipif(shutil.which("tcpreplay", path=sandbox.search_path()) is None, reason="tcpreplay is not installed")
def test_default_capture_arrives_complete_and_the_bottleneck_is_removed(testbed, tmp_path):
    replay = testbed.replay_plan()
    how = parse_settings({"testbed": "local", "capture": {"filter": replay.filter, "snaplen": 65535}}).capture
    with testbed.environment("quiet"):
        assert "tbf" in testbed.run("site1", ["tc", "qdisc"]).stdout
        mirror = mirror_of(testbed, replay.site.name, replay.port.name, replay.direction)
        capture = Tcpdump(testbed, mirror.instance, mirror.interface, how, "x.pcap")
        capture.start()
        mirror.start()
        testbed.replay()
        mirror.stop()
        assert capture.stop().captured == replay_capture.PACKETS
    assert "tbf" not in testbed.run("site1", ["tc", "qdisc"]).stdout
    testbed.fetch(mirror.instance, "x.pcap", tmp_path / "x.pcap")
    replay_capture.write(tmp_path / "sent.pcap", "02:00:00:00:fe:01", "02:00:00:00:02:01")
    # not their order: a delayed tcpreplay sends a burst, in which expedited packets overtake others
    assert sorted(contents(tmp_path / "x.pcap")) == sorted(contents(tmp_path / "sent.pcap"))
