// Determines the number of frames of a flow that are sent to tshark. A flow is directed, and only frames with
// payload above the core's headers count.
#pragma once

#include <cstdint>

namespace acapella::hybrid {

struct SelectionPolicy {
    // The first frames of a flow are always sent.
    std::uint32_t first = 2;
    // Budget of new payload kinds of a flow; each frame of a known kind adds one. Payload that starts with a
    // word, which is rare if encrypted, has four times this budget.
    std::uint32_t kinds = 8;
    // This frame of a flow is sent again, as are those with 4, 16, ... times this number.
    std::uint32_t again = 16;
};

}  // namespace acapella::hybrid
