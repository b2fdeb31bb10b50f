"""Slices of the local testbed on Open vSwitch: defaults, valid configs, and ports of a slice."""

import pytest

from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.local.testbed import LocalTestbed
from acapella_core.errors import UserError

ALPHA = {"name": "alpha", "hosts": [1, 2], "encapsulation": "mpls2"}
BETA = {"name": "beta", "hosts": [3], "sites": [1, 2], "encapsulation": "pseudowire"}
SHARED_PATH = {"model": "model.yaml", "environments": [{"name": "x", "path": "shared"}]}


def testbed(**local) -> LocalTestbed:
    """Return a testbed without allocating it."""
    given = {"switch": "ovs", "sites": 3, "hosts_per_site": 3, "traffic": []} | local
    return LocalTestbed(parse_settings({"testbed": "local", "local": given}).local)


testbed.__test__ = False


def slices(created: LocalTestbed, site: str) -> dict[str, tuple[str, ...]]:
    return {port.name: port.slices for port in created.site(site).ports}


def test_default_slices_with_several_sites_have_one_host_number_each():
    found = slices(testbed(), "site2")
    every = ("slice1", "slice2", "slice3")
    hosts = {f"port{number}": (name,) for number, name in enumerate(every, start=1)}
    assert found == hosts | {"uplink-site1": every, "uplink-site3": every}
    kinds = [each.encapsulation for each in testbed(hosts_per_site=5).network.slices]
    assert kinds == ["vlan", "mpls", "mpls2", "pseudowire", "vlan"]


def test_default_slices_at_one_site_have_two_or_three_hosts():
    assert [each.hosts for each in testbed(sites=1, hosts_per_site=5).network.slices] == [(1, 2), (3, 4, 5)]
    assert [each.hosts for each in testbed(sites=1, hosts_per_site=2).network.slices] == [(1, 2)]


def test_slice_uses_only_ports_between_its_sites():
    created = testbed(slices=[ALPHA, BETA])
    assert slices(created, "site2")["uplink-site1"] == ("alpha", "beta")
    assert slices(created, "site2")["uplink-site3"] == ("alpha",)
    assert slices(created, "site3")["port3"] == ()


@pytest.mark.parametrize("named", [{}, {"client": "site2-host3"}, {"server": "site1-host2"}])
def test_traffic_goes_between_hosts_of_the_same_slice(named):
    created = testbed(slices=[ALPHA, BETA], traffic=[{"kind": "ping"} | named] * 12)
    assert all(item.client != item.server for item in created._items)
    assert all(created.network.connected(item.client, item.server) for item in created._items)
    assert all({role: getattr(item, role).name for role in named} == named for item in created._items)


@pytest.mark.parametrize(
    ("local", "complaint"),
    [
        ({"slices": [ALPHA, BETA | {"name": "alpha"}]}, r"local.slices\[1\]: duplicate slice name 'alpha'"),
        ({"slices": [ALPHA, BETA | {"hosts": [2]}]}, r"local.slices\[1\]: site1-host2 is already in slice 'alpha'"),
        ({"slices": [ALPHA | {"hosts": [9]}]}, r"local.slices\[0\]: no host site1-host9"),
        ({"switch": "bridge", "slices": [ALPHA]}, "local.slices: kernel bridges have no slices; local.switch: ovs"),
        ({"traffic": [{"kind": "ping", "client": "site1-host1", "server": "site2-host2"}]}, "not in the same slice"),
        (
            {"slices": [ALPHA | {"encapsulation": "pseudowire"}], "replay": {}},
            "local.replay: site1-host1 and site2-host1 must be in the same slice, which must not be a pseudowire",
        ),
        (
            {"slices": [ALPHA | {"hosts": [2]}], "generate": SHARED_PATH},
            "local.generate: not supported by Open vSwitch; local.switch: bridge",
        ),
    ],
)
def test_invalid_slices_are_errors_in_one_line(local, complaint):
    with pytest.raises(UserError, match=complaint) as raised:
        testbed(**local)
    assert "\n" not in str(raised.value)
