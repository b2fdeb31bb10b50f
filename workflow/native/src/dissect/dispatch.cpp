#include "dissect/dispatch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "dissect/dissectors.hpp"
#include "dissect/ethertypes.hpp"
#include "dissect/protocols.hpp"
#include "dissect/trace.hpp"

namespace acapella {

namespace {

constexpr std::uint16_t kLinkNull = 0;
constexpr std::uint16_t kLinkEthernet = 1;
constexpr std::uint16_t kLinkRawBsd = 12;  // raw IP with BSD's value of DLT_RAW, written by some programs
constexpr std::uint16_t kLinkRawOpenBsd = 14;
constexpr std::uint16_t kLinkRaw = 101;
constexpr std::uint16_t kLinkLoop = 108;
constexpr std::uint16_t kLinkLinuxCooked = 113;
constexpr std::uint16_t kLinkIpv4 = 228;
constexpr std::uint16_t kLinkIpv6 = 229;
constexpr std::uint16_t kLinkLinuxCookedV2 = 276;

Next by_link_type(const Record& record, Walk& walk) {
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
            return walk.stop_as_unsure();
    }
}

using Dissector = Next (*)(Walk&);

struct Entry {
    Next next;
    Dissector dissect;
};

constexpr Entry kEntries[] = {
    {Next::by_ethertype, by_ethertype},
    {Next::by_protocol, by_protocol},
    {Next::ethernet, dissect_ethernet},
    {Next::llc, dissect_llc},
    {Next::vlan, dissect_vlan},
    {Next::service_vlan, dissect_service_vlan},
    {Next::pbb, dissect_pbb},
    {Next::mpls, dissect_mpls},
    {Next::pseudowire_heuristic, dissect_pseudowire},
    {Next::arp, dissect_arp},
    {Next::ipv4, dissect_ipv4},
    {Next::ipv6, dissect_ipv6},
    {Next::hop_by_hop, dissect_hop_by_hop},
    {Next::ipv6_routing, dissect_ipv6_routing},
    {Next::ipv6_fragment, dissect_ipv6_fragment},
    {Next::destination_options, dissect_destination_options},
    {Next::authentication, dissect_authentication},
    {Next::tcp, dissect_tcp},
    {Next::udp, dissect_udp},
    {Next::udplite, dissect_udplite},
    {Next::sctp, dissect_sctp},
    {Next::icmp, dissect_icmp},
    {Next::icmpv6, dissect_icmpv6},
    {Next::igmp, dissect_igmp},
    {Next::pim, dissect_pim},
    {Next::gre, dissect_gre},
    {Next::etherip, dissect_etherip},
    {Next::vxlan, dissect_vxlan},
    {Next::vxlan_gpe, dissect_vxlan_gpe},
    {Next::geneve, dissect_geneve},
    {Next::gtp, dissect_gtp},
    {Next::udpencap, dissect_udpencap},
    {Next::l2tp, dissect_l2tp},
    {Next::l2tp_ip, dissect_l2tp_ip},
    {Next::teredo, dissect_teredo},
    {Next::ptp, dissect_ptp},
    {Next::infiniband, dissect_infiniband},
    {Next::pppoe_session, dissect_pppoe_session},
    {Next::ppp, dissect_ppp},
    {Next::slow, dissect_slow},
    {Next::osi, dissect_osi},
};

constexpr std::size_t kNextCount = static_cast<std::size_t>(Next::osi) + 1;

constexpr bool each_next_has_one_dissector() {
    std::array<int, kNextCount> entries{};
    for (const Entry& entry : kEntries) ++entries[static_cast<std::size_t>(entry.next)];
    return entries[0] == 0 && std::count(entries.begin(), entries.end(), 1) == kNextCount - 1;
}
static_assert(Next::stop == Next{} && each_next_has_one_dissector());

constexpr auto kDissectors = [] {
    std::array<Dissector, kNextCount> dissectors{};
    for (const Entry& entry : kEntries) dissectors[static_cast<std::size_t>(entry.next)] = entry.dissect;
    return dissectors;
}();

Next step(Next next, Walk& walk) { return kDissectors[static_cast<std::size_t>(next)](walk); }

Next traced_step(Next next, Walk& walk, Trace* trace) {
    if (trace != nullptr) trace->begin(walk, next);
    const Next following = step(next, walk);
    if (trace != nullptr) trace->end(walk, following);
    return following;
}

void begin_trace(const Walk& walk, Trace* trace) {
    if (trace == nullptr) return;
    trace->count = 0;
    trace->link_end = static_cast<std::uint32_t>(walk.at.rest().data() - walk.start);
}

}  // namespace

void dissect(const Record& record, Dissection& dissection, const Vendors* vendors, Depth depth,
             Trace* trace) {
    dissection.reset();
    dissection.inner_wire_len = record.wire_len;
    Walk walk(record, dissection, vendors);
    walk.innermost = depth == Depth::innermost;
    Next next = by_link_type(record, walk);
    begin_trace(walk, trace);
    for (; next != Next::stop; next = traced_step(next, walk, trace)) {
        if (dissection.token_count >= kMaxTokens) {
            walk.overflow();
            break;
        }
    }
    walk.outer_key.restore(dissection);
    // tshark decodes trailers only for Ethernet.
    if (walk.trailer && walk.link_len == 14) dissection.payload_undecoded = true;
    if (record.bytes.empty() || record.bytes.size() > record.wire_len) {
        if (dissection.issue != Issue::unsupported_link_type)
            dissection.issue = record.bytes.empty() ? Issue::empty_frame : Issue::longer_than_wire;
        dissection.sure = false;
    }
}

}  // namespace acapella
