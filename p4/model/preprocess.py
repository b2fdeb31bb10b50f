"""Model of p4/preprocess.p4, written from its description in docs/p4.md and not from its source."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from acapella_p4_model.hashes import jhash
from acapella_p4_model.parsing import ICMPV6, NOT_FRAGMENTED, Parsed, parse

SENT, FILTERED, NOT_NTH, FLOW_SAMPLED, PACKET_SAMPLED = range(5)
EDIT_MACS, EDIT_IPV4, EDIT_IPV6 = 1, 2, 4
PORTS = 256


@dataclass
class Rule:
    """An entry of a ternary table: (value, mask) by field name.

    Of the matching entries, the one with the lowest priority number applies.
    """

    match: dict[str, tuple[int, int]]
    action: str
    arguments: tuple[int, ...] = ()
    priority: int = 0

    def matches(self, fields: dict[str, int]) -> bool:
        return all(fields[name] & mask == value & mask for name, (value, mask) in self.match.items())


@dataclass
class Table:
    """The rules of a table, in any order, and its default action."""

    default: tuple[str, tuple[int, ...]]
    rules: list[Rule] = field(default_factory=list)

    def look_up(self, fields: dict[str, int]) -> tuple[str, tuple[int, ...]]:
        for rule in sorted(self.rules, key=lambda rule: rule.priority):
            if rule.matches(fields):
                return rule.action, rule.arguments
        return self.default

    def rewritten(self, address: int) -> int:
        """Return the rewritten address: unchanged, blank, or masked and set."""
        action, arguments = self.look_up({"address": address})
        if action == "keep":
            return address
        if action == "blank":
            return 0
        mask, value = arguments
        return address & mask | value


@dataclass
class Verdict:
    """The output for a frame: `raw` is sent, truncated to its length; it is empty if the reason is not SENT."""

    reason: int
    sequence: int
    hash: int
    raw: bytes = b""


@dataclass
class Preprocess:
    """The program's settings and state, by the names of its registers and tables."""

    flows_below: int = 0
    packets_below: int = 0
    every: int = 0
    snap: int = 0
    headers_only: int = 0
    edit: int = 0
    filter: Table = field(default_factory=lambda: Table(("accept", ())))
    macs: Table = field(default_factory=lambda: Table(("keep", ())))
    ipv4: Table = field(default_factory=lambda: Table(("keep", ())))
    ipv6: Table = field(default_factory=lambda: Table(("keep", ())))
    sequence: Counter = field(default_factory=Counter)
    passed: Counter = field(default_factory=Counter)
    parse_ends: Counter = field(default_factory=Counter)

    def frame(self, raw: bytes, wire_length: int | None = None, port: int = 0) -> Verdict:
        parsed = parse(raw, wire_length)
        self.parse_ends[parsed.parse_end] += 1
        port %= PORTS
        verdict = Verdict(SENT, self.sequence[port], 0)
        self.sequence[port] = self.sequence[port] + 1 & 0xFFFFFFFF

        action, arguments = self.filter.look_up(vars(parsed.flow))
        if action == "reject":
            verdict.reason = FILTERED
            return verdict
        flow_hash, verdict.hash = hashes(raw, parsed)
        verdict.reason = self.sampled_out(flow_hash, verdict.hash, port)
        if verdict.reason != SENT:
            return verdict
        kept = [len(raw), *(arguments if action == "accept_cut" else ())]
        if self.snap:
            kept.append(self.snap)
        if self.headers_only:
            kept.append(parsed.parsed)
        verdict.raw = self.edited(raw, parsed)[: min(kept)]
        return verdict

    def sampled_out(self, flow_hash: int, packet_hash: int, port: int) -> int:
        if self.flows_below and flow_hash >= self.flows_below:
            return FLOW_SAMPLED
        if self.packets_below and packet_hash >= self.packets_below:
            return PACKET_SAMPLED
        if self.every:
            first = self.passed[port] == 0
            following = self.passed[port] + 1
            self.passed[port] = 0 if following >= self.every else following
            if not first:
                return NOT_NTH
        return SENT

    def edited(self, raw: bytes, parsed: Parsed) -> bytes:
        frame = bytearray(raw)
        if self.edit & EDIT_MACS:
            for at in parsed.ethernets:
                for address_at in (at, at + 6):
                    _rewrite(frame, address_at, 6, self.macs.rewritten)
        for number, ip in enumerate(parsed.ips):
            edited = self.edit & (EDIT_IPV4 if ip.version == 4 else EDIT_IPV6)
            if edited:
                innermost = number == len(parsed.ips) - 1
                self._edit_ip(frame, parsed, ip.version, ip.at, innermost)
        return bytes(frame)

    def _edit_ip(self, frame: bytearray, parsed: Parsed, version: int, at: int, innermost: bool) -> None:
        if version == 4:
            source, destination = (_rewrite(frame, at + offset, 4, self.ipv4.rewritten) for offset in (12, 16))
            _update(frame, at + 10, source + destination)
        else:
            source, destination = (_rewrite(frame, at + offset, 16, self.ipv6.rewritten) for offset in (8, 24))
            if parsed.routed and innermost:
                destination = []
        if innermost:
            _update_transport(frame, parsed, source + destination)


