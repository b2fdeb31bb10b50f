"""Collects samples of overloaded and idle mirrors on the local testbed. Its switch counts the losses of each mirror."""

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from .programs import Failed, acapella

SITES, HOSTS = 4, 6
SAMPLE_S, PERIOD_S = 4, 6
SHAPES = ("smooth", "bursty", "tcp", "udp-bursts")
FAN_IN = "fan-in"  # 2 to 4 hosts that send to one host
FAN_IN_SITES = 2  # per campaign
# Hosts of a site: one receiver and its senders.
FAN_INS = (((1, 2, 3), (4, 5, 6)), ((1, 2, 3, 4), (5, 6)), ((1, 2, 3, 4, 5),))
END_S = 240  # in addition to the duration of the samples
# Rates of ports and mirrors, Mbit/s: ports are 10, 2, 0.4 and 4 times as fast as the mirror.
RATES = ((100, 10), (20, 10), (8, 20), (40, 10))
REQUESTS_PER_S = 5
BURST_FRAMES = (20, 60, 120)  # UDP frames: less than the queue of 96 KiB, as much, and more
COUNTERS_S = (1, 30)
MTUS = (1500, 1500, 1500, 1500, 1500, 9000)


@dataclass(frozen=True)
class Plan:
    """One campaign. Its number selects rates, counters and MTU; the seed determines the traffic."""

    number: int
    seed: int

    @property
    def counters_s(self) -> int:
        """Return the interval of the switch's counters in seconds."""
        return COUNTERS_S[self.number % len(COUNTERS_S)]

    @property
    def mtu(self) -> int:
        """Return the MTU of the links. UDP and TCP frames have this length."""
        return MTUS[self.number % len(MTUS)]


def collect(directory: Path, plan: Plan) -> list[Path]:
    """Collect one campaign with at least 24 ports; return the paths of the manifests.

    Raises Failed if the collection fails.
    """
    directory.mkdir(parents=True)
    config = directory.with_name(f"{directory.name}.yaml")
    config.write_text(yaml.safe_dump(settings(plan)), encoding="utf-8")
    command = [str(word) for word in acapella("collect", directory, "--config", config)]
    with directory.with_name(f"{directory.name}.log").open("w") as log:
        try:
            status = subprocess.run(
                command, check=False, stdout=log, stderr=log, timeout=HOSTS * PERIOD_S + END_S
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise Failed(f"acapella collect did not end; see {log.name}") from error
    manifests = sorted((directory / "raw").glob("*.json"))
    if status != 0 or not manifests:
        raise Failed(f"acapella collect exited with {status}; see {log.name}")
    return manifests


def settings(plan: Plan) -> dict:
    """Return the configuration of a campaign: pairs of hosts, or several senders and one receiver."""
    draw = random.Random(plan.seed * 1000 + plan.number)
    port_mbps, mirror_mbps = RATES[plan.number // len(COUNTERS_S) % len(RATES)]
    traffic = []
    for site in range(1, SITES + 1):
        if (site + plan.number) % SITES < FAN_IN_SITES:
            for hosts in draw.choice(FAN_INS):
                names = [f"site{site}-host{number}" for number in hosts]
                traffic += fan_in(draw, draw.choice(SHAPES), mirror_mbps, port_mbps, names)
            continue
        for pair in range(HOSTS // 2):
            shape = SHAPES[(site + pair + plan.number) % len(SHAPES)]
            load = draw.uniform(0.1, 0.5) if draw.random() < 0.5 else draw.uniform(0.5, 3.0)
            ends = f"site{site}-host{2 * pair + 1}", f"site{site}-host{2 * pair + 2}"
            traffic += lines(draw, shape, load * mirror_mbps, port_mbps, ends)
    path = {"path": "jumbo"} if plan.mtu > 1500 else {}
    return {
        "testbed": "local",
        "capture": {"sample_s": SAMPLE_S, "snaplen": 128},
        "collect": {
            "sample_period_s": PERIOD_S,
            "seed": plan.seed,
            "cycles": HOSTS,
            "port_selection": "all",
            "gather": "end",
            "telemetry_wait_s": plan.counters_s + 5,
        },
        "local": {
            "sites": SITES,
            "hosts_per_site": HOSTS,
            "port_rate_mbps": port_mbps,
            "mirror_rate_mbps": mirror_mbps,
            "mtu": plan.mtu,
            "counters_s": plan.counters_s,
            "telemetry": "switch",
            "traffic": [line | path for line in traffic],
        },
    }


def fan_in(draw: random.Random, shape: str, mirror_mbps: float, port_mbps: float, names: list[str]) -> list[dict]:
    """Return the traffic of several hosts to the first one. Its mean rate is below the rate of the receiver's port."""
    load = draw.uniform(0.1, 0.5) if draw.random() < 0.5 else draw.uniform(0.5, 3.0)
    receiver, senders = names[0], names[1:]
    sender_mbps = min(load * mirror_mbps, 0.9 * port_mbps) / len(senders)
    found = [line for sender in senders for line in lines(draw, shape, sender_mbps, port_mbps, (sender, receiver))]
    for line in found:
        if line["kind"] == "http":  # the server sends
            line |= {"client": line["server"], "server": line["client"]}
    return found


def lines(draw: random.Random, shape: str, rate_mbps: float, port_mbps: float, ends: tuple[str, str]) -> list[dict]:
    """Return the traffic of a pair of hosts. If the rate is too high for one direction, both carry half."""
    directions = 1 if rate_mbps <= 0.9 * port_mbps else 2
    one_way_mbps = min(rate_mbps / directions, 0.95 * port_mbps)
    span = draw.choice(("sample", "run"))
    found = []
    for client, server in (ends, ends[::-1])[:directions]:
        line = {"client": client, "server": server, "span": span}
        if shape == "smooth":
            found.append(line | {"kind": "iperf3_udp", "rate_mbps": one_way_mbps})
        elif shape == "udp-bursts":
            found.append(
                line | {"kind": "iperf3_udp", "rate_mbps": one_way_mbps, "burst_frames": draw.choice(BURST_FRAMES)}
            )
        elif shape == "tcp":
            found.append(line | {"kind": "iperf3_tcp", "rate_mbps": one_way_mbps, "streams": draw.choice((1, 1, 2, 4))})
        else:
            size_kib = max(1, round(one_way_mbps * 1e6 / 8 / 1024 / REQUESTS_PER_S))
            found.append(line | {"kind": "http", "size_kib": size_kib, "per_s": REQUESTS_PER_S})
    return found


def shape_of(manifest: dict, configured: dict) -> str:
    """Return the shape of the traffic that the sample's port carried."""
    number = int(manifest["port"].removeprefix("port")) if manifest["port"].startswith("port") else None
    name = f"{manifest['site']}-host{number}"
    port_lines = [line for line in configured["local"]["traffic"] if name in (line["client"], line["server"])]
    if len({frozenset((line["client"], line["server"])) for line in port_lines}) > 1:
        return FAN_IN
    shapes = {shape_of_line(line) for line in port_lines}
    return shapes.pop() if shapes else "uplink"


def shape_of_line(line: dict) -> str:
    """Return the shape of a line of traffic."""
    if line.get("burst_frames"):
        return "udp-bursts"
    return {"iperf3_udp": "smooth", "iperf3_tcp": "tcp", "http": "bursty"}[line["kind"]]


def true_loss(manifest: dict) -> float:
    """Return the share of the bytes offered to the mirror that it did not deliver."""
    mirror = manifest["mirror"]
    return max(0.0, 1 - mirror["delivered_bytes"] / mirror["offered_bytes"]) if mirror["offered_bytes"] else 0.0
