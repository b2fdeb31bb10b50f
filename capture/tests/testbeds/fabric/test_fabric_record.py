"""Recorded answers of FABRIC contain no token, name or address."""

import json

import pytest
from acapella_testing.fabric.orchestrator import PROJECT

from acapella_capture.testbeds.fabric import record
from acapella_core.errors import UserError


def recorded(fabric, directory, slice_name=None) -> dict[str, dict]:
    paths = record.record(directory, str(fabric.directory / "fabric_rc"), fabric.orchestrator.url, slice_name)
    return {path.stem: json.loads(path.read_text()) for path in paths}


def test_answers_are_recorded_without_tokens_names_and_addresses(fabric, tmp_path):
    token = fabric.give_token()
    with fabric.allocated("UTAH", "secret"):
        (stored,) = fabric.orchestrator.alive()
        answers = recorded(fabric, tmp_path / "answers", "acapella-secret-UTAH")
        assert fabric.orchestrator.modifications() == 0
    assert {name: answer["status"] for name, answer in answers.items()} == {
        "token": 200, "resources": 200, "slices": 200, "no-slice": 404, "slice": 200, "slivers": 200, "counters": 200,
    }  # fmt: skip
    text = "\n".join(path.read_text() for path in (tmp_path / "answers").iterdir())
    private = (token, "e@x", PROJECT, stored.slice_id, "acapella-secret", "127.0.0.1", '"02:')
    assert [each for each in private if each in text] == []
    assert answers["token"]["body"]["token"]["projects"][0]["tags"] == list(fabric.orchestrator.tags)
    assert "utah-w1.fabric-testbed.net" in [host["name"] for host in answers["resources"]["body"]["data"][0]["hosts"]]
    assert answers["counters"]["body"]["data"]["result"][0]["metric"]["ifName"] == "HundredGigE0/0/0/5"


def test_equal_values_have_equal_placeholders():
    scrubber = record.Scrubber()
    value = {"ip": "10.0.0.1 and 2001:db8::1", "other": ["10.0.0.1", "fe80::1/64"], "name": "Ann", "count": 3}
    assert scrubber.scrub(value, named=True) == {
        "ip": "(ipv4-1) and (ipv6-1)", "other": ["(ipv4-1)", "(ipv6-2)"], "name": "(name-1)", "count": 3,
    }  # fmt: skip
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH me@host"
    assert scrubber.scrub({"k": key, "mac": "02:00:00:00:00:01"}) == {"k": "(key-1)", "mac": "(mac-1)"}
    times = "2026-11-27 08:30:00 +0000 HundredGigE0/0/0/15.3370"
    assert scrubber.text(times) == times


def test_unknown_slice_is_an_error(fabric, tmp_path):
    with pytest.raises(UserError, match="--slice: no slice 'none'"):
        recorded(fabric, tmp_path / "answers", "none")
