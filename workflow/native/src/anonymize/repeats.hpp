// Limits for repeated headers, and for repeated parts of a header, in anonymized frames. A chain of short
// headers could carry payload, because each header keeps fields that may have any value. So repetitions
// beyond those in RFCs or real traffic are omitted or replaced by padding. Of the allowed repetitions, the
// first ones keep their values; the others keep only type, length, and pseudonyms of addresses.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "dissect/trace.hpp"
#include "frame/cursor.hpp"
#include "frame/dissection.hpp"

namespace acapella::anonymize {

// Maximum number of consecutive four-byte values: at most 12 bytes of payload.
inline constexpr std::size_t kMaxInRow = 3;

// The types of options, chunks or parameters seen in a header. first() returns true when a type occurs for
// the first time.
template <std::size_t Types>
class Seen {
  public:
    bool first(std::size_t type) {
        const bool repeated = types_.test(type);
        types_.set(type);
        return !repeated;
    }

  private:
    std::bitset<Types> types_;
};

// Decides which headers of a frame are kept; call allows() for each in order.
class HeaderLimits {
  public:
    // Returns false for the fourth VLAN tag after an Ethernet or IP header, for extension headers beyond
    // those of RFC 8200 section 4.1 (each once, destination options twice), and for a second AH (RFC 4301
    // section 4.1).
    bool allows(const Step& step) {
        switch (step.dissector) {
            case Next::ethernet:
                tags_ = 0;
                return true;
            case Next::ipv4:
            case Next::ipv6:
                *this = HeaderLimits{};
                return true;
            case Next::vlan:
            case Next::service_vlan:
                tags_ += std::max<std::size_t>(1, (step.end - step.begin) / kTag);
                return tags_ <= kMaxInRow;
            case Next::hop_by_hop:
                return ++hop_by_hop_ <= 1;
            case Next::destination_options:
                return ++destination_ <= 2;
            case Next::ipv6_routing:
                return ++routing_ <= 1;
            case Next::ipv6_fragment:
                return ++fragment_ <= 1;
            case Next::authentication:
                return ++authentication_ <= 1;
            default:
                return true;
        }
    }

  private:
    static constexpr std::size_t kTag = 4;
    std::size_t tags_ = 0;
    std::size_t hop_by_hop_ = 0;
    std::size_t destination_ = 0;
    std::size_t routing_ = 0;
    std::size_t fragment_ = 0;
    std::size_t authentication_ = 0;
};

inline constexpr std::size_t kLabel = 4;

// Returns true if the bytes from `offset` on can follow an MPLS stack. If they start with an IP version, the
// IP length must fit. Bytes that were not captured may have any value.
inline bool may_follow_labels(const Cursor& at, std::size_t offset) {
    constexpr std::size_t kIpv6 = 40;
    constexpr std::size_t kEndOfLengths = 6;  // of both versions
    if (!at.has(offset + kEndOfLengths)) return true;
    const std::size_t left = at.reported() - offset;
    const unsigned version = at.u8(offset) >> 4;
    if (version == 4) return (at.u8(offset) & 0x0f) >= 5 && at.be16(offset + 2) <= left;
    return version != 6 || kIpv6 + at.be16(offset + 4) <= left;
}

// Returns the number of entries to keep of an MPLS stack of `length` bytes. Only one is kept if the stack has
// no bottom (RFC 3032 section 2.1), more than kMaxLabels entries, or an invalid payload, because then it may
// not be a label stack. Entries after the first kMaxInRow keep only the bottom bit.
inline std::size_t kept_labels(const Cursor& at, std::size_t length) {
    const std::size_t entries = length / kLabel;
    const bool bottom = entries > 0 && (at.u8(kLabel * entries - 2) & 1) != 0;
    const bool stack = bottom && entries <= kMaxLabels && may_follow_labels(at, length);
    return stack ? entries : std::min(entries, std::size_t{1});
}

// Returns true if an SCTP chunk is the only one in its packet, as required for an INIT (RFC 9260 section
// 3.3.2).
inline bool is_alone(const Cursor& at, std::size_t chunk, std::size_t length) {
    constexpr std::size_t kSctpHeader = 12;
    constexpr std::size_t kPadding = 3;
    return chunk == kSctpHeader && chunk + length + kPadding >= at.reported();
}

// The numbers of gap blocks and duplicate TSNs to keep (RFC 9260 section 3.3.4). Gap blocks come first.
struct KeptBlocks {
    std::size_t gaps;
    std::size_t duplicates;

    static constexpr KeptBlocks of(std::size_t gaps, std::size_t duplicates) {
        const std::size_t kept = std::min(gaps, kMaxInRow);
        return {kept, gaps > kept ? 0 : std::min(duplicates, kMaxInRow - kept)};
    }
};

}  // namespace acapella::anonymize
