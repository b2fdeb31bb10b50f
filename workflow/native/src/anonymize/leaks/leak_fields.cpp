#include "anonymize/leaks/leak_fields.hpp"

#include <algorithm>

#include "anonymize/lengths.hpp"
#include "dissect/gre_key.hpp"
#include "frame/cursor.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::size_t kIpv4 = 4;
constexpr std::size_t kIpv6 = 16;
constexpr std::size_t kMac = 6;

// Reads one header. Offsets count from its start.
class Reader {
  public:
    Reader(HeaderFields& fields, const Record& record, const Step& step)
        : at(record.bytes, record.wire_len), step_(step), fields_(fields) {
        at.skip(step.begin);
        at.limit(step.reported);
    }
    [[nodiscard]] std::size_t length() const { return step_.end - step_.begin; }
    void header(std::size_t begin, std::size_t end) { fields_.headers.push_back(range(begin, end)); }
    void blank(std::size_t begin, std::size_t end) { fields_.blank.push_back(range(begin, end)); }
    void ipv4(std::size_t offset, std::size_t count = 1, std::size_t step = kIpv4) {
        add(fields_.ipv4, kIpv4, offset, count, step);
    }
    void ipv6(std::size_t offset, std::size_t count = 1) { add(fields_.ipv6, kIpv6, offset, count, kIpv6); }
    void mac(std::size_t offset, std::size_t count = 1) { add(fields_.macs, kMac, offset, count, kMac); }

    Cursor at;

  private:
    [[nodiscard]] Range range(std::size_t begin, std::size_t end) const {
        const std::size_t last = std::min(end, at.captured());
        return {step_.begin + std::min(begin, last), step_.begin + last};
    }
    void add(std::vector<std::size_t>& offsets, std::size_t size, std::size_t offset, std::size_t count,
             std::size_t step) {
        for (; count > 0 && at.has(offset + size); --count, offset += step)
            offsets.push_back(step_.begin + offset);
    }

    const Step& step_;
    HeaderFields& fields_;
};

constexpr std::uint8_t kMptcp = 30;  // not an IPv4 option

// Calls read_one(option, length) for each option; kind 0 ends the list, and kind 1 is a single byte. Options
// must be zero if their kind is repeated or not in `kinds`. Only MPTCP options may be repeated.
template <std::size_t Kinds, typename ReadOne>
void for_each_option(Reader& reader, std::size_t option, std::size_t end, const std::uint8_t (&kinds)[Kinds],
                     const ReadOne& read_one) {
    Seen<256> seen;
    end = std::min(end, reader.at.captured());
    while (option < end) {
        const std::uint8_t kind = reader.at.u8(option);
        const std::size_t length = kind == 1 ? 1 : reader.at.u8(option + 1);
        if (kind == 0 || (kind != 1 && length < 2) || option + length > end) break;
        if (kind != 1 && has_type(kinds, kind) && (seen.first(kind) || kind == kMptcp)) {
            read_one(option, length);
        } else if (kind != 1) {
            reader.blank(option, option + length);
        }
        option += length;
    }
    reader.blank(option, end);
}

void read_ipv4_option(Reader& reader, std::size_t option, std::size_t length) {
    constexpr std::uint8_t kTimestamps = 68;
    constexpr std::uint8_t kRouterAlert = 148;
    const std::uint8_t kind = reader.at.u8(option);
    if (kind == kTimestamps) {
        const unsigned flag = reader.at.u8(option + 3) & 0x0fU;
        if (!has_length(kIpv4Timestamps, flag, length)) return reader.blank(option + 2, option + length);
        if (flag == 0) return reader.blank(option + 4 + 4 * kMaxInRow, option + length);
        return reader.ipv4(option + 4, (length - 4) / 8, 8);
    }
    if (!has_length(kIpv4Options, kind, length)) return reader.blank(option + 2, option + length);
    if (kind != kRouterAlert) reader.ipv4(option + 3, (length - 3) / 4);
}

void read_ipv4(Reader& reader) {
    constexpr std::size_t kHeader = 20;
    reader.ipv4(12, 2);
    if (reader.length() < kHeader) return;
    for_each_option(
        reader, kHeader, reader.length(), kIpv4Kinds,
        [&](std::size_t option, std::size_t length) { read_ipv4_option(reader, option, length); });
}

void read_ipv6_options(Reader& reader) {
    constexpr std::uint8_t kPadN = 1;
    constexpr std::uint8_t kHomeAddress = 0xc9;
    Seen<256> seen;
    for (std::size_t option = 2; option < reader.length();) {
        const std::uint8_t type = reader.at.u8(option);
        const std::size_t length = type == 0 ? 1 : reader.at.u8(option + 1) + std::size_t{2};
        if (option + length > reader.length()) return reader.blank(option, reader.length());
        const bool kept = has_type(kIpv6Types, type) && (seen.first(type) || type == kPadN);
        if (type != 0 && !kept) reader.blank(option, option + length);
        if (type != 0 && !has_length(kIpv6Options, type, length)) reader.blank(option + 2, option + length);
        if (type == kHomeAddress && has_length(kIpv6Options, type, length)) reader.ipv6(option + 2);
        option += length;
    }
}

