#include "anonymize/frame.hpp"

#include "anonymize/headers/keep.hpp"
#include "anonymize/repeats.hpp"
#include "dissect/dispatch.hpp"

namespace acapella::anonymize {
namespace {

void keep_link_header(FrameBuilder& builder, std::uint16_t link_type, std::size_t length) {
    constexpr std::uint16_t kLinuxCooked = 113;
    constexpr std::uint16_t kLinuxCookedV2 = 276;
    switch (link_type) {
        case kLinuxCooked:
            keep_linux_cooked(builder, length);
            return;
        case kLinuxCookedV2:
            keep_linux_cooked_v2(builder, length);
            return;
        default:  // an address family
            builder.keep_to(length);
            return;
    }
}

void keep(Header& header) {
    switch (header.step.dissector) {
        case Next::stop:
        case Next::by_ethertype:
        case Next::by_protocol:
            return;
        case Next::ethernet:
            return keep_ethernet(header);
        case Next::llc:
            return keep_llc(header);
        case Next::vlan:
        case Next::service_vlan:
            return keep_vlan(header);
        case Next::pbb:
            return keep_pbb(header);
        case Next::mpls:
            return keep_mpls(header);
        case Next::pseudowire_heuristic:
        case Next::etherip:
        case Next::ppp:
            return keep_all(header);
        case Next::arp:
            return keep_arp(header);
        case Next::ipv4:
            return keep_ipv4(header);
        case Next::ipv6:
            return keep_ipv6(header);
        case Next::hop_by_hop:
        case Next::destination_options:
            return keep_ipv6_options(header);
        case Next::ipv6_routing:
            return keep_ipv6_routing(header);
        case Next::ipv6_fragment:
            return keep_ipv6_fragment(header);
        case Next::authentication:
            return keep_authentication(header);
        case Next::tcp:
            return keep_tcp(header);
        case Next::udp:
            return keep_udp(header);
        case Next::udplite:
            return keep_udplite(header);
        case Next::sctp:
            return keep_sctp(header);
        case Next::icmp:
            return keep_icmp(header);
        case Next::icmpv6:
            return keep_icmpv6(header);
        case Next::igmp:
            return keep_igmp(header);
        case Next::pim:
            return keep_pim(header);
        case Next::gre:
            return keep_gre(header);
        case Next::vxlan:
            return keep_vxlan(header, TunnelType::vxlan_vni);
        case Next::vxlan_gpe:
            return keep_vxlan(header, TunnelType::vxlan_gpe_vni);
        case Next::pppoe_session:
            return keep_pppoe(header);
        case Next::geneve:
            return keep_geneve(header);
        case Next::gtp:
            return keep_gtp(header);
        case Next::udpencap:
            return keep_udpencap(header);
        case Next::l2tp:
            return keep_l2tp(header);
        case Next::l2tp_ip:
            return keep_l2tp_ip(header);
        case Next::teredo:
            return keep_teredo(header);
        case Next::ptp:
            return keep_ptp(header);
        case Next::infiniband:
            return keep_infiniband(header);
        case Next::slow:
            return keep_slow(header);
        case Next::osi:
            return keep_osi(header);
    }
}

}  // namespace

Bytes FrameAnonymizer::anonymize(const Record& record) {
    dissect(record, dissection_, vendors_, Depth::as_tshark, &trace_);
    builder_.start(record.bytes, record.wire_len);
    keep_link_header(builder_, record.link_type, trace_.link_end);
    HeaderLimits header_limits;
    for (std::size_t i = 0; i < trace_.count && builder_.size() == trace_.steps[i].begin; ++i) {
        if (!header_limits.allows(trace_.steps[i])) break;
        Header header(builder_, trace_.steps[i]);
        keep(header);
    }
    builder_.finish();
    return builder_.bytes();
}

}  // namespace acapella::anonymize
