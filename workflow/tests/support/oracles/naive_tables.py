"""Naive reference of every table of a campaign: loops over frames and flows, one definition after the other.

It follows schemas/tables/*.yaml, not the SQL. Confidence intervals are tested in test_bootstrap.py.
"""

import functools
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

from acapella_testing.oracles.naive_applications import application
from acapella_testing.oracles.naive_samples import by_port, covered, misdated, rate, scopes, traffic
from acapella_testing.oracles.naive_stitch import flow_sizes, flow_times, site_flows, top_flows
from acapella_testing.source_tree import ROOT

EDGES = (0, 64, 65, 128, 256, 512, 1024, 1519, 2048, 4096, 9216)  # first lengths of the bins
LINK = {"Ethernet", "LLC", "VLAN", "MPLS", "PseudoWire", "PPPoE", "PPP", "SLL", "Null", "Raw", "MACsec"}
FLAGS = ("syn", "syn_ack", "fin", "rst", "psh", "ack", "urg", "ece", "cwr")


def lines_of(name: str) -> list[list[str]]:
    """Return the fields of all lines of a table of schemas/ except the first."""
    return [line.split("\t") for line in (ROOT / "schemas" / name).read_text(encoding="utf-8").splitlines()[1:]]


LABELS = {token: label for token, label, _ in lines_of("protocols.tsv")}
LAYERS = {label: layer for _, label, layer in lines_of("protocols.tsv")}
PORTS = {(LABELS.get(t, t.upper()), over.upper()): set(ports.split()) for t, over, ports in lines_of("heuristics.tsv")}


def frames_of(samples):
    """Return all frames of several samples."""
    return [f for s in samples for f in s.frames]


def for_each_site(rows_of):
    """Decorate a table: compute its rows for each site and for all samples, and add site and number of samples."""

    @functools.wraps(rows_of)
    def table(samples):
        return [
            {"site": site, "samples": len(chosen), **row} for site, chosen in scopes(samples) for row in rows_of(chosen)
        ]

    return table


def bin_of(length) -> dict:
    """Return the columns of the bin of a length."""
    lo = max(edge for edge in EDGES if edge <= length)
    hi = min((edge - 1 for edge in EDGES if edge > lo), default=None)
    return {"bin": {0: "<64", 64: "64", 9216: ">9215"}.get(lo, f"{lo}-{hi}"), "bin_lo": lo, "bin_hi": hi}


def frames_and_bytes(frames, group_of) -> list[tuple]:
    """Return (group, number of frames, their bytes, share of all frames) of each group of frames."""
    groups = defaultdict(list)
    for frame in frames:
        groups[group_of(frame)].append(frame["wire_len"])
    return [(group, len(sizes), sum(sizes), len(sizes) / len(frames)) for group, sizes in groups.items()]


@for_each_site
def header_occurrence(samples):
    """Return the frames with each header, and its number of occurrences."""
    stacks = [frame["stack"].split("/") for frame in frames_of(samples)]
    frames = Counter(label for stack in stacks for label in set(stack))
    occurrences = Counter(label for stack in stacks for label in stack)
    guessed = Counter(label for s in samples for frame in s.frames for label in named_by_payload(frame, s))
    for header, count in frames.items():
        counts = {"frames": count, "occurrences": occurrences[header], "guessed_frames": guessed[header]}
        shares = {"frame_share": count / len(stacks), "occurrence_share": occurrences[header] / len(stacks)}
        yield {"header": header, "total_frames": len(stacks), **counts, **shares}


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
    if ports is None:
        return set()
    guessed = flow["src_port"] is not None and not ports & {str(flow["src_port"]), str(flow["dst_port"])}
    return {labels[last + 1]} & set(above) if guessed else set()


@for_each_site
def header_depth(samples):
    """Return the number of distinct headers, and the deepest stack."""
    stacks = Counter(f["stack"] for f in frames_of(samples))
    headers = {s: [label for label in s.split("/") if label != "Data"] for s in stacks}  # payload is not a header
    order = sorted(stacks, key=lambda s: (-len(headers[s]), -stacks[s], s))
    distinct = {label for own in headers.values() for label in own}
    yield {
        **{"distinct_headers": len(distinct), "distinct_stacks": len(stacks), "frames": stacks.total()},
        "deepest_stack": len(headers[order[0]]) if order else 0,
        "deepest_example": order[0] if order else None,
    }


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


