// The grid of a trial's clock, from the gaps between its timestamps and from the units declared in files.
// Timestamps on a grid with an offset, or on one of 512 ns, are not multiples of a power of ten.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "input/capture_reader.hpp"
#include "kappa/sums.hpp"

namespace acapella::kappa {

// The common divisor of all gaps between timestamps. A single gap, or a constant period, shows the traffic
// rather than the clock. So at least kMinGaps gaps are needed, of which kMinChanges differ from the previous
// gap.
class GapGrid {
  public:
    static constexpr std::uint64_t kMinGaps = 16;
    static constexpr std::uint64_t kMinChanges = 4;

    // Adds a timestamp of a file, in file order. Returns immediately once the common divisor is 1; with a
    // fine-grained clock, this happens after a few gaps.
    void add(std::int64_t ts_ns) {
        if (divisor_ == 1) return;
        if (timestamps_++ == 0) {
            first_ = last_ = ts_ns;
            return;
        }
        const std::uint64_t gap = ts_ns < last_ ? elapsed_ns(last_, ts_ns) : elapsed_ns(ts_ns, last_);
        last_ = ts_ns;
        if (timestamps_ > 2 && gap == gap_) return;
        changes_ += timestamps_ > 2 ? 1 : 0;
        gap_ = gap;
        take(gap);
    }

    // Adds another file of the same trial. The time between their first timestamps counts as a gap.
    void add(const GapGrid& file) {
        if (file.timestamps_ == 0) return;
        if (timestamps_ == 0) {
            *this = file;
            return;
        }
        take(file.first_ < first_ ? elapsed_ns(first_, file.first_) : elapsed_ns(file.first_, first_));
        take(file.divisor_);
        timestamps_ += file.timestamps_;
        changes_ += file.changes_ + 1;
    }

    // Returns the largest common divisor of all gaps that has no prime factors other than 2 and 5. Clock
    // units have only these factors; other factors are caused by the traffic. Returns 1 if there are too few
    // gaps.
    [[nodiscard]] std::uint64_t ns() const {
        if (divisor_ <= 1 || timestamps_ <= kMinGaps || changes_ < kMinChanges) return 1;
        std::uint64_t rest = divisor_;
        for (const std::uint64_t factor : {2, 5})
            while (rest % factor == 0) rest /= factor;
        return divisor_ / rest;
    }

  private:
    void take(std::uint64_t gap) {
        if (divisor_ == 0 || gap % divisor_ != 0) divisor_ = std::gcd(divisor_, gap);
    }

    std::uint64_t divisor_ = 0;     // of all gaps; 0: all gaps are 0
    std::uint64_t timestamps_ = 0;  // not counted after the divisor has become 1
    std::uint64_t changes_ = 0;
    std::uint64_t gap_ = 0;
    std::int64_t first_ = 0;
    std::int64_t last_ = 0;
};

// The timestamp unit declared by an interface (if_tsresol, or pcap's magic number), in whole ns, at least 1.
inline std::uint64_t declared_unit_ns(const input::Interface& interface) {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    if (interface.tsresol_binary)
        return interface.tsresol < 30 ? std::max<std::uint64_t>(kSecond >> interface.tsresol, 1) : 1;
    std::uint64_t unit = kSecond;
    for (int digit = 0; digit < interface.tsresol && unit > 1; ++digit) unit /= 10;
    return unit;
}

}  // namespace acapella::kappa
