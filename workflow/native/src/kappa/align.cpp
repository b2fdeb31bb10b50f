#include "kappa/align.hpp"

#include <algorithm>

#include "containers/memory_limit.hpp"
#include "kappa/matching.hpp"

namespace acapella::kappa {
namespace {

// Memory of align() per packet of a trial and per replayed packet: identities, table, matches, results.
constexpr std::uint64_t kAlignedPacketBytes = 16 + kMatchBytesPerPacket + 4 + 8;

std::vector<Identity> identities_of(const Trial& trial) {
    std::vector<Identity> identities;
    identities.reserve(trial.size());
    trial.identities.for_each_chunk([&identities](std::span<const Identity> chunk) {
        identities.insert(identities.end(), chunk.begin(), chunk.end());
    });
    return identities;
}

void check_recording(const Trial& recording) {
    const FileInfo& info = recording.files.front();
    if (info.taken == info.frames) return;
    throw TrialError(info.path + ": " + std::to_string(info.frames - info.taken) + " of " +
                     std::to_string(info.frames) +
                     " frames of the recording cannot be matched; use another --identity, or a recording "
                     "with whole frames and valid times");
}

void check_memory(const Trials& read, const AlignRequest& request) {
    std::uint64_t packets = 0;
    for (std::size_t i = 0; i < request.recordings.size(); ++i)
        packets += read.trials[i].size() * request.recordings[i].loops;
    if (packets > kMaxPackets)
        throw TrialError("the recordings have more than 2^32 - 2 packets in all loops");
    for (std::size_t i = request.recordings.size(); i < read.trials.size(); ++i)
        packets += read.trials[i].size();
    if (packets > request.memory_bytes / kAlignedPacketBytes)
        throw MemoryLimitError("matching " + std::to_string(packets) +
                               " packets of trials and recordings needs " +
                               std::to_string(packets * kAlignedPacketBytes / 1'000'000 + 1) + " MB");
}

// The packets of the recordings in the order of their keys, followed by all other packets seen so far.
class KnownPackets {
  public:
    explicit KnownPackets(std::vector<Identity> replayed) : replayed_(std::move(replayed)) {}

    [[nodiscard]] std::uint64_t replayed() const { return replayed_.size(); }

    AlignedTrial align(const Trial& trial) {
        const std::vector<Identity> identities = identities_of(trial);
        AlignedTrial aligned;
        aligned.keys.resize(identities.size());
        match(replayed_, identities, aligned.keys);
        number_others(identities, aligned.keys);
        aligned.timestamps.reserve(identities.size());
        trial.timestamps.for_each_chunk([&aligned](std::span<const std::int64_t> chunk) {
            aligned.timestamps.insert(aligned.timestamps.end(), chunk.begin(), chunk.end());
        });
        return aligned;
    }

  private:
    void number_others(const std::vector<Identity>& identities, std::vector<std::uint32_t>& keys) {
        std::vector<Identity> others;
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (keys[i] == kUnmatched) others.push_back(identities[i]);
        if (others.empty()) return;
        std::vector<std::uint32_t> matches(others.size());
        match(others_, others, matches);
        std::size_t next = 0;
        for (std::uint32_t& key : keys) {
            if (key != kUnmatched) continue;
            std::size_t index = matches[next];
            if (matches[next] == kUnmatched) {
                index = others_.size();
                others_.push_back(others[next]);
            }
            ++next;
            if (replayed_.size() + index > kMaxPackets)
                throw TrialError("the trials have more than 2^32 - 2 different packets");
            key = static_cast<std::uint32_t>(replayed_.size() + index);
        }
    }

    std::vector<Identity> replayed_;
    std::vector<Identity> others_;
};

// Converts a key to an identity with uniformly distributed bits, because the table and the partitions use
// some of the bits.
Identity identity_of(std::uint32_t key) {
    const auto mix = [](std::uint64_t value) {  // the finalizer of SplitMix64 (Steele, Lea, Flood, 2014)
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
        value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
        return value ^ (value >> 31);
    };
    const std::uint64_t low = mix(key + 0x9e3779b97f4a7c15);
    return {mix(low + 0x9e3779b97f4a7c15), low};
}

void fill(const NumberedTrial& packets, Trial& trial, MemoryBudget& budget) {
    trial.files.emplace_back();  // for messages
    trial.files.back().path = "corrected trial";
    for (const std::uint32_t key : packets.keys) trial.identities.push(identity_of(key));
    for (const std::int64_t ts_ns : packets.timestamps) trial.timestamps.push(ts_ns);
    finish_trial(trial, budget);
}

}  // namespace

Aligned align(const AlignRequest& request) {
    std::vector<std::vector<TrialFile>> files;
    for (const Recording& recording : request.recordings) files.push_back({recording.file});
    files.insert(files.end(), request.trials.begin(), request.trials.end());
    MemoryBudget budget(request.memory_bytes / 2, request.directory);
    const Trials read = read_trials(files, request.options, budget, request.recordings.size());
    check_memory(read, request);
    Aligned aligned;
    std::vector<Identity> replayed;
    for (std::size_t i = 0; i < request.recordings.size(); ++i) {
        check_recording(read.trials[i]);
        const std::vector<Identity> identities = identities_of(read.trials[i]);
        aligned.frames.push_back(identities.size());
        for (std::uint32_t loop = 0; loop < request.recordings[i].loops; ++loop)
            replayed.insert(replayed.end(), identities.begin(), identities.end());
    }
    KnownPackets known(std::move(replayed));
    aligned.replayed = known.replayed();
    for (std::size_t i = request.recordings.size(); i < read.trials.size(); ++i)
        aligned.trials.push_back(known.align(read.trials[i]));
    return aligned;
}

PairResult compare_numbered(const NumberedTrial& a, const NumberedTrial& b, const PairRequest& request,
                            std::uint64_t memory_bytes, const std::string& directory) {
    MemoryBudget budget(memory_bytes / 2, directory);
    Trial trial_a(budget);
    Trial trial_b(budget);
    fill(a, trial_a, budget);
    fill(b, trial_b, budget);
    return compare_pair(trial_a, trial_b, request, memory_bytes / 2 + budget.left(), directory);
}

}  // namespace acapella::kappa
