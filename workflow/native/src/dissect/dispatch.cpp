#include "dissect/dispatch.hpp"

#include "dissect/dissectors.hpp"
#include "dissect/ethertypes.hpp"
#include "dissect/protocols.hpp"

namespace acapella {

void Dissection::reset() {
    token_count = vlan_count = label_count = 0;
    sure = true;
    open_above = false;
    issue = Issue::none;
    inner_wire_len = 0;
    ip_version = ip_proto = 0;
    later_fragment = has_ports = has_payload_len = has_tcp = false;
    ip_len = payload_len = 0;
    payload = bare = {};
    network = link_payload = {};
    bare_tokens = 0;
}

namespace {

constexpr std::uint16_t kLinkNull = 0;
constexpr std::uint16_t kLinkEthernet = 1;
constexpr std::uint16_t kLinkRawBsd = 12;  // raw IP as BSD's DLT_RAW, which some programs write unmapped
constexpr std::uint16_t kLinkRawOpenBsd = 14;
constexpr std::uint16_t kLinkRaw = 101;
constexpr std::uint16_t kLinkLoop = 108;
constexpr std::uint16_t kLinkLinuxCooked = 113;
constexpr std::uint16_t kLinkIpv4 = 228;
constexpr std::uint16_t kLinkIpv6 = 229;
constexpr std::uint16_t kLinkLinuxCookedV2 = 276;

Next first(const Record& record, Walk& walk) {
    switch (record.link_type) {
        case kLinkEthernet:
            return Next::ethernet;
        case kLinkNull:
            return dissect_null(walk);
        case kLinkLoop:
            return dissect_loop(walk);
        case kLinkRaw:
        case kLinkRawBsd:
        case kLinkRawOpenBsd:
            return dissect_raw(walk);
        case kLinkLinuxCooked:
            return dissect_linux_cooked(walk);
        case kLinkLinuxCookedV2:
            return dissect_linux_cooked_v2(walk);
        case kLinkIpv4:
            return Next::ipv4;
        case kLinkIpv6:
            return Next::ipv6;
        default:
            walk.out.issue = Issue::unsupported_link_type;
            return walk.unsure();
    }
}

Next step(Next next, Walk& walk) {
    switch (next) {
        case Next::stop:
            return Next::stop;
        case Next::by_ethertype:
            return by_ethertype(walk);
        case Next::by_protocol:
            return by_protocol(walk);
        case Next::ethernet:
            return dissect_ethernet(walk);
        case Next::llc:
            return dissect_llc(walk);
        case Next::vlan:
            return dissect_vlan(walk);
        case Next::service_vlan:
            return dissect_service_vlan(walk);
        case Next::mpls:
            return dissect_mpls(walk);
        case Next::pseudowire_heuristic:
            return dissect_pseudowire(walk);
        case Next::arp:
            return dissect_arp(walk);
        case Next::ipv4:
            return dissect_ipv4(walk);
        case Next::ipv6:
            return dissect_ipv6(walk);
        case Next::hop_by_hop:
            return dissect_hop_by_hop(walk);
        case Next::ipv6_routing:
            return dissect_ipv6_routing(walk);
        case Next::ipv6_fragment:
            return dissect_ipv6_fragment(walk);
        case Next::destination_options:
            return dissect_destination_options(walk);
        case Next::authentication:
            return dissect_authentication(walk);
        case Next::tcp:
            return dissect_tcp(walk);
        case Next::udp:
            return dissect_udp(walk);
        case Next::udplite:
            return dissect_udplite(walk);
        case Next::sctp:
            return dissect_sctp(walk);
        case Next::icmp:
            return dissect_icmp(walk);
        case Next::icmpv6:
            return dissect_icmpv6(walk);
        case Next::igmp:
            return dissect_igmp(walk);
        case Next::pim:
            return dissect_pim(walk);
        case Next::gre:
            return dissect_gre(walk);
        case Next::etherip:
            return dissect_etherip(walk);
        case Next::vxlan:
            return dissect_vxlan(walk);
        case Next::geneve:
            return dissect_geneve(walk);
        case Next::gtp:
            return dissect_gtp(walk);
        case Next::udpencap:
            return dissect_udpencap(walk);
        case Next::l2tp:
            return dissect_l2tp(walk);
        case Next::teredo:
            return dissect_teredo(walk);
        case Next::ptp:
            return dissect_ptp(walk);
        case Next::infiniband:
            return dissect_infiniband(walk);
        case Next::pppoe_session:
            return dissect_pppoe_session(walk);
        case Next::ppp:
            return dissect_ppp(walk);
        case Next::slow:
            return dissect_slow(walk);
        case Next::osi:
            return dissect_osi(walk);
    }
    return Next::stop;
}

}  // namespace

void dissect(const Record& record, Dissection& dissection, const Vendors* vendors, Depth depth) {
    dissection.reset();
    dissection.inner_wire_len = record.wire_len;
    Walk walk(record, dissection, vendors);
    walk.innermost = depth == Depth::innermost;
    for (Next next = first(record, walk); next != Next::stop; next = step(next, walk)) {
        if (dissection.token_count >= kMaxTokens) {
            walk.overflow();
            break;
        }
    }
    // Only Ethernet has dissectors of trailers.
    if (walk.trailer && walk.link_len == 14) dissection.open_above = true;
    if (record.bytes.empty() || record.bytes.size() > record.wire_len) {
        if (dissection.issue != Issue::unsupported_link_type)
            dissection.issue = record.bytes.empty() ? Issue::empty_frame : Issue::longer_than_wire;
        dissection.sure = false;
    }
}

}  // namespace acapella
