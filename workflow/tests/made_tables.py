"""Published tables of a made-up campaign, written directly: what figures and report read, for any number of sites.

The numbers are plausible and fit together as far as a reader of the pictures can tell; a pure function of the
arguments. Nothing but these CSV files is behind them.

    PYTHONPATH=workflow/tests .venv/bin/python -m made_tables /tmp/made30 30
"""

import csv
import json
import random
import sys
from pathlib import Path

from acapella_core import schemas

START_NS = 1_700_000_000_000_000_000
SAMPLE_NS = 20_000_000_000
PERIOD_NS = 300_000_000_000
BINS = ((0, 63), (64, 64), (65, 127), (128, 255), (256, 511), (512, 1023), (1024, 1518), (1519, 2047), (2048, 4095))
BINS += ((4096, 9215), (9216, None))
HEADERS = (
    *("Ethernet", "IPv4", "VLAN", "TCP", "MPLS", "PseudoWire", "TLS", "Data", "UDP", "SSH", "IPv6", "HTTP", "DNS"),
    *("ICMP", "ICMPv6", "ARP", "VXLAN", "LLDP", "QUIC", "GRE", "STP", "LACP", "Geneve", "GTP", "SCTP", "NTP", "BGP"),
)
ENCAPSULATIONS = (
    "Ethernet/VLAN/MPLS/MPLS/PseudoWire/Ethernet",
    "Ethernet/VLAN/MPLS/PseudoWire/Ethernet",
    "Ethernet/VLAN",
    "Ethernet",
    "Ethernet/VLAN/MPLS/MPLS/PseudoWire/Ethernet/VLAN/IPv4/UDP/VXLAN/Ethernet/VLAN/IPv4/UDP/GTP-U/IPv4/UDP/VXLAN/Ethernet",
    "none",
)
TABLES = (
    *("capture_quality", "header_depth", "header_occurrence", "encapsulations", "frame_sizes", "flows_per_sample"),
    *("flow_sizes", "flow_times", "throughput", "tcp_control", "ip_versions", "applications", "top_flows"),
    *("stitched_flows", "restrictions"),
)


def write_tables(folder, *, sites=3, ports=2, samples=4, names=None, frames=2000, seed=1, restriction=None) -> Path:  # noqa: PLR0913
    """Write tables/*.csv and provenance.json; ``frames`` 0: samples without a frame. Returns the folder.

    ``restriction``: (restriction, detail) of all samples, which count all the same.
    """
    folder = Path(folder)
    names = names or [f"S{n}" for n in range(sites)]
    draw = random.Random(seed)
    quality = [row for site in names for row in quality_rows(site, ports, samples, frames, draw)]
    rows = {name: [] for name in TABLES}
    rows["capture_quality"] = quality
    rows["restrictions"] = [restriction_row(quality, restriction)] if quality else []
    rows["flows_per_sample"] = [flows_row(row, draw) for row in quality]
    rows["throughput"] = [row for sample in quality if sample["frames"] for row in rate_rows(sample, draw)]
    for site in [*names, "all"] if quality else []:
        of_site = [row for row in quality if site in (row["site"], "all")]
        total = {"site": site, "samples": len(of_site), "total_frames": sum(row["frames"] for row in of_site)}
        add_shares(rows, total, draw)
        add_flows(rows, total, draw)
    for name, made in rows.items():
        write_table(folder, name, made)
    provenance = {"acapella": "0.1.0", "campaign": folder.name, "tshark": {"version": "4.0.17"}, "samples": []}
    (folder / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")
    return folder


def restriction_row(quality, restriction):
    """The one row of table restrictions."""
    kind, detail = restriction or (None, None)
    for row in quality:
        row["restriction"] = kind
    sums = {"samples": len(quality), **{name: sum(row[name] for row in quality) for name in ("frames", "wire_bytes")}}
    return {"excluded": "false", "restriction": kind, "detail": detail, **sums}


def write_table(folder: Path, name: str, rows: list[dict]) -> None:
    """tables/NAME.csv, columns as the schema orders them; what a row lacks is null, or 0 where that may not be."""
    columns = schemas.table(name)["columns"]
    default = {c["name"]: "" if c["null"] != "never" or c["type"] == "utf8" else 0 for c in columns}
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    with (folder / "tables" / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(default), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: default[k] if row.get(k) is None else row[k] for k in default})


