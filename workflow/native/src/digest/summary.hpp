// Summary of a sample: the counts of a digest besides its tables.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "columns/frame_columns.hpp"
#include "frame/frame_row.hpp"
#include "input/clock_resolution.hpp"

namespace acapella {

struct Summary {
    std::uint64_t frames = 0;
    std::uint64_t wire_bytes = 0;
    std::uint64_t captured_bytes = 0;
    std::uint64_t implausible_times = 0;
    std::int64_t first_ns = INT64_MAX;        // earliest
    std::int64_t last_ns = INT64_MIN;         // latest
    std::array<std::uint64_t, 256> issues{};  // by Issue
    std::array<std::uint64_t, 3> l4_by{};
    std::array<std::uint64_t, 4> app_by{};
    input::ClockResolution clock;

    void add(const FrameRow& row, L4By l4, AppBy app) {
        ++frames;
        wire_bytes += row.wire_len;
        captured_bytes += row.cap_len;
        ++issues[static_cast<std::size_t>(row.issue)];
        ++l4_by[static_cast<std::size_t>(l4)];
        ++app_by[static_cast<std::size_t>(app)];
        implausible_times += row.has(FrameRow::kImplausible) ? 1 : 0;
        if (row.has(FrameRow::kUntimed)) return;
        first_ns = std::min(first_ns, row.ts_ns);
        last_ns = std::max(last_ns, row.ts_ns);
        clock.add(row.ts_ns);
    }
};

}  // namespace acapella
