// Counts packet pairs that arrive in the opposite order, by the time between the two packets in trial A.
//
// Source: Bellardo and Savage, "Measuring Packet Reordering" (IMW 2002), cited in section 9 of the CHOIR
// paper: the probability that a pair of packets is reordered as a function of their spacing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kappa/components/deltas.hpp"
#include "kappa/trial/trial.hpp"

namespace acapella::kappa {

class CommonPackets;

// Pairs of common packets sent 1, 4, 16, ... packets apart in A.
struct Spacing {
    static constexpr std::array<std::uint64_t, 7> kDistances{1, 4, 16, 64, 256, 1024, 4096};
    static constexpr std::size_t kBins = LogHistogram::kBins + 1;  // the first one is for equal times

    static std::size_t bin_of(std::uint64_t spacing_ns) {
        return spacing_ns == 0 ? 0 : LogHistogram::bin_of(spacing_ns) + 1;
    }

    std::array<std::uint64_t, kBins> pairs{};
    std::array<std::uint64_t, kBins> reversed{};  // pairs whose later packet arrived first in B
};

// Computes the counts. Add every packet of A in order, then every common packet in the order of B.
class SpacingSums {
  public:
    // `a` and `common` must outlive this object.
    SpacingSums(const Trial& a, const CommonPackets& common);

    // `since_ns`: time since the first packet of A.
    void add_packet_of_a(std::uint64_t since_ns);
    // `in_order`: every earlier common packet of A has been added.
    void add_common(std::uint64_t packet, std::uint64_t since_ns, bool in_order) {
        if (!in_order) [[unlikely]]
            count_reversed(packet, since_ns);
        seen_[packet / 64] |= std::uint64_t{1} << packet % 64;
    }
    [[nodiscard]] const Spacing& spacing() const { return spacing_; }

  private:
    static constexpr std::uint64_t kFarthest = Spacing::kDistances.back();

    void count_reversed(std::uint64_t packet, std::uint64_t since_ns);
    [[nodiscard]] bool seen(std::uint64_t packet) const { return seen_[packet / 64] >> packet % 64 & 1; }

    const Trial& a_;
    const CommonPackets& common_;
    std::uint64_t packets_ = 0;
    std::vector<std::uint64_t> recent_;  // times of the last kFarthest packets of A
    std::vector<std::uint64_t> seen_;    // one bit per packet of A, set once it has arrived in B
    Spacing spacing_;
};

}  // namespace acapella::kappa
