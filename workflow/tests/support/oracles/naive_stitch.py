"""Naive reference of stitched flows, their distributions, and the largest flows."""

import itertools
from collections import Counter, defaultdict
from fractions import Fraction

from acapella_testing.oracles.naive_applications import application
from acapella_testing.oracles.naive_samples import by_port, covered, rate, scopes
from acapella_testing.oracles.naive_tunnels import NETWORK

R10 = [Fraction(m) for m in ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")]
THRESHOLDS = [int(m * 10**e) for e in range(19) for m in R10 if (m * 10**e).denominator == 1]


def port_flows(samples):
    """Return flows stitched across the samples of a port."""
    stitched = []
    for (site, port), chosen in by_port(samples):
        groups = defaultdict(list)
        for s in chosen:
            for flow in s.flows:
                groups[flow["flow_id"]].append((flow["first_ns"], s.name, flow | {"app": application(flow, s)}))
        islands = covered(chosen)
        stitched += [
            stitch(site, port, flow_id, sorted(parts, key=lambda p: p[:2]), islands)
            for flow_id, parts in groups.items()
        ]
    return stitched


def stitch(site, port, flow_id, parts, islands):
    """Return one flow of several samples."""
    flows = [flow for _, _, flow in parts]
    first, last = min(f["first_ns"] for f in flows), max(f["last_ns"] for f in flows)
    holes = [b[0] - a[1] for a, b in itertools.pairwise(islands) if first <= a[1] and last >= b[0]]
    apps = Counter()
    for f in flows:
        apps[f["app"]] += f["frames"] if f["app"] else 0
    app = min((a for a in apps if a), key=lambda a: (-apps[a], a), default=None)
    sources = {f["app_by"] for f in flows if f["app"] == app}
    row = {k: flows[0][k] for k in ("ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")}
    row |= {k: "/".join(map(str, flows[0][k])) for k in ("vlan", "mpls")}
    row["tunnels"] = "/".join(f"{t['type']}*{t['id']}*{t['position']}" for t in flows[0].get("tunnels", []))
    row |= {k: sum(f[k] for f in flows) for k in ("frames", "wire_bytes", "ip_bytes", "payload_bytes")}
    ends = [f["cut_end"] for f in flows]
    return row | {
        **{"site": site, "port": port, "flow_id": flow_id, "samples": len(parts)},
        **{"first_ns": first, "last_ns": last, "duration_ns": last - first, "gaps": len(holes), "gap_ns": sum(holes)},
        "cut_start": flows[0]["cut_start"],
        "cut_end": None if None in ends else all(ends),
        "app": app,
        "app_by": next((source for source in ("flow", "tshark") if source in sources), None),
        "rate_bps": rate(row["wire_bytes"], last - first - sum(holes)),
    }


def site_flows(samples):
    """Return each flow of a site at the port with the most of its bytes."""
    groups = defaultdict(list)
    for flow in port_flows(samples):
        groups[flow["site"], flow["flow_id"]].append(flow)
    best = [min(flows, key=lambda f: (-f["wire_bytes"], -f["frames"], f["port"])) for flows in groups.values()]
    return [{**f, "largest_port": f["port"], "ports": len(groups[f["site"], f["flow_id"]])} for f in best]


def network(flow):
    """Return the tunnel identifiers that identify a network."""
    tunnels = [tunnel.split("*") for tunnel in flow["tunnels"].split("/") if tunnel]
    return tuple((name, number) for name, number, _ in tunnels if name in NETWORK)


def campaign_flows(samples):
    """Return each flow of the campaign at the site with the most of its bytes.

    The k-th flow of a site matches the k-th of another one with equal ends and network. If there is only one network,
    flows without a network belong to it, unless a site has both kinds of flows.
    """
    by_ends = defaultdict(list)
    for flow in site_flows(samples):
        by_ends[tuple(flow[k] for k in ("ip_version", "src", "dst", "ip_proto", "src_port", "dst_port"))].append(flow)
    groups = defaultdict(list)
    for ends, flows in by_ends.items():
        networks = {network(flow) for flow in flows} - {()}
        sites = [{network(flow) for flow in flows if flow["site"] == site} for site in {flow["site"] for flow in flows}]
        joined = len(networks) == 1 and all(len(found) == 1 for found in sites)
        for flow in flows:
            groups[(*ends, () if joined else network(flow)), flow["site"]].append(flow)
    by_rank = defaultdict(list)
    for (ends, _), flows in groups.items():
        for rank, flow in enumerate(sorted(flows, key=lambda f: (-f["wire_bytes"], -f["frames"], f["flow_id"]))):
            by_rank[ends, rank].append(flow)
    best = [min(flows, key=lambda f: (-f["wire_bytes"], -f["frames"], f["site"])) for flows in by_rank.values()]
    return [{**flow, "largest_site": flow["site"]} for flow in best]


def top_flows(samples, top=100):
    """Return the largest flows."""
    groups = defaultdict(list)
    for flow in site_flows(samples):
        groups[flow["site"]].append({**flow, "largest_site": flow["site"]})
    groups["all"] = campaign_flows(samples)
    rows = []
    for site, flows in groups.items():
        order = sorted(flows, key=lambda f: (-f["wire_bytes"], f["flow_id"], f["largest_site"]))
        rows += [{**flow, "site": site, "rank": rank} for rank, flow in enumerate(order[:top], 1)]
    return rows


def distributions(samples, measures):
    """Yield (scope, site, measure, threshold, flows_ge, flows, samples)."""
    values = defaultdict(list)
    counts = {site: len(chosen) for site, chosen in scopes(samples)}
    single = [
        flow | {"site": s.site, "duration_ns": flow["last_ns"] - flow["first_ns"]} for s in samples for flow in s.flows
    ]
    single = [flow | {"rate_bps": rate(flow["wire_bytes"], flow["duration_ns"])} for flow in single]
    flows_of = {"sample": single, "port": port_flows(samples), "site": site_flows(samples)}
    flows_of["campaign"] = campaign_flows(samples)
    for scope, flow in [(scope, flow) for scope, flows in flows_of.items() for flow in flows]:
        sites = ("all",) if scope == "campaign" else (flow["site"], "all")
        for site, (measure, column) in itertools.product(sites, measures.items()):
            values[scope, site, measure].append(flow[column])
    for (scope, site, measure), own in values.items():
        known = [v for v in own if v is not None]
        for threshold in THRESHOLDS:
            if reached := sum(v >= threshold for v in known):
                yield scope, site, measure, threshold, reached, len(known), counts[site]


def flow_sizes(samples):
    """Return the distribution of bytes."""
    return rows_of(samples, {"wire": "wire_bytes", "ip": "ip_bytes", "payload": "payload_bytes"}, "bytes")


def flow_times(samples):
    """Return the distributions of durations and rates."""
    return rows_of(samples, {"duration_ns": "duration_ns", "rate_bps": "rate_bps"}, "value")


def rows_of(samples, measures, column):
    """Return the rows of a table of distributions, with the threshold in a column."""
    names = ("scope", "site", "measure", column, "flows_ge", "flows", "samples")
    rows = [dict(zip(names, found, strict=True)) for found in distributions(samples, measures)]
    return [row | {"ccdf": row["flows_ge"] / row["flows"]} for row in rows]
