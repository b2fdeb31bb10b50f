// A trial: the packets of one or more capture files and their identities, sorted by (time, file, record).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "input/decoder.hpp"
#include "kappa/spool.hpp"
#include "kappa/trial/clock_grid.hpp"
#include "kappa/trial/identity.hpp"

namespace acapella::kappa {

// An error that the user can correct. what() is one line; it names the file if the error concerns one.
class TrialError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Innermost addresses, protocol and ports; fields without a value match everything.
struct FlowFilter {
    struct Address {
        std::uint8_t ip_version = 4;
        std::array<std::byte, 16> bytes{};  // IPv4: the first 4
    };
    std::optional<std::uint8_t> ip_proto;
    std::optional<Address> src;
    std::optional<Address> dst;
    std::optional<std::uint16_t> src_port;
    std::optional<std::uint16_t> dst_port;
};

// Selects the frames to compare.
struct Selection {
    bool by_frames = false;
    std::map<std::string, std::vector<std::uint64_t>> frames;  // by file: sorted frame numbers, from 1
    std::vector<FlowFilter> flows;        // frames of any of these flows; empty: all frames
    std::optional<std::int64_t> from_ns;  // from_ns <= time < to_ns
    std::optional<std::int64_t> to_ns;
    // true: from_ns and to_ns are relative to the trial's first packet after the selection by frames and
    // flows
    bool relative = false;
};

struct TrialFile {
    std::string path;
    std::string sha256;  // empty if unknown; determines the order of a trial's files
};

// Information about a file that was read.
struct FileInfo {
    std::string path;
    std::string sha256;
    std::uint64_t frames = 0;
    std::uint64_t taken = 0;             // selected, with an identity
    std::uint64_t truncated = 0;         // of the frames taken, those that are truncated
    std::uint64_t without_identity = 0;  // selected, but without enough identifying bytes
    std::uint64_t untimed = 0;           // frames without a timestamp
    std::uint64_t implausible = 0;       // selected, but skipped because of an implausible timestamp
    std::string end;                     // name of the FileEnd
    std::string end_detail;
    std::int64_t clock_resolution_ns = 0;  // of the frames taken; 0: none
    std::uint64_t reversals = 0;           // timestamps earlier than the previous one, of the frames taken
    // coarsest timestamp unit declared by the interfaces of the frames taken
    std::uint64_t declared_ns = 0;
    GapGrid gaps;  // of the frames taken
};

struct Trial {
    explicit Trial(MemoryBudget& budget) : identities(budget), timestamps(budget) {}

    std::vector<FileInfo> files;
    SpillColumn<Identity> identities;
    SpillColumn<std::int64_t> timestamps;
    std::int64_t first_ns = 0;
    std::int64_t last_ns = 0;
    std::uint64_t equal_stamps = 0;
    std::uint64_t truncated_identities = 0;  // packets with more identifying bytes than are used

    [[nodiscard]] std::uint64_t size() const { return timestamps.size(); }
    [[nodiscard]] std::uint64_t duration_ns() const {
        return size() == 0 ? 0 : static_cast<std::uint64_t>(last_ns) - static_cast<std::uint64_t>(first_ns);
    }
};

// Sorts the appended packets by time (stable) and sets the members that depend on it. Throws TrialError if
// the timestamps are more than 292 years apart.
void finish_trial(Trial& trial, MemoryBudget& budget);

struct ReadOptions {
    IdentityRule identity;
    Selection selection;
    input::DecompressionLimits limits;
    // Called from time to time with the number of bytes read; may throw to stop.
    std::function<void(std::uint64_t)> progress;
};

inline constexpr std::size_t kAllBytes = SIZE_MAX;

// Reads all trials. No identity uses more than `identity_bytes` bytes: the lowest number of captured
// identifying bytes of any truncated packet, or kAllBytes if no packet was truncated. The first `unsorted`
// trials keep the order of their files and have no duration. Throws input::InputError, TrialError,
// SpoolError.
struct Trials {
    std::vector<Trial> trials;
    std::size_t identity_bytes = kAllBytes;
};
Trials read_trials(const std::vector<std::vector<TrialFile>>& files, const ReadOptions& options,
                   MemoryBudget& budget, std::size_t unsorted = 0);

}  // namespace acapella::kappa
