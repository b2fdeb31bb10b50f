// One captured frame, as a file reader returns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/plausible_time.hpp"

namespace acapella {

using Bytes = std::span<const std::byte>;

inline constexpr std::int64_t kFirstImplausibleNs = ACAPELLA_FIRST_IMPLAUSIBLE_NS;
constexpr bool plausible(std::int64_t ts_ns) { return ts_ns >= 0 && ts_ns < kFirstImplausibleNs; }

// `bytes` is valid until the next call of the reader.
struct Record {
    std::uint64_t frame = 0;         // frame number in the file, from 1
    std::int64_t ts_ns = 0;          // since 1970-01-01 UTC
    std::uint32_t wire_len = 0;      // without FCS
    std::uint32_t interface_id = 0;  // unique across the sections of a pcapng file
    std::uint16_t link_type = 0;     // LINKTYPE_ value
    bool timed = true;               // false: the file has no timestamp for the frame; ts_ns is 0
    Bytes bytes;                     // the captured bytes
    // Bytes that precede the frame in the file for a few link types (LINKTYPE_SUNATM, ...). They are not part
    // of the frame or of any length above, and are used only to write the frame to another file.
    Bytes pseudo_header;
};

}  // namespace acapella
