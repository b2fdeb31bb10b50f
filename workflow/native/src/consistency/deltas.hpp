// Differences between two trials' packets: their sums, quantiles and histograms.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "consistency/quantiles.hpp"
#include "consistency/spool.hpp"
#include "consistency/sums.hpp"

namespace acapella::consistency {

// Absolute differences in ns; quantiles are nearest rank, the median the lower one.
struct Deltas {
    Sum128 sum = 0;
    SignedSum128 signed_sum = 0;  // of B less A
    std::uint64_t median = 0;
    std::uint64_t p99 = 0;
    std::uint64_t largest = 0;
};

// Signed differences by size: five bins to a decade. Bin k begins at the least integer that is not below
// 10^(k/5) ns and the last one, which begins at 100 s, has no end.
class LogHistogram {
  public:
    static constexpr std::size_t kBins = 56;

    void add(std::int64_t delta) {
        if (delta == 0) {
            ++zero_;
        } else {
            ++counts_[delta < 0 ? 0 : 1][bin_of(magnitude(delta))];
        }
    }

    [[nodiscard]] std::uint64_t zero() const { return zero_; }
    [[nodiscard]] std::span<const std::uint64_t> negative() const { return counts_[0]; }
    [[nodiscard]] std::span<const std::uint64_t> positive() const { return counts_[1]; }
    static std::span<const std::uint64_t> starts();
    // Of a difference that is not 0.
    static std::size_t bin_of(std::uint64_t absolute);

  private:
    std::uint64_t zero_ = 0;
    std::array<std::array<std::uint64_t, kBins>, 2> counts_{};
};

// One kind of difference over all common packets.
class DeltaSums {
  public:
    DeltaSums(Budget& budget, std::vector<std::uint64_t> bounds)
        : values_(budget),
          bounds_(std::move(bounds)),
          within_(bounds_.size(), 0),
          bins_(2 * Bins::kCount, 0) {}

    void add(std::int64_t delta) {
        const std::uint64_t absolute = magnitude(delta);
        deltas_.sum += absolute;
        deltas_.signed_sum += delta;
        deltas_.largest = std::max(deltas_.largest, absolute);
        for (std::size_t k = 0; k < bounds_.size(); ++k) within_[k] += absolute <= bounds_[k];
        histogram_.add(delta);
        ++bins_[(delta < 0 ? 0 : Bins::kCount) + Bins::of(absolute)];
        values_.push(delta);
    }

    // With the quantiles, after the last one.
    Deltas finish();
    // The lower median of the signed differences, and the absolute ones from it; after the last one.
    std::int64_t signed_median() const;
    Deltas around(std::int64_t centre) const;

    [[nodiscard]] std::span<const std::uint64_t> within() const { return within_; }
    [[nodiscard]] const LogHistogram& histogram() const { return histogram_; }

  private:
    Column<std::int64_t> values_;
    std::vector<std::uint64_t> bounds_;
    std::vector<std::uint64_t> within_;
    std::vector<std::uint64_t> bins_;  // negative differences, then the others
    LogHistogram histogram_;
    Deltas deltas_;
};

}  // namespace acapella::consistency
