"""Write the tables of a synthetic campaign with any number of sites, as input of figures and report.

All tables are computed from the same samples (generated_traffic.py), so they are consistent: test_generated_tables.py
compares their sums. They depend only on the arguments.

    .venv/bin/python workflow/tests/support/generated/generated_tables.py /tmp/made30 30
"""

import functools
import json
import math
import random
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from acapella_testing.generated.generated_traffic import (
    BINS,
    SAMPLE_NS,
    Sample,
    allocated,
    bin_of,
    samples_of_site,
    stitched,
)
from acapella_testing.new_files import write_file

from acapella.campaign.layout import Campaign
from acapella.common import tables
from acapella.figures.source import Source
from acapella_core.arrow_tables import arrow_schema

ALL = "all"
PAYLOAD = "Data"  # a label that is not a header
TOP = 5  # flows per site in top_flows
VERSIONS = {"IPv4": "4", "IPv6": "6"}
TRANSPORT = ("TCP", "UDP", "SCTP", "ICMP", "ICMPv6")
MANTISSAS = (1000, 1250, 1600, 2000, 2500, 3150, 4000, 5000, 6300, 8000)
THRESHOLDS = [n // 1000 for n in sorted(each * 10**power for each in MANTISSAS for power in range(16)) if n % 1000 == 0]


def write_tables(directory, *, sites=3, ports=2, samples=4, names=None, frames=2000, seed=1, restriction=None) -> Path:  # noqa: PLR0913
    """Write tables/ and provenance/process.json; return the directory. With ``frames`` 0, samples have no frames.

    ``restriction``: (restriction, detail) of all samples, which are not excluded.
    """
    directory = Path(directory)
    names = names or [f"S{n}" for n in range(sites)]
    draw = random.Random(seed)
    made = [sample for site in names for sample in samples_of_site(site, ports, samples, frames, draw)]
    quality = quality_rows(made, draw)
    rows = {"capture_quality": quality, "restrictions": [restriction_row(quality, restriction)] if quality else []}
    rows["flows_per_sample"] = [flows_row(sample) for sample in made]
    rows["throughput"] = [row for sample in made if sample.frames for row in rate_rows(sample, draw)]
    for site in [*names, ALL] if made else []:
        own = [sample for sample in made if site in (sample.site, ALL)]
        for name, more in (traffic_rows(site, own) | flow_rows(site, own)).items():
            rows.setdefault(name, []).extend(more)
    for name in TABLES:
        write_table(directory, name, rows.get(name, []))
    provenance = {"acapella": "0.1.0", "campaign": directory.name, "tshark": {"version": "4.0.17"}, "samples": []}
    write_file(directory / "provenance" / "process.json", json.dumps(provenance))
    return directory


TABLES = (
    *("capture_quality", "header_depth", "header_occurrence", "encapsulations", "frame_sizes", "flows_per_sample"),
    *("flow_sizes", "flow_times", "throughput", "tcp_control", "ip_versions", "applications", "top_flows"),
    *("restrictions", "header_stack_sizes"),
)


def source_with(directory: Path, **shape) -> Source:
    """Write tables (`write_tables`) and return their source."""
    return Source(Campaign(write_tables(directory / "made", **shape)))


def write_table(directory: Path, name: str, rows: list[dict]) -> None:
    """Write tables/NAME.parquet and .csv. Missing values are null, or 0, "" or false if the schema excludes null."""
    schema = arrow_schema(name)
    default = {f.name: None if f.nullable else {pa.string(): "", pa.bool_(): False}.get(f.type, 0) for f in schema}
    complete = [{key: default[key] if row.get(key) is None else row[key] for key in default} for row in rows]
    (directory / "tables").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(complete, schema)
    pq.write_table(table, directory / "tables" / f"{name}.parquet")
    pyarrow.csv.write_csv(tables.rounded(table), directory / "tables" / f"{name}.csv")


def source_of_rows(directory: Path, **rows: list[dict]) -> Source:
    """Write tables of these rows, by name of the table, and return their source."""
    for name, own in rows.items():
        write_table(directory, name, own)
    return Source(Campaign(directory))


def change_table(directory: Path, name: str, change: Callable[[int, dict], object]) -> None:
    """Rewrite a table after calling ``change`` with the number of each row and the row."""
    rows = pq.read_table(directory / "tables" / f"{name}.parquet").to_pylist()
    for number, row in enumerate(rows):
        change(number, row)
    write_table(directory, name, rows)


def restriction_row(quality, restriction):
    """Return the only row of table restrictions; set the restriction in ``quality``."""
    kind, detail = restriction or (None, None)
    for row in quality:
        row["restriction"] = kind
    sums = {"samples": len(quality), **{name: sum(row[name] for row in quality) for name in ("frames", "wire_bytes")}}
    return {"excluded": False, "restriction": kind, "detail": detail, **sums}


def quality_rows(made: list[Sample], draw) -> list[dict]:
    """Return a row per sample: some without counters, some with loss, some with a coarse clock."""
    length = max((sample.end_ns for sample in made), default=0) - min((sample.start_ns for sample in made), default=0)
    samples = Counter((sample.site, sample.port) for sample in made)
    return [quality_row(sample, samples[sample.site, sample.port] * SAMPLE_NS, length, draw) for sample in made]


def quality_row(sample: Sample, covered_ns: int, length_ns: int, draw) -> dict:
    """Return the row of one sample. ``covered_ns``: time that its port was captured; ``length_ns``: of the campaign."""
    lost = int(sample.frames * draw.choice((0, 0, 0, 0.0004, 0.02))) if draw.random() < 0.85 else None
    share = lost and lost / (lost + sample.frames)
    stages = 0 if lost is None else draw.choice([4, 4, 4, 3])
    pairs = sample.frames - 1  # of consecutive frames
    repeated = round(draw.choice((0, 0.001, 0.02)) * pairs) / pairs if pairs > 0 else None
    return {
        **{"site": sample.site, "port": sample.port, "sample": sample.name, "direction": "both", "method": "tcpdump"},
        **{"snaplen": 200, "frames": sample.frames, "wire_bytes": sample.wire_bytes, "engine": "hybrid"},
        **{"dropped_kernel": lost, "lost_frames": lost, "loss_share": share, "loss_stages_known": stages},
        **{"clock_resolution_ns": draw.choice((1, 1, 1, 1000)), "equal_stamps_share": repeated},
        **{"time_reversals": 0, "untimed_frames": 0, "implausible_frames": 0},
        **{"actual_start_ns": sample.start_ns, "actual_end_ns": sample.end_ns, "actual_by": "manifest"},
        "misdated": False,
        **{"duration_ns": SAMPLE_NS, "coverage_share": SAMPLE_NS / length_ns},
        **{"port_coverage_share": covered_ns / length_ns, "undissected_frames": 0},
        **{"issue_frames": int(sample.frames * 0.002), "l4_tshark_frames": sample.frames // 100},
    }


def flows_row(sample: Sample) -> dict:
    """Return the row of flows of one sample."""
    return {
        **{"site": sample.site, "port": sample.port, "sample": sample.name},
        **{"frames": sample.frames, "wire_bytes": sample.wire_bytes},
        **{"flows": len(sample.flows), "connections": len(sample.flows) // 2},
        "flow_frames": sum(flow.frames for flow in sample.flows),
    }


def rate_rows(sample: Sample, draw):
    """Yield a row per second. Frames and bytes add up to those of the sample."""
    weights = [draw.lognormvariate(0, 0.4) for _ in range(SAMPLE_NS // 10**9)]
    counts = (allocated(number, weights) for number in (sample.frames, sample.wire_bytes))
    for second, (frames, size) in enumerate(zip(*counts, strict=True)):
        yield {
            **{"site": sample.site, "port": sample.port, "start_ns": sample.start_ns + second * 10**9},
            **{"bin_ns": 10**9, "covered_ns": 10**9, "frames": frames, "wire_bytes": size, "rate_bps": 8 * size},
            "samples": int(frames > 0),
        }


def traffic_rows(site: str, own: list[Sample]) -> dict[str, list[dict]]:
    """Return the rows of one site, or of all, in the tables of frames."""
    total = {"site": site, "samples": len(own), "total_frames": sum(sample.frames for sample in own)}
    rows = {"header_depth": [depth_row(total, own)], "header_stack_sizes": stack_rows(total, own)}
    rows["header_occurrence"] = [occurrence_row(total, own, label) for label in keys(own, "header")]
    for table, column, kind, found in (
        ("encapsulations", "encapsulation", "encapsulation", keys(own, "encapsulation")),
        ("ip_versions", "ip_version", "version", ("4", "6", "none")),
    ):
        rows[table] = [{**total, column: key, **shares(total, own, kind, key)} for key in found]
    rows["frame_sizes"] = [
        {**total, "length": length, "bin": bin_text(low, high), "bin_lo": low, "bin_hi": high}
        | shares(total, own, length, (low, high))
        for length in ("outer", "inner")
        for low, high in BINS
    ]
    return rows


@functools.cache
def tallies(sample: Sample) -> dict[str, dict[object, list[int]]]:
    """Return frames and bytes of a sample by the keys of the tables."""
    found = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for cell in sample.cells:
        kinds = [("header", label) for label in set(cell.stack)]
        kinds += [("encapsulation", cell.encapsulation), ("version", version_of(cell))]
        kinds += [(length, bin_of(getattr(cell, length))) for length in ("outer", "inner")]
        for kind, key in kinds:
            sums = found[kind][key]
            sums[0] += cell.frames
            sums[1] += cell.frames * cell.outer
    return found


def keys(own: list[Sample], kind: str) -> list:
    """Return the sorted keys of a kind."""
    return sorted({key for sample in own for key in tallies(sample)[kind]})


def version_of(cell) -> str:
    """Return the version of the innermost network header."""
    found = [label for label in cell.stack if label in VERSIONS or label == "ARP"]
    return VERSIONS.get(found[-1], "none") if found else "none"


def occurrence_row(total: dict, own: list[Sample], label: str) -> dict:
    """Return a row of header_occurrence."""
    found = shares(total, own, "header", label)
    times = sum(cell.stack.count(label) * cell.frames for sample in own for cell in sample.cells)
    named = {f"frame_{name}": value for name, value in found.items() if name.startswith("share")}
    occurrences = {"occurrences": times, "occurrence_share": times / total["total_frames"]}
    return {**total, "header": label, **found, **named, **occurrences}


def shares(total: dict, own: list[Sample], kind: str, key: object) -> dict:
    """Return frames, bytes, share, and its interval of two standard errors on each side."""
    counts = [tallies(sample)[kind].get(key, (0, 0)) for sample in own]
    frames, size = (sum(column) for column in zip(*counts, strict=True))
    if not total["total_frames"]:
        return {"frames": frames, "wire_bytes": size}
    share, margin = frames / total["total_frames"], None
    pairs = [(part, sample.frames) for (part, _), sample in zip(counts, own, strict=True) if sample.frames]
    if len(pairs) > 1:
        margin = 2 * math.sqrt(sum((part - share * number) ** 2 for part, number in pairs)) / total["total_frames"]
    return {
        **{"frames": frames, "wire_bytes": size, "share": share},
        "share_lo": None if margin is None else max(0.0, share - margin),
        "share_hi": None if margin is None else min(1.0, share + margin),
    }


def depth_row(total: dict, own: list[Sample]) -> dict:
    """Return the row of header_depth."""
    frames = Counter()
    for cell in (cell for sample in own for cell in sample.cells):
        frames[cell.stack] += cell.frames
    headers = {stack: [label for label in stack if label != PAYLOAD] for stack in frames}
    deepest = min(frames, key=lambda stack: (-len(headers[stack]), -frames[stack], stack), default=())
    return {
        **total,
        **{"frames": total["total_frames"], "distinct_headers": len(set().union(*headers.values()))},
        **{"distinct_stacks": len(frames), "deepest_stack": len(headers.get(deepest, ()))},
        "deepest_example": "/".join(deepest),
    }


def bin_text(low: int, high: int | None) -> str:
    """Return the label of a bin of lengths."""
    return "<64" if low == 0 else f">{low - 1}" if high is None else f"{low}" if low == high else f"{low}-{high}"


def stack_rows(total: dict, own: list[Sample]) -> list[dict]:
    """Return the rows of header_stack_sizes: header stacks up to the innermost transport header."""
    names = ("frames", "tcp_frames", "no_payload_frames", "ack_frames", "cut_tcp_frames")
    sums = defaultdict(Counter)
    for cell in (cell for sample in own for cell in sample.cells):
        ends = [place for place, label in enumerate(cell.stack) if label in TRANSPORT]
        stack = cell.stack[: ends[-1] + 1] if ends else cell.stack
        cut = cell.frames // 50 if cell.deep and "TCP" in stack else 0
        tcp = cell.frames - cut if "TCP" in stack else 0
        empty = tcp if cell.empty else 0
        counts = (cell.frames, tcp, empty, int(0.95 * empty), cut)
        sums["/".join(stack), bin_of(cell.outer)].update(dict(zip(names, counts, strict=True)))
    return [
        {**total, "stack": stack, "bin": bin_text(*ends), "bin_lo": ends[0], "bin_hi": ends[1], **found}
        for (stack, ends), found in sorted(sums.items(), key=lambda item: (item[0][0], item[0][1][0]))
        if found["frames"]
    ]


def flow_rows(site: str, own: list[Sample]) -> dict[str, list[dict]]:
    """Return the rows of one site, or of all, in the tables of flows. Ports have no common flows."""
    single = [flow for sample in own for flow in sample.flows]
    across_samples = stitched(own)
    total = {"site": site, "samples": len(own)}
    rows = {"flow_sizes": [], "flow_times": []}
    for scope in ("sample", "port", "site", *(["campaign"] if site == ALL else [])):
        flows = single if scope == "sample" else across_samples
        scoped = {**total, "scope": scope}
        rows["flow_sizes"] += distribution({**scoped, "measure": "wire"}, "bytes", [flow.wire_bytes for flow in flows])
        durations, rates = [flow.duration_ns for flow in flows], [flow.rate_bps for flow in flows if flow.rate_bps]
        rows["flow_times"] += distribution({**scoped, "measure": "duration_ns"}, "value", durations)
        rows["flow_times"] += distribution({**scoped, "measure": "rate_bps"}, "value", rates)
    largest = sorted(across_samples, key=lambda flow: (-flow.wire_bytes, flow.key))[:TOP]
    rows["top_flows"] = [top_row(total, rank, flow) for rank, flow in enumerate(largest, 1)]
    rows["applications"] = application_rows(total, own)
    tcp = [flow for flow in single if flow.tcp]
    sums = {"flows": len(tcp), "frames": sum(flow.frames for flow in tcp), "syn": len(tcp), "syn_ack": len(tcp) // 2}
    sums |= {"ack": sum(flow.frames for flow in tcp), "connections": len(tcp) // 2}
    rows["tcp_control"] = [{**total, **sums}]
    return rows


def distribution(row: dict, column: str, values: list[int]) -> list[dict]:
    """Return rows at the thresholds of ISO 3's series R10, up to the largest that a flow reaches."""
    values, flows, rows = sorted(values), len(values), []
    for threshold in THRESHOLDS if values else ():
        reached = flows - bisect_left(values, threshold)
        if not reached and rows:
            break
        rows.append({**row, column: threshold, "flows_ge": reached, "flows": flows, "ccdf": reached / flows})
    return rows


def top_row(total: dict, rank: int, flow) -> dict:
    """Return a row of top_flows."""
    src_port, dst_port = (443, 50_000 + rank) if flow.tcp else (53, 40_000 + rank)
    return {
        **{"rank": rank, "flow_id": f"{rank:032x}", "vlan": "100", "mpls": "16/17", "ip_version": 4},
        **{"tunnels": f"vxlan_vni*{rank}*6", "src": "10.0.0.1", "dst": "10.0.0.2", "ip_proto": 6 if flow.tcp else 17},
        **{"src_port": src_port, "dst_port": dst_port, "largest_site": flow.site, "largest_port": flow.port},
        **{name: getattr(flow, name) for name in ("frames", "wire_bytes", "duration_ns", "rate_bps", "app")},
        **{"app_by": flow.app and "flow", **total, "samples": flow.samples},
    }


def application_rows(total: dict, own: list[Sample]) -> list[dict]:
    """Return the rows of applications."""
    found = defaultdict(list)
    for name, flow in ((sample.name, flow) for sample in own for flow in sample.flows):
        found[flow.app].append((name, flow))
    return [
        {
            **total,
            **{"app": app, "app_by": app and ("flow" if app in ("tls", "ssh") else "tshark"), "flows": len(flows)},
            **{name: sum(getattr(flow, name) for _, flow in flows) for name in ("frames", "wire_bytes")},
            "samples": len({name for name, _ in flows}),
        }
        for app, flows in sorted(found.items(), key=lambda item: item[0] or "")
    ]


if __name__ == "__main__":
    print(write_tables(sys.argv[1], sites=int(sys.argv[2])))
