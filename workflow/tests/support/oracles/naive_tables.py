"""Naive reference of every table of a campaign: dictionaries over frames and flows, one definition after the other.

It follows schemas/tables/*.yaml, not the SQL. Intervals are tested in test_bootstrap.py.
"""

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

from acapella_testing.oracles.naive_samples import by_port, covered, misdated, rate, scopes, traffic
from acapella_testing.oracles.naive_stitch import flow_sizes, flow_times, site_flows, top_flows

BINS = [
    (0, 63),
    (64, 64),
    (65, 127),
    (128, 255),
    (256, 511),
    (512, 1023),
    (1024, 1518),
    (1519, 2047),
    (2048, 4095),
    (4096, 9215),
]
LINK = {"Ethernet", "LLC", "VLAN", "MPLS", "PseudoWire", "PPPoE", "PPP", "SLL", "Null", "Raw", "MACsec"}
FLAGS = ("syn", "syn_ack", "fin", "rst", "psh", "ack", "urg", "ece", "cwr")


def lines_of(name: str) -> list[list[str]]:
    """Return the fields of all lines of a table of schemas/ except the first."""
    path = Path(__file__).parents[4] / "schemas" / name
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


LABELS = {token: label for token, label, _ in lines_of("protocols.tsv")}
LAYERS = {label: layer for _, label, layer in lines_of("protocols.tsv")}
PORTS = {(LABELS.get(t, t.upper()), over.upper()): set(ports.split()) for t, over, ports in lines_of("heuristics.tsv")}


def frames_of(samples):
    """Return all frames of several samples."""
    return [f for s in samples for f in s.frames]


def header_occurrence(samples):
    """Return the frames with each header, and its number of occurrences."""
    rows = []
    for site, chosen in scopes(samples):
        total, frames, occurrences, guessed = 0, Counter(), Counter(), Counter()
        for sample in chosen:
            for frame in sample.frames:
                guessed.update(named_by_payload(frame, sample))
        for frame in frames_of(chosen):
            labels = frame["stack"].split("/")
            total += 1
            frames.update(set(labels))
            occurrences.update(labels)
        rows += [
            {
                "site": site,
                "header": h,
                "frames": frames[h],
                "occurrences": occurrences[h],
                "guessed_frames": guessed[h],
                "total_frames": total,
                "samples": len(chosen),
                "frame_share": frames[h] / total,
                "occurrence_share": occurrences[h] / total,
            }
            for h in frames
        ]
    return rows


def named_by_payload(frame, sample) -> set[str]:
    """Return the labels above the last transport header that only payload determines, not ports or other frames."""
    labels = frame["stack"].split("/")
    last = max((n for n, label in enumerate(labels) if label in ("TCP", "UDP", "SCTP", "DCCP")), default=len(labels))
    above = [label for label in labels[last + 1 :] if LAYERS.get(label, "app") == "app"]
    if not above or frame["flow"] is None:
        return set()
    flow = next(flow for flow in sample.flows if flow["flow"] == frame["flow"])
    if flow["app"] == "data":
        return set(above)
    ports = PORTS.get((labels[last + 1], labels[last]))
    guessed = (
        ports is not None
        and flow["src_port"] is not None
        and not ports & {str(flow["src_port"]), str(flow["dst_port"])}
    )
    return {labels[last + 1]} & set(above) if guessed else set()


def header_depth(samples):
    """Return the number of distinct headers, and the deepest stack."""
    rows = []
    for site, chosen in scopes(samples):
        stacks = Counter(f["stack"] for f in frames_of(chosen))
        headers = {s: [label for label in s.split("/") if label != "Data"] for s in stacks}  # payload is not a header
        order = sorted(stacks, key=lambda s: (-len(headers[s]), -stacks[s], s))
        rows.append(
            {
                "site": site,
                "distinct_headers": len({label for own in headers.values() for label in own}),
                "distinct_stacks": len(stacks),
                "deepest_stack": len(headers[order[0]]) if order else 0,
                "deepest_example": order[0] if order else None,
                "frames": sum(stacks.values()),
                "samples": len(chosen),
            }
        )
    return rows


