// The facts in the summary of a digest, by name: for Python, and for the JSON of acapella-digest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "columns/frame_columns.hpp"
#include "digest/summary.hpp"
#include "flow/flow_table.hpp"
#include "frame/issue.hpp"
#include "input/capture_reader.hpp"

namespace acapella {

using NamedCounts = std::vector<std::pair<std::string, std::uint64_t>>;

template <typename By, std::size_t N>
NamedCounts counts_by_source(const std::array<std::uint64_t, N>& counts) {
    NamedCounts result;
    for (std::size_t i = 0; i < N; ++i) {
        const std::string_view name = text_of(static_cast<By>(i));
        result.emplace_back(name.empty() ? "none" : name, counts[i]);
    }
    return result;
}

inline NamedCounts counts_by_issue(const Summary& summary) {
    NamedCounts result;
    for (std::size_t i = 1; i < summary.issues.size(); ++i)
        if (summary.issues[i] > 0) result.emplace_back(text_of(static_cast<Issue>(i)), summary.issues[i]);
    return result;
}

// Calls put(name, value) for each fact about the file. A value is a std::uint64_t, a std::string, a
// std::vector<std::uint16_t>, NamedCounts, or a std::optional of a number or text.
template <typename Put>
void put_file_facts(const input::FileInfo& info, const Put& put) {
    using Number = std::optional<std::uint64_t>;
    const bool complete = info.end == input::FileEnd::clean;
    put("format", info.format);
    put("compression", info.compression);
    put("link_types", info.link_types);
    put("snaplen", info.snaplen == 0 ? Number() : Number(info.snaplen));
    put("fcs_len", std::uint64_t{info.fcs_len});
    put("untimed", info.untimed);
    put("longer_than_snaplen", info.longer_than_snaplen);
    put("ts_out_of_range", info.ts_out_of_range);
    put("blocks_not_frames", info.blocks_not_frames);
    put("file_issue",
        complete ? std::optional<std::string>() : std::optional<std::string>(input::name_of(info.end)));
    put("file_issue_detail", info.end_detail);
    put("file_unread_bytes", info.unread_bytes);
    put("file_issue_offset", complete ? Number() : Number(info.end_offset));
}

// Likewise for each fact about the frames and flows. Call after the last frame.
template <typename Put>
void put_digest_facts(const Summary& summary, const FlowTable& flow_table, const Put& put) {
    using Time = std::optional<std::int64_t>;
    const bool has_times = summary.clock.stamps() > 0;
    put("frames", summary.frames);
    put("implausible_times", summary.implausible_times);
    put("first_ns", has_times ? Time(summary.first_ns) : Time());
    put("last_ns", has_times ? Time(summary.last_ns) : Time());
    put("wire_bytes", summary.wire_bytes);
    put("captured_bytes", summary.captured_bytes);
    put("clock_resolution_ns", has_times ? Time(summary.clock.resolution_ns()) : Time());
    put("equal_stamps", summary.clock.equal());
    put("time_reversals", summary.clock.reversals());
    put("issues", counts_by_issue(summary));
    put("l4_by", counts_by_source<L4By>(summary.l4_by));
    put("app_by", counts_by_source<AppBy>(summary.app_by));
    put("flows", std::uint64_t{flow_table.size()});
    put("peers_ambiguous", std::uint64_t{flow_table.peers_ambiguous()});
    put("ranges_forgotten", std::uint64_t{flow_table.ranges_forgotten()});
}

}  // namespace acapella
