// Reads flow keys from tshark's fields. The tokens in frame.protocols show to which header a value belongs:
// the header of the third `ip` has the third value of ip.src.
#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "frame/tokens.hpp"
#include "hybrid/field_lists.hpp"
#include "hybrid/tshark_output.hpp"
#include "hybrid/tshark_tunnels.hpp"

namespace acapella::hybrid {
namespace {

// Returns the number of entries of MPLS stack number `stack` (from 0) of `stacks`, up to its bottom of stack
// (mpls.bottom). If the list does not have one value per label, one label is assigned to every later stack
// and the rest to the first one.
std::size_t label_count(const TsharkRow& tshark_row, std::size_t stack, std::size_t stacks) {
    const std::size_t labels = length(tshark_row[Field::label]);
    std::string_view bottoms = tshark_row[Field::label_bottom];
    if (length(bottoms) != labels) return stack > 0 ? 1 : std::max(labels, stacks) - stacks + 1;
    std::size_t entries = 0;
    while (!bottoms.empty()) {
        ++entries;
        if (take(bottoms, ',') != "1") continue;
        if (stack-- == 0) return entries;
        entries = 0;
    }
    return std::max<std::size_t>(entries, 1);
}

bool address(int family, std::string_view text, std::array<std::byte, 16>& into) {
    return inet_pton(family, std::string(text).c_str(), into.data()) == 1;
}

// Iterates over the tokens, counts each kind, and stores the innermost headers.
class KeyWalk {
  public:
    KeyWalk(const TsharkRow& tshark_row, Dissection& out)
        : row_(tshark_row), out_(out), tunnels_(tshark_row, out) {}

    void run() {
        walk();
        tunnels_.finish();
    }

  private:
    void walk() {
        bool network = false;
        std::string_view previous;
        for (std::string_view rest = row_.protocols(); !rest.empty();) {
            const std::string_view token = take(rest, ':');
            // Packets quoted in ICMP errors, and packets carried by an application over IP, are not part of
            // the frame's key.
            if (network && (token == "icmp" || token == "icmpv6")) return icmp();
            if (network && layer_of(token) == Layer::kApplication) return;
            network = network || token == "ip" || token == "ipv6";
            rest_ = rest;
            advance_position(token);
            tunnels_.visit(token, previous, position_);
            visit(token);
            previous = token;
        }
    }

    void advance_position(std::string_view token) {
        if (token != "mpls") {
            position_ += has_position(token) ? 1 : 0;
            return;
        }
        const std::size_t labels = label_count(row_, label_stacks_++, tokens_in(row_.protocols(), "mpls"));
        position_ += labels;
        tunnels_.labels(labels);
    }

    void visit(std::string_view token) {
        if (token == "vlan") return tag(Field::vlan, vlans_++);
        if (token == "ieee8021ad") return service_tag();
        if (token == "mpls" && !labels_taken_) return labels();
        if (token == "ip") return ipv4(ip_++);
        if (token == "ipv6") return ipv6(ipv6_++);
        if (token == "ipv6.hopopts") return extension(Field::hopopts_nxt, hopopts_++);
        if (token == "ipv6.routing") return extension(Field::routing_nxt, routing_++);
        if (token == "ipv6.dstopts") return extension(Field::dstopts_nxt, dstopts_++);
        if (token == "ipv6.fraghdr") return fragment(fraghdr_++);
        if (token == "ah") return extension(Field::ah_nxt, ah_++);
        if (token == "tcp") return tcp(tcp_++);
        if (token == "udp") return udp(udp_++);
        if (token == "udplite") return udplite(udp_++);
        if (token == "sctp") return sctp(sctp_++);
    }

    std::string_view value(Field field, std::size_t index) const { return nth(row_[field], index); }

    void tag(Field field, std::size_t index) {
        const auto id = number<std::uint16_t>(value(field, index));
        if (id && out_.vlan_count < kMaxVlans) out_.vlans[out_.vlan_count++] = *id;
    }

    // tshark reads two adjacent service tags as one header with two ids in separate fields.
    void service_tag() {
        if (!is_double()) {
            tunnels_.service_tag(service_text(single_ + double_), rest_, position_);
            return tag(Field::service_vlan, single_++);
        }
        tag(Field::service_outer, double_);
        tag(Field::service_inner, double_++);
    }

    // If both single and double tags are left, uses the text of the header, which tshark's columns do not
    // contain. Without the text, a tag is considered double if another service tag follows.
    bool is_double() const {
        const std::size_t singles = length(row_[Field::service_vlan]);
        const std::size_t doubles = length(row_[Field::service_outer]);
        if (double_ >= doubles || single_ >= singles) return double_ < doubles;
        const std::string_view text = service_text(single_ + double_);
        if (!text.empty()) return text.find("S-VID") != std::string_view::npos;
        return rest_.starts_with("ethertype:ieee8021ad");
    }

