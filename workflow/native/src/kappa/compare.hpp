// Compares trials: reads all trials, then compares pairs of them, in memory or with temporary files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kappa/pair.hpp"
#include "kappa/trial/trial.hpp"

namespace acapella::kappa {

struct PairRequest {
    std::vector<std::uint64_t> bounds_ns;  // thresholds for PairResult::latency_within and gap_within
    // number of windows in the longer trial; there are no windows if neither this nor window_ns is set
    std::optional<std::uint64_t> windows;
    std::optional<std::uint64_t> window_ns;
};

// More windows would not be useful and would use much memory.
inline constexpr std::uint64_t kMaxWindows = 10'000;

// `memory_bytes`: memory for the comparison, not including the trials. Beyond it, temporary files are used,
// with exactly the same result. Throws TrialError if there are too many windows, and MemoryLimitError if a
// block of reordered packets does not fit in memory.
PairResult compare_pair(const Trial& a, const Trial& b, const PairRequest& request,
                        std::uint64_t memory_bytes, const std::string& directory);

struct Request {
    std::vector<std::vector<TrialFile>> files;  // by trial
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    ReadOptions options;
    PairRequest pair;
    std::uint64_t memory_bytes = 0;
    std::string directory;  // for temporary files
};

struct Report {
    std::vector<PairResult> pairs;
    std::vector<std::uint64_t> ambiguous;  // by trial: packets whose identity occurs more than once
};

// Reads and compares the trials. Also returns the trials, for their metadata. Throws the exceptions of
// read_trials() and compare_pair().
struct Compared {
    std::unique_ptr<MemoryBudget> budget;  // must outlive the trials
    std::unique_ptr<Trials> trials;
    Report report;
};
Compared compare_files(const Request& request);

}  // namespace acapella::kappa
