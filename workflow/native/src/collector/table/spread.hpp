// Estimates when the packets that a report added were sent.
#pragma once

#include <cstdint>

#include "collector/report/report.hpp"

namespace acapella::collector {

// The known times of n packets: they were sent after `from_ns`, the last one at `last`, the one before it an
// inter-arrival time earlier. These two are assigned to their times with 1/n of the amount each; the rest is
// spread evenly from `from_ns` on. If the time of the last one is unknown, everything is spread evenly up to
// the time of the report. The shares of windows add up to the exact amount.
class Spread {
  public:
    Spread(std::uint64_t from_ns, const Report& report, std::uint64_t packets, std::uint64_t width_ns);

    // Windows by number: `width_ns` each, from time zero on.
    std::uint64_t first() const { return from_ns_ / width_ns_; }
    // amounts are spread evenly up to this window
    std::uint64_t even() const { return even_ns_ / width_ns_; }
    std::uint64_t last() const { return last_ns_ / width_ns_; }

    // The part of the amount before that window.
    std::uint64_t before(std::uint64_t window, std::uint64_t amount) const;

  private:
    std::uint64_t width_ns_;
    std::uint64_t packets_;
    std::uint64_t from_ns_;
    std::uint64_t even_ns_;
    std::uint64_t last_ns_;
    unsigned placed_ = 0;  // number of packets with known times: the last one, and the one before it
};

}  // namespace acapella::collector
