#include "kappa/matching.hpp"

#include <bit>
#include <vector>

namespace acapella::kappa {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;
constexpr std::size_t kPrefetchDistance = 16;  // number of lookups prefetched

// The packets of one trial by identity, in an open-addressed table. An entry contains the first packet that
// was not taken yet; packets with the same identity are chained in trial order. Identities are already
// hashes.
class Occurrences {
  public:
    explicit Occurrences(std::span<const Identity> identities) : identities_(identities) {
        const std::size_t slots = std::bit_ceil(identities.size() + identities.size() / 2 + 1);
        mask_ = slots - 1;
        pages_.grow(slots * sizeof(Entry));
        entries_ = reinterpret_cast<Entry*>(pages_.data());
    }

    void prefetch(const Identity& identity) const { __builtin_prefetch(&entries_[identity.low & mask_]); }

    // Add packets from the last to the first, so that each chain begins with its first packet.
    void add(std::uint32_t packet) {
        Entry& entry = entry_of(identities_[packet]);
        if (entry.seen == 0) {
            entry = {packet, tag_of(identities_[packet])};
            return;
        }
        if (next_.empty()) next_.assign(identities_.size(), kNone);
        ambiguous_ += next_[entry.packet] == kNone ? 2 : 1;
        next_[packet] = entry.packet;
        entry.packet = packet;
    }

    // Takes the first packet with this identity that was not taken yet, or kNone. `known`: true if the table
    // contains the identity.
    struct TakeResult {
        std::uint32_t packet = kNone;
        bool known = false;
        std::uint32_t lookups = 0;  // number of earlier calls; 2: two or more
    };
    TakeResult take(const Identity& identity) {
        Entry& entry = entry_of(identity);
        if (entry.seen == 0) return {};
        TakeResult taken{entry.exhausted ? kNone : entry.packet, true, entry.lookups};
        if (entry.lookups < 2) entry.lookups = (entry.lookups + 1) & 3;
        if (!entry.exhausted) {
            const std::uint32_t next = next_.empty() ? kNone : next_[entry.packet];
            if (next == kNone) {
                entry.exhausted = 1;  // keep `packet`, because it identifies the entry
            } else {
                entry.packet = next;
            }
        }
        return taken;
    }

    std::uint64_t ambiguous() const { return ambiguous_; }

  private:
    struct Entry {
        Entry() = default;
        Entry(std::uint32_t first, std::uint32_t entry_tag)
            : packet(first), tag(entry_tag & kTagBits), seen(1), exhausted(0), lookups(0) {}

        std::uint32_t packet;
        std::uint32_t tag : 28;  // part of the identity, so that other entries are rarely compared
        std::uint32_t seen : 1;
        std::uint32_t exhausted : 1;
        std::uint32_t lookups : 2;
    };
    static constexpr std::uint32_t kTagBits = (1U << 28) - 1;
    static_assert(sizeof(Entry) == 8);

    static std::uint32_t tag_of(const Identity& identity) {
        return static_cast<std::uint32_t>(identity.high) & kTagBits;
    }

    Entry& entry_of(const Identity& identity) {
        const std::uint32_t tag = tag_of(identity);
        std::size_t slot = identity.low & mask_;
        while (entries_[slot].seen &&
               (entries_[slot].tag != tag || identities_[entries_[slot].packet] != identity))
            slot = (slot + 1) & mask_;
        return entries_[slot];
    }

    std::span<const Identity> identities_;
    std::size_t mask_ = 0;
    Pages pages_;
    Entry* entries_ = nullptr;
    std::vector<std::uint32_t> next_;  // empty if no identity occurs twice
    std::uint64_t ambiguous_ = 0;
};

Occurrences occurrences_of(std::span<const Identity> identities) {
    Occurrences occurrences(identities);
    for (std::size_t i = identities.size(); i-- > 0;) {
        if (i >= kPrefetchDistance) occurrences.prefetch(identities[i - kPrefetchDistance]);
        occurrences.add(static_cast<std::uint32_t>(i));
    }
    return occurrences;
}

}  // namespace

Ambiguous match(std::span<const Identity> a, std::span<const Identity> b, std::span<std::uint32_t> matches) {
    Occurrences in_a = occurrences_of(a);
    Ambiguous ambiguous{in_a.ambiguous(), 0};
    std::vector<Identity> foreign;  // identities of B that are not in A
    for (std::size_t i = 0; i < b.size(); ++i) {
        if (i + kPrefetchDistance < b.size()) in_a.prefetch(b[i + kPrefetchDistance]);
        const Occurrences::TakeResult taken = in_a.take(b[i]);
        matches[i] = taken.packet;
        if (!taken.known) {
            foreign.push_back(b[i]);
        } else if (taken.lookups > 0) {
            ambiguous.b += taken.lookups == 1 ? 2 : 1;
        }
    }
    if (foreign.size() > 1) ambiguous.b += occurrences_of(foreign).ambiguous();
    return ambiguous;
}

}  // namespace acapella::kappa