def encapsulation(stack: str) -> str:
    """Return the labels before the innermost network header, ignoring packets quoted by ICMP.

    Without a network header, return the leading link headers.
    """
    labels = list(itertools.takewhile(lambda label: label not in ("ICMP", "ICMPv6"), stack.split("/")))
    if network := [n for n, label in enumerate(labels) if label in ("IPv4", "IPv6")]:
        labels = labels[: network[-1]]
    else:
        labels = list(itertools.takewhile(LINK.__contains__, labels))
    return "/".join(labels) or "none"


def encapsulations(samples):
    """Return frames by the labels before the innermost network header."""
    rows = []
    for site, chosen in scopes(samples):
        count, size = Counter(), Counter()
        for frame in frames_of(chosen):
            count[encapsulation(frame["stack"])] += 1
            size[encapsulation(frame["stack"])] += frame["wire_len"]
        total = sum(count.values())
        rows += [
            {
                "site": site,
                "encapsulation": e,
                "frames": count[e],
                "wire_bytes": size[e],
                "total_frames": total,
                "share": count[e] / total,
                "samples": len(chosen),
            }
            for e in count
        ]
    return rows


def frame_sizes(samples):
    """Return frames by length."""
    rows = []
    for site, chosen in scopes(samples):
        frames = frames_of(chosen)
        for length, column in (("outer", "wire_len"), ("inner", "inner_wire_len")):
            for lo, hi in [*BINS, (9216, None)]:
                count = sum(lo <= f[column] and (hi is None or f[column] <= hi) for f in frames)
                name = "<64" if lo == 0 else "64" if lo == 64 else f"{lo}-{hi}" if hi else ">9215"
                rows.append(
                    {
                        "site": site,
                        "length": length,
                        "bin": name,
                        "bin_lo": lo,
                        "bin_hi": hi,
                        "frames": count,
                        "total_frames": len(frames),
                        "share": count / len(frames) if frames else None,
                        "samples": len(chosen),
                    }
                )
    return rows


TRANSPORTS = {"TCP", "UDP", "UDPLite", "SCTP", "DCCP", "ICMP", "ICMPv6", "IGMP"}


def to_transport(labels):
    """Return the labels up to the last transport protocol; all if there is none."""
    places = [n for n, label in enumerate(labels, 1) if label in TRANSPORTS]
    return labels[: places[-1]] if places else labels


def tcp_flags(frame):
    """Return the TCP flags of a frame, from an acap or from naive_frames; None if it has no complete TCP header."""
    if "tcp" in frame:
        return frame["tcp"] and frame["tcp"]["flags"]
    return frame["tcp_flags"]


def header_stack_sizes(samples):
    """Return frames by header stack and length, and TCP frames by content."""
    rows = []
    for site, chosen in scopes(samples):
        groups = defaultdict(list)
        protos = [None if f["flow"] is None else s.flows[f["flow"]]["ip_proto"] for s in chosen for f in s.frames]
        for frame, proto in zip(frames_of(chosen), protos, strict=True):
            lo, hi = next((lo, hi) for lo, hi in [*BINS, (9216, None)] if hi is None or frame["wire_len"] <= hi)
            groups["/".join(to_transport(frame["stack"].split("/"))), lo, hi].append((frame, proto))
        for (stack, lo, hi), members in groups.items():
            tcp = [f for f, _ in members if tcp_flags(f) is not None and f["payload_len"] is not None]
            unknown = [f for f, proto in members if proto == 6 and None in (tcp_flags(f), f["payload_len"])]
            empty = [f for f in tcp if f["payload_len"] == 0]
            rows.append(
                {
                    "site": site,
                    "stack": stack,
                    "bin": "<64" if lo == 0 else "64" if lo == 64 else f"{lo}-{hi}" if hi else ">9215",
                    "bin_lo": lo,
                    "bin_hi": hi,
                    "frames": len(members),
                    "tcp_frames": len(tcp),
                    "no_payload_frames": len(empty),
                    "ack_frames": sum(tcp_flags(f) == 0x010 for f in empty),
                    "cut_tcp_frames": len(unknown),
                    "total_frames": len(frames_of(chosen)),
                    "samples": len(chosen),
                }
            )
    return rows


