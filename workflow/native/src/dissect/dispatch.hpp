// Dissects one frame: layers 2 to 4 as tshark 4.0 does, or a dissection marked as unsure.
#pragma once

#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella {

class Vendors;
struct Trace;

// Handling of headers at which tshark stops: `innermost` also decodes Cisco ISL of any length, and 802.3
// lengths after a service tag. Such results are marked as unsure.
enum class Depth : std::uint8_t { as_tshark, innermost };

// Resets `dissection` and fills it from `record`. Reads captured bytes only, does not allocate or throw, and
// keeps no state between frames: thread-safe with one Dissection per thread. Without `vendors` (those known
// to tshark) more pseudowires are marked as unsure. Records the position of each header in `trace`.
void dissect(const Record& record, Dissection& dissection, const Vendors* vendors = nullptr,
             Depth depth = Depth::as_tshark, Trace* trace = nullptr);

}  // namespace acapella
