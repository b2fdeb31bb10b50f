"""Config errors are reported before a testbed is built or queried, in dry runs and collections."""

import shutil

import pytest
import yaml
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_built
from acapella_testing.runs.in_process import parsed
from acapella_testing.source_tree import ROOT

from acapella_capture import collect, precheck
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric import requirements
from acapella_core.errors import UserError

ANONYMIZED = {"anonymize": True, "key_file": "/nowhere/campaign.key"}


def dry_run(directory, **keys):
    """Run `acapella collect --dry-run` for testbed local with these keys."""
    path = write_file(directory / "config.yaml", yaml.safe_dump({"testbed": "local"} | keys))
    return collect.run(parsed(collect, directory / "c", "--config", path, "--dry-run"))


def test_dry_run_checks_the_sample_sheet_and_the_captures(tmp_path, capsys):
    sheet = write_file(tmp_path / "s.tsv", "site port file\n")
    with pytest.raises(UserError, match=r"s\.tsv line 1: no tabs between the columns"):
        dry_run(tmp_path, testbed="files", samples=str(sheet))
    sheet.write_text(f"site\tport\tfile\nA\tp1\t{sheet}\nA\tp2\tnone.pcap\n")
    dry_run(tmp_path, testbed="files", samples=str(sheet))
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"testbed files: 2 samples in {sheet}; captures are not copied"
    assert second == f"sample none will fail: {tmp_path}/none.pcap: no such file"


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"collect": {"port_selection": "quietst"}}, "collect.port_selection: no port selection 'quietst'; known:"),
        ({"collect": {"port_selection": "fixed"}}, "collect.ports: no port specified"),
        ({"collect": {"mode": "sites", "sites": ["site9"]}}, "collect.sites: no site 'site9'; known: site1, site2"),
        ({"collect": {"mode": "slice", "slice": "x"}}, "collect.slice: slice 'x' uses no port"),
        ({"preprocess": ANONYMIZED}, "preprocess.key_file: cannot read /nowhere/campaign.key: No such file"),
        ({"local": {"replay": {"capture": "/nowhere.pcap"}}}, "local.replay.capture: cannot read /nowhere.pcap"),
        (
            {"local": {"switch": "ovs", "slices": [{"name": "a", "hosts": [3], "encapsulation": "vlan"}]}},
            "local.slices[0]: no host site1-host3",
        ),
        *(
            pytest.param(
                {"capture": {"filter": text}},
                f"capture.filter: {text!r}: {why}",
                marks=pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed"),
            )
            for text, why in (("tpc port 80", "can't parse"), ("port 99999", "illegal port"))
        ),
    ],
)
def test_dry_run_reports_the_config_errors_of_a_collection(tmp_path, keys, what):
    with pytest.raises(UserError) as raised:
        dry_run(tmp_path, **keys)
    assert str(raised.value).startswith(what)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("program", "wrong", "why", "right"),
    [
        (
            "spec/preprocess.spec",
            "# half of the flows\nregister sample_flows_below 0 4294967297\n",
            "sample_flows_below 4294967297; from 0 to 4294967296",
            "register sample_flows_below 0 2147483648\n",
        ),
        (
            "loader/tests/forward.spec",
            "# one\nregister nope 0 1\n",
            "nope: the program has no such register",
            "table exact add match 0x0806 action drop_for 3\n",
        ),
    ],
    ids=["value", "register"],
)
def test_dry_run_rejects_a_control_file_that_does_not_match_its_program(tmp_path, program, wrong, why, right):
    if program.startswith("loader"):
        require_built(precheck.LOADER)
    control = write_file(tmp_path / "control.txt", wrong)
    capture = {"method": {"default": "tcpdump", "site2": "fpga"}, "p4_control": str(control)}
    capture |= {"p4_program": str(ROOT / "p4" / program)}
    with pytest.raises(UserError) as raised:
        dry_run(tmp_path, capture=capture)
    assert str(raised.value).startswith(f"capture.p4_control: {control}:2: {why}")
    assert "\n" not in str(raised.value)
    assert dry_run(tmp_path, capture=capture | {"method": "tcpdump"}) is None, "not used"
    write_file(control, right)
    assert dry_run(tmp_path, capture=capture) is None


def test_dry_run_rejects_an_invalid_p4_program(tmp_path):
    require_built(precheck.LOADER)
    bad = write_file(tmp_path / "bad.spec", "no program\n")
    with pytest.raises(UserError, match=r"^capture\.p4_program: .*bad\.spec"):
        dry_run(tmp_path, capture={"method": "fpga", "p4_program": str(bad)})


def test_dry_run_prints_the_plan_of_a_valid_config(tmp_path, capsys):
    assert dry_run(tmp_path, capture={"filter": "vlan and tcp"}, collect={"port_selection": "busiest"}) is None
    assert "port selection busiest" in capsys.readouterr().out


def test_precheck_ignores_files_and_host_names_of_remote_nodes():
    keys = {"preprocess": ANONYMIZED | {"program": "/opt/acapella"}, "capture": {"filter": "host nowhere.example"}}
    precheck.check(parse_settings({"testbed": "fabric"} | keys))


def test_missing_fabric_client_is_listed(monkeypatch):
    monkeypatch.setattr(requirements, "CLIENT", "no_such_client_of_fabric")
    lacking = "missing: FABRIC's client: make setup-fabric"
    arguments = (parse_settings({"testbed": "fabric"}).fabric, "STAR", 1, ResourceRequest(1))
    assert lacking in requirements.describe(*arguments)
    monkeypatch.setattr(requirements, "CLIENT", "json")
    assert lacking not in requirements.describe(*arguments)
