"""Model of p4/parser.p4: a walk over a frame's bytes (docs/p4.md, "What the parser reads")."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from types import SimpleNamespace

WHOLE, OTHER, CUT, BAD, DEEP, FRAGMENT = range(6)  # how the parser ends: sizes.p4, END_*
NOT_FRAGMENTED, FIRST_FRAGMENT, LATER_FRAGMENT = range(3)

VLAN_TYPES = (0x8100, 0x88A8, 0x9100)
MPLS_TYPES = (0x8847, 0x8848)
IPV4_TYPE, IPV6_TYPE, ARP_TYPE = 0x0800, 0x86DD, 0x0806
# EtherTypes that are sufficient to identify an Ethernet frame in a pseudowire; its payload is not checked.
SUFFICIENT_TYPES = (*VLAN_TYPES, *MPLS_TYPES, 0x8809, 0x8863, 0x8864, 0x888E, 0x88CC, 0x88F7)
MANAGEMENT_LABELS = (13, 14)

TCP, UDP, ICMP, ICMPV6, IPV4_IN_IP, IPV6_IN_IP = 6, 17, 1, 58, 4, 41
ROUTING, FRAGMENT_HEADER, AUTHENTICATION = 43, 44, 51
NO_NEXT_HEADER = 59
EXTENSIONS = (0, ROUTING, FRAGMENT_HEADER, AUTHENTICATION, 60)
MAX_STACKED = 4  # tags, labels and extension headers in a row


class End(Exception):
    """Raised when the parser stops; its argument is the reason, such as CUT."""


@dataclass
class Flow:
    """The flow key: header flow_h of p4/headers.p4."""

    src_high: int = 0
    src_low: int = 0
    dst_high: int = 0
    dst_low: int = 0
    src_port: int = 0
    dst_port: int = 0
    ip_version: int = 0
    ip_proto: int = 0
    vlan_count: int = 0
    vlans: int = 0
    mpls_count: int = 0
    label_1: int = 0
    label_2: int = 0
    label_3: int = 0
    label_4: int = 0


@dataclass
class Ip:
    """A valid IP header and its offset in the frame."""

    version: int
    at: int


@dataclass
class Parsed:
    """The parser's output. Offsets and `parsed` are relative to the frame's start."""

    flow: Flow = field(default_factory=Flow)
    parsed: int = 0
    ip_length: int = 0
    payload_length: int = 0
    transport: int = 0
    fragment: int = NOT_FRAGMENTED
    routed: bool = False
    parse_end: int = WHOLE
    ethernets: list[int] = field(default_factory=list)  # offsets
    ips: list[Ip] = field(default_factory=list)  # the last one is in the flow key
    tcp: SimpleNamespace | None = None  # even if its length is invalid: see transport
    udp: SimpleNamespace | None = None
    icmp: SimpleNamespace | None = None

    @property
    def tags_whole(self) -> bool:
        """Return whether the flow key has all captured tags and labels of the frame."""
        return self.parse_end != DEEP and self.flow.vlan_count <= MAX_STACKED


def parse(raw: bytes, wire_length: int | None = None) -> Parsed:
    """Parse a frame; `raw` are its captured bytes."""
    walk = _Walk(raw, len(raw) if wire_length is None else wire_length)
    try:
        walk.ethernet(in_pseudowire=False)
    except End as end:
        walk.out.parse_end = end.args[0]
    return walk.out


class _Walk:
    """The walk: `out.parsed` is its position, `end` and `wire_end` the limits of captured and wire bytes."""

    def __init__(self, raw: bytes, wire_length: int):
        self.raw = raw
        self.wire_end = wire_length & 0x7FFFFFFF
        self.end = min(len(raw), self.wire_end)
        self.out = Parsed()

    def here(self, size: int) -> bytes:
        """Return the next bytes, or stop if they are incomplete."""
        at = self.out.parsed
        if at + size > self.end:
            raise End(CUT)
        return self.raw[at : at + size]

    def take(self, size: int) -> bytes:
        raw = self.here(size)
        self.out.parsed += size
        return raw

    def ethernet(self, in_pseudowire: bool) -> None:
        start = self.out.parsed
        kind = int.from_bytes(self.take(14)[12:])
        self.out.ethernets.append(start)
        tags = 0
        while kind in VLAN_TYPES:
            if tags == MAX_STACKED:
                raise End(DEEP)
            tci, kind = struct.unpack("!HH", self.take(4))
            tags += 1
            flow = self.out.flow
            flow.vlan_count += 1
            flow.vlans = (flow.vlans << 16 | tci & 0xFFF) & (1 << 64) - 1
        if kind == IPV4_TYPE:
            self.ip(depth=1, versions=(4, 6))
        elif kind == IPV6_TYPE:
            self.ip(depth=1, versions=(6,))
        elif kind in MPLS_TYPES:
            if in_pseudowire:
                raise End(DEEP)
            self.mpls()
        else:
            raise End(OTHER)

    def mpls(self) -> None:
        flow = self.out.flow
        for name in ("label_1", "label_2", "label_3", "label_4"):
            entry = int.from_bytes(self.take(4))
            label = entry >> 12
            setattr(flow, name, label)
            flow.mpls_count += 1
            if entry & 0x100:
                break
        else:
            raise End(DEEP)
        if label in MANAGEMENT_LABELS:
            raise End(OTHER)
        nibble = self.here(1)[0] >> 4
        if nibble == 4:
            self.ip(depth=1, versions=(4, 6))
        elif nibble == 6:
            self.ip(depth=1, versions=(6,))
        elif nibble == 0:
            if self.has_control_word():
                self.take(4)
            self.ethernet(in_pseudowire=True)
        else:
            raise End(OTHER)

    def has_control_word(self) -> bool:
        """Return whether a control word comes next.

        Bytes that were not captured count as zeros; bytes after the packet's end are used as they are.
        """
        ahead = self.raw[self.out.parsed :].ljust(20, b"\0")
        plain = _continues_as_ethernet(ahead[12:])
        with_control_word = ahead[:4] == bytes(4) and _continues_as_ethernet(ahead[16:])
        return with_control_word or not plain

    def ip(self, depth: int, versions: tuple[int, ...]) -> None:
        version = self.here(1)[0] >> 4
        if version not in versions:
            raise End(BAD)
        protocol = self.ipv4() if version == 4 else self.ipv6()
        self.upper(protocol, depth)

    def set_flow_key(self, version: int, length: int, src: bytes, dst: bytes, protocol: int) -> None:
        """Set the flow key from the IP packet that starts here, and limit the walk to its length."""
        out, flow = self.out, self.out.flow
        out.ips.append(Ip(version, out.parsed))
        out.ip_length, out.fragment, out.routed = length, NOT_FRAGMENTED, False
        flow.ip_version, flow.ip_proto = version, protocol
        flow.src_high, flow.src_low = divmod(int.from_bytes(src), 1 << 64)
        flow.dst_high, flow.dst_low = divmod(int.from_bytes(dst), 1 << 64)
        self.wire_end = min(self.wire_end, out.parsed + length)
        self.end = min(self.end, self.wire_end)

    def ipv4(self) -> int:
        header = self.here(20)
        size = (header[0] & 15) * 4
        length, _, offset = struct.unpack("!HHH", header[2:8])
        length = length or self.wire_end - self.out.parsed
        if size < 20 or length < size:
            raise End(BAD)
        self.set_flow_key(4, length, header[12:16], header[16:20], header[9])
        try:
            self.take(size)
        except End:
            self.out.parsed += 20  # the header is complete, but not its options
            raise
        if offset & 0x1FFF:
            self.out.fragment = LATER_FRAGMENT
            raise End(FRAGMENT)
        if offset & 0x2000:
            self.out.fragment = FIRST_FRAGMENT
        return header[9]

    def ipv6(self) -> int:
        header = self.here(40)
        payload = int.from_bytes(header[4:6])
        length = 40 + payload if payload else self.wire_end - self.out.parsed
        self.set_flow_key(6, length, header[8:24], header[24:40], header[6])
        self.out.parsed += 40
        return header[6]

    def extension(self, protocol: int) -> int:
        following, byte, third = struct.unpack("!BBH", self.here(8)[:4])
        size = 8 * (byte + 1)
        if protocol == ROUTING and third & 0xFF:
            self.out.routed = True
        elif protocol == AUTHENTICATION:
            size = 4 * (byte + 2)
            if size < 12:
                raise End(BAD)
        elif protocol == FRAGMENT_HEADER:
            size = 8
            self.out.fragment = LATER_FRAGMENT if third >> 3 else FIRST_FRAGMENT
        if following == NO_NEXT_HEADER:  # even if the header is truncated
            self.out.flow.ip_proto = following
        self.take(size)
        self.out.flow.ip_proto = following
        if self.out.fragment == LATER_FRAGMENT:
            raise End(FRAGMENT)
        return following

    def upper(self, protocol: int, depth: int) -> None:
        extensions = 0
        while protocol in EXTENSIONS:
            if extensions == MAX_STACKED:
                raise End(DEEP)
            protocol = self.extension(protocol)
            extensions += 1
        if protocol in (IPV4_IN_IP, IPV6_IN_IP):
            if depth == 2:
                raise End(DEEP)
            self.ip(depth + 1, versions=(4, 6) if protocol == IPV4_IN_IP else (6,))
        elif protocol == TCP:
            self.tcp()
        elif protocol == UDP:
            self.udp()
        elif protocol in (ICMP, ICMPV6):
            self.icmp(protocol)
        else:
            raise End(OTHER)

    def ports(self) -> None:
        self.out.flow.src_port, self.out.flow.dst_port = struct.unpack("!HH", self.here(4))

    def tcp(self) -> None:
        self.ports()
        out, start = self.out, self.out.parsed
        fields = struct.unpack("!HHIIBBHHH", self.take(20))
        names = ("src_port", "dst_port", "seq", "ack", "data_offset", "flags", "window", "checksum", "urgent")
        out.tcp = SimpleNamespace(at=start, **dict(zip(names, fields, strict=True)))
        options_end = start + (out.tcp.data_offset >> 4) * 4
        if options_end < start + 20 or options_end > self.wire_end:
            raise End(BAD)
        out.transport, out.payload_length = TCP, self.wire_end - options_end
        if options_end > self.end:
            raise End(CUT)
        out.parsed = options_end

    def udp(self) -> None:
        self.ports()
        out, start = self.out, self.out.parsed
        fields = struct.unpack("!HHHH", self.take(8))
        names = ("src_port", "dst_port", "length", "checksum")
        out.udp = SimpleNamespace(at=start, **dict(zip(names, fields, strict=True)))
        if out.udp.length < 8:
            raise End(BAD)
        out.transport, out.payload_length = UDP, min(out.udp.length, self.wire_end - start) - 8

    def icmp(self, protocol: int) -> None:
        out, start = self.out, self.out.parsed
        fields = struct.unpack("!BBHHH", self.take(8))
        names = ("type", "code", "checksum", "identifier", "sequence")
        out.icmp = SimpleNamespace(at=start, **dict(zip(names, fields, strict=True)))
        out.transport, out.payload_length = protocol, self.wire_end - out.parsed


def _continues_as_ethernet(raw: bytes) -> bool:
    """Return whether these bytes begin with a common EtherType; for IP and ARP also check the first field after it."""
    kind, following = struct.unpack("!HH", raw[:4])
    if kind == IPV4_TYPE:
        return following >> 12 == 4
    if kind == IPV6_TYPE:
        return following >> 12 == 6
    if kind == ARP_TYPE:
        return following == 1
    return kind in SUFFICIENT_TYPES
