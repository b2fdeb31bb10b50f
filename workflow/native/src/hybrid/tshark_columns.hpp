// The columns that engine hybrid requests from tshark. The cost depends mostly on the number of columns, not
// on the number of fields, because tshark 4.0 searches its list of columns for each column
// (get_column_visible). So fields whose values cannot be confused share a column.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "hybrid/tshark_output.hpp"

namespace acapella::hybrid {

// Format in which tshark prints the values of a field. A column lists the values of its first field, then
// those of the second.
enum class ValueFormat : std::uint8_t { kAddress4, kAddress6, kHexadecimal, kDecimal };

// Fields with different value formats. The last two may have the same format (source and destination port);
// then every header has either both or only the first.
struct TsharkColumn {
    static constexpr std::size_t kMaxFields = 4;

    constexpr TsharkColumn(std::initializer_list<Field> list) {
        for (const Field field : list) fields[count++] = field;
    }

    std::array<Field, kMaxFields> fields{};
    std::size_t count = 0;
};

// The first column contains these three fields. Every frame has exactly one value of each.
inline constexpr std::array kFirstColumn = {Field::number, Field::encap, Field::protocols};

// clang-format off
inline constexpr std::array kTsharkColumns = {
    TsharkColumn{Field::ip_src, Field::ipv6_src, Field::tcp_flags, Field::ip_proto},
    TsharkColumn{Field::ip_dst, Field::ipv6_dst, Field::gre_flags, Field::ip_len},
    TsharkColumn{Field::gre_proto, Field::ip_hdr_len, Field::ip_frag_offset},
    TsharkColumn{Field::gre_key, Field::vlan},
    TsharkColumn{Field::gtp_flags, Field::ipv6_plen, Field::ipv6_nxt},
    TsharkColumn{Field::gtp_message, Field::geneve_version},
    TsharkColumn{Field::gtp_teid, Field::tcp_src, Field::tcp_dst},
    TsharkColumn{Field::geneve_vni, Field::udp_src, Field::udp_dst},
    TsharkColumn{Field::l2tp_sid, Field::udp_length},
    TsharkColumn{Field::pppoe_session, Field::tcp_seq},
    TsharkColumn{Field::ip_id, Field::tcp_ack},
    TsharkColumn{Field::tcp_window, Field::tcp_urgent},
    TsharkColumn{Field::tcp_len},
    TsharkColumn{Field::sctp_src, Field::sctp_dst},
    TsharkColumn{Field::service_vlan},
    TsharkColumn{Field::service_outer, Field::service_inner},
    TsharkColumn{Field::label},
    TsharkColumn{Field::label_bottom},
    TsharkColumn{Field::hopopts_nxt},
    TsharkColumn{Field::routing_nxt},
    TsharkColumn{Field::fraghdr_nxt, Field::fraghdr_offset},
    TsharkColumn{Field::dstopts_nxt},
    TsharkColumn{Field::ah_nxt},
    TsharkColumn{Field::vxlan_flags, Field::vxlan_vni},
    TsharkColumn{Field::gre_call},
    TsharkColumn{Field::l2tp_type, Field::l2tp_version},
    TsharkColumn{Field::l2tp_tunnel, Field::l2tp_session},
    TsharkColumn{Field::pbb_isid},
    TsharkColumn{Field::erspan_session},
};
// clang-format on

// tshark truncates a column to this length.
inline constexpr std::size_t kMaxColumnBytes = 2047;

// Returns the expression of a column (gui.column.format), such as "ip.src || ipv6.src".
std::string expression_of(std::span<const Field> fields);

// Splits a line into fields, which are views into the line. Field::service_text remains empty, because
// columns do not show the text of a protocol. Throws TsharkOutputError if a value has none of the formats of
// its column.
void split_columns(std::string_view line, TsharkRow& tshark_row);

}  // namespace acapella::hybrid
