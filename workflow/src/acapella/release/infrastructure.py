"""Writes the inputs of the infrastructure study to a release: only the values from which its tables are computed.

Models keep the sites, the classes and types of nodes, and the values of trunk ports and NICs that the tables need;
slices are numbered. The files named in the config of the campaign's last run are reread and must be unchanged.
"""

import csv
import glob
import gzip
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path

from acapella.campaign.layout import Campaign, existing_provenance
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, sha256_of

from .columns import published_columns
from .reproducible import campaign_study

STAGE, DIRECTORY = "infrastructure", "infrastructure"
KEYS = ("advertisements", "slices", "telemetry")
MODELS, SLICES, COUNTERS = "model-*.graphml", "slice_records.csv", "port_counters.parquet"  # in DIRECTORY
HIDDEN = "infrastructure study: the numbers of a site's ports identify it"
UNKNOWN = "infrastructure study: its files are unknown; run snakemake again"
GRAPHML = "http://graphml.graphdrawing.org/xmlns"
NODE_KEYS, EDGE_KEYS = ("Class", "Site", "Name", "Type", "Model", "Capacities", "Labels"), ("Class",)
SITES, TRUNK, NIC = ("CompositeNode", "NetworkNode"), "TrunkPort", "Component"
FIX = "run snakemake again, in the same directory as this command"


def write(part: Path, campaign: Campaign, *, hidden: bool) -> list[str]:
    """Write the inputs of the study to the release in ``part``; return reasons why results cannot be reproduced.

    If names are ``hidden``, nothing is written. Raises UserError if a file is missing or has changed.
    """
    recorded = existing_provenance(campaign, STAGE)
    if not recorded.is_file():
        return []
    patterns = campaign_study(campaign.directory)
    if hidden or not patterns:
        return [HIDDEN if hidden else UNKNOWN]
    files = {key: files_of(patterns[key]) for key in KEYS}
    check_unchanged(files, json.loads(recorded.read_text(encoding="utf-8"))["inputs"])
    (part / DIRECTORY).mkdir()
    for number, path in enumerate(files["advertisements"], 1):
        write_model(path, part / DIRECTORY / MODELS.replace("*", f"{number:04}"))
    if files["slices"]:
        write_slices(files["slices"], part / DIRECTORY / SLICES)
    if files["telemetry"]:
        write_counters(files["telemetry"], part / DIRECTORY / COUNTERS)
    return []


def settings(release: Path) -> dict:
    """Return the files of a release as patterns of config key `infrastructure`; {} if it has none."""
    names = zip(KEYS, (MODELS, SLICES, COUNTERS), strict=True)
    directory = release / DIRECTORY
    found = {key: [f"{glob.escape(str(directory))}/{name}"] for key, name in names if any(directory.glob(name))}
    return {key: found.get(key, []) for key in KEYS} if found else {}


def files_of(patterns: list[str]) -> list[Path]:
    """Return the files of a config key in the order in which the study reads them. Raises UserError."""
    found: set[str] = set()
    for pattern in patterns:
        matches = glob.glob(pattern, recursive=True)  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise UserError("no such file", where=f"infrastructure: {pattern}", fix=FIX)
        found |= {*matches}
    return [Path(path) for path in sorted(found)]


def check_unchanged(files: Mapping[str, list[Path]], recorded: Mapping[str, list[str]]) -> None:
    """Raise UserError unless the files are unchanged since the tables were computed."""
    for key in KEYS:
        now = sorted(f"{path.name} {sha256_of(path)}" for path in files[key])
        if now != recorded[key]:
            changed = next((line for line in now if line not in recorded[key]), "a file is missing").split()[0]
            raise UserError(f"changed since the tables were created: {changed}", where=f"infrastructure.{key}", fix=FIX)


def write_model(path: Path, target: Path) -> None:
    """Write the nodes of a GraphML file, numbered, and its edges, with only their published properties."""
    root = ET.parse(path).getroot()
    names = {key.get("id"): key.get("attr.name") for key in root.iter(f"{{{GRAPHML}}}key")}
    ET.register_namespace("", GRAPHML)
    copy = ET.Element(f"{{{GRAPHML}}}graphml")
    for kind, keys in (("node", NODE_KEYS), ("edge", EDGE_KEYS)):
        for name in keys:
            ET.SubElement(copy, f"{{{GRAPHML}}}key", {"id": f"{kind}-{name}", "for": kind, "attr.name": name})
    graph = ET.SubElement(copy, f"{{{GRAPHML}}}graph", {"edgedefault": "undirected"})
    numbers: dict[str | None, str] = {}
    for number, node in enumerate(root.iter(f"{{{GRAPHML}}}node"), 1):
        numbers[node.get("id")] = f"{number}"
        add(graph, "node", {"id": f"{number}"}, published(properties(node, names)))
    for edge in root.iter(f"{{{GRAPHML}}}edge"):
        ends = {end: numbers[edge.get(end)] for end in ("source", "target")}
        add(graph, "edge", ends, {"Class": properties(edge, names).get("Class", "")})
    ET.indent(copy, "")
    with atomic_path(target) as temporary:
        ET.ElementTree(copy).write(temporary, encoding="utf-8", xml_declaration=True)