void read_ipv6_routing(Reader& reader) {
    constexpr std::size_t kFixed = 8;
    const std::uint8_t type = reader.at.u8(2);
    const std::size_t room = reader.length() < kFixed ? 0 : (reader.length() - kFixed) / kIpv6;
    std::size_t addresses = 0;
    if (type == 0 || type == 2) addresses = reader.length() % kIpv6 == kFixed ? room : 0;
    if (type == 4) addresses = std::min(room, reader.at.u8(4) + std::size_t{1});
    reader.ipv6(kFixed, addresses);
    reader.blank(kFixed + addresses * kIpv6, reader.length());
}

void read_tcp_option(Reader& reader, std::size_t option, std::size_t length) {
    constexpr std::size_t kLongestWithIpv4 = 18;
    const std::uint8_t kind = reader.at.u8(option);
    if (kind == kMptcp) {
        const unsigned subtype = reader.at.u8(option + 2) >> 4;
        if (!has_length(kMptcpOptions, subtype, length)) return reader.blank(option + 2, option + length);
        if (subtype != kMptcpAddAddress) return reader.blank(option + 3, option + length);
        const bool is_ipv4 = length <= kLongestWithIpv4;
        if (is_ipv4) reader.ipv4(option + 4);
        if (!is_ipv4) reader.ipv6(option + 4);
        return reader.blank(option + 4 + (is_ipv4 ? kIpv4 : kIpv6), option + length);
    }
    if (!has_length(kTcpOptions, kind, length)) reader.blank(option + 2, option + length);
    if (kind == kTcpSack) reader.blank(option + kTcpSackKept, option + length);
}

void read_tcp(Reader& reader) {
    constexpr std::size_t kHeader = 20;
    reader.header(0, kHeader);  // even if truncated
    const std::size_t length = (reader.at.u8(12) >> 4) * std::size_t{4};
    if (length <= kHeader || !reader.at.has(length)) return;
    reader.header(0, length);
    for_each_option(reader, kHeader, length, kTcpKinds,
                    [&](std::size_t option, std::size_t size) { read_tcp_option(reader, option, size); });
}

// Calls read_one(begin, length) for each complete chunk or parameter (type, length, padding to words) until
// it returns false. Returns the offset at which it stopped.
template <typename ReadOne>
std::size_t for_each_word_aligned(Reader& reader, std::size_t begin, std::size_t end,
                                  const ReadOne& read_one) {
    end = std::min(end, reader.at.captured());
    while (begin + 4 <= end) {
        const std::size_t length = reader.at.be16(begin + 2);
        if (length < 4 || begin + length > end) break;
        if (!read_one(begin, length)) break;
        begin += (length + 3) & ~std::size_t{3};
    }
    return std::min(begin, end);
}

bool has_address_types(const Cursor& at, std::size_t begin, std::size_t end) {
    for (; begin < end; begin += 2)
        if (!has_type(kSctpAddressTypes, at.be16(begin))) return false;
    return true;
}

void read_sctp_parameter(Reader& reader, std::size_t parameter, std::size_t length, bool repeated) {
    constexpr std::uint16_t kTypes = 12;
    const std::uint16_t type = reader.at.be16(parameter);
    if (!has_type(kSctpParameterTypes, type)) reader.blank(parameter, parameter + 2);
    const bool has_valid_length = has_length(kSctpParameters, type, length);
    const bool numbered = has_valid_length && type > kTypes;
    if (has_valid_length && type == kTypes && !repeated &&
        has_address_types(reader.at, parameter + 4, parameter + length))
        return;
    if (numbered && repeated) reader.blank(parameter + 4, parameter + 8);
    // An address, or a number and a parameter with an address, which fills the rest.
    const std::size_t inner = parameter + (type > kTypes ? 8 : 0);
    const std::uint16_t kind = reader.at.be16(inner);
    const std::size_t rest = length - (inner - parameter);
    if (!has_valid_length || kind > 6 || reader.at.be16(inner + 2) != rest ||
        !has_length(kSctpParameters, kind, rest))
        return reader.blank(parameter + 4, parameter + length);
    if (kind == 5) reader.ipv4(inner + 4);
    if (kind == 6) reader.ipv6(inner + 4);
}

