// A flow report as the collector reads it, whichever of the two formats it came in.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collector/report_fields.hpp"

namespace acapella::collector {

enum class Format : std::uint8_t { published = 1, tagged = 2 };

constexpr std::size_t bytes_of(Format format) {
    return format == Format::published ? format1::kBytes : format2::kBytes;
}

// The whole key of a flow. What a count says is not there is zero, so that keys are equal as words.
struct ReportKey {
    static constexpr std::size_t kTags = 4;
    using Words = std::array<std::uint64_t, 8>;

    std::uint8_t ip_version = 0;
    std::uint8_t ip_proto = 0;
    std::uint8_t vlan_count = 0;  // at most kTags
    std::uint8_t mpls_count = 0;
    std::uint16_t src_port = 0;
    std::uint16_t dst_port = 0;
    std::array<std::byte, 16> src{};  // IPv4: 4 bytes, the rest zero
    std::array<std::byte, 16> dst{};
    std::array<std::uint16_t, kTags> vlans{};
    std::array<std::uint32_t, kTags> labels{};

    Words words() const { return std::bit_cast<Words>(*this); }
    bool operator==(const ReportKey& other) const { return words() == other.words(); }
};
static_assert(sizeof(ReportKey) == 64);

struct Report {
    // Which of the values below the report has.
    enum Has : std::uint16_t {
        kStart = 1,
        kRttSyn = 2,
        kRttAck = 4,
        kIat = 8,
        kSeq = 16,
        kAck = 32,
        kSlot = 64,  // duplicate_acks to payload_bytes
        kTags = 128,
        kEnd = 256,     // the report's time is the end of the flow
        kSynSeq = 512,  // seq_end is where the flow's data starts
    };

    std::uint16_t has = 0;
    std::uint32_t epoch = 0;
    std::uint32_t sequence = 0;
    std::uint64_t timestamp = 0;  // ns; published format: modulo 2^48
    std::uint64_t start = 0;      // ns
    std::uint64_t bytes = 0;      // of the epoch; published format: modulo 2^32
    std::uint64_t packets = 0;    // of the epoch; published format: modulo 2^16
    std::uint64_t rtt_syn = 0;    // ns
    std::uint64_t rtt_ack = 0;    // ns
    std::uint64_t iat = 0;        // ns
    std::uint32_t seq_end = 0;
    std::uint32_t ack = 0;
    std::uint32_t duplicate_acks = 0;
    std::uint64_t retransmitted_bytes = 0;
    std::uint64_t gap_bytes = 0;
    std::uint64_t payload_bytes = 0;
};

// Whether the bytes are a report of that format: version and IP version are known ones. The published format
// has nothing to go by but the zeros before its time.
bool is_report(Format format, const std::byte* bytes);

ReportKey key_of(Format format, const std::byte* bytes);
Report report_of(Format format, const std::byte* bytes);

}  // namespace acapella::collector
