"""Config keys of collect: defaults are read from the schema, errors name their key."""

from pathlib import Path

import pytest
from acapella_testing.new_files import write_file

from acapella_capture.plan.samples import sites_to_sample
from acapella_capture.settings import parse_settings, read_settings
from acapella_capture.testbeds.local.testbed import LocalTestbed
from acapella_core.errors import UserError


def test_missing_keys_have_defaults():
    settings = parse_settings({"testbed": "local"})
    assert (settings.runs, settings.capture.snaplen, settings.capture.buffer_kib) == (1, 200, 32768)
    assert {item["kind"] for item in settings.local.traffic} == {
        "iperf3_tcp", "iperf3_udp", "http", "https", "dns", "ping", "ssh", "refused", "unreachable",
    }  # fmt: skip


def test_defaults_apply_within_a_line_of_the_traffic_plan():
    item = parse_settings({"testbed": "local", "local": {"traffic": [{"kind": "dns"}]}}).local.traffic[0]
    assert item["ip"] == 4
    assert item["span"] == "sample"
    assert item["client"] is None


def test_default_p4_program_is_found_from_any_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = Path(parse_settings({"testbed": "local", "capture": {"method": "fpga"}}).capture.p4_program)
    assert program.is_file()
    assert program.parts[-3:] == ("p4", "spec", "preprocess.spec")
    with pytest.raises(UserError, match=r"capture\.p4_program: no file mine\.spec"):
        parse_settings({"testbed": "local", "capture": {"method": "fpga", "p4_program": "mine.spec"}})


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
        ({"collect": {"mode": "slice"}}, "collect.slice"),
        ({"testbed": "files", "samples": "x", "collect": {"digest_on": "node"}}, "collect.digest_on"),
        (
            {"testbed": "local", "collect": {"digest_on": "node"}, "local": {"replay": {}}},
            "collect.digest_on: node: the trials of local.replay need their captures",
        ),
        ({"collect": {"busiest_every": 1}}, "collect.busiest_every"),
        ({"capture": {"one_in": 10}}, "capture.one_in"),
        (
            {"capture": {"method": "dpkd"}},
            "capture.method: expected tcpdump, dpdk, fpga, or a mapping of keys to values, found 'dpkd'; did you mean",
        ),
        ({"capture": {"method": {"site2": "dpdk"}}}, "capture.method"),
        (
            {"capture": {"method": {"default": "dpdk", "site2": "windump"}}},
            "capture.method.site2: expected tcpdump, dpdk or fpga, found 'windump'",
        ),
        ({"capture": {"method": {"default": "tcpdump", "site2": "dpdk"}, "one_in": 2}}, "capture.one_in"),
        ({"fabric": {"nics": ["NIC_Basic"]}}, "fabric.nics[0]"),
        ({"capture": {"filter": "-w/tmp/elsewhere"}}, "capture.filter"),
        ({"capture": {"filter": " -r/etc/passwd"}}, "capture.filter"),
    ],
)
def test_config_error_names_its_key(config, key):
    with pytest.raises(UserError) as raised:
        parse_settings({"testbed": "local"} | config)
    assert key in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [", "not YAML"),
        ("a: 1\na: 2\n", "key 'a' occurs twice, in lines 1 and 2"),
        ("- a\n", "not a mapping"),
        (None, "cannot read: No such file"),
        ("testbed: local\nsampels: 3\n", "sampels: unknown key; did you mean samples?"),  # codespell:ignore
        ("testbed: local\nfigures: {widht: 3}\n", "figures.widht: unknown key"),  # codespell:ignore
        ("3: {}\n", "3: unknown key"),
    ],
)
def test_invalid_config_file_is_an_error(tmp_path, text, what):
    path = tmp_path / "config.yaml" if text is None else write_file(tmp_path / "config.yaml", text)
    with pytest.raises(UserError) as raised:
        read_settings(path)
    assert what in str(raised.value)
    assert "\n" not in str(raised.value)


def test_node_method_overrides_site_method_and_default():
    method = {"default": "tcpdump", "site2": "dpdk", "site2-listener1": "tcpdump", "site1-listener2": "dpdk"}
    capture = parse_settings({"testbed": "local", "capture": {"method": method}}).capture
    assert [
        capture.for_node(site, f"{site}-listener{number}").method for site in ("site1", "site2") for number in (1, 2)
    ] == ["tcpdump", "dpdk", "tcpdump", "dpdk"]
    assert parse_settings({"testbed": "local"}).capture.for_node("site1", "site1-listener").method == "tcpdump"


@pytest.mark.parametrize(
    ("name", "what"),
    [("site3", "did you mean site"), ("sit1-listener2", "did you mean site1"), ("X", "known: site1")],
)
def test_method_of_an_unknown_site_suggests_known_sites(name, what):
    with pytest.raises(UserError, match=f"capture.method: no site or listening node {name!r}; {what}"):
        sites_with_dpdk_at(name)


