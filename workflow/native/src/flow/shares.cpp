#include "flow/shares.hpp"

namespace acapella {

void Shares::count_application(std::uint32_t& list, std::uint32_t token) {
    std::uint32_t row = list;
    while (is_application(row) && shares_[row].of != token) row = shares_[row].next;
    if (!is_application(row)) row = list = add({.of = token, .frames = 0, .next = list & kEnd, .is_run = 0});
    if (++shares_[row].frames == 0) ++carries_[row];
}

void Shares::add_run(std::uint32_t& list, StackRun run) {
    std::uint32_t last = kEnd;  // of the tokens
    std::uint32_t row = list;
    for (; is_application(row); row = shares_[row].next) last = row;
    const std::uint32_t added = add(
        {.of = run.stack, .frames = static_cast<std::uint32_t>(run.frames), .next = row & kEnd, .is_run = 1});
    if (run.frames >> 32 != 0) carries_[added] = run.frames >> 32;
    if (last == kEnd) {
        list = added;
    } else {
        shares_[last].next = added & kEnd;
    }
}

std::vector<std::pair<std::uint32_t, std::uint64_t>> Shares::applications(std::uint32_t list) const {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> counts;
    for (std::uint32_t row = list; is_application(row); row = shares_[row].next)
        counts.emplace_back(shares_[row].of, frames(row));
    return counts;
}

std::vector<StackRun> Shares::runs(std::uint32_t list) const {
    std::vector<StackRun> runs;
    for (std::uint32_t row = list; row != kEnd; row = shares_[row].next)
        if (shares_[row].is_run) runs.push_back({shares_[row].of, frames(row)});
    return runs;
}

std::uint64_t Shares::frames(std::uint32_t row) const {
    const auto found = carries_.find(row);
    return (found == carries_.end() ? 0 : found->second << 32) + shares_[row].frames;
}

}  // namespace acapella
