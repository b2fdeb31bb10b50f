#include "kappa/components/quantiles.hpp"

namespace acapella::kappa {

OrderStatistic OrderStatistic::in_bin(std::uint64_t rank, std::span<const std::uint64_t> counts) {
    std::uint64_t lower = 0;
    std::size_t bin = 0;
    while (lower + counts[bin] <= rank) lower += counts[bin++];
    const std::uint64_t first = Bins::first(bin);
    return {rank, 0, first, first + Bins::width_less_one(bin), rank - lower, counts[bin]};
}

void Narrowing::finish() {
    if (gathers_) {
        const auto at = gathered_.begin() + static_cast<std::ptrdiff_t>(statistic_->inside);
        std::nth_element(gathered_.begin(), at, gathered_.end());
        statistic_->first = statistic_->last = statistic_->value = *at;
        return;
    }
    std::size_t part = 0;
    while (counts_[part] <= statistic_->inside) statistic_->inside -= counts_[part++];
    const std::uint64_t end = statistic_->last;
    statistic_->count = counts_[part];
    statistic_->first += std::uint64_t{part} << shift_;
    statistic_->last = std::min(end, statistic_->first + ((std::uint64_t{1} << shift_) - 1));
    statistic_->value = statistic_->first;
}

}  // namespace acapella::kappa