    // Returns the text of header `index`: "IEEE 802.1ad, ID: 5", "IEEE 802.1ad, S-VID: 5, C-VID: 6", or "IEEE
    // 802.1ah, B-VID: 5, I-SID: 6"; empty if unknown.
    std::string_view service_text(std::size_t index) const {
        constexpr std::string_view kName = "IEEE 802.1a";
        std::string_view rest = row_[Field::service_text];
        for (;; --index) {
            const std::size_t at = rest.find(kName);
            if (at == std::string_view::npos) return {};
            rest.remove_prefix(at);
            const std::string_view text = rest.substr(0, rest.find(kName, kName.size()));
            if (index == 0) return text;
            rest.remove_prefix(text.size());
        }
    }

    // tshark prints `mpls` once per label stack. All labels are read at the first of these tokens.
    void labels() {
        for (std::string_view rest = row_[Field::label]; out_.label_count < kMaxLabels && !rest.empty();)
            if (const auto label = number<std::uint32_t>(take(rest, ',')))
                out_.labels[out_.label_count++] = *label;
        labels_taken_ = true;
    }

    void network(std::uint8_t version) {
        tunnels_.ip_header_found();
        out_.ip_version = version;
        out_.later_fragment = out_.has_ip_id = out_.has_ports = out_.has_tcp = out_.has_payload_len = false;
    }

    void ipv4(std::size_t index) {
        std::array<std::byte, 16> src{};
        std::array<std::byte, 16> dst{};
        if (!address(AF_INET, value(Field::ip_src, index), src) ||
            !address(AF_INET, value(Field::ip_dst, index), dst))
            return;  // a truncated header
        network(4);
        out_.src = src;
        out_.dst = dst;
        out_.ip_proto = number<std::uint8_t>(value(Field::ip_proto, index)).value_or(0);
        out_.ip_len = number<std::uint32_t>(value(Field::ip_len, index)).value_or(0);
        const auto id = number<std::uint16_t>(value(Field::ip_id, index));
        out_.has_ip_id = id.has_value();
        out_.ip_id = id.value_or(0);
        out_.later_fragment = number<std::uint32_t>(value(Field::ip_frag_offset, index)).value_or(0) > 0;
    }

    void ipv6(std::size_t index) {
        std::array<std::byte, 16> src{};
        std::array<std::byte, 16> dst{};
        if (!address(AF_INET6, value(Field::ipv6_src, index), src) ||
            !address(AF_INET6, value(Field::ipv6_dst, index), dst))
            return;
        network(6);
        out_.src = src;
        out_.dst = dst;
        out_.ip_proto = number<std::uint8_t>(value(Field::ipv6_nxt, index)).value_or(0);
        out_.ip_len = kIpv6Header + number<std::uint32_t>(value(Field::ipv6_plen, index)).value_or(0);
    }

    // An extension header was truncated if it announces a header but no token follows.
    void extension(Field field, std::size_t index) {
        const auto next = number<std::uint8_t>(value(field, index));
        if (next && (!rest_.empty() || *next == kNoNextHeader)) out_.ip_proto = *next;
    }

    void fragment(std::size_t index) {
        extension(Field::fraghdr_nxt, index);
        if (number<std::uint32_t>(value(Field::fraghdr_offset, index)).value_or(0) > 0)
            out_.later_fragment = true;
    }

    bool ports(Field src, Field dst, std::size_t index) {
        const auto from = number<std::uint16_t>(value(src, index));
        const auto to = number<std::uint16_t>(value(dst, index));
        out_.has_ports = from && to;
        out_.src_port = from.value_or(0);
        out_.dst_port = to.value_or(0);
        return out_.has_ports;
    }

    void tcp(std::size_t index) {
        if (!ports(Field::tcp_src, Field::tcp_dst, index)) return;
        const auto flags = number<std::uint16_t>(value(Field::tcp_flags, index));
        // Ignore a truncated header. The urgent pointer is the last field before the options.
        out_.has_tcp = flags && !value(Field::tcp_urgent, index).empty();
        if (!out_.has_tcp) return;
        out_.tcp_flags = *flags;
        out_.tcp_seq = number<std::uint32_t>(value(Field::tcp_seq, index)).value_or(0);
        out_.tcp_ack = number<std::uint32_t>(value(Field::tcp_ack, index)).value_or(0);
        out_.tcp_window = number<std::uint16_t>(value(Field::tcp_window, index)).value_or(0);
        payload(number<std::uint32_t>(value(Field::tcp_len, index)), 0);
    }

    // Returns the payload length of the innermost IP packet; none if tshark does not show the length of all
    // headers.
    std::optional<std::uint32_t> network_payload() const {
        if (out_.ip_version == 0 || hopopts_ + routing_ + dstopts_ + ah_ > 0) return std::nullopt;
        const std::uint32_t headers =
            out_.ip_version == 4 ? number<std::uint32_t>(value(Field::ip_hdr_len, ip_ - 1)).value_or(0)
                                 : kIpv6Header + (fraghdr_ > 0 ? kFragmentHeader : 0);
        if (out_.ip_len < headers) return std::nullopt;
        return out_.ip_len - headers;
    }

