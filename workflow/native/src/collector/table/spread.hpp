// Estimates the send times of the packets by which a report increased the count of its flow.
#pragma once

#include <cstdint>

#include "collector/report/report.hpp"

namespace acapella::collector {

// The known times of n packets: all were sent after `from_ns`, the last one at `report.last`, and the
// previous one an inter-arrival time earlier. 1/n of an amount, such as the bytes of the
// packets, is assigned to each of these two times; the rest is spread evenly over the time before, starting
// at `from_ns`. If the time of the last packet is
// unknown, everything is spread evenly up to the time of the report. The shares of the windows add up to the
// exact amount.
class Spread {
  public:
    Spread(std::uint64_t from_ns, const Report& report, std::uint64_t packets, std::uint64_t width_ns);

    // Window numbers. Windows have a width of `width_ns` and start at time zero.
    std::uint64_t first() const { return from_ns_ / width_ns_; }
    // The last window over which amounts are spread evenly.
    std::uint64_t even() const { return even_ns_ / width_ns_; }
    std::uint64_t last() const { return last_ns_ / width_ns_; }

    // Returns the part of the amount before `window`.
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
