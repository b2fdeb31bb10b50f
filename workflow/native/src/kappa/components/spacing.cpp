#include "kappa/components/spacing.hpp"

#include <span>

#include "kappa/pair.hpp"

namespace acapella::kappa {

SpacingSums::SpacingSums(const Trial& a, const CommonPackets& common)
    : a_(a), common_(common), recent_(kFarthest), seen_(a.size() / 64 + 1) {}

void SpacingSums::add_packet_of_a(std::uint64_t since_ns) {
    const std::uint64_t packet = packets_++;
    if (common_.has(packet)) {
        for (const std::uint64_t distance : Spacing::kDistances) {
            if (distance > packet) break;
            if (!common_.has(packet - distance)) continue;
            ++spacing_.pairs[Spacing::bin_of(since_ns - recent_[(packet - distance) % kFarthest])];
        }
    }
    recent_[packet % kFarthest] = since_ns;
}

void SpacingSums::count_reversed(std::uint64_t packet, std::uint64_t since_ns) {
    for (const std::uint64_t distance : Spacing::kDistances) {
        if (distance > packet) break;
        const std::uint64_t earlier = packet - distance;
        if (!common_.has(earlier) || seen(earlier)) continue;
        std::int64_t ts_ns = 0;
        a_.timestamps.read(earlier, std::span(&ts_ns, 1));
        ++spacing_.reversed[Spacing::bin_of(since_ns - elapsed_ns(ts_ns, a_.first_ns))];
    }
}

}  // namespace acapella::kappa