def _rewrite(frame: bytearray, at: int, size: int, rewritten: Callable[[int], int]) -> list[tuple[int, int]]:
    """Rewrite an address in place; return its old and new 16-bit words if it changed."""
    before = bytes(frame[at : at + size])
    after = rewritten(int.from_bytes(before)).to_bytes(size)
    frame[at : at + size] = after
    if before == after:
        return []
    form = f"!{size // 2}H"
    return list(zip(struct.unpack(form, before), struct.unpack(form, after), strict=True))


def updated(checksum: int, changes: list[tuple[int, int]]) -> int:
    """Return the checksum after changes of words. RFC 1624, eqn. 3: HC' = ~(~HC + ~m + m'), in ones' complement."""
    if not changes:
        return checksum
    total = checksum ^ 0xFFFF
    for before, after in changes:
        total += (before ^ 0xFFFF) + after
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _update(frame: bytearray, at: int, changes: list[tuple[int, int]]) -> None:
    checksum = int.from_bytes(frame[at : at + 2])
    frame[at : at + 2] = updated(checksum, changes).to_bytes(2)


def _update_transport(frame: bytearray, parsed: Parsed, changes: list[tuple[int, int]]) -> None:
    if parsed.tcp:
        _update(frame, parsed.tcp.at + 16, changes)
    if parsed.udp and parsed.udp.checksum:
        _update(frame, parsed.udp.at + 6, changes)
        if not any(frame[parsed.udp.at + 6 : parsed.udp.at + 8]):
            frame[parsed.udp.at + 6 : parsed.udp.at + 8] = b"\xff\xff"
    if parsed.icmp and parsed.flow.ip_version == 6 and parsed.flow.ip_proto == ICMPV6:
        _update(frame, parsed.icmp.at + 2, changes)


def hashes(raw: bytes, parsed: Parsed) -> tuple[int, int]:
    """Return the hashes of the flow (equal in both directions) and of the packet (equal at every capture point)."""
    flow = parsed.flow
    kind = 0
    if flow.ip_version:
        source, destination = flow.src_high << 64 | flow.src_low, flow.dst_high << 64 | flow.dst_low
        ends = [(source, flow.src_port), (destination, flow.dst_port)]
        if parsed.fragment != NOT_FRAGMENTED:
            ends = [(address, 0) for address, _ in ends]
    else:
        ends = [(0, 0), (0, 0)]
        if parsed.ethernets:
            dst, src, kind = struct.unpack("!6s6sH", raw[parsed.ethernets[-1] :][:14])
            ends = [(int.from_bytes(src), 0), (int.from_bytes(dst), 0)]
    swapped = ends[0] > ends[1]
    (low, low_port), (high, high_port) = sorted(ends)
    key = low.to_bytes(16) + high.to_bytes(16)
    key += struct.pack("!HHBBH", low_port, high_port, flow.ip_version, flow.ip_proto, kind)
    flow_hash = jhash(key)
    words = (flow_hash, swapped, identification(raw, parsed), parsed.ip_length, *transport_words(parsed))
    return flow_hash, jhash(struct.pack("!7I", *words))


def identification(raw: bytes, parsed: Parsed) -> int:
    if not parsed.ips:
        return 0
    ip = parsed.ips[-1]
    if ip.version == 4:
        return int.from_bytes(raw[ip.at + 4 : ip.at + 8])
    return int.from_bytes(raw[ip.at : ip.at + 4]) & 0xFFFFF


def transport_words(parsed: Parsed) -> tuple[int, int, int]:
    if parsed.tcp:
        return parsed.tcp.seq, parsed.tcp.ack, parsed.tcp.checksum << 16 | parsed.tcp.window
    if parsed.udp:
        return parsed.udp.length << 16 | parsed.udp.checksum, 0, 0
    if parsed.icmp:
        icmp = parsed.icmp
        return icmp.type << 24 | icmp.code << 16 | icmp.checksum, icmp.identifier << 16 | icmp.sequence, 0
    return 0, 0, 0
