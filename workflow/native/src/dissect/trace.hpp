// The position of each header of a frame.
#pragma once

#include <array>
#include <cstdint>

#include "dissect/walk.hpp"

namespace acapella {

// One step of the dissection. Offsets count from the start of the frame. Steps are contiguous; bytes may
// follow the last step.
struct Step {
    Next dissector;
    std::uint16_t key = 0;        // for by_ethertype and by_protocol
    std::uint8_t ip_version = 0;  // of the nearest network header before it
    bool continues = false;       // true if another dissector follows
    std::uint32_t begin = 0;
    std::uint32_t end = 0;  // offset of the cursor after the dissector; `begin` if it rejected the header
    std::uint32_t captured = 0;  // from `begin`, within outer length fields
    std::uint32_t reported = 0;  // length on the wire from `begin`
};

struct Trace {
    // Most steps append a token; steps that only look up the next dissector do not.
    static constexpr std::size_t kMaxSteps = 3 * kMaxTokens;

    std::array<Step, kMaxSteps> steps;
    std::size_t count = 0;
    std::uint32_t link_end = 0;  // end of the link-type header, for link types without a dissector in Next

    void begin(const Walk& walk, Next dissector) {
        if (count == kMaxSteps) return;
        const auto at = static_cast<std::uint32_t>(walk.at.rest().data() - walk.start);
        steps[count] = {.dissector = dissector,
                        .key = walk.key,
                        .ip_version = walk.ip_version,
                        .begin = at,
                        .end = at,
                        .captured = static_cast<std::uint32_t>(walk.at.captured()),
                        .reported = static_cast<std::uint32_t>(walk.at.reported())};
    }
    void end(const Walk& walk, Next next) {
        if (count == kMaxSteps) return;
        Step& step = steps[count++];
        step.continues = next != Next::stop;
        step.end = static_cast<std::uint32_t>(walk.at.rest().data() - walk.start);
    }
};

}  // namespace acapella
