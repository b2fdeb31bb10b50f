"""A synthetic campaign of any size: acaps and flows with plausible, consistent numbers.

The frames are drawn with numpy, the flow table is computed from them, and all values depend only on the arguments.
No captures are generated: the digest has its own tests.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from acapella_testing.generated.digests import write_digest, write_manifest
from acapella_testing.new_files import write_file

from acapella.common.tables import arrow_schema

START_NS = 1_700_000_000_000_000_000
SAMPLE_NS = 20_000_000_000
PERIOD_NS = 300_000_000_000
SYN, ACK, PSH, FIN, RST = 0x02, 0x10, 0x08, 0x01, 0x04
PSEUDOWIRE = "eth:ethertype:vlan:ethertype:mpls:pwethheuristic:pwethcw:eth:ethertype"
UNDERLAYS = (  # stack, protocols, bytes before the innermost frame's network header, VLANs, MPLS labels
    ("Ethernet", "eth:ethertype", 14, 0, 0),
    ("Ethernet/VLAN", "eth:ethertype:vlan:ethertype", 18, 1, 0),
    ("Ethernet/VLAN/MPLS", "eth:ethertype:vlan:ethertype:mpls", 22, 1, 1),
    ("Ethernet/VLAN/MPLS/PseudoWire/Ethernet", PSEUDOWIRE, 40, 1, 1),
    ("Ethernet/VLAN/MPLS/MPLS/PseudoWire/Ethernet", PSEUDOWIRE, 44, 1, 2),
)
APPS = (  # label, token, protocol, port
    ("TLS", "tls", 6, 443),
    ("HTTP", "http", 6, 80),
    ("SSH", "ssh", 6, 22),
    ("Data", "data", 6, 5201),
    ("DNS", "dns", 17, 53),
    ("Data", "data", 17, 5201),
    ("QUIC", "quic", 17, 4433),
)
NO_IP = (("ARP", "arp", 42), ("LLDP", "lldp", 120))


@dataclass(frozen=True)
class Pool:
    """The directed flows of a site: arrays with one entry per flow; flow 2k+1 is the peer of flow 2k."""

    underlay: np.ndarray
    app: np.ndarray
    version: np.ndarray
    vlan: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    flow_id: list[str]
    src: list[str]
    dst: list[str]
    src_port: np.ndarray
    dst_port: np.ndarray


@dataclass(frozen=True)
class Sample:
    """Place and start of a sample."""

    name: str
    site: str
    port: str
    start_ns: int


def make_campaign(  # noqa: PLR0913
    directory, *, sites=3, ports=2, samples=4, seed=1, frames=2000, flows=200, names=None, empty=1
) -> Path:
    """Write raw/*.json, raw/samples.tsv, acap/ and flows/ of a campaign of ``sites`` x ``ports`` x ``samples``.

    ``frames`` is the mean number of frames per sample, ``flows`` the number of directed flows of a site, ``names`` the
    sites, ``empty`` the number of ports whose third sample is empty. Returns the directory.
    """
    directory, lines = Path(directory), ["sample\tsite\tport\tfile\n"]
    for s, site in enumerate([f"SITE{s:02d}" for s in range(sites)] if names is None else names):
        pool = make_pool(site, flows, np.random.default_rng([seed, s]))
        for p in range(ports):
            port = f"HundredGigE0/0/0/{p}"
            for n in range(samples):
                rng = np.random.default_rng([seed, s, p, n])
                start = START_NS + n * PERIOD_NS + p * 25_000_000_000
                sample = Sample(f"site{s:02d}-p{p}-{n:04d}", site, port, start)
                has_frames = frames and (n != 2 or s * ports + p >= empty)
                count = int(rng.lognormal(np.log(frames), 0.5)) if has_frames else 0
                meta = write_sample(directory, sample, *make_sample(pool, sample, count, rng))
                add_manifest(directory, sample, meta, rng)
                lines.append(f"{sample.name}\t{site}\t{port}\t{sample.name}.pcap\n")
    write_file(directory / "raw" / "samples.tsv", "".join(lines))
    return directory


def make_pool(site, flows, rng) -> Pool:
    """Draw encapsulation, application and addresses of the flows of a site; half are peers of the others."""
    pairs = max(1, flows // 2)
    underlay = rng.choice(len(UNDERLAYS), pairs, p=rng.dirichlet(np.full(len(UNDERLAYS), 0.7))).repeat(2)
    app = rng.choice(len(APPS), pairs, p=rng.dirichlet(np.full(len(APPS), 0.8))).repeat(2)
    version = np.where(rng.random(pairs) < 0.05, 6, 4).repeat(2)
    vlan = rng.integers(100, 4000, pairs).repeat(2)
    labels = rng.integers(16, 1 << 20, (2 * pairs, 2))
    weight = np.repeat(rng.pareto(1.1, pairs) + 0.01, 2) * np.tile([1.0, 0.5], pairs)
    client = rng.integers(32768, 61000, pairs)
    hosts = rng.integers(1, 250, (pairs, 2))
    src, dst, src_port, dst_port, flow_id = [], [], [], [], []
    for f in range(2 * pairs):
        ends = [f"10.0.0.{h}" if version[f] == 4 else f"fd00::{h:x}" for h in hosts[f // 2]]
        way = slice(None, None, -1 if f % 2 else 1)
        (a, b), (ap, bp) = ends[way], [int(client[f // 2]), APPS[app[f]][3]][way]
        src.append(a), dst.append(b), src_port.append(ap), dst_port.append(bp)
        tags = labels[f, : UNDERLAYS[underlay[f]][4]].tolist()
        key = f"{site} {vlan[f]} {tags} {a} {b} {APPS[app[f]][2]} {ap} {bp}"
        flow_id.append(hashlib.sha256(key.encode()).hexdigest()[:32])
    drawn = (underlay, app, version, vlan, labels, weight)
    return Pool(*drawn, flow_id, src, dst, np.array(src_port), np.array(dst_port))


def make_sample(pool, sample, count, rng):
    """Draw the frames of one sample and compute its flow table; both as Arrow tables of the project's schemas."""
    ts = np.sort(rng.integers(sample.start_ns, sample.start_ns + SAMPLE_NS, count))
    seen = rng.random(len(pool.weight)) < 0.5
    seen[rng.integers(len(seen))] = True
    weight = np.where(seen, pool.weight, 0)
    choice = rng.choice(len(weight), count, p=weight / weight.sum())
    no_ip = rng.random(count) < 0.01
    tcp = np.array([a[2] == 6 for a in APPS])[pool.app[choice]] & ~no_ip
    data = (rng.random(count) < np.where(choice % 2, 0.25, 0.85)) & ~no_ip
    network = np.where(pool.version[choice] == 4, 20, 40)
    transport = np.where(tcp, 32, 8)
    payload = np.where(rng.random(count) < 0.8, 1500 - network - transport, rng.integers(1, 1400, count))
    payload = np.where(data, payload, 0)
    payload = np.where(data & (pool.app[choice] == 5), 8948 - network - transport, payload)
    ip_len = network + transport + payload
    padded = np.maximum(46, ip_len)
    wire = np.where(no_ip, 60, np.array([u[2] for u in UNDERLAYS])[pool.underlay[choice]] + padded)
    flags = np.where(data, ACK | PSH, ACK)
    flags = np.where(rng.random(count) < 0.01, SYN, np.where(rng.random(count) < 0.01, FIN | ACK, flags))
    columns = {"ts": ts, "choice": choice, "no_ip": no_ip, "tcp": tcp, "data": data, "flags": flags}
    columns |= {"wire": wire, "inner": np.where(no_ip, 60, 14 + padded), "payload": payload, "ip_len": ip_len}
    order, columns["row"] = rows_by_first_frame(choice, no_ip)
    return frame_table(pool, columns, rng), flow_table(pool, columns, order, sample, rng)


def rows_by_first_frame(choice, no_ip):
    """Return the flows of a sample in order of their first frames, and the row of each frame (-1 without a flow)."""
    values, first = np.unique(choice[~no_ip], return_index=True)
    order = values[np.argsort(first)]
    row_of = np.full(choice.max(initial=0) + 1, -1)
    row_of[order] = np.arange(len(order))
    return order, np.where(no_ip, -1, row_of[choice])


def frame_table(pool, c, rng) -> pa.Table:
    """Return the acap of one sample, as defined in frames.yaml."""
    row = c["row"]
    count = len(row)
    app = np.where(c["data"], pool.app[c["choice"]] + 1, 0)
    kind = ((pool.underlay[c["choice"]] * 2 + (pool.version[c["choice"]] == 6)) * 2 + c["tcp"]) * (len(APPS) + 1) + app
    kind = np.where(c["no_ip"], -1 - rng.integers(len(NO_IP), size=count), kind)
    kinds, code = np.unique(kind, return_inverse=True)
    texts = [names_of_kind(int(k)) for k in kinds]
    number, l4_by_tshark, app_by_tshark = np.arange(count), rng.random(count) < 0.01, rng.random(count) < 0.05
    values = {
        **{"frame": number + 1, "ts_ns": c["ts"], "wire_len": c["wire"], "cap_len": np.minimum(c["wire"], 200)},
        **{"inner_wire_len": c["inner"], "flow": pa.array(np.maximum(row, 0), mask=row < 0)},
        **{"protocols": [texts[k][0] for k in code], "stack": [texts[k][1] for k in code]},
        **{"tcp_flags": pa.array(c["flags"], mask=~c["tcp"]), "tcp_seq": pa.array(number, mask=~c["tcp"])},
        "tcp_ack": pa.array(number, mask=~c["tcp"] | (c["flags"] & ACK == 0)),
        **{"payload_len": pa.array(c["payload"], mask=c["no_ip"]), "ip_len": pa.array(c["ip_len"], mask=row < 0)},
        "ip_id": pa.array(number * 40503 % 2**16, mask=row < 0),
        "l4_by": np.where(l4_by_tshark, "tshark", "native").tolist(),
        "app_by": np.where(c["data"], np.where(app_by_tshark, "tshark", "flow"), "native").tolist(),
        "issue": np.where(rng.random(count) < 0.002, "truncated_ipv4", None).tolist(),
    }
    return table_of("frames", values)


def table_of(name: str, values: dict) -> pa.Table:
    """Return columns as a table of a schema."""
    schema = arrow_schema(name)
    columns = [v.cast(f.type) if isinstance(v := values[f.name], pa.Array) else pa.array(v, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def names_of_kind(kind):
    """Return (protocols, stack) of a kind of frame."""
    if kind < 0:
        label, token, _ = NO_IP[-1 - kind]
        return f"eth:ethertype:{token}", f"Ethernet/{label}"
    kind, app = divmod(kind, len(APPS) + 1)
    stack, protocols, *_ = UNDERLAYS[kind >> 2]
    network = ("IPv6", "ipv6") if kind & 2 else ("IPv4", "ip")
    transport = ("TCP", "tcp") if kind & 1 else ("UDP", "udp")
    above = (f"/{APPS[app - 1][0]}", f":{APPS[app - 1][1]}") if app else ("", "")
    return f"{protocols}:{network[1]}:{transport[1]}{above[1]}", f"{stack}/{network[0]}/{transport[0]}{above[0]}"


def flow_table(pool, c, order, sample, rng) -> pa.Table:
    """Return the flows of one sample, as defined in flows.yaml, computed from the frames."""
    keep = c["row"] >= 0
    r, n = c["row"][keep], len(order)
    ts, wire = c["ts"][keep], c["wire"][keep]
    tcp = np.array([APPS[a][2] == 6 for a in pool.app[order]], dtype=bool)

    def total(values):
        return np.bincount(r, weights=values[keep], minlength=n).astype(np.uint64)

    def extreme(function, values, start):
        out = np.full(n, start)
        function.at(out, r, values)
        return out

    frames = np.bincount(r, minlength=n).astype(np.uint64)
    first, last = extreme(np.minimum, ts, np.iinfo(np.int64).max), extreme(np.maximum, ts, np.iinfo(np.int64).min)
    row_of = {int(f): i for i, f in enumerate(order)}
    peer = np.array([row_of.get(int(f) ^ 1, -1) for f in order], dtype=np.int64)
    bits = {"syn": SYN, "syn_ack": SYN | ACK, "fin": FIN, "rst": RST, "psh": PSH, "ack": ACK}
    bits |= {"urg": 0x20, "ece": 0x40, "cwr": 0x80}
    flag = {name: total((c["flags"] & each) == each) for name, each in bits.items()}
    ended = (flag["fin"] + flag["rst"]) > 0
    ended = ended | np.where(peer >= 0, ended[np.maximum(peer, 0)], False) if n else ended
    single = frames < 2
    iat_mean = (last - first) / np.maximum(frames.astype(float) - 1, 1)
    payload = total(c["payload"])
    app = [APPS[pool.app[f]][1] if payload[i] else None for i, f in enumerate(order)]
    handshake = rng.integers(20_000, 80_000_000, n)
    values = {
        **{"flow": np.arange(n), "flow_id": [pool.flow_id[f] for f in order]},
        **{"peer_flow": pa.array(np.maximum(peer, 0), mask=peer < 0), "peer_candidates": (peer >= 0).astype(int)},
        "peer_flow_id": [pool.flow_id[f ^ 1] if p >= 0 else None for f, p in zip(order, peer, strict=True)],
        "community_id": [f"1:{pool.flow_id[min(f, f ^ 1)][:28]}" for f in order],
        **{"site": [sample.site] * n, "port": [sample.port] * n, "tunnels": [[] for _ in order]},
        "vlan": [[int(pool.vlan[f])][: UNDERLAYS[pool.underlay[f]][3]] for f in order],
        "mpls": [pool.labels[f][: UNDERLAYS[pool.underlay[f]][4]].tolist() for f in order],
        **{"src": [pool.src[f] for f in order], "dst": [pool.dst[f] for f in order]},
        **{"ip_version": pool.version[order], "ip_proto": [APPS[pool.app[f]][2] for f in order]},
        **{"src_port": pool.src_port[order], "dst_port": pool.dst_port[order], "first_ns": first, "last_ns": last},
        **{"frames": frames, "wire_bytes": total(c["wire"]), "ip_bytes": total(c["ip_len"]), "payload_bytes": payload},
        **{"wire_len_min": extreme(np.minimum, wire, 1 << 30), "wire_len_max": extreme(np.maximum, wire, 0)},
        "wire_len_mean": total(c["wire"]) / np.maximum(frames, 1),
        **{name: pa.array(count, mask=~tcp) for name, count in flag.items()},
        "handshake_rtt_ns": pa.array(handshake, mask=~tcp | (peer < 0) | (np.arange(n) % 3 > 0)),
        "retransmitted_bytes": pa.array(payload // 1000, mask=~tcp),
        "duplicate_acks": pa.array(frames // 100, mask=~tcp | (peer < 0)),
        **{"iat_min_ns": pa.array(np.full(n, 1000), mask=single), "iat_max_ns": pa.array(last - first, mask=single)},
        **{name: pa.array(iat_mean, mask=single) for name in ("iat_mean_ns", "iat_stddev_ns")},
        "stacks": [[{"stack": UNDERLAYS[pool.underlay[f]][0], "frames": int(frames[i])}] for i, f in enumerate(order)],
        **{"stacks_cut": np.zeros(n, dtype=bool), "app": app},
        "app_by": [a and ("tshark" if i % 7 == 0 else "flow") for i, a in enumerate(app)],
        **{"cut_start": pa.array(flag["syn"] == 0, mask=~tcp), "cut_end": pa.array(~ended, mask=~tcp)},
    }
    return table_of("flows", values)


def write_sample(directory, sample, frames, flows) -> dict:
    """Write an acap and its flows with the metadata of a digest; return the metadata."""
    names = {"l4_by": "l4_by", "app_by": "app_by", "issues": "issue"}
    unread = 116 * (len(frames) % 3)
    return write_digest(
        *(directory, sample.name, (sample.site, sample.port), frames, flows),
        **{"engine": "hybrid", "parameters": {"engine": "hybrid"}, "link_types": ["EN10MB"], "snaplen": 200},
        **{"file_issue": "bad_caplen" if unread else None, "file_unread_bytes": unread},
        **{key: dict(Counter(frames[name].drop_null().to_pylist())) for key, name in names.items()},
        captured_bytes=int(frames["cap_len"].to_numpy().sum()),
        tshark={"version": "4.0.17", "preferences": [], "frames_sent": len(frames) // 20},
    )


def add_manifest(directory, sample, meta, rng) -> None:
    """Write raw/<sample>.json as `collect` does. Some counters are unknown, some report loss."""
    lost = int(rng.integers(1, 50)) if rng.random() < 0.3 else 0
    start, frames = sample.start_ns, meta["frames"]
    delivered = (frames if frames % 5 else 4 * frames) + lost + (0 if frames % 3 else 100)
    write_manifest(
        *(directory, sample.name, (sample.site, sample.port), (start, start + SAMPLE_NS)),
        **{"testbed": "local", "instance": f"{sample.site}-0", "direction": "both", "method": "tcpdump", "notes": []},
        **{"bytes": 24 + 16 * frames + meta["captured_bytes"], "snaplen": 200},
        filter=None if frames % 3 else "ip or ip6",
        **({"one_in": 1} if frames % 5 else {"one_in": 4, "one_in_by": "hash", "sampled_out": 3 * frames}),
        **{"requested": {"start_ns": start, "end_ns": start + SAMPLE_NS}, "clock_resolution_ns": 1},
        **{"frames_received": frames + lost, "frames_captured": frames, "dropped_kernel": lost},
        dropped_interface=0 if rng.random() < 0.8 else None,
        mirror={"offered_frames": delivered + 5, "delivered_frames": delivered},
        port_rate_bps=100_000_000_000,
        **({"congestion": congestion(frames, start)} if frames % 2 else {}),
    )


def congestion(frames: int, start_ns: int) -> dict:
    """Return manifest key `congestion` for a number of frames: readings every second, or none around the end."""
    ends = SAMPLE_NS // 10**9 + (2 if frames % 7 else -1)
    capacity = frames * 8 * (40 if frames % 4 == 1 else 4000)
    return {
        **{"verdict": "at risk", "source": "made up", "seconds": float(ends - 1), "tx_bps": 480.0 * frames},
        **{"rx_bps": 0.0, "offered_bps": 480.0 * frames, "peak_bps": 552.0 * frames, "peak_seconds": 1.0},
        **{"capacity_bps": capacity, "capacity_overhead_bytes": 24 if frames % 3 else 0, "counter_overhead_bytes": 4},
        **{"buffer_bytes": 20_000 if frames % 8 == 1 else None, "loss": {"low": 0.0, "high": 1.0}},
        "readings": [[start_ns - 3 * 10**8 + n * 10**9, frames * (60 * n + 9 * (n % 3))] for n in range(ends)],
    }
