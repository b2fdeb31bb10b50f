"""Failing traffic does not stop a campaign: samples are taken, and manifests list the failures.

test_local_traffic.py tests each kind of broken server or client.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from acapella_testing.capture.callers import AS_USER
from acapella_testing.processes import executable

from acapella_capture import manifest as manifests
from acapella_capture.testbeds.local import sandbox
from acapella_capture.testbeds.local.traffic import MAX_SILENT_SAMPLES

pytestmark = [AS_USER, pytest.mark.soak]
BROKEN = "#!/bin/sh\necho 'iperf3: error - broken on purpose' >&2\nexit 1\n"
TRAFFIC = [{"kind": "iperf3_tcp"}, {"kind": "iperf3_udp", "span": "run"}, {"kind": "ping"}]


@pytest.fixture(scope="module")
def broken(caller, open_directory):
    """Return a caller whose iperf3 fails."""
    program = executable(open_directory / "programs" / "iperf3", BROKEN)
    program.parent.chmod(0o755)
    return replace(caller, environment={**caller.environment, "PATH": f"{program.parent}:{sandbox.search_path()}"})


@pytest.fixture(scope="module")
def collected(broken, open_directory):
    """Run a collection with a broken iperf3; return the finished process and the samples' directory."""
    replay = {"repeats": 1} if shutil.which("tcpreplay", path=sandbox.search_path()) else None
    config = {"testbed": "local", "capture": {"sample_s": 0.2, "filter": "icmp"}}
    config["local"] = {"traffic": TRAFFIC, "replay": replay}
    done = broken.collect(open_directory / "faults", json.dumps(config))
    assert done.returncode == 0, done.stderr
    return done, open_directory / "faults" / "raw"


def sample_manifests(raw: Path) -> list[dict]:
    """Return the manifests of samples, without those of trials, in order of time."""
    found = [manifests.read(path) for path in raw.glob("run*.json")]
    return sorted(found, key=lambda manifest: manifest["actual"]["start_ns"])


def test_all_samples_are_taken(collected):
    assert len(sample_manifests(collected[1])) == 6
    assert sum(manifest["frames_captured"] for manifest in sample_manifests(collected[1])) > 0


def test_manifest_lists_started_and_failed_clients_with_reasons(collected):
    first, *_, last = [manifest["traffic"] for manifest in sample_manifests(collected[1])]
    assert [fact["kind"] for fact in first] == [item["kind"] for item in TRAFFIC]
    # sites that sample simultaneously share traffic, so it starts at most once per sample
    for facts, minimum, maximum in ((first, 1, 2), (last, 3, 6)):
        broken, ping = facts[0], facts[2]
        assert minimum <= ping["started"] <= maximum
        times = min(ping["started"], MAX_SILENT_SAMPLES)  # after that, it is skipped
        assert [(fact["started"], fact["failed"]) for fact in (broken, ping)] == [(times, times), (ping["started"], 0)]
        assert all("iperf3: error - broken on purpose" in fact["why"] for fact in facts[:2])
    assert (last[1]["started"], last[1]["failed"]) == (1, 1)
    assert last[2]["why"] is None


def test_each_failing_kind_is_noted_once_and_when_it_is_abandoned(collected):
    printed = collected[0].stdout
    failed = "traffic iperf3_tcp from site1-host1 to site2-host1 (10.10.2.1) failed: iperf3 does not listen on site2"
    assert printed.count(failed) == 1
    assert printed.count("skipped: 3 consecutive failures: iperf3 does not listen") == 1
    assert printed.count("iperf3_udp") == 1 and "ping" not in printed


@pytest.mark.skipif(shutil.which("tcpreplay", path=sandbox.search_path()) is None, reason="tcpreplay is not installed")
def test_loaded_trial_without_load_fails(collected):
    done, raw = collected
    assert (raw / "quiet-1.json").exists() and not (raw / "loaded-1.json").exists()
    failed = (raw / "failed.tsv").read_text().splitlines()
    why = "environment loaded: the load is not running: iperf3 does not listen"
    assert len(failed) == 2 and failed[1].startswith(f"loaded-1\tsite2\tport1\t{why}")
    assert f"warning: loaded-1 failed: {why}" in done.stderr
