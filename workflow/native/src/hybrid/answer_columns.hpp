// The columns that engine hybrid asks tshark for. Most of the price of a column is its own, not that of its
// fields: tshark 4.0 walks its list of columns for each (get_column_visible). So fields whose values cannot
// be mistaken for each other share one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "hybrid/answers.hpp"

namespace acapella::hybrid {

// How tshark writes the values of a field. A column lists the values of its first field, then those of the
// second.
enum class Form : std::uint8_t { kAddress4, kAddress6, kHexadecimal, kDecimal };

// Fields of different forms; two of one form (source and destination port) are a pair, of which every header
// has both, or the first.
struct Column {
    static constexpr std::size_t kMaxFields = 4;

    constexpr Column(std::initializer_list<Field> list) {
        for (const Field field : list) fields[count++] = field;
    }

    std::array<Field, kMaxFields> fields{};
    std::size_t count = 0;
};

// The first column: these three fields, each of which every frame has once.
inline constexpr std::array kFrameColumn = {Field::number, Field::encap, Field::protocols};

// clang-format off
inline constexpr std::array kColumns = {
    Column{Field::ip_src, Field::ipv6_src, Field::tcp_flags, Field::ip_proto},
    Column{Field::ip_dst, Field::ipv6_dst, Field::gre_flags, Field::ip_len},
    Column{Field::gre_proto, Field::ip_hdr_len, Field::ip_frag_offset},
    Column{Field::gre_key, Field::vlan},
    Column{Field::gtp_flags, Field::ipv6_plen, Field::ipv6_nxt},
    Column{Field::gtp_message, Field::geneve_version},
    Column{Field::gtp_teid, Field::tcp_src, Field::tcp_dst},
    Column{Field::geneve_vni, Field::udp_src, Field::udp_dst},
    Column{Field::l2tp_sid, Field::udp_length},
    Column{Field::pppoe_session, Field::tcp_seq},
    Column{Field::ip_id, Field::tcp_ack},
    Column{Field::tcp_window, Field::tcp_urgent},
    Column{Field::tcp_len},
    Column{Field::sctp_src, Field::sctp_dst},
    Column{Field::service_vlan},
    Column{Field::service_outer, Field::service_inner},
    Column{Field::label},
    Column{Field::label_bottom},
    Column{Field::hopopts_nxt},
    Column{Field::routing_nxt},
    Column{Field::fraghdr_nxt, Field::fraghdr_offset},
    Column{Field::dstopts_nxt},
    Column{Field::ah_nxt},
    Column{Field::vxlan_flags, Field::vxlan_vni},
    Column{Field::gre_call},
    Column{Field::l2tp_type, Field::l2tp_version},
    Column{Field::l2tp_tunnel, Field::l2tp_session},
    Column{Field::pbb_isid},
    Column{Field::erspan_session},
};
// clang-format on

// What tshark's columns hold of a longer text.
inline constexpr std::size_t kLongestColumn = 2047;

// A column's expression (gui.column.format): "ip.src || ipv6.src".
std::string expression_of(std::span<const Field> fields);

// The line's fields; views into it. Field::service_text has none: a column shows no protocol's text. Throws
// AnswerError if a value has none of the forms of its column.
void split_columns(std::string_view line, Answer& answer);

}  // namespace acapella::hybrid
