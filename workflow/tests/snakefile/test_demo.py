"""Runs a reduced demo: one site instead of two, one sample of one second per port, few kinds of traffic."""

import json

from acapella_testing.requirements import require_namespaces
from acapella_testing.runs.workflow_run import Workplace

SHORT = {
    "testbed": "local",
    "samples": None,
    "capture": {"sample_s": 1, "samples_per_port": 1},
    "local": {
        "sites": 1,
        "hosts_per_site": 2,
        "traffic": [{"kind": "iperf3_tcp", "rate_mbps": 5}, {"kind": "ping", "ip": 6}, {"kind": "dns"}],
    },
}


def test_real_traffic_on_mirrored_ports_is_reported(tmp_path):
    require_namespaces()
    place = Workplace(tmp_path)
    place.configure(**SHORT)
    assert "2 samples: " in place.succeed("--cores", "2"), "the output of collect is printed immediately"
    manifests = [json.loads(path.read_text()) for path in sorted((place.campaign / "raw").glob("*.json"))]
    assert [manifest["testbed"] for manifest in manifests] == ["local", "local"]
    assert all(manifest["frames_captured"] > 0 for manifest in manifests)
    stacks = (place.campaign / "tables" / "header_occurrence.csv").read_text()
    assert [header for header in ("TCP", "UDP", "ICMPv6") if f'"{header}"' not in stacks] == []
    assert (place.campaign / "report.html").stat().st_size > 0
    assert "Nothing to be done" in place.succeed()
