"""Frames with every type of tunnel identifier, built from bytes, with the offset of each identifier."""

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from acapella_testing.csv_rows import read_rows

MAC = bytes.fromhex("00163ef00001")
OTHER_MAC = bytes.fromhex("00163ef00002")
INNER = ("10.11.12.13", "10.11.12.14")
OUTER = ("192.0.2.1", "192.0.2.2")
SCHEMAS = Path(__file__).resolve().parents[4] / "schemas"
TYPES = {row["type"]: (int(row["number"]), int(row["bits"])) for row in read_rows(SCHEMAS / "tunnels.tsv")}
PPP_IPV4 = bytes.fromhex("ff030021")
IPV4, ETHERNET = 0x0800, 0x6558


@dataclass(frozen=True)
class Place:
    """Position of an identifier: the last ``bits`` bits of the ``size`` bytes at ``offset``."""

    kind: str
    id: int
    offset: int
    size: int
    bits: int

    def read(self, frame: bytes) -> int:
        """Return the identifier at this place of a frame."""
        return int.from_bytes(frame[self.offset : self.offset + self.size]) & ((1 << self.bits) - 1)


@dataclass(frozen=True)
class Packet:
    """A packet with the identifiers that it contains."""

    raw: bytes
    places: list[Place] = field(default_factory=list)

    def with_header(self, header: bytes, *places: tuple) -> "Packet":
        """Prepend ``header``, which has identifiers at ``places``: (kind, id, offset, size[, bits])."""
        own = [Place(*place, *([8 * place[3]] if len(place) == 4 else [])) for place in places]
        moved = [Place(p.kind, p.id, p.offset + len(header), p.size, p.bits) for p in self.places]
        return Packet(header + self.raw, [*own, *moved])


def checksum(raw: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    raw += bytes(len(raw) % 2)
    total = sum(struct.unpack(f">{len(raw) // 2}H", raw))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(inner: Packet, protocol: int, ends: tuple[str, str]) -> Packet:
    """Add an IPv4 header."""
    src, dst = (ip_address(end).packed for end in ends)
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(inner.raw), 1, 0, 64, protocol)
    return inner.with_header(head + struct.pack(">H", checksum(head + bytes(2) + src + dst)) + src + dst)


def ipv6(inner: Packet, protocol: int, ends: tuple[str, str]) -> Packet:
    """Add an IPv6 header."""
    src, dst = (ip_address(end).packed for end in ends)
    return inner.with_header(struct.pack(">IHBB", 6 << 28, len(inner.raw), protocol, 64) + src + dst)


def udp(inner: Packet, port: int, source: int = 40_000) -> Packet:
    """Add a UDP header without checksum."""
    return inner.with_header(struct.pack(">HHHH", source, port, 8 + len(inner.raw), 0))


def ethernet(inner: Packet, ethertype: int = IPV4) -> Packet:
    """Add an Ethernet header."""
    return inner.with_header(OTHER_MAC + MAC + struct.pack(">H", ethertype))


def syn(ends: tuple[str, str] = INNER, ports: tuple[int, int] = (1234, 80)) -> Packet:
    """Return IPv4 with a TCP SYN."""
    return ipv4(Packet(struct.pack(">HHIIBBHHH", *ports, 1, 0, 0x50, 2, 100, 0, 0)), 6, ends)


def over_udp(inner: Packet, port: int, ends: tuple[str, str] = OUTER) -> Packet:
    """Add UDP and IPv4 headers."""
    return ipv4(udp(inner, port), 17, ends)


def vxlan(vni: int, inner: Packet) -> Packet:
    header = struct.pack(">II", 0x08000000, vni << 8)
    return over_udp(ethernet(inner).with_header(header, ("vxlan_vni", vni, 4, 3)), 4789)


def vxlan_gpe(vni: int, inner: Packet) -> Packet:
    return over_udp(inner.with_header(struct.pack(">II", 0x0C000001, vni << 8), ("vxlan_gpe_vni", vni, 4, 3)), 4790)


def geneve(vni: int, inner: Packet) -> Packet:
    header = struct.pack(">BBHI", 2, 0, ETHERNET, vni << 8) + struct.pack(">HBBI", 0x0101, 1, 1, 0x01020304)
    return over_udp(ethernet(inner).with_header(header, ("geneve_vni", vni, 4, 3)), 6081)


def gre(key: int, inner: Packet) -> Packet:
    return ipv4(inner.with_header(struct.pack(">HHI", 0x2000, IPV4, key), ("gre_key", key, 4, 4)), 47, OUTER)


ROUTE = ip_address("198.51.100.77").packed


def gre_with_routes(key: int, inner: Packet) -> Packet:
    """Return GRE with source routes (RFC 1701): an address, and the empty entry at the end."""
    header = struct.pack(">HHHHI", 0x6000, IPV4, 0, 0, key) + struct.pack(">HBB", IPV4, 0, 4) + ROUTE + bytes(4)
    return ipv4(inner.with_header(header, ("gre_key", key, 8, 4)), 47, OUTER)


def gre_with_checksum(key: int, inner: Packet) -> Packet:
    total = checksum(struct.pack(">HHHHI", 0xA000, IPV4, 0, 0, key) + inner.raw)
    header = struct.pack(">HHHHI", 0xA000, IPV4, total, 0, key)
    return ipv6(inner.with_header(header, ("gre_key", key, 8, 4)), 47, ("2001:db8::1", "2001:db8::2"))


