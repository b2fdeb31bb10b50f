"""Compute the flow table that a digest of the generated packets would contain, only from the model.

This module repeats the arithmetic of acapella-dpdk-generate on arrays, but reads no packets. Therefore, a difference
between this table and the digest is an error in the generator, in this module, or in the digest.
"""

import ipaddress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from acapella_core.errors import UserError

from . import draws
from .compiled import CompiledModel, Distribution, Field, Flow, Gaps, Sizes
from .protocols import NETWORK

BITS = 8
PORTS_BYTES = 4
SECOND_NS = 10**9
ENDLESS = 1 << 62
MAX_SUM = 2**63 - 1
MAX_PACKETS = 1 << 26  # of a flow; each packet needs about 100 bytes of memory
FIRST_GUESS = 1024  # initial number of packets for a flow that ends at a given time
Key = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...], int, int, int, int, int | None, int | None]

SCHEMA = pa.schema(
    [
        ("vlan", pa.list_(pa.uint16())),
        ("mpls", pa.list_(pa.uint32())),
        ("vni", pa.list_(pa.uint32())),
        ("ip_version", pa.uint8()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("ip_proto", pa.uint8()),
        ("src_port", pa.uint16()),
        ("dst_port", pa.uint16()),
        ("first_ns", pa.int64()),
        ("last_ns", pa.int64()),
        ("frames", pa.uint64()),
        ("wire_bytes", pa.uint64()),
        ("wire_len_min", pa.uint32()),
        ("wire_len_max", pa.uint32()),
        ("iat_min_ns", pa.int64()),
        ("iat_max_ns", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Packets:
    """The packets of a flow: departure times without the port's rate limit, lengths, and the indexes of their keys."""

    due_ns: np.ndarray
    sizes: np.ndarray
    keys: np.ndarray


def random_values(distribution: Distribution, index: np.ndarray) -> np.ndarray:
    """Return random values of a distribution, rounded to integers."""
    if distribution.kind == "constant":
        return np.full(len(index), int(min(distribution.scale, draws.LARGEST) + 0.5), np.int64)
    log = draws.log(draws.unit(draws.draw(distribution.key, index)))
    value = (
        distribution.scale * -log
        if distribution.kind == "exponential"
        else distribution.scale * draws.exp(-log / distribution.shape)
    )
    return (np.minimum(value, draws.LARGEST) + 0.5).astype(np.int64)


def sizes_of(sizes: Sizes, index: np.ndarray) -> np.ndarray:
    """Return the lengths of packets before truncation."""
    if sizes.kind == "constant":
        return np.full(len(index), sizes.minimum, np.int64)
    if sizes.kind == "list":
        return np.array(sizes.values, np.int64)[index % np.uint64(len(sizes.values))]
    value = draws.draw(sizes.key, index)
    if sizes.kind == "uniform":
        return sizes.minimum + draws.below(value, sizes.count).astype(np.int64)
    if sizes.kind == "weighted":
        chosen = np.searchsorted(np.array(sizes.thresholds, np.uint64), value >> np.uint64(32), side="right")
        return np.array(sizes.values, np.int64)[np.minimum(chosen, len(sizes.values) - 1)]
    above = (sizes.mean * -draws.log(1 - draws.unit(value) * sizes.range_probability)).astype(np.int64)
    return sizes.minimum + np.minimum(above, sizes.count - 1)


def gaps_of(gaps: Gaps, index: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the gap after each packet."""
    if gaps.kind == "constant":
        steps = np.arange(len(index) + 1, dtype=np.int64) * gaps.remainder // gaps.denominator
        return gaps.ns + np.diff(steps)
    if gaps.kind == "rate":
        gaps_ns, remainders = np.divmod(sizes * (BITS * SECOND_NS), gaps.denominator)
        return gaps_ns + carries_of(remainders, gaps.denominator)
    if gaps.kind == "random":
        return random_values(gaps.random, index)
    if gaps.kind == "list":
        return np.array(gaps.values, np.int64)[index % np.uint64(len(gaps.values))]
    bursts = random_values(gaps.random, index) // gaps.ns + 1
    lasts = np.cumsum(bursts) - 1  # the last packet of each burst
    count = int(np.searchsorted(lasts, len(index)))
    result = np.full(len(index), gaps.ns, np.int64)
    result[lasts[:count]] += random_values(gaps.off, index[:count])
    return result


def carries_of(remainders: np.ndarray, denominator: int) -> np.ndarray:
    """Return the growth of the integer part of the running sum of remainders / denominator at each element.

    The sums are computed over parts of the array, so that they fit into 64 bits.
    """
    carry, step, carries = 0, MAX_SUM // denominator - 1, []
    for first in range(0, len(remainders), step):
        sums, rest = np.divmod(carry + np.cumsum(remainders[first : first + step]), denominator)
        carries.append(np.diff(sums, prepend=0))
        carry = int(rest[-1])
    return np.concatenate(carries)


def times_of(flow: Flow, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times and lengths of the first ``count`` packets of a flow. Rate limits do not apply to these times."""
    index = np.arange(count, dtype=np.uint64)
    sizes = sizes_of(flow.sizes, index)
    bytes_, every = flow.truncate
    if bytes_:
        cut = index % np.uint64(every) == 0
        sizes = np.where(cut, np.minimum(sizes, bytes_), sizes)
    gaps = gaps_of(flow.gaps, index, sizes)
    return flow.start_ns + np.concatenate(([0], np.cumsum(gaps[:-1]))), sizes


def packets_of(flow: Flow, known: dict[Key | None, int]) -> Packets:
    """Return the packets of a flow. New keys are added to ``known``."""
    max_packets = flow.packets or ENDLESS
    count = min(max_packets, FIRST_GUESS) if flow.until_ns else max_packets
    if count > MAX_PACKETS:
        raise too_many()
    arrivals, sizes = times_of(flow, count)
    while count < max_packets and arrivals[-1] < flow.until_ns:
        count = min(max_packets, 2 * count)
        if count > MAX_PACKETS:
            raise too_many()
        arrivals, sizes = times_of(flow, count)
    if flow.until_ns:
        count = int(np.searchsorted(arrivals, flow.until_ns, side="left"))
        arrivals, sizes = arrivals[:count], sizes[:count]
    return Packets(apply_rate_limit(arrivals, sizes, flow.rate_bps), sizes, keys_of(flow, sizes, known))


def too_many() -> UserError:
    """Return the error for a flow whose packets do not fit into memory."""
    return UserError(f"a flow with more than {MAX_PACKETS} packets", where="--flow-table", fix="omit the option")


def apply_rate_limit(arrivals: np.ndarray, sizes: np.ndarray, rate_bps: int) -> np.ndarray:
    """Return departure times with a rate limit: a packet waits until its predecessors have been sent."""
    if not rate_bps or not len(arrivals):
        return arrivals
    before = np.concatenate(([0], np.cumsum(-(-sizes[:-1] * (BITS * SECOND_NS) // rate_bps))))
    return before + np.maximum.accumulate(arrivals - before)


def values_of(field: Field, index: np.ndarray) -> np.ndarray:
    """Return the values of a field of at most 64 bits."""
    varying = field.varying
    if varying.kind == "interleave":
        return np.array(varying.values, np.uint64)[index % np.uint64(varying.count)]
    start = np.uint64(varying.start)
    if varying.kind == "random":
        return start + draws.below(draws.draw(varying.key, index), varying.count % 2**64)
    step = index % np.uint64(varying.count) if varying.count < 2**64 else index
    return start + step * np.uint64(varying.step)


def keys_of(flow: Flow, sizes: np.ndarray, known: dict[Key | None, int]) -> np.ndarray:
    """Return the index of each packet's key."""
    index = np.arange(len(sizes), dtype=np.uint64)
    fields = [field for field in flow.varying if is_key(flow, field)]
    truncated, every = flow.truncate
    untruncated = np.ones(len(sizes), np.uint64)
    if truncated:
        untruncated = (index % np.uint64(every) != 0) | (sizes < truncated)
    columns = np.stack([untruncated.astype(np.uint64), *(values_of(field, index) for field in fields)])
    distinct, inverse = np.unique(columns, axis=1, return_inverse=True)
    numbers = np.zeros(distinct.shape[1], np.int64)
    for column, (is_untruncated, *values) in enumerate(distinct.T.tolist()):
        replaced = {(field.header, field.name): value for field, value in zip(fields, values, strict=True)}
        key = key_of(flow, replaced, None if is_untruncated else truncated)
        numbers[column] = known.setdefault(key, len(known))
    return numbers[inverse.reshape(-1)]


def is_key(flow: Flow, field: Field) -> bool:
    """Return whether a field may belong to the key of a flow."""
    return field.name in ("id", "label", "vni", "src", "dst", "protocol") and (
        field.name != "id" or flow.protocols[field.header] != "ipv4"
    )


def key_of(flow: Flow, replaced: dict[tuple[int, str], int], truncated: int | None) -> Key | None:
    """Return the key of a packet; None if it belongs to no flow. ``truncated``: its length, if it is truncated."""
    ends = (*flow.offsets[1:], len(flow.template))
    shown = [number for number, end in enumerate(ends) if truncated is None or end <= truncated]
    networks = [number for number in shown if flow.protocols[number] in NETWORK]
    if not networks:
        return None
    inner = networks[-1]
    fields = {(field.header, field.name): field for field in flow.fields}

    def value(number: int, name: str) -> int:
        field = fields[number, name]
        changed = replaced.get((number, name))
        if changed is None:
            return field.value
        return changed if field.bits < 64 else field.value >> 64 << 64 | changed

    tags = tuple(value(index, "id") for index in range(inner) if flow.protocols[index] in ("vlan", "svlan"))
    labels = tuple(value(index, "label") for index in range(inner) if flow.protocols[index] == "mpls")
    tunnels = tuple((index, value(index, "vni")) for index in range(inner) if flow.protocols[index] == "vxlan")
    version = 4 if flow.protocols[inner] == "ipv4" else 6
    ports: tuple[int | None, int | None] = (None, None)
    after = inner + 1
    has_ports = after < len(flow.protocols) and flow.protocols[after] in ("tcp", "udp")
    if has_ports and (truncated is None or truncated >= flow.offsets[after] + PORTS_BYTES):
        ports = value(after, "src"), value(after, "dst")
    addresses = value(inner, "src"), value(inner, "dst")
    return tags, labels, tunnels, version, *addresses, value(inner, "protocol"), *ports


def flow_table(model: CompiledModel) -> pa.Table:
    """Return the expected flow table (SCHEMA), in the order of the first frames. ``vni`` contains VXLAN identifiers."""
    known: dict[Key | None, int] = {None: 0}
    flows = [packets_of(flow, known) for flow in model.flows]
    due = np.concatenate([packets.due_ns for packets in flows])
    sizes = np.concatenate([packets.sizes for packets in flows])
    keys = np.concatenate([packets.keys for packets in flows])
    order = np.argsort(due, kind="stable")  # packets with equal times are in the order of their flows
    sizes, keys = sizes[order], keys[order]
    times = model.start_ns + apply_rate_limit(due[order], sizes, model.rate_bps)
    return table_of(list(known), keys, times, sizes)


def table_of(known: list[Key | None], keys: np.ndarray, times: np.ndarray, sizes: np.ndarray) -> pa.Table:
    """Return a row for each key that has packets. Packets are in the order of the file."""
    keep = keys != 0
    keys, times, sizes = keys[keep], times[keep], sizes[keep]
    if not len(keys):
        return SCHEMA.empty_table()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    grouped, lengths = times[order], sizes[order]
    differences = np.diff(grouped, append=0)
    rows = []
    for row in np.argsort(order[starts], kind="stable"):
        first, end = int(starts[row]), int(ends[row])
        gaps = differences[first : end - 1]
        tags, labels, tunnels, version, src, dst, proto, src_port, dst_port = known[keys[order[first]]]
        address = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
        rows.append(
            {
                "vlan": tags, "mpls": labels, "vni": [vni for _, vni in tunnels], "ip_version": version,
                "src": str(address(src)), "dst": str(address(dst)), "ip_proto": proto,
                "src_port": src_port, "dst_port": dst_port,
                "first_ns": int(grouped[first:end].min()), "last_ns": int(grouped[first:end].max()),
                "frames": end - first, "wire_bytes": int(lengths[first:end].sum()),
                "wire_len_min": int(lengths[first:end].min()), "wire_len_max": int(lengths[first:end].max()),
                "iat_min_ns": int(gaps.min()) if len(gaps) else None,
                "iat_max_ns": int(gaps.max()) if len(gaps) else None,
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)