void read_sctp_chunk(Reader& reader, std::size_t chunk, std::size_t length, bool repeated) {
    const std::uint8_t type = reader.at.u8(chunk);
    if (!has_type(kSctpTypes, type)) reader.blank(chunk, chunk + 1);
    if (sctp_flags(type) == 0) reader.blank(chunk + 1, chunk + 2);
    const std::size_t end = chunk + length;
    const bool init = type == 1 || type == 2;
    std::size_t known = chunk + 8;  // a TSN
    std::size_t parameters = 0;
    if (init) parameters = known = chunk + 20;
    if (type == 0xc1) parameters = known;
    const bool sack = type == 3;
    if (repeated || (init && !is_alone(reader.at, chunk, length))) return reader.blank(chunk + 4, end);
    if (!has_length(kSctpChunks, type, length) ||
        (sack && length != sack_length(reader.at.be16(chunk + 12), reader.at.be16(chunk + 14))))
        return reader.blank(chunk + 4, end);
    if (sack) return reader.blank(chunk + sack_length(kMaxInRow, 0), end);
    Seen<std::size(kSctpParameterTypes) + 1> seen;
    if (parameters != 0)
        known = for_each_word_aligned(reader, parameters, end, [&](std::size_t parameter, std::size_t size) {
            const std::size_t index = index_of(kSctpParameterTypes, reader.at.be16(parameter));
            read_sctp_parameter(reader, parameter, size, !seen.first(index));
            return true;
        });
    reader.blank(std::min(known, end), end);
}

void read_sctp(Reader& reader) {
    constexpr std::size_t kHeader = 12;
    constexpr std::size_t kIDataHead = 20;
    Seen<256> seen;
    const std::size_t end =  // data chunks keep only the header, and nothing after it
        for_each_word_aligned(reader, kHeader, reader.at.captured(),
                              [&](std::size_t chunk, std::size_t length) {
                                  const std::uint8_t type = reader.at.u8(chunk);
                                  if (type == 0 || type == 64) return false;
                                  read_sctp_chunk(reader, chunk, length, !seen.first(type));
                                  return true;
                              });
    reader.header(0, end + kIDataHead);
}

void read_arp(Reader& reader) {
    if (reader.at.u8(4) != kMac || reader.at.u8(5) != kIpv4) return;
    for (const std::size_t offset : {8, 18}) {
        reader.mac(offset);
        reader.ipv4(offset + kMac);
    }
}

void read_neighbor_option(Reader& reader, std::size_t option, std::size_t length, bool repeated) {
    const std::uint8_t type = reader.at.u8(option);
    if (!has_type(kNeighborTypes, type)) reader.blank(option, option + 1);
    if (!has_length(kNeighborOptions, type, length)) return reader.blank(option + 2, option + length);
    if (repeated && type > 2) reader.blank(option + 2, option + 8);
    if (type <= 2) reader.mac(option + 2);
    if (type == 3) reader.blank(option + (repeated ? 8 : 12), option + 16);
    if (type == 3) reader.ipv6(option + 16);
    if (type == 5 || type == 25) reader.blank(option + 2, option + 4);
    if (type == 25) reader.ipv6(option + 8, (length - 8) / kIpv6);
}

void read_icmpv6(Reader& reader) {
    constexpr std::size_t kHeader = 8;
    const std::uint8_t type = reader.at.u8(0);
    if (type >= 130 && type <= 132) {  // multicast listeners
        reader.ipv6(kHeader);
        reader.header(0, kHeader + kIpv6 + 4);
    }
    if (type < 133 || type > 137) return;
    const std::size_t addresses = type < 135 ? 0 : type == 137 ? 2 : 1;
    std::size_t option = (type == 134 ? 16 : kHeader) + addresses * kIpv6;
    reader.ipv6(kHeader, addresses);
    Seen<256> seen;
    while (reader.at.has(option + 8)) {
        const std::size_t length = reader.at.u8(option + 1) * std::size_t{8};
        if (length == 0 || !reader.at.has(option + length)) break;
        const std::uint8_t option_type = reader.at.u8(option);
        const bool valid = has_length(kNeighborOptions, option_type, length);
        read_neighbor_option(reader, option, length, valid && !seen.first(option_type));
        option += length;
    }
    reader.header(0, option);
}

void read_igmp(Reader& reader) {
    constexpr std::size_t kGroup = 4;
    constexpr std::size_t kHeader = 8;
    const std::uint8_t type = reader.at.u8(0);
    const bool query = type == 0x11;
    if (query || type == 0x12 || type == 0x16 || type == 0x17) reader.ipv4(kGroup);
    if (query && reader.at.has(kHeader + 4)) reader.ipv4(kHeader + 4, reader.at.be16(kHeader + 2));
    if (type != 0x22) return;
    std::size_t record = kHeader;
    for (std::size_t left = reader.at.be16(6); left > 0; --left) {
        const std::size_t sources = reader.at.be16(record + 2);
        const std::size_t auxiliary = record + 8 + 4 * sources;
        const std::size_t end = auxiliary + reader.at.u8(record + 1) * std::size_t{4};
        if (!reader.at.has(end)) return;
        if (!is_record_type(reader.at.u8(record))) reader.blank(record, record + 4);
        reader.ipv4(record + 4, sources + 1);
        reader.header(record, end);
        reader.blank(auxiliary, end);
        record = end;
    }
}

