// Properties of link types for file readers: the maximum length of a frame, and the pseudo-header before it.
// Values: https://www.tcpdump.org/linktypes.html. Limits and pseudo-headers are the same as in Wireshark 4.0,
// so that wire and capture lengths equal frame.len and frame.cap_len.
#pragma once

#include <cstdint>

namespace acapella::input {

// Returns the maximum captured length. A longer frame indicates damage.
std::uint32_t max_captured_len(std::uint16_t link_type);

// Length of the pseudo-header before each frame, which is not part of the frame; 0 for nearly all link types.
std::uint32_t pseudo_header_len(std::uint16_t link_type);

}  // namespace acapella::input