    // The UDP length of a first fragment is that of the whole datagram, so it is limited by the length of the
    // packet.
    void udp(std::size_t index) {
        if (!ports(Field::udp_src, Field::udp_dst, index)) return;
        tunnels_.udp(out_.src_port, out_.dst_port, rest_, position_);
        const auto length = number<std::uint32_t>(value(Field::udp_length, index));
        if (length) payload(std::min(*length, network_payload().value_or(*length)), kUdpHeader);
    }

    // UDP-Lite has the fields of UDP, with a checksum coverage in place of the length (RFC 3828 section 3.1).
    void udplite(std::size_t index) {
        if (ports(Field::udp_src, Field::udp_dst, index)) payload(network_payload(), kUdpHeader);
    }

    void icmp() { payload(network_payload(), kIcmpHeader); }

    void sctp(std::size_t index) {
        if (ports(Field::sctp_src, Field::sctp_dst, index)) payload(network_payload(), kSctpHeader);
    }

    void payload(std::optional<std::uint32_t> length_field, std::uint32_t header) {
        if (!length_field || *length_field < header) return;
        out_.payload_len = *length_field - header;
        out_.has_payload_len = true;
    }

    static constexpr std::uint8_t kNoNextHeader = 59;
    static constexpr std::uint32_t kIpv6Header = 40;
    static constexpr std::uint32_t kFragmentHeader = 8;
    static constexpr std::uint32_t kUdpHeader = 8;
    static constexpr std::uint32_t kSctpHeader = 12;
    static constexpr std::uint32_t kIcmpHeader = 8;

    const TsharkRow& row_;
    Dissection& out_;
    std::size_t vlans_ = 0, single_ = 0, double_ = 0, ip_ = 0, ipv6_ = 0, hopopts_ = 0, routing_ = 0,
                dstopts_ = 0;
    std::size_t fraghdr_ = 0, ah_ = 0, tcp_ = 0, udp_ = 0, sctp_ = 0;
    bool labels_taken_ = false;
    TunnelWalk tunnels_;
    std::size_t label_stacks_ = 0;
    std::size_t position_ = 0;  // of the current header, see has_position()
    std::string_view rest_;     // tokens after the current one
};

}  // namespace

void take_keys(const TsharkRow& tshark_row, Dissection& dissection) {
    dissection.reset();
    KeyWalk(tshark_row, dissection).run();
}

namespace {

template <typename Ids>
void take_order(Ids& ids, std::size_t count, const Ids& core, std::size_t core_count) {
    const auto end = static_cast<std::ptrdiff_t>(count);
    // The core may have decoded more headers than tshark.
    if (count <= core_count && std::is_permutation(core.begin(), core.begin() + end, ids.begin())) ids = core;
}

}  // namespace

CoreTags::CoreTags(std::uint64_t number, const Dissection& d)
    : frame(number), vlans(d.vlans), labels(d.labels), vlan_count(d.vlan_count), label_count(d.label_count) {}

void CoreTags::order(Dissection& keys) const {
    take_order(keys.vlans, keys.vlan_count, vlans, vlan_count);
    take_order(keys.labels, keys.label_count, labels, label_count);
}

void replace_keys(FrameRow& row, const Dissection& keys) {
    row.ip_id = keys.ip_id;
    row.ip_len = keys.ip_len;
    row.tcp_seq = keys.tcp_seq;
    row.tcp_ack = keys.tcp_ack;
    row.tcp_flags = keys.tcp_flags;
    row.tcp_window = keys.tcp_window;
    row.payload_len = keys.payload_len;
    row.bits = static_cast<std::uint8_t>(
        (row.bits & ~(FrameRow::kHasTcp | FrameRow::kHasPayloadLen | FrameRow::kHasIpId)) |
        (keys.has_ip_id ? FrameRow::kHasIpId : 0) | (keys.has_tcp ? FrameRow::kHasTcp : 0) |
        (keys.has_payload_len ? FrameRow::kHasPayloadLen : 0));
}

std::string stack_text(const TsharkRow& tshark_row) {
    const std::size_t stacks = tokens_in(tshark_row.protocols(), "mpls");
    std::size_t stack = 0;
    std::string text;
    for (std::string_view rest = tshark_row.protocols(); !rest.empty();) {
        const std::string_view token = take(rest, ':');
        const std::string label = label_of(token);
        std::size_t times = label.empty() ? 0 : 1;
        if (token == "mpls") times = label_count(tshark_row, stack++, stacks);
        for (; times > 0; --times) text.append(text.empty() ? "" : "/").append(label);
    }
    return text;
}

}  // namespace acapella::hybrid
