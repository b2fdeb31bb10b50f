#include "kappa/components/deltas.hpp"

#include <algorithm>

namespace acapella::kappa {
namespace {

// 10^(r/5) for r = 0..4 with 15 decimals, truncated.
constexpr std::array<std::uint64_t, 5> kFifthRoots{1000000000000000, 1584893192461113, 2511886431509580,
                                                   3981071705534972, 6309573444801932};
constexpr std::uint64_t kUnit = 1000000000000000;

constexpr std::array<std::uint64_t, LogHistogram::kBins> make_starts() {
    std::array<std::uint64_t, LogHistogram::kBins> starts{};
    std::uint64_t divisor = kUnit;
    for (std::size_t k = 0; k < starts.size(); ++k) {
        if (k > 0 && k % 5 == 0) divisor /= 10;
        // Only the powers of ten are integers; the others are rounded up.
        starts[k] = kFifthRoots[k % 5] / divisor + (k % 5 == 0 ? 0 : 1);
    }
    return starts;
}

constexpr std::array<std::uint64_t, LogHistogram::kBins> kStarts = make_starts();
static_assert(kStarts[0] == 1 && kStarts[1] == 2 && kStarts[4] == 7 && kStarts[5] == 10 &&
              kStarts[55] == 100'000'000'000);

// The largest difference of each bin.
constexpr std::array<std::uint64_t, LogHistogram::kBins> kBinEnds = [] {
    std::array<std::uint64_t, LogHistogram::kBins> lasts{};
    for (std::size_t k = 0; k + 1 < lasts.size(); ++k) lasts[k] = kStarts[k + 1] - 1;
    lasts.back() = ~std::uint64_t{0};
    return lasts;
}();

// By bit width: the last bin that begins at or below the smallest number with that width.
constexpr std::array<std::uint8_t, 65> make_first_bins() {
    std::array<std::uint8_t, 65> bins{};
    for (std::size_t width = 1; width < bins.size(); ++width) {
        const std::uint64_t smallest = std::uint64_t{1} << (width - 1);
        std::size_t bin = 0;
        while (bin + 1 < kStarts.size() && kStarts[bin + 1] <= smallest) ++bin;
        bins[width] = static_cast<std::uint8_t>(bin);
    }
    return bins;
}

constexpr std::array<std::uint8_t, 65> kFirstBins = make_first_bins();

void find_quantiles(Deltas& deltas, std::span<const std::uint64_t> bins, std::uint64_t count,
                    const auto& for_each) {
    std::array<OrderStatistic, 2> statistic{OrderStatistic::in_bin(nearest_rank(count, 50), bins),
                                            OrderStatistic::in_bin(nearest_rank(count, 99), bins)};
    find_values(std::span<OrderStatistic>(statistic), for_each);
    deltas.median = statistic[0].value;
    deltas.p99 = statistic[1].value;
}

}  // namespace

std::span<const std::uint64_t> LogHistogram::starts() { return kStarts; }

std::size_t LogHistogram::bin_of(std::uint64_t absolute) {
    std::size_t bin = kFirstBins[static_cast<std::size_t>(std::bit_width(absolute))];
    // At most two bins begin within one octave.
    for (int step = 0; step < 2; ++step) bin += absolute > kBinEnds[bin];
    return bin;
}

Deltas DeltaSums::finish() {
    if (count() == 0) return deltas_;
    std::vector<std::uint64_t> bins(Bins::kCount);
    for (std::size_t i = 0; i < bins.size(); ++i) bins[i] = bins_[i] + bins_[Bins::kCount + i];
    find_quantiles(deltas_, bins, count(), [this](const auto& visit) {
        for_each([&visit](std::int64_t value) { visit(magnitude(value)); });
    });
    return deltas_;
}

std::int64_t DeltaSums::signed_median() const {
    if (count() == 0) return 0;
    std::uint64_t negative = 0;
    for (std::size_t i = 0; i < Bins::kCount; ++i) negative += bins_[i];
    const std::uint64_t rank = nearest_rank(count(), 50);
    const std::span<const std::uint64_t> bins(bins_);
    // Negative differences are sorted by descending magnitude.
    const bool below = rank < negative;
    OrderStatistic statistic = below ? OrderStatistic::in_bin(negative - 1 - rank, bins.first(Bins::kCount))
                                     : OrderStatistic::in_bin(rank - negative, bins.subspan(Bins::kCount));
    find_values(std::span(&statistic, 1), [&](const auto& visit) {
        for_each([&](std::int64_t value) {
            if ((value < 0) == below) visit(magnitude(value));
        });
    });
    return static_cast<std::int64_t>(below ? std::uint64_t{0} - statistic.value : statistic.value);
}

Deltas DeltaSums::around(std::int64_t center) const {
    Deltas deltas;
    if (count() == 0) return deltas;
    const auto distance = [center](std::int64_t value) {
        return value < center ? elapsed_ns(center, value) : elapsed_ns(value, center);
    };
    std::vector<std::uint64_t> bins(Bins::kCount, 0);
    const auto for_each_distance = [&](const auto& visit) {
        for_each([&](std::int64_t value) { visit(distance(value)); });
    };
    for_each_distance([&](std::uint64_t value) {
        deltas.sum += value;
        deltas.largest = std::max(deltas.largest, value);
        ++bins[Bins::of(value)];
    });
    deltas.signed_sum =
        deltas_.signed_sum - static_cast<SignedSum128>(center) * static_cast<SignedSum128>(count());
    find_quantiles(deltas, bins, count(), for_each_distance);
    return deltas;
}

}  // namespace acapella::kappa