@for_each_site
def encapsulations(samples):
    """Return frames by the labels before the innermost network header."""
    frames = frames_of(samples)
    for name, count, size, share in frames_and_bytes(frames, lambda frame: encapsulation(frame["stack"])):
        yield {"encapsulation": name, "frames": count, "wire_bytes": size, "total_frames": len(frames), "share": share}


@for_each_site
def frame_sizes(samples):
    """Return frames by length."""
    frames = frames_of(samples)
    for length, column in (("outer", "wire_len"), ("inner", "inner_wire_len")):
        bins = Counter(bin_of(frame[column])["bin"] for frame in frames)
        for columns in map(bin_of, EDGES):
            count = bins[columns["bin"]]
            share = count / len(frames) if frames else None
            yield {"length": length, **columns, "frames": count, "total_frames": len(frames), "share": share}


TRANSPORTS = {"TCP", "UDP", "UDPLite", "SCTP", "DCCP", "ICMP", "ICMPv6", "IGMP"}


def to_transport(labels):
    """Return the labels up to the last transport protocol; all if there is none."""
    ends = [n for n, label in enumerate(labels, 1) if label in TRANSPORTS]
    return labels[: ends[-1]] if ends else labels


def tcp_flags(frame):
    """Return the TCP flags of a frame, from an acap or from naive_frames; None if it has no complete TCP header."""
    if "tcp" in frame:
        return frame["tcp"] and frame["tcp"]["flags"]
    return frame["tcp_flags"]


@for_each_site
def header_stack_sizes(samples):
    """Return frames by header stack and length, and TCP frames by content."""
    groups = defaultdict(list)
    for s in samples:
        for frame in s.frames:
            stack = "/".join(to_transport(frame["stack"].split("/")))
            proto = None if frame["flow"] is None else s.flows[frame["flow"]]["ip_proto"]
            groups[stack, *bin_of(frame["wire_len"]).items()].append((frame, proto))
    for (stack, *columns), members in groups.items():
        tcp = [f for f, _ in members if tcp_flags(f) is not None and f["payload_len"] is not None]
        unknown = [f for f, proto in members if proto == 6 and None in (tcp_flags(f), f["payload_len"])]
        empty = [f for f in tcp if f["payload_len"] == 0]
        yield {
            **{"stack": stack, **dict(columns), "frames": len(members), "total_frames": len(frames_of(samples))},
            **{"tcp_frames": len(tcp), "no_payload_frames": len(empty), "cut_tcp_frames": len(unknown)},
            "ack_frames": sum(tcp_flags(f) == 0x010 for f in empty),
        }


def last_ip_version(stack):
    """Return the version of the last IP header of a header stack, ignoring packets quoted by ICMP."""
    labels = itertools.takewhile(lambda label: label not in ("ICMP", "ICMPv6"), stack.split("/"))
    return [label[-1] for label in labels if label in ("IPv4", "IPv6")][-1]


@for_each_site
def ip_versions(samples):
    """Return frames by version of the innermost network header."""
    frames = [
        {**frame, "version": "none" if frame["flow"] is None else last_ip_version(frame["stack"])}
        for s in samples
        for frame in s.frames
    ]
    found = {version: rest for version, *rest in frames_and_bytes(frames, lambda frame: frame["version"])}
    for version in ("4", "6", "none"):
        count, size, share = found.get(version, (0, 0, 0.0 if frames else None))
        yield {"ip_version": version, "frames": count, "wire_bytes": size, "total_frames": len(frames), "share": share}


def pairs(sample):
    """Return pairs of flows that are each other's peer."""
    flows = sample.flows
    return [
        (f, flows[f["peer_flow"]])
        for f in flows
        if f["peer_flow"] is not None and f["peer_flow"] > f["flow"] and flows[f["peer_flow"]]["peer_flow"] == f["flow"]
    ]