void read_mpls(Reader& reader) {
    const std::size_t kept = kept_labels(reader.at, reader.length());
    for (std::size_t i = kMaxInRow; i < kept; ++i) {  // all but the byte with the bottom bit
        reader.blank(kLabel * i, kLabel * i + 2);
        reader.blank(kLabel * i + 3, kLabel * i + 4);
    }
    reader.blank(kLabel * kept, reader.length());
}

void read_geneve(Reader& reader) {
    constexpr std::size_t kFixed = 8;
    constexpr std::size_t kHead = 4;
    Seen<std::size(kGeneveTypes) + 1> seen;
    for (std::size_t option = kFixed; option < reader.length();) {
        const std::size_t length = kHead + (reader.at.u8(option + 3) & 0x1fU) * std::size_t{4};
        const std::size_t index = index_of(kGeneveTypes, reader.at.be24(option));
        const bool known = index < std::size(kGeneveTypes) && seen.first(index);
        if (!known) reader.blank(option, option + 3);
        reader.blank(option + kHead, option + length);
        option += length;
    }
}

void read_gtp(Reader& reader) {
    constexpr std::size_t kFixed = 12;
    Seen<256> seen;
    std::uint8_t type = reader.at.u8(kFixed - 1);
    for (std::size_t begin = kFixed; begin < reader.length();) {
        const std::size_t length = reader.at.u8(begin) * std::size_t{4};
        if (length == 0) return;
        const bool known = has_type(kGtpExtensions, type) && seen.first(type);
        if (!known) reader.blank(begin - 1, begin);
        reader.blank(begin + 1, begin + length - 1);
        begin += length;
        type = reader.at.u8(begin - 1);
    }
}

void read_gre(Reader& reader) {
    const std::uint16_t flags = reader.at.be16(0);
    if ((flags & gre::kRouting) == 0) return;
    const std::size_t end = gre::header_end(reader.at, flags);
    for (std::size_t route = gre::header_length(flags); route < end;) {
        const std::size_t length = reader.at.u8(route + 3);
        const bool last = gre::is_last_route(reader.at, route);
        if (!last && !is_source_route(reader.at.be16(route), reader.at.u8(route + 2), length))
            reader.blank(route, route + 3);
        reader.blank(route + gre::kRouteHeader, route + gre::kRouteHeader + length);
        route += gre::route_length(reader.at, route);
    }
}

// The reserved bytes and the check value must be zero.
void read_authentication(Reader& reader) {
    reader.blank(2, 4);
    reader.blank(12, reader.length());
}

}  // namespace

void HeaderFields::clear() {
    header_limits_ = HeaderLimits{};
    for (auto* offsets : {&ipv4, &ipv6, &macs}) offsets->clear();
    headers.clear();
    blank.clear();
}

void HeaderFields::read(const Record& record, const Step& step) {
    headers.push_back({step.begin, step.end});
    if (!header_limits_.allows(step)) blank.push_back({step.begin, step.end});
    Reader reader(*this, record, step);
    switch (step.dissector) {
        case Next::ethernet:
            return reader.mac(0, 2);
        case Next::pbb:
            return reader.mac(4, 2);
        case Next::ipv4:
            return read_ipv4(reader);
        case Next::ipv6:
            return reader.ipv6(8, 2);
        case Next::hop_by_hop:
        case Next::destination_options:
            return read_ipv6_options(reader);
        case Next::ipv6_routing:
            return read_ipv6_routing(reader);
        case Next::ipv6_fragment:
            return reader.blank(1, 2);
        case Next::authentication:
            return read_authentication(reader);
        case Next::mpls:
            return read_mpls(reader);
        case Next::geneve:
            return read_geneve(reader);
        case Next::gtp:
            return read_gtp(reader);
        case Next::gre:
            return read_gre(reader);
        case Next::tcp:
            return read_tcp(reader);
        case Next::sctp:
            return read_sctp(reader);
        case Next::arp:
            return read_arp(reader);
        case Next::ptp:
            return reader.header(0, 16);
        case Next::icmp:  // redirect
            if (reader.at.u8(0) == 5) reader.ipv4(4);
            return;
        case Next::icmpv6:
            return read_icmpv6(reader);
        case Next::igmp:
            return read_igmp(reader);
        default:
            return;
    }
}

}  // namespace acapella::anonymize