def ip_versions(samples):
    """Return frames by version of the innermost network header."""
    rows = []
    for site, chosen in scopes(samples):
        count, size = Counter(), Counter()
        for s in chosen:
            for frame in s.frames:
                version = "none" if frame["flow"] is None else str(s.flows[frame["flow"]]["ip_version"])
                count[version] += 1
                size[version] += frame["wire_len"]
        total = sum(count.values())
        rows += [
            {
                "site": site,
                "ip_version": v,
                "frames": count[v],
                "wire_bytes": size[v],
                "total_frames": total,
                "share": count[v] / total if total else None,
                "samples": len(chosen),
            }
            for v in ("4", "6", "none")
        ]
    return rows


def pairs(sample):
    """Return pairs of flows that are each other's peer."""
    flows = sample.flows
    return [
        (f, flows[f["peer_flow"]])
        for f in flows
        if f["peer_flow"] is not None and f["peer_flow"] > f["flow"] and flows[f["peer_flow"]]["peer_flow"] == f["flow"]
    ]


def flows_per_sample(samples):
    """Return the flows of each sample."""
    rows = []
    for s in samples:
        stamps = [f["ts_ns"] for f in s.frames]
        first, last = (min(stamps), max(stamps)) if stamps else (None, None)
        rows.append(
            {
                "site": s.site,
                "port": s.port,
                "sample": s.name,
                "flows": len(s.flows),
                "connections": len(pairs(s)),
                "frames": len(s.frames),
                "flow_frames": sum(f["flow"] is not None for f in s.frames),
                "wire_bytes": sum(f["wire_len"] for f in s.frames),
                "first_ns": first,
                "last_ns": last,
                "duration_ns": last - first if stamps else None,
            }
        )
    return rows


def applications(samples):
    """Return flows by application label."""
    rows = []
    for site, chosen in scopes(samples):
        groups = defaultdict(list)
        for s in chosen:
            for flow in s.flows:
                groups[flow["app"], flow["app_by"]].append((s.name, flow))
        for (app, by), members in groups.items():
            sums = {k: sum(f[k] for _, f in members) for k in ("frames", "wire_bytes", "payload_bytes")}
            rows.append(
                {
                    "site": site,
                    "app": app,
                    "app_by": by,
                    "flows": len(members),
                    **sums,
                    "samples": len({n for n, _ in members}),
                }
            )
    return rows