def flows_per_sample(samples):
    """Yield the number of flows of each sample."""
    for s in samples:
        stamps = [f["ts_ns"] for f in s.frames]
        first, last = (min(stamps), max(stamps)) if stamps else (None, None)
        yield {
            **{"site": s.site, "port": s.port, "sample": s.name},
            **{"flows": len(s.flows), "connections": len(pairs(s)), "frames": len(s.frames)},
            "flow_frames": sum(f["flow"] is not None for f in s.frames),
            "wire_bytes": sum(f["wire_len"] for f in s.frames),
            **{"first_ns": first, "last_ns": last, "duration_ns": last - first if stamps else None},
        }


@for_each_site
def applications(samples):
    """Return flows by application; `samples` is the number of samples with the application."""
    groups = defaultdict(list)
    for sample in samples:
        for flow in sample.flows:
            groups[application(flow, sample)].append((sample.name, flow))
    for app, members in groups.items():
        sources = {flow["app_by"] for _, flow in members}
        by = next((source for source in ("flow", "tshark") if source in sources), None)
        sums = {k: sum(f[k] for _, f in members) for k in ("frames", "wire_bytes", "payload_bytes")}
        counts = {"flows": len(members), "samples": len({name for name, _ in members})}
        yield {"app": app, "app_by": by, **counts, **sums}


