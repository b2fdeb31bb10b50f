"""The contract of all testbeds, as tests that a module imports and runs with its own fixture `testbed`.

The fixture enters the testbed, which must have at least two sites, no instance and no other user. Tests that need a
switch are skipped if the testbed has none (testbed files).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.requirements import require
from acapella_testing.waiting import wait_until

from acapella_capture.testbeds.base import (
    Host,
    Instance,
    InsufficientResources,
    ResourceRequest,
    Site,
    Telemetry,
    Testbed,
)
from acapella_core.errors import UserError

TIMEOUT_S = 300  # timeout for programs on a node


@pytest.fixture
def switched(testbed) -> Testbed:
    """Return the testbed if it has switches."""
    require(testbed.name != "files", f"testbed {testbed.name} has no switch")
    return testbed


@pytest.fixture
def instance(switched) -> Iterator[Instance]:
    """Allocate an instance of the first site; it stays allocated and is reused by the next test."""
    return switched.allocate(switched.sites()[0].name, ResourceRequest(1))[0]


def user_error(call) -> UserError:
    """Return the error of a call, which must be a UserError of one line."""
    with pytest.raises(UserError) as raised:
        call()
    assert "\n" not in str(raised.value)
    return raised.value


def test_sites_and_ports_have_names_rates_and_kinds(testbed):
    sites = testbed.sites()
    assert len({site.name for site in sites}) == len(sites) > 1
    for site in sites:
        names = [port.name for port in site.ports]
        assert len(set(names)) == len(names) > 0
        for port in site.ports:
            assert port.rate_bps is None or (type(port.rate_bps) is int and port.rate_bps > 0)
            assert port.kind in (None, "uplink", "downlink")
            assert all(type(name) is str and name for name in port.slices)
        assert testbed.site(site.name) == site
        assert testbed.port(site.name, names[0]) == site.ports[0]


def test_sites_with_a_switch_have_a_downlink(switched):
    assert all(any(port.kind == "downlink" for port in site.ports) for site in switched.sites())


@pytest.mark.parametrize(
    "call",
    [
        lambda testbed, site: testbed.site("nowhere"),
        lambda testbed, site: testbed.port(site.name, "none"),
        lambda testbed, site: testbed.resources("nowhere"),
        lambda testbed, site: testbed.telemetry("nowhere", 1),
        lambda testbed, site: testbed.allocate("nowhere", ResourceRequest(1)),
        lambda testbed, site: testbed.instances("nowhere"),
        lambda testbed, site: testbed.extend("nowhere", time.time_ns()),
        lambda testbed, site: testbed.mirror(missing_at(site), "none", site.ports[0].name, "both"),
        lambda testbed, site: testbed.mirror_capacity_bps(missing_at(site), "none"),
        lambda testbed, site: testbed.run("missing", ["true"]),
        lambda testbed, site: testbed.start("missing", ["true"]),
        lambda testbed, site: testbed.fetch("missing", "none", Path("/nonexistent/none")),
    ],
    ids=["site", "port", "resources", "telemetry", "allocate", "instances", "extend", "mirror", "capacity", "run",
         "start", "fetch"],
)  # fmt: skip
def test_unknown_name_is_a_user_error(testbed, call):
    assert not isinstance(user_error(lambda: call(testbed, testbed.sites()[0])), InsufficientResources)


def missing_at(site: Site) -> Instance:
    """Return an instance that is not allocated."""
    return Instance("missing", site.name, ("none",))


def test_resources_are_whole_numbers_by_host(testbed):
    for site in testbed.sites():
        hosts = testbed.resources(site.name)
        assert len({host.name for host in hosts}) == len(hosts)
        for host in hosts:
            assert isinstance(host, Host)
            numbers = (host.cores, host.ram_gb, host.disk_gb, host.nics)
            assert all(type(number) is int and number >= 0 for number in numbers), host


def test_telemetry_has_rates_of_known_ports_or_is_none(testbed):
    site = testbed.sites()[0]
    found = testbed.telemetry(site.name, 1)
    if found is None:
        return
    assert isinstance(found, Telemetry)
    assert found.source and "\n" not in found.source and found.seconds > 0
    assert set(found.ports) <= {port.name for port in site.ports}
    assert all(rates.tx_bps >= 0 and rates.rx_bps >= 0 for rates in found.ports.values())


def test_there_are_no_leftovers_at_first(testbed):
    assert testbed.leftovers() == ()


def test_repeated_allocation_returns_the_same_instances(switched, instance):
    site = instance.site
    assert instance.site == switched.sites()[0].name and instance.receivers
    assert len(set(instance.receivers)) == len(instance.receivers)
    assert switched.allocate(site, ResourceRequest(1)) == (instance,) == switched.instances(site)


@pytest.mark.parametrize(
    "excessive",
    [
        ResourceRequest(1000),
        ResourceRequest(2, cores=10**6),
        ResourceRequest(2, ram_gb=10**6),
        ResourceRequest(2, disk_gb=10**9),
    ],
    ids=["instances", "cores", "memory", "disk"],
)
def test_excessive_request_is_rejected_and_changes_nothing(switched, instance, excessive):
    before = switched.instances(instance.site), switched.resources(instance.site)
    with pytest.raises(InsufficientResources) as raised:
        switched.allocate(instance.site, excessive)
    assert "\n" not in str(raised.value)
    assert (switched.instances(instance.site), switched.resources(instance.site)) == before


def test_releasing_a_site_keeps_instances_of_other_sites(switched, instance):
    other = switched.sites()[1].name
    (kept,) = switched.allocate(other, ResourceRequest(1))
    for _ in range(2):
        switched.release(instance.site)
        assert switched.instances(instance.site) == ()
    assert switched.instances(other) == (kept,)
    assert switched.run(kept.name, ["true"]).status == 0
    user_error(lambda: switched.run(instance.name, ["true"]))
    user_error(lambda: switched.mirror(instance, instance.receivers[0], switched.sites()[0].ports[0].name, "both"))
    assert switched.allocate(instance.site, ResourceRequest(1)) == (instance,)
    switched.release(other)


def test_mirror_needs_a_known_receiver_port_and_direction(switched, instance):
    receiver, port = instance.receivers[0], switched.sites()[0].ports[0].name
    user_error(lambda: switched.mirror(instance, "none", port, "both"))
    user_error(lambda: switched.mirror(instance, receiver, "none", "both"))
    user_error(lambda: switched.mirror(instance, receiver, port, "sideways"))
    user_error(lambda: switched.mirror_capacity_bps(instance, "none"))
    capacity = switched.mirror_capacity_bps(instance, receiver)
    assert capacity is None or (type(capacity) is int and capacity > 0)


def test_mirror_moves_between_ports(switched, instance):
    receiver, ports = instance.receivers[0], switched.sites()[0].ports
    for port, direction in ((ports[0], "rx"), (ports[-1], "tx"), (ports[0], "both")):
        mirror = switched.mirror(instance, receiver, port.name, direction)
        assert (mirror.instance, mirror.interface) == (instance.name, receiver)
        mirror.start()
        mirror.stop()
        counted = mirror.counters()
        frames = (counted.offered_frames, counted.delivered_frames)
        assert frames == (None, None) or frames[0] >= frames[1] >= 0


def test_program_runs_on_an_instance(switched, instance):
    argv = ["sh", "-c", 'cat; echo "it\'s" bad >&2; exit 3']
    done = switched.run(instance.name, argv, stdin="given\n", timeout_s=TIMEOUT_S)
    assert (done.status, done.stdout, done.stderr.strip()) == (3, "given\n", "it's bad")
    user_error(lambda: switched.run(instance.name, ["sleep", "30"], timeout_s=0.3))


def test_job_receives_signals_and_reports_its_exit_status(switched, instance):
    script = "trap 'echo interrupted >&2; exit 7' INT; echo ready >&2; while :; do sleep 0.05; done"
    job = switched.start(instance.name, ["sh", "-c", script])
    wait_until(lambda: "ready" in job.log())
    assert job.poll() is None
    job.signal("INT")
    assert job.wait(TIMEOUT_S) == 7 == job.poll()
    assert job.log() == "ready\ninterrupted\n"
    job.signal("INT")  # no effect after its end


def test_fetching_a_missing_file_creates_nothing(switched, instance, tmp_path):
    user_error(lambda: switched.fetch(instance.name, "none", tmp_path / "raw" / "none.pcap"))
    assert not (tmp_path / "raw").exists() or list((tmp_path / "raw").iterdir()) == []


def test_fetched_file_is_complete(switched, instance, tmp_path):
    data = bytes(range(256)) * 4000
    script = "i=0; while [ $i -lt 4000 ]; do " + "printf '" + "".join(f"\\{n:03o}" for n in range(256)) + "'; "
    script = script.replace("\\045", "%%") + "i=$((i+1)); done"
    assert switched.start(instance.name, ["sh", "-c", script], output="a.pcap").wait(TIMEOUT_S) == 0
    switched.fetch(instance.name, "a.pcap", tmp_path / "raw" / "a.pcap")
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["a.pcap"]
    assert (tmp_path / "raw" / "a.pcap").read_bytes() == data
    there = switched.path_on_node(instance.name, "a.pcap")  # it is deleted only after checksums are compared
    assert switched.run(instance.name, ["test", "-f", there]).status == 0


def test_uploaded_file_is_complete_and_executable(switched, instance, tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\necho $1 $0\n")
    for _ in range(2):
        switched.put(instance.name, tmp_path / "script", "program")
        there = switched.path_on_node(instance.name, "program")
        there = there if "/" in there else f"./{there}"
        done = switched.run(instance.name, [there, "once"], timeout_s=TIMEOUT_S)
        assert (done.status, done.stdout) == (0, f"once {there}\n")
    assert switched.run(instance.name, ["stat", "-c", "%a", there]).stdout == "700\n"
    user_error(lambda: switched.put("missing", tmp_path / "script", "program"))
    user_error(lambda: switched.put(instance.name, tmp_path / "none", "program"))


def test_lease_can_be_extended(switched, instance):
    switched.extend(instance.site, time.time_ns() + 3600 * 10**9)
    assert switched.instances(instance.site) == (instance,)


def test_traffic_of_both_spans_runs(testbed):
    with testbed.traffic("run", 1), testbed.traffic("sample", 0.1):
        pass
    assert all(isinstance(note, str) and "\n" not in note for note in testbed.notes())