def add(graph: ET.Element, kind: str, attributes: dict[str, str], values: dict[str, str]) -> None:
    """Add a node or an edge with its properties."""
    element = ET.SubElement(graph, f"{{{GRAPHML}}}{kind}", attributes)
    for name, value in values.items():
        ET.SubElement(element, f"{{{GRAPHML}}}data", {"key": f"{kind}-{name}"}).text = value


def properties(element: ET.Element, names: Mapping) -> dict[str, str]:
    """Return the properties of a node or edge by name."""
    return {names.get(data.get("key")): data.text or "" for data in element.iter(f"{{{GRAPHML}}}data")}


def published(values: Mapping[str, str]) -> dict[str, str]:
    """Return the published properties of a node: class, type and site, and those of trunk ports and NICs.

    These are the name and the rate of a trunk port, and the model and number of NICs.
    """
    kind, type_ = values.get("Class", ""), values.get("Type", "")
    kept = {"Class": kind, "Type": type_}
    if kind in SITES:
        is_site = kind == "CompositeNode" or type_ == "Switch"  # any other node is a server, named after its host
        kept["Site"] = values.get("Site") or (values.get("Name") if is_site else "") or ""
    if type_ == TRUNK:
        labels = object_of(values, "Labels", ("local_name",))
        kept["Labels"] = json.dumps(labels)
        if not labels.get("local_name"):
            kept["Name"] = values.get("Name", "")
        kept["Capacities"] = json.dumps(object_of(values, "Capacities", ("bw",)))
    if kind == NIC:
        kept["Model"] = values.get("Model", "")
        kept["Capacities"] = json.dumps(object_of(values, "Capacities", ("unit",)))
    return kept


def object_of(values: Mapping[str, str], name: str, keys: tuple[str, ...]) -> dict:
    """Return the listed keys of a property that contains JSON; empty if it does not."""
    try:
        content = json.loads(values.get(name) or "{}")
    except (ValueError, RecursionError):  # the study does not use this property, or it would have failed
        return {}
    return {key: content[key] for key in keys if key in content} if isinstance(content, dict) else {}


def write_slices(paths: list[Path], target: Path) -> None:
    """Write the slice records of all files, numbered."""
    columns = published_columns("slice_records")
    with atomic_path(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        for number, row in enumerate((row for path in paths for row in records(path)), 1):
            writer.writerow(row | {"slice": number})


def records(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a file of slice records."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, strict=True)


def write_counters(paths: list[Path], target: Path) -> None:
    """Write the readings of all files, except those of VLAN sub-interfaces, sorted by site, port and time."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    from acapella.campaign.views import literal  # noqa: PLC0415
    from acapella.common import queries  # noqa: PLC0415

    types = ("varchar", "varchar", "bigint", "bigint", "bigint", "bigint")
    columns = dict(zip(published_columns("port_counters"), types, strict=True))
    described = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    casts = ", ".join(f"{name}::{kind} as {name}" for name, kind in columns.items())
    options = "header = true, delim = ',', quote = '\"', auto_detect = false"
    sources = [
        f"select {casts} from read_parquet({literal(path, pattern=True)})"
        if path.suffix == ".parquet"
        else f"select * from read_csv({literal(path, pattern=True)}, {options}, columns = {{{described}}})"
        for path in paths
    ]
    with queries.one_line("infrastructure.telemetry"):
        # as in port_samples.sql
        readings = f"select * from ({' union all '.join(sources)}) where not contains(port, '.')"
        rows = queries.connect().sql(f"{readings} order by site, port, time_s")
        with atomic_path(target) as temporary:
            batches = rows.to_arrow_reader(1 << 17)
            with pq.ParquetWriter(temporary, batches.schema.remove_metadata(), compression="zstd") as sink:
                for batch in batches:
                    sink.write_batch(batch)
