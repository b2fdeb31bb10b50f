#include "kappa/components/quantiles.hpp"

namespace acapella::kappa {

Sought Sought::in_bin(std::uint64_t rank, std::span<const std::uint64_t> counts) {
    std::uint64_t before = 0;
    std::size_t bin = 0;
    while (before + counts[bin] <= rank) before += counts[bin++];
    const std::uint64_t first = Bins::first(bin);
    return {rank, 0, first, first + Bins::width_less_one(bin), rank - before, counts[bin]};
}

void Narrowing::finish() {
    if (gathers_) {
        const auto at = gathered_.begin() + static_cast<std::ptrdiff_t>(sought_->inside);
        std::nth_element(gathered_.begin(), at, gathered_.end());
        sought_->first = sought_->last = sought_->value = *at;
        return;
    }
    std::size_t part = 0;
    while (counts_[part] <= sought_->inside) sought_->inside -= counts_[part++];
    const std::uint64_t end = sought_->last;
    sought_->count = counts_[part];
    sought_->first += std::uint64_t{part} << shift_;
    sought_->last = std::min(end, sought_->first + ((std::uint64_t{1} << shift_) - 1));
    sought_->value = sought_->first;
}

}  // namespace acapella::kappa