def nearest_rank(values, percent):
    """Return the smallest value that at least ``percent`` % of the values do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1] if values else None


@for_each_site
def tcp_control(samples):
    """Return TCP control information."""
    flows = [f for s in samples for f in s.flows if f["syn"] is not None]
    tcp_pairs = [p for s in samples for p in pairs(s) if p[0]["ip_proto"] == 6]
    rtts = [next((f["handshake_rtt_ns"] for f in p if f["handshake_rtt_ns"] is not None), None) for p in tcp_pairs]
    rtts = [rtt for rtt in rtts if rtt is not None]
    names = ("frames", *FLAGS, "retransmitted_bytes", "payload_bytes", "duplicate_acks")
    yield {
        **{"flows": len(flows), "connections": len(tcp_pairs), "handshakes": len(rtts)},
        **{name: sum(f[name] or 0 for f in flows) for name in names},
        **{f"handshake_rtt_p{percent}_ns": nearest_rank(rtts, percent) for percent in (50, 99)},
    }


def throughput(samples, bin_ns=10**9):
    """Yield bytes and frames by time."""
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
            yield {
                **{"site": site, "port": port, "start_ns": start, "bin_ns": bin_ns, "covered_ns": cover},
                **{"frames": frames[start], "wire_bytes": size[start], "samples": len(seen[start])},
                "rate_bps": rate(size[start], cover),
            }


def restrictions(samples, which="unfiltered"):
    """Return samples by restriction, and whether they count."""
    counted = {s.name for s in traffic(samples, which)}
    groups = defaultdict(list)
    for s in samples:
        groups[s.name not in counted, ", ".join(s.restrictions) or None, detail(s)].append(s)
    return [
        {
            **{"excluded": excluded, "restriction": restriction, "detail": text},
            **{"samples": len(chosen), "frames": len(frames_of(chosen))},
            "wire_bytes": sum(f["wire_len"] for f in frames_of(chosen)),
        }
        for (excluded, restriction, text), chosen in groups.items()
    ]


def detail(sample):
    """Return the restrictions of a sample as text."""
    m, declared = sample.manifest, sample.declared
    program = (m.get("p4") or {}).get("program") or declared.get("p4")
    words = {
        "trial": "trial",
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


def survival(lost, total):
    """Return the share of frames that were not lost, in a list; [] if there were no frames or no counters."""
    return [1 - Fraction(lost, total)] if total and lost is not None else []


def lost_between(before, after) -> int | None:
    """Return how many frames are lost between two counters; None if one is unknown."""
    return None if None in (before, after) else max(0, before - after)


def silences(s, bin_ns=10**9, least_ns=60 * 10**9):
    """Return the sum and the longest of the times between frames that no manifest shows as captured."""
    bins = sorted({f["ts_ns"] // bin_ns for f in s.frames if f["ts_ns"] is not None})
    if not bins:
        return {"silence_ns": None, "longest_silence_ns": None}
    known = s.manifest["actual"] if s.span[2] == "manifest" else {"start_ns": 0, "end_ns": 0}
    found = []
    for start, end in ((bin_ns * (a + 1), bin_ns * b) for a, b in itertools.pairwise(bins)):
        captured = max(0, min(end, known["end_ns"]) - max(start, known["start_ns"]))
        found += [end - start - captured] if end - start - captured >= least_ns else []
    return {"silence_ns": sum(found), "longest_silence_ns": max(found, default=0)}


def quality_row(s):
    """Return one row of capture_quality."""
    m, mirror, n = s.manifest, s.manifest["mirror"], len(s.frames)
    stages = [
        lost_between(mirror["offered_frames"], mirror["delivered_frames"]),
        *(m["dropped_interface"], m["dropped_kernel"]),
        lost_between(m["frames_captured"], n),
    ]
    known = [stage for stage in stages if stage is not None]
    # without counters of the other stages, loss is known only if the file lacks frames
    lost = sum(known) if stages[3] or any(stage is not None for stage in stages[:3]) else None
    steps = [b - a for a, b in itertools.pairwise(f["ts_ns"] for f in s.frames)]
    start, end, by = s.span or (None, None, None)

    def count(column, *values):
        return sum(f[column] in values for f in s.frames)

    unsampled = n + (m.get("sampled_out") or 0)
    lost_after_mirror = sum(stage or 0 for stage in stages[1:])
    survived = survival(stages[0], mirror["offered_frames"])
    survived = [*survived, *survival(lost_after_mirror, unsampled + lost_after_mirror)]
    settings = ("direction", "method", "snaplen", "sha256")
    counters = ("frames_received", "frames_captured", "dropped_kernel", "dropped_interface")
    of_digest = ("clock_resolution_ns", "peers_ambiguous", "file_issue", "file_unread_bytes", "engine")
    of_mirror = ("offered_frames", "delivered_frames", "offered_bytes", "delivered_bytes")
    return {
        **{"site": s.site, "port": s.port, "sample": s.name, "filtered": filtered(s), "one_in": one_in(s)},
        **{key: m[key] for key in (*settings, *counters)},
        **{f"mirror_{key.removesuffix('_frames')}": mirror[key] for key in of_mirror},
        **{key: s.digest[key] for key in of_digest},
        **{f"requested_{key}": m["requested"][key] for key in ("start_ns", "end_ns")},
        **{"actual_start_ns": start, "actual_end_ns": end, "actual_by": by},
        "duration_ns": end - start if s.span else None,
        **silences(s),
        "sampled_out": 0 if m.get("one_in") == 1 else m.get("sampled_out"),
        **{"frames": n, "wire_bytes": sum(f["wire_len"] for f in s.frames)},
        **{"lost_frames": lost, "loss_stages_known": len(known)},
        "loss_share": float(1 - math.prod(survived)) if lost is not None and survived else None,
        "equal_stamps_share": steps.count(0) / len(steps) if steps else None,
        "time_reversals": sum(step < 0 for step in steps),
        **{"untimed_frames": count("ts_ns", None), "implausible_frames": s.digest.get("implausible_times")},
        "issue_frames": n - count("issue", None, "no_timestamp", "implausible_timestamp"),
        "undissected_frames": sum(
            f["issue"] == "unsupported_link_type" or f["stack"] in ("Data", "USER_DLT", "USER_DLT/Data")
            for f in s.frames
        ),
        **{"l4_tshark_frames": count("l4_by", "tshark"), "l4_unsure_frames": count("l4_by", "unsure")},
        **{"app_flow_frames": count("app_by", "flow"), "app_undecided_frames": count("app_by", None)},
    }


TABLES_OF_ALL_SAMPLES = {f.__name__: f for f in (capture_quality, restrictions)}
TABLES_OF_TRAFFIC = {
    f.__name__: f
    for f in (
        *(applications, encapsulations, flow_sizes, flow_times, flows_per_sample, frame_sizes, header_depth),
        *(header_stack_sizes, header_occurrence, ip_versions, tcp_control, throughput, top_flows),
    )
} | {"stitched_flows": site_flows}
TABLES = {*TABLES_OF_ALL_SAMPLES, *TABLES_OF_TRAFFIC}


def table(name, samples, which="unfiltered"):
    """Return the rows of a table; ``which`` samples count as traffic: unfiltered or all."""
    if name in TABLES_OF_ALL_SAMPLES:
        return TABLES_OF_ALL_SAMPLES[name](samples, which)
    return [*TABLES_OF_TRAFFIC[name](traffic(samples, which))]
