// Frames built by hand for the tests of the dissectors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "dissect/dispatch.hpp"
#include "frame/issue.hpp"
#include "frame/tokens.hpp"

namespace acapella::testing {

using ByteVector = std::vector<std::uint8_t>;

inline ByteVector hex(const std::string& digits) {
    ByteVector bytes;
    std::string pair;
    for (const char digit : digits) {
        if (digit == ' ') continue;
        pair += digit;
        if (pair.size() == 2) {
            bytes.push_back(static_cast<std::uint8_t>(std::stoul(pair, nullptr, 16)));
            pair.clear();
        }
    }
    return bytes;
}

inline ByteVector operator+(ByteVector left, const ByteVector& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

inline const ByteVector kMacs = hex("001b21aabbcc 001b21ddeeff");
inline const ByteVector kData = hex("68656c6c6f20776f726c642068656c6c6f");

inline ByteVector be16(std::size_t value) {
    return {static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

inline ByteVector ethernet(std::uint16_t type, const ByteVector& payload) {
    return kMacs + be16(type) + payload;
}

// From 10.0.0.1 to 10.0.0.2; `length` 0 is replaced by the actual length.
inline ByteVector ipv4(std::uint8_t protocol, const ByteVector& payload, std::uint16_t fragment = 0,
                       std::size_t length = 0) {
    return hex("4500") + be16(length ? length : 20 + payload.size()) + hex("0001") + be16(fragment) +
           ByteVector{64, protocol, 0, 0} + hex("0a000001 0a000002") + payload;
}

// 2001::1 to 2001::2.
inline ByteVector ipv6(std::uint8_t next, const ByteVector& payload) {
    const ByteVector zeros(13);
    return hex("60000000") + be16(payload.size()) + ByteVector{next, 64} + hex("2001") + zeros + hex("01") +
           hex("2001") + zeros + hex("02") + payload;
}

inline ByteVector udp(std::uint16_t destination, const ByteVector& payload, std::uint16_t source = 50000) {
    return be16(source) + be16(destination) + be16(8 + payload.size()) + hex("0000") + payload;
}

// From port 50000 to 443, sequence number 1, acknowledgment 2, PSH and ACK; the length of `options` is a
// multiple of four bytes.
inline ByteVector tcp(const ByteVector& payload, const ByteVector& options = {}) {
    const auto offset = static_cast<std::uint8_t>((20 + options.size()) / 4 << 4);
    return hex("c350 01bb 00000001 00000002") + ByteVector{offset, 0x18} + hex("0064 0000 0000") + options +
           payload;
}

// A captured frame that is `longer` bytes longer on the wire.
struct Frame {
    ByteVector bytes;
    std::uint16_t link_type = 1;
    std::size_t longer = 0;

    [[nodiscard]] Dissection dissected(const Vendors* vendors = nullptr) const {
        Record record;
        record.frame = 1;
        record.link_type = link_type;
        record.bytes = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
        record.wire_len = static_cast<std::uint32_t>(bytes.size() + longer);
        Dissection dissection;
        dissect(record, dissection, vendors);
        return dissection;
    }
    [[nodiscard]] std::string protocols() const { return protocols_of(dissected()); }
};

// Truncates a frame to its first `captured` bytes.
inline Frame cut(const ByteVector& bytes, std::size_t captured) {
    return {ByteVector(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(captured)), 1,
            bytes.size() - captured};
}

}  // namespace acapella::testing
