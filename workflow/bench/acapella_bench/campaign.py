"""Measures losses in a campaign on the local testbed: three sites, at least eight ports each, overloaded mirrors.

A sample is accounted for if every frame that the mirror delivered was received by the capture program, and is either
in the file or counted as dropped.
"""

import csv
import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from .programs import Bench, Failed, acapella

SITES, HOSTS = 3, 7  # one port per host, and one or two uplinks
SAMPLE_S, PERIOD_S = 2, 10
MIRROR_MBPS = 30  # less than the rate of uplinks, more than the rate of host ports
POLL_S = 1.0
END_S = 600  # in addition to the duration of the campaign


def run(bench: Bench) -> list[dict]:
    """Run the campaign. Return rows on samples, their losses, sites, and leftover processes."""
    seconds = bench.scale["campaign_s"]
    directory = bench.directory / "campaign" / "c"
    config = directory.with_name("config.yaml")
    config.parent.mkdir()
    config.write_text(yaml.safe_dump(settings(seconds)), encoding="utf-8")
    status, seen = run_watched(acapella("collect", directory, "--config", config), seconds + END_S)
    if status != 0:
        raise Failed(f"acapella collect exited with {status}")
    manifests = [json.loads(path.read_text(encoding="utf-8")) for path in (directory / "raw").glob("*.json")]
    return [*rows_of(manifests), *rows_of_sites(directory), processes_left(seen)]


def settings(seconds: float) -> dict:
    """Return the configuration of the campaign."""
    return {
        "testbed": "local",
        "capture": {"sample_s": SAMPLE_S},
        "collect": {"sample_period_s": PERIOD_S, "total_s": seconds, "compress": True},
        "local": {"switch": "ovs", "sites": SITES, "hosts_per_site": HOSTS, "mirror_rate_mbps": MIRROR_MBPS},
    }


def rows_of(manifests: list[dict]) -> list[dict]:
    """Return the rows on all samples. Raises Failed if there are none."""
    if not manifests:
        raise Failed("no sample")
    unaccounted = [manifest["sample"] for manifest in manifests if not accounted(manifest)]
    overloaded = [manifest for manifest in manifests if true_loss(manifest) > 0]
    judged = [manifest for manifest in manifests if manifest["congestion"]["verdict"] != "unknown"]
    outside = [
        m for m in judged if not m["congestion"]["loss"]["low"] <= true_loss(m) <= m["congestion"]["loss"]["high"]
    ]
    passed = sum(m["congestion"]["offered_bps"] * m["congestion"]["seconds"] / 8 for m in judged)
    return [
        {"measured": "samples", "value": len(manifests), "unit": "samples"},
        {"measured": "cycles", "value": max(manifest["cycle"] for manifest in manifests), "goal": ">= 2"},
        {
            "measured": "unaccounted",
            "value": len(unaccounted),
            "unit": "samples",
            "goal": "0",
            "note": ", ".join(unaccounted[:3]),
        },
        {"measured": "mirror lost frames", "value": len(overloaded), "unit": "samples", "goal": ">= 1"},
        {"measured": "kernel dropped", "value": sum(m["dropped_kernel"] for m in manifests), "unit": "frames"},
        {
            "measured": "offered to mirrors",
            "value": 100 * sum(m["mirror"]["offered_bytes"] for m in judged) / passed if passed else None,
            "unit": "% of the bytes of their ports",
            "note": "a mirror copies for a slightly shorter time than the port is counted",
        },
        {
            "measured": "loss outside of its bounds",
            "value": len(outside),
            "unit": "samples",
            "goal": "0",
            "note": f"of {len(judged)} judged by the counters alone; the benchmark congestion has the final verdicts",
        },
    ]


def accounted(manifest: dict) -> bool:
    """Return whether every frame that the mirror delivered is in the capture or counted as lost."""
    delivered, received = manifest["mirror"]["delivered_frames"], manifest["frames_received"]
    return delivered == received == manifest["frames_captured"] + manifest["dropped_kernel"]


def true_loss(manifest: dict) -> float:
    """Return the share of the bytes offered to a mirror that it did not deliver."""
    offered, delivered = manifest["mirror"]["offered_bytes"], manifest["mirror"]["delivered_bytes"]
    return 1 - delivered / offered if offered else 0.0


def rows_of_sites(directory: Path) -> Iterator[dict]:
    """Yield the outcome of each site."""
    with (directory / "outcomes.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield {"measured": row["site"], "value": row["outcome"], "note": row["reason"]}


def namespaces_of(pids: Iterable[int]) -> set[str]:
    """Return the network and PID namespaces of processes. Processes that cannot be read are skipped."""
    found = set()
    for pid in pids:
        for kind in ("net", "pid"):
            with suppress(OSError):
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
    return found


def descendants(root: int) -> set[int]:
    """Return the ids of a process and all its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def run_watched(argv: list, timeout_s: float) -> tuple[int, set[str]]:
    """Run a command until it ends or the timeout expires.

    Return its exit status, and the namespaces of its processes except those of this process.
    """
    seen: set[str] = set()
    own_namespaces = namespaces_of([os.getpid()])
    end = time.monotonic() + timeout_s
    with subprocess.Popen([str(word) for word in argv], stdout=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and time.monotonic() < end:
                seen |= namespaces_of(descendants(process.pid)) - own_namespaces
                time.sleep(POLL_S)
        finally:
            process.terminate()
    return process.returncode, seen


def processes_left(seen: set[str]) -> dict:
    """Return a row with the number of processes that are still in one of the campaign's namespaces."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    remaining = [pid for pid in pids if namespaces_of([pid]) & seen]
    note = f"of {len(seen)} namespaces"
    return {"measured": "processes left", "value": len(remaining), "unit": "processes", "goal": "0", "note": note}
