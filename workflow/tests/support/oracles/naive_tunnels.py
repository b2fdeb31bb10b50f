"""Naive reference of headers: frames in tunnels, built and parsed byte by byte in plain Python.

Independent of the native core: each tunnel is built from the figures of its standard, and read with slices of bytes.
A frame may be truncated at any byte. WRAP puts a packet or an Ethernet frame into one tunnel; tunnels can be nested.
"""

import functools
import ipaddress
import itertools
import struct
from dataclasses import dataclass, field

MAC = bytes.fromhex("00163ef0000200163ef00001")  # destination, source; of a known vendor
IPV4, IPV6, TAG, SERVICE_TAG, PBB, PPPOE, ETHERNET = 0x0800, 0x86DD, 0x8100, 0x88A8, 0x88E7, 0x8864, 0x6558
ARP, MPLS = 0x0806, 0x8847
# RFC 8200
EXTENSIONS = {0: "000001040000 0000", 43: "0000fd00 00000000", 44: "00000000 00000007", 60: "000001040000 0000"}
NETWORK = ("vxlan_vni", "vxlan_gpe_vni", "geneve_vni", "nvgre_vsid", "pppoe_session", "pbb_isid")  # same both ways
KEYS = ("gre_key", "nvgre_flow_id")  # usually the same both ways


def ethernet(kind: int, payload: bytes) -> bytes:
    """Return an Ethernet II frame."""
    return MAC + struct.pack(">H", kind) + payload


def ipv4(src: str, dst: str, proto: int, payload: bytes) -> bytes:
    """Return an IPv4 packet without options; its checksum is 0."""
    ends = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, proto, 0) + ends + payload


def udp(src_port: int, dst_port: int, payload: bytes) -> bytes:
    """Return a UDP datagram."""
    return struct.pack(">HHHH", src_port, dst_port, 8 + len(payload), 0) + payload


def tcp(src_port: int, dst_port: int) -> bytes:
    """Return a TCP header with only the ACK flag."""
    return struct.pack(">HHIIBBHHH", src_port, dst_port, 1, 1, 0x50, 0x10, 100, 0, 0)


def inner(*, back: bool = False) -> bytes:
    """Return the packet of every tenant, or its reply."""
    ends, ports = (("10.0.0.2", "10.0.0.1"), (80, 1000)) if back else (("10.0.0.1", "10.0.0.2"), (1000, 80))
    return ipv4(*ends, 6, tcp(*ports))


def outer(proto: int, payload: bytes, *, back: bool = False) -> bytes:
    """Return the packet between the ends of a tunnel."""
    ends = ("192.0.2.2", "192.0.2.1") if back else ("192.0.2.1", "192.0.2.2")
    return ipv4(*ends, proto, payload)


def ipv6(proto: int, payload: bytes, extensions: tuple = ()) -> bytes:
    """Return an IPv6 packet with extension headers of 8 bytes. Fragment headers are atomic (RFC 6946)."""
    chain = b""
    kinds = (*extensions, proto)
    for kind, following in itertools.pairwise(kinds):
        chain += bytes([following]) + bytes.fromhex(EXTENSIONS[kind])[1:]
    ends = (ipaddress.ip_address(f"2001:db8::{end}").packed for end in (1, 2))
    return struct.pack(">IHBB", 6 << 28, len(chain + payload), kinds[0], 64) + b"".join(ends) + chain + payload


def over_udp(port: int):
    """Return a function that puts a tunnel's header and payload into UDP and IPv4."""
    return lambda payload: (IPV4, outer(17, udp(40000, port, payload)))


def over_gre(flags: int, kind: int):
    """Return a function that puts a payload into GRE and IPv4."""
    return lambda payload: (IPV4, outer(47, struct.pack(">HH", flags, kind) + payload))


def word(value: int) -> bytes:
    """Return a value as 32 bits."""
    return struct.pack(">I", value)


def framed(kind: int, payload: bytes) -> bytes:
    """Return the payload of an Ethernet tunnel."""
    return payload if kind == ETHERNET else ethernet(kind, payload)


def packet(kind: int, payload: bytes) -> bytes:
    """Return the payload of an IP tunnel, which must be IPv4."""
    assert kind == IPV4
    return payload


