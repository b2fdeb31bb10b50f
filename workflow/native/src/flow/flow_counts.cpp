#include "flow/flow_counts.hpp"

namespace acapella {

void FlowCounts::count_application(std::uint32_t& list, std::uint32_t token) {
    std::uint32_t row = list;
    while (is_application(row) && entries_[row].id != token) row = entries_[row].next;
    if (!is_application(row)) row = list = add({.id = token, .frames = 0, .next = list & kEnd, .is_run = 0});
    if (++entries_[row].frames == 0) ++carries_[row];
}

void FlowCounts::add_run(std::uint32_t& list, StackRun run) {
    std::uint32_t last = kEnd;  // last of the tokens
    std::uint32_t row = list;
    for (; is_application(row); row = entries_[row].next) last = row;
    const std::uint32_t added = add(
        {.id = run.stack, .frames = static_cast<std::uint32_t>(run.frames), .next = row & kEnd, .is_run = 1});
    if (run.frames >> 32 != 0) carries_[added] = run.frames >> 32;
    if (last == kEnd) {
        list = added;
    } else {
        entries_[last].next = added & kEnd;
    }
}

std::vector<std::pair<std::uint32_t, std::uint64_t>> FlowCounts::applications(std::uint32_t list) const {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> counts;
    for (std::uint32_t row = list; is_application(row); row = entries_[row].next)
        counts.emplace_back(entries_[row].id, frames(row));
    return counts;
}

std::vector<StackRun> FlowCounts::runs(std::uint32_t list) const {
    std::vector<StackRun> runs;
    for (std::uint32_t row = list; row != kEnd; row = entries_[row].next)
        if (entries_[row].is_run) runs.push_back({entries_[row].id, frames(row)});
    return runs;
}

std::uint64_t FlowCounts::frames(std::uint32_t row) const {
    const auto found = carries_.find(row);
    return (found == carries_.end() ? 0 : found->second << 32) + entries_[row].frames;
}

}  // namespace acapella
