// Matches two trials that do not fit in memory: packets are written to files, partitioned by bits of their
// identity, and each part is matched separately.
#pragma once

#include <cstdint>
#include <functional>

#include "kappa/pair.hpp"
#include "kappa/trial/trial.hpp"

namespace acapella::kappa {

// The packet of A that matches a packet of B.
struct Match {
    std::uint32_t packet_a = kUnmatched;
    std::uint32_t zero = 0;
    PacketTime in_a;
};

// Calls visit(packet, PacketTime) for every packet of a trial in order.
template <typename Visit>
void for_each_packet(const Trial& trial, const Visit& visit) {
    std::uint64_t packet = 0;
    std::int64_t last_ns = trial.first_ns;
    trial.timestamps.for_each_chunk([&](std::span<const std::int64_t> chunk) {
        for (const std::int64_t ts_ns : chunk) {
            visit(packet++, PacketTime{elapsed_ns(ts_ns, trial.first_ns), elapsed_ns(ts_ns, last_ns)});
            last_ns = ts_ns;
        }
    });
}

class PartitionedMatch {
  public:
    // Matches all packets of B. A part and its table use at most a quarter of `memory_bytes`.
    PartitionedMatch(const Trial& a, const Trial& b, std::uint64_t memory_bytes,
                     const std::string& directory);
    ~PartitionedMatch();

    [[nodiscard]] Ambiguous ambiguous() const { return ambiguous_; }
    [[nodiscard]] const CommonPackets& common() const { return common_; }
    // Calls visit(Match, PacketTime in B) for every packet of B in order.
    void for_each_of_b(const std::function<void(const Match&, const PacketTime&)>& visit) const;

  private:
    class Parts;
    // A part that was matched, or that was divided further because it was too large.
    struct Node {
        int first_bit = 0;  // first of the identity bits by which it is divided
        int bits = 0;       // 0: not divided
        std::size_t children = 0;
        std::uint64_t results_begin = 0;
        std::uint64_t results_end = 0;
    };

    void match_parts(const Parts& parts_a, const Parts& parts_b, std::size_t node);
    void match_part(const Parts& parts_a, const Parts& parts_b, std::size_t part, std::size_t node);
    void match_in_memory(const Parts& parts_a, const Parts& parts_b, std::size_t part);
    void match_equal(const Parts& parts_a, const Parts& parts_b, std::size_t part);
    void divide(const Parts& parts_a, const Parts& parts_b, std::size_t part, std::size_t node);
    void add_children(std::size_t node, int first_bit, int bits);
    [[nodiscard]] std::size_t leaf_of(const Identity& identity) const;

    const Trial& b_;
    std::string directory_;
    std::uint64_t part_bytes_;  // memory limit for matching a part
    CommonPackets common_;
    Ambiguous ambiguous_;
    SpoolFile results_;
    std::vector<Node> nodes_;  // the first one is the root
    std::size_t buffered_;     // buffer of each part, bytes
};

}  // namespace acapella::kappa
