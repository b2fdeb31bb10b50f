"""Manifests are validated against their schema when written and when read."""

import json

import pytest

from acapella_capture import manifest as manifests
from acapella_core import schemas
from acapella_core.errors import UserError

KNOWN = {
    "campaign": "c", "sample": "s", "testbed": "files", "site": "S", "port": "p", "method": "file", "file": "s.pcap",
    "sha256": "0" * 64, "bytes": 0,
}  # fmt: skip


def test_unknown_values_are_null_and_round_trip(tmp_path):
    manifest = manifests.empty() | KNOWN
    path = manifests.write(tmp_path, manifest)
    assert path.name == "s.json"
    assert manifests.read(path) == manifest
    assert set(schemas.json_schema("manifest")["properties"]) - set(manifest) == {
        *("environment", "trial", "traffic", "cycle", "receiver", "one_in", "ended_early", "congestion", "clock"),
        "watchdog",
        "node_digest",
        "storage",
        "captured_at",
        "nic",
        "one_in_by",
        "sampled_out",
        "p4",
        "dpdk",
        "replayed_frames",
        "replay",
        "generated",
        "restrictions",
    }
    assert manifest["mirror"] == dict.fromkeys(
        ("offered_frames", "delivered_frames", "offered_bytes", "delivered_bytes")
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sample", "../x"),
        ("file", "/etc/passwd"),
        ("frames_captured", -1),
        ("frames_captured", 1.5),
        ("requested", {"start_ns": 1.0e9 + 0.5, "end_ns": None}),
        ("direction", "in"),
        ("sha256", "ABC"),
        ("acapella_manifest", 2),
        ("trial", 0),
        ("environment", "quiet or not"),
        ("traffic", [{"kind": "ping"}]),
        ("extra", 1),
    ],
)
def test_invalid_value_is_rejected_when_writing_and_reading(tmp_path, key, value):
    manifest = manifests.empty() | KNOWN | {key: value}
    with pytest.raises(UserError, match=key):
        manifests.write(tmp_path, manifest)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "s.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=key):
        manifests.read(tmp_path / "s.json")


def test_invalid_or_missing_manifest_is_an_error(tmp_path):
    (tmp_path / "s.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        manifests.read(tmp_path / "s.json")
    with pytest.raises(UserError, match="cannot read: No such file"):
        manifests.read(tmp_path / "t.json")
