// Determines the resolution of a capture's clock from its timestamps.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace acapella::input {

// A power of ten, with constants for testing multiples of it.
struct Grid {
    std::int64_t ns;
    std::uint64_t inverse;  // of ns without its factors of 2, modulo 2^64
    std::uint64_t largest;  // (2^64 - 1) / ns
    int twos;               // exponent of 2 in ns
};

constexpr Grid grid_of(std::int64_t ns) {
    const int twos = std::countr_zero(static_cast<std::uint64_t>(ns));
    const std::uint64_t odd = static_cast<std::uint64_t>(ns) >> twos;
    std::uint64_t inverse = odd;  // correct in 3 bits; each Newton step doubles their number
    for (int step = 0; step < 5; ++step) {
        inverse *= 2 - odd * inverse;
    }
    return {ns, inverse, ~std::uint64_t{0} / static_cast<std::uint64_t>(ns), twos};
}

// Determines the resolution. Add every timestamp of one capture, in file order.
class ClockResolution {
  public:
    void add(std::int64_t ts_ns) {
        // A multiple of 10^k is a multiple of -10^k, so the sign does not matter.
        const auto bits = static_cast<std::uint64_t>(ts_ns);
        const std::uint64_t ts = ts_ns < 0 ? 0 - bits : bits;
        while (!divides(kGrids[grid_], ts)) {
            ++grid_;
        }
        if (stamps_ > 0) {
            equal_ += ts_ns == last_ ? 1 : 0;
            reversals_ += ts_ns < last_ ? 1 : 0;
        }
        last_ = ts_ns;
        ++stamps_;
    }

    // The coarsest of 1 s, 100 ms, ..., 1 ns that divides all timestamps; 0 if there are no timestamps.
    [[nodiscard]] std::int64_t resolution_ns() const { return stamps_ == 0 ? 0 : kGrids[grid_].ns; }
    // Number of timestamps equal to the previous one.
    [[nodiscard]] std::uint64_t equal() const { return equal_; }
    // Number of timestamps earlier than the previous one.
    [[nodiscard]] std::uint64_t reversals() const { return reversals_; }
    [[nodiscard]] std::uint64_t stamps() const { return stamps_; }

  private:
    // Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994, section 9:
    // one multiplication per timestamp instead of a division.
    static bool divides(const Grid& grid, std::uint64_t ts) {
        return std::rotr(ts * grid.inverse, grid.twos) <= grid.largest;
    }

    static constexpr std::array<Grid, 10> kGrids{grid_of(1'000'000'000),
                                                 grid_of(100'000'000),
                                                 grid_of(10'000'000),
                                                 grid_of(1'000'000),
                                                 grid_of(100'000),
                                                 grid_of(10'000),
                                                 grid_of(1'000),
                                                 grid_of(100),
                                                 grid_of(10),
                                                 grid_of(1)};

    std::size_t grid_ = 0;
    std::int64_t last_ = 0;
    std::uint64_t equal_ = 0;
    std::uint64_t reversals_ = 0;
    std::uint64_t stamps_ = 0;
};

}  // namespace acapella::input
