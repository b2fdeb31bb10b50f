// Properties of link types for file readers: the maximum length of a frame, and the pseudo-header before it.
// Values: https://www.tcpdump.org/linktypes.html. Limits and pseudo-headers are those of Wireshark 4.0, so
// that frame and capture lengths equal frame.len and frame.cap_len.
#pragma once

#include <cstdint>

namespace acapella::input {

// The maximum captured length; a longer frame is damage.
std::uint32_t max_captured_len(std::uint16_t link_type);

// Length of the pseudo-header before each frame, which is not counted as part of it; 0 for nearly every link
// type.
std::uint32_t pseudo_header_len(std::uint16_t link_type);

}  // namespace acapella::input
