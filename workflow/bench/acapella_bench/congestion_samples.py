"""Samples of overloaded and idle mirrors on the local testbed, whose switch counts what each mirror lost."""

import random
import subprocess
from pathlib import Path

import yaml

from .programs import Failed, acapella

SITES, HOSTS = 4, 6
SAMPLE_S, PERIOD_S = 4, 6
SHAPES = ("smooth", "bursty", "tcp")
END_S = 240  # beyond the time of the samples themselves
# Rates of ports and mirrors, Mbit/s: ports much faster than the mirror, as fast, and slower than half of it.
RATES = ((100, 10), (20, 10), (8, 20), (40, 10))
REQUESTS_PER_S = 5


def collect(folder: Path, seed: int, counters_s: int) -> list[Path]:
    """Take one campaign of samples, two directions of 24 ports; return the paths of the manifests.

    Raises Failed if the collection fails.
    """
    folder.mkdir(parents=True)
    config = folder.with_name(f"{folder.name}.yaml")
    config.write_text(yaml.safe_dump(settings(seed, counters_s)), encoding="utf-8")
    command = [str(word) for word in acapella("collect", folder, "--config", config)]
    with folder.with_name(f"{folder.name}.log").open("w") as log:
        try:
            status = subprocess.run(
                command, check=False, stdout=log, stderr=log, timeout=HOSTS * PERIOD_S + END_S
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise Failed(f"acapella collect did not end; see {log.name}") from error
    manifests = sorted((folder / "raw").glob("*.json"))
    if status != 0 or not manifests:
        raise Failed(f"acapella collect ended with {status}; see {log.name}")
    return manifests


def settings(seed: int, counters_s: int) -> dict:
    """Return the configuration of a campaign: pairs of hosts, each with a shape and a load of its own."""
    draw = random.Random(seed)
    port_mbps, mirror_mbps = RATES[seed % len(RATES)]
    traffic = []
    for site in range(1, SITES + 1):
        for pair in range(HOSTS // 2):
            shape = SHAPES[(site + pair + seed) % len(SHAPES)]
            load = draw.uniform(0.1, 0.5) if draw.random() < 0.5 else draw.uniform(0.5, 3.0)
            ends = f"site{site}-host{2 * pair + 1}", f"site{site}-host{2 * pair + 2}"
            traffic += lines(draw, shape, load * mirror_mbps, port_mbps, ends)
    return {
        "testbed": "local",
        "capture": {"sample_s": SAMPLE_S, "snaplen": 128},
        "collect": {
            "sample_period_s": PERIOD_S,
            "seed": seed,
            "cycles": HOSTS,
            "port_selection": "all",
            "gather": "end",
            "telemetry_wait_s": counters_s + 5,
        },
        "local": {
            "sites": SITES,
            "hosts_per_site": HOSTS,
            "port_rate_mbps": port_mbps,
            "mirror_rate_mbps": mirror_mbps,
            "mtu": 1500,
            "counters_s": counters_s,
            "telemetry": "switch",
            "traffic": traffic,
        },
    }


def lines(draw: random.Random, shape: str, rate_mbps: float, port_mbps: float, ends: tuple[str, str]) -> list[dict]:
    """Return the traffic of a pair of hosts; what one direction cannot carry goes the other way too."""
    ways = 1 if rate_mbps <= 0.9 * port_mbps else 2
    each = min(rate_mbps / ways, 0.95 * port_mbps)
    span = draw.choice(("sample", "run"))
    found = []
    for client, server in (ends, ends[::-1])[:ways]:
        line = {"client": client, "server": server, "span": span}
        if shape == "smooth":
            found.append(line | {"kind": "iperf3_udp", "rate_mbps": each})
        elif shape == "tcp":
            found.append(line | {"kind": "iperf3_tcp", "rate_mbps": each, "streams": draw.choice((1, 1, 2, 4))})
        else:
            size_kib = max(1, round(each * 1e6 / 8 / 1024 / REQUESTS_PER_S))
            found.append(line | {"kind": "http", "size_kib": size_kib, "per_s": REQUESTS_PER_S})
    return found


def shape_of(manifest: dict, configured: dict) -> str:
    """Return the shape of the traffic that the sample's port carried."""
    number = int(manifest["port"].removeprefix("port")) if manifest["port"].startswith("port") else None
    name = f"{manifest['site']}-host{number}"
    kinds = {line["kind"] for line in configured["local"]["traffic"] if name in (line["client"], line["server"])}
    return {"iperf3_udp": "smooth", "iperf3_tcp": "tcp", "http": "bursty"}[kinds.pop()] if kinds else "uplink"


def true_loss(manifest: dict) -> float:
    """Return the share of the bytes that the mirror was offered and did not deliver."""
    mirror = manifest["mirror"]
    return max(0.0, 1 - mirror["delivered_bytes"] / mirror["offered_bytes"]) if mirror["offered_bytes"] else 0.0