def ppp(kind: int, payload: bytes) -> bytes:
    """Return the payload of a PPP tunnel, with address and control."""
    return bytes.fromhex("ff030021") + packet(kind, payload)


# Type: function of identifier, EtherType and payload that returns EtherType and bytes of the enclosing packet.
WRAP = {
    "vxlan_vni": lambda i, k, p: over_udp(4789)(b"\x08\0\0\0" + word(i << 8) + framed(k, p)),
    "vxlan_gpe_vni": lambda i, k, p: over_udp(4790)(b"\x0c\0\0\3" + word(i << 8) + framed(k, p)),
    "geneve_vni": lambda i, k, p: over_udp(6081)(b"\0\0\x65\x58" + word(i << 8) + framed(k, p)),
    "gre_key": lambda i, k, p: over_gre(0x2000, k)(word(i) + p),
    "nvgre_vsid": lambda i, k, p: over_gre(0x2000, ETHERNET)(word(i << 8 | 0x5A) + framed(k, p)),
    "pptp_call": lambda i, k, p: over_gre(0x2001, 0x880B)(struct.pack(">HH", len(p) + 4, i) + ppp(k, p)),
    "gtp_teid": lambda i, k, p: over_udp(2152)(b"\x30\xff" + struct.pack(">HI", len(p), i) + packet(k, p)),
    "l2tp_tunnel": lambda i, k, p: over_udp(1701)(struct.pack(">HHH", 2, i, 9) + ppp(k, p)),
    "l2tp_session": lambda i, k, p: over_udp(1701)(struct.pack(">HHH", 2, 7, i) + ppp(k, p)),
    "pppoe_session": lambda i, k, p: (PPPOE, struct.pack(">BBHHH", 0x11, 0, i, len(p) + 2, 0x21) + packet(k, p)),
    "pbb_isid": lambda i, k, p: (PBB, word(i) + framed(k, p)),
    "erspan_session": lambda i, k, p: over_gre(0x1000, 0x88BE)(struct.pack(">IHHI", 1, 0x1001, i, 0) + framed(k, p)),
    "nvgre_flow_id": lambda i, k, p: over_gre(0x2000, ETHERNET)(word(0x123456 << 8 | i) + framed(k, p)),
    "vlan": lambda i, k, p: (TAG, struct.pack(">HH", i, k) + p),
}
FIRST = {"nvgre_vsid": 0x1000}  # the smallest identifier of a type; otherwise 1
LARGEST = {"erspan_session": 0x3FF, "nvgre_flow_id": 0xFF}  # for types with fewer than 16 bits
CARRIES_IP_ALONE = ("pptp_call", "gtp_teid", "l2tp_tunnel", "l2tp_session", "pppoe_session")


def frame(tunnels: list[tuple[str, int]], *, back: bool = False) -> bytes:
    """Return the tenant's packet in tunnels of (type, identifier), the outermost first."""
    kind, payload = IPV4, inner(back=back)
    for name, identifier in reversed(tunnels):
        kind, payload = WRAP[name](identifier, kind, payload)
    return ethernet(kind, payload)


@dataclass
class Found:
    """Values of the captured bytes of a frame. ``cut``: a header is incomplete."""

    labels: list[str] = field(default_factory=list)
    vlans: list[int] = field(default_factory=list)
    tunnels: list[tuple[str, int, int]] = field(default_factory=list)  # type, identifier, position
    mpls: list[int] = field(default_factory=list)
    ends: tuple | None = None  # source, destination, protocol
    ports: tuple | None = None
    ip_version: int | None = None
    ip_len: int | None = None
    ip_id: int | None = None
    payload_len: int | None = None
    tcp: tuple | None = None  # flags, sequence number, acknowledgment number, window
    inner_at: int = 0  # end of the innermost link header
    outside: tuple[int, int] | None = None  # number of VLANs and tunnels outside the outermost VNI without IP inside
    cut: bool = False

    @property
    def key(self) -> tuple | None:
        """Return the key of a directed flow; None without IP.

        Without an IP header inside, the payload of a VNI may be anything.
        """
        vlans, tunnels = self.outside or (None, None)
        key = (tuple(self.vlans[:vlans]), tuple(self.tunnels[:tunnels]))
        return None if self.ends is None else (*key, *self.ends, self.ports)