@pytest.mark.parametrize("name", ["site1", "site2-listener", "site2-listener3"])
def test_method_of_a_known_site_or_node_is_accepted(name):
    assert sites_with_dpdk_at(name) == ["site1", "site2"]


def sites_with_dpdk_at(name: str) -> list[str]:
    """Return the names of the sites to sample if the method of one site or node is dpdk."""
    settings = parse_settings({"testbed": "local", "capture": {"method": {"default": "tcpdump", name: "dpdk"}}})
    return [site.name for site in sites_to_sample(settings, LocalTestbed(settings.local).sites())]


def test_unknown_host_in_the_traffic_plan_is_an_error():
    settings = parse_settings({"testbed": "local", "local": {"traffic": [{"kind": "dns", "server": "site9-host1"}]}})
    with pytest.raises(UserError, match=r"local.traffic\[0\].server: no host 'site9-host1'; known: site1-host1"):
        LocalTestbed(settings.local)


def replay_of(**replay):
    return parse_settings({"testbed": "local", "local": {"replay": replay}}).local.replay


def test_environments_of_replays_have_defaults_and_abbreviations():
    quiet, loaded, own = replay_of(environments=["quiet", "loaded", {"name": "x", "sender": "acapella"}]).environments
    assert (quiet.name, quiet.noise, quiet.path, quiet.replayers, quiet.speed) == ("quiet", False, "shared", 1, 1)
    assert (loaded.name, loaded.noise) == ("loaded", True)
    assert (own.sender, quiet.sender) == ("acapella", "tcpreplay")
    assert [each.sender for each in replay_of(sender="acapella").environments] == ["acapella", "acapella"]


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ("noisy", r"local\.replay\.environments\[1\]: expected quiet, loaded, or a mapping .* 'noisy'"),
        ({"path": "direct"}, r"local\.replay\.environments\[1\]\.name: missing"),
        ({"name": "a/b"}, r"local\.replay\.environments\[1\]\.name: expected a name .* 'a/b'"),
        ({"name": "x", "path": "own"}, r"local\.replay\.environments\[1\]\.path: expected .*, found 'own'"),
        (
            {"name": "x", "speed": 0},
            r"local\.replay\.environments\[1\]\.speed: expected a number from 0\.001 to 1000, found 0",
        ),
        ({"name": "quiet"}, r"local\.replay\.environments\[1\]\.name: 'quiet' occurs twice"),
        ({"name": "x", "replayers": 2}, r"environments\[1\]\.replayers: tcpreplay cannot start at an absolute time"),
    ],
)
def test_invalid_environment_of_replays_is_an_error_that_names_its_key(environment, complaint):
    with pytest.raises(UserError, match=complaint):
        replay_of(environments=["quiet", environment])


def fabric_replay_of(**replay):
    senders = [{"node": "n", "interface": f"eth{number}", "destination_mac": "02:00:00:00:00:01"} for number in (1, 2)]
    wanted = {"slice": "s", "senders": senders, "site": "STAR", "port": "p"} | replay
    return parse_settings({"testbed": "fabric", "fabric": {"replay": wanted}}).fabric.replay


def test_environments_of_fabric_use_all_senders_by_default():
    (path,) = fabric_replay_of().environments
    assert (path.name, path.replayers, path.speed) == ("path", 2, 1)
    found = fabric_replay_of(environments=[{"name": "one", "replayers": 1}, {"name": "two", "speed": 0.5}])
    assert [[sender.interface for sender in each.senders(found)] for each in found.environments] == [
        ["eth1"],
        ["eth1", "eth2"],
    ]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"environments": [{"name": "a"}, {"name": "a", "speed": 2}]}, r"environments\[1\]\.name: 'a' occurs twice"),
        (
            {"environments": [{"name": "a", "replayers": 3}]},
            r"environments\[0\]\.replayers: 3 is more than the number of fabric\.replay\.senders",
        ),
        (
            {
                "senders": [
                    {"node": "n", "interface": "eth1", "destination_mac": f"02:00:00:00:00:0{n}"} for n in (1, 2)
                ]
            },
            r"senders\[1\]: 'n eth1' occurs twice",
        ),
        ({"senders": []}, r"senders: "),
    ],
)
def test_invalid_replay_on_fabric_is_an_error_that_names_its_key(changes, complaint):
    with pytest.raises(UserError, match=rf"fabric\.replay\.{complaint}"):
        fabric_replay_of(**changes)


@pytest.mark.parametrize("keys", [{"path": "dedicated"}, {"replayers": 2}])
def test_open_vswitch_has_only_the_shared_path_and_one_replayer(keys):
    replay = {"sender": "acapella", "environments": [{"name": "x", **keys}]}
    with pytest.raises(UserError, match=r"environment x: .* not supported by Open vSwitch; local\.switch: bridge"):
        LocalTestbed(parse_settings({"testbed": "local", "local": {"switch": "ovs", "replay": replay}}).local)