def quality_rows(site, ports, samples, frames, draw):
    """Samples of one site; some without counters, some with loss, a few with a coarse clock."""
    for port in range(ports):
        for n in range(samples):
            count = int(draw.lognormvariate(0, 0.8) * frames)
            known = draw.random() < 0.85
            lost = int(count * draw.choice([0, 0, 0, 0.0004, 0.02])) if known else None
            start = START_NS + n * PERIOD_NS + port * 25 * 10**9
            yield {
                **{"site": site, "port": f"HundredGigE0/0/0/{port}", "sample": f"{site}-p{port}-{n:04d}"},
                **{
                    "direction": "both",
                    "method": "tcpdump",
                    "snaplen": 200,
                    "frames": count,
                    "wire_bytes": 900 * count,
                },
                **{"dropped_kernel": lost, "lost_frames": lost, "loss_share": lost and lost / (lost + count)},
                **{"loss_stages_known": 0 if not known else draw.choice([4, 4, 4, 3])},
                **{
                    "clock_resolution_ns": draw.choice([1, 1, 1, 1000]),
                    "time_reversals": 0,
                    "untimed_frames": 0,
                    "implausible_frames": 0,
                },
                **{"equal_stamps_share": draw.choice([0, 0.001, 0.02])},
                **{"actual_start_ns": start, "actual_end_ns": start + SAMPLE_NS, "actual_by": "manifest"},
                **{"duration_ns": SAMPLE_NS, "coverage_share": 1 / 60, "port_coverage_share": samples / 60},
                **{"issue_frames": int(count * 0.002), "l4_tshark_frames": count // 100, "engine": "hybrid"},
            }


def flows_row(sample, draw):
    """Flows of one sample, a few with very many."""
    flows = int(draw.lognormvariate(5.5, 1.3)) if sample["frames"] else 0
    return {**sample, "flows": flows, "connections": flows // 2, "flow_frames": sample["frames"]}


def rate_rows(sample, draw):
    """A rate a second."""
    level = draw.lognormvariate(20, 2)
    for second in range(SAMPLE_NS // 10**9):
        rate = int(level * draw.lognormvariate(0, 0.4))
        yield {
            **sample,
            **{"start_ns": sample["actual_start_ns"] + second * 10**9, "bin_ns": 10**9, "covered_ns": 10**9},
            **{"rate_bps": rate, "wire_bytes": rate // 8, "samples": 1},
        }


def add_shares(rows, total, draw):
    """Tables of shares for one site."""
    frames, several = total["total_frames"], total["samples"] > 1

    def shares(share):
        spread = 0.1 * share * (1 - min(share, 1)) if several else None
        return {
            "frames": int(share * frames),
            **{"share": share, "share_lo": spread and share - spread, "share_hi": spread and share + spread},
        }

    distinct, deepest = draw.randint(8, len(HEADERS)), draw.randint(6, 12)
    if total["site"] == "all":
        distinct, deepest = len(HEADERS), 12
    rows["header_depth"].append(
        {
            **total,
            **{"frames": frames, "distinct_headers": distinct if frames else 0, "distinct_stacks": 3 * distinct},
            **{"deepest_stack": deepest if frames else 0, "deepest_example": ENCAPSULATIONS[0] + "/IPv4"},
        }
    )
    if not frames:
        return
    for rank, header in enumerate(HEADERS[:distinct]):
        share = max(0, min(1, 1.05 * 0.78**rank * draw.uniform(0.8, 1.2))) if rank else 1
        one = shares(share)
        named = {f"frame_{k}": v for k, v in one.items() if k.startswith("share")}
        twice = 1.9 if header in ("Ethernet", "MPLS") else 1
        rows["header_occurrence"].append(
            {**total, "header": header, **one, **named, "occurrences": int(twice * one["frames"])}
            | {"occurrence_share": twice * share}
        )
    for encapsulation, share in zip(ENCAPSULATIONS, parts(len(ENCAPSULATIONS), draw), strict=True):
        rows["encapsulations"].append({**total, "encapsulation": encapsulation, **shares(share)})
    for length in ("outer", "inner"):
        for (low, high), share in zip(BINS, parts(len(BINS), draw), strict=True):
            text = "<64" if low == 0 else ">9215" if high is None else f"{low}" if low == high else f"{low}-{high}"
            cells = {"length": length, "bin": text, "bin_lo": low, "bin_hi": high}
            rows["frame_sizes"].append({**total, **cells, **shares(share)})
    for version, share in (("4", 0.95), ("6", 0.02), ("none", 0.03)):
        rows["ip_versions"].append({**total, "ip_version": version, **shares(share)})


def parts(number, draw):
    """Shares that add up to 1, some of them small."""
    weights = [draw.gammavariate(0.4, 1) for _ in range(number)]
    return [weight / sum(weights) for weight in weights]


def add_flows(rows, total, draw):
    """Tables of flows for one site."""
    site, flows = total["site"], draw.randint(200, 20000) if total["total_frames"] else 0
    for scope in ("sample", "port", "site", *(["campaign"] if site == "all" else [])):
        slope = draw.uniform(0.4, 0.8)
        thresholds = sorted({round(10 ** (k / 10)) for k in range(0, 110)})
        counts = [int(flows * max(1, threshold / 60) ** -slope) for threshold in thresholds]
        for threshold, count in zip(thresholds, counts, strict=True):
            row = {**total, "scope": scope, "measure": "wire", "bytes": threshold, "flows_ge": count, "flows": flows}
            rows["flow_sizes"].append(row | {"ccdf": count / flows if flows else 0})
            if not count:
                break
        for measure, middle, counted in (("duration_ns", 3e7, flows), ("rate_bps", 2e5, 2 * flows // 3)):
            rows["flow_times"] += times_rows({**total, "scope": scope, "measure": measure}, middle, counted, slope)
    rows["tcp_control"].append({**total, "flows": flows, "frames": total["total_frames"], "syn": flows // 2})
    for app, by in (("tls", "flow"), ("dns", "tshark"), (None, None)) if flows else ():
        rows["applications"].append({**total, "app": app, "app_by": by, "flows": flows // 3, "frames": 9 * flows})
    for rank in range(1, 6 if flows else 1):
        rows["top_flows"].append(
            {
                **total,
                **{"rank": rank, "flow_id": f"{rank:032x}", "vlan": "100", "mpls": "16/17", "ip_version": 4},
                **{"src": "10.0.0.1", "dst": "10.0.0.2", "ip_proto": 6, "src_port": 443, "dst_port": 50000 + rank},
                **{"largest_site": "S0", "largest_port": "p1", "frames": 1000 // rank, "wire_bytes": 10**6 // rank},
                **{"duration_ns": 10**9, "rate_bps": 8 * 10**6 // rank, "app": "tls", "app_by": "flow"},
            }
        )


def times_rows(total, middle, flows, slope):
    """The distribution of durations or rates of one scope; a fifth of the flows is below every threshold."""
    for power in range(0, 140):
        threshold = round(10 ** (power / 10))
        count = int(0.8 * flows / (1 + (threshold / middle) ** slope))
        if power and threshold == round(10 ** ((power - 1) / 10)):
            continue
        if not count:
            return
        yield {**total, "value": threshold, "flows_ge": count, "flows": flows, "ccdf": count / flows}


if __name__ == "__main__":
    print(write_tables(sys.argv[1], sites=int(sys.argv[2])))
