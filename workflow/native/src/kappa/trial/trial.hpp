// A trial: the packets of one or more capture files, in the order of (time, file, record), with their
// identities.
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

// What a user can mend; the text is one line that names the file.
class TrialError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Innermost addresses, protocol and ports; what has no value may be anything.
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

// Which frames take part.
struct Selection {
    bool by_frames = false;
    std::map<std::string, std::vector<std::uint64_t>> frames;  // by file: sorted numbers, from 1
    std::vector<FlowFilter> flows;                             // one of them; none: all
    std::optional<std::int64_t> from_ns;                       // from_ns <= time < to_ns
    std::optional<std::int64_t> to_ns;
    bool relative = false;  // both count from the trial's first packet that frames and flows leave
};

struct TrialFile {
    std::string path;
    std::string sha256;  // where the caller knows it; orders the files of a trial
};

// A file as it was read.
struct FileInfo {
    std::string path;
    std::string sha256;
    std::uint64_t frames = 0;
    std::uint64_t taken = 0;             // selected, with an identity
    std::uint64_t truncated = 0;         // taken, and captured shorter than they were
    std::uint64_t without_identity = 0;  // selected, but Identifier does not find them
    std::uint64_t untimed = 0;           // frames that the file gives no time
    std::uint64_t implausible = 0;       // selected but for their time, which is not plausible: left out
    std::string end;                     // clean, or the fault's name
    std::string end_detail;
    std::int64_t clock_resolution_ns = 0;  // of the frames taken; 0 without any
    std::uint64_t reversals = 0;           // stamps earlier than the one before, of the frames taken
    std::uint64_t declared_ns = 0;         // the coarsest unit declared by an interface of the frames taken
    GapGrid gaps;                          // of the frames taken
};

struct Trial {
    explicit Trial(MemoryBudget& budget) : identities(budget), timestamps(budget) {}

    std::vector<FileInfo> files;
    SpillColumn<Identity> identities;
    SpillColumn<std::int64_t> timestamps;
    std::int64_t first_ns = 0;
    std::int64_t last_ns = 0;
    std::uint64_t equal_stamps = 0;
    std::uint64_t truncated_identities = 0;  // packets with identifying bytes beyond the cut

    [[nodiscard]] std::uint64_t size() const { return timestamps.size(); }
    [[nodiscard]] std::uint64_t duration_ns() const {
        return size() == 0 ? 0 : static_cast<std::uint64_t>(last_ns) - static_cast<std::uint64_t>(first_ns);
    }
};

// Puts the packets that were appended into the order of time, those of equal time into that of appending, and
// sets what follows from it. Raises TrialError where the stamps are more than 292 years apart.
void finish_trial(Trial& trial, MemoryBudget& budget);

struct Reading {
    IdentityRule identity;
    Selection selection;
    input::DecompressionLimits limits;
    // Called now and then with the bytes read so far; may throw to stop.
    std::function<void(std::uint64_t)> progress;
};

inline constexpr std::size_t kAllBytes = SIZE_MAX;

// Reads all trials under one cut: the least number of identifying bytes of any packet that was not captured
// whole, kAllBytes where all were. Raises input::InputError, TrialError, SpoolError.
struct Trials {
    std::vector<Trial> trials;
    std::size_t identity_bytes = kAllBytes;
};
Trials read_trials(const std::vector<std::vector<TrialFile>>& files, const Reading& reading,
                   MemoryBudget& budget);

}  // namespace acapella::kappa
