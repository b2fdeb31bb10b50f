#include "kappa/trial/identity.hpp"

#include <algorithm>

#include "dissect/dispatch.hpp"
#include "dissect/udp_ports.hpp"
#include "frame/cursor.hpp"
#include "kappa/trial/hash.hpp"

namespace acapella::kappa {
namespace {

constexpr std::size_t kEthertype = 2;
constexpr std::uint16_t kMaxLength = 1500;  // IEEE 802.3-2018 clause 3.2.6; ethertypes start at 1536
// Number of bytes after the IP header that an ICMP error quotes to identify the packet (RFC 792).
constexpr std::size_t kQuoted = 8;
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kTag = 16;
constexpr std::size_t kTagIdentity = 12;  // time, node and port
constexpr std::uint16_t kTagMark = 0x6587;

bool is_tag(const Cursor& tag, TagLayout layout) {
    if (tag.be16(14) != kTagMark) return false;
    const bool v1 = tag.be16(12) == tag.be16(6);
    const bool v2 = tag.u8(12) == tag.u8(1) && tag.u8(13) == tag.u8(0);
    switch (layout) {
        case TagLayout::v1:
            return v1;
        case TagLayout::v2:
            return v2;
        case TagLayout::automatic:
            break;
    }
    return v1 || v2;
}

// Offset and protocol of the transport header of an IP packet; proto is 0 if there is none.
struct Transport {
    std::size_t offset = 0;
    std::uint8_t proto = 0;
};

Transport transport_of_ipv4(const Cursor& ip) {
    constexpr std::uint16_t kFragmentOffset = 0x1fff;
    if (ip.be16(6) & kFragmentOffset) return {};
    return {(ip.u8(0) & 0x0fU) * std::size_t{4}, ip.u8(9)};
}

// Skips the extension headers of RFC 8200 section 4.1 and AH (RFC 4302).
Transport transport_of_ipv6(const Cursor& ip) {
    std::size_t at = 40;
    std::uint8_t proto = ip.u8(6);
    while (ip.has(at + 2)) {
        switch (proto) {
            case 0:
            case 43:
            case 60:
                proto = ip.u8(at);
                at += (ip.u8(at + 1) + std::size_t{1}) * 8;
                break;
            case 44:
                if (ip.be16(at + 2) & 0xfff8) return {};
                proto = ip.u8(at);
                at += 8;
                break;
            case 51:
                proto = ip.u8(at);
                at += (ip.u8(at + 1) + std::size_t{2}) * 4;
                break;
            default:
                return {at, proto};
        }
    }
    return {};
}

// Returns true if datagrams with these UDP ports may carry a packet; dissect() treats all others as payload.
bool may_carry_packets(const Cursor& udp) {
    return udp_tunnel(udp.be16(0)) != Next::stop || udp_tunnel(udp.be16(2)) != Next::stop;
}

struct Field {
    std::size_t offset = 0;
    std::size_t length = 0;
};

Field l4_checksum(const Cursor& ip, std::uint8_t version) {
    const Transport transport = version == 4 ? transport_of_ipv4(ip) : transport_of_ipv6(ip);
    switch (transport.proto) {
        case 1:
        case 58:
            return {transport.offset + 2, 2};
        case 6:
            return {transport.offset + 16, 2};
        case 17:
        case 136:
            return {transport.offset + 6, 2};
        case 132:
            return {transport.offset + 8, 4};
        default:
            return {};
    }
}

// Masks of the bits at the start of an IP header that no hop changes.
using HeaderMask = std::array<std::byte, Hasher::kStep>;
constexpr HeaderMask kIpv4Mask = [] {
    HeaderMask mask;
    mask.fill(std::byte{0xff});
    for (const std::size_t at : {1, 8, 10, 11}) mask[at] = std::byte{0};
    return mask;
}();
constexpr HeaderMask kIpv6Mask = [] {
    HeaderMask mask;
    mask.fill(std::byte{0xff});
    mask[0] = std::byte{0xf0};
    mask[1] = std::byte{0x0f};
    mask[7] = std::byte{0};
    return mask;
}();

}  // namespace

bool find_network_quickly(const Record& record, PacketSpan& network) {
    constexpr std::uint16_t kEthernetLink = 1;
    constexpr std::size_t kEthernet = 14;
    constexpr std::size_t kTagged = 4;
    constexpr std::size_t kPorts = 4;
    if (record.link_type != kEthernetLink) return false;
    Cursor at(record.bytes, record.wire_len);
    std::uint16_t type = at.be16(12);
    at.skip(kEthernet);
    if (type == 0x8100) {
        type = at.be16(2);
        at.skip(kTagged);
    }
    const std::size_t header = (at.u8(0) & 0x0fU) * std::size_t{4};
    const std::size_t total = at.be16(2);
    if (type != 0x0800 || at.u8(0) >> 4 != 4 || header < 20 || total < header + kPorts ||
        !at.has(header + kPorts))
        return false;
    const std::uint8_t proto = at.u8(9);
    at.limit(total);
    network = {at.rest(), static_cast<std::uint32_t>(at.reported()), 4, 0};
    if (at.be16(6) & 0x1fff || proto == 6) return true;
    at.skip(header);
    return proto == 17 && !may_carry_packets(at);
}

Identity hash_of(Bytes bytes, std::uint64_t seed) {
    Hasher hasher(seed, bytes.size());
    hasher.absorb(bytes);
    return hasher.finish();
}

Identifier::Found Identifier::find(const Record& record) {
    has_ethertype_ = false;
    ip_version_ = 0;
    Found found = find_by_rule(record);
    if (found.captured < found.on_wire && found.captured < min_captured()) found.usable = false;
    return found;
}

// The IPv4 header length includes options.
std::size_t Identifier::min_captured() const {
    if (ip_version_ == 6) return kIpv6Header + kQuoted;
    if (ip_version_ != 4 || bytes_.empty()) return kIpv4Header + kQuoted;
    return std::max((std::to_integer<std::size_t>(bytes_[0]) & 0x0fU) * 4, kIpv4Header) + kQuoted;
}

Identifier::Found Identifier::find_by_rule(const Record& record) {
    switch (rule_.kind) {
        case IdentityKind::invariant:
            return find_invariant(record);
        case IdentityKind::tag:
            return find_tag(record);
        case IdentityKind::regions:
            return find_regions(record);
        case IdentityKind::frame:
            break;
    }
    return all_of(record.bytes, record.wire_len);
}

Identifier::Found Identifier::all_of(Bytes bytes, std::size_t on_wire) {
    bytes_ = bytes;
    return {true, bytes.size(), std::max(on_wire, bytes.size())};
}

Identifier::Found Identifier::find_invariant(const Record& record) {
    if (!find_network_quickly(record, dissection_.network))
        dissect(record, dissection_, nullptr, Depth::innermost);
    const PacketSpan& network = dissection_.network;
    if (network.version == 0) {
        if (dissection_.link_payload.bytes.data() == nullptr) return all_of(record.bytes, record.wire_len);
        return find_without_ip(dissection_.link_payload);
    }
    ip_version_ = network.version;
    bytes_ = network.bytes;
    if (!rule_.l4_checksum) erase_l4_checksum();
    return {true, bytes_.size(), std::max<std::size_t>(network.reported, bytes_.size())};
}

Identifier::Found Identifier::find_without_ip(const PacketSpan& payload) {
    has_ethertype_ = true;
    ethertype_ = payload.ethertype;
    Cursor at(payload.bytes, payload.reported);
    if (ethertype_ > 0 && ethertype_ <= kMaxLength)  // an 802.3 length: padding follows; 0: not a length
        at.limit(ethertype_);
    const Found found = all_of(at.rest(), at.reported());
    return {true, kEthertype + found.captured, kEthertype + found.on_wire};
}

void Identifier::erase_l4_checksum() {
    const Field field = l4_checksum(Cursor(bytes_, bytes_.size()), ip_version_);
    if (field.length == 0 || field.offset >= bytes_.size()) return;
    copy_.assign(bytes_.begin(), bytes_.end());
    const std::size_t end = std::min(field.offset + field.length, copy_.size());
    for (std::size_t i = field.offset; i < end; ++i) copy_[i] = std::byte{0};
    bytes_ = copy_;
}

Identifier::Found Identifier::find_tag(const Record& record) {
    Cursor at(record.bytes, record.wire_len);
    if (record.wire_len < kTag || !at.has(record.wire_len)) return {false, 0, 0};
    at.skip(record.wire_len - kTag);
    if (!is_tag(at, rule_.tag)) return {false, 0, 0};
    return all_of(at.rest().first(kTagIdentity), kTagIdentity);
}

Identifier::Found Identifier::find_regions(const Record& record) {
    copy_.clear();
    for (const Region& region : rule_.regions) {
        Cursor at(record.bytes, record.bytes.size());
        if (!at.has(std::size_t{region.offset} + region.length)) return {false, 0, 0};
        at.skip(region.offset);
        at.limit(region.length);
        copy_.insert(copy_.end(), at.rest().begin(), at.rest().end());
    }
    return all_of(copy_, copy_.size());
}

Identity Identifier::hash(std::size_t length) {
    Hasher hasher(has_ethertype_ ? 1 : 0, length);
    if (has_ethertype_) {
        const std::array<std::byte, kEthertype> type{static_cast<std::byte>(ethertype_ >> 8),
                                                     static_cast<std::byte>(ethertype_)};
        const std::size_t copied = std::min(length, kEthertype);
        hasher.absorb(Bytes(type).first(copied));
        length -= copied;
    }
    Bytes bytes = bytes_.first(length);
    if (ip_version_ != 0) bytes = hasher.absorb_head(bytes, ip_version_ == 4 ? kIpv4Mask : kIpv6Mask);
    hasher.absorb(bytes);
    return hasher.finish();
}

}  // namespace acapella::kappa
