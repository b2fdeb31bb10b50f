// Dissects one frame. The result has layers 2 to 4 as decoded by tshark 4.0, or is marked as unsure.
#pragma once

#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella {

class Vendors;
struct Trace;

// Handling of headers that tshark does not decode, or whose type it guesses. `innermost` also decodes Cisco
// ISL of any length, and 802.3 length fields after a service tag, but does not guess that GTP carries
// Ethernet. Such results are marked as unsure.
enum class Depth : std::uint8_t { as_tshark, innermost };

// Resets `dissection` and fills it from `record`. Reads only captured bytes, does not allocate or throw, and
// keeps no state between frames, so it is thread-safe with one Dissection per thread. `vendors` are those
// known to tshark; without them, more pseudowires are marked as unsure. Records the position of each header
// in `trace`.
void dissect(const Record& record, Dissection& dissection, const Vendors* vendors = nullptr,
             Depth depth = Depth::as_tshark, Trace* trace = nullptr);

}  // namespace acapella
