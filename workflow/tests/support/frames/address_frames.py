"""Frames with an address in every field that can contain one, and the addresses that scapy finds in a frame.

The addresses are random, so that they do not appear in a file by chance.
"""

import ipaddress
import random
import struct

from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.fields import ConditionalField, IP6Field, IPField, MACField, PacketField, PacketListField
from scapy.layers import inet, inet6, sctp, vxlan
from scapy.layers.igmp import IGMPv2_MR, IGMPv3_MQ, IGMPv3_MR, IGMPv3_MR_Group
from scapy.layers.inet6 import IP6ListField
from scapy.layers.l2 import ARP, GRE, CookedLinux, Dot1Q, Ether
from scapy.packet import NoPayload, Packet, Raw

LINK = {"ethernet": 1, "sll": 113, "raw": 101}
CLASSES = {"ethernet": Ether, "sll": CookedLinux, "raw": inet.IP}
SECRET = b"payload that must stay secret"


class Addresses:
    """Random addresses without repetition; `made` contains all of them as bytes."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.made: list[bytes] = []

    def new(self, raw: bytes) -> bytes:
        self.made.append(raw)
        return raw

    @property
    def v4(self) -> str:
        return str(ipaddress.IPv4Address(self.new(self.random.randbytes(4))))

    @property
    def v6(self) -> str:
        return str(ipaddress.IPv6Address(self.new(self.random.randbytes(16))))

    @property
    def mac(self) -> str:
        """Return an address without the group bit. After MPLS, its first four bits must not look like an IP version."""
        raw = self.random.randbytes(6)
        return self.new(bytes((raw[0] & 0x0C | 0x80,)) + raw[1:]).hex(":")


def frames(a: Addresses) -> dict[str, tuple[str, Packet]]:
    """Return link type and packet by name."""
    raw = lambda text: ipaddress.ip_address(text).packed  # noqa: E731
    ether = lambda **more: Ether(src=a.mac, dst=a.mac, **more)  # noqa: E731
    ip = lambda **more: inet.IP(src=a.v4, dst=a.v4, **more)  # noqa: E731
    ip6 = lambda **more: inet6.IPv6(src=a.v6, dst=a.v6, **more)  # noqa: E731
    udp = lambda: inet.UDP(sport=40_000, dport=9) / Raw(SECRET)  # noqa: E731
    tcp = lambda: inet.TCP(sport=40_000, dport=443, flags="PA", seq=5) / Raw(SECRET)  # noqa: E731
    inner = lambda: ether() / ip() / udp()  # noqa: E731
    error = lambda: ip() / inet.ICMP(type=3, code=3) / ip() / udp()  # noqa: E731
    mptcp = struct.pack("!BB", 0x30, 1) + raw(a.v4)
    mptcp6 = struct.pack("!BB", 0x30, 2) + raw(a.v6)
    stamps = struct.pack("!BBBB", 68, 20, 21, 1) + raw(a.v4) + bytes(4) + raw(a.v4) + bytes(4)
    prefix = inet6.ICMPv6NDOptPrefixInfo(prefix=a.v6)
    route6 = inet6.ICMPv6NDOptRouteInfo(prefix=a.v6, plen=128, len=3)
    records = [inet6.ICMPv6MLDMultAddrRec(dst=a.v6, sources=[a.v6, a.v6]), inet6.ICMPv6MLDMultAddrRec(dst=a.v6)]
    igmp_records = [IGMPv3_MR_Group(maddr=a.v4, srcaddrs=[a.v4, a.v4]), IGMPv3_MR_Group(maddr=a.v4)]
    heartbeat = sctp.SCTPChunkHeartbeatReq(params=[sctp.SCTPChunkParamHeartbeatInfo(data=SECRET)])
    init = [sctp.SCTPChunkParamIPv4Addr(addr=a.v4), sctp.SCTPChunkParamIPv6Addr(addr=a.v6)]
    gtp = GTP_U_Header(teid=7, gtp_type=255)
    redirect = inet6.ICMPv6NDOptRedirectedHdr(pkt=bytes(ip6() / udp()))
    ethernet = {
        "arp": ether() / ARP(hwsrc=a.mac, hwdst=a.mac, psrc=a.v4, pdst=a.v4),
        "tcp": ether() / ip() / tcp(),
        "tcp_bare": ether() / ip() / inet.TCP(sport=40_000, dport=443, flags="A"),
        "tcp_options": ether() / ip() / inet.TCP(options=[("MSS", 1400), ("Timestamp", (1, 2)), (30, mptcp)]),
        "tcp_mptcp6": ether() / ip6() / inet.TCP(options=[(30, mptcp6)]) / Raw(SECRET),
        "udp6_bare": ether() / ip6() / inet.UDP(sport=1, dport=9),
        "vlan_udp": ether() / Dot1Q(vlan=5) / Dot1Q(vlan=6) / ip() / udp(),
        "record_route": ether() / ip(options=[inet.IPOption_RR(routers=[a.v4, a.v4, a.v4])]) / udp(),
        "source_route": ether() / ip(options=[inet.IPOption_LSRR(routers=[a.v4, a.v4])]) / udp(),
        "strict_route": ether() / ip(options=[inet.IPOption_SSRR(routers=[a.v4])]) / udp(),
        "time_stamps": ether() / ip(options=[inet.IPOption(stamps)]) / udp(),
        "ip_in_ip": ether() / ip() / ip() / udp(),
        "6in4": ether() / ip() / ip6() / udp(),
        "4in6": ether() / ip6() / ip() / tcp(),
        "gre": ether() / ip() / GRE(proto=0x0800) / ip() / udp(),
        "gre_checksum": ether() / ip() / GRE(proto=0x0800, chksum_present=1) / ip() / inet.TCP(),
        "gre_ethernet": ether() / ip() / GRE(proto=0x6558, key_present=1, key=9) / inner(),
        "vxlan": ether() / ip() / inet.UDP(sport=1, dport=4789) / vxlan.VXLAN(vni=3, flags=8) / inner(),
        "geneve": ether() / ip() / inet.UDP(sport=1, dport=6081) / GENEVE(proto=0x6558) / inner(),
        "gtp": ether() / ip() / inet.UDP(sport=2152, dport=2152) / gtp / ip() / tcp(),
        "mpls_ip": ether() / MPLS(label=16, s=0) / MPLS(label=17, s=1) / ip() / udp(),
        "icmp_quote": ether() / error(),
        "icmp_redirect": ether() / ip() / inet.ICMP(type=5, gw=a.v4) / ip() / udp(),
        "icmpv6_quote": ether() / ip6() / inet6.ICMPv6PacketTooBig() / ip6() / udp(),
        "solicitation": ether() / ip6() / inet6.ICMPv6ND_NS(tgt=a.v6) / inet6.ICMPv6NDOptSrcLLAddr(lladdr=a.mac),
        "advertisement": ether() / ip6() / inet6.ICMPv6ND_NA(tgt=a.v6) / inet6.ICMPv6NDOptDstLLAddr(lladdr=a.mac),
        "router": ether() / ip6() / inet6.ICMPv6ND_RA() / prefix / inet6.ICMPv6NDOptRDNSS(dns=[a.v6, a.v6]) / route6,
        "redirect6": ether() / ip6() / inet6.ICMPv6ND_Redirect(tgt=a.v6, dst=a.v6) / redirect,
        "mld": ether() / ip6() / inet6.ICMPv6MLReport(mladdr=a.v6),
        "mld2_query": ether() / ip6() / inet6.ICMPv6MLQuery2(mladdr=a.v6, sources=[a.v6]),
        "mld2": ether() / ip6() / inet6.ICMPv6MLReport2(records=records),
        "igmp": ether() / ip() / IGMPv2_MR(gaddr=a.v4),
        "igmp3_query": ether() / ip() / IGMPv3_MQ(gaddr=a.v4, srcaddrs=[a.v4]),
        "igmp3": ether() / ip() / IGMPv3_MR(records=igmp_records),
        "hop_by_hop": ether() / ip6() / inet6.IPv6ExtHdrHopByHop(options=[inet6.RouterAlert()]) / udp(),
        "home_address": ether() / ip6() / inet6.IPv6ExtHdrDestOpt(options=[inet6.HAO(hoa=a.v6)]) / udp(),
        "routing": ether() / ip6() / inet6.IPv6ExtHdrRouting(addresses=[a.v6, a.v6]) / udp(),
        "segments": ether() / ip6() / inet6.IPv6ExtHdrSegmentRouting(addresses=[a.v6, a.v6], lastentry=1) / tcp(),
        "fragment": ether() / ip6() / inet6.IPv6ExtHdrFragment(m=1) / udp(),
        "sctp": ether() / ip() / sctp.SCTP(tag=1) / sctp.SCTPChunkInit(params=init),
        "sctp_heartbeat": ether() / ip() / sctp.SCTP(tag=1) / heartbeat,
        "sctp_data": ether() / ip() / sctp.SCTP(tag=1) / sctp.SCTPChunkData(data=SECRET),
    }
    others = {"sll": CookedLinux(src=padded_mac(a.mac), lladdrlen=6) / ip() / udp(), "raw": ip() / tcp()}
    made = {name: ("ethernet", packet) for name, packet in ethernet.items()}
    return made | {name: (name, packet) for name, packet in others.items()}


def padded_mac(mac: str) -> bytes:
    """Return a MAC address padded to eight bytes, as Linux does."""
    return bytes.fromhex(mac.replace(":", "")) + bytes(2)


def found(packet: Packet, path: str = "") -> dict[str, bytes]:
    """Return every address that scapy finds, as bytes, by its location."""
    addresses: dict[str, bytes] = {}
    depth = 0
    while packet is not None and not isinstance(packet, NoPayload):
        here = f"{path}/{depth}:{type(packet).__name__}"
        for field in packet.fields_desc:
            if isinstance(field, ConditionalField) and not field._evalcond(packet):
                continue
            addresses |= addresses_of_field(field, packet.getfieldval(field.name), f"{here}.{field.name}")
        packet = packet.payload
        depth += 1
    return addresses


def addresses_of_field(field, value, where: str) -> dict[str, bytes]:
    """Return the addresses of one field."""
    field = getattr(field, "fld", field)  # the field inside a conditional field
    if value is None:
        return {}
    if isinstance(field, PacketListField | PacketField) or isinstance(value, Packet):
        packets = value if isinstance(value, list) else [value]
        return {k: v for i, packet in enumerate(packets) for k, v in found(packet, f"{where}[{i}]").items()}
    if isinstance(value, list):
        inner = IP6Field("", "::") if isinstance(field, IP6ListField) else getattr(field, "field", None)
        items = [addresses_of_field(inner, item, f"{where}[{i}]") for i, item in enumerate(value)]
        return {k: v for addresses in items for k, v in addresses.items()}
    if isinstance(field, MACField):
        return {where: bytes.fromhex(value.replace(":", ""))}
    return {where: ipaddress.ip_address(value).packed} if isinstance(field, IPField | IP6Field) else {}
