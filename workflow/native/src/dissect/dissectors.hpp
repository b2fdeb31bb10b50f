// The dissectors of all protocols. Each reads its header at Walk::at, appends its tokens, and returns the
// next dissector.
#pragma once

#include "dissect/walk.hpp"

namespace acapella {

inline constexpr std::uint16_t kMax8023Length = 1500;           // IEEE 802.3-2018 clause 3.2.6
inline constexpr std::uint16_t kPppAddressAndControl = 0xff03;  // RFC 1662 section 3.1

Next dissect_ethernet(Walk& walk);
Next dissect_llc(Walk& walk);
Next dissect_vlan(Walk& walk);
Next dissect_service_vlan(Walk& walk);
Next dissect_pbb(Walk& walk);
Next dissect_mpls(Walk& walk);
Next dissect_pseudowire(Walk& walk);
Next dissect_arp(Walk& walk);
Next dissect_slow(Walk& walk);
Next dissect_osi(Walk& walk);
Next dissect_pppoe_session(Walk& walk);
Next dissect_ppp(Walk& walk);

Next dissect_ipv4(Walk& walk);
Next dissect_ipv6(Walk& walk);
Next dissect_hop_by_hop(Walk& walk);
Next dissect_ipv6_routing(Walk& walk);
Next dissect_ipv6_fragment(Walk& walk);
Next dissect_destination_options(Walk& walk);
Next dissect_authentication(Walk& walk);

Next dissect_tcp(Walk& walk);
Next dissect_udp(Walk& walk);
Next dissect_udplite(Walk& walk);
Next dissect_sctp(Walk& walk);
Next dissect_icmp(Walk& walk);
Next dissect_icmpv6(Walk& walk);
Next dissect_igmp(Walk& walk);
Next dissect_pim(Walk& walk);

Next dissect_gre(Walk& walk);
Next dissect_etherip(Walk& walk);
Next dissect_vxlan(Walk& walk);
Next dissect_vxlan_gpe(Walk& walk);
Next dissect_geneve(Walk& walk);
Next dissect_gtp(Walk& walk);
Next dissect_udpencap(Walk& walk);
Next dissect_l2tp(Walk& walk);
Next dissect_l2tp_ip(Walk& walk);
Next dissect_teredo(Walk& walk);
Next dissect_ptp(Walk& walk);
Next dissect_infiniband(Walk& walk);

// Dissectors selected by link type.
Next dissect_linux_cooked(Walk& walk);
Next dissect_linux_cooked_v2(Walk& walk);
Next dissect_null(Walk& walk);
Next dissect_loop(Walk& walk);
Next dissect_raw(Walk& walk);

}  // namespace acapella
