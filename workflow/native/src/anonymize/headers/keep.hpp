// Determines which content of each header is kept. Each function keeps known fields and replaces addresses in
// them. Everything else is set to zero, replaced by padding, or omitted. If a function stops before the end
// of the header, the frame ends there.
#pragma once

#include "anonymize/headers/frame_builder.hpp"
#include "frame/tunnels.hpp"

namespace acapella::anonymize {

void keep_ethernet(Header& header);
void keep_llc(Header& header);
void keep_vlan(Header& header);
void keep_mpls(Header& header);
void keep_pbb(Header& header);
void keep_arp(Header& header);
void keep_slow(Header& header);
void keep_osi(Header& header);
void keep_ptp(Header& header);
// Keeps a complete link-layer header, which ends at `length`, and replaces the address in it.
void keep_linux_cooked(FrameBuilder& builder, std::size_t length);
void keep_linux_cooked_v2(FrameBuilder& builder, std::size_t length);

void keep_ipv4(Header& header);
void keep_ipv6(Header& header);
void keep_ipv6_options(Header& header);
void keep_ipv6_routing(Header& header);
void keep_ipv6_fragment(Header& header);
void keep_authentication(Header& header);

void keep_icmp(Header& header);
void keep_icmpv6(Header& header);
void keep_igmp(Header& header);
void keep_pim(Header& header);

void keep_tcp(Header& header);
void keep_udp(Header& header);
void keep_udplite(Header& header);
void keep_sctp(Header& header);

void keep_gre(Header& header);
void keep_vxlan(Header& header, TunnelType type);
void keep_pppoe(Header& header);
void keep_geneve(Header& header);
void keep_gtp(Header& header);
void keep_udpencap(Header& header);
void keep_l2tp(Header& header);
void keep_l2tp_ip(Header& header);
void keep_teredo(Header& header);
void keep_infiniband(Header& header);

// Visits the options of IPv4 (RFC 791 section 3.1) and TCP (RFC 9293 section 3.1) from `option` to `end`:
// kind 0 ends the list, kind 1 is a single byte, and all other kinds have a length byte. Calls `keep_one` for
// each complete option. If it returns false, the option is replaced by bytes of kind 1.
template <typename KeepOne>
void keep_options(Header& header, std::size_t option, std::size_t end, KeepOne keep_one) {
    constexpr std::uint8_t kNoOperation = 1;
    while (option < end) {
        const std::uint8_t kind = header.at.u8(option);
        if (kind == 0) return;
        if (kind == kNoOperation) {
            header.copy_original(option++, 1);
            continue;
        }
        const std::size_t length = header.at.u8(option + 1);
        if (option + 2 > end || length < 2 || option + length > end) return;
        if (!keep_one(header, option, length)) header.fill(option, length, kNoOperation);
        option += length;
    }
}

// Keeps the whole header found by the dissector. For headers without addresses or text.
inline void keep_all(Header& header) { header.keep(header.length()); }

}  // namespace acapella::anonymize
