// How many frames of a flow tshark shall see. A flow is directed, and only frames with something above the
// core's headers count.
#pragma once

#include <cstdint>

namespace acapella::hybrid {

struct SelectionPolicy {
    // The first frames of a flow, whatever they hold.
    std::uint32_t first = 2;
    // New kinds of payload that a flow may show at once; every frame of a known kind allows one more. Of
    // those that start with a word, which encrypted payload rarely does, four times as many.
    std::uint32_t kinds = 8;
    // The first frame that is looked at again, whatever was seen; then the 4th, 16th, ... multiple of it.
    std::uint32_t again = 16;
};

}  // namespace acapella::hybrid
