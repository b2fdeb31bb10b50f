// Exact order statistics of columns that may not fit in memory: first, values are counted in bins; then, only
// the bins with the requested ranks are examined.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "kappa/sums.hpp"

namespace acapella::kappa {

// Returns the nearest rank, counted from 0: that of the ceil(count * percent / 100)-th smallest value. For 50
// percent, this is the lower median.
inline std::uint64_t nearest_rank(std::uint64_t count, std::uint64_t percent) {
    return count / 100 * percent + (count % 100 * percent + 99) / 100 - 1;
}

// Bins for 64-bit values: exact below 256, then 128 bins per power of two. A larger value is never in an
// earlier bin.
class Bins {
  public:
    static constexpr std::size_t kExactBits = 8;
    static constexpr std::size_t kPerOctave = std::size_t{1} << (kExactBits - 1);
    static constexpr std::size_t kCount = (64 - kExactBits + 2) * kPerOctave;

    static std::size_t of(std::uint64_t value) {
        if (value < 2 * kPerOctave) return value;
        const auto shift = static_cast<std::size_t>(std::bit_width(value)) - kExactBits;
        return (shift << (kExactBits - 1)) + (value >> shift);
    }
    static std::uint64_t first(std::size_t bin) {
        if (bin < 2 * kPerOctave) return bin;
        const std::size_t shift = bin / kPerOctave - 1;
        return (bin - (shift << (kExactBits - 1))) << shift;
    }
    // Returns the number of different values in a bin, minus one.
    static std::uint64_t width_less_one(std::size_t bin) {
        if (bin < 2 * kPerOctave) return 0;
        return (std::uint64_t{1} << (bin / kPerOctave - 1)) - 1;
    }
};
static_assert(Bins::kCount == 7424);

// An order statistic: the value with this rank, counted from 0.
struct OrderStatistic {
    std::uint64_t rank = 0;
    std::uint64_t value = 0;  // known if first == last
    std::uint64_t first = 0;  // the value is in the range first..last
    std::uint64_t last = 0;
    std::uint64_t inside = 0;  // rank of the value among the values in that range
    std::uint64_t count = 0;   // number of values in that range

    static OrderStatistic in_bin(std::uint64_t rank, std::span<const std::uint64_t> counts);
    [[nodiscard]] bool known() const { return first == last; }
};

// Determines the value of each statistic. `for_each(visit)` calls visit(std::uint64_t) with every value each
// time it is called. Memory is bounded: if a range contains more than kGather values, there is more than one
// pass.
inline constexpr std::size_t kGather = std::size_t{1} << 16;

template <typename ForEach>
void find_values(std::span<OrderStatistic> statistics, const ForEach& for_each);

// One pass: gathers the values between first and last if there are few, otherwise counts them in narrower
// bins.
class Narrowing {
  public:
    explicit Narrowing(OrderStatistic& statistic)
        : statistic_(&statistic), gathers_(statistic.count <= kGather) {
        if (gathers_) {
            gathered_.reserve(statistic.count);
            return;
        }
        const auto bits = static_cast<int>(std::bit_width(statistic.last - statistic.first));
        shift_ = bits > kPartBits ? bits - kPartBits : 0;
        counts_.assign(((statistic.last - statistic.first) >> shift_) + 1, 0);
    }

    void add(std::uint64_t value) {
        if (value - statistic_->first > statistic_->last - statistic_->first) return;
        if (gathers_) {
            gathered_.push_back(value);
        } else {
            ++counts_[(value - statistic_->first) >> shift_];
        }
    }

    void finish();

  private:
    static constexpr int kPartBits = 14;

    OrderStatistic* statistic_;
    bool gathers_;
    int shift_ = 0;
    std::vector<std::uint64_t> gathered_;
    std::vector<std::uint64_t> counts_;
};

template <typename ForEach>
void find_values(std::span<OrderStatistic> statistics, const ForEach& for_each) {
    for (;;) {
        std::vector<Narrowing> open;
        for (OrderStatistic& statistic : statistics) {
            if (statistic.known()) {
                statistic.value = statistic.first;
            } else {
                open.emplace_back(statistic);
            }
        }
        if (open.empty()) return;
        for_each([&open](std::uint64_t value) {
            for (Narrowing& narrowing : open) narrowing.add(value);
        });
        for (Narrowing& narrowing : open) narrowing.finish();
    }
}

}  // namespace acapella::kappa
