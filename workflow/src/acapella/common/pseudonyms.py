"""Pseudonyms of sites (S0, S1, ...), ports (P0, P1, ...), samples (S0-P0-0000) and environments (E0, E1, ...).

Sites and ports are numbered in the order of the smallest SHA-256 of their captures. Neither names nor hashes of names
determine the order, because the sites of a testbed are a short public list: anyone could hash that list and recover
the names. Addresses, VLAN ids, labels and times are not changed. The mapping is written to a separate file, never to
the tables.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella_core.files import atomic_text

FILE = "pseudonyms.tsv"
HEADER = "sample\tsite\tport\ttrue_sample\ttrue_site\ttrue_port\n"


@dataclass(frozen=True)
class Name:
    """The names of a sample, its site and its port in the tables; ``directory`` is the original name of the sample."""

    directory: str
    sample: str
    site: str
    port: str


def environment_pseudonyms(names: Sequence[str]) -> list[str]:
    """Return pseudonyms of environments, numbered in the order given."""
    return [f"E{number}" for number in range(len(names))]


def is_pseudonym(name: str, letter: str) -> bool:
    """Return whether a name has the form of a pseudonym that begins with ``letter``."""
    return re.fullmatch(rf"{letter}[0-9]+", name) is not None


def true_names(samples: list[dict]) -> list[Name]:
    """Return the original names. ``samples`` contains sample, site, port, sha256 and start_ns of each sample."""
    return [Name(s["sample"], s["sample"], s["site"], s["port"]) for s in samples]


def pseudonyms(samples: list[dict]) -> list[Name]:
    """Return the pseudonyms, in the order of ``samples``."""
    sites = ranks(samples, lambda s: s["site"], "S")
    ports = {}
    for site in sites:
        site_samples = [s for s in samples if s["site"] == site]
        ports.update(ranks(site_samples, lambda s: (s["site"], s["port"]), "P"))
    names = {}
    used = dict.fromkeys(ports, 0)
    for s in sorted(samples, key=lambda s: (s["start_ns"] or 0, s["sha256"] or "", s["sample"])):
        place = s["site"], s["port"]
        site, port = sites[s["site"]], ports[place]
        names[s["sample"]] = Name(s["sample"], f"{site}-{port}-{used[place]:04d}", site, port)
        used[place] += 1
    return [names[s["sample"]] for s in samples]


def ranks(samples: list[dict], key, letter: str) -> dict:
    """Return the pseudonym of each group of ``samples`` by ``key``.

    Groups are numbered by the smallest checksum in each; ties are broken by name.
    """
    smallest = {}
    for s in samples:
        smallest[key(s)] = min(smallest.get(key(s), "~"), s["sha256"] or "~")
    return {group: f"{letter}{n}" for n, group in enumerate(sorted(smallest, key=lambda g: (smallest[g], g)))}


def write_mapping(path: Path, samples: list[dict], names: list[Name]) -> None:
    """Write the pseudonyms and original names of each sample as tab-separated text that only its owner can read."""
    out = io.StringIO()
    out.write(HEADER)
    for name, s in sorted(zip(names, samples, strict=True), key=lambda pair: pair[0].sample):
        out.write("\t".join((name.sample, name.site, name.port, s["sample"], s["site"], s["port"])) + "\n")
    atomic_text(path, out.getvalue(), mode=0o600)
