// Differences between the packets of two trials: sums, quantiles and histograms.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kappa/components/quantiles.hpp"
#include "kappa/spool.hpp"
#include "kappa/sums.hpp"

namespace acapella::kappa {

// Absolute differences in ns. Quantiles are nearest-rank; the median is the lower one.
struct Deltas {
    Sum128 sum = 0;
    SignedSum128 signed_sum = 0;  // B minus A
    std::uint64_t median = 0;
    std::uint64_t p99 = 0;
    std::uint64_t largest = 0;
};

// Histogram of signed differences, with five bins per decade. Bin k begins at the smallest integer greater
// than or equal to 10^(k/5) ns; the last bin begins at 100 s and is unlimited.
class LogHistogram {
  public:
    static constexpr std::size_t kBins = 56;

    void add(std::int64_t delta) {
        // Avoid branches on the sign, which is unpredictable.
        zero_ += delta == 0;
        counts_[static_cast<std::size_t>(delta >= 0) * kBins + bin_of(magnitude(delta))] += delta != 0;
    }

    [[nodiscard]] std::uint64_t zero() const { return zero_; }
    [[nodiscard]] std::span<const std::uint64_t> negative() const { return all().first(kBins); }
    [[nodiscard]] std::span<const std::uint64_t> positive() const { return all().last(kBins); }
    static std::span<const std::uint64_t> starts();
    // Returns the bin of a nonzero difference; 0 for 0.
    static std::size_t bin_of(std::uint64_t absolute);

  private:
    [[nodiscard]] std::span<const std::uint64_t> all() const { return counts_; }

    std::uint64_t zero_ = 0;
    std::array<std::uint64_t, 2 * kBins> counts_{};  // negative differences, then positive ones
};

// One kind of difference, for all common packets.
class DeltaSums {
  public:
    DeltaSums(MemoryBudget& budget, std::vector<std::uint64_t> bounds)
        : narrow_(budget),
          wide_(budget),
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
        if (const auto narrow = static_cast<std::int32_t>(delta); narrow == delta) {
            narrow_.push(narrow);
        } else {
            wide_.push(delta);
        }
    }

    // Returns the sums and quantiles; call after the last add().
    Deltas finish();
    // Returns the lower median of the signed differences. Call after the last add(), like the next function.
    std::int64_t signed_median() const;
    // Returns the sums and quantiles of the absolute distances from `center`.
    Deltas around(std::int64_t center) const;

    [[nodiscard]] std::span<const std::uint64_t> within() const { return within_; }
    [[nodiscard]] const LogHistogram& histogram() const { return histogram_; }

  private:
    [[nodiscard]] std::uint64_t count() const { return narrow_.size() + wide_.size(); }
    // Calls visit(std::int64_t) for every difference, in any order.
    template <typename Visit>
    void for_each(const Visit& visit) const {
        const auto visit_all = [&visit](const auto& chunk) {
            for (const auto value : chunk) visit(std::int64_t{value});
        };
        narrow_.for_each_chunk(visit_all);
        wide_.for_each_chunk(visit_all);
    }

    SpillColumn<std::int32_t> narrow_;  // differences that fit in 32 bits, which are most of them
    SpillColumn<std::int64_t> wide_;
    std::vector<std::uint64_t> bounds_;
    std::vector<std::uint64_t> within_;
    std::vector<std::uint64_t> bins_;  // negative differences, then the others
    LogHistogram histogram_;
    Deltas deltas_;
};

}  // namespace acapella::kappa