def gre_of_ethernet(key: int, inner: Packet) -> Packet:
    """Return GRE with a key whose upper 24 bits are not a valid VSID (below 0x1000)."""
    header = struct.pack(">HHI", 0x2000, ETHERNET, key)
    return ipv4(ethernet(inner).with_header(header, ("gre_key", key, 4, 4)), 47, OUTER)


def nvgre(vsid: int, inner: Packet) -> Packet:
    header = struct.pack(">HHI", 0x2000, ETHERNET, vsid << 8 | 7)
    return ipv4(ethernet(inner).with_header(header, ("nvgre_vsid", vsid, 4, 3), ("nvgre_flow_id", 7, 7, 1)), 47, OUTER)


def gretap(flow_id: int, inner: Packet) -> Packet:
    """Return GRE with a key in the form of an address (10.200.177.FLOW_ID), as in Linux."""
    header = struct.pack(">HHBBBB", 0x2000, ETHERNET, 10, 200, 177, flow_id)
    places = (("nvgre_vsid", 0x0AC8B1, 4, 3), ("nvgre_flow_id", flow_id, 7, 1))
    return ipv4(ethernet(inner).with_header(header, *places), 47, OUTER)


def pptp(call: int, inner: Packet) -> Packet:
    carried = inner.with_header(PPP_IPV4)
    header = struct.pack(">HHHHI", 0x3001, 0x880B, len(carried.raw), call, 1)
    return ipv4(carried.with_header(header, ("pptp_call", call, 6, 2)), 47, OUTER)


def gtp(teid: int, inner: Packet) -> Packet:
    header = struct.pack(">BBHI", 0x30, 255, len(inner.raw), teid)
    return over_udp(inner.with_header(header, ("gtp_teid", teid, 4, 4)), 2152)


def gtp_signaling(teid: int, _inner: Packet) -> Packet:
    """Return a GTPv2-C Create Session Request without information elements."""
    header = struct.pack(">BBHI", 0x48, 32, 8, teid) + bytes(4)
    return over_udp(Packet(b"").with_header(header, ("gtp_teid", teid, 4, 4)), 2123)


def l2tp(ids: tuple[int, int], inner: Packet) -> Packet:
    carried = inner.with_header(PPP_IPV4)
    header = struct.pack(">HHHH", 0x4002, 8 + len(carried.raw), *ids)
    places = (("l2tp_tunnel", ids[0], 4, 2), ("l2tp_session", ids[1], 6, 2))
    return over_udp(carried.with_header(header, *places), 1701)


def l2tp_control(ids: tuple[int, int], _inner: Packet) -> Packet:
    header = struct.pack(">HHHHHH", 0xC802, 12, *ids, 0, 0)
    places = (("l2tp_tunnel", ids[0], 4, 2), ("l2tp_session", ids[1], 6, 2))
    return over_udp(Packet(b"").with_header(header, *places), 1701)


def l2tp_version_3(session: int, inner: Packet) -> Packet:
    return over_udp(inner.with_header(struct.pack(">HHI", 3, 0, session), ("l2tp_session", session, 4, 4)), 1701)


def l2tp_over_ip(session: int, inner: Packet) -> Packet:
    return ipv4(inner.with_header(struct.pack(">I", session), ("l2tp_session", session, 0, 4)), 115, OUTER)


def erspan(session: int, inner: Packet) -> Packet:
    header = struct.pack(">HHI", 1 << 12, session, 0x12345)
    carried = ethernet(inner).with_header(header, ("erspan_session", session, 2, 2, 10))
    return ipv4(carried.with_header(struct.pack(">HHI", 0x1000, 0x88BE, 1)), 47, OUTER)


def erspan_3(session: int, inner: Packet) -> Packet:
    header = struct.pack(">HHIHH", 2 << 12, session, 0xABCDEF01, 0x1234, 0)
    carried = ethernet(inner).with_header(header, ("erspan_session", session, 2, 2, 10))
    return ipv4(carried.with_header(struct.pack(">HHI", 0x1000, 0x22EB, 1)), 47, OUTER)


def pppoe(session: int, inner: Packet) -> tuple[int, Packet]:
    """Return EtherType and packet: PPPoE is not carried by IP."""
    header = struct.pack(">BBHHH", 0x11, 0, session, 2 + len(inner.raw), 0x0021)
    return 0x8864, inner.with_header(header, ("pppoe_session", session, 2, 2))


def pbb(isid: int, inner: Packet) -> tuple[int, Packet]:
    """Return EtherType and packet; the customer's Ethernet header is a part of PBB's."""
    return 0x88E7, ethernet(inner).with_header(struct.pack(">I", isid), ("pbb_isid", isid, 1, 3))


def quoted(vni: int, inner: Packet) -> Packet:
    """Return an ICMP error that quotes a VXLAN packet: destination unreachable, with a checksum."""
    quote = vxlan(vni, inner)
    total = checksum(struct.pack(">BBHI", 3, 1, 0, 0) + quote.raw)
    return ipv4(quote.with_header(struct.pack(">BBHI", 3, 1, total, 0)), 1, OUTER[::-1])


def frame(made: Packet | tuple[int, Packet]) -> Packet:
    """Return the Ethernet frame of a packet."""
    ethertype, packet = made if isinstance(made, tuple) else (IPV4, made)
    return ethernet(packet, 0x86DD if packet.raw[0] >> 4 == 6 and ethertype == IPV4 else ethertype)
