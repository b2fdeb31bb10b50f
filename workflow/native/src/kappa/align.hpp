// Numbers the packets of trials by the frames of the replayed recordings, so that each arrival can be
// compared with its departure. Also compares trials whose packets are already numbered.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kappa/compare.hpp"
#include "kappa/trial/trial.hpp"

namespace acapella::kappa {

struct Recording {
    TrialFile file;
    std::uint32_t loops = 1;  // number of replays in each trial
};

struct AlignRequest {
    std::vector<Recording> recordings;
    std::vector<std::vector<TrialFile>> trials;
    ReadOptions options;  // without a selection, which would change the frame numbers
    std::uint64_t memory_bytes = 0;
    std::string directory;  // for temporary files
};

// The packets of a trial in time order. Packet f of loop l of a recording has the key first + l * frames + f,
// where `first` is the number of packets in all loops of the recordings before it. Packets that are in no
// recording have larger keys; the same packet has the same key in all trials.
struct AlignedTrial {
    std::vector<std::uint32_t> keys;
    std::vector<std::int64_t> timestamps;
};

struct Aligned {
    std::vector<std::uint64_t> frames;  // by recording
    std::uint64_t replayed = 0;         // keys of replayed packets are below this number
    std::vector<AlignedTrial> trials;
};

// Matches equal packets by their occurrence number, like match(), so a pair of trials has the same common
// packets as in compare_pair(). Throws the exceptions of read_trials(), TrialError if frames of a recording
// cannot be identified, and MemoryLimitError.
Aligned align(const AlignRequest& request);

// The packets of a trial in any order. A key occurs at most once.
struct NumberedTrial {
    std::span<const std::uint32_t> keys;
    std::span<const std::int64_t> timestamps;
};

// Sorts both trials by time (stable) and compares them. Throws the exceptions of compare_pair().
PairResult compare_numbered(const NumberedTrial& a, const NumberedTrial& b, const PairRequest& request,
                            std::uint64_t memory_bytes, const std::string& directory);

}  // namespace acapella::kappa
