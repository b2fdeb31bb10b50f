#!/usr/bin/env python3
"""Print a software bill of materials, CycloneDX 1.6 in JSON, of what `make setup` and its variants install.

Python packages with their versions, SHA-256 digests and dependencies come from the locks; Debian packages of purpose
`run` from debian-packages.txt, with their versions if they are installed. Identical locks and packages yield identical
bytes.
"""

import json
import re
import subprocess
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("workflow/requirements.lock", "capture/requirements-fabric.lock", "workflow/requirements-storage.lock")
LOCKS = [ROOT / name for name in NAMES]
PIN = re.compile(r"(?m)^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)(?: ; ([^\\\n]+?))? \\\n((?:    .*\n?)+)")


def python_packages(lock: Path) -> list[dict]:
    """Return a component for each pin of a lock; ``via`` names the packages that need it."""
    components = []
    for name, version, marker, lines in PIN.findall(lock.read_text(encoding="utf-8")):
        digests = re.findall(r"--hash=sha256:([0-9a-f]{64})", lines)
        via = re.findall(r"#(?: via)? +([a-z0-9][\w.-]*)$", lines, re.M)
        purl = f"pkg:pypi/{name}@{version}"
        component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        if marker:
            component["properties"] = [{"name": "acapella:marker", "value": marker}]
        # The wheels of different platforms have different digests; CycloneDX lists several only as distributions.
        hashes = [{"alg": "SHA-256", "content": digest} for digest in digests]
        found = [{"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": hashes}]
        components.append(component | {"externalReferences": found, "via": via})
    return components


def debian_packages() -> list[dict]:
    """Return a component for each Debian package that Acapella needs to be built and run (purpose `run`)."""
    lines = (ROOT / "workflow" / "setup" / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith("#") and line.split()[1] == "run"]
    query = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names]
    try:
        output = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:  # not Debian
        output = ""
    versions = dict(line.split() for line in output.splitlines() if line.count(" ") == 1 and not line.endswith(" "))
    components = []
    for name in names:
        purl = f"pkg:deb/debian/{name}" + (f"@{versions[name]}" if name in versions else "")
        component = {"type": "library", "bom-ref": purl, "name": name, "purl": purl}
        components.append(component | ({"version": versions[name]} if name in versions else {}))
    return components


def bill_of_materials(python: list[dict], debian: list[dict]) -> dict:
    """Return the document; its serial number is derived from its content."""
    unique = {component["bom-ref"]: component for component in python}
    needs: dict[str, set[str]] = {reference: set() for reference in unique}
    for component in python:
        for other in unique.values():
            if other["name"] in component["via"]:
                needs[other["bom-ref"]].add(component["bom-ref"])
    components = [{key: value for key, value in each.items() if key != "via"} for each in unique.values()] + debian
    version = re.search(r'^version = "(.+)"', (ROOT / "workflow" / "pyproject.toml").read_text(encoding="utf-8"), re.M)[
        1
    ]
    root = {"type": "application", "bom-ref": "acapella", "name": "acapella", "version": version}
    needs["acapella"] = {component["bom-ref"] for component in components}
    content = {
        "metadata": {"component": root},
        "components": components,
        "dependencies": [{"ref": reference, "dependsOn": sorted(found)} for reference, found in needs.items()],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return head | content


if __name__ == "__main__":
    packages = [component for lock in LOCKS for component in python_packages(lock)]
    json.dump(bill_of_materials(packages, debian_packages()), sys.stdout, indent=1)
    print()
