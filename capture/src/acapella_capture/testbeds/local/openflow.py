"""OpenFlow rules of a site's two bridges: `edge` adds and removes the slices' headers, `core` forwards.

Between the switches a frame has the encapsulation of its slice (the host sends and receives the part after ->):

    vlan        Ethernet / VLAN -> IP, ARP, anything
    mpls        Ethernet / VLAN / MPLS -> IP
    mpls2       Ethernet / VLAN / MPLS / MPLS -> IP
    pseudowire  Ethernet / VLAN / MPLS / MPLS -> Ethernet / IP, ARP, anything

In vlan, mpls and mpls2, the Ethernet header is the host's; a pseudowire has an outer header with addresses of the edge
bridges. In a slice of mpls or mpls2, frames other than IP have only the VLAN tag, because labels do not identify the
payload. OpenFlow can neither add nor remove the control word of a pseudowire (RFC 4448), so there is none. After each
removed label or header, the frame is resubmitted to the next table, because it has to be parsed again.
"""

from collections.abc import Iterator

from .slices import Slice

EDGE, CORE = "edge", "core"
FAR_SIDE = 100  # edge bridge: port N leads to host N, port 100 + N to the core's port N
UPLINK = 200  # core bridge: port 200 + N leads to site N
ETHERTYPES = {4: "0x0800", 6: "0x86dd"}
MATCHES = {4: "ip", 6: "ipv6"}
MPLS = "0x8847"
MULTICAST = "01:00:00:00:00:00/01:00:00:00:00:00"


def edge_mac(site: int, host: int) -> str:
    """Return the address of the edge bridge's port to a host, used at the ends of pseudowires."""
    return f"02:ed:9e:00:{site:02x}:{host:02x}"


def flood_mac(slice_: Slice) -> str:
    """Return the destination address of a pseudowire's broadcast and multicast frames."""
    return f"03:ed:9e:00:00:{slice_.number:02x}"


def edge_flows(site: int, slice_: Slice) -> Iterator[str]:
    """Yield the rules of a site's edge bridge for the hosts of a slice."""
    for host in slice_.hosts:
        near, far = host, FAR_SIDE + host
        tag = f"push_vlan:0x8100,set_field:{0x1000 | slice_.vlan}->vlan_vid,output:{far}"
        arrived = f"in_port={far},dl_vlan={slice_.vlan}"
        if slice_.encapsulation == "pseudowire":
            yield from pseudowire_flows(site, host, slice_)
            continue
        yield f"priority=1,in_port={near},actions={tag}"
        yield f"priority=1,{arrived},actions=pop_vlan,output:{near}"
        if slice_.encapsulation != "vlan":
            yield f"priority=2,{arrived},mpls,actions=pop_vlan,resubmit(,1)"
            yield from label_flows(host, slice_, tag)


def label_flows(host: int, slice_: Slice, tag: str) -> Iterator[str]:
    """Yield the rules for IP with one or two labels."""
    near, far = host, FAR_SIDE + host
    two_labels = slice_.encapsulation == "mpls2"
    outer = f"push_mpls:{MPLS},set_field:{slice_.transport_label}->mpls_label," if two_labels else ""
    if two_labels:
        yield f"table=1,in_port={far},mpls,mpls_label={slice_.transport_label},actions=pop_mpls:{MPLS},resubmit(,2)"
    for ip, match in MATCHES.items():
        label = slice_.service_label(ip)
        yield f"priority=2,in_port={near},{match},actions=push_mpls:{MPLS},set_field:{label}->mpls_label,{outer}{tag}"
        table = 2 if two_labels else 1
        yield f"table={table},in_port={far},mpls,mpls_label={label},actions=pop_mpls:{ETHERTYPES[ip]},output:{near}"


def pseudowire_flows(site: int, host: int, slice_: Slice) -> Iterator[str]:
    """Yield the rules for whole frames with two labels."""
    near, far = host, FAR_SIDE + host
    ends = [
        (slice_.host_mac(s, h), edge_mac(s, h)) for s in slice_.sites for h in slice_.hosts if (s, h) != (site, host)
    ]
    for destination, end in [*ends, (MULTICAST, flood_mac(slice_))]:
        yield (
            f"priority=1,in_port={near},dl_dst={destination},actions="
            f"encap(mpls),set_field:{slice_.service_label()}->mpls_label,"
            f"encap(mpls),set_field:{slice_.transport_label}->mpls_label,"
            f"encap(ethernet),set_field:{edge_mac(site, host)}->eth_src,set_field:{end}->eth_dst,"
            f"push_vlan:0x8100,set_field:{0x1000 | slice_.vlan}->vlan_vid,output:{far}"
        )
    yield f"in_port={far},dl_vlan={slice_.vlan},mpls,actions=pop_vlan,resubmit(,1)"
    yield f"table=1,in_port={far},mpls,mpls_label={slice_.transport_label},actions=decap,resubmit(,2)"
    yield f"table=2,in_port={far},packet_type=(1,{MPLS}),actions=decap(packet_type(ns=1,type={MPLS})),resubmit(,3)"
    yield f"table=3,in_port={far},packet_type=(1,{MPLS}),actions=decap(packet_type(ns=0,type=0)),output:{near}"


def core_flows(site: int, sites: int, slice_: Slice) -> Iterator[str]:
    """Yield the rules of a site's core bridge for a slice. Sites form a chain; no frame returns to its ingress port."""

    def port_to(other: int) -> int:
        return UPLINK + (site + 1 if other > site else site - 1)

    local_hosts = slice_.hosts if site in slice_.sites else ()
    uplinks = sorted({port_to(other) for other in slice_.sites if other != site})
    match = f"dl_vlan={slice_.vlan},dl_dst="
    mac = edge_mac if slice_.encapsulation == "pseudowire" else slice_.host_mac
    for other in slice_.sites:
        for host in slice_.hosts:
            yield f"{match}{mac(other, host)},actions=output:{host if other == site else port_to(other)}"
    ports = [*local_hosts, *uplinks]
    if ports:
        yield f"{match}{MULTICAST},actions={','.join(f'output:{port}' for port in ports)}"
