// When the packets were that a report added to its flow.
#pragma once

#include <cstdint>

#include "collector/report/report.hpp"

namespace acapella::collector {

// What is known of n packets: they came after `from_ns`, the last one at `last`, the one before it an
// inter-arrival time earlier. These two stand at their times with an nth of the amount each, and the rest is
// spread evenly over the time from `from_ns` on; where the last one's time is not known, all of it is, up to
// the time of the report. Shares of windows add up to the amount, to the byte.
class Spread {
  public:
    Spread(std::uint64_t from_ns, const Report& report, std::uint64_t packets, std::uint64_t width_ns);

    // Windows by number: `width_ns` each from the clock's zero on.
    std::uint64_t first() const { return from_ns_ / width_ns_; }
    std::uint64_t even() const { return even_ns_ / width_ns_; }  // up to this one it is spread evenly
    std::uint64_t last() const { return last_ns_ / width_ns_; }

    // How much of the amount came before that window.
    std::uint64_t before(std::uint64_t window, std::uint64_t amount) const;

  private:
    std::uint64_t width_ns_;
    std::uint64_t packets_;
    std::uint64_t from_ns_;
    std::uint64_t even_ns_;
    std::uint64_t last_ns_;
    unsigned placed_ = 0;  // packets whose times are known: the last one, then the one before it, too
};

}  // namespace acapella::collector
