"""Inputs of the infrastructure study from a seed: an advertisement, a model of a site, slice records, and telemetry."""

import csv
import itertools
import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import networkx

START = datetime(2024, 2, 19, tzinfo=UTC)  # a Monday
NAMES = ("STAR", "UTAH", "TACC", "NCSA", "DALL", "SALT", "MASS", "MICH", "WASH", "LOSA", "KANS", "NEWY")
RATE = 100 * 10**9


@dataclass(frozen=True)
class Shape:
    """Size of generated inputs."""

    sites: int = 5
    ports: int = 3
    slices: int = 200
    days: int = 21
    step_s: int = 3600
    seed: int = 1


EXAMPLE = Shape(sites=3, ports=2, slices=30, days=2, step_s=3600)  # the files in .test/infrastructure/


class GraphWriter(networkx.Graph):
    """A graph of the information model."""

    def add(self, **properties: object) -> int:
        """Add a node; return its number. Mappings are written as JSON."""
        number = len(self) + 1
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in properties.items()}
        self.add_node(number, NodeID=f"node-{number}", **texts)
        return number

    def connect(self, one: int, other: int, kind: str) -> None:
        """Add an edge."""
        self.add_edge(one, other, Class=kind)

    def link(self, one: int, other: int) -> None:
        """Connect two ports through a link."""
        link = self.add(Class="Link", Type="L2Path")
        self.connect(one, link, "connects")
        self.connect(other, link, "connects")

    def write(self, path: Path) -> None:
        """Write GraphML, with the function whose output does not depend on installed packages."""
        networkx.write_graphml_xml(self, path)


def site_names(number: int) -> list[str]:
    """Return names of sites."""
    return [NAMES[place] if place < len(NAMES) else f"SITE{place}" for place in range(number)]


def port(place: int) -> str:
    """Return the name of a port."""
    return f"HundredGigE0/0/0/{place}"


def write_advertisement(path: Path, shape: Shape) -> None:
    """Write an advertisement.

    The first site is connected to all others, and the second one to the third. The first two sites share a second VLAN
    on the same ports.
    """
    rng, graph = random.Random(shape.seed), GraphWriter()
    services = []
    for name in site_names(shape.sites):
        site = graph.add(Class="CompositeNode", Type="Server", Name=name, Site=name)
        services.append(graph.add(Class="NetworkService", Type="MPLS", Name=f"{name}_ns"))
        graph.connect(site, services[-1], "has")
        servers = rng.randint(3, 6)
        for kind, model, units in (("SharedNIC", "ConnectX-6", 127 * servers), ("SmartNIC", "ConnectX-6", servers)):
            graph.connect(site, graph.add(Class="Component", Type=kind, Model=model, Capacities={"unit": units}), "has")
    used = [0] * shape.sites
    for one, other in [(0, place) for place in range(1, shape.sites)] + [(1, 2), (0, 1)]:
        again = (one, other) == (0, 1) and used[1] > 1
        ends = []
        for site in (one, other):
            place = 0 if again else used[site]
            used[site] += 0 if again else 1
            labels = {"local_name": f"{port(place)}.{3001 if again else 3000}"}
            ends.append(graph.add(Class="ConnectionPoint", Type="TrunkPort", Name="link", Labels=labels))
            graph.connect(services[site], ends[-1], "connects")
        graph.link(*ends)
    graph.write(path)


def write_site_model(path: Path, name: str, *, downlinks: int, uplinks: int) -> None:
    """Write the model of a site: a switch whose ports lead to the NIC of a server, or to nothing in the model."""
    graph = GraphWriter()
    switch = graph.add(Class="NetworkNode", Type="Switch", Name=f"{name.lower()}-data-sw", Site=name)
    service = graph.add(Class="NetworkService", Type="MPLS", Name="ns")
    graph.connect(switch, service, "has")
    server = graph.add(Class="NetworkNode", Type="Server", Name=f"{name.lower()}-w1", Site=name)
    for place in range(downlinks + uplinks):
        trunk = graph.add(Class="ConnectionPoint", Type="TrunkPort", Name=port(place))
        graph.connect(service, trunk, "connects")
        if place < downlinks:
            nic = graph.add(Class="Component", Type="SmartNIC", Model="ConnectX-6", Capacities={"unit": 1})
            graph.connect(server, nic, "has")
            graph.link(graph.add(Class="ConnectionPoint", Type="DedicatedPort", Name=f"p{place}"), trunk)
    graph.write(path)


def write_csv(path: Path, rows: list[list]) -> None:
    """Write rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


def write_slices(path: Path, shape: Shape) -> None:
    """Write slice records: most with one site and a day or less, one without known sites."""
    rng, names, rows = random.Random(shape.seed), site_names(shape.sites), [["slice", "start", "end", "sites"]]
    for number in range(shape.slices):
        start = START + timedelta(seconds=rng.randrange(shape.days * 86400))
        hours = rng.choice([1, 4, 24, 24, 24, 72, 336])
        end = start + timedelta(seconds=hours * 3600 if hours > 1 else rng.randrange(60, 90_000))
        used = rng.sample(names, min(len(names), rng.choices([1, 2, 3, 5], [66, 18, 10, 6])[0]))
        form = "%Y-%m-%d %H:%M:%S +0000" if number % 2 else "%Y-%m-%dT%H:%M:%SZ"
        rows.append([number, start.strftime(form), end.strftime(form), " ".join(used) if number else ""])
    write_csv(path, rows)


def write_telemetry(path: Path, shape: Shape) -> None:
    """Write counters of ports: idle, moderate, saturated; with a reset, a week without readings, a sub-interface."""
    rng, begin = random.Random(shape.seed), int(START.timestamp())
    rows = [["site", "port", "time_s", "in_bytes", "out_bytes", "rate_bps"]]
    for (index, site), place in itertools.product(enumerate(site_names(shape.sites)), range(shape.ports)):
        load = 0.0 if place == shape.ports - 1 else rng.random() ** 3 / (index + 1)
        counters = [rng.randrange(10**12), rng.randrange(10**12)]
        for step in range(shape.days * 86400 // shape.step_s):
            at = begin + step * shape.step_s
            full = index == 0 and place == 0 and step % 50 == 7
            for way in (0, 1):
                counters[way] += int((0.98 if full and way else load * rng.random()) * RATE / 8 * shape.step_s)
            if index == 1 and place == 0 and step == 100:
                counters = [0, 0]  # the switch restarted
            if shape.days <= 14 or not 7 * 86400 <= at - begin < 14 * 86400:  # a week without readings
                rows.append([site, port(place), at, *counters, "" if place % 2 else RATE])
    rows.append([site_names(1)[0], f"{port(0)}.3000", begin, 1, 1, ""])
    write_csv(path, rows)


def write_inputs(directory: Path, shape: Shape) -> None:
    """Write all inputs."""
    directory.mkdir(parents=True, exist_ok=True)
    write_advertisement(directory / "advertisement.graphml", shape)
    write_slices(directory / "slices.csv", shape)
    write_telemetry(directory / "telemetry.csv", shape)


def options(directory: Path, shape: Shape) -> list[str]:
    """Return the options of `acapella campaign infrastructure` for the inputs."""
    files = {"advertisement": "advertisement.graphml", "slices": "slices.csv", "telemetry": "telemetry.csv"}
    return [*(f"--{name}={directory}/{file}" for name, file in files.items()), f"--bin={shape.step_s}"]
