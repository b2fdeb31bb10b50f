"""The config keys of collect: defaults come from the schema, mistakes are named by their key."""

import pytest

from acapella_capture.plan import plan
from acapella_capture.settings import read_settings, settings_of
from acapella_capture.testbeds.base import Port, Site
from acapella_capture.testbeds.local import LocalTestbed
from acapella_core.errors import UserError


def test_defaults():
    settings = settings_of({"testbed": "local"})
    assert (settings.runs, settings.capture.snaplen, settings.capture.buffer_kib) == (1, 200, 32768)
    assert {item["kind"] for item in settings.local.traffic} == {
        "iperf3_tcp", "iperf3_udp", "http", "https", "dns", "ping", "ssh", "refused", "unreachable",
    }  # fmt: skip


def test_defaults_within_a_line_of_the_traffic_plan():
    item = settings_of({"testbed": "local", "local": {"traffic": [{"kind": "dns"}]}}).local.traffic[0]
    assert item["ip"] == 4 and item["span"] == "sample" and item["client"] is None


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"testbed": "cloud"}, "testbed"),
        ({"capture": {"snaplen": "long"}}, "capture.snaplen"),
        ({"capture": {"snaplem": 1}}, "snaplem"),
        ({"local": {"sites": 0}}, "local.sites"),
        ({"local": {"traffic": [{"kind": "smtp"}]}}, "local.traffic[0].kind"),
        ({"local": {"traffic": [{}]}}, "local.traffic[0]"),
        ({"testbed": "files", "samples": None}, "samples"),
        ({"capture": {"filter": "-w/tmp/elsewhere"}}, "capture.filter"),
        ({"capture": {"filter": " -r/etc/passwd"}}, "capture.filter"),
    ],
)
def test_a_mistake_is_named_by_its_key(config, key):
    with pytest.raises(UserError) as raised:
        settings_of({"testbed": "local"} | config)
    assert key in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "what"), [("a: [", "not YAML"), ("- a\n", "not a mapping"), (None, "cannot read: No such file")]
)
def test_config_that_is_no_config(tmp_path, text, what):
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_settings(path)
    assert what in str(raised.value)
    assert "\n" not in str(raised.value)


def test_host_that_is_not_in_the_plan():
    settings = settings_of({"testbed": "local", "local": {"traffic": [{"kind": "dns", "server": "site9-host1"}]}})
    with pytest.raises(UserError, match=r"local.traffic\[0\].server: no host 'site9-host1'; there are site1-host1"):
        LocalTestbed(settings.local)


def shots(settings, *sites):
    return [[(shot.sample, shot.port.name) for shot in moment] for moment in plan(settings, sites)]


def test_a_mirror_visits_every_port_before_any_port_again():
    settings = settings_of({"testbed": "local", "capture": {"samples_per_port": 2}})
    site = Site("S", (Port("p", None), Port("q", None)), ("n",))
    assert [moment[0][1] for moment in shots(settings, site)] == ["p", "q", "p", "q"]


def test_sites_are_sampled_side_by_side_and_the_smaller_one_ends_first():
    settings = settings_of({"testbed": "local", "capture": {"directions": ["rx", "tx"]}, "runs": 2})
    large = Site("L", (Port("p", None), Port("q", None)), ("n",))
    small = Site("M", (Port("p", None),), ("n",))
    moments = shots(settings, large, small)
    assert [len(moment) for moment in moments] == [2, 2, 1, 1] * 2
    names = [name for moment in moments for name, _ in moment]
    assert len(names) == len(set(names)) == 12