def labeled(name: str):
    """Return a decorator for methods of Reader that parse a header: they add its label first."""

    def decorate(read):
        @functools.wraps(read)
        def read_labeled(self, at: int):
            self.label(name)
            return read(self, at)

        return read_labeled

    return decorate


class Reader:
    """Parses one frame."""

    def __init__(self, data: bytes):
        self.data = data
        self.sent_to_tunnel = False  # the UDP destination port is that of a tunnel
        self.found = Found()

    def number(self, at: int, length: int) -> int:
        return int.from_bytes(self.data[at : at + length], "big")

    def has(self, end: int) -> bool:
        """Return whether the capture reaches ``end``; otherwise mark the frame as cut."""
        captured = len(self.data) >= end
        self.found.cut |= not captured
        return captured

    def label(self, name: str) -> None:
        self.found.labels.append(name)

    def tunnel(self, name: str, at: int, length: int, *, shift: int = 0, mask: int = 0xFFFFFFFF) -> None:
        """Add an identifier if all its bytes were captured."""
        if self.has(at + length):
            value = self.number(at, length) >> shift & mask
            self.found.tunnels.append((name, value, len(self.found.labels)))

    @labeled("Ethernet")
    def ethernet(self, at: int) -> Found:
        if self.has(at + 14):
            self.ethertype(self.number(at + 12, 2), at + 14)
        return self.found

    def ethertype(self, kind: int, at: int) -> None:
        readers = {TAG: self.vlan, SERVICE_TAG: self.service_tag, PBB: self.pbb, PPPOE: self.pppoe, IPV4: self.ipv4}
        readers |= {ETHERNET: self.ethernet, IPV6: self.ipv6, MPLS: self.mpls, ARP: lambda _: self.label("ARP")}
        self.found.inner_at = at
        if kind in readers:
            readers[kind](at)

    @labeled("VLAN")
    def vlan(self, at: int) -> None:
        if self.has(at + 2):
            self.found.vlans.append(self.number(at, 2) & 0xFFF)
        if self.has(at + 4):
            self.ethertype(self.number(at + 2, 2), at + 4)

    def mpls(self, at: int) -> None:
        """Parse labels. The first four bits after them determine the payload."""
        bottom = False
        while not bottom:
            self.label("MPLS")
            if not self.has(at + 5):
                return
            self.found.mpls.append(self.number(at, 4) >> 12)
            bottom, at = bool(self.data[at + 2] & 1), at + 4
        if self.data[at] >> 4 == 0:
            self.label("PseudoWire")
            self.ethernet(at + 4)
        elif self.data[at] >> 4 in (4, 6):
            self.ipv4(at)

    @labeled("VLAN")
    def service_tag(self, at: int) -> None:
        """Parse a service tag. tshark lists a tag and a following I-TAG as one header."""
        if not self.has(at + 4):
            return
        self.found.vlans.append(self.number(at, 2) & 0xFFF)
        if self.number(at + 2, 2) == PBB:
            self.customer(at + 4)
        else:
            self.ethertype(self.number(at + 2, 2), at + 4)

    @labeled("PBB")
    def pbb(self, at: int) -> None:
        self.customer(at)

    def customer(self, at: int) -> None:
        if self.has(at + 4):
            self.tunnel("pbb_isid", at + 1, 3)
        if self.has(at + 18):
            self.ethertype(self.number(at + 16, 2), at + 18)

    @labeled("PPPoE")
    def pppoe(self, at: int) -> None:
        if self.has(at + 6):
            self.tunnel("pppoe_session", at + 2, 2)
            self.ppp(at + 6)

    def ppp(self, at: int) -> None:
        if self.number(at, 2) == 0xFF03 and len(self.data) >= at + 2:
            at += 2
        if self.has(at + 2):
            self.label("PPP")
            assert self.number(at, 2) == 0x21
            self.ipv4(at + 2)

    @labeled("IPv4")
    def ipv4(self, at: int) -> None:
        if not self.has(at + 20):
            return
        if self.data[at] >> 4 == 6:  # regardless of the type in the previous header
            return self.ipv6(at)
        header, total, proto = self.data[at] % 16 * 4, self.number(at + 2, 2), self.data[at + 9]
        if self.data[at] >> 4 != 4 or header < 20 or 0 < total < header:
            return
        ends = [str(ipaddress.ip_address(self.data[at + n : at + n + 4])) for n in (12, 16)]
        self.network(*ends, proto, version=4, ip_len=total, ip_id=self.number(at + 4, 2), at=at)
        if not self.number(at + 6, 2) & 0x1FFF:  # not a later fragment
            self.transport(proto, at + header, at + total)

    def network(self, src: str, dst: str, proto: int, *, version: int, ip_len: int, ip_id: int | None, at: int) -> None:  # noqa: PLR0913
        """Store the values of a network header at ``at``. They replace those of an outer header."""
        found = self.found
        found.ends, found.ip_version, found.ip_len, found.ip_id = (src, dst, proto), version, ip_len, ip_id
        found.ports = found.outside = found.payload_len = found.tcp = None
        found.inner_at = at

    def transport(self, proto: int, at: int, end: int) -> None:
        """Parse the header at ``at`` of a packet that ends at ``end``."""
        readers = {1: self.icmp, 4: self.ipv4, 6: self.tcp, 17: self.udp, 41: self.ipv6, 47: self.gre}
        size = {1: 8, 17: 8}.get(proto)
        if proto == 6 and len(self.data) >= at + 20:
            size = self.data[at + 12] // 16 * 4
        self.found.payload_len = None if size is None else end - at - size
        if proto in readers:
            readers[proto](at)

    @labeled("ICMP")
    def icmp(self, at: int) -> None:
        """Parse ICMP, of which only the label counts."""

    @labeled("IPv6")
    def ipv6(self, at: int) -> None:
        """Parse IPv6. Extension headers have no position, because they may differ from packet to packet."""
        if not self.has(at + 40) or self.data[at] >> 4 != 6:
            return
        ends = [str(ipaddress.ip_address(self.data[at + n : at + n + 16])) for n in (8, 24)]
        proto, start, length, later = self.data[at + 6], at, 40 + self.number(at + 4, 2), False
        at += 40
        while proto in EXTENSIONS and self.has(at + 8):
            later = later or (proto == 44 and self.number(at + 2, 2) >> 3 > 0)
            proto, at = self.data[at], at + 8
        self.network(*ends, proto, version=6, ip_len=length, ip_id=None, at=start)
        if not later:
            self.transport(proto, at, start + length)

    @labeled("TCP")
    def tcp(self, at: int) -> None:
        if self.has(at + 4):
            self.found.ports = (self.number(at, 2), self.number(at + 2, 2))
        if self.has(at + 20):
            numbers = struct.unpack_from(">IIHH", self.data, at + 4)
            self.found.tcp = (numbers[2] & 0xFFF, *numbers[:2], numbers[3])

    @labeled("UDP")
    def udp(self, at: int) -> None:
        if self.has(at + 4):
            self.found.ports = (self.number(at, 2), self.number(at + 2, 2))
        if not self.has(at + 9):  # no byte of the payload
            return
        readers = {4789: self.vxlan, 4790: self.vxlan_gpe, 6081: self.geneve, 2152: self.gtp, 1701: self.l2tp}
        source, destination = self.number(at, 2), self.number(at + 2, 2)
        self.sent_to_tunnel = destination in readers
        if reader := readers.get(destination) or readers.get(source):
            reader(at + 8)

    def vni(self, name: str, at: int, *, valid: bool) -> None:
        """Add the VNI of a header at ``at`` if it is valid and the destination port is that of a tunnel."""
        self.found.outside = self.found.outside or (len(self.found.vlans), len(self.found.tunnels))
        if self.has(at + 7) and valid and self.sent_to_tunnel:
            self.tunnel(name, at + 4, 3)

    @labeled("VXLAN")
    def vxlan(self, at: int) -> None:
        """Parse VXLAN (RFC 7348): the I flag must be set; a receiver ignores the other bits."""
        self.vni("vxlan_vni", at, valid=self.data[at] & 0x08 == 0x08)
        if self.has(at + 8):
            self.ethernet(at + 8)

    def vxlan_gpe(self, at: int) -> None:
        """Parse VXLAN-GPE: version 0 and the I flag. tshark lists no header for it."""
        self.vni("vxlan_gpe_vni", at, valid=self.data[at] >> 3 & 7 == 1)
        readers = {1: self.ipv4, 2: self.ipv6, 3: self.ethernet}
        if self.has(at + 8) and self.data[at + 3] in readers:
            readers[self.data[at + 3]](at + 8)

    @labeled("Geneve")
    def geneve(self, at: int) -> None:
        """Parse Geneve (RFC 8926): version 0, options of up to 252 bytes."""
        self.vni("geneve_vni", at, valid=self.data[at] >> 6 == 0)
        end = at + 8 + self.data[at] % 64 * 4
        if self.has(at + 8) and self.has(end):
            self.ethertype(self.number(at + 2, 2), end)

    @labeled("GTP")
    def gtp(self, at: int) -> None:
        self.tunnel("gtp_teid", at + 4, 4)
        if self.has(at + 9):
            self.ipv4(at + 8)

    @labeled("L2TP")
    def l2tp(self, at: int) -> None:
        if self.has(at + 6):
            self.tunnel("l2tp_tunnel", at + 2, 2)
            self.tunnel("l2tp_session", at + 4, 2)
            self.ppp(at + 6)

    @labeled("GRE")
    def gre(self, at: int) -> None:
        if not self.has(at + 4):
            return
        flags, kind, end = self.number(at, 2), self.number(at + 2, 2), at + 4
        if flags & 0x2000:
            end += 4
            if not self.has(end):
                return
            key = self.number(at + 4, 4)
            nvgre = kind == ETHERNET and flags == 0x2000 and key >> 8 >= 0x1000
            if kind == 0x880B:
                self.tunnel("pptp_call", at + 6, 2)
            elif nvgre:
                self.tunnel("nvgre_vsid", at + 4, 3)
                if key & 0xFF:
                    self.tunnel("nvgre_flow_id", at + 7, 1)
            else:
                self.tunnel("gre_key", at + 4, 4)
        end += 4 if flags & 0x1000 else 0
        if not self.has(end):
            return
        if kind == 0x880B:
            self.ppp(end)
        elif kind == 0x88BE:
            self.erspan(end)
        else:
            self.ethertype(kind, end)

    @labeled("ERSPAN")
    def erspan(self, at: int) -> None:
        if self.has(at + 4):
            self.tunnel("erspan_session", at + 2, 2, mask=0x3FF)
        if self.has(at + 8):
            self.ethernet(at + 8)


