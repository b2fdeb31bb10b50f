// One captured frame as a file reader hands it over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/plausible_time.hpp"

namespace acapella {

using Bytes = std::span<const std::byte>;

inline constexpr std::int64_t kNoPlausibleNs = ACAPELLA_NO_PLAUSIBLE_NS;
constexpr bool plausible(std::int64_t ts_ns) { return ts_ns >= 0 && ts_ns < kNoPlausibleNs; }

// The view `bytes` stays valid until the reader's next call.
struct Record {
    std::uint64_t frame = 0;         // from 1, over the whole file
    std::int64_t ts_ns = 0;          // since 1970-01-01 UTC
    std::uint32_t wire_len = 0;      // without FCS
    std::uint32_t interface_id = 0;  // global over the sections of a pcapng file
    std::uint16_t link_type = 0;     // LINKTYPE_ value
    bool timed = true;               // false: the file gives the frame no time, and ts_ns is 0
    Bytes bytes;                     // the captured bytes
    // Of the few link types that put one before the frame in a file (LINKTYPE_SUNATM, ...); no part of the
    // frame and of no length above, and needed only to write the frame to a file again.
    Bytes pseudo_header;
};

}  // namespace acapella
