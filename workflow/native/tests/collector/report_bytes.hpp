// Flow reports and RoCEv2 frames for tests, built field by field. A separate, simple CRC computes the ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collector/report/report_fields.hpp"

namespace acapella::test {

using ByteVector = std::vector<std::byte>;

template <std::size_t Bytes>
void put(ByteVector& to, collector::Field<Bytes> field, std::uint64_t value) {
    for (std::size_t i = 0; i < Bytes; ++i)
        to[field.offset + i] = static_cast<std::byte>(value >> 8 * (Bytes - 1 - i));
}

// Returns a report with these values; `rest`: more pairs of a field and its value.
template <std::size_t Bytes, typename... Rest>
ByteVector with(ByteVector report, collector::Field<Bytes> field, std::uint64_t value, Rest... rest) {
    put(report, field, value);
    if constexpr (sizeof...(rest) == 0) {
        return report;
    } else {
        return with(std::move(report), rest...);
    }
}

inline void append_number(ByteVector& to, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = bytes; i-- > 0;) to.push_back(static_cast<std::byte>(value >> 8 * i));
}

// Returns a report of format 2 for TCP between 10.0.0.`flow` and 0.0.0.0.
inline ByteVector format2_report(unsigned flow, std::uint32_t epoch, std::uint64_t time,
                                 std::uint32_t sequence, std::uint64_t bytes = 0) {
    using namespace collector::format2;
    return with(ByteVector(kBytes), version, 2, ip_version, 4, ip_proto, 6,
                collector::Field<4>{src.offset + 12}, 0x0a000000 + flow, collector::format2::epoch, epoch,
                timestamp, time, report_sequence, sequence, collector::format2::bytes, bytes);
}

// Returns a report of format 1, the format of the paper.
inline ByteVector format1_report(std::uint64_t time, std::uint64_t bytes, std::uint64_t packets) {
    using namespace collector::format1;
    ByteVector report = with(ByteVector(kBytes), timestamp, time, packet_type, packet_type_values::ack);
    for (std::size_t i = 0; i < 4; ++i) {
        put(report, collector::Field<4>{bytes_0.offset + 4 * i}, bytes);
        put(report, collector::Field<2>{packets_0.offset + 2 * i}, packets);
    }
    return report;
}

inline std::uint32_t plain_crc32(const ByteVector& data) {
    std::uint32_t state = 0xffffffff;
    for (const std::byte byte : data) {
        state ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0xedb88320U : 0U);
    }
    return ~state;
}

struct FrameFields {
    std::uint32_t psn = 0;
    std::uint64_t address = 0;
    std::uint32_t key = 0x1234;
    std::uint32_t queue_pair = 0x11;
    std::uint32_t opcode = 0x2a;
    std::uint32_t flags = 0x40;  // of the BTH: migrated; the lowest four bits are its version
    std::uint32_t port = 4791;
    std::uint32_t vlans = 0;
    std::int64_t length = -1;  // in the RETH; -1: length of the payload
};

inline ByteVector frame(const FrameFields& fields, const ByteVector& payload) {
    ByteVector made(12, std::byte{2});
    for (std::uint32_t i = 0; i < fields.vlans; ++i) append_number(made, 0x81000064, 4);
    append_number(made, 0x0800, 2);
    const std::size_t start = made.size();
    append_number(made, 0x4500, 2);
    append_number(made, 20 + 8 + 12 + 16 + payload.size() + 4, 2);
    append_number(made, 0x0000'0000'4011'0000, 8);
    append_number(made, 0x0a000001'0a000002, 8);
    append_number(made, fields.port, 4);  // source port 0
    append_number(made, (8 + 12 + 16 + payload.size() + 4) << 16, 4);
    append_number(made, fields.opcode << 24 | fields.flags << 16 | 0xffff, 4);
    append_number(made, fields.queue_pair, 4);
    append_number(made, fields.psn, 4);
    append_number(made, fields.address, 8);
    append_number(made, fields.key, 4);
    append_number(made, fields.length < 0 ? payload.size() : static_cast<std::uint64_t>(fields.length), 4);
    made.insert(made.end(), payload.begin(), payload.end());
    ByteVector masked(8, std::byte{0xff});
    masked.insert(masked.end(), made.begin() + static_cast<std::ptrdiff_t>(start), made.end());
    for (const std::size_t at : {1, 8, 10, 11, 26, 27, 32}) masked[8 + at] = std::byte{0xff};
    append_number(made, __builtin_bswap32(plain_crc32(masked)), 4);
    return made;
}

}  // namespace acapella::test
