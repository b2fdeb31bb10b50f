// The consistency of trials: reads them, then compares pairs of them, in memory or through private files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kappa/pair.hpp"
#include "kappa/trial/trial.hpp"

namespace acapella::kappa {

struct PairRequest {
    std::vector<std::uint64_t> bounds_ns;  // for PairResult::latency_within and gap_within
    std::optional<std::uint64_t> windows;  // how many over the longer trial; neither: none
    std::optional<std::uint64_t> window_ns;
};

// More than that many windows would say nothing and take much memory.
inline constexpr std::uint64_t kMaxWindows = 10'000;

// `memory_bytes`: what the comparison may take beside what the trials hold already, before it goes through
// files. The result is the same to the last bit. Raises TrialError for too many windows, MemoryLimitError for
// a block out of order that takes more than is left.
PairResult compare_pair(const Trial& a, const Trial& b, const PairRequest& request,
                        std::uint64_t memory_bytes, const std::string& directory);

struct Request {
    std::vector<std::vector<TrialFile>> files;  // by trial
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    Reading reading;
    PairRequest pair;
    std::uint64_t memory_bytes = 0;
    std::string directory;  // for private files
};

struct Report {
    std::vector<PairResult> pairs;
    std::vector<std::uint64_t> ambiguous;  // by trial: packets whose identity occurs more than once
};

// Reads and compares. The trials stay for what they say of themselves. Raises as read_trials and compare_pair
// do.
struct Compared {
    std::unique_ptr<MemoryBudget> budget;  // outlives the trials
    std::unique_ptr<Trials> trials;
    Report report;
};
Compared compare_files(const Request& request);

}  // namespace acapella::kappa
