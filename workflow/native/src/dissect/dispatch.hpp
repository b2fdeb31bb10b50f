// The core's view of one frame: layers 2 to 4 as tshark 4.0 says them, or a dissection marked unsure.
#pragma once

#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella {

class Vendors;
struct Trace;

// How far up to go where tshark stops: `innermost` reads Cisco ISL of any length, and 802.3 lengths behind a
// service tag, too. What it finds there is marked unsure.
enum class Depth : std::uint8_t { as_tshark, innermost };

// Resets `dissection` and fills it from `record`. Reads captured bytes only, allocates nothing, never throws,
// keeps no state between frames: safe from any number of threads with a Dissection each. Without `vendors`,
// those that tshark knows, it is sure of fewer pseudowires. A `trace` is told where each header is.
void dissect(const Record& record, Dissection& dissection, const Vendors* vendors = nullptr,
             Depth depth = Depth::as_tshark, Trace* trace = nullptr);

}  // namespace acapella