def nearest_rank(values, percent):
    """Return the smallest value that at least ``percent`` % of the values do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1] if values else None


def tcp_control(samples):
    """Return TCP control information."""
    rows = []
    for site, chosen in scopes(samples):
        flows = [f for s in chosen for f in s.flows if f["syn"] is not None]
        tcp_pairs = [p for s in chosen for p in pairs(s) if p[0]["ip_proto"] == 6]
        rtts = [next((f["handshake_rtt_ns"] for f in p if f["handshake_rtt_ns"] is not None), None) for p in tcp_pairs]
        rtts = [rtt for rtt in rtts if rtt is not None]
        names = ("frames", *FLAGS, "retransmitted_bytes", "payload_bytes", "duplicate_acks")
        rows.append(
            {
                "site": site,
                "flows": len(flows),
                **{n: sum(f[n] or 0 for f in flows) for n in names},
                "connections": len(tcp_pairs),
                "handshakes": len(rtts),
                "handshake_rtt_p50_ns": nearest_rank(rtts, 50),
                "handshake_rtt_p99_ns": nearest_rank(rtts, 99),
                "samples": len(chosen),
            }
        )
    return rows


def throughput(samples, bin_ns=10**9):
    """Return bytes and frames by time."""
    rows = []
    for (site, port), chosen in by_port(samples):
        frames, size, seen = Counter(), Counter(), defaultdict(set)
        for s in chosen:
            for f in s.frames:
                start = f["ts_ns"] // bin_ns * bin_ns
                frames[start] += 1
                size[start] += f["wire_len"]
                seen[start].add(s.name)
            if s.span and s.span[2] == "manifest":
                known = s.manifest["actual"]
                for start in range(known["start_ns"] // bin_ns * bin_ns, known["end_ns"], bin_ns):
                    frames[start] += 0
            elif s.span:  # from its first frame to its last one, bin by bin
                first, last = (instant // bin_ns for instant in s.span[:2])
                if s.span[1] - s.span[0] < 100_000 * bin_ns:
                    for number in range(first, last + 1):
                        frames[number * bin_ns] += 0
        for start in frames:
            cover = sum(max(0, min(hi, start + bin_ns) - max(lo, start)) for lo, hi in covered(chosen))
            rows.append(
                {
                    "site": site,
                    "port": port,
                    "start_ns": start,
                    "bin_ns": bin_ns,
                    "covered_ns": cover,
                    "frames": frames[start],
                    "wire_bytes": size[start],
                    "rate_bps": rate(size[start], cover),
                    "samples": len(seen[start]),
                }
            )
    return rows


def restrictions(samples, which="unfiltered"):
    """Return samples by restriction, and whether they count."""
    counted = {s.name for s in traffic(samples, which)}
    groups = defaultdict(list)
    for s in samples:
        groups[s.name not in counted, ", ".join(s.restrictions) or None, detail(s)].append(s)
    return [
        {
            "excluded": excluded,
            "restriction": restriction,
            "detail": text,
            "samples": len(chosen),
            "frames": len(frames_of(chosen)),
            "wire_bytes": sum(f["wire_len"] for f in frames_of(chosen)),
        }
        for (excluded, restriction, text), chosen in groups.items()
    ]


def detail(sample):
    """Return the restrictions of a sample as text."""
    m, declared = sample.manifest, sample.declared
    program = (m.get("p4") or {}).get("program") or declared.get("p4")
    words = {
        "trial": "replayed trial",
        "filter": f"filter {m.get('filter') or declared.get('filter') or ''}".strip(),
        "p4": f"P4 program {program or ''}".strip(),
        "sampling": f"one frame in {one_in(sample)}" if one_in(sample) else "sampling",
    }
    return "; ".join(words[reason] for reason in sample.restrictions) or None


def one_in(sample):
    """Return N if one in N frames was kept, according to the manifest or the sample sheet."""
    return sample.manifest.get("one_in") or int(sample.declared.get("sampling") or 0) or None


def filtered(sample):
    """Return whether a filter or a P4 program removed frames; None if this is unknown."""
    m = sample.manifest
    if m["testbed"] != "files" or m["filter"]:
        return bool(m["filter"])
    return True if {"filter", "p4"} & set(sample.declared) else None


def time_ranges(samples):
    """Return by sample whether it is misdated, and the shares of the campaign's time that it and its port cover."""
    wrong = misdated(samples)
    dated = [s for s in samples if s.span and not wrong[s.name]]
    length = max(s.span[1] for s in dated) - min(s.span[0] for s in dated) if dated else 0
    port_ns = {place: sum(b - a for a, b in covered(chosen)) for place, chosen in by_port(dated)}

    def share(ns):
        return ns / length if ns is not None and length else None

    return {
        s.name: {
            "misdated": wrong[s.name],
            "coverage_share": share(s.span[1] - s.span[0]) if s in dated else None,
            "port_coverage_share": share(port_ns.get((s.site, s.port))),
        }
        for s in samples
    }


def capture_quality(samples, which="unfiltered"):
    """Return the losses of each sample and how it was captured."""
    counted = {s.name for s in traffic(samples, which)}
    ranges = time_ranges(samples)
    reasons = {s.name: ", ".join(s.restrictions) or None for s in samples}
    return [
        {
            **quality_row(s),
            **ranges[s.name],
            "restriction": reasons[s.name],
            "excluded": None if s.name in counted else reasons[s.name],
        }
        for s in samples
    ]


def survival(lost, of):
    """Return the share of frames that were not lost, in a list; [] if there were no frames or no counters."""
    return [1 - Fraction(lost, of)] if of and lost is not None else []