def read(data: bytes) -> Found:
    """Return the values of the captured bytes of an Ethernet frame."""
    return Reader(data).ethernet(0)


def identifiers(tunnels: tuple, types: tuple) -> tuple:
    """Return the identifiers of some types, at any positions."""
    return tuple(tunnel[:2] for tunnel in tunnels if tunnel[0] in types)


def candidates(keys: list[tuple]) -> list[list[int]]:
    """Return for each flow the flows of the same network with reversed ends; none if both ends are the same."""
    rows_by_ends: dict[tuple, list[int]] = {}
    for row, (_, tunnels, *ends) in enumerate(keys):
        rows_by_ends.setdefault((*ends, identifiers(tunnels, NETWORK)), []).append(row)
    found = []
    for _, tunnels, src, dst, proto, ports in keys:
        back = (dst, src, proto, ports and ports[::-1])
        same = back == (src, dst, proto, ports)
        found.append([] if same else rows_by_ends.get((*back, identifiers(tunnels, NETWORK)), []))
    return found


def peers(keys: list[tuple]) -> list[int | None]:
    """Return the opposite direction of every flow if each is the choice of the other.

    The choice is the only candidate; if there are several, the only one of these with the same VLANs; if there are
    still several, the only one with the same GRE keys.
    """
    network_and_keys = [identifiers(tunnels, NETWORK + KEYS) for _, tunnels, *_ in keys]

    def choice(row: int, found: list[int]) -> int | None:
        if len(found) > 1:
            found = [other for other in found if keys[other][0] == keys[row][0]]
        if len(found) > 1:
            found = [other for other in found if network_and_keys[other] == network_and_keys[row]]
        return found[0] if len(found) == 1 else None

    chosen = [choice(row, found) for row, found in enumerate(candidates(keys))]
    return [other if other is not None and chosen[other] == row else None for row, other in enumerate(chosen)]
