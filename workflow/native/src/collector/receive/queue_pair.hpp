// A queue pair of an unreliable connection, and the addresses of the report slots in its memory region. The
// memory itself does not exist: accepted reports are added to the flow table (see Collector).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "collector/receive/roce.hpp"
#include "collector/report/report.hpp"

namespace acapella::collector {

struct QueuePairConfig {
    static constexpr std::uint32_t kFirstSeen = 0xffffffff;  // initial_psn: use the PSN of the first report

    std::uint32_t number = 0;  // 24 bits
    std::uint32_t key = 0;
    std::uint64_t base = 0;  // address of the ring, for the sender
    std::uint32_t slots = 0;
    std::uint32_t initial_psn = kFirstSeen;
};

// The packet sequence numbers received within the last half of the sequence number space.
class SequenceWindow {
  public:
    explicit SequenceWindow(std::uint32_t initial);

    enum class Position : std::uint8_t { expected, ahead, duplicate, reordered };
    Position position_of(std::uint32_t psn) const;
    // Accepts an expected or later PSN. Returns the number of missing PSNs before it.
    std::uint32_t advance(std::uint32_t psn);
    // Marks a reordered PSN as received, so that another copy is detected as a duplicate.
    void mark(std::uint32_t psn) { bits()[psn / 64] |= std::uint64_t{1} << (psn % 64); }
    std::uint32_t expected() const { return expected_; }

    static constexpr std::uint32_t kModulus = std::uint32_t{1} << 24;

  private:
    struct Unmap {
        void operator()(std::uint64_t* bits) const;
    };
    std::uint64_t* bits() const { return bits_.get(); }
    bool has(std::uint32_t psn) const { return (bits()[psn / 64] >> (psn % 64) & 1) != 0; }
    void forget(std::uint32_t psn, std::uint32_t count);

    std::unique_ptr<std::uint64_t[], Unmap> bits_;  // unused pages take no memory
    std::uint32_t expected_;
    std::uint64_t passed_ = 0;  // number of PSNs since the first
    bool expected_known_ = false;
};

class QueuePair {
  public:
    QueuePair(const QueuePairConfig& config, Format format);

    // Checks key, length, bounds, content and PSN of a request, in this order. A request rejected before the
    // check of its PSN does not advance the window, so a forged frame cannot make a valid report a duplicate.
    Verdict check(const WriteRequest& request);

    const QueuePairConfig& config() const { return config_; }
    std::uint64_t lost() const { return lost_; }
    std::uint64_t accepted() const { return accepted_; }
    std::uint32_t expected_psn() const { return window_.expected(); }

  private:
    QueuePairConfig config_;
    Format format_;
    std::size_t bytes_;
    SequenceWindow window_;
    std::uint64_t lost_ = 0;
    std::uint64_t accepted_ = 0;
};

}  // namespace acapella::collector
