// What a link type means to a file reader: how large a frame may be, and what stands before it in the file.
// Values: https://www.tcpdump.org/linktypes.html. Limits and pseudo-headers are those of Wireshark 4.0,
// because our frame and capture lengths equal its frame.len and frame.cap_len.
#pragma once

#include <cstdint>

namespace acapella::input {

// The longest captured frame that is no damage, in bytes.
std::uint32_t max_captured_len(std::uint16_t link_type);

// Bytes before each frame that describe it and are not counted as part of it; 0 for nearly every link type.
std::uint32_t pseudo_header_len(std::uint16_t link_type);

}  // namespace acapella::input
