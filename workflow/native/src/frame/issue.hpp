// Problems of a frame: why its dissection ended before the end of the last header, or why its length or
// timestamp is not usable. The names are the values of the column `issue`.
#pragma once

#include <cstdint>
#include <string_view>

#include "frame/dissection.hpp"

namespace acapella {

// truncated_X: the capture or the packet ends inside X. bad_X: a field of X contradicts the surrounding
// bytes. no_timestamp: the file has no timestamp for the frame, and there is no other issue.
// implausible_timestamp: like no_timestamp, but the timestamp is outside the years 1970 to 2106.
#define ACAPELLA_ISSUES(X)      \
    X(none)                     \
    X(empty_frame)              \
    X(longer_than_wire)         \
    X(no_timestamp)             \
    X(implausible_timestamp)    \
    X(unsupported_link_type)    \
    X(too_many_headers)         \
    X(truncated_ethernet)       \
    X(truncated_llc)            \
    X(truncated_vlan)           \
    X(truncated_pbb)            \
    X(truncated_mpls)           \
    X(truncated_pseudowire)     \
    X(truncated_sll)            \
    X(truncated_null)           \
    X(truncated_pppoe)          \
    X(truncated_ppp)            \
    X(truncated_arp)            \
    X(truncated_ipv4)           \
    X(truncated_ipv6)           \
    X(truncated_ipv6_extension) \
    X(truncated_icmp)           \
    X(truncated_icmpv6)         \
    X(truncated_igmp)           \
    X(truncated_tcp)            \
    X(truncated_tcp_options)    \
    X(truncated_udp)            \
    X(truncated_sctp)           \
    X(truncated_ah)             \
    X(truncated_gre)            \
    X(truncated_erspan)         \
    X(truncated_vxlan)          \
    X(truncated_vxlan_gpe)      \
    X(truncated_geneve)         \
    X(truncated_gtp)            \
    X(truncated_l2tp)           \
    X(truncated_udpencap)       \
    X(truncated_teredo)         \
    X(truncated_infiniband)     \
    X(truncated_isis)           \
    X(truncated_slow)           \
    X(bad_ethernet_length)      \
    X(bad_ip_version)           \
    X(bad_ipv4_header_length)   \
    X(bad_ipv4_total_length)    \
    X(bad_tcp_header_length)    \
    X(bad_udp_length)

enum class Issue : std::uint8_t {
#define ACAPELLA_ISSUE(name) name,
    ACAPELLA_ISSUES(ACAPELLA_ISSUE)
#undef ACAPELLA_ISSUE
};

// Returns an empty text for Issue::none, because the column is then null.
inline std::string_view text_of(Issue issue) {
    constexpr std::string_view kTexts[] = {
#define ACAPELLA_ISSUE(name) #name,
        ACAPELLA_ISSUES(ACAPELLA_ISSUE)
#undef ACAPELLA_ISSUE
    };
    return issue == Issue::none ? std::string_view{} : kTexts[static_cast<std::size_t>(issue)];
}

}  // namespace acapella
