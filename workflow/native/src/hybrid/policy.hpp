// Determines the number of frames of a flow that are sent to tshark. A flow is directed. Only frames with
// payload above the core's headers are counted.
#pragma once

#include <cstdint>

namespace acapella::hybrid {

struct SelectionPolicy {
    // Number of frames at the start of a flow that are always sent.
    std::uint32_t first = 2;
    // Budget for new payload kinds of a flow; each frame of a known kind adds one. Payload that starts with a
    // word has four times this budget, because encrypted payload rarely starts with one.
    std::uint32_t kinds = 8;
    // A later frame with this number in its flow (from 0) is sent, and those with 4, 16, ... times this
    // number.
    std::uint32_t again = 16;
};

}  // namespace acapella::hybrid
