#include "input/positions/piece_sum.hpp"

#include <algorithm>

namespace acapella::input {

void PieceSums::add(Bytes bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
        std::size_t step = std::min(bytes.size(), piece_bytes_ - in_piece_);
        if (carried_ > 0 || step < PieceSum::kStripe) {
            step = std::min(step, PieceSum::kStripe - carried_);
            std::memcpy(carry_.data() + carried_, bytes.data(), step);
            carried_ += step;
            if (carried_ == PieceSum::kStripe) {
                sum_.add(carry_.data(), carried_);
                carried_ = 0;
            }
        } else {
            step -= step % PieceSum::kStripe;
            sum_.add(bytes.data(), step);
        }
        bytes = bytes.subspan(step);
        in_piece_ += step;
        if (in_piece_ == piece_bytes_) {  // a multiple of a stripe, so nothing is carried
            sums_.push_back(sum_.value());
            sum_ = PieceSum();
            in_piece_ = 0;
        }
    }
}

const std::vector<std::uint32_t>& PieceSums::finish() {
    if (in_piece_ > 0) {
        sum_.add(carry_.data(), carried_);
        sums_.push_back(sum_.value());
        sum_ = PieceSum();
        in_piece_ = carried_ = 0;
    }
    return sums_;
}

}  // namespace acapella::input