def quality_row(s):
    """Return one row of capture_quality."""
    m, mirror, n = s.manifest, s.manifest["mirror"], len(s.frames)
    stages = [
        None
        if None in (mirror["offered_frames"], mirror["delivered_frames"])
        else max(0, mirror["offered_frames"] - mirror["delivered_frames"]),
        m["dropped_interface"],
        m["dropped_kernel"],
        None if m["frames_captured"] is None else max(0, m["frames_captured"] - n),
    ]
    known = [stage for stage in stages if stage is not None]
    # the file alone only shows a loss if it lacks frames
    lost = sum(known) if stages[3] or any(stage is not None for stage in stages[:3]) else None
    stamps = [f["ts_ns"] for f in s.frames]
    steps = [b - a for a, b in itertools.pairwise(stamps)]
    start, end, by = s.span or (None, None, None)
    duration = end - start if s.span else None

    def count(column, value):
        return sum(f[column] == value for f in s.frames)

    kept = n + (m.get("sampled_out") or 0)
    arrives = survival(stages[0], mirror["offered_frames"])
    arrives = [*arrives, *survival(sum(stage or 0 for stage in stages[1:]), kept + sum(s or 0 for s in stages[1:]))]
    return {
        "site": s.site,
        "port": s.port,
        "direction": m["direction"],
        "sample": s.name,
        "method": m["method"],
        "snaplen": m["snaplen"],
        "filtered": filtered(s),
        "one_in": one_in(s),
        "sampled_out": 0 if m.get("one_in") == 1 else m.get("sampled_out"),
        "frames": n,
        "wire_bytes": sum(f["wire_len"] for f in s.frames),
        **{k: m[k] for k in ("frames_received", "frames_captured", "dropped_kernel", "dropped_interface", "sha256")},
        "mirror_offered": mirror["offered_frames"],
        "mirror_delivered": mirror["delivered_frames"],
        "mirror_offered_bytes": mirror["offered_bytes"],
        "mirror_delivered_bytes": mirror["delivered_bytes"],
        "lost_frames": lost,
        "loss_share": float(1 - math.prod(arrives)) if lost is not None and arrives else None,
        "loss_stages_known": len(known),
        "clock_resolution_ns": s.digest["clock_resolution_ns"],
        "equal_stamps_share": steps.count(0) / len(steps) if steps else None,
        "time_reversals": sum(step < 0 for step in steps),
        "requested_start_ns": m["requested"]["start_ns"],
        "requested_end_ns": m["requested"]["end_ns"],
        "actual_start_ns": start,
        "actual_end_ns": end,
        "actual_by": by,
        "duration_ns": duration,
        "untimed_frames": count("ts_ns", None),
        "implausible_frames": s.digest.get("implausible_times"),
        "issue_frames": n
        - count("issue", None)
        - count("issue", "no_timestamp")
        - count("issue", "implausible_timestamp"),
        "undissected_frames": sum(
            f["issue"] == "unsupported_link_type" or f["stack"] in ("Data", "USER_DLT", "USER_DLT/Data")
            for f in s.frames
        ),
        "l4_tshark_frames": count("l4_by", "tshark"),
        "l4_unsure_frames": count("l4_by", "unsure"),
        "app_flow_frames": count("app_by", "flow"),
        "app_undecided_frames": count("app_by", None),
        "peers_ambiguous": s.digest["peers_ambiguous"],
        "file_issue": s.digest["file_issue"],
        "file_unread_bytes": s.digest["file_unread_bytes"],
        "engine": s.digest["engine"],
    }


OF_ALL_SAMPLES = {f.__name__: f for f in (capture_quality, restrictions)}
OF_TRAFFIC = {
    f.__name__: f
    for f in (
        applications,
        encapsulations,
        flow_sizes,
        flow_times,
        flows_per_sample,
        frame_sizes,
        header_depth,
        header_stack_sizes,
        header_occurrence,
        ip_versions,
        tcp_control,
        throughput,
        top_flows,
    )
} | {"stitched_flows": site_flows}
TABLES = {*OF_ALL_SAMPLES, *OF_TRAFFIC}


def table(name, samples, which="unfiltered"):
    """Return the rows of a table; ``which`` samples count as traffic: unfiltered or all."""
    if name in OF_ALL_SAMPLES:
        return OF_ALL_SAMPLES[name](samples, which)
    return OF_TRAFFIC[name](traffic(samples, which))
