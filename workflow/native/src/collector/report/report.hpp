// A flow report, independent of its format.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collector/report/report_fields.hpp"
#include "containers/table_hash.hpp"

namespace acapella::collector {

enum class Format : std::uint8_t { published = 1, tagged = 2 };

constexpr std::size_t bytes_of(Format format) {
    return format == Format::published ? format1::kBytes : format2::kBytes;
}

// The key of a flow, in the layout of format 2: numbers big-endian, an IPv4 address in the last four bytes.
// Unused fields are zero, so that keys can be compared as words.
struct ReportKey {
    static constexpr std::size_t kTags = 4;
    using Words = std::array<std::uint64_t, 8>;

    std::uint8_t vlan_count;  // at most kTags
    std::uint8_t mpls_count;
    std::uint16_t be_src_port;
    std::uint16_t be_dst_port;
    std::uint8_t ip_version;
    std::uint8_t ip_proto;
    std::array<std::byte, 16> src;
    std::array<std::byte, 16> dst;
    std::array<std::uint16_t, kTags> be_vlans;
    std::array<std::uint32_t, kTags> be_labels;

    bool operator==(const ReportKey&) const = default;
    std::uint16_t src_port() const { return __builtin_bswap16(be_src_port); }
    std::uint16_t dst_port() const { return __builtin_bswap16(be_dst_port); }
    std::uint16_t vlan(std::size_t i) const { return __builtin_bswap16(be_vlans[i]); }
    std::uint32_t label(std::size_t i) const { return __builtin_bswap32(be_labels[i]); }
};
static_assert(sizeof(ReportKey) == 64 && std::endian::native == std::endian::little);

struct Report {
    // Bits for the optional fields that a report contains.
    enum Has : std::uint16_t {
        kStart = 1,
        kRttSyn = 2,
        kRttAck = 4,
        kIat = 8,
        kSeq = 16,
        kAck = 32,
        kSlot = 64,  // duplicate_acks to payload_bytes
        kTags = 128,
        kLast = 256,       // last
        kUncertain = 512,  // uncertain_bytes
        kEnd = 1024,       // the report's time is the end of the flow
        kSynSeq = 2048,    // seq_end is the start of the flow's data
        kSyn = 4096,       // the report was triggered by a SYN of the flow
        kNoSlot = 8192,    // the flow is TCP, and the data plane has no slot for it
    };

    std::uint16_t has;
    std::uint32_t epoch;  // published format: 0
    std::uint32_t sequence;
    std::uint64_t timestamp;  // ns; published format: modulo 2^48
    std::uint64_t bytes;      // of the epoch; published format: modulo 2^32
    std::uint64_t packets;    // of the epoch; published format: modulo 2^16
    // The fields below are initialized only if their bit in `has` is set, because clearing them would take
    // half of the time per report.
    std::uint64_t start;    // ns
    std::uint64_t last;     // ns: time of the last packet counted, not later than timestamp
    std::uint64_t rtt_syn;  // ns
    std::uint64_t rtt_ack;  // ns
    std::uint64_t iat;      // ns
    std::uint32_t seq_end;
    std::uint32_t ack;
    std::uint32_t first_ack;  // base of the acknowledged bytes
    std::uint32_t duplicate_acks;
    std::uint64_t retransmitted_bytes;
    std::uint64_t gap_bytes;
    std::uint64_t payload_bytes;
    std::uint64_t uncertain_bytes;  // both loss counts may be too low by up to this number of bytes
};

// Returns true if the bytes are a report of the format, that is, if version and IP version are valid. In the
// published format, only the zeros before the time can be checked.
bool is_report(Format format, const std::byte* bytes);

// These functions are templates on the format, because they are called in the innermost loop, where a branch
// on the format or a key in memory would be expensive.
template <Format kFormat>
ReportKey::Words key_of(const std::byte* bytes);
template <>
ReportKey::Words key_of<Format::published>(const std::byte* bytes);
template <>
ReportKey::Words key_of<Format::tagged>(const std::byte* bytes);

template <Format kFormat>
Report report_of(const std::byte* bytes);
template <>
Report report_of<Format::published>(const std::byte* bytes);
template <>
Report report_of<Format::tagged>(const std::byte* bytes);

// The published format contains only ports and addresses; the other words are constant.
template <Format kFormat>
std::uint64_t hash_of(const TableHash& hash, const ReportKey::Words& key) {
    if constexpr (kFormat == Format::published)
        return hash.words(std::array{key[0], key[2] | key[4] >> 32});
    else
        return hash.words(key);
}

}  // namespace acapella::collector
